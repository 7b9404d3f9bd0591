package fit

import (
	"math"
	"regexp"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestBag: the model is the mean of models that each leave one fold out, the same for any number of threads, and what
// measures and calibrates them are scores of rows that the scoring model has not learnt from.
func TestBag(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900})
	var err error
	q := request(t)
	if q.Metric, err = metric.Lookup("log_loss"); err != nil {
		t.Fatal(err)
	}
	q.Bag, q.Final = 5, true
	for _, split := range []string{sweep.Train, sweep.Valid, sweep.Calib, sweep.Test} {
		q.Rows = append(q.Rows, sweep.Rows{Split: split})
	}
	one := must.Get(table.Train(t.Context(), q))(t)
	if one.Calibrator == nil || !(one.Score > 0) || one.TrainRows != 900 || one.Best != one.Model.Iterations() {
		t.Errorf("a bag has calibrator %v, score %v, %d rows and %d trees of %d", one.Calibrator, one.Score,
			one.TrainRows, one.Model.Iterations(), one.Best)
	}

	// Each model by itself, and the loss of what it has not seen, the slow way.
	all := must.Get(table.trainingRows(q.Rows, true, false))(t)
	var fold []uint8
	for _, part := range q.Rows {
		fold = append(fold, table.ds.Split(part.Split).Fold...)
	}
	sum, rows, trees := 0.0, 0, 0
	for k := range 5 {
		b := &bag{q: q, stop: q.Metric, all: all, threads: 1, fold: make([]uint8, len(fold)),
			raw: make([]float64, len(fold))}
		for i, f := range fold {
			b.fold[i] = uint8(int(f) * 5 / dataset.Folds)
		}
		part := must.Get(b.train(t.Context(), uint8(k), ""))(t)
		trees += part.Model.Iterations()
		for i, f := range b.fold {
			if int(f) == k {
				p := 1 / (1 + math.Exp(-b.raw[i]))
				sum -= math.Log(map[bool]float64{true: p, false: 1 - p}[all.Label[i] == 1])
				rows++
			} else if b.raw[i] != 0 {
				t.Fatalf("row %d of fold %d is scored by the model that leaves fold %d out", i, f, k)
			}
		}
	}
	if got := one.Metrics["log_loss"]; rows != 900 || math.Abs(got-sum/900) > 1e-12 || trees != one.Model.Iterations() {
		t.Errorf("the loss out of fold is %v of %d trees, the slow way %v of %d rows and %d trees", got,
			one.Model.Iterations(), sum/900, rows, trees)
	}

	for _, threads := range []int{2, 7} {
		q.Threads = threads
		again, err := table.Train(t.Context(), q)
		if err != nil || text(t, again.Model) != text(t, one.Model) || again.Score != one.Score {
			t.Errorf("with %d threads: %v, or another model", threads, err)
		}
	}
}

// TestBagOfFewKeys: where folds are empty, the others make the bag, and a metric that is not defined for the rows of a
// fold stops nothing.
func TestBagOfFewKeys(t *testing.T) {
	table := open(t, datasettest.Options{Rows: 900, Edit: func(csv []byte) []byte {
		return regexp.MustCompile(`(?m)^u\d*(\d),`).ReplaceAll(csv, []byte("u$1,")) // ten users
	}})
	q := request(t)
	q.Bag, q.Final, q.Threads = 10, true, 2
	folds := map[uint8]bool{}
	for _, rows := range table.ds.Manifest.Splits {
		q.Rows = append(q.Rows, sweep.Rows{Split: rows.Name})
		for _, f := range table.ds.Split(rows.Name).Fold {
			folds[f] = true
		}
	}
	for _, name := range []string{"ndcg@5", "f1"} {
		m := must.Get(metric.Lookup(name))(t)
		q.Metric = m
		o, err := table.Train(t.Context(), q)
		if err != nil || o.Calibrator == nil || len(folds) > 9 || len(folds) < 2 {
			t.Fatalf("%s, %d of 10 folds have rows: %v", name, len(folds), err)
		}
	}
}
