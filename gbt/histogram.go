package gbt

import "slices"

// A histogram holds, for every bin of every feature, the sums of gradients and hessians of the rows of one leaf that have
// that bin. While a leaf has at most blockRows rows, one 64-bit word per bin is enough (packing); above, two.
type histogram struct {
	packed []int64 // one word per bin; nil for a large leaf
	wide   []wide  // separate sums; nil if packed is used
}

type wide struct{ g, h int64 }

// counter makes histograms. It owns their layout (where a feature's bins begin), the kernel's workspaces and the free list, and knows
// nothing about trees.
type counter struct {
	data     *Data
	offset   []int // the bins of feature f are at offset[f] .. offset[f+1]
	pool     *pool
	spaces   []workspace   // per goroutine
	counted  []bool        // the spaces in use for the rows being counted together
	pair     histogramPair // the result of counting together
	frequent frequentBins

	freePacked [][]int64
	freeWide   [][]wide

	// State of the current tree.
	features []int // the features to count, ascending
	way      way
	kernel   kernel // without its workspace
}

// workspace is where one goroutine counts one block: stride words per place, so that addressing a bin needs no lookup. Words beyond a
// feature's bins stay zero unless the table has an invalid byte.
type workspace struct {
	words []int64
	block []int64 // the words of the rows being counted
	*buffers
	total int64  // of the rows counted the sparse way; used to complete their most frequent bins
	sums  []wide // over several blocks, in the layout of histogram.wide
}

// way selects how a block is counted.
type way int

const (
	wholeRows way = iota // all features of the table, wanted or not, each at the place of its number
	someBytes            // the wanted features, side by side
	sparse               // the wanted features, each at the place of its number, without its most frequent bin
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

// begin sets the features of the following histograms and the rows' gradients.
func (c *counter) begin(features []int, gh []uint32, pack packing) {
	c.way = chooseWay(c.data, &c.frequent, features)
	c.features = features
	for i := range c.spaces { // the last tree may have counted features that nothing has drained
		clear(c.spaces[i].words)
	}
	c.kernel = newKernel(c.data.RowMajor, len(c.data.Features), features, &c.frequent, gh, pack)
}

// place is where in a workspace the i-th feature is counted.
func (c *counter) place(i int) int {
	if c.way == someBytes {
		return i
	}
	return c.features[i]
}

// words returns the i-th feature's words in a workspace.
func (c *counter) words(space *workspace, i int) []int64 {
	return space.words[c.place(i)*stride:][:c.data.Features[c.features[i]].Bins]
}

// total adds up the bins of the first feature; any feature would do, since each counts every row.
func (c *counter) total(h histogram) sums {
	var gs, hs int64
	for b := c.offset[c.features[0]]; b < c.offset[c.features[0]+1]; b++ {
		g, h := h.at(b, c.kernel.pack)
		gs, hs = gs+g, hs+h
	}
	return sums{float64(gs), float64(hs)}
}

// stray returns a counted feature with bytes beyond its bins among this tree's rows, or -1.
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

// histogramPair is the histograms of the two children of a leaf while they are made. The smaller one's rows have been counted, but the
// goroutines' counts are still to be reduced, feature by feature; with a parent, the larger one is then the parent less the smaller.
type histogramPair struct {
	smaller, parent, larger histogram
	spaces                  []*workspace // workspaces with counts of the smaller leaf
}

// count counts rows, the smaller leaf. The larger leaf, with the parent's other rows, has rest rows; a zero parent has none. Only one pair
// may be in use at a time: after reducing all features, call release. The pair takes over parent.
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

	// The sums of few rows fit packed words, which are smaller and faster.
	if len(rows) <= blockRows {
		m.smaller = histogram{packed: c.takePacked()}
		c.countSmall(rows)
	} else {
		m.smaller = histogram{wide: c.takeWide()}
		c.countLarge(rows, m.smaller.wide)
	}

	// What several goroutines counted is added up later, feature by feature.
	for i, counted := range c.counted {
		if counted {
			m.spaces = append(m.spaces, &c.spaces[i])
		}
	}
	return m
}

// countAlone is count in one goroutine, for a packed parent. Several may run at once, each with its own pair.
func (c *counter) countAlone(worker int, rows []uint32, smaller, parent histogram) histogramPair {
	space := &c.spaces[worker]
	space.total = 0
	c.countBlock(space, rows)
	return histogramPair{smaller: smaller, parent: parent, larger: parent, spaces: []*workspace{space}}
}

// countSmall divides the rows between goroutines; their words can be added, because all rows together fit a word.
func (c *counter) countSmall(rows []uint32) {
	c.pool.parallel(len(rows), grain/16, func(worker, lo, hi int) {
		c.countBlock(&c.spaces[worker], rows[lo:hi])
		c.counted[worker] = true
	})
}

// countLarge counts block by block and adds each block's words to sums that cannot overflow. The first goroutine's sums are the histogram
// itself, so nothing of its space is left to add.
func (c *counter) countLarge(rows []uint32, first []wide) {
	clear(first) // even if other goroutines do all the work
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

// countBlock adds at most blockRows rows to the space's words.
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

// complete returns the i-th feature's words in a space whose rows are counted.
func (c *counter) complete(space *workspace, i int) []int64 {
	words := c.words(space, i)
	if c.way == sparse { // the remainder belongs to the most frequent bin
		left := space.total
		for _, w := range words {
			left -= w
		}
		words[c.frequent.bin[c.features[i]]] += left
	}
	return words
}

// drainWide adds the space's words to its sums and zeroes the words.
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

// reduce completes the i-th feature of a pair. Different goroutines may reduce different features.
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

// drainPacked moves the i-th feature's words from all spaces to dst and zeroes them.
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

// subtract computes the larger leaf's sums as parent less smaller, possibly in the parent's memory.
func (c *counter) subtract(larger, parent, smaller histogram) {
	switch {
	case parent.packed != nil:
		// A difference of words is the word of the differences: both sums are linear modulo 2^64.
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

	for i := range larger.packed { // few enough rows for packed words, unlike the parent
		s := parent.wide[i]
		larger.packed[i] = s.g<<c.kernel.pack.shift + s.h
	}
}

// release ends the use of a pair whose features have all been reduced.
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

// free returns h to the free list. The zero histogram is ignored.
func (c *counter) free(h histogram) {
	if h.packed != nil {
		c.freePacked = append(c.freePacked, h.packed)
	}
	if h.wide != nil {
		c.freeWide = append(c.freeWide, h.wide)
	}
}

// slice returns bins lo <= i < hi.
func (h histogram) slice(lo, hi int) histogram {
	switch {
	case h.packed != nil:
		h.packed = h.packed[lo:hi]
	case h.wide != nil:
		h.wide = h.wide[lo:hi]
	}
	return h
}

// at returns the sums of bin i, counted over all features.
func (h histogram) at(i int, p packing) (gradient, hessian int64) {
	if h.packed != nil {
		return p.sums(h.packed[i])
	}
	return h.wide[i].g, h.wide[i].h
}

// sums returns at as floats.
func (h histogram) sums(i int, p packing) sums {
	g, hs := h.at(i, p)
	return sums{float64(g), float64(hs)}
}
