package gbt

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

	freePacked [][]int64
	freeWide   [][]wide

	// of the present tree:
	features []int // those that are counted, ascending
	chosen   []uint32
	gh       []uint32
	pack     packing
}

// workspace is where one goroutine counts one block: stride words per feature, so that the address of a bin needs no
// look-up. bins are the data's bins; the rest of the stride is never touched.
type workspace struct {
	words []int64
	block []int64 // the words of the rows being counted
	sums  []wide  // of more than one block, in the layout of histogram.wide
}

func newCounter(d *Data, threads int) *counter {
	c := &counter{data: d, threads: threads, offset: make([]int, len(d.Features)+1), spaces: make([]workspace, threads)}
	for f := range d.Features {
		c.offset[f+1] = c.offset[f] + d.Features[f].Bins
	}
	for i := range c.spaces {
		c.spaces[i] = workspace{words: make([]int64, stride*len(d.Features)), block: make([]int64, kernelRows)}
	}
	return c
}

func (c *counter) bins() int { return c.offset[len(c.offset)-1] }

// begin tells the counter which features the next histograms are about and what the rows' gradients are.
func (c *counter) begin(features []int, gh []uint32, pack packing) {
	c.features, c.gh, c.pack = features, gh, pack
	c.chosen = c.chosen[:0]
	for _, f := range features {
		c.chosen = append(c.chosen, uint32(f))
	}
}

// total adds up the gradients of rows.
func (c *counter) total(rows []uint32) sums {
	part := make([]wide, c.threads)
	parallel(c.threads, len(rows), grain, func(worker, lo, hi int) {
		var s wide
		for _, r := range rows[lo:hi] {
			g, h := c.pack.sums(c.pack.word(c.gh[r]))
			s.g, s.h = s.g+g, s.h+h
		}
		part[worker] = s
	})
	var all wide
	for _, s := range part {
		all.g, all.h = all.g+s.g, all.h+s.h
	}
	return sums{float64(all.g), float64(all.h)}
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
	blocks := (len(rows) + blockRows - 1) / blockRows
	used := make([]bool, c.threads)
	parallel(c.threads, blocks, 1, func(worker, lo, hi int) {
		space := &c.spaces[worker]
		sums := h.wide
		if worker > 0 {
			if space.sums == nil {
				space.sums = make([]wide, c.bins())
			}
			sums = space.sums
		}
		clear(sums)
		for b := lo; b < hi; b++ {
			c.countBlock(space, rows[b*blockRows:min((b+1)*blockRows, len(rows))])
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
	k := newKernel(space, c.data.RowMajor, len(c.data.Features), c.gh, c.pack)
	// Reading a row whole is cheaper than picking its bytes until about a third of the features are left out.
	if 3*len(c.features) >= 2*len(c.data.Features) {
		k.countAll(rows)
	} else {
		k.countChosen(rows, c.chosen)
	}
}

// drainPacked moves the space's words into dst, or adds them when dst already holds some, and leaves zeros behind.
func (c *counter) drainPacked(space *workspace, dst []int64, first bool) {
	for f := range c.data.Features {
		from := space.words[f*stride:][:c.data.Features[f].Bins]
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
	for f := range c.data.Features {
		from := space.words[f*stride:][:c.data.Features[f].Bins]
		to := sums[c.offset[f]:c.offset[f+1]]
		for i, w := range from {
			g, h := c.pack.sums(w)
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
			g, h := c.pack.sums(w)
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
		sibling.packed[i] = s.g<<c.pack.shift + s.h
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
