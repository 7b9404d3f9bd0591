package gbt

import "slices"

// A histogram holds, for every bin of every feature, the sums of gradients and hessians of the rows of one leaf that
// have that bin. If the leaf has at most maxPackedRows rows, both sums share one 64-bit word (packing). For a larger
// leaf they are separate. The zero histogram is none.
type histogram struct {
	packed []int64 // one word per bin; nil for a large leaf
	wide   []wide  // separate sums; nil if packed is used
}

// wide is the sum of gradients and the sum of hessians of a bin, in units of the packing.
type wide struct{ g, h int64 }

// histogramBuilder makes histograms. It owns their layout (where a feature's bins begin), the kernel's workspaces and
// the free lists, and knows nothing about trees.
//
// It is used in this order: begin, once per tree; then for each split buildPair or buildAlone, reduce for each feature,
// and release. A histogram that is no longer needed is given back with free.
type histogramBuilder struct {
	data     *Data
	offset   []int // the bins of feature f are offset[f] <= b < offset[f+1] of a histogram
	pool     *pool
	spaces   []workspace  // one per goroutine
	inUse    []bool       // by space, whether it holds sums of the rows that are being added
	used     []*workspace // memory for histogramPair.spaces, reused
	frequent frequentBins

	freePacked freeList[int64]
	freeWide   freeList[wide] // for leaves whose sums may exceed a packed word

	// State of the current tree.
	features []int // the tree's features, whose histograms are made, ascending
	owned    []int // in a team, worker i finds the splits of features[owned[i]:owned[i+1]]
	way      way
	kernel   kernel // without its workspace
}

// workspace is where one goroutine adds up at most maxPackedRows rows. The words of a feature begin at a multiple of
// stride, at least one for each of the 256 values of a byte, so that addressing a bin needs no lookup. Words beyond a
// feature's bins stay zero unless the table has an invalid byte.
type workspace struct {
	words    []int64
	rowWords []int64 // the words of the rows being added, at most kernelRows
	*buffers
	total int64  // sum of the words of the rows added with waySparse; gives their most frequent bins (complete)
	sums  []wide // for a large leaf, the sums over all chunks of its rows, in the layout of histogram.wide
}

// way selects how rows are added to a workspace, and where in it a feature's words are (placeOf).
type way int

const (
	wayAll    way = iota // all features of the table, wanted or not, each at the place of its number
	wayChosen            // only the wanted features, side by side
	waySparse            // only the wanted features, each at the place of its number, without its most frequent bin
)

// newHistogramBuilder allocates a workspace for each goroutine of the pool. A histogram has the bins of all features of
// d, one feature after the other.
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

// begin begins a tree: it sets the features, ascending, of which histograms are made, and gh, by row, the packed
// gradients and hessians that are added up.
func (hb *histogramBuilder) begin(features []int, gh []uint32, pack packing) {
	if hb.data.link != nil {
		hb.owned = hb.data.link.divideFeatures(features, hb.offset)
	}
	hb.way = chooseWay(hb.data, &hb.frequent, features)
	hb.features = features
	for i := range hb.spaces { // wayAll also added features that the last tree did not want and nobody zeroed
		clear(hb.spaces[i].words)
	}
	hb.kernel = newKernel(hb.data.RowMajor, len(hb.data.Features), features, &hb.frequent, gh, pack)
}

// placeOf returns the place of the i-th wanted feature in a workspace: its words begin at stride times the place.
func (hb *histogramBuilder) placeOf(i int) int {
	if hb.way == wayChosen {
		return i
	}
	return hb.features[i]
}

// words returns the words of the i-th wanted feature in a workspace, one per bin.
func (hb *histogramBuilder) words(space *workspace, i int) []int64 {
	return space.words[hb.placeOf(i)*stride:][:hb.data.Features[hb.features[i]].Bins]
}

// ownFeatures returns the part of the wanted features that this worker finds splits of, features[lo:hi]. Without a team
// that is all of them.
func (hb *histogramBuilder) ownFeatures() (lo, hi int) {
	if l := hb.data.link; l != nil {
		return hb.owned[l.rank], hb.owned[l.rank+1]
	}
	return 0, len(hb.features)
}

