package nights

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// Limits of the checks that need no night before.
const (
	sharedFirst = 0.01  // share of the test rows that are also in train, from which it is told
	sharedOften = 0.5   // with a larger share, rows are equal by nature, unless they are copies
	copiedShare = 0.2   // share of copies among the rows of a class: with fewer, test scores are hardly too good
	sameLabels  = 0.2   // copies have fewer differences of label than this part of what chance would leave
	fewCopies   = 10    // if chance would leave fewer differences than this, nothing is known
	sameShare   = 0.99  // share of the rows in which one column follows from another, if it duplicates that
	sameOthers  = 0.9   // the same share, of the rows without the most frequent pair of values
	leakFirst   = 0.5   // share of the labels' entropy that one column explains, from which it is told
	sameRows    = 5_000 // rows by which columns are compared
)

// checkCopies looks for rows that were copied, so that some copies are in train and some in test. Rows with equal
// features (Night.Alike) may also be equal by nature, as when a table has few distinct feature vectors. Then their
// labels differ as by chance, while those of copies do not. It reports whether it has added a warning about copies.
func (c *comparison) checkCopies() bool {
	if c.p.Shared <= sharedFirst { // copies that are in one split alone flatter no test
		return false
	}
	type pair struct {
		alike uint64
		label float32
	}

	// Count the rows by features and label, by features, and those with the most frequent label of the same features.
	pairs, all, most := map[pair]int{}, map[uint64]int{}, map[uint64]int{}
	for i, y := range c.night.Label {
		key := pair{c.night.Alike[i], y}
		pairs[key]++
		all[key.alike]++
		most[key.alike] = max(most[key.alike], pairs[key])
	}

	// By label: the rows, and those whose features occur more than once (again). In all: the latter (repeated), those
	// whose label is not the most frequent one for their features (differ), and the sum of the squares of rows.
	rows, again, repeated, differ, squares := map[float32]int{}, map[float32]int{}, 0, 0, 0
	for key, count := range pairs {
		rows[key.label] += count
		if all[key.alike] > 1 {
			again[key.label] += count
			repeated += count
		}
	}
	for alike, count := range all {
		differ += count - most[alike]
	}
	for _, count := range rows {
		squares += count * count
	}

	// How many rows would differ if labels had nothing to do with features: repeated rows are taken as pairs, and the
	// two labels of a pair are different as often as those of any two rows, which is the probability in parentheses.
	total := float64(len(c.night.Label))
	chance := float64(repeated) * (1 - float64(squares)/(total*total)) / 2
	if !(chance >= fewCopies && float64(differ) < sameLabels*chance) { // not known, or labels differ as by chance
		return false
	}

	// Is a large share of the rows of some class copied? All rows of a regression are one class. The rows are a
	// sample of the table, in which a row and its copy are both found only as often as the sample's share of the
	// table, so that the limit is lower by that share.
	if c.p.Label.Kind == dataset.Regression {
		rows, again = map[float32]int{0: len(c.night.Label)}, map[float32]int{0: repeated}
	}
	for y, count := range rows {
		if again[y] >= fewCopies && float64(again[y]) > copiedShare*float64(count)*total/float64(c.night.Table) {
			c.add(Warning, CodeCopiedRows, "", "%s of the test rows are copies of rows in train, with the same label: "+
				"test scores are too good. Remove the copies, or keep them together with split: {by: hash, "+
				"key: COLUMN}", percent(c.p.Shared))
			return true
		}
	}
	return false
}

// checkFirst looks for faults of a first night: test rows that are also in train, and columns that duplicate others.
// copied says that checkCopies has reported the rows already.
func (c *comparison) checkFirst(copied bool) {
	if c.p.Shared > sharedFirst && c.p.Shared < sharedOften && !copied {
		c.add(Warning, CodeSharedRows, "", "%s of the test rows also occur in train, but for times and ids: a model "+
			"is rewarded for remembering them. Remove the copies, or keep them together with split: {by: hash, "+
			"key: COLUMN}",
			percent(c.p.Shared))
	}
	c.checkSameColumns()
}

