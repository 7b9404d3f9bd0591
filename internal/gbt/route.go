package gbt

import "context"

// Trees predict a binned table column by column: the rows that go left at a node are found for many rows at once,
// without a branch on the data. This scores held-out rows and rows outside the bag after every tree, and all rows when
// a training resumes.

// window is how many rows pass through all trees before the next rows do, so that their bins and scores stay in the
// second-level cache.
const window = 1 << 14

// addPredictions adds the trees' predictions for rows to raw, which is indexed by row, tree by tree. If ctx ends, some
// rows lack predictions.
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

// walks holds one walk for each goroutine of a pool.
type walks struct {
	pool *pool
	each []walk
}

func newWalks(pool *pool) walks { return walks{pool, make([]walk, pool.size)} }

// walk is one goroutine's reusable memory.
type walk struct{ part, scratch []uint32 }
