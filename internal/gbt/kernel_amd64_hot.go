//go:build amd64 && !purego

package gbt

import (
	"math"
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"

	"coppice/internal/exact"
)

// The routines of kernel_amd64.s. Without AVX-512, and for rows that do not fill a vector, their Go counterparts do the
// work; the choice affects only speed.

// addRows adds the packed gradients gh[rows[i]] of n > 0 rows to the histogram words of their bins, for each of the
// width features: table[row*width+feature] is the bin, and words holds the features one after the other, 8 bytes a
// bin. It prefetches the row that is prefetchAhead rows later; n prefetches none. Its Go counterpart is addRowsGo.
//
//go:noescape
func addRows(words, table unsafe.Pointer, gh, rows *uint32, n, prefetchAhead, width, hessianBits int)

// The comments of the other routines are beside their code, in kernel_amd64.s.

//go:noescape
func pickBytes(p *picker, n, prefetchAhead int)

//go:noescape
func pickSparse(p *picker, n, prefetchAhead, from int)

//go:noescape
func addIndexes(p *picker, words, rowWords *int64, n int)

//go:noescape
func fillRows8(c *rounding, gh *uint32, raw *float64, label, weight *float32, n int, s *sigmoidConstants)

//go:noescape
func round8(c *rounding, gh *uint32, gradient, hessian *float64, n int)

//go:noescape
func exponentials8(c *exponentialConstants, x *float64, n int)

//go:noescape
func pairs8(p *pairs, first, n int, score, label, gain, discount, gradient, hessian *float64, s *sigmoidConstants)

//go:noescape
func scanWords(words *int64, n int, t *wordScan, goal float64) (gain float64, at int)

//go:noescape
func subtract8(from, words *int64, n int)

//go:noescape
func addTrees(trees *flatTree, n int, rows, answers *uint64, eights int, order, numbers *[8]uint64, sums *float64)

//go:noescape
func findBounds(x *float64, step, n int, missing float64, bounds *float64, answers *uint64)

// pause tells the processor that this loop is waiting, so that the core's other thread runs faster.
func pause()

//go:noescape
func partition16(rows, left, right *uint32, n int, column *byte, set *binSet) int

func hasVectors() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW
}

// canPickBytes reports whether addChosen and addSparse can run in assembly.
func canPickBytes() bool {
	return hasVectors() && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI && cpu.X86.HasAVX512VBMI2
}

// Prefetch distances. A row takes some 100 ns from main memory, in which a narrow table's kernel adds ten rows; a wide
// row fills much of the first-level cache by itself.
const (
	prefetchRows  = 32
	prefetchBytes = 4 << 10
)

// rowsAhead returns how many rows ahead of the one being added to prefetch.
func (k *kernel) rowsAhead() int { return min(prefetchRows, max(prefetchBytes/k.width, 1)) }

// addAll is addAllGo with prefetching.
func (k *kernel) addAll(space *workspace, rows []uint32) {
	addRows(unsafe.Pointer(&space.words[0]), k.table, &k.gh[0], &rows[0], len(rows), k.rowsAhead(), k.width,
		int(k.pack.hessianBits))
}

// picker holds the arguments and results of the routines that pick bytes from rows. They work on groups of rows,
// because bytes just written side by side cannot be reloaded individually without a stall.
type picker struct {
	table     unsafe.Pointer
	gh, rows  *uint32
	width     int
	chosen    *uint64
	frequent  *byte
	places    *uint16 // of firstWord
	columns   int     // number of columns to visit
	bytes     *byte
	gradients *uint32
	indexes   *uint16 // rowIndexes per row
	eights    *int64
	firstWord [256]uint16 // of each column, the index of its first word: the column times stride
}

const (
	pickRows = 16

	// A row's number shifted by this is the offset of its indexes, of two bytes each.
	rowIndexShift = 10
	rowIndexBytes = 1 << rowIndexShift
	rowIndexes    = 1 << (rowIndexShift - 1)
	pickColumns   = 224 // whole vectors of 32, the last word of the last of which has an index below 2^16
)

// buffers is the memory that a picker writes to.
type buffers struct {
	bytes     []byte
	gradients [pickRows]uint32
	order     [pickRows]uint32
	eights    [pickRows]int64
	indexes   []uint16
}

// newBuffers returns buffers for groups of rows of width features. The vectors may write 64 bytes beyond the last
// row's.
func newBuffers(width int) *buffers {
	b := &buffers{bytes: make([]byte, pickRows*width+64), indexes: make([]uint16, pickRows*rowIndexes)}
	for i := range b.order {
		b.order[i] = uint32(i)
	}
	return b
}

