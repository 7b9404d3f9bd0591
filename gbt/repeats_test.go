package gbt

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRepeatsAreFound(t *testing.T) {
	for _, share := range []float64{0, 0.1, 0.5, 1} {
		d := randomTable(tableSpec{rows: 10_001, numerical: 21, bins: 60, repeats: share, seed: 3})
		for _, threads := range []int{1, 3} {
			r, found := findRepeats(&d.Data, testCrew(t, threads))
			if share*21 < repeatCost {
				if r != nil || found != 0 {
					t.Fatalf("%v: %d words, %v, where a pass over the table is not worth it", share, len(r), found)
				}
				continue
			}
			if found < share-0.1 || found > share {
				t.Errorf("a share of %v is taken for %v", share, found)
			}
			for row := range d.Rows {
				want := row > 0 && slices.Equal(d.RowMajor[row*21:row*21+21], d.RowMajor[row*21-21:row*21])
				if got := r[row>>6]>>(row&63)&1 == 1; got != want {
					t.Fatalf("row %d repeats the one before: %v, want %v", row, got, want)
				}
			}
		}
	}
}

func TestHistogramsOfRunsAreExact(t *testing.T) {
	d := randomTable(tableSpec{rows: blockRows + 3000, numerical: 18, categorical: 3, bins: 200, repeats: 0.6, seed: 4})
	rng := rand.New(rand.NewPCG(5, 5))
	gh := make([]uint32, d.Rows)
	for r := range gh {
		gh[r] = rng.Uint32()
	}
	var all, bag, leaf []uint32 // leaf has all rows of a run or none
	for r := range uint32(d.Rows) {
		all = append(all, r)
		if rng.IntN(5) > 0 {
			bag = append(bag, r)
		}
		if d.Columns[2][r] < 90 {
			leaf = append(leaf, r)
		}
	}
	features := make([]int, len(d.Features))
	for f := range features {
		features[f] = f
	}
	for name, rows := range map[string][]uint32{"all": all, "bag": bag, "leaf": leaf, "one": all[77:78]} {
		for threads, pack := range []packing{1: {shift: variable}, 2: {shift: constant}, 3: {shift: variable}} {
			if threads == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d threads", name, threads), func(t *testing.T) {
				gh := slices.Clone(gh)
				if pack.shift == constant {
					for r := range gh { // the 24-bit gradient
						gh[r] = uint32(int32(gh[r]) >> 8)
					}
				}
				c := newCounter(&d.Data, testCrew(t, threads))
				c.begin(features, gh, pack)
				if c.way != runs {
					t.Fatalf("counted the way %d", c.way)
				}
				h := counted(c, rows)
				want := naive(&d.Data, rows, features, gh, c.kernel.pack, c.offset)
				for i := range want {
					if g, hs := h.at(i, c.kernel.pack); g != want[i].g || hs != want[i].h {
						t.Fatalf("bin %d: got %d, %d, want %v", i, g, hs, want[i])
					}
				}
			})
		}
	}
}

// A model may not depend on whether repeats are looked for.
func TestModelDoesNotDependOnRepeats(t *testing.T) {
	for _, regression := range []bool{false, true} {
		d := randomTable(tableSpec{rows: 20_000, numerical: 20, categorical: 2, bins: 60, repeats: 0.7, weights: regression, regression: regression, seed: 6})
		p := Defaults()
		p.NumIterations, p.BaggingFraction, p.BaggingFreq = 4, 0.7, 1
		if regression {
			p.Objective = "regression"
		}
		var models [2][]byte
		for i := range models {
			b, err := newBooster(t.Context(), &d.Data, p, Options{}, testCrew(t, 2))
			if err != nil {
				t.Fatal(err)
			}
			if c := b.grow.count; i == 0 {
				c.repeats, c.alike = nil, 0
			} else if c.alike < 0.5 {
				t.Fatalf("a share of %v repeats", c.alike)
			}
			for b.stopped == "" {
				if err := b.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			models[i] = text(t, b.result().Model)
		}
		if !bytes.Equal(models[0], models[1]) {
			t.Errorf("regression %t: counting by runs gives another model", regression)
		}
	}
}
