package ingest

import "sync"

// Serial returns fn made safe for concurrent use. It drops calls that report no more than an earlier one, so that
// progress never goes back.
func Serial(fn func(done, total int64)) func(done, total int64) {
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
