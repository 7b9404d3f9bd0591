package ingest

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
