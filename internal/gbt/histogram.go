package gbt

import "slices"

// A histogram holds, for every bin of every feature, the sums of gradients and hessians of the rows of one leaf that
// have that bin. While a leaf has at most maxPackedRows rows, one 64-bit word per bin is enough (packing); above, two.
type histogram struct {
	packed []int64 // one word per bin; nil for a large leaf
	wide   []wide  // separate sums; nil if packed is used
}

type wide struct{ g, h int64 }

// histogramBuilder makes histograms, which are sums and not counts. It owns their layout (where a feature's bins
// begin), the kernel's workspaces and the free list, and knows nothing about trees.
//
// The order of use is begin, once per tree; then for each split build, reduce for each feature, and release. A
// histogram goes back to the free list with free.
type histogramBuilder struct {
	data     *Data
	offset   []int // the bins of feature f are at offset[f] .. offset[f+1]
	pool     *pool
	spaces   []workspace  // per goroutine
	inUse    []bool       // by space, whether it holds sums of the rows being added together
	used     []*workspace // those of the last pair
	frequent frequentBins

	freePacked freeList[int64]
	freeWide   freeList[wide] // for leaves whose sums may exceed a packed word

	// State of the current tree.
	features []int // the features of the histograms, ascending
	owned    []int // where each worker's begin among them, and the end
	way      way
	kernel   kernel // without its workspace
}

// workspace is where one goroutine adds up at most maxPackedRows rows: stride words per place, so that addressing a bin
// needs no lookup. Words beyond a feature's bins stay zero unless the table has an invalid byte.
type workspace struct {
	words    []int64
	rowWords []int64 // the words of the rows being added, at most kernelRows
	*buffers
	total int64  // of the rows added the sparse way; used to complete their most frequent bins
	sums  []wide // over all of a large leaf's rows, in the layout of histogram.wide
}

// way selects how rows are added to a workspace.
type way int

const (
	wayAll    way = iota // all features of the table, wanted or not, each at the place of its number
	wayChosen            // the wanted features, side by side
	waySparse            // the wanted features, each at the place of its number, without its most frequent bin
)

// newHistogramBuilder allocates a workspace for each goroutine, and lays out histograms: the bins of all features, one
// feature after the other.
func newHistogramBuilder(d *Data, pool *pool) *histogramBuilder {
	hb := &histogramBuilder{data: d, pool: pool, offset: make([]int, len(d.Features)+1),
		spaces: make([]workspace, pool.size),
		inUse:  make([]bool, pool.size)}

	for f := range d.Features {
		hb.offset[f+1] = hb.offset[f] + d.Features[f].Bins
	}
	for i := range hb.spaces {
		hb.spaces[i] = workspace{words: make([]int64, stride*len(d.Features)), rowWords: make([]int64, kernelRows),
			buffers: newBuffers(len(d.Features))}
	}

	hb.frequent = findFrequentBins(d)
	return hb
}

func (hb *histogramBuilder) bins() int { return hb.offset[len(hb.offset)-1] }

// begin sets the features of the following histograms and the rows' gradients.
func (hb *histogramBuilder) begin(features []int, gh []uint32, pack packing) {
	if hb.data.link != nil {
		hb.owned = hb.data.link.divideFeatures(features, hb.offset)
	}
	hb.way = chooseWay(hb.data, &hb.frequent, features)
	hb.features = features
	for i := range hb.spaces { // the last tree may have added features that nothing has drained
		clear(hb.spaces[i].words)
	}
	hb.kernel = newKernel(hb.data.RowMajor, len(hb.data.Features), features, &hb.frequent, gh, pack)
}

// place is where in a workspace the i-th feature's words are.
func (hb *histogramBuilder) place(i int) int {
	if hb.way == wayChosen {
		return i
	}
	return hb.features[i]
}

// words returns the i-th feature's words in a workspace.
func (hb *histogramBuilder) words(space *workspace, i int) []int64 {
	return space.words[hb.place(i)*stride:][:hb.data.Features[hb.features[i]].Bins]
}

// own returns the positions lo <= i < hi among the features that this worker is to find splits of: all, but in a team.
func (hb *histogramBuilder) own() (lo, hi int) {
	if l := hb.data.link; l != nil {
		return hb.owned[l.rank], hb.owned[l.rank+1]
	}
	return 0, len(hb.features)
}

