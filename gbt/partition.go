package gbt

// binSet is a set of bins: which values of one feature go left. Numerical and categorical splits differ only in which
// sets they can have.
type binSet [4]uint64

func (s *binSet) add(bin int)      { s[bin>>6] |= 1 << (bin & 63) }
func (s *binSet) has(bin int) bool { return s[bin>>6]>>(bin&63)&1 == 1 }

// partitioner reorders the rows of a leaf so that those of its left child come first. Both children keep the rows'
// ascending order, which lets every later pass walk memory forwards.
type partitioner struct {
	threads int
	scratch []uint32 // as long as all rows
}

// split reorders rows by column and returns how many go left. scratch is as long as rows and belongs to them alone.
func (p *partitioner) split(rows, scratch []uint32, column []byte, left *binSet) int {
	chunks := max(min(p.threads, len(rows)/grain), 1)
	if chunks == 1 {
		n := partition(rows, scratch, column, left)
		copy(rows[n:], scratch[:len(rows)-n])
		return n
	}
	// Each chunk is partitioned where it lies, right ones first in its scratch and left ones behind them. Then all move to
	// where they belong.
	counts := make([]int, chunks)
	parallel(chunks, chunks, 1, func(_, lo, hi int) {
		for c := lo; c < hi; c++ {
			from, to := len(rows)*c/chunks, len(rows)*(c+1)/chunks
			n := partition(rows[from:to], scratch[from:to], column, left)
			copy(scratch[to-n:to], rows[from:from+n])
			counts[c] = n
		}
	})
	total := 0
	for _, n := range counts {
		total += n
	}
	parallel(chunks, chunks, 1, func(_, lo, hi int) {
		leftAt, rightAt := 0, total
		for c := range hi {
			from, to := len(rows)*c/chunks, len(rows)*(c+1)/chunks
			n := counts[c]
			if c >= lo {
				copy(rows[leftAt:leftAt+n], scratch[to-n:to])
				copy(rows[rightAt:], scratch[from:to-n])
			}
			leftAt, rightAt = leftAt+n, rightAt+to-from-n
		}
	})
	return total
}
