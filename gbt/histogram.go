package gbt

import "slices"

// A histogram holds, for every bin of every feature, the sums of gradients and hessians of the rows of one leaf that have
// that bin. While a leaf has at most blockRows rows, one 64-bit word per bin is enough (packing); above, two.
type histogram struct {
	packed []int64 // one word per bin; nil when the leaf is too large
	wide   []wide  // the same sums apart; nil when packed is used
}

type wide struct{ g, h int64 }

// counter makes histograms. It owns the layout (where a feature's bins begin), the workspaces of the kernel and the free
// list, and knows nothing of trees.
type counter struct {
	data     *Data
	offset   []int // feature f's bins lie at offset[f] .. offset[f+1]
	pool     *pool
	spaces   []workspace   // one per goroutine
	counted  []bool        // those that hold something of the rows that all goroutines count
	pair     histogramPair // which they make of them
	frequent frequentBins

	freePacked [][]int64
	freeWide   [][]wide

	// of the present tree:
	features []int // that the histograms are about, ascending
	way      way
	kernel   kernel // all but the workspace
}

// workspace is where one goroutine counts one block: stride words per place, so that the address of a bin needs no
// look-up. bins are the data's bins; words behind them stay zero unless the table has a byte that is no bin.
type workspace struct {
	words []int64
	block []int64 // the words of the rows being counted
	*buffers
	total int64  // of the rows counted the sparse way, which is what their most frequent bins still lack
	sums  []wide // of more than one block, in the layout of histogram.wide
}

// way is how a block is counted.
type way int

const (
	wholeRows way = iota // every feature of the table, asked for or not, each at the place of its number
	someBytes            // the features asked for, side by side
	sparse               // the features asked for, each at the place of its number, but for its most frequent bin
)

func newCounter(d *Data, pool *pool) *counter {
	c := &counter{data: d, pool: pool, offset: make([]int, len(d.Features)+1), spaces: make([]workspace, pool.size),
		counted: make([]bool, pool.size)}

	for f := range d.Features {
		c.offset[f+1] = c.offset[f] + d.Features[f].Bins
	}
	for i := range c.spaces {
		c.spaces[i] = workspace{words: make([]int64, stride*len(d.Features)), block: make([]int64, kernelRows), buffers: newBuffers(len(d.Features))}
	}

	c.frequent = findFrequentBins(d)
	return c
}

func (c *counter) bins() int { return c.offset[len(c.offset)-1] }

// begin tells the counter which features the next histograms are about and what the rows' gradients are.
func (c *counter) begin(features []int, gh []uint32, pack packing) {
	c.way = chooseWay(c.data, &c.frequent, features)
	c.features = features
	for i := range c.spaces { // of features that nobody asked for, something may have been counted
		clear(c.spaces[i].words)
	}
	c.kernel = newKernel(c.data.RowMajor, len(c.data.Features), features, &c.frequent, gh, pack)
}

// place is where in a workspace the i-th of the features is counted.
func (c *counter) place(i int) int {
	if c.way == someBytes {
		return i
	}
	return c.features[i]
}

// words are those of the i-th feature in a workspace.
func (c *counter) words(space *workspace, i int) []int64 {
	return space.words[c.place(i)*stride:][:c.data.Features[c.features[i]].Bins]
}

// total adds up the bins of a feature that was asked for: any has all rows.
func (c *counter) total(h histogram) sums {
	var gs, hs int64
	for b := c.offset[c.features[0]]; b < c.offset[c.features[0]+1]; b++ {
		g, h := h.at(b, c.kernel.pack)
		gs, hs = gs+g, hs+h
	}
	return sums{float64(gs), float64(hs)}
}

// stray is a feature, of those asked for, that has bytes beyond its bins among the rows counted in this tree, or -1.
func (c *counter) stray() int {
	for s := range c.spaces {
		for i, f := range c.features {
			at := c.place(i) * stride
			for _, w := range c.spaces[s].words[at+c.data.Features[f].Bins : at+MaxBins] {
				if w != 0 {
					return f
				}
			}
		}
	}
	return -1
}

