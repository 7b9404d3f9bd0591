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

// pool is the goroutines that share one training's work. A tree takes a hundred or more jobs, of 20 to 5,000
// microseconds with next to nothing between them, while waking a goroutine on an idle processor takes 50 to 100. So
// goroutines spin for a while before they sleep.
type pool struct {
	size   int // including the caller
	once   sync.Once
	closed atomic.Bool

	// The current job: f on 0..n, in so many chunks. It does not change while a goroutine works on one of them.
	f         func(worker, lo, hi int)
	n, chunks int
	panics    []any

	jobs, chunksTotal uint32 // jobs begun, and the chunks of all of them
	// the current job's number, and in the low half how many of its chunks are not yet taken
	remaining   atomic.Uint64
	begun, done barrier // jobs begun, chunks done
}

// poolOf returns a pool of the calling goroutine and size-1 others, which start with the first job large enough for
// two. The caller must close it.
func poolOf(size int) *pool {
	p := &pool{size: max(size, 1)}
	p.begun.changed.L = &p.begun.mu
	p.done.changed.L = &p.done.mu
	p.panics = make([]any, p.size)
	return p
}

// newPool returns a pool of threads goroutines, but at most one per processor.
func newPool(threads int) *pool { return poolOf(min(threads, runtime.GOMAXPROCS(0))) }

// parallel calls f with chunks that cover 0..n, each at least atLeast long, on up to size goroutines, and waits. worker
// numbers the goroutines from 0; each takes chunks in ascending order as it finishes. The results must not depend on
// the chunks' boundaries: integer sums and writes to a row's own place do not. parallel must be called from one
// goroutine at a time, and not from within f.
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

	// Publish the job, then wake the workers.
	p.f = f
	p.n = n
	p.chunks = min(p.size*chunksEach, n/max(atLeast, 1))
	p.jobs++
	p.chunksTotal += uint32(p.chunks)
	p.remaining.Store(uint64(p.jobs)<<32 | uint64(p.chunks))
	p.begun.add()

	// This goroutine works, too, and then waits for the others.
	p.takeChunks(0, p.jobs)
	p.done.reach(p.chunksTotal)
	p.rethrow()
}

// chunksEach is how many chunks there are per goroutine, if there is enough work: processors differ in speed while
// other processes use them. A goroutine without a processor takes no chunk, and so delays no one.
const chunksEach = 4

// workersFor is how many goroutines have something to do.
func (p *pool) workersFor(n, atLeast int) int { return max(min(p.size, n/max(atLeast, 1)), 1) }

// workLoop is the loop of the pool's other goroutines.
func (p *pool) workLoop(worker int) {
	for job := uint32(1); ; job++ {
		p.begun.reach(job)
		if p.closed.Load() {
			return
		}
		p.takeChunks(worker, job)
	}
}

// takeChunks works on the job's chunks until all are taken. A goroutine that comes late finds another job.
func (p *pool) takeChunks(worker int, job uint32) {
	for {
		state := p.remaining.Load()
		if uint32(state>>32) != job || uint32(state) == 0 {
			return
		}
		if p.remaining.CompareAndSwap(state, state-1) {
			p.run(worker, p.chunks-int(uint32(state)))
		}
	}
}

// run calls the job's function with chunk i. A panic is kept for rethrow: in this goroutine it would end the process.
func (p *pool) run(worker, i int) {
	defer func() {
		if v := recover(); v != nil {
			p.panics[worker] = fmt.Sprintf("%v\n%s", v, debug.Stack())
		}
		p.done.add()
	}()
	p.f(worker, p.n*i/p.chunks, p.n*(i+1)/p.chunks)
}

// rethrow re-panics in the caller's goroutine, where the panic can be recovered; elsewhere it would end the process.
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
	p.begun.add()
}

// barrier is a counter that goroutines can wait for.
type barrier struct {
	n       atomic.Uint32
	asleep  atomic.Int32
	mu      sync.Mutex
	changed sync.Cond
}

// awake is how long a goroutine spins before it sleeps: longer than the serial part between two pieces of a tree's
// work, and short compared with a metric over all held-out rows. looks is how often it polls before yielding; each
// yield may wake an idle processor, or let another task run.
const (
	awake = 400 * time.Microsecond
	looks = 1 << 10
)

// add counts one on, and wakes those who sleep until the count is reached.
func (t *barrier) add() {
	t.n.Add(1)
	if t.asleep.Load() > 0 { // a sleeper registers before its last check
		t.mu.Lock()
		t.changed.Broadcast()
		t.mu.Unlock()
	}
}

// reach waits until the counter is n, which is at most 2^31 ahead.
func (t *barrier) reach(n uint32) {
	for start := time.Now(); time.Since(start) < awake; runtime.Gosched() {
		for range looks {
			if int32(t.n.Load()-n) >= 0 {
				return
			}
			pause()
		}
	}

	// Sleep until add wakes everyone.
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asleep.Add(1)
	defer t.asleep.Add(-1)
	for int32(t.n.Load()-n) < 0 {
		t.changed.Wait()
	}
}
