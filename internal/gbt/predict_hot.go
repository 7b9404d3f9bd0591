package gbt

import (
	"math"
	"math/bits"

	"coppice/internal/exact"
)

// In this file masks of indexes, such as n&(batchRows-1), change none of them: they spare the compiler's bounds checks.

// batchScratch is the memory of one goroutine for predicting batches of rows: up to 2.5 MiB, mostly answers.
type batchScratch struct {
	vectors bool                  // whether the assembly with vectors is used; batches then have at most 64 rows
	words   int                   // how many machine words of a word the batch fills: 1 for up to 64 rows, else all
	answers []word                // to a tree block's predicates, if words is not 1; nil with vectors
	few     []uint64              // to a tree block's predicates, if words is 1
	rows    [2 * maxExits]word    // by node or, from maxExits on, exit: the rows that reach it
	exits   [batchWords][8]uint64 // row r's exit is byte r%64/8 of exits[r/64][r%8]
	keys    [batchRows]uint64     // by row, the key of one feature's value (sortKeys, categoryKeys)
	sums    [batchRows]float64
}

// word has a bit for each row of a batch: row r is bit r%64 of machine word r/64. It is four machine words, because
// they cost little more than one: a node is loaded once for all of them, and an answer fills half a cache line instead
// of an eighth.
type word [batchWords]uint64

// answerPredicates evaluates the tree block's predicates for the rows in x, [rows x features], at most batchRows. The
// answers are in s.few if the batch fills one machine word, else in s.answers.
func (s *batchScratch) answerPredicates(g *treeBlock, x []float64, features int) {
	if s.words == 1 {
		clear(s.few[:g.answers])
	} else {
		clear(s.answers[:g.answers])
	}

	for i := range g.numbers {
		c := &g.numbers[i]
		if s.words == 1 {
			s.answerFew(c, x[c.feature:], features)
		} else {
			n := s.sortKeys(x[c.feature:], features, c.rule)
			c.answer(s.keys[:n], s.answers[c.first:c.first+c.count+1])
		}
	}

	for i := range g.categories {
		c := &g.categories[i]
		s.categoryKeys(x[c.feature:], features)
		for j := range c.groups {
			group := &c.groups[j]
			for i := range s.words {
				sets := group.answer((*[64]uint64)(s.keys[64*i:]))
				for k, w := range sets {
					if s.words == 1 {
						s.few[group.first+k] = w
					} else {
						s.answers[group.first+k][i] = w
					}
				}
			}
		}
	}
}

// sortKeys sets s.keys to integers that sort like the values at every step-th position of x, and returns how many these
// are: the rows of a batch, at most batchRows. rule is a column's (missingRule.columnRule), so none by which missing
// values go left. A missing value gets missingKey. With nanIsZero, nothing is missing, and NaN gets the key of 0.
func (s *batchScratch) sortKeys(x []float64, step int, rule missingRule) int {
	missing := missingKey
	if rule == nanIsZero {
		missing = exact.Ordered(0)
	}
	zeroIsMissing := rule == zeroGoesRight // as LightGBM has it, all numbers near 0 are

	n := 0
	for at := 0; at < len(x); at += step {
		v := x[at]
		key := exact.Ordered(v)
		if v != v || zeroIsMissing && v >= -zeroThreshold && v <= zeroThreshold {
			key = missing
		}
		// n is below batchRows, a power of two. The mask changes nothing, but saves the check of the index.
		s.keys[n&(batchRows-1)] = key
		n++
	}
	return n
}

// categoryKeys sets s.keys to the categories of the values at every step-th position of x, without their fractions, as
// LightGBM sees them. An invalid value, such as a negative one or NaN, gets a key beyond all categories. The mask is as
// in sortKeys.
func (s *batchScratch) categoryKeys(x []float64, step int) {
	n := 0
	for at := 0; at < len(x); at += step {
		v := x[at]
		key := uint64(math.MaxUint64)
		if v > -1 && v < 1<<31 {
			key = uint64(v)
		}
		s.keys[n&(batchRows-1)] = key
		n++
	}
}

// missingKey is the key of missing values. It is above that of +Inf, so that they are not at most any bound.
const missingKey = uint64(math.MaxUint64)

// answer sets the answers to the column's predicates for the rows whose keys are given. answers must be zero, with
// count+1 entries: one for each predicate, which is one bound, and one for keys above all of them. (c.bounds is longer:
// it is padded with the largest uint64, above which no key is.)
//
// A key is at most each of the bounds that are not below it. Since bounds ascend, the row's bit is set at the first of
// these, and one pass over all answers then copies it to those after it. Missing values are above all bounds; their
// bits are set afterwards in the answers of the predicates that send them left.
func (c *numberColumn) answer(keys []uint64, answers []word) {
	var missing word
	for r, key := range keys {
		i, bit := r/64&(batchWords-1), uint64(1)<<(r%64)
		answers[c.countBelow(key)][i] |= bit
		if key == missingKey {
			missing[i] |= bit
		}
	}

	var w0, w1, w2, w3 uint64
	for i := range answers {
		a := &answers[i]
		w0, w1, w2, w3 = w0|a[0], w1|a[1], w2|a[2], w3|a[3]
		a[0], a[1], a[2], a[3] = w0, w1, w2, w3
	}
	if missing == (word{}) {
		return
	}
	for _, i := range c.left {
		a := &answers[i]
		a[0], a[1], a[2], a[3] = a[0]|missing[0], a[1]|missing[1], a[2]|missing[2], a[3]|missing[3]
	}
}