// sumTotal adds up the bins of the first feature; any feature would do, since each has every row in one of its bins. In
// a team, h is of this worker's rows, and the total of all.
func (hb *histogramBuilder) sumTotal(h histogram) sums {
	gh := make([]int64, 2)
	for b := hb.offset[hb.features[0]]; b < hb.offset[hb.features[0]+1]; b++ {
		g, h := h.at(b, hb.kernel.pack)
		gh[0], gh[1] = gh[0]+g, gh[1]+h
	}
	hb.data.link.sumWords(gh)
	return sums{float64(gh[0]), float64(gh[1])}
}

// findStray returns a feature of the histograms with bytes beyond its bins among this tree's rows, or -1.
func (hb *histogramBuilder) findStray() int {
	for s := range hb.spaces {
		for i, f := range hb.features {
			at := hb.place(i) * stride
			for _, w := range hb.spaces[s].words[at+hb.data.Features[f].Bins : at+byteBins] {
				if w != 0 {
					return f
				}
			}
		}
	}
	return -1
}

// histogramPair is the histograms of the two children of a leaf while they are made. The smaller one's rows have been
// added, but the goroutines' sums are still to be reduced, feature by feature; with a parent, the larger one is then
// the parent less the smaller.
type histogramPair struct {
	smaller, parent, larger histogram
	spaces                  []*workspace // workspaces with sums of the smaller leaf
}

// buildPair begins the histograms of two children. rows are the smaller leaf's, n in all workers together; rest is the
// number of the larger leaf's, whose histogram will be parent less the smaller one. A zero parent means that there is
// no larger leaf: rows are the root's. The pair takes over parent: reduce all its features, then call release. Outside
// of a team, only one pair may be in use at a time.
func (hb *histogramBuilder) buildPair(rows []uint32, n int, parent histogram, rest int) histogramPair {
	pair := histogramPair{parent: parent, larger: parent, spaces: hb.used[:0]}
	if parent.wide != nil && rest <= maxPackedRows {
		pair.larger = histogram{packed: hb.freePacked.take(hb.bins())}
	}

	for i := range hb.spaces {
		hb.inUse[i] = false
		hb.spaces[i].total = 0
	}

	// The sums of few rows fit packed words, which are smaller and faster.
	if n <= maxPackedRows {
		pair.smaller = histogram{packed: hb.freePacked.take(hb.bins())}
		hb.addSmall(rows)
	} else {
		pair.smaller = histogram{wide: hb.freeWide.take(hb.bins())}
		hb.addLarge(rows, pair.smaller.wide)
	}

	// The goroutines' sums are added up later, by reduce.
	for i, inUse := range hb.inUse {
		if inUse {
			pair.spaces = append(pair.spaces, &hb.spaces[i])
		}
	}
	hb.used = pair.spaces
	if hb.data.link != nil {
		hb.collectAll(&pair)
	}
	return pair
}

// buildAlone is build in one goroutine, for a packed parent. Several may run at once, each with its own pair.
func (hb *histogramBuilder) buildAlone(worker int, rows []uint32, smaller, parent histogram) histogramPair {
	space := &hb.spaces[worker]
	space.total = 0
	hb.addRowsTo(space, rows)
	return histogramPair{smaller: smaller, parent: parent, larger: parent, spaces: []*workspace{space}}
}

// addSmall divides a small leaf's rows between goroutines; their words can be added, because all rows together fit a
// word.
func (hb *histogramBuilder) addSmall(rows []uint32) {
	hb.pool.parallel(len(rows), grain/16, func(worker, lo, hi int) {
		hb.addRowsTo(&hb.spaces[worker], rows[lo:hi])
		hb.inUse[worker] = true
	})
}

// addLarge adds rows chunk by chunk, and each chunk's words to sums that cannot overflow. The first goroutine's sums
// are the histogram itself, so nothing of its space is left to add.
func (hb *histogramBuilder) addLarge(rows []uint32, first []wide) {
	clear(first) // even if other goroutines do all the work
	hb.spaces[0].sums = first
	hb.inUse[0] = true

	hb.pool.parallel(len(rows), grain, func(worker, lo, hi int) {
		space := &hb.spaces[worker]
		if space.sums == nil {
			space.sums = make([]wide, hb.bins())
		}
		if !hb.inUse[worker] {
			clear(space.sums)
			hb.inUse[worker] = true
		}

		for chunk := range slices.Chunk(rows[lo:hi], maxPackedRows) {
			hb.addRowsTo(space, chunk)
			hb.drainWide(space)
		}
	})

	hb.spaces[0].sums = nil
	hb.inUse[0] = false
}

