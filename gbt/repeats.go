package gbt

import "bytes"

// repeats says which rows have the bins of the row before, a bit each. A log has many of them, a sensor's at rest or an attack's:
// in the benchmark's kddcup99 two rows of five. They go the same way at every node, so they stay neighbours in every leaf, and
// adding the sum of their gradients once does for all that are in the bag.
type repeats []uint64

// How many rows, evenly spaced, are looked at to decide whether repeats are worth a pass over the table, and how many additions
// to bins it costs to find the end of a run. Both are matters of speed only.
const (
	repeatSample = 2048
	repeatCost   = 6
)

// findRepeats is empty where there are too few. share is that of all rows in use that can be counted with the one before.
func findRepeats(d *Data, crew *crew) (r repeats, share float64) {
	width := len(d.Features)
	alike := func(row int) bool {
		return row > 0 && bytes.Equal(d.RowMajor[(row-1)*width:row*width], d.RowMajor[row*width:(row+1)*width])
	}

	// A sample says whether looking at every row would pay.
	looks := min(d.Rows, repeatSample)
	found := 0
	for i := range looks {
		if alike(i * (d.Rows / looks)) {
			found++
		}
	}

	share = float64(found) / float64(max(looks, 1)) * float64(d.Used()) / float64(max(d.Rows, 1))
	if share*float64(width) <= repeatCost {
		return nil, 0
	}

	r = make(repeats, (d.Rows+63)/64)
	crew.parallel(len(r), grain/64, func(_, lo, hi int) {
		for row := lo * 64; row < min(hi*64, d.Rows); row++ {
			if alike(row) {
				r[row>>6] |= 1 << (row & 63)
			}
		}
	})

	return r, share
}
