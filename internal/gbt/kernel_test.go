package gbt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive adds up rows with plain integers.
func naive(d *Data, rows []uint32, features []int, gh []uint32, pack packing, offset []int) []wide {
	sums := make([]wide, offset[len(offset)-1])
	for _, r := range rows {
		g, h := pack.sums(pack.word(gh[r]))
		for _, f := range features {
			i := offset[f] + int(d.Columns[f][r])
			sums[i].g += g
			sums[i].h += h
		}
	}
	return sums
}

func TestHistogramsAreExact(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	// More rows than a word can take, an odd number of features, and the largest possible gradients.
	d := randomTable(tableSpec{rows: 3*maxPackedRows + 77, numerical: 9, categorical: 4, bins: 254, missing: 0.1,
		seed: 1})
	rng := rand.New(rand.NewPCG(2, 2))
	gh := make([]uint32, d.Rows)
	for r := range gh {
		switch rng.IntN(3) {
		case 0:
			gh[r] = uint32(maxG16+1)<<16 | (maxH16 + 1)
		case 1:
			gh[r] = uint32(uint16(65536-maxG16-1))<<16 | (maxH16 + 1)
		default:
			gh[r] = rng.Uint32()
		}
	}
	all := make([]uint32, d.Rows)
	for i := range all {
		all[i] = uint32(i)
	}
	var some []uint32
	for _, r := range all {
		if rng.IntN(9) == 0 {
			some = append(some, r)
		}
	}
	features := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	counts := []int{1, 2, 3}
	if raceEnabled {
		counts = []int{3}
	}
	for _, pack := range []packing{{hessianBits: bitsVaryingHessian}, {hessianBits: bitsUnitHessian}} {
		for _, threads := range counts {
			for _, chosen := range [][]int{features, {0, 5, 12}, {4}} {
				for name, rows := range map[string][]uint32{"all": all, "some": some, "few": all[100:170],
					"none": nil} {
					t.Run(fmt.Sprintf("shift %d, %d threads, %d features, %s", pack.hessianBits, threads, len(chosen),
						name), func(t *testing.T) {
						use := slices.Clone(gh)
						if pack.hessianBits == bitsUnitHessian {
							for r := range use { // the 24-bit gradient
								use[r] = uint32(int32(use[r]) >> 8)
							}
						}
						c := newHistogramBuilder(&d.Data, testPool(t, threads))
						c.begin(chosen, use, pack)
						built(c, all[:500]) // to use the workspace first
						h := built(c, rows)
						want := naive(&d.Data, rows, chosen, use, pack, c.offset)
						for _, f := range chosen { // others may have been added, too
							for i := c.offset[f]; i < c.offset[f+1]; i++ {
								if g, hs := h.at(i, pack); g != want[i].g || hs != want[i].h {
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

// reduced returns a pair with all its features reduced.
func reduced(c *histogramBuilder, m histogramPair) histogramPair {
	for i := range c.features {
		c.reduce(&m, i)
	}
	c.release(&m)
	return m
}

// built returns the histogram of rows.
func built(c *histogramBuilder, rows []uint32) histogram {
	return reduced(c, c.build(rows, len(rows), histogram{}, 0)).smaller
}

func TestSubtract(t *testing.T) {
	d := randomTable(tableSpec{rows: 2*maxPackedRows + 5, numerical: 3, bins: 30, seed: 3})
	gh := make([]uint32, d.Rows)
	rng := rand.New(rand.NewPCG(4, 4))
	for r := range gh {
		gh[r] = rng.Uint32()
	}
	all := make([]uint32, d.Rows)
	for i := range all {
		all[i] = uint32(i)
	}
	pack := packing{hessianBits: bitsVaryingHessian}
	for _, tc := range []struct{ parent, child int }{
		{2*maxPackedRows + 5, maxPackedRows + 2}, // wide - wide = packed
		{2*maxPackedRows + 5, 400},               // wide - packed = wide
		{maxPackedRows + 9, 300},                 // wide - packed = packed
		{maxPackedRows, 300},                     // packed - packed
		{50, 0},
	} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			c := newHistogramBuilder(&d.Data, testPool(t, 2))
			c.begin([]int{0, 1, 2}, gh, pack)
			m := c.build(all[:tc.child], tc.child, built(c, all[:tc.parent]), tc.parent-tc.child)
			rest := reduced(c, m).larger
			if (rest.packed != nil) != (tc.parent-tc.child <= maxPackedRows) {
				t.Error("the wrong width for the number of rows")
			}
			for i, want := range naive(&d.Data, all[tc.child:tc.parent], []int{0, 1, 2}, gh, pack, c.offset) {
				if g, h := rest.at(i, pack); g != want.g || h != want.h {
					t.Fatalf("bin %d: got %d, %d, want %d, %d", i, g, h, want.g, want.h)
				}
			}
		})
	}
}

func TestSigmoid(t *testing.T) {
	for x := -60.0; x <= 60; x += 0.00737 {
		want := 1 / (1 + math.Exp(-max(min(x, 40), -40)))
		if got := sigmoid(x); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("sigmoid(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestRoundRandomlyIsUnbiased(t *testing.T) {
	k := newKey(1, forRounding, 0)
	for _, x := range []float64{-32766, -3.25, -0.1, 0, 0.001, 0.5, 7.75, maxH16, maxG24} {
		sum, n := 0.0, 200_000
		for i := range n {
			v := roundRandomly(x, k.at(uint64(i)))
			if d := float64(v) - x; d <= -1 || d >= 1 {
				t.Fatalf("%v became %d", x, v)
			}
			sum += float64(v)
		}
		if mean := sum / float64(n); math.Abs(mean-x) > 5*0.5/math.Sqrt(float64(n)) {
			t.Errorf("%v became %v on average", x, mean)
		}
	}
}

// BenchmarkKernel adds up leaves of different density: the fraction of the table's rows that they hold.
func BenchmarkKernel(b *testing.B) {
	d := randomTable(tableSpec{rows: 1_000_000, numerical: 28, bins: 255, seed: 1})
	gh := make([]uint32, d.Rows)
	rng := rand.New(rand.NewPCG(6, 6))
	for r := range gh {
		gh[r] = rng.Uint32()
	}
	features := make([]int, 28)
	for i := range features {
		features[i] = i
	}
	for _, density := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("density=1:%d", density), func(b *testing.B) {
			var rows []uint32
			for r := range d.Rows {
				if rng.IntN(density) == 0 {
					rows = append(rows, uint32(r))
				}
			}
			c := newHistogramBuilder(&d.Data, poolOf(1))
			c.begin(features, gh, packing{hessianBits: bitsVaryingHessian})
			for b.Loop() {
				c.free(built(c, rows))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows))/28, "ns/update")
		})
	}
}
