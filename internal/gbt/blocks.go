package gbt

import "slices"

// blockBytes is how much of a table that is larger than memory is read for all leaves of a pass before the next part
// is: several times what a disk reads at once, and little beside the memory.
const blockBytes = 4 << 20

// buildByBlocks adds the rows of pairs in one pass over a table that is larger than memory, which takes about as long
// for many leaves as for one. Passes go forwards and backwards in turn: each begins with what the last one has left in
// memory.
func (hb *histogramBuilder) buildByBlocks(pairs []newPair) {
	width := len(hb.data.Features)
	blockRows := max(blockBytes/width, 1)
	blocks := max((hb.data.Rows+blockRows-1)/blockRows, 1) // a worker of a team may have no rows

	begin := func(i int) int { // of the i-th block of the pass
		if hb.backward {
			i = blocks - 1 - i
		}
		return i * blockRows
	}
	part := func(pair int, lo int) []uint32 { // a pair's rows in the block that begins with row lo
		rows := pairs[pair].pair.rows
		from, _ := slices.BinarySearch(rows, uint32(lo))
		to, _ := slices.BinarySearch(rows[from:], uint32(lo+blockRows))
		return rows[from:][:to]
	}
	prefetch := func(lo int) {
		for k := range pairs {
			if len(part(k, lo)) > 0 {
				hb.data.Prefetch(hb.data.RowMajor[lo*width : min(lo+blockRows, hb.data.Rows)*width])
				return
			}
		}
	}

	prefetch(begin(0))
	for i := range blocks {
		if i+1 < blocks {
			prefetch(begin(i + 1))
		}
		for k := range pairs {
			pair := &pairs[k].pair
			if rows := part(k, begin(i)); len(rows) > 0 || !pair.begun {
				hb.add(pair, rows)
				hb.collectAll(pair)
			}
		}
	}
	hb.backward = !hb.backward
}
