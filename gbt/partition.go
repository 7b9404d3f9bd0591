package gbt

// binSet is a set of bins: which values of one feature go left. Numerical and categorical splits differ only in which
// sets they can have.
type binSet [4]uint64

func (s *binSet) add(bin int)      { s[bin>>6] |= 1 << (bin & 63) }
func (s *binSet) has(bin int) bool { return s[bin>>6]>>(bin&63)&1 == 1 }

// divide shares the rows of a leaf out between its children: those that go left stay, at the front of rows, and the others
// go to the front of spare, which is as long and belongs to the leaf, too. Both keep the rows' ascending order, which lets every
// later pass walk memory forwards. It returns how many went left.
func divide(pool *pool, rows, spare []uint32, column []byte, left *binSet) int {
	chunks := pool.workersFor(len(rows), grain/8)
	if chunks == 1 {
		return partition(rows, spare, column, left)
	}

	begin := func(c int) int { return len(rows) * c / chunks }
	stay := make([]int, chunks) // how many of each chunk go left

	// Each chunk is divided by itself, by whichever worker takes it.
	pool.parallel(chunks, 1, func(_, lo, hi int) {
		for c := lo; c < hi; c++ {
			from, to := begin(c), begin(c+1)
			stay[c] = partition(rows[from:to], spare[from:to], column, left)
		}
	})

	// Now there are gaps between the chunks, on either side. What lies behind a gap moves up.
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
