package ingest

import (
	"sync"

	"coppice/internal/dataset/encode"
)

// parallel calls fn for 0 to n-1 on up to threads goroutines, including the caller's.
func parallel(threads, n int, fn func(i int)) { encode.Parallel(threads, n, fn) }

// serial makes fn safe for concurrent use, and drops calls that report no more than an earlier one.
func serial(fn func(done, total int64)) func(done, total int64) {
	var mu sync.Mutex
	last := int64(-1)
	return func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		if done > last {
			last = done
			fn(done, total)
		}
	}
}
