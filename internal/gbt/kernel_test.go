package gbt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/must"
)

// sameAsNaive returns an error unless h is the histogram of rows that plain integers give, for each of the features
// that c has begun with. Others may have been added, too.
func sameAsNaive(h histogram, d *Data, rows []uint32, c *histogramBuilder) error {
	for _, f := range c.features {
		var want [byteBins]wide
		for _, r := range rows {
			g, hs := c.kernel.pack.sums(c.kernel.pack.word(c.kernel.gh[r]))
			b := d.Columns[f][r]
			want[b] = want[b].and(wide{g, hs})
		}
		for b := range d.Features[f].Bins {
			if g, hs := h.binSums(c.offset[f]+b, c.kernel.pack); (wide{g, hs}) != want[b] {
				return fmt.Errorf("feature %d, bin %d: got %d, %d, want %v", f, b, g, hs, want[b])
			}
		}
	}
	return nil
}

// TestHistogramsAreExact: sums over more rows than a word holds, a third of them with the largest gradient, a third
// with the least and a third with any, are those of adding row by row. That holds for both packings, and for all
// features, some or one of them, which are added in different ways, with any number of threads.
func TestHistogramsAreExact(t *testing.T) {
	long(t)
	// Three times as many rows as a word can take, and 13 features: those behind the first eight are added one by one.
	d := randomTable(tableSpec{rows: 3*maxPackedRows + 77, numerical: 9, categorical: 4, bins: 254, missing: 0.1,
		seed: 1})
	rng := rand.New(rand.NewPCG(2, 2))
	gh := make([]uint32, d.Rows)
	for r := range gh {
		switch rng.IntN(3) {
		case 0:
			gh[r] = uint32(maxG16+1)<<16 | (maxH16 + 1) // one more than the units allow, as rounding may make it
		case 1:
			gh[r] = uint32(uint16(65536-maxG16-1))<<16 | (maxH16 + 1)
		default:
			gh[r] = rng.Uint32()
		}
	}
	all := usedRows(&d.Data)
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
						if err := sameAsNaive(h, &d.Data, rows, c); err != nil {
							t.Error(err)
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
	return reduced(c, c.buildPair(rows, len(rows), histogram{}, 0)).smaller
}

// TestSigmoid: sigmoid is right to nine digits, which is all that gradients need; scores beyond ±40 count as ±40. The
// scores are some 16,000 from -60 to 60, so close that every part of the polynomial is tried.
func TestSigmoid(t *testing.T) {
	for x := -60.0; x <= 60; x += 0.00737 {
		want := 1 / (1 + math.Exp(-max(min(x, 40), -40)))
		if got := sigmoid(x); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("sigmoid(%v) = %v, want %v", x, got, want)
		}
	}
}

// TestRoundRandomlyIsUnbiased: a number becomes one of the two whole ones beside it, and the mean of many draws is the
// number, within five standard errors. (A draw of one of two neighbours deviates by at most .5.)
func TestRoundRandomlyIsUnbiased(t *testing.T) {
	k := newKey(1, forRounding, 0)
	for _, x := range []float64{-32766, -3.25, -0.1, 0, 0.001, 0.5, 7.75, maxH16, maxG24} {
		sum, n := 0.0, 200_000
		for i := range n {
			v := roundRandomly(x, k.uniform(uint64(i)))
			if d := float64(v) - x; d <= -1 || d >= 1 {
				t.Fatalf("%v became %d, want one of the two whole numbers beside it", x, v)
			}
			sum += float64(v)
		}
		if mean := sum / float64(n); math.Abs(mean-x) > 5*0.5/math.Sqrt(float64(n)) {
			t.Errorf("%v became %v on average, want about %v", x, mean, x)
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
			c := newHistogramBuilder(&d.Data, newPoolOfSize(1))
			c.begin(features, gh, packing{hessianBits: bitsVaryingHessian})
			for b.Loop() {
				c.free(built(c, rows))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows))/28, "ns/update")
		})
	}
}

// TestMain raises GOMAXPROCS, so that trainings have eight goroutines on any machine.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	os.Exit(m.Run())
}

// testPool is a pool that is closed at the end of the test.
func testPool(tb testing.TB, size int) *pool {
	c := newPoolOfSize(size)
	tb.Cleanup(c.close)
	return c
}