// newPicker returns the arguments of the routines that pick bytes and write them to b. The caller sets rows for each
// group of rows and, for pickSparse, columns.
func (k *kernel) newPicker(b *buffers) *picker {
	p := &picker{table: k.table, gh: &k.gh[0], width: k.width, chosen: &k.chosen[0], frequent: &k.frequent[0],
		bytes: &b.bytes[0], gradients: &b.gradients[0], indexes: &b.indexes[0], eights: &b.eights[0]}
	for i := range p.firstWord {
		p.firstWord[i] = uint16(i * stride) // those beyond 16 bits are of columns beyond pickColumns, and not used
	}
	p.places = &p.firstWord[0]
	return p
}

// addChosen is addChosenGo in assembly: for a group of rows it picks the wanted features' bytes into a small table, and
// then adds all features of that table, whose rows are numbered from 0 (b.order) and in the cache.
func (k *kernel) addChosen(space *workspace, rows []uint32) {
	if !canPickBytes() {
		k.addChosenGo(space, rows)
		return
	}
	b, p, ahead := space.buffers, k.newPicker(space.buffers), k.rowsAhead()
	for len(rows) > 0 {
		n := min(len(rows), pickRows)
		p.rows = &rows[0]
		pickBytes(p, n, max(min(ahead, len(rows)-n), 0)) // there is no row beyond the last one to prefetch
		addRows(unsafe.Pointer(&space.words[0]), unsafe.Pointer(&b.bytes[0]), &b.gradients[0], &b.order[0], n, n,
			len(k.features), int(k.pack.hessianBits))
		rows = rows[n:]
	}
}

// addSparse is addSparseGo in assembly: for a group of rows and up to pickColumns features at a time, it finds the
// indexes of the words to add to, and then adds to them.
func (k *kernel) addSparse(space *workspace, rows []uint32) (total int64) {
	if !canPickBytes() {
		return k.addSparseGo(space, rows)
	}
	b, p, ahead := space.buffers, k.newPicker(space.buffers), k.rowsAhead()
	for len(rows) > 0 {
		n := min(len(rows), pickRows)
		p.rows = &rows[0]
		for from := 0; from < k.width; from += pickColumns {
			p.columns = min(pickColumns, k.width-from)
			pickSparse(p, n, max(min(ahead, len(rows)-n), 0), from)
			for i, gh := range b.gradients[:n] { // those of the rows, which pickSparse has gathered
				space.rowWords[i] = k.pack.word(gh)
			}
			addIndexes(p, &space.words[from*stride], &space.rowWords[0], n)
		}

		for _, w := range space.rowWords[:n] {
			total += w
		}
		rows = rows[n:]
	}
	return total
}

// pieceRows is how many rows an assembly routine gets per call, a multiple of its vectors.
const pieceRows = 1 << 16

// sigmoidConstants are expNegative's, so that assembly and Go compute with the same numbers.
type sigmoidConstants struct {
	lowest, highest, negLog2e, magic, ln2 float64
	taylor                                [7]float64 // of t^8 down to t^2; the last two are 1
	one                                   float64
}

var sigmoids = sigmoidConstants{lowest: -sigmoidLimit, highest: sigmoidLimit, negLog2e: -expLog2e, magic: expMagic,
	ln2: expLn2, taylor: [7]float64{1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5}, one: 1}

// rounding holds what fillRows8 and round8 need in addition to the rows.
type rounding struct {
	gInv, hInv, unit, offset, least, most float64
	others, own                           float64 // weights of labels
	positive                              float32
	counter                               [8]uint64
	step, mul1, mul2                      uint64
}

// newRounding returns the arguments for rows of which row i is rounded with number i of k.
func newRounding(pack packing, k key) rounding {
	c := rounding{gInv: 1 / pack.g1, hInv: 1 / pack.h1, unit: randomUnit, offset: roundOffset, least: -maxG24,
		most: maxG24, step: 8 * mixStep & math.MaxUint64, mul1: mixMul1, mul2: mixMul2}
	for i := range c.counter {
		c.counter[i] = uint64(k) + uint64(i)*mixStep&math.MaxUint64
	}
	return c
}

