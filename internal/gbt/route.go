package gbt

import (
	"context"
	"math/bits"
)

// Trees predict a binned table column by column: the rows that go left at a node are found for many rows at once,
// without a branch on the data. This scores held-out rows and rows outside the bag after every tree, and all rows when
// a training resumes.

// window is how many rows pass through all trees before the next rows do, so that their bins and scores stay in the
// second-level cache.
const window = 1 << 14

// addPredictions adds the trees' predictions for rows to raw, which is indexed by row, tree by tree. If ctx ends, some
// rows lack predictions.
func addPredictions(ctx context.Context, trees []*Tree, columns [][]byte, rows rowSet, raw []float64, walks walks) {
	for ; len(trees) > plansAtOnce; trees = trees[plansAtOnce:] {
		addPredictions(ctx, trees[:plansAtOnce], columns, rows, raw, walks)
	}

	plans := make([]*routePlan, len(trees))
	for i, t := range trees {
		plans[i] = newRoutePlan(t, columns)
	}

	most := nodesPerRow
	if len(trees) > 1 {
		most = nodesPerRowAgain
	}

	walks.pool.parallel(rows.len(), grain, func(worker, lo, hi int) {
		w := &walks.each[worker]
		for ; lo < hi && ctx.Err() == nil; lo += window {
			w.enter(rows, lo, min(lo+window, hi))
			for i, t := range trees {
				w.add(t, plans[i], most, columns, raw)
			}
		}
	})
}

// plansAtOnce bounds the memory of plans, some kilobytes per tree.
const plansAtOnce = 64

// replay recomputes, bit for bit, the scores made by growing the trees: a row's score began at the bias and took one
// value per tree, in order. The first tree carries the bias by now, and bias + value is its leaf value, so rows in use
// begin at zero.
//
// It takes up to a tenth of the time that growing took, which may be minutes, and stops with ctx's error.
func replay(ctx context.Context, trees []*Tree, d *Data, raw []float64, bias float64, walks walks) error {
	for i := range raw {
		raw[i] = bias
	}
	if len(trees) == 0 {
		return nil
	}

	// The first tree brings the bias along for the rows that it scores.
	rows := d.rows()
	var own [64]uint32
	for lo := 0; lo < rows.len(); lo += len(own) {
		part := own[:min(len(own), rows.len()-lo)]
		rows.copy(part, lo)
		for _, r := range part {
			raw[r] = 0
		}
	}

	addPredictions(ctx, trees, d.Columns, rows, raw, walks)
	return ctx.Err()
}

func filled(n int, x float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = x
	}
	return s
}

// nodesPerRow is the number of nodes per row up to which evaluating all of a tree's nodes for a whole block, at 2 ns
// each, is faster than moving rows from leaf to leaf. For full blocks of 64 rows, that holds for every tree with a
// plan; of the rows outside a bag or fold there may be few per block. When many trees process the same window in turn,
// moving rows is faster as well, since their bins are in the cache.
const (
	nodesPerRow      = 6
	nodesPerRowAgain = 3
)

// blocksTogether is how many blocks pass a tree side by side.
const blocksTogether = 2

// block is a subset of 64 neighbouring rows.
type block struct {
	row  int    // the first
	rows uint64 // bit i is set for row + i
}

// walks holds one walk for each goroutine of a pool.
type walks struct {
	pool *pool
	each []walk
}

func newWalks(pool *pool) walks { return walks{pool, make([]walk, pool.size)} }

// walk is one goroutine's window and its reusable memory.
type walk struct {
	rows          rowSet
	lo, hi        int // positions in rows
	blocks        []block
	reach         []uint64
	part, scratch []uint32
}

// enter begins with the rows at positions lo to hi of the set.
func (w *walk) enter(rows rowSet, lo, hi int) {
	w.rows, w.lo, w.hi = rows, lo, hi

	w.blocks = w.blocks[:0]
	if rows.subset == nil {
		for ; lo < hi; lo += 64 {
			w.blocks = append(w.blocks, block{row: lo, rows: 1<<min(hi-lo, 64) - 1})
		}
	} else {
		w.collect(rows.subset[lo:hi])
	}

	// Blocks are processed together: pad with empty ones.
	for len(w.blocks)%blocksTogether != 0 {
		w.blocks = append(w.blocks, block{row: w.blocks[0].row})
	}
}

func (w *walk) collect(rows []uint32) {
	for _, r := range rows {
		n := len(w.blocks)
		if n == 0 || int(r)-w.blocks[n-1].row >= 64 {
			w.blocks = append(w.blocks, block{row: int(r)})
			n++
		}
		w.blocks[n-1].rows |= 1 << (int(r) - w.blocks[n-1].row)
	}
}

func (w *walk) add(t *Tree, plan *routePlan, most int, columns [][]byte, raw []float64) {
	if plan != nil && len(w.blocks)*len(t.Feature) <= most*(w.hi-w.lo) {
		w.reach = resized(w.reach, blocksTogether*(2*len(t.Feature)+1))
		plan.run(w.blocks, w.reach, raw)
		return
	}

	w.part = resized(w.part, w.hi-w.lo)
	w.scratch = resized(w.scratch, w.hi-w.lo)
	w.rows.copy(w.part, w.lo)

	t.route(columns, w.part, w.scratch, func(leaf int, rows []uint32) {
		v := t.LeafValue[leaf]
		for _, r := range rows {
			raw[r] += v
		}
	})
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// splitForm says how membership in a set of bins can be tested by comparison: all bins up to last, and other (equal to
// last if there is none). Every split of a numerical feature has this form; ok is false for other sets.
func (s *binSet) splitForm() (last, other uint8, ok bool) {
	count, first := 0, byteBins // number of members; the first bin that is not one

	for i, w := range s {
		count += bits.OnesCount64(w)
		if first == byteBins && w != 1<<64-1 {
			first = i*64 + bits.TrailingZeros64(^w)
		}
	}

	if first == 0 || count > first+1 {
		return 0, 0, false
	}

	last, other = uint8(first-1), uint8(first-1)
	if count == first+1 {
		for b := first + 1; b < byteBins; b++ {
			if s.has(b) {
				other = uint8(b)
			}
		}
	}

	return last, other, true
}
