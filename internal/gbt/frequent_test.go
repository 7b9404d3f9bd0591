package gbt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"coppice/internal/must"
)

// sparseTable has one bin in most cells of most features.
func sparseTable(rows, features int) *table {
	d := randomTable(tableSpec{rows: rows, numerical: features, bins: 254, missing: 0.93, seed: 11})
	rng := rand.New(rand.NewPCG(12, 12))
	for f := 0; f < features; f += 50 {
		for r := range d.Rows {
			d.Columns[f][r] = byte(rng.IntN(254))
			d.RowMajor[r*features+f] = d.Columns[f][r]
		}
	}
	for r := range d.Label {
		d.Label[r] = 0
		if int(d.Columns[0][r])+rng.IntN(200) > 220 {
			d.Label[r] = 1
		}
	}
	return d
}

func TestSparseHistogramsAreExact(t *testing.T) {
	long(t)
	for _, width := range []int{70, 300} {
		d := sparseTable(70_000, width)
		gh := make([]uint32, d.Rows)
		rng := rand.New(rand.NewPCG(13, 13))
		for r := range gh {
			gh[r] = rng.Uint32()
		}
		var all, some, features, few []uint32
		for r := range uint32(d.Rows) {
			all = append(all, r)
			if r%7 == 3 {
				some = append(some, r)
			}
		}
		for f := range uint32(width) {
			features = append(features, f)
			if f%3 > 0 {
				few = append(few, f)
			}
		}
		for _, rows := range [][]uint32{all, some, all[50:51]} {
			for _, chosen := range [][]uint32{features, few} {
				for _, threads := range []int{1, 3} {
					t.Run(fmt.Sprintf("%d rows, %d of %d features, %d threads", len(rows), len(chosen), width, threads),
						func(t *testing.T) {
							c := newHistogramBuilder(&d.Data, testPool(t, threads))
							list := ints(chosen)
							c.begin(list, gh, packing{hessianBits: bitsVaryingHessian})
							if canPickBytes() && c.way != waySparse {
								t.Fatalf("added the way %d", c.way)
							}
							h := built(c, rows)
							if f := c.stray(); f >= 0 {
								t.Fatalf("feature %d has stray bins", f)
							}
							want := naive(&d.Data, rows, list, gh, c.kernel.pack, c.offset)
							for _, f := range list {
								for i := c.offset[f]; i < c.offset[f+1]; i++ {
									if g, hs := h.at(i, c.kernel.pack); g != want[i].g || hs != want[i].h {
										t.Fatalf("feature %d, bin %d: got %d, %d, want %d, %d", f, i-c.offset[f], g, hs,
											want[i].g, want[i].h)
									}
								}
							}
						})
				}
			}
		}
	}
}

func ints(s []uint32) []int {
	var out []int
	for _, x := range s {
		out = append(out, int(x))
	}
	return out
}

// A model must not depend on the way of adding rows, which depends on the processor.
func TestSparseModelDoesNotDependOnTheWay(t *testing.T) {
	d := sparseTable(3000, 120)
	p := Defaults()
	p.NumIterations, p.FeatureFraction = 5, 0.8
	train := func(change func(*histogramBuilder)) []byte {
		b := must.Get(newBooster(context.Background(), &d.Data, p, Options{}, poolOf(1)))(t)
		change(b.grow.histograms)
		for b.stopped == "" {
			must.Do(t, b.step(t.Context()))
		}
		var text bytes.Buffer
		if _, err := b.result().Model.WriteTo(&text); err != nil {
			t.Fatal(err)
		}
		return text.Bytes()
	}
	fast := train(func(*histogramBuilder) {})
	dense := train(func(c *histogramBuilder) { clear(c.frequent.share) })
	if !bytes.Equal(fast, dense) {
		t.Error("adding less frequent bins alone gives another model")
	}
}

func TestByteThatIsNoBinIsAnError(t *testing.T) {
	for name, d := range map[string]*table{
		"dense":  randomTable(tableSpec{rows: 3000, numerical: 9, bins: 30, seed: 14}),
		"sparse": sparseTable(3000, 100),
	} {
		t.Run(name, func(t *testing.T) {
			const row, feature = 2345, 7
			d.RowMajor[row*len(d.Features)+feature] = byte(d.Features[feature].Bins)
			p := Defaults()
			p.NumIterations = 1
			_, err := Train(t.Context(), &d.Data, p, Options{Threads: 1})
			if err == nil {
				t.Fatal("trained on a byte that is no bin")
			}
		})
	}
}

// The bytes of a column that is not used do not matter, whichever way the others are added, in this or a later tree.
func TestStrayByteOfAnIgnoredColumnIsNoError(t *testing.T) {
	for name, d := range map[string]*table{
		"dense":  randomTable(tableSpec{rows: 3000, numerical: 9, bins: 30, seed: 14}),
		"sparse": sparseTable(3000, 100),
	} {
		t.Run(name, func(t *testing.T) {
			p := Defaults()
			p.NumIterations, p.FeatureFraction, p.IgnoreColumn = 12, 0.6, "7"
			if raceEnabled {
				p.NumIterations = 4
			}
			want := mustTrain(t, &d.Data, p, Options{Threads: 2})
			for r := range d.Rows {
				if r%3 == 0 {
					d.RowMajor[r*len(d.Features)+7] = 255
				}
			}
			got := mustTrain(t, &d.Data, p, Options{})
			if !slices.EqualFunc(got.Model.Trees, want.Model.Trees,
				func(a, b *Tree) bool { return slices.Equal(a.LeafValue, b.LeafValue) }) {
				t.Error("an ignored column changes the model")
			}
		})
	}
}

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