// checkSameColumns looks, among the first columns, for pairs of which each follows from the other: they are equal, or
// differ in unit or spelling. To a tree they are the same column. It warns of the later column of a pair, once.
func (c *comparison) checkSameColumns() {
	last := min(len(c.p.Columns), tied)
	said := map[string]bool{}
	for i := range last {
		for j := range i {
			// Compare rows only where the profiles allow it: of one kind, with about as many values and distinct
			// ones, and numbers closely tied. Two values alone follow from each other too easily.
			a, b := &c.p.Columns[j], &c.p.Columns[i]
			alike := a.Kind == b.Kind && a.Distinct >= 3 && math.Abs(a.Missing-b.Missing) <= 1-sameShare &&
				math.Abs(float64(a.Distinct-b.Distinct)) <= max(2, (1-sameShare)*float64(a.Distinct))
			// Of texts that all differ each pair follows, whatever they say.
			alike = alike && (a.Kind == Number || float64(a.Distinct) < sameShare*c.p.sampled()*(1-a.Missing))
			closelyTied := i < len(c.p.Ties) && (a.Kind != Number || c.p.Ties[i][j] >= 0.9)
			if said[b.Name] || !alike || !closelyTied {
				continue
			}
			x, y := c.night.Sample.Column(a.Name), c.night.Sample.Column(b.Name)
			if x == nil || y == nil { // the sample lacks what the profile says, as in FuzzRecord
				continue
			}
			if share := c.shareThatFollows(a.Kind, x, y); share >= sameShare {
				said[b.Name] = true
				c.add(Warning, CodeSameColumn, b.Name, "the column duplicates %q in %s of the rows: drop: [%s]",
					a.Name, percent(share), b.Name)
			}
		}
	}
}

// shareThatFollows returns the share of the rows in which two columns of one kind follow from each other, judged by the
// rows among the first sameRows with a value in both: those whose value in one is the most frequent one for their value
// in the other, in the direction with fewer of them. Most frequent numbers must ascend together, too, whatever their
// units; the share of those that do counts if it is smaller. It is 0 if these rows tell nothing: if none has both
// values, or hardly any but those of the most frequent pair follow, which two columns with a usual value share by
// chance.
func (c *comparison) shareThatFollows(kind ColumnKind, a, b *dataset.Values) float64 {
	n := min(a.Len(), sameRows)
	if kind == Number {
		pairs := map[[2]float64]int{}
		x, _ := c.night.Numbers(a)
		y, _ := c.night.Numbers(b)
		for i := range n {
			if x[i] == x[i] && y[i] == y[i] {
				pairs[[2]float64{x[i], y[i]}]++
			}
		}
		share, mostOf := mostFrequent(pairs)
		return min(share, shareThatAscends(mostOf))
	}

	pairs := map[[2]string]int{}
	for i := range n {
		if !c.night.Missing(a, i) && !c.night.Missing(b, i) {
			pairs[[2]string{a.TextOf(i), b.TextOf(i)}]++
		}
	}
	share, _ := mostFrequent(pairs)
	return share
}

// mostFrequent returns the share of the rows whose value on one side of their pair is the most frequent one for their
// value on the other: the smaller of the shares of both directions. mostOf has, by the first value, the second that is
// the most frequent with it, of several the least. pairs are rows by their two values. The share is 0 if that of the
// rows without the most frequent pair is below sameOthers.
func mostFrequent[T cmp.Ordered](pairs map[[2]T]int) (share float64, mostOf map[T]T) {
	rows, top := 0, 0            // all rows, and those with the most frequent pair
	most := [2]map[T]int{{}, {}} // by side and the value there, the rows with the most frequent other value
	mostOf = map[T]T{}
	for pair, count := range pairs {
		rows, top = rows+count, max(top, count)
		if old := most[0][pair[0]]; count > old || count == old && pair[1] < mostOf[pair[0]] {
			mostOf[pair[0]] = pair[1]
		}
		for side, of := range most {
			of[pair[side]] = max(of[pair[side]], count)
		}
	}
	fewest := rows
	for _, of := range most {
		sum := 0
		for _, count := range of {
			sum += count
		}
		fewest = min(fewest, sum)
	}
	if rows == top || float64(fewest-top) < sameOthers*float64(rows-top) {
		return 0, mostOf
	}
	return float64(fewest) / float64(rows), mostOf
}

// shareThatAscends returns in what share of the steps from one x to the next y ascends as well. It is 0 without a step.
func shareThatAscends(y map[float64]float64) float64 {
	xs := slices.Sorted(maps.Keys(y))
	ascending := 0
	for i := range max(0, len(xs)-1) {
		if y[xs[i]] < y[xs[i+1]] {
			ascending++
		}
	}
	return float64(ascending) / float64(max(1, len(xs)-1))
}
