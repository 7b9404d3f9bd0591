package gbt

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// grain is the fewest rows worth a goroutine of their own: some tens of microseconds of work.
const grain = 1 << 14

// parallel calls f with consecutive ranges that cover 0..n, each at least atLeast long, on up to threads goroutines, and
// waits. worker numbers the goroutines from 0. What f computes may not depend on how the ranges fall: integer sums and
// writes to a row's own place do not.
func parallel(threads, n, atLeast int, f func(worker, lo, hi int)) {
	workers := max(min(threads, n/max(atLeast, 1)), 1)
	if workers == 1 {
		f(0, 0, n)
		return
	}
	var wg sync.WaitGroup
	panics := make([]any, workers)
	for w := 1; w < workers; w++ {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					panics[w] = fmt.Sprintf("%v\n%s", v, debug.Stack())
				}
			}()
			f(w, n*w/workers, n*(w+1)/workers)
		})
	}
	defer func() {
		wg.Wait()
		for _, p := range panics {
			if p != nil {
				panic(p) // where the caller can recover from it: in a goroutine it would end the process
			}
		}
	}()
	f(0, 0, n/workers)
}
