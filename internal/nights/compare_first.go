package nights

import (
	"cmp"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// Limits of what a table says against itself, without a night before it.
const (
	sharedFirst = 0.01  // share of test's rows that are also in train
	sharedOften = 0.5   // with more, rows are alike by nature, unless they are copies
	copiedShare = 0.2   // of the rows of a class: with fewer copies, a model is hardly flattered
	sameLabels  = 0.2   // of the differences of label that chance would leave among rows that are alike
	fewCopies   = 10    // differences of label that chance would leave, with fewer nothing is known
	sameShare   = 0.99  // of the rows, in which one column follows from another
	leakFirst   = 0.5   // share of the labels' entropy that one column explains
	sameRows    = 5_000 // to compare columns by
)

// checkCopies looks for rows that the table holds several times, some in train and some in test. Where rows are alike
// by nature, their labels differ as by chance; those of copies do not. It reports whether it found any.
func (c *comparison) checkCopies() bool {
	if c.p.Shared <= sharedFirst {
		return false
	}
	type pair struct {
		alike uint64
		label float32
	}
	pairs, all, most := map[pair]int{}, map[uint64]int{}, map[uint64]int{} // rows; by what is alike, of any label
	for i, y := range c.night.Label {
		key := pair{c.night.Alike[i], y}
		pairs[key]++
		all[key.alike]++
		most[key.alike] = max(most[key.alike], pairs[key])
	}
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
	total := float64(len(c.night.Label))
	chance := float64(repeated) * (1 - float64(squares)/(total*total)) / 2
	if !(chance >= fewCopies && float64(differ) < sameLabels*chance) {
		return false
	}

	if c.p.Label.Kind == dataset.Regression {
		rows, again = map[float32]int{0: len(c.night.Label)}, map[float32]int{0: repeated}
	}
	for y, count := range rows { // of a sample of the table a copy is as likely to be in it as any row
		if again[y] >= fewCopies && float64(again[y]) > copiedShare*float64(count)*total/float64(c.night.Table) {
			c.add(Warning, CodeCopiedRows, "", "%s of the test rows are copies of rows in train, with the same label: "+
				"test scores are too good. Remove the copies, or keep them together with split: {by: hash, "+
				"key: COLUMN}", percent(c.p.Shared))
			return true
		}
	}
	return false
}

// checkFirst looks for what needs no night before: rows in train and test, columns that say the same.
func (c *comparison) checkFirst(copied bool) {
	if c.p.Shared > sharedFirst && c.p.Shared < sharedOften && !copied {
		c.add(Warning, CodeSharedRows, "", "%s of the test rows also occur in train, but for their times: a model is "+
			"rewarded for remembering them. Remove the copies, or keep them together with split: {by: hash, "+
			"key: COLUMN}",
			percent(c.p.Shared))
	}
	c.checkSameColumns()
}

// checkSameColumns looks for pairs of columns where one follows from the other: they are equal, or differ in unit or
// spelling. To a tree they are the same column.
func (c *comparison) checkSameColumns() {
	last := min(len(c.p.Columns), tied)
	said := map[string]bool{}
	for i := range last {
		for j := range i {
			a, b := &c.p.Columns[j], &c.p.Columns[i]
			if said[b.Name] || a.Kind != b.Kind || a.Distinct < 3 || math.Abs(a.Missing-b.Missing) > 1-sameShare ||
				math.Abs(float64(a.Distinct-b.Distinct)) > max(2, (1-sameShare)*float64(a.Distinct)) ||
				i >= len(c.p.Ties) || a.Kind == Number && c.p.Ties[i][j] < 0.9 {
				continue
			}
			x, y := c.night.Sample.Column(a.Name), c.night.Sample.Column(b.Name)
			if x == nil || y == nil {
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

// shareThatFollows is the share of the rows in which one column follows from the other: numbers if they ascend
// together, texts if they stand for each other.
func (c *comparison) shareThatFollows(kind ColumnKind, a, b *dataset.Values) float64 {
	n := min(a.Len(), sameRows)
	if kind == Number {
		x, _ := c.night.Numbers(a)
		y, _ := c.night.Numbers(b)
		order := make([]int, 0, n)
		for i := range n {
			if x[i] == x[i] && y[i] == y[i] {
				order = append(order, i)
			}
		}
		slices.SortFunc(order, func(i, j int) int { return cmp.Or(cmp.Compare(x[i], x[j]), cmp.Compare(y[i], y[j])) })
		wrong, steps := 0, 0
		for k := range order[min(1, len(order)):] {
			i, j := order[k], order[k+1]
			if x[i] == x[j] && y[i] == y[j] {
				continue
			}
			steps++
			if y[j] < y[i] || (x[i] == x[j]) != (y[i] == y[j]) {
				wrong++
			}
		}
		return 1 - float64(wrong)/float64(max(steps, 1))
	}

	pairs, rows := map[[2]string]int{}, 0
	for i := range n {
		if !c.night.Missing(a, i) && !c.night.Missing(b, i) {
			rows++
			pairs[[2]string{a.TextOf(i), b.TextOf(i)}]++
		}
	}
	share := 1.0
	for side := range 2 {
		most, sum := map[string]int{}, 0
		for pair, count := range pairs {
			most[pair[side]] = max(most[pair[side]], count)
		}
		for _, count := range most {
			sum += count
		}
		share = min(share, float64(sum)/float64(max(rows, 1)))
	}
	return share
}