// fillRows is fillRowsGo, with vectors for as many rows as fill them.
func (l *logistic) fillRows(gh []uint32, raw []float64, lo, hi int, k key) {
	for hasVectors() && hi-lo >= 8 {
		n := min((hi-lo)&^7, pieceRows) // a goroutine in assembly cannot be preempted, even by the garbage collector
		c := newRounding(l.pack, k.from(uint64(lo)))
		c.others, c.own, c.positive = l.weight[0], l.weight[1], l.positive
		var w *float32
		if l.d.Weight != nil {
			w = &l.d.Weight[lo : lo+n][0]
		}
		fillRows8(&c, &gh[lo : lo+n][0], &raw[lo : lo+n][0], &l.d.Label[lo : lo+n][0], w, n, &sigmoids)
		lo += n
	}
	l.fillRowsGo(gh, raw, lo, hi, k)
}

// roundBlock is roundBlockGo for at most blockRows rows, with vectors for as many of them as fill these.
func roundBlock(gh []uint32, g, h []float64, pack packing, k key) {
	n := 0
	if hasVectors() && len(gh) >= 8 {
		n = len(gh) &^ 7
		c := newRounding(pack, k)
		round8(&c, &gh[0], &g[:n][0], &h[:n][0], n)
	}
	roundBlockGo(gh[n:], g[n:], h[n:], pack, k.from(uint64(n)))
}

// exponentialConstants are exact.Exp's, what numbers are multiplied by, and whether 1 / (1 + e^x) is wanted.
type exponentialConstants struct {
	lowest, highest, negLog2e, magic, ln2High, ln2Low, one float64
	alternating                                            [14]float64
	factor                                                 float64
	odds                                                   int64
}

// exponentiate replaces each x by e^-(factor x) or, if odds is 1, by 1 / (1 + e^-(factor x)). It does so only for as
// many numbers as fill vectors, and returns the rest of x.
func exponentiate(x []float64, factor float64, odds int64) []float64 {
	for hasVectors() && len(x) >= 8 {
		n := min(len(x)&^7, pieceRows)
		c := exponentialConstants{lowest: -exact.Limit, highest: exact.Limit, negLog2e: -expLog2e, magic: expMagic,
			ln2High: exact.Ln2High, ln2Low: exact.Ln2Low, one: 1, alternating: exact.Alternating, factor: factor,
			odds: odds}
		exponentials8(&c, &x[0], n)
		x = x[n:]
	}
	return x
}

// Probabilities applies Probability to all scores in place.
func Probabilities(scores []float64) { probabilitiesGo(exponentiate(scores, 1, 1)) }

// exponentials replaces each x by e^(factor x).
func exponentials(x []float64, factor float64) { exponentialsGo(exponentiate(x, -factor, 0), factor) }

// mostPairs is how many pairs one call of pairs8 adds up, in about a millisecond: assembly cannot be interrupted, and
// the garbage collector waits for it.
const mostPairs = 1 << 18

// add is addGo, with vectors where there are any.
func (p *pairs) add(first int, score, label, gain, discount, g, h []float64) {
	for n := len(score); hasVectors() && 0 < first && first < n; n = len(score) {
		rows := min(first, 1+mostPairs/n)
		pairs8(p, rows, n, &score[0], &label[:n][0], &gain[:n][0], &discount[:n][0], &g[:n][0], &h[:n][0], &sigmoids)
		first -= rows
		score, label, gain = score[rows:], label[rows:], gain[rows:]
		discount, g, h = discount[rows:], g[rows:], h[rows:]
	}
	p.addGo(first, score, label, gain, discount, g, h)
}

// partition moves those rows whose bin is in left to the front of rows, and the others to right, both in order. It
// returns how many went left. rows is ascending and within column; right is as long as rows.
func partition(rows, right []uint32, column []byte, left *binSet) int {
	n := len(rows) &^ 15
	// A bin is loaded together with the three bytes after it, and row numbers are signed in assembly.
	for n > 0 && int(rows[n-1]) > min(len(column)-4, 1<<31-1) {
		n -= 16
	}

	if n == 0 || !hasVectors() {
		return partitionGo(rows, right, column, left, 0, 0)
	}

	right = right[:len(rows)]
	front := 0
	for at := 0; at < n; at += pieceRows {
		front += partition16(&rows[at], &rows[front], &right[at-front], min(pieceRows, n-at), &column[0], left)
	}
	return partitionGo(rows, right, column, left, n, front)
}

// wordScan holds scanWords's arguments.
type wordScan struct {
	hessianBits, hessianMask        int64
	before                          int64   // the word of what is added to every running sum
	leastH, rangeH                  int64   // the left side's hessian is leastH to leastH + rangeH
	totalG, totalH, l2, clearlyLess float64 // a gain below clearlyLess x the best one is not looked at closely
}