// TestPoolCoversEverythingOnce: every number is in exactly one range, no range is too short, and each goroutine's
// ranges ascend.
func TestPoolCoversEverythingOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{1, 2, 3, 8} {
		c := testPool(t, size)
		for range 500 {
			n, atLeast := rng.IntN(200), rng.IntN(20)
			seen, upTo := make([]int32, n), make([]int, size)
			c.parallel(n, atLeast, func(worker, lo, hi int) {
				if hi-lo < min(n, atLeast) || lo < upTo[worker] {
					t.Errorf("%d numbers in ranges of at least %d: goroutine %d got %d to %d after one up to %d, want "+
						"it long enough and behind that", n, atLeast, worker, lo, hi, upTo[worker])
				}
				upTo[worker] = hi
				for i := lo; i < hi; i++ {
					seen[i]++ // the race detector would notice two goroutines here
				}
			})
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("%d goroutines, %d numbers, at least %d: %d is covered %d times, want once", size, n,
						atLeast, i, times)
				}
			}
		}
	}
}

// TestPoolWorksSideBySide: each of four ranges waits for the other three, which a single goroutine could never do,
// whether the others are spinning or asleep.
func TestPoolWorksSideBySide(t *testing.T) {
	c := testPool(t, 4)
	for i := range 20 {
		// In every other round, wait until the three other goroutines sleep. Before the first job there are none.
		for i > 0 && i%2 == 0 && c.begun.asleep.Load() < 3 {
			runtime.Gosched()
		}
		var all sync.WaitGroup
		all.Add(4)
		workers := make([]int, 4)
		c.parallel(4, 1, func(worker, lo, _ int) {
			workers[lo] = worker
			all.Done()
			all.Wait()
		})
		slices.Sort(workers)
		if !slices.Equal(workers, []int{0, 1, 2, 3}) {
			t.Fatalf("the chunks ran on goroutines %v, want four different ones", workers)
		}
	}
}

// TestPoolEnds: close ends the goroutines of a pool, whether they are spinning, as they do right after a job, or
// asleep.
func TestPoolEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := range 100 {
		c := newPoolOfSize(4)
		c.parallel(100, 1, func(int, int, int) {})
		for i%10 == 0 && c.begun.asleep.Load() < 3 { // in every tenth round, wait until the three others sleep
			runtime.Gosched()
		}
		c.close()
	}
	for patience := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(patience) {
			t.Fatalf("%d goroutines after close, want %d as before", runtime.NumGoroutine(), before)
		}
	}
}

// TestPanicReachesTheCaller: if the function panics in any goroutine of the pool, parallel panics in the caller's,
// where it can be recovered, and the pool can be used again. In a goroutine of its own a panic would end the process.
func TestPanicReachesTheCaller(t *testing.T) {
	c := testPool(t, 4)
	// The rows in whose ranges f panics: in the first range, in the last one, or in all of them.
	for _, bad := range [][2]int{{0, 1}, {99, 100}, {0, 100}} {
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "index out of range") {
					t.Errorf("a panic at rows %v: recovered %v, want an index out of range", bad, v)
				}
			}()
			c.parallel(100, 1, func(_, lo, hi int) {
				if lo < bad[1] && bad[0] < hi {
					_ = []int{}[lo]
				}
			})
		}()
		var done atomic.Int64
		c.parallel(100, 1, func(_, lo, hi int) { done.Add(int64(hi - lo)) })
		must.Equal(t, done.Load(), 100, "rows of 100 that the pool covers after a panic")
	}
}

// sparseTable returns a table of which most features have the missing bin in 93 % of the cells. Every fiftieth feature,
// from 0 on, has all its bins of values alike. A row's label is 1 if feature 0 and a random number from 0 to 199 add up
// to more than 220.
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

// TestSparseHistogramsAreExact: histograms of mostly zeros, where the most frequent bin gets the rest, are those of
// adding row by row. There are more features than 64, which a vector holds, and more than 224, which are added at a
// time (pickColumns), and more rows than a word holds.
func TestSparseHistogramsAreExact(t *testing.T) {
	long(t)
	for _, width := range []int{70, 300} {
		d := sparseTable(70_000, width)
		gh := make([]uint32, d.Rows)
		rng := rand.New(rand.NewPCG(13, 13))
		for r := range gh {
			gh[r] = rng.Uint32()
		}
		all := usedRows(&d.Data)
		var some []uint32
		for _, r := range all {
			if r%7 == 3 {
				some = append(some, r)
			}
		}
		var features, few []int
		for f := range width {
			features = append(features, f)
			if f%3 > 0 {
				few = append(few, f)
			}
		}
		for _, rows := range [][]uint32{all, some, all[50:51]} {
			for _, chosen := range [][]int{features, few} {
				for _, threads := range []int{1, 3} {
					t.Run(fmt.Sprintf("%d rows, %d of %d features, %d threads", len(rows), len(chosen), width, threads),
						func(t *testing.T) {
							c := newHistogramBuilder(&d.Data, testPool(t, threads))
							c.begin(chosen, gh, packing{hessianBits: bitsVaryingHessian})
							if canPickBytes() && c.way != waySparse {
								t.Fatalf("rows are added the way %d, want waySparse (%d)", c.way, waySparse)
							}
							h := built(c, rows)
							if f := c.findStray(); f >= 0 {
								t.Fatalf("feature %d has stray bins, want none to have any", f)
							}
							if err := sameAsNaive(h, &d.Data, rows, c); err != nil {
								t.Error(err)
							}
						})
				}
			}
		}
	}
}

