package gbt

import "context"

// This file predicts binned rows: held-out rows and rows outside the bag after every tree, and all rows when a training
// resumes. A tree is applied to many rows at once, node by node: the rows that reach a node are divided by one column,
// without a branch on the data (Tree.route).

// window is how many rows go through all trees before the next rows do, so that their bins and scores stay in the
// second-level cache.
const window = 1 << 14

// addPredictions adds the trees' predictions for the given rows to raw, which is indexed by row, in the order of the
// trees. It returns nothing if ctx ends: some rows then lack predictions, so the caller must check ctx.
func addPredictions(ctx context.Context, trees []*Tree, columns [][]byte, rows rowSet, raw []float64, walks walks) {
	walks.pool.parallel(rows.len(), grain, func(worker, lo, hi int) {
		w := &walks.each[worker]
		if w.part == nil {
			w.part, w.scratch = make([]uint32, window), make([]uint32, window)
		}
		for ; lo < hi && ctx.Err() == nil; lo += window {
			n := min(window, hi-lo)
			for _, t := range trees {
				rows.copy(w.part[:n], lo)
				t.route(columns, w.part[:n], w.scratch[:n], func(leaf int, rows []uint32) {
					v := t.LeafValue[leaf]
					for _, r := range rows {
						raw[r] += v
					}
				})
			}
		}
	})
}

// replay recomputes, bit for bit, the raw scores that growing the trees of an output has left in raw. While the trees
// were grown, each row's score began at bias, and one leaf value per tree was added. Since then bias was added to the
// leaf values of the first tree. So rows in use begin at 0 here, and get bias + value from the first tree. Rows that
// are not in use, and all rows if there are no trees, get bias.
//
// It takes up to a tenth of the time that growing took, which may be minutes. If ctx ends, it returns ctx's error.
func replay(ctx context.Context, trees []*Tree, d *Data, raw []float64, bias float64, walks walks) error {
	for i := range raw {
		raw[i] = bias
	}
	if len(trees) == 0 {
		return nil
	}

	// Set the rows in use to 0, a few at a time.
	rows := d.rows()
	var buf [64]uint32
	for lo := 0; lo < rows.len(); lo += len(buf) {
		part := buf[:min(len(buf), rows.len()-lo)]
		rows.copy(part, lo)
		for _, r := range part {
			raw[r] = 0
		}
	}

	addPredictions(ctx, trees, d.Columns, rows, raw, walks)
	return ctx.Err()
}

// walks holds the memory of addPredictions, one walk for each goroutine of the pool.
type walks struct {
	pool *pool
	each []walk
}

func newWalks(pool *pool) walks { return walks{pool, make([]walk, pool.size)} }

// walk is one goroutine's memory for the rows of a window, and for routing them.
type walk struct{ part, scratch []uint32 }
