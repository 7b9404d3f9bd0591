package gbt

import (
	"context"
	"math/bits"
)

// Trees predict a binned table column by column: which rows go left at a node is found for many rows at once, without a jump
// on the data. Held-out rows and rows outside the bag are scored so after every tree, and all rows when a training is
// taken up again.

// window is how many rows go through all trees before the next ones do, so that their bins and scores stay in the
// second-level cache.
const window = 1 << 14

// addScores adds the trees' predictions for rows to score, which is indexed by row, tree after
// tree. When ctx ends, some rows have no predictions.
func addScores(ctx context.Context, trees []*Tree, columns [][]byte, rows rowSet, score []float64, walks walks) {
	for ; len(trees) > plansAtOnce; trees = trees[plansAtOnce:] {
		addScores(ctx, trees[:plansAtOnce], columns, rows, score, walks)
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
				w.add(t, plans[i], most, columns, score)
			}
		}
	})
}

// plansAtOnce bounds the memory of plans, some kilobytes for each tree.
const plansAtOnce = 64

// replay makes the scores that growing the trees made, bit for bit: a row's score began at the bias and took one value per
// tree, in the trees' order. The first tree carries the bias by now, and bias + value is what its leaf says, so rows in
// use begin at zero.
//
// It takes up to a tenth of the time that growing took, which may be minutes, and ends early with ctx's error.
func replay(ctx context.Context, trees []*Tree, d *Data, score []float64, bias float64, walks walks) error {
	for i := range score {
		score[i] = bias
	}
	if len(trees) == 0 {
		return nil
	}

	// The first tree brings the bias along to the rows that it scores.
	rows := d.rows()
	var own [64]uint32
	for lo := 0; lo < rows.len(); lo += len(own) {
		part := own[:min(len(own), rows.len()-lo)]
		rows.copy(part, lo)
		for _, r := range part {
			score[r] = 0
		}
	}

	addScores(ctx, trees, d.Columns, rows, score, walks)
	return ctx.Err()
}

// nodesPerRow is the most nodes per row with which looking at all of a tree's nodes for a whole block, 2 ns each, is faster
// than moving rows from leaf to leaf. Where all 64 rows of a block are asked for, that is every tree with a plan; of a bag's
// or fold's remains there may be a few. Where one tree follows the other over a window, moving rows is faster, too: their bins
// are near by then.
const (
	nodesPerRow      = 6
	nodesPerRowAgain = 3
)

// blocksTogether is how many blocks pass a tree side by side.
const blocksTogether = 2

// block is some of 64 neighbouring rows, or none.
type block struct {
	row  int    // the first
	rows uint64 // bit i is set for row + i
}

// walks are a pool's, one each.
type walks struct {
	pool *pool
	each []walk
}

func newWalks(pool *pool) walks { return walks{pool, make([]walk, pool.size)} }

// walk is one goroutine's window, and memory that it uses again for the next.
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
		w.gather(rows.subset[lo:hi])
	}

	// Blocks are walked together: fill up with empty ones.
	for len(w.blocks)%blocksTogether != 0 {
		w.blocks = append(w.blocks, block{row: w.blocks[0].row})
	}
}

func (w *walk) gather(rows []uint32) {
	for _, r := range rows {
		n := len(w.blocks)
		if n == 0 || int(r)-w.blocks[n-1].row >= 64 {
			w.blocks = append(w.blocks, block{row: int(r)})
			n++
		}
		w.blocks[n-1].rows |= 1 << (int(r) - w.blocks[n-1].row)
	}
}

func (w *walk) add(t *Tree, plan *routePlan, most int, columns [][]byte, score []float64) {
	if plan != nil && len(w.blocks)*len(t.Feature) <= most*(w.hi-w.lo) {
		w.reach = resized(w.reach, blocksTogether*(2*len(t.Feature)+1))
		plan.run(w.blocks, w.reach, score)
		return
	}

	w.part = resized(w.part, w.hi-w.lo)
	w.scratch = resized(w.scratch, w.hi-w.lo)
	w.rows.copy(w.part, w.lo)

	t.route(columns, w.part, w.scratch, func(leaf int, rows []uint32) {
		v := t.LeafValue[leaf]
		for _, r := range rows {
			score[r] += v
		}
	})
}

func resized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// splitForm says how a set of bins can be compared at once: all bins up to last, and other (which is last where there is
// none). Every split of a numerical feature is such a set; ok is false for sets of another form.
func (s *binSet) splitForm() (last, other uint8, ok bool) {
	count, first := 0, MaxBins // of members; the first bin that is none

	for i, w := range s {
		count += bits.OnesCount64(w)
		if first == MaxBins && w != 1<<64-1 {
			first = i*64 + bits.TrailingZeros64(^w)
		}
	}

	if first == 0 || count > first+1 {
		return 0, 0, false
	}

	last, other = uint8(first-1), uint8(first-1)
	if count == first+1 {
		for b := first + 1; b < MaxBins; b++ {
			if s.has(b) {
				other = uint8(b)
			}
		}
	}

	return last, other, true
}
