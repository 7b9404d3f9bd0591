package gbt

import "slices"

// blocksAhead is how many blocks of a table that is larger than memory are there or on their way beside those that
// stay: one that is used for all leaves of a pass, and one that is read meanwhile.
const blocksAhead = 2

// blockReader passes over a table that is larger than memory.
type blockReader struct {
	data *Data
	rows int            // of a block
	wait []func() error // by block, until it has been read; nil for one that is not on its way
	bins [][]byte       // by block, of all its rows; nil for one that is neither in memory nor on its way
}

func newBlockReader(d *Data) *blockReader {
	rows := max(d.Disk.Block/len(d.Features), 1)
	n := (d.Rows + rows - 1) / rows
	return &blockReader{data: d, rows: rows, wait: make([]func() error, n), bins: make([][]byte, n)}
}

func (b *blockReader) begin(i int) int { return min(i*b.rows, b.data.Rows) }

// stays reports whether a block stays in memory. Those that do are spread evenly, so that the disk reads on while their
// rows are added up.
func (b *blockReader) stays(i int) bool {
	keep := max(b.data.Disk.Blocks-blocksAhead, 0)
	return i*keep%len(b.bins) < keep
}

// fetch begins to read a block, and returns how many that are: none if it is there or on its way.
func (b *blockReader) fetch(i int) int {
	if b.bins[i] != nil {
		return 0
	}
	width := len(b.data.Features)
	b.bins[i], b.wait[i] = b.data.Disk.Fetch(b.data.RowMajor[b.begin(i)*width : b.begin(i+1)*width])
	return 1
}

// close frees the memory of all blocks. Another training may divide the same table into others.
func (b *blockReader) close() {
	if b == nil {
		return
	}
	for i, wait := range b.wait {
		if wait != nil { // one before it could not be read
			_ = wait()
		}
		if b.bins[i] != nil {
			b.data.Disk.Drop(b.bins[i])
		}
	}
}

// pass reads the blocks that have rows of any of the lists, which ascend, and calls use with each block that has been
// read, each list, and its rows in the block, if any. What use has been given, it may overwrite.
func (b *blockReader) pass(lists [][]uint32, use func(block, list int, rows []uint32)) error {
	end := func(rows []uint32, block int) int {
		n, _ := slices.BinarySearch(rows, uint32(b.begin(block+1)))
		return n
	}
	var needed []int
	for i := range b.wait {
		if slices.ContainsFunc(lists, func(rows []uint32) bool { return end(rows, i-1) < end(rows, i) }) {
			needed = append(needed, i)
		}
	}

	rest := slices.Clone(lists)
	next, ahead := 0, 0
	for _, i := range needed {
		for ahead += b.fetch(i); next < len(needed) && ahead < blocksAhead; next++ {
			ahead += b.fetch(needed[next])
		}
		if b.wait[i] != nil {
			err := b.wait[i]()
			b.wait[i] = nil
			if err != nil {
				return err
			}
			ahead--
		}
		for k, rows := range rest {
			n := end(rows, i)
			if n > 0 {
				use(i, k, rows[:n])
			}
			rest[k] = rows[n:]
		}
		if !b.stays(i) {
			b.data.Disk.Drop(b.bins[i])
			b.bins[i] = nil
		}
	}
	return nil
}

// buildByBlocks adds the rows of pairs in one pass over a table that is larger than memory, which takes about as long
// for many leaves as for one.
func (hb *histogramBuilder) buildByBlocks(pairs []newPair) error {
	lists := make([][]uint32, len(pairs))
	for k := range pairs {
		lists[k] = pairs[k].pair.rows
	}
	err := hb.reader.pass(lists, func(block, k int, rows []uint32) { hb.addBlock(&pairs[k].pair, block, rows) })
	for k := range pairs {
		if !pairs[k].pair.begun { // a worker of a team may have no rows
			hb.add(&pairs[k].pair, nil)
			hb.collectAll(&pairs[k].pair)
		}
	}
	return err
}

// addBlock adds the rows of a pair in a block.
func (hb *histogramBuilder) addBlock(pair *histogramPair, block int, rows []uint32) {
	hb.kernel.at(hb.reader.bins[block], hb.reader.begin(block))
	hb.add(pair, rows)
	hb.collectAll(pair)
}

// prepareByBlocks prepares leaves in one pass over a table that is larger than memory, in which their rows are divided,
// and those of one child are added up: the one with the smaller hessians, since how many rows each gets is not known
// before.
func (g *grower) prepareByBlocks(next []*leaf) error {
	lists, left, right := make([][]uint32, len(next)), make([]int, len(next)), make([]int, len(next))
	pairs := make([]newPair, len(next))
	for k, l := range next {
		lists[k] = l.rows
		l.children = g.newChildren()
		pairs[k].pair = g.histograms.pair(nil, l.n, l.hist, l.n)
		l.hist = histogram{}
	}
	addsLeft := func(l *leaf) bool { return 2*l.best.sums.h <= l.sums.h }

	err := g.histograms.reader.pass(lists, func(block, k int, rows []uint32) {
		l := next[k]
		toLeft, toRight := l.rows[left[k]:], l.spare[right[k]:]
		n := g.divideBlock(block, rows, toLeft, toRight, &l.best)
		left[k] += n
		right[k] += len(rows) - n
		if addsLeft(l) {
			g.histograms.addBlock(&pairs[k].pair, block, toLeft[:n])
		} else {
			g.histograms.addBlock(&pairs[k].pair, block, toRight[:len(rows)-n])
		}
	})
	if err != nil {
		return err
	}

	for k, l := range next {
		g.shareRows(l, left[k], left[k])
		added, other := &l.children.left, &l.children.right
		if !addsLeft(l) {
			added, other = other, added
		}
		added.hist, other.hist = pairs[k].pair.smaller, pairs[k].pair.larger
		pairs[k].leaves = []*leaf{added, other}
	}
	return g.findSplits(pairs)
}

// divideBlock is partition by the row-major layout, of which the histogram reads the same rows next. toLeft may be the
// memory of rows, or begin before it.
func (g *grower) divideBlock(block int, rows, toLeft, toRight []uint32, best *split) int {
	reader := g.histograms.reader
	width, bins, first := len(g.data.Features), reader.bins[block][best.feature:], reader.begin(block)
	n := 0
	for i, r := range rows {
		bin := bins[(int(r)-first)*width]
		toLeft[n] = r
		toRight[i-n] = r
		n += int(best.left[bin>>6] >> (bin & 63) & 1)
	}
	return n
}
