package fit

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestOneIn: a sample has one row of every so many, the same for everybody.
func TestOneIn(t *testing.T) {
	for name, d := range map[string]gbt.Data{
		"all rows": {Rows: 1000},
		"some of them": {Rows: 4000, Subset: slices.Collect(func(yield func(uint32) bool) { // every fourth
			for i := uint32(3); i < 4000 && yield(i); i += 4 {
			}
		})},
	} {
		rows := oneIn(&d, 9, false)
		if want := (d.Used() + 8) / 9; len(rows) != want || !slices.IsSorted(rows) {
			t.Errorf("%s: one in 9 of %d is %d rows, ascending %t; want %d, ascending", name, d.Used(), len(rows),
				slices.IsSorted(rows), want)
		}
		for i, r := range rows {
			place := int(r)
			if d.Subset != nil {
				place = slices.Index(d.Subset, r)
			}
			if place/9 != i {
				t.Fatalf("%s: row %d of the sample is the one at %d; want one of %d to %d", name, i, place, 9*i, 9*i+8)
			}
		}
		if again := oneIn(&d, 9, false); !slices.Equal(again, rows) {
			t.Errorf("%s: drawn again, other rows; want the same", name)
		}
	}
}

// TestTrainingOnASample: it sees a part of the rows, with parameters that fit so few, and valid rates it whole.
func TestTrainingOnASample(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 3000})
	m := must.Get(metric.Lookup("auc"))(t)
	p := gbt.Defaults()
	p.NumIterations, p.MinDataInLeaf, p.LambdaL2 = 10, 60, 8
	whole := Request{Params: p, Metric: m, Threads: 1, Valid: &sweep.Rows{Split: "valid"}}
	part := whole
	part.OneIn = 4

	all := must.Get(table.Train(t.Context(), whole))(t)
	some := must.Get(table.Train(t.Context(), part))(t)
	if want := (all.TrainRows + 3) / 4; some.TrainRows != want {
		t.Errorf("trained on %d rows of %d; want %d", some.TrainRows, all.TrainRows, want)
	}
	if !(some.Score > 0.5) || some.Score == all.Score {
		t.Errorf("the score of the sample's model is %v, of the whole one %v; want another one above 0.5", some.Score,
			all.Score)
	}
	if a, b := table.Identity(whole), table.Identity(part); a == b {
		t.Errorf("both trainings have the identity %q; want two, or one would go on from the other's checkpoint", a)
	}

	if got := p.ForSample(4); got.MinDataInLeaf != 15 || got.LambdaL2 != 2 ||
		got.LearningRate != p.LearningRate {
		t.Errorf("parameters of a sample: min_data_in_leaf %d, lambda_l2 %v; want 15, 2", got.MinDataInLeaf,
			got.LambdaL2)
	}
	if got := p.ForSample(100); got.MinDataInLeaf != 1 {
		t.Errorf("min_data_in_leaf of one row in 100: %d, want 1", got.MinDataInLeaf)
	}
}

// TestOneOrder: a table whose train has its rows in three orders, taken once, trains what it would with one order.
func TestOneOrder(t *testing.T) {
	open := func(copies int) *Table {
		return night(t, datasettest.Options{Rows: 2000, Encodings: fmt.Sprintf("{columns: {site: [rate, count]}, "+
			"budget: 0, order: {copies: %d}}", copies)})
	}
	one, three := open(1), open(3)
	q := Request{Params: few(), Rows: []sweep.Rows{{Split: sweep.Train}}}
	want, text := trained(t, one, q)
	all, _ := trained(t, three, q)
	q.Rows[0].Once = true
	got, same := trained(t, three, q)
	if all.TrainRows != 3*want.TrainRows || got.TrainRows != want.TrainRows || !bytes.Equal(same, text) {
		t.Errorf("three orders: %d rows, one of them %d; expected three times %d and once, and the same model",
			all.TrainRows, got.TrainRows, want.TrainRows)
	}
	q.Rows[0].Once = false
	if id := three.Identity(q); id == three.Identity(Request{Params: q.Params, Rows: []sweep.Rows{{Split: sweep.Train,
		Once: true}}}) {
		t.Errorf("%s: a checkpoint of one order is taken for one of all", id)
	}
}
