package gbt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain raises GOMAXPROCS, so that trainings have eight goroutines on any machine.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	os.Exit(m.Run())
}

// testPool is a pool that is closed at the end of the test.
func testPool(tb testing.TB, size int) *pool {
	c := poolOf(size)
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
					t.Errorf("%d of %d: range %d to %d for goroutine %d, which had one up to %d", atLeast, n, lo, hi,
						worker, upTo[worker])
				}
				upTo[worker] = hi
				for i := lo; i < hi; i++ {
					seen[i]++ // the race detector would notice two goroutines here
				}
			})
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("%d goroutines, %d numbers, at least %d: %d is covered %d times", size, n, atLeast, i,
						times)
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
		for i%2 == 0 && (i > 0 && c.begun.asleep.Load() < 3) {
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
		if slices.Sort(workers); !slices.Equal(workers, []int{0, 1, 2, 3}) {
			t.Fatalf("goroutines %v", workers)
		}
	}
}

// TestPoolEnds: its goroutines end, asleep or not.
func TestPoolEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		c := poolOf(4)
		c.parallel(100, 1, func(int, int, int) {})
		c.close()
	}
	for patience := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(patience) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// TestPanicReachesTheCaller: in a goroutine of its own it would end the process, and with it the whole Batch job.
func TestPanicReachesTheCaller(t *testing.T) {
	c := testPool(t, 4)
	for _, bad := range [][2]int{{0, 1}, {99, 100}, {0, 100}} { // the last one in every range
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "index out of range") {
					t.Errorf("rows %v: recovered %v", bad, v)
				}
			}()
			c.parallel(100, 1, func(_, lo, hi int) {
				if lo < bad[1] && bad[0] < hi {
					_ = []int{}[lo]
				}
			})
		}()
		var done atomic.Int64
		if c.parallel(100, 1, func(_, lo, hi int) { done.Add(int64(hi - lo)) }); done.Load() != 100 {
			t.Error("no work after a panic")
		}
	}
}

// BenchmarkReplay measures the cost of resuming: scores of half a million rows from ten trees, also as a share of the
// time in which one goroutine grew them.
func BenchmarkReplay(b *testing.B) {
	d := randomTable(tableSpec{rows: 500_000, numerical: 28, bins: 255, seed: 1})
	for _, leaves := range []int{31, 63, 96, 127, 255} {
		b.Run(fmt.Sprintf("%d leaves", leaves), func(b *testing.B) {
			p := Defaults()
			p.NumIterations, p.NumLeaves = 10, leaves
			grown := mustTrain(b, &d.Data, p, Options{Threads: 1})
			trees := grown.Model.Trees
			score := make([]float64, d.Rows)
			for b.Loop() {
				_ = replay(context.Background(), trees, &d.Data, score, 0, newWalks(poolOf(1)))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*d.Rows*len(trees)), "ns/row/tree")
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/grown.Took.Seconds(), "%of-growing")
		})
	}
}