// TestSparseModelIsTheReferences: where rows are added to histograms without their most frequent bins, as
// TestSparseHistogramsAreExact has it for such tables, the model is that of the slow trainer in reference_test.go.
func TestSparseModelIsTheReferences(t *testing.T) {
	d := sparseTable(3000, 120)
	p := Defaults()
	p.NumIterations, p.FeatureFraction = 5, 0.8
	want := text(t, newReference(&d.Data, p).train())
	if got := text(t, mustTrain(t, &d.Data, p, Options{}).Model); !bytes.Equal(got, want) {
		t.Errorf("the model is not the reference's: %s", firstDifference(got, want))
	}
}

// TestByteThatIsNoBinIsAnError: a byte beyond its feature's bins ends the training with an ErrData, whether or not rows
// are added to histograms without their most frequent bins, and even if there is no other feature whose sums could
// reveal it.
func TestByteThatIsNoBinIsAnError(t *testing.T) {
	for name, d := range map[string]*table{
		"dense":  randomTable(tableSpec{rows: 3000, numerical: 9, bins: 30, seed: 14}),
		"sparse": sparseTable(3000, 100),
		"alone":  randomTable(tableSpec{rows: 3000, numerical: 1, bins: 10, seed: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			row, feature := 2345, min(7, len(d.Features)-1) // any
			bin := byte(d.Features[feature].Bins)
			d.RowMajor[row*len(d.Features)+feature], d.Columns[feature][row] = bin, bin
			p := Defaults()
			p.NumIterations = 1
			_, err := Train(t.Context(), &d.Data, p, Options{Threads: 1})
			if !errors.Is(err, ErrData) {
				t.Fatalf("training on a byte that is no bin: got error %v, want an ErrData", err)
			}
		})
	}
}

// TestStrayByteOfAnIgnoredColumnIsNoError: a byte beyond the bins of an ignored column changes nothing, whichever way
// rows are added, in this tree or a later one. Each tree draws six in ten of the other columns.
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
				t.Error("a byte of an ignored column changes the model, want the same model")
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

// TestCopiesCountOnce: in a table that holds each row three times, the least sizes of leaves apply to original rows, so
// that leaves have three times as many rows and hessian. The model file has the parameters unscaled, and penalties are
// unscaled.
func TestCopiesCountOnce(t *testing.T) {
	const n = 3
	d := randomTable(tableSpec{rows: 2000, numerical: 4, categorical: 3, bins: 40, regression: true,
		seed: 2}).stacked(n)
	// least trains and returns the least rows and the least hessian of any leaf.
	least := func(p Params, copies int) (rows int, hessian float64) {
		d.Copies = copies
		m := mustTrain(t, &d.Data, p, Options{}).Model
		if line := []byte("[min_data_in_leaf: 30]\n"); !bytes.Contains(text(t, m), line) {
			t.Errorf("%d copies: the model lacks the line %q, want the unscaled parameter", copies, line)
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
		t.Fatalf("with Copies 1 the smallest leaf has %d rows, want 30 to %d", rows, 30*n-1)
	}
	if rows, _ := least(p, n); rows < 30*n {
		t.Errorf("a leaf has %d rows, want at least 30 per copy", rows)
	}
	p.MinSumHessian = 50
	if _, h := least(p, 1); h >= 50*n {
		t.Fatalf("with Copies 1 the least hessian is %v, want less than %d", h, 50*n)
	}
	if _, h := least(p, n); h < 50*n {
		t.Errorf("a leaf has the hessian %v, want at least 50 per copy", h)
	}
	many := p.forCopies(n)
	if many.MinDataPerGroup != n*p.MinDataPerGroup || many.LambdaL2 != p.LambdaL2 || many.CatSmooth != p.CatSmooth {
		t.Errorf("for %d copies: %+v, want min_data_per_group times as much and the same penalties", n, many)
	}
}
