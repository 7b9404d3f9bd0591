package gbt

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// grain is the fewest rows worth a chunk of their own: some tens of microseconds of work.
const grain = 1 << 14

// pool is the goroutines that share one training's work, numbered from 0, which is the caller of parallel. (Workers of
// a Team are something else: processes, each with a pool.) A tree takes a hundred or more jobs, each of 20 to 5,000
// microseconds with next to nothing between them, while waking a goroutine on an idle processor takes 50 to 100. So
// goroutines spin for a while before they sleep.
type pool struct {
	size   int // including the caller
	once   sync.Once
	closed atomic.Bool

	// The current job: f on 0..n, in so many chunks. It does not change while a goroutine works on one of them.
	f         func(worker, lo, hi int)
	n, chunks int
	panics    []any // by goroutine, what f panicked with in the current job; nil if it did not

	jobs, chunksTotal uint32 // number of jobs begun, and of chunks in all of them; only the caller of parallel uses it

	// remaining has the current job's number in its upper half and, in its lower half, how many of the job's chunks no
	// goroutine has taken yet. So one atomic operation takes a chunk of the right job.
	remaining   atomic.Uint64
	begun, done barrier // count jobs begun and chunks done
}

// newPoolOfSize returns a pool of the calling goroutine and size-1 others. These are started with the first job that is
// large enough for two. The caller must close the pool.
func newPoolOfSize(size int) *pool {
	p := &pool{size: max(size, 1)}
	p.begun.changed.L = &p.begun.mu
	p.done.changed.L = &p.done.mu
	p.panics = make([]any, p.size)
	return p
}

// newPool returns a pool of threads goroutines, but at most one per processor.
func newPool(threads int) *pool { return newPoolOfSize(min(threads, runtime.GOMAXPROCS(0))) }

// parallel divides 0..n into chunks, each at least atLeast long if n is, calls f for the chunks lo <= i < hi on up to
// size goroutines, and waits for all of them. worker is the number of the goroutine that f runs on: two calls with the
// same number are never concurrent, so f may use memory of that number without locks. Each goroutine gets its chunks in
// ascending order.
//
// f must give the same results whatever the chunks: integer sums do, and so do writes to each row's own place. If f
// panics, parallel does after all goroutines have finished. It must be called from one goroutine at a time, and not
// from within f.
func (p *pool) parallel(n, atLeast int, f func(worker, lo, hi int)) {
	workers := p.workersFor(n, atLeast)
	if workers == 1 {
		f(0, 0, n)
		return
	}

	p.once.Do(func() {
		for w := 1; w < p.size; w++ {
			go p.workLoop(w)
		}
	})

	// Publish the job, then wake the workers. remaining is stored last: whoever finds this job's number there sees f, n
	// and chunks, too.
	p.f = f
	p.n = n
	p.chunks = min(p.size*chunksEach, n/max(atLeast, 1))
	p.jobs++
	p.chunksTotal += uint32(p.chunks)
	p.remaining.Store(uint64(p.jobs)<<32 | uint64(p.chunks))
	p.begun.increment()

	// This goroutine takes chunks, too, and then waits until those of the others are done.
	p.takeChunks(0, p.jobs)
	p.done.waitFor(p.chunksTotal)
	p.rethrow()
}

// chunksEach is how many chunks there are per goroutine, if there is enough work. With several, a goroutine whose
// processor is slowed down by other processes takes fewer of them, and one without a processor takes none and delays no
// one.
const chunksEach = 4

// workersFor returns how many goroutines parallel uses for n items in chunks of at least atLeast.
func (p *pool) workersFor(n, atLeast int) int { return max(min(p.size, n/max(atLeast, 1)), 1) }

// workLoop is what all goroutines of the pool but the caller's run: it waits for each job in turn and takes chunks of
// it, until the pool is closed.
func (p *pool) workLoop(worker int) {
	for job := uint32(1); ; job++ {
		p.begun.waitFor(job)
		if p.closed.Load() {
			return
		}
		p.takeChunks(worker, job)
	}
}

// takeChunks runs chunks of a job until all of them are taken. It returns at once if the job is over: a goroutine that
// was late for it finds the number of a later job in p.remaining.
func (p *pool) takeChunks(worker int, job uint32) {
	for {
		state := p.remaining.Load()
		if uint32(state>>32) != job || uint32(state) == 0 {
			return
		}
		if p.remaining.CompareAndSwap(state, state-1) { // else another goroutine was faster: look again
			p.run(worker, p.chunks-int(uint32(state)))
		}
	}
}

// run calls the job's function with chunk i, and counts the chunk as done. A panic is kept for rethrow.
func (p *pool) run(worker, i int) {
	defer func() {
		if v := recover(); v != nil {
			p.panics[worker] = fmt.Sprintf("%v\n%s", v, debug.Stack())
		}
		p.done.increment()
	}()
	p.f(worker, p.n*i/p.chunks, p.n*(i+1)/p.chunks)
}

// rethrow panics with what the job's function panicked with, if it did. It is called in the goroutine of the caller of
// parallel, who may recover; in any other goroutine a panic ends the process.
func (p *pool) rethrow() {
	for _, v := range p.panics {
		if v != nil {
			clear(p.panics)
			panic(v)
		}
	}
}

// close ends the other goroutines. No job may be running.
func (p *pool) close() {
	p.closed.Store(true)
	p.begun.increment()
}

// barrier is a counter, modulo 2^32, of which goroutines can wait for a value.
type barrier struct {
	n       atomic.Uint32
	asleep  atomic.Int32 // how many goroutines sleep, or are about to
	mu      sync.Mutex
	changed sync.Cond
}

// spinTime is how long a goroutine spins before it sleeps: longer than the serial part between two jobs of a tree, and
// short compared with a metric over all held-out rows. After pollsPerYield looks at the counter it yields its
// processor, which lets another goroutine run.
const (
	spinTime      = 400 * time.Microsecond
	pollsPerYield = 1 << 10
)

// increment adds 1 to the counter and wakes the goroutines that sleep.
func (t *barrier) increment() {
	t.n.Add(1)

	// No wake-up is lost: a goroutine counts itself in asleep before it looks at the counter for the last time.
	if t.asleep.Load() > 0 {
		t.mu.Lock()
		t.changed.Broadcast()
		t.mu.Unlock()
	}
}

// waitFor waits until the counter has reached n, which is less than 2^31 ahead of it: first spinning, then asleep.
func (t *barrier) waitFor(n uint32) {
	for start := time.Now(); time.Since(start) < spinTime; runtime.Gosched() {
		for range pollsPerYield {
			if int32(t.n.Load()-n) >= 0 {
				return
			}
			pause()
		}
	}

	// Sleep until increment wakes everyone.
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asleep.Add(1)
	defer t.asleep.Add(-1)
	for int32(t.n.Load()-n) < 0 {
		t.changed.Wait()
	}
}
