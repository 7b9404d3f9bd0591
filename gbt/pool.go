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

// pool is the goroutines that share one training's work. A tree is a hundred pieces of work and more, of 20 to 5,000
// microseconds with next to nothing between them, and waking a goroutine whose processor has gone to sleep takes 50 to 100.
// So everybody waits for the next piece awake, for some time.
type pool struct {
	size   int // with the caller
	once   sync.Once
	closed atomic.Bool

	// the piece of work at hand; it does not change while somebody works on one of its ranges
	f         func(worker, lo, hi int)
	n, ranges int
	panics    []any

	pieces, total uint32        // so far, and their ranges
	left          atomic.Uint64 // which piece is at hand, and how many of its ranges nobody has taken (low half)
	begun, done   barrier       // pieces that have begun, ranges that are done
}

// poolOf is a pool of the calling goroutine and size-1 others, who begin with the first piece of work that is large enough
// for two. Whoever made it closes it.
func poolOf(size int) *pool {
	c := &pool{size: max(size, 1)}
	c.begun.changed.L = &c.begun.mu
	c.done.changed.L = &c.done.mu
	c.panics = make([]any, c.size)
	return c
}

// newPool is a pool of as many as are asked for, but no more than there are processors: others would only be in the way.
func newPool(threads int) *pool { return poolOf(min(threads, runtime.GOMAXPROCS(0))) }

// parallel calls f with ranges that cover 0..n, each at least atLeast long, on up to size goroutines, and waits. worker
// numbers the goroutines from 0; each takes one range after the other, ascending, as it gets done. What f computes may not
// depend on how the ranges fall: integer sums and writes to a row's own place do not. One goroutine at a time may call it,
// and f may not.
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

	// This goroutine works, too, and only then waits for the others.
	c.take(0, c.pieces)
	c.done.reach(c.total)
	c.raise()
}

// rangesEach is how many ranges there are for each goroutine, where there is enough to do: processors are not equally fast
// while others use them, too. A goroutine that has no processor at the moment takes none, and nobody waits for it.
const rangesEach = 4

// workersFor is how many goroutines have something to do.
func (c *pool) workersFor(n, atLeast int) int { return max(min(c.size, n/max(atLeast, 1)), 1) }

// work is the life of one of the others.
func (c *pool) work(worker int) {
	for piece := uint32(1); ; piece++ {
		c.begun.reach(piece)
		if c.closed.Load() {
			return
		}
		c.take(worker, piece)
	}
}

// take works on the piece's ranges until nobody has to take any. A goroutine that comes late finds another piece at hand.
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

// raise passes a panic on to where the caller can recover from it: in a goroutine of its own it would end the process.
func (c *pool) raise() {
	for _, p := range c.panics {
		if p != nil {
			clear(c.panics)
			panic(p)
		}
	}
}

// close ends the others. There may be no piece of work at hand.
func (c *pool) close() {
	c.closed.Store(true)
	c.begun.add()
}

// barrier is a number that goes up and that goroutines wait for.
type barrier struct {
	n       atomic.Uint32
	asleep  atomic.Int32
	mu      sync.Mutex
	changed sync.Cond
}

// awake is for how long somebody looks for a change before going to sleep: longer than what one goroutine does alone
// between two pieces of a tree's work, and short beside a metric over all held-out rows. looks is how often before other
// goroutines get a chance; each such chance wakes a processor that has nothing to do, or belongs to another task.
const (
	awake = 400 * time.Microsecond
	looks = 1 << 10
)

func (t *barrier) add() {
	t.n.Add(1)
	if t.asleep.Load() > 0 { // who falls asleep says so before looking a last time
		t.mu.Lock()
		t.changed.Broadcast()
		t.mu.Unlock()
	}
}

// reach waits until the number is n, which is at most 2^31 ahead.
func (t *barrier) reach(n uint32) {
	for start := time.Now(); time.Since(start) < awake; runtime.Gosched() {
		for range looks {
			if int32(t.n.Load()-n) >= 0 {
				return
			}
			pause()
		}
	}

	// It takes longer: sleep until add wakes everyone.
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asleep.Add(1)
	defer t.asleep.Add(-1)
	for int32(t.n.Load()-n) < 0 {
		t.changed.Wait()
	}
}
