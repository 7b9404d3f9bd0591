package ingest

import (
	"sync"

	"coppice/dataset/encode"
)

// parallel calls fn for 0 to n-1 from up to threads goroutines, this one among them.
func parallel(threads, n int, fn func(i int)) { encode.Parallel(threads, n, fn) }

// serial makes fn safe to be called from several goroutines, and drops calls that come late.
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
