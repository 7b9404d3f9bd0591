package gbt

import (
	"cmp"
	"slices"
)

// blockBytes is how much of a table that is larger than memory is read for all leaves of a pass before the next part
// is, unless Disk says: several times what a disk reads at once, and little beside the memory. blocksAhead is how many
// blocks are in memory or on their way beside those that stayed: one that is used, and one that is read meanwhile.
const (
	blockBytes  = 4 << 20
	blocksAhead = 2
)

// blockReader passes over a table that is larger than memory.
type blockReader struct {
	data  *Data
	bytes int            // of a block, at most
	rows  int            // of a block
	wait  []func() error // by block, until it has been read; nil for one that is not on its way
	there []bool         // by block, whether it is in memory
}

func newBlockReader(d *Data) *blockReader {
	size := cmp.Or(d.Disk.Block, blockBytes)
	rows := max(size/len(d.Features), 1)
	n := (d.Rows + rows - 1) / rows
	return &blockReader{data: d, bytes: size, rows: rows, wait: make([]func() error, n), there: make([]bool, n)}
}

func (b *blockReader) begin(i int) int { return min(i*b.rows, b.data.Rows) }

func (b *blockReader) part(i int) []byte {
	width := len(b.data.Features)
	return b.data.Disk.Rows[b.begin(i)*width : b.begin(i+1)*width]
}

// stays reports whether a block stays in memory. Those that do are spread evenly, so that the disk reads on while their
// rows are added up.
func (b *blockReader) stays(i int) bool {
	keep := max(b.data.Disk.Keep/b.bytes-blocksAhead, 0)
	return i*keep%len(b.there) < keep
}

// fetch begins to read a block, and returns how many that are: none if it is there or on its way.
func (b *blockReader) fetch(i int) int {
	if b.there[i] || b.wait[i] != nil {
		return 0
	}
	b.wait[i] = b.data.Disk.Fetch(b.part(i))
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
		if wait != nil || b.there[i] {
			b.data.Disk.Drop(b.part(i))
		}
	}
}

// pass reads the blocks that have rows of any of the lists, which ascend, and calls use with each list's rows in each
// block. What use has been given, it may overwrite.
func (b *blockReader) pass(lists [][]uint32, use func(list int, rows []uint32)) error {
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
			b.wait[i], b.there[i] = nil, true
			if err != nil {
				return err
			}
			ahead--
		}
		for k, rows := range rest {
			n := end(rows, i)
			if n > 0 {
				use(k, rows[:n])
			}
			rest[k] = rows[n:]
		}
		if !b.stays(i) {
			b.data.Disk.Drop(b.part(i))
			b.there[i] = false
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
	err := hb.reader.pass(lists, func(k int, rows []uint32) { hb.addBlock(&pairs[k].pair, rows) })
	for k := range pairs {
		if !pairs[k].pair.begun { // a worker of a team may have no rows
			hb.addBlock(&pairs[k].pair, nil)
		}
	}
	return err
}

// addBlock adds some rows of a pair.
func (hb *histogramBuilder) addBlock(pair *histogramPair, rows []uint32) {
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

	err := g.histograms.reader.pass(lists, func(k int, rows []uint32) {
		l := next[k]
		toLeft, toRight := l.rows[left[k]:], l.spare[right[k]:]
		n := g.divideBlock(rows, toLeft, toRight, &l.best)
		left[k] += n
		right[k] += len(rows) - n
		if addsLeft(l) {
			g.histograms.addBlock(&pairs[k].pair, toLeft[:n])
		} else {
			g.histograms.addBlock(&pairs[k].pair, toRight[:len(rows)-n])
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
func (g *grower) divideBlock(rows, toLeft, toRight []uint32, best *split) int {
	width, bins := len(g.data.Features), g.data.Disk.Rows[best.feature:]
	n := 0
	for i, r := range rows {
		bin := bins[int(r)*width]
		toLeft[n] = r
		toRight[i-n] = r
		n += int(best.left[bin>>6] >> (bin & 63) & 1)
	}
	return n
}