// answerFew is answer for a batch that fills one machine word, with the values at every step-th position of x.
func (s *batchScratch) answerFew(c *numberColumn, x []float64, step int) {
	answers := s.few[c.first : c.first+c.count+1]
	located := c.locateFew(x, step, (len(x)+step-1)/step, answers)
	if !located {
		for r, key := range s.keys[:s.sortKeys(x, step, c.rule)] {
			answers[c.countBelow(key)] |= 1 << (r % 64)
		}
	}
	above := answers[c.count] // no bound is as large, or the value is missing
	var w uint64
	for i := range answers {
		w |= answers[i]
		answers[i] = w
	}
	if above == 0 || len(c.left) == 0 {
		return
	}
	var missing uint64
	for r, key := range s.keys[:s.sortKeys(x, step, c.rule)] {
		if key == missingKey {
			missing |= 1 << (r % 64)
		}
	}
	for _, i := range c.left {
		answers[i] |= missing
	}
}

// countBelow is the number of bounds below a key. The binary search has no branch on the data, so that the processor
// can overlap several.
func (c *numberColumn) countBelow(key uint64) int {
	bounds, below := c.bounds, 0
	for half := (len(bounds) + 1) / 2; half > 0; half /= 2 {
		_, borrow := bits.Sub64(bounds[below+half-1], key, 0)
		below += half & -int(borrow)
	}
	return below
}

// answer returns, for each of the group's eight sets, a machine word with a bit for each of 64 rows: whether the set
// contains the row's category. codes has these categories.
func (g *categoryGroup) answer(codes *[64]uint64) (sets [8]uint64) {
	table, last := g.table, uint64(len(g.table)-1)
	for j := range 8 {
		for k := range 8 {
			sets[j] |= uint64(table[min(codes[8*k+j], last)]) << (8 * k)
		}
	}
	transpose(&sets)
	return sets
}

// transpose moves bit j of each byte of word i to bit i of the same byte of word j. These are eight 8x8 bit matrices,
// one for each byte, that are transposed at once (Hacker's Delight, 7-3).
func transpose(w *[8]uint64) {
	const quarters, pairs, ones = 0x0f0f0f0f0f0f0f0f, 0x3333333333333333, 0x5555555555555555

	for i := range 4 {
		a, b := w[i], w[i+4]
		t := (a>>4 ^ b) & quarters
		w[i], w[i+4] = a^t<<4, b^t
	}

	for _, i := range [4]int{0, 1, 4, 5} {
		a, b := w[i], w[i+2]
		t := (a>>2 ^ b) & pairs
		w[i], w[i+2] = a^t<<2, b^t
	}

	for i := 0; i < 8; i += 2 {
		a, b := w[i], w[i+1]
		t := (a>>1 ^ b) & ones
		w[i], w[i+1] = a^t<<1, b^t
	}
}

// routeRows sends all rows of the batch down the flat part of a tree, and sets s.exits to the exits that they reach.
// The answers must be known.
func (s *batchScratch) routeRows(t *flatTree) {
	if len(t.nodes) == 0 {
		s.exits = [batchWords][8]uint64{}
		return
	}

	if s.words == 1 {
		s.routeFew(t)
		return
	}

	rows, answers := &s.rows, s.answers
	rows[0] = word{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}

	for i := range t.nodes {
		n := &t.nodes[i]
		here, yes := &rows[i&(maxExits-1)], &answers[n.predicate]
		left, right := &rows[n.left&(2*maxExits-1)], &rows[n.right&(2*maxExits-1)]
		h0, h1, h2, h3 := here[0], here[1], here[2], here[3]
		l0, l1, l2, l3 := h0&yes[0], h1&yes[1], h2&yes[2], h3&yes[3]
		left[0], left[1], left[2], left[3] = l0, l1, l2, l3
		right[0], right[1], right[2], right[3] = h0^l0, h1^l1, h2^l2, h3^l3
	}

	// Exits are processed in units: those after the last one have no rows.
	for i := t.exits; i%exitUnit != 0; i++ {
		rows[maxExits+i] = word{}
	}
	for i := range s.exits {
		s.numberExits(i, t.exits)
	}
}