// histogramPair is the histogram of the smaller of two leaves in the making: its rows are counted, and what the goroutines counted is still to be put
// together, feature by feature. With a parent, so is that of the rest of the parent's rows, the larger leaf.
type histogramPair struct {
	smaller, parent, larger histogram
	spaces                  []*workspace // that hold something of the smaller leaf's rows
}

// count counts rows, the smaller leaf's. The larger leaf, with the other rows of parent, has so many; the zero parent has none. When all
// features have been reduced, release ends it, and only then there may be another. parent is the pair's from now on.
func (c *counter) count(rows []uint32, parent histogram, rest int) *histogramPair {
	m := &c.pair
	*m = histogramPair{parent: parent, larger: parent, spaces: m.spaces[:0]}
	if parent.wide != nil && rest <= blockRows {
		m.larger = histogram{packed: c.takePacked()}
	}

	for i := range c.spaces {
		c.counted[i] = false
		c.spaces[i].total = 0
	}

	// A sum over few rows fits a packed word, which is smaller and faster.
	if len(rows) <= blockRows {
		m.smaller = histogram{packed: c.takePacked()}
		c.countSmall(rows)
	} else {
		m.smaller = histogram{wide: c.takeWide()}
		c.countLarge(rows, m.smaller.wide)
	}

	// What was counted by several workers is added up later, feature by feature.
	for i, counted := range c.counted {
		if counted {
			m.spaces = append(m.spaces, &c.spaces[i])
		}
	}
	return m
}

// countAlone is count by one goroutine, for a parent that fits words. Several may do so at once, for one pair each.
func (c *counter) countAlone(worker int, rows []uint32, smaller, parent histogram) histogramPair {
	space := &c.spaces[worker]
	space.total = 0
	c.countBlock(space, rows)
	return histogramPair{smaller: smaller, parent: parent, larger: parent, spaces: []*workspace{space}}
}

// countSmall shares rows out to the goroutines; their words can be added, because all rows together fit a word.
func (c *counter) countSmall(rows []uint32) {
	c.pool.parallel(len(rows), grain/16, func(worker, lo, hi int) {
		c.countBlock(&c.spaces[worker], rows[lo:hi])
		c.counted[worker] = true
	})
}

// countLarge counts block by block and adds each block's words to sums that cannot overflow: the first goroutine's are the
// histogram itself, and its space holds nothing that is still to be added.
func (c *counter) countLarge(rows []uint32, first []wide) {
	clear(first) // even if others should do all the work
	c.spaces[0].sums = first
	c.counted[0] = true

	c.pool.parallel(len(rows), grain, func(worker, lo, hi int) {
		space := &c.spaces[worker]
		if space.sums == nil {
			space.sums = make([]wide, c.bins())
		}
		if !c.counted[worker] {
			clear(space.sums)
			c.counted[worker] = true
		}

		for block := range slices.Chunk(rows[lo:hi], blockRows) {
			c.countBlock(space, block)
			c.drainWide(space)
		}
	})

	c.spaces[0].sums = nil
	c.counted[0] = false
}

// countBlock adds rows, at most blockRows of them, to the space's words.
func (c *counter) countBlock(space *workspace, rows []uint32) {
	if len(rows) == 0 {
		return
	}
	switch c.way {
	case wholeRows:
		c.kernel.countAll(space, rows)
	case someBytes:
		c.kernel.countChosen(space, rows)
	case sparse:
		space.total += c.kernel.countSparse(space, rows)
	}
}

// complete is the i-th feature's words in a space whose rows are counted.
func (c *counter) complete(space *workspace, i int) []int64 {
	words := c.words(space, i)
	if c.way == sparse { // what the other bins leave is the most frequent one's
		left := space.total
		for _, w := range words {
			left -= w
		}
		words[c.frequent.bin[c.features[i]]] += left
	}
	return words
}

