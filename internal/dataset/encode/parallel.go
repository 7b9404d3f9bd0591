package encode

import (
	"sync"
	"sync/atomic"
)

// parallel calls fn for 0 to n-1 on up to threads goroutines, including the caller's.
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

// Parallel is parallel, for package ingest, which processes its columns in the same way.
func Parallel(threads, n int, fn func(i int)) { parallel(threads, n, fn) }

// resize returns a slice of length n with arbitrary contents, in the memory of s if it suffices.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