// routeFew is routeRows for a batch that fills one machine word.
func (s *batchScratch) routeFew(t *flatTree) {
	rows, answers := &s.rows, s.few
	rows[0][0] = math.MaxUint64
	for i := range t.nodes {
		n := &t.nodes[i]
		here := rows[i&(maxExits-1)][0]
		left := here & answers[n.predicate]
		rows[n.left&(2*maxExits-1)][0], rows[n.right&(2*maxExits-1)][0] = left, here^left
	}
	for i := t.exits; i%exitUnit != 0; i++ {
		rows[maxExits+i][0] = 0
	}
	s.numberExits(0, t.exits)
}

// numberExits sets s.exits[i], the exit of each of the 64 rows of machine word i, from s.rows, the rows of each exit.
// Bit b of all these rows' exit numbers is computed as a word: the union of the rows of all exits whose number has that
// bit. The exits are combined in pairs, fours and eights, so that no exit is combined more than twice. All exits of a
// unit have the same upper four bits, those of the unit's number: -(unit & 1) is all ones if the lowest of these is
// set. Transposing these eight words makes a byte for each row.
func (s *batchScratch) numberExits(i, exits int) {
	var b0, b1, b2, b3, b4, b5, b6, b7 uint64
	i &= batchWords - 1
	for unit := uint64(0); int(unit)*exitUnit < exits; unit++ {
		e := (*[exitUnit]word)(s.rows[maxExits+unit*exitUnit:])
		b0 |= e[1][i] | e[3][i] | e[5][i] | e[7][i] | e[9][i] | e[11][i] | e[13][i] | e[15][i]
		p1, p3, p5, p7 := e[2][i]|e[3][i], e[6][i]|e[7][i], e[10][i]|e[11][i], e[14][i]|e[15][i]
		b1 |= p1 | p3 | p5 | p7

		q0, q1, q2, q3 := e[0][i]|e[1][i]|p1, e[4][i]|e[5][i]|p3, e[8][i]|e[9][i]|p5, e[12][i]|e[13][i]|p7
		b2 |= q1 | q3
		upper := q2 | q3
		b3 |= upper

		all := q0 | q1 | upper
		b4 |= all & -(unit & 1)
		b5 |= all & -(unit >> 1 & 1)
		b6 |= all & -(unit >> 2 & 1)
		b7 |= all & -(unit >> 3 & 1)
	}

	s.exits[i] = [8]uint64{b0, b1, b2, b3, b4, b5, b6, b7}
	transpose(&s.exits[i])
}

// addExits adds the value of each row's exit to its sum.
func (s *batchScratch) addExits(t *flatTree) {
	values := t.values
	for i := range s.exits[:s.words] {
		sums := (*[64]float64)(s.sums[i*64:])
		for j, w := range s.exits[i] {
			sums[j] += values[byte(w)]
			sums[j+8] += values[byte(w>>8)]
			sums[j+16] += values[byte(w>>16)]
			sums[j+24] += values[byte(w>>24)]
			sums[j+32] += values[byte(w>>32)]
			sums[j+40] += values[byte(w>>40)]
			sums[j+48] += values[byte(w>>48)]
			sums[j+56] += values[byte(w>>56)]
		}
	}
}

// addDeep continues with the rows whose exit is not a leaf, down t.deep, and adds the values of the leaves that they
// reach. (addExits has added 0 for these rows, which changes no bit: a sum that began with 0 is never -0.) All rows go
// down one level, then all that are not yet at a leaf, and so on. So their loads overlap, and the only branch on the
// data is the number of levels: each row is written to the end of a list, which it lengthens only if it is at a node.
func (s *batchScratch) addDeep(t *flatTree) {
	var at [batchRows]int32
	var rows, walking [batchRows]uint8

	// List the rows that have not reached a leaf. n is less than batchRows, as the compiler learns from the mask.
	n := 0
	for r := range at[:64*s.words] {
		at[r] = t.rest[byte(s.exits[r/64][r%8]>>(r%64/8*8))]
		rows[n&(batchRows-1)] = uint8(r)
		n += notNegative(at[r])
	}

	// Walk them level by level, until none is left.
	walking = rows
	for left := n; left > 0; {
		still := 0
		for _, r := range walking[:left] {
			d := &t.deep[at[r]]
			var yes uint64
			if s.words == 1 {
				yes = s.few[d.predicate] >> r & 1
			} else {
				yes = s.answers[d.predicate][r/64] >> (r % 64) & 1
			}
			next := d.next[yes&1]
			at[r] = next
			walking[still&(batchRows-1)] = r
			still += notNegative(next)
		}
		left = still
	}

	for _, r := range rows[:n] {
		s.sums[r] += t.tree.LeafValue[^at[r]]
	}
}

// notNegative is 1 for nodes, 0 for leaves.
func notNegative(node int32) int { return int(^uint32(node) >> 31) }

// addWalked is addDeep for trees without t.deep: rows are walked on in the Tree itself. x holds n rows of features
// values.
func (s *batchScratch) addWalked(t *flatTree, x []float64, n, features int) {
	for r := range n {
		if node := t.rest[byte(s.exits[r/64][r%8]>>(r%64/8*8))]; node >= 0 {
			s.sums[r] += t.tree.predictFrom(int(node), x[r*features:][:features])
		}
	}
}