// hugeL2 is the largest l2 for which scanWords is used: with a much larger one its products could overflow.
const hugeL2 = 1e100

// bestWord finds the best threshold in words, with extra added to every running sum. It returns the gain of both sides
// together and the bin before the threshold; -1 if no gain exceeds goal. On a tie, the lowest bin. It does not support
// l1 or bounds.
func (s *splitScorer) bestWord(words []int64, extra sums, t *splitTarget, goal float64) (gain float64, at int) {
	if !hasVectors() || len(words) == 0 || s.l2 > hugeL2 {
		return s.bestWordGo(words, extra, t, goal)
	}
	least := math.Ceil(t.minH) // hessians in words are whole numbers
	if 2*least > t.total.h {   // there are not enough rows for both children
		return goal, -1
	}
	return scanWords(&words[0], len(words), &wordScan{hessianBits: int64(s.pack.hessianBits),
		hessianMask: 1<<s.pack.hessianBits - 1, before: int64(extra.g)<<s.pack.hessianBits + int64(extra.h),
		leastH: int64(least), rangeH: int64(t.total.h - 2*least), totalG: t.total.g, totalH: t.total.h, l2: s.l2,
		clearlyLess: 1 - roundings}, goal)
}

// subtractWords subtracts words from as many of from, in place.
func subtractWords(from, words []int64) {
	if !hasVectors() || len(words) == 0 {
		subtractWordsGo(from, words)
		return
	}
	subtract8(&from[:len(words)][0], &words[0], len(words))
}

// exitOrder tells addTrees the order of batchScratch.exits: byte r/8 of word r%8 is row r.
var exitOrder = func() (order [8]uint64) {
	for r := range uint64(64) {
		order[r%8] |= r << (r / 8 * 8)
	}
	return order
}()

// addFew adds the first of the trees, as far as its flat part goes, to the sums of n rows, which fill one machine word.
// With vectors it adds several trees, up to and including the first that has more than a flat part. It returns how many
// trees these are. s.exits has the rows' exits from the last of them.
func (s *batchScratch) addFew(trees []flatTree, n int) int {
	if !s.vectors || trees[0].run == 0 {
		s.routeRows(&trees[0])
		s.addExits(&trees[0])
		return 1
	}
	addTrees(&trees[0], trees[0].run, &s.rows[0][0], &s.few[0], (n+7)/8, &exitOrder, &s.exits[0], &s.sums[0])
	return trees[0].run
}

// findBounds searches a tree of nodes with boundsOfNode bounds each, and compares a value with all bounds of a node at
// once. The root has the last bound of each group of 64. Below it, each group has a node with the last bound of each
// eight, and then these eights.
const (
	boundsOfNode  = 8
	boundsOfGroup = boundsOfNode * boundsOfNode
)

// widened returns a column's bounds, ascending, in the layout of findBounds; nil if it cannot be used for the column.
// That is so without vectors, if zeros are missing, if there are too many bounds for the root, or if the last bound is
// infinite, as the padding and missing values are.
func (c *numberColumn) widened(bounds []float64) []float64 {
	if !hasVectors() || c.rule == zeroGoesRight || c.count >= boundsOfNode*boundsOfGroup ||
		bounds[c.count-1] > math.MaxFloat64 {
		return nil
	}
	groups := c.count/boundsOfGroup + 1
	out := slices.Repeat([]float64{math.Inf(1)}, boundsOfNode+groups*(boundsOfNode+boundsOfGroup))
	for i, bound := range bounds {
		group := out[boundsOfNode+i/boundsOfGroup*(boundsOfNode+boundsOfGroup):]
		group[boundsOfNode+i%boundsOfGroup] = bound
		if (i+1)%boundsOfNode == 0 {
			group[i%boundsOfGroup/boundsOfNode] = bound
		}
		if (i+1)%boundsOfGroup == 0 {
			out[i/boundsOfGroup] = bound
		}
	}
	return out
}

// locateFew sets the bit of each of n values, x[0], x[apart], x[2*apart] ..., in the answer to the first bound that is
// not below the value. It does nothing and returns false if the column is not laid out for vectors.
func (c *numberColumn) locateFew(x []float64, apart, n int, answers []uint64) bool {
	if c.wide == nil {
		return false
	}
	missing := math.Inf(1)
	if c.rule == nanIsZero {
		missing = 0
	}
	findBounds(&x[0], 8*apart, n, missing, &c.wide[0], &answers[0])
	return true
}
