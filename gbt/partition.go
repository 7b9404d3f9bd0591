package gbt

// binSet is a set of bins: which values of one feature go left. Numerical and categorical splits differ only in which
// sets they can have.
type binSet [4]uint64

func (s *binSet) add(bin int)      { s[bin>>6] |= 1 << (bin & 63) }
func (s *binSet) has(bin int) bool { return s[bin>>6]>>(bin&63)&1 == 1 }

// lookup is a binSet as bytes, 1 for members, which is what the partition loop reads.
type lookup [MaxBins]uint8

func (s *binSet) fill(t *lookup) {
	for b := range t {
		t[b] = uint8(s[b>>6] >> (b & 63) & 1)
	}
}

// partitioner reorders the rows of a leaf so that those of its left child come first. Both children keep the rows'
// ascending order, which lets every later pass walk memory forwards.
type partitioner struct {
	threads int
	scratch []uint32 // as long as all rows
	table   lookup
}

// split reorders rows by column and returns how many go left. scratch belongs to rows alone while it runs.
func (p *partitioner) split(rows, scratch []uint32, column []byte, left *binSet) int {
	left.fill(&p.table)
	chunks := max(min(p.threads, len(rows)/grain), 1)
	if chunks == 1 {
		n := partition(rows, scratch, column, &p.table)
		place(rows[:n], rows[n:], scratch, n)
		return n
	}
	counts := make([]int, chunks)
	parallel(chunks, chunks, 1, func(_, lo, hi int) {
		for c := lo; c < hi; c++ {
			from, to := len(rows)*c/chunks, len(rows)*(c+1)/chunks
			counts[c] = partition(rows[from:to], scratch[from:to], column, &p.table)
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
				place(rows[leftAt:leftAt+n], rows[rightAt:rightAt+to-from-n], scratch[from:to], n)
			}
			leftAt, rightAt = leftAt+n, rightAt+to-from-n
		}
	})
	return total
}

// place writes a partitioned chunk to where its two parts belong: the first n of scratch are the left ones, the rest
// the right ones backwards.
func place(left, right, scratch []uint32, n int) {
	copy(left, scratch[:n])
	for i := range right {
		right[i] = scratch[len(scratch)-1-i]
	}
}
