package nights

import (
	"math"
	"slices"

	"coppice/internal/dataset"
)

// Limits of what a table says against itself, without a night before it.
const (
	sharedFirst = 0.01  // share of test's rows that are also in train
	sharedOften = 0.5   // with more, rows are alike by nature
	sameShare   = 0.99  // of the rows, in which one column follows from another
	leakFirst   = 0.5   // share of the labels' entropy that one column explains
	sameRows    = 5_000 // to compare columns by
)

// checkFirst looks for what needs no night before: rows in train and test, columns that say the same.
func (c *comparison) checkFirst() {
	if c.p.Shared > sharedFirst && c.p.Shared < sharedOften {
		c.add(Warning, CodeSharedRows, "", "%s of the test rows also occur in train, but for their times: a model is "+
			"rewarded for remembering them. Remove the copies, or keep them together with split: {by: hash, "+
			"key: COLUMN}",
			percent(c.p.Shared))
	}
	c.checkSameColumns()
}

// checkSameColumns looks for columns of which one follows from the other: equal, in another unit or written
// differently. To a tree they are the same column.
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
			if share := c.same(a.Kind, x, y); share >= sameShare {
				said[b.Name] = true
				c.add(Warning, CodeSameColumn, b.Name, "the column says the same as %q in %s of the rows: drop: [%s]",
					a.Name, percent(share), b.Name)
			}
		}
	}
}

// same is the share of the rows in which one column follows from the other: numbers if they ascend together, texts if
// they stand for each other.
func (c *comparison) same(kind ColumnKind, a, b *dataset.Values) float64 {
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
		slices.SortFunc(order, func(i, j int) int {
			switch {
			case x[i] < x[j] || x[i] == x[j] && y[i] < y[j]:
				return -1
			case x[i] > x[j] || y[i] > y[j]:
				return 1
			}
			return 0
		})
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
