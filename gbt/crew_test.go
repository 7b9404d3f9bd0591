package gbt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// testCrew is a crew that ends with the test.
func testCrew(tb testing.TB, size int) *crew {
	c := newCrew(size)
	tb.Cleanup(c.close)
	return c
}

// TestCrewCoversEverythingOnce: every number is in exactly one range, no range is too short, and each goroutine's ascend.
func TestCrewCoversEverythingOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{1, 2, 3, 8} {
		c := testCrew(t, size)
		for range 500 {
			n, atLeast := rng.IntN(200), rng.IntN(20)
			seen, upTo := make([]int32, n), make([]int, size)
			c.parallel(n, atLeast, func(worker, lo, hi int) {
				if hi-lo < min(n, atLeast) || lo < upTo[worker] {
					t.Errorf("%d of %d: range %d to %d for goroutine %d, which had one up to %d", atLeast, n, lo, hi, worker, upTo[worker])
				}
				upTo[worker] = hi
				for i := lo; i < hi; i++ {
					seen[i]++ // the race detector would see two goroutines here
				}
			})
			for i, times := range seen {
				if times != 1 {
					t.Fatalf("%d goroutines, %d numbers, at least %d: %d is covered %d times", size, n, atLeast, i, times)
				}
			}
		}
	}
}

// TestCrewWorksSideBySide: each of four ranges waits for the other three, which one goroutine could never do, awake or
// after having slept.
func TestCrewWorksSideBySide(t *testing.T) {
	c := testCrew(t, 4)
	for range 20 {
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

// TestPanicReachesTheCaller: in a goroutine of its own it would end the process, and with it a whole Batch job.
func TestPanicReachesTheCaller(t *testing.T) {
	c := testCrew(t, 4)
	for _, at := range []int{0, 99} {
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "index out of range") {
					t.Errorf("row %d: recovered %v", at, v)
				}
			}()
			c.parallel(100, 1, func(_, lo, hi int) {
				if lo <= at && at < hi {
					_ = []int{}[at]
				}
			})
		}()
	}
	done := 0
	if c.parallel(1, 1, func(_, lo, hi int) { done += hi - lo }); done != 1 {
		t.Error("no work after a panic")
	}
}
