package encode

import (
	"sync"
	"sync/atomic"
)

// parallel calls fn for 0 to n-1 from up to threads goroutines, this one among them.
func parallel(threads, n int, fn func(i int)) {
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			fn(i)
		}
	}

	var wg sync.WaitGroup
	for range min(threads, n) - 1 {
		wg.Go(work)
	}

	work()
	wg.Wait()
}

// Parallel is parallel for the package that stages, which goes through its columns in the same way.
func Parallel(threads, n int, fn func(i int)) { parallel(threads, n, fn) }

// resize gives a slice of n values, whatever they are, in the memory of s where it suffices.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
