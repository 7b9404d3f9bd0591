package gbt

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// stacked returns the table repeated n times.
func (t *table) stacked(n int) *table {
	s := &table{Data: Data{Rows: n * t.Rows, Features: t.Features, RowMajor: slices.Repeat(t.RowMajor, n),
		Label: slices.Repeat(t.Label, n)}}
	for _, c := range t.Columns {
		s.Columns = append(s.Columns, slices.Repeat(c, n))
	}
	return s
}

// TestCopiesCountOnce: minimum sizes apply to original rows, for any number of copies; the model file states them
// unscaled.
func TestCopiesCountOnce(t *testing.T) {
	const n = 3
	d := randomTable(tableSpec{rows: 2000, numerical: 4, categorical: 3, bins: 40, regression: true,
		seed: 2}).stacked(n)
	least := func(p Params, copies int) (rows int, hessian float64) {
		d.Copies = copies
		m := mustTrain(t, &d.Data, p, Options{}).Model
		if line := []byte("[min_data_in_leaf: 30]\n"); !bytes.Contains(text(t, m), line) {
			t.Errorf("%d copies: the model has no %q", copies, line)
		}
		rows, hessian = d.Rows, inf
		for _, tree := range m.Trees {
			rows, hessian = min(rows, slices.Min(tree.LeafCount)), min(hessian, slices.Min(tree.LeafWeight))
		}
		return rows, hessian
	}
	p := small()
	p.Objective, p.NumLeaves, p.MinDataInLeaf = "regression", 63, 30
	if rows, _ := least(p, 1); rows >= 30*n || rows < 30 {
		t.Fatalf("the smallest leaf of a table that is not of copies has %d rows", rows)
	}
	if rows, _ := least(p, n); rows < 30*n {
		t.Errorf("a leaf has %d rows, fewer than 30 originals", rows)
	}
	p.MinSumHessian = 50
	if _, h := least(p, 1); h >= 50*n {
		t.Fatalf("the least hessian of a table that is not of copies is %v", h)
	}
	if _, h := least(p, n); h < 50*n {
		t.Errorf("a leaf has the hessian %v, less than 50 per copy", h)
	}
	many := p.forCopies(n)
	if many.MinDataPerGroup != n*p.MinDataPerGroup || many.LambdaL2 != p.LambdaL2 || many.CatSmooth != p.CatSmooth {
		t.Errorf("for %d copies: %+v", n, many)
	}
}

func TestOneCopyIsNone(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 3, categorical: 1, bins: 20, seed: 2})
	want := text(t, mustTrain(t, &d.Data, small(), Options{}).Model)
	d.Copies = 1
	if !bytes.Equal(text(t, mustTrain(t, &d.Data, small(), Options{}).Model), want) {
		t.Error("one copy is another model than none")
	}
	for _, bad := range []int{-1, d.Rows + 1} {
		d.Copies = bad
		if _, err := Train(t.Context(), &d.Data, small(), Options{}); !errors.Is(err, ErrData) {
			t.Errorf("%d copies: %v", bad, err)
		}
	}
}