// drainWide adds the space's words to its sums and leaves zeros behind.
func (c *counter) drainWide(space *workspace) {
	for i, f := range c.features {
		from := c.complete(space, i)
		to := space.sums[c.offset[f]:c.offset[f+1]]
		for i, w := range from {
			g, h := c.kernel.pack.sums(w)
			to[i].g += g
			to[i].h += h
		}
		clear(from)
	}
	space.total = 0
}

// reduce puts the i-th feature of a pair together. Different goroutines may reduce different features.
func (c *counter) reduce(m *histogramPair, i int) {
	lo, hi := c.offset[c.features[i]], c.offset[c.features[i]+1]
	smaller := m.smaller.slice(lo, hi)

	if smaller.packed != nil {
		c.drainPacked(smaller.packed, i, m.spaces)
	} else {
		for _, space := range m.spaces {
			for b, s := range space.sums[lo:hi] {
				smaller.wide[b].g += s.g
				smaller.wide[b].h += s.h
			}
		}
	}

	if m.parent.packed != nil || m.parent.wide != nil {
		c.subtract(m.larger.slice(lo, hi), m.parent.slice(lo, hi), smaller)
	}
}

// drainPacked moves the i-th feature's words to dst, adding those of several goroutines, and leaves zeros behind.
func (c *counter) drainPacked(dst []int64, i int, spaces []*workspace) {
	for n, space := range spaces {
		from := c.complete(space, i)
		if n == 0 {
			copy(dst, from)
		} else {
			for b, w := range from {
				dst[b] += w
			}
		}
		clear(from)
	}
}

// subtract makes the larger leaf's sums: the parent's less the smaller's. Their memory may be the parent's.
func (c *counter) subtract(larger, parent, smaller histogram) {
	switch {
	case parent.packed != nil:
		// A difference of words is the word of the differences: both are linear in the sums modulo 2^64.
		for i, w := range smaller.packed {
			larger.packed[i] = parent.packed[i] - w
		}
		return
	case smaller.packed != nil:
		for i, w := range smaller.packed {
			g, h := c.kernel.pack.sums(w)
			parent.wide[i].g -= g
			parent.wide[i].h -= h
		}
	default:
		for i, s := range smaller.wide {
			parent.wide[i].g -= s.g
			parent.wide[i].h -= s.h
		}
	}

	for i := range larger.packed { // few enough rows for words, unlike the parent's
		s := parent.wide[i]
		larger.packed[i] = s.g<<c.kernel.pack.shift + s.h
	}
}

// release ends a pair all of whose features have been reduced.
func (c *counter) release(m *histogramPair) {
	if m.parent.wide != nil && m.larger.wide == nil {
		c.free(m.parent)
	}
}

func (c *counter) takePacked() []int64 {
	if n := len(c.freePacked); n > 0 {
		h := c.freePacked[n-1]
		c.freePacked = c.freePacked[:n-1]
		return h
	}
	return make([]int64, c.bins())
}

func (c *counter) takeWide() []wide {
	if n := len(c.freeWide); n > 0 {
		h := c.freeWide[n-1]
		c.freeWide = c.freeWide[:n-1]
		return h
	}
	return make([]wide, c.bins())
}

// free takes h back. The zero histogram is nothing to take.
func (c *counter) free(h histogram) {
	if h.packed != nil {
		c.freePacked = append(c.freePacked, h.packed)
	}
	if h.wide != nil {
		c.freeWide = append(c.freeWide, h.wide)
	}
}

// slice is the bins lo <= i < hi.
func (h histogram) slice(lo, hi int) histogram {
	switch {
	case h.packed != nil:
		h.packed = h.packed[lo:hi]
	case h.wide != nil:
		h.wide = h.wide[lo:hi]
	}
	return h
}

// at is the sums of bin i, counted over all features.
func (h histogram) at(i int, p packing) (gradient, hessian int64) {
	if h.packed != nil {
		return p.sums(h.packed[i])
	}
	return h.wide[i].g, h.wide[i].h
}

// sums is at as numbers that can be divided.
func (h histogram) sums(i int, p packing) sums {
	g, hs := h.at(i, p)
	return sums{float64(g), float64(hs)}
}