// addRowsTo adds at most maxPackedRows rows to the space's words.
func (hb *histogramBuilder) addRowsTo(space *workspace, rows []uint32) {
	if len(rows) == 0 {
		return
	}
	switch hb.way {
	case wayAll:
		hb.kernel.addAll(space, rows)
	case wayChosen:
		hb.kernel.addChosen(space, rows)
	case waySparse:
		space.total += hb.kernel.addSparse(space, rows)
	}
}

// complete returns the i-th feature's words in a space whose rows have all been added.
func (hb *histogramBuilder) complete(space *workspace, i int) []int64 {
	words := hb.words(space, i)
	if hb.way == waySparse { // the remainder belongs to the most frequent bin
		remaining := space.total
		for _, w := range words {
			remaining -= w
		}
		words[hb.frequent.bin[hb.features[i]]] += remaining
	}
	return words
}

// drainWide adds the space's words to its sums and zeroes the words.
func (hb *histogramBuilder) drainWide(space *workspace) {
	for i, f := range hb.features {
		from := hb.complete(space, i)
		to := space.sums[hb.offset[f]:hb.offset[f+1]]
		for i, w := range from {
			g, h := hb.kernel.pack.sums(w)
			to[i].g += g
			to[i].h += h
		}
		clear(from)
	}
	space.total = 0
}

// reduce completes the i-th feature of a pair. Different goroutines may reduce different features.
func (hb *histogramBuilder) reduce(pair *histogramPair, i int) {
	lo, hi := hb.offset[hb.features[i]], hb.offset[hb.features[i]+1]
	smaller := pair.smaller.slice(lo, hi)
	hb.collect(smaller, i, pair.spaces)
	if pair.parent.packed != nil || pair.parent.wide != nil {
		hb.subtract(pair.larger.slice(lo, hi), pair.parent.slice(lo, hi), smaller)
	}
}

// collect adds up the goroutines' sums of the i-th feature.
func (hb *histogramBuilder) collect(smaller histogram, i int, spaces []*workspace) {
	if smaller.packed != nil {
		hb.drainPacked(smaller.packed, i, spaces)
		return
	}
	lo, hi := hb.offset[hb.features[i]], hb.offset[hb.features[i]+1]
	for _, space := range spaces {
		for b, s := range space.sums[lo:hi] {
			smaller.wide[b].g += s.g
			smaller.wide[b].h += s.h
		}
	}
}

// collectAll does it for all features of a pair. Then nothing of it is left in the workspaces.
func (hb *histogramBuilder) collectAll(pair *histogramPair) {
	hb.pool.parallel(len(hb.features), minFeatures, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			from, to := hb.offset[hb.features[i]], hb.offset[hb.features[i]+1]
			hb.collect(pair.smaller.slice(from, to), i, pair.spaces)
		}
	})
	pair.spaces = nil
}

// drainPacked moves the i-th feature's words from all spaces to dst and zeroes them.
func (hb *histogramBuilder) drainPacked(dst []int64, i int, spaces []*workspace) {
	for n, space := range spaces {
		from := hb.complete(space, i)
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
func (hb *histogramBuilder) subtract(larger, parent, smaller histogram) {
	switch {
	case parent.packed != nil:
		// A difference of words is the word of the differences: both sums are linear modulo 2^64.
		subtractWords(parent.packed, smaller.packed)
		return
	case smaller.packed != nil:
		for i, w := range smaller.packed {
			g, h := hb.kernel.pack.sums(w)
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
		larger.packed[i] = s.g<<hb.kernel.pack.hessianBits + s.h
	}
}

// release ends the use of a pair whose features have all been reduced.
func (hb *histogramBuilder) release(pair *histogramPair) {
	if pair.parent.wide != nil && pair.larger.wide == nil {
		hb.free(pair.parent)
	}
}

// freeList is the memory of histograms that are no longer needed.
type freeList[T any] [][]T

// take takes a histogram of so many bins, with any contents, from the list, or allocates one.
func (l *freeList[T]) take(bins int) []T {
	n := len(*l)
	if n == 0 {
		return make([]T, bins)
	}
	h := (*l)[n-1]
	*l = (*l)[:n-1]
	return h
}

// free returns h to the free list. The zero histogram is ignored.
func (hb *histogramBuilder) free(h histogram) {
	if h.packed != nil {
		hb.freePacked = append(hb.freePacked, h.packed)
	}
	if h.wide != nil {
		hb.freeWide = append(hb.freeWide, h.wide)
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

// at returns the sums of bin i, numbered over all features.
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
