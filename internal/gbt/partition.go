package gbt

import "math"

// binSet is a set of bins: the values of a feature that go left. Numerical and categorical splits differ only in the
// sets they can have.
type binSet [4]uint64

func (s *binSet) add(bin int)      { s[bin>>6] |= 1 << (bin & 63) }
func (s *binSet) has(bin int) bool { return s[bin>>6]>>(bin&63)&1 == 1 }

// addUpTo adds the bins up to last.
func (s *binSet) addUpTo(last int) {
	for i := range last >> 6 {
		s[i] = math.MaxUint64
	}
	s[last>>6] |= math.MaxUint64 >> (63 - last&63)
}

// divide distributes the rows of a leaf to its children. Rows whose bin in column is in left move to the front of rows,
// the others to the front of spare, which is as long. Both keep their ascending order, so that later passes walk memory
// forwards. It returns how many went left.
func divide(pool *pool, rows, spare []uint32, column []byte, left *binSet) int {
	chunks := pool.workersFor(len(rows), grain/8)
	if chunks == 1 {
		return partition(rows, spare, column, left)
	}

	begin := func(c int) int { return len(rows) * c / chunks }
	stay := make([]int, chunks) // by chunk, how many of its rows go left

	// Divide each chunk by itself, in its part of rows and spare.
	pool.parallel(chunks, 1, func(_, lo, hi int) {
		for c := lo; c < hi; c++ {
			from, to := begin(c), begin(c+1)
			stay[c] = partition(rows[from:to], spare[from:to], column, left)
		}
	})

	// Close the gaps between the chunks: side 0 is rows, side 1 is spare.
	pool.parallel(2, 1, func(_, lo, hi int) {
		for side := lo; side < hi; side++ {
			at := 0
			for c, n := range stay {
				from, to := begin(c), begin(c+1)
				if side == 0 {
					at += copy(rows[at:], rows[from:from+n])
				} else {
					at += copy(spare[at:], spare[from:to-n])
				}
			}
		}
	})

	total := 0
	for _, n := range stay {
		total += n
	}
	return total
}
