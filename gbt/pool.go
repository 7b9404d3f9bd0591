package gbt

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// grain is the fewest rows worth a range of their own: some tens of microseconds of work.
const grain = 1 << 14

// pool is the goroutines that share one training's work. A tree takes a hundred or more pieces of work, of 20 to 5,000 microseconds with
// next to nothing between them, while waking a goroutine on an idle processor takes 50 to 100. So goroutines spin for a while before they
// sleep.
type pool struct {
	size   int // including the caller
	once   sync.Once
	closed atomic.Bool

	// The current piece of work; it does not change while a goroutine works on one of its ranges.
	f         func(worker, lo, hi int)
	n, ranges int
	panics    []any

	pieces, total uint32        // pieces so far, and their ranges
	left          atomic.Uint64 // the current piece, and the number of its ranges not yet taken (low half)
	begun, done   barrier       // pieces begun, ranges done
}

// poolOf returns a pool of the calling goroutine and size-1 others, which start with the first piece of work large enough for two. The
// caller must close it.
func poolOf(size int) *pool {
	c := &pool{size: max(size, 1)}
	c.begun.changed.L = &c.begun.mu
	c.done.changed.L = &c.done.mu
	c.panics = make([]any, c.size)
	return c
}

// newPool returns a pool of threads goroutines, but at most one per processor.
func newPool(threads int) *pool { return poolOf(min(threads, runtime.GOMAXPROCS(0))) }

// parallel calls f with ranges that cover 0..n, each at least atLeast long, on up to size goroutines, and waits. worker numbers the
// goroutines from 0; each takes ranges in ascending order as it finishes. The results must not depend on the ranges' boundaries: integer
// sums and writes to a row's own place do not. parallel must be called from one goroutine at a time, and not from within f.
func (c *pool) parallel(n, atLeast int, f func(worker, lo, hi int)) {
	workers := c.workersFor(n, atLeast)
	if workers == 1 {
		f(0, 0, n)
		return
	}

	c.once.Do(func() {
		for w := 1; w < c.size; w++ {
			go c.work(w)
		}
	})

	// Publish the work, then wake the workers.
	c.f = f
	c.n = n
	c.ranges = min(c.size*rangesEach, n/max(atLeast, 1))
	c.pieces++
	c.total += uint32(c.ranges)
	c.left.Store(uint64(c.pieces)<<32 | uint64(c.ranges))
	c.begun.add()

	// This goroutine works, too, and then waits for the others.
	c.take(0, c.pieces)
	c.done.reach(c.total)
	c.raise()
}

// rangesEach is how many ranges there are per goroutine, if there is enough work: processors differ in speed while other processes use
// them. A goroutine without a processor takes no range, and so delays no one.
const rangesEach = 4

// workersFor is how many goroutines have something to do.
func (c *pool) workersFor(n, atLeast int) int { return max(min(c.size, n/max(atLeast, 1)), 1) }

// work is the loop of the pool's other goroutines.
func (c *pool) work(worker int) {
	for piece := uint32(1); ; piece++ {
		c.begun.reach(piece)
		if c.closed.Load() {
			return
		}
		c.take(worker, piece)
	}
}

// take works on the piece's ranges until all are taken. A goroutine that comes late finds another piece.
func (c *pool) take(worker int, piece uint32) {
	for {
		state := c.left.Load()
		if uint32(state>>32) != piece || uint32(state) == 0 {
			return
		}
		if c.left.CompareAndSwap(state, state-1) {
			c.run(worker, c.ranges-int(uint32(state)))
		}
	}
}

func (c *pool) run(worker, i int) {
	defer func() {
		if v := recover(); v != nil {
			c.panics[worker] = fmt.Sprintf("%v\n%s", v, debug.Stack())
		}
		c.done.add()
	}()
	c.f(worker, c.n*i/c.ranges, c.n*(i+1)/c.ranges)
}

// raise re-panics in the caller's goroutine, where the panic can be recovered; elsewhere it would end the process.
func (c *pool) raise() {
	for _, p := range c.panics {
		if p != nil {
			clear(c.panics)
			panic(p)
		}
	}
}

// close ends the other goroutines. No piece of work may be running.
func (c *pool) close() {
	c.closed.Store(true)
	c.begun.add()
}

// barrier is a counter that goroutines can wait for.
type barrier struct {
	n       atomic.Uint32
	asleep  atomic.Int32
	mu      sync.Mutex
	changed sync.Cond
}

// awake is how long a goroutine spins before it sleeps: longer than the serial part between two pieces of a tree's work, and short compared
// with a metric over all held-out rows. looks is how often it polls before yielding; each yield may wake an idle processor, or let another
// task run.
const (
	awake = 400 * time.Microsecond
	looks = 1 << 10
)

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
