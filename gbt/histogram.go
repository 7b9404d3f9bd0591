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
	data    *Data
	offset  []int // feature f's bins lie at offset[f] .. offset[f+1]
	threads int
	spaces  []workspace // one per goroutine
	commons commons
	all     []int // every feature

	freePacked [][]int64
	freeWide   [][]wide

	// of the present tree:
	asked    []int // the features that the histograms are about, ascending
	features []int // those that are counted, ascending: those asked for or, where whole rows are cheaper, all
	way      way
	kernel   kernel // all but the workspace
}

// workspace is where one goroutine counts one block: stride words per place, so that the address of a bin needs no
// look-up. bins are the data's bins; words behind them stay zero unless the table has a byte that is no bin.
type workspace struct {
	words []int64
	block []int64 // the words of the rows being counted
	*buffers
	sums []wide // of more than one block, in the layout of histogram.wide
}

// way is how a block is counted.
type way int

const (
	wholeRows way = iota // every feature of the table, each at the place of its number
	someBytes            // the features asked for, side by side
	uncommon             // the features asked for, each at the place of its number, but for its most common bin
)

func newCounter(d *Data, threads int) *counter {
	c := &counter{data: d, threads: threads, offset: make([]int, len(d.Features)+1), spaces: make([]workspace, threads)}
	for f := range d.Features {
		c.all = append(c.all, f)
		c.offset[f+1] = c.offset[f] + d.Features[f].Bins
	}
	for i := range c.spaces {
		c.spaces[i] = workspace{words: make([]int64, stride*len(d.Features)), block: make([]int64, kernelRows), buffers: newBuffers(len(d.Features))}
	}
	c.commons = findCommons(d)
	return c
}

func (c *counter) bins() int { return c.offset[len(c.offset)-1] }

// begin tells the counter which features the next histograms are about and what the rows' gradients are.
func (c *counter) begin(features []int, gh []uint32, pack packing) {
	c.way = chooseWay(c.data, &c.commons, features)
	c.asked, c.features = features, features
	for i := range c.spaces { // behind the bins of features that nobody asked for, something may have been counted
		clear(c.spaces[i].words)
	}
	if c.way == wholeRows {
		c.features = c.all
	}
	c.kernel = newKernel(c.data.RowMajor, len(c.data.Features), features, &c.commons, gh, pack)
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
	for b := c.offset[c.asked[0]]; b < c.offset[c.asked[0]+1]; b++ {
		g, h := h.at(b, c.kernel.pack)
		gs, hs = gs+g, hs+h
	}
	return sums{float64(gs), float64(hs)}
}

// stray is a feature, of those asked for, that has bytes beyond its bins among the rows counted in this tree, or -1.
func (c *counter) stray() int {
	for s := range c.spaces {
		for i, f := range c.features {
			if _, asked := slices.BinarySearch(c.asked, f); !asked {
				continue
			}
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

// count makes the histogram of rows.
func (c *counter) count(rows []uint32) histogram {
	if len(rows) <= blockRows {
		return c.countSmall(rows)
	}
	return c.countLarge(rows)
}

// countSmall shares rows out to the goroutines; their words can be added, because all rows together fit a word.
func (c *counter) countSmall(rows []uint32) histogram {
	h := histogram{packed: c.takePacked()}
	used := make([]bool, c.threads)
	parallel(c.threads, len(rows), grain/4, func(worker, lo, hi int) {
		c.countBlock(&c.spaces[worker], rows[lo:hi])
		used[worker] = true
	})
	first := true
	for worker := range used {
		if used[worker] {
			c.drainPacked(&c.spaces[worker], h.packed, first)
			first = false
		}
	}
	return h
}

// countLarge counts block by block and adds each block's words to sums that cannot overflow.
func (c *counter) countLarge(rows []uint32) histogram {
	h := histogram{wide: c.takeWide()}
	used := make([]bool, c.threads)
	parallel(c.threads, len(rows), grain, func(worker, lo, hi int) {
		space := &c.spaces[worker]
		sums := h.wide
		if worker > 0 {
			if space.sums == nil {
				space.sums = make([]wide, c.bins())
			}
			sums = space.sums
		}
		clear(sums)
		for block := range slices.Chunk(rows[lo:hi], blockRows) {
			c.countBlock(space, block)
			c.drainWide(space, sums)
		}
		used[worker] = true
	})
	for worker := 1; worker < c.threads; worker++ {
		if used[worker] {
			for i, s := range c.spaces[worker].sums {
				h.wide[i].g += s.g
				h.wide[i].h += s.h
			}
		}
	}
	return h
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
	case uncommon:
		total := c.kernel.countUncommon(space, rows)
		for i, f := range c.features { // what the other bins leave is the common one's
			words, left := c.words(space, i), total
			for _, w := range words {
				left -= w
			}
			words[c.commons.bin[f]] += left
		}
	}
}

// drainPacked moves the space's words into dst, or adds them when dst already holds some, and leaves zeros behind.
func (c *counter) drainPacked(space *workspace, dst []int64, first bool) {
	for i, f := range c.features {
		from := c.words(space, i)
		to := dst[c.offset[f]:c.offset[f+1]]
		if first {
			copy(to, from)
		} else {
			for i, w := range from {
				to[i] += w
			}
		}
		clear(from)
	}
}

// drainWide adds the space's words to sums and leaves zeros behind.
func (c *counter) drainWide(space *workspace, sums []wide) {
	for i, f := range c.features {
		from := c.words(space, i)
		to := sums[c.offset[f]:c.offset[f+1]]
		for i, w := range from {
			g, h := c.kernel.pack.sums(w)
			to[i].g += g
			to[i].h += h
		}
		clear(from)
	}
}

// subtract makes the sibling's histogram, of so many rows: parent's minus child's. parent's memory becomes the sibling's.
func (c *counter) subtract(parent, child histogram, rows int) histogram {
	switch {
	case parent.packed != nil:
		// A difference of words is the word of the differences: both are linear in the sums modulo 2^64.
		for i, w := range child.packed {
			parent.packed[i] -= w
		}
		return parent
	case child.packed != nil:
		for i, w := range child.packed {
			g, h := c.kernel.pack.sums(w)
			parent.wide[i].g -= g
			parent.wide[i].h -= h
		}
	default:
		for i, s := range child.wide {
			parent.wide[i].g -= s.g
			parent.wide[i].h -= s.h
		}
	}
	if rows > blockRows {
		return parent
	}
	sibling := histogram{packed: c.takePacked()}
	for i, s := range parent.wide {
		sibling.packed[i] = s.g<<c.kernel.pack.shift + s.h
	}
	c.free(parent)
	return sibling
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