// sumTotal returns the sums over all rows of a leaf. It adds up the bins of the first feature; any other would do,
// since every row is in one bin of each feature. In a team, h has this worker's rows, and the result those of all
// workers.
func (hb *histogramBuilder) sumTotal(h histogram) sums {
	gh := make([]int64, 2)
	for b := hb.offset[hb.features[0]]; b < hb.offset[hb.features[0]+1]; b++ {
		gradient, hessian := h.binSums(b, hb.kernel.pack)
		gh[0], gh[1] = gh[0]+gradient, gh[1]+hessian
	}
	hb.data.link.sumWords(gh)
	return sums{float64(gh[0]), float64(gh[1])}
}

// findStray returns a wanted feature for which some row added so far has a byte beyond the feature's bins; -1 if there
// is none. It looks for words in the workspaces that are not zero and belong to no bin.
func (hb *histogramBuilder) findStray() int {
	for s := range hb.spaces {
		for i, f := range hb.features {
			at := hb.placeOf(i) * stride
			for _, w := range hb.spaces[s].words[at+hb.data.Features[f].Bins : at+byteBins] {
				if w != 0 {
					return f
				}
			}
		}
	}
	return -1
}

// histogramPair is the histograms of the two children of a leaf while they are made. The rows of the smaller child have
// been added to the workspaces. What is left to do is done by reduce, feature by feature: add the workspaces up to the
// smaller child's histogram, and subtract that from the parent's, which gives the larger child's.
type histogramPair struct {
	smaller, parent, larger histogram    // larger has the parent's memory, unless only the parent is wide
	spaces                  []*workspace // workspaces with sums of the smaller leaf
}

// buildPair begins the histograms of the two children of a leaf. rows are this worker's rows of the smaller child,
// which has n rows in all workers together; rest is the same number of the larger child. A zero parent means that there
// is no larger child: rows are then the root's.
//
// The pair takes over parent. The caller calls reduce for all features, then release. Without a team, only one pair may
// be in use at a time, because it occupies the workspaces. In a team, the workspaces are added up at once, since the
// histograms have to be exchanged before they are reduced.
func (hb *histogramBuilder) buildPair(rows []uint32, n int, parent histogram, rest int) histogramPair {
	// The larger child's histogram takes the parent's memory, unless it has fewer rows than a wide one is for.
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
	hb.used = pair.spaces // its memory is used again by the next pair
	if hb.data.link != nil {
		hb.collectAll(&pair)
	}
	return pair
}

// buildAlone is buildPair for a packed parent, in the goroutine with number worker and without a team. smaller is
// memory for the smaller child's histogram. Several goroutines may call it at once, each for a leaf of its own.
func (hb *histogramBuilder) buildAlone(worker int, rows []uint32, smaller, parent histogram) histogramPair {
	space := &hb.spaces[worker]
	space.total = 0
	hb.addRowsTo(space, rows)
	return histogramPair{smaller: smaller, parent: parent, larger: parent, spaces: []*workspace{space}}
}

// addSmall adds the rows of a leaf of at most maxPackedRows to the goroutines' workspaces. The words of the workspaces
// can be added up later, because the sums over all these rows fit a word.
func (hb *histogramBuilder) addSmall(rows []uint32) {
	hb.pool.parallel(len(rows), grain/16, func(worker, lo, hi int) {
		hb.addRowsTo(&hb.spaces[worker], rows[lo:hi])
		hb.inUse[worker] = true
	})
}

// addLarge adds the rows of a leaf of more than maxPackedRows: each goroutine adds up chunks of maxPackedRows in its
// words, and then adds the words to its wide sums, which cannot overflow. Goroutine 0 adds to hist, the leaf's
// histogram, itself; the other goroutines' sums are added to it by reduce.
func (hb *histogramBuilder) addLarge(rows []uint32, hist []wide) {
	clear(hist) // even if other goroutines do all the work
	hb.spaces[0].sums = hist
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

	// Nothing of goroutine 0 is left to add.
	hb.spaces[0].sums = nil
	hb.inUse[0] = false
}

// addRowsTo adds at most maxPackedRows rows to the words of a workspace.
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

// complete returns the words of the i-th wanted feature in a workspace to which all rows have been added. With
// waySparse it first sets the most frequent bin, to which no row was added: it has what the other bins lack of the
// rows' total.
func (hb *histogramBuilder) complete(space *workspace, i int) []int64 {
	words := hb.words(space, i)
	if hb.way == waySparse {
		remaining := space.total
		for _, w := range words {
			remaining -= w
		}
		words[hb.frequent.bin[hb.features[i]]] += remaining
	}
	return words
}

