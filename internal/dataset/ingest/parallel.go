package ingest

import "sync"

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