// drainWide adds the words of a workspace to its wide sums, and zeroes the words.
func (hb *histogramBuilder) drainWide(space *workspace) {
	for i, f := range hb.features {
		from := hb.complete(space, i)
		to := space.sums[hb.offset[f]:hb.offset[f+1]]
		for b, w := range from {
			g, h := hb.kernel.pack.sums(w)
			to[b].g += g
			to[b].h += h
		}
		clear(from)
	}
	space.total = 0
}

// reduce completes the bins of the i-th wanted feature in both histograms of a pair. Different goroutines may reduce
// different features at once.
func (hb *histogramBuilder) reduce(pair *histogramPair, i int) {
	lo, hi := hb.offset[hb.features[i]], hb.offset[hb.features[i]+1]
	smaller := pair.smaller.slice(lo, hi)
	hb.collect(smaller, i, pair.spaces)
	if pair.parent.packed != nil || pair.parent.wide != nil {
		hb.subtract(pair.larger.slice(lo, hi), pair.parent.slice(lo, hi), smaller)
	}
}

// collect adds the goroutines' sums of the i-th wanted feature up in smaller, which has the bins of this feature alone.
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

// collectAll adds up the goroutines' sums of all features of a pair, after which the workspaces are free.
func (hb *histogramBuilder) collectAll(pair *histogramPair) {
	hb.pool.parallel(len(hb.features), minFeatures, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			from, to := hb.offset[hb.features[i]], hb.offset[hb.features[i]+1]
			hb.collect(pair.smaller.slice(from, to), i, pair.spaces)
		}
	})
	pair.spaces = nil
}

// drainPacked sets dst to the sums of the i-th wanted feature's words in the given workspaces, and zeroes these words.
// Without workspaces dst stays as it is: collectAll has set it before, as of a root and in a team.
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

// subtract sets larger to parent less smaller, all with the bins of one feature. The difference is computed in the
// parent's memory, which larger shares unless the parent is wide and larger is packed.
func (hb *histogramBuilder) subtract(larger, parent, smaller histogram) {
	switch {
	case parent.packed != nil:
		// Two words can be subtracted as a whole: the difference is the word of the differences of both sums. The
		// children of a packed leaf are packed, and larger is in this memory.
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

// release ends the use of a pair whose features have all been reduced. It frees the parent's memory if the larger child
// has its own.
func (hb *histogramBuilder) release(pair *histogramPair) {
	if pair.parent.wide != nil && pair.larger.wide == nil {
		hb.free(pair.parent)
	}
}

// freeList is the memory of histograms that are no longer needed, all with the same number of bins.
type freeList[T any] [][]T

// take removes a histogram, with any contents, from the list. If there is none it allocates one of this many bins.
func (l *freeList[T]) take(bins int) []T {
	n := len(*l)
	if n == 0 {
		return make([]T, bins)
	}
	h := (*l)[n-1]
	*l = (*l)[:n-1]
	return h
}

// free gives the memory of h back to the free lists. The caller must not use h any more. The zero histogram is ignored.
func (hb *histogramBuilder) free(h histogram) {
	if h.packed != nil {
		hb.freePacked = append(hb.freePacked, h.packed)
	}
	if h.wide != nil {
		hb.freeWide = append(hb.freeWide, h.wide)
	}
}

// slice returns the bins lo <= i < hi, in the memory of h.
func (h histogram) slice(lo, hi int) histogram {
	switch {
	case h.packed != nil:
		h.packed = h.packed[lo:hi]
	case h.wide != nil:
		h.wide = h.wide[lo:hi]
	}
	return h
}

// binSums returns the sums of bin i, numbered over all features, in units of the packing.
func (h histogram) binSums(i int, p packing) (gradient, hessian int64) {
	if h.packed != nil {
		return p.sums(h.packed[i])
	}
	return h.wide[i].g, h.wide[i].h
}

// sums returns binSums as floats.
func (h histogram) sums(i int, p packing) sums {
	g, hs := h.binSums(i, p)
	return sums{float64(g), float64(hs)}
}
