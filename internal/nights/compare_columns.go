package nights

import (
	"fmt"
	"math"
	"slices"
)

// maxRenames bounds the missing, and the new, columns among which renames are looked for, by comparing every pair. With
// more, it is another table.
const maxRenames = 100

// checkColumns looks for columns that were added, removed or renamed since last night, and for those whose values are
// of another kind. Columns that the spec drops, or that name the day of a file, may go.
func (c *comparison) checkColumns() {
	var gone, came []*Column
	for i := range c.last.Columns {
		if k := &c.last.Columns[i]; c.p.column(k.Name) == nil &&
			!slices.Contains(c.Spec.Drop, k.Name) && !c.Spec.Source.NamesDay(k.Name) {
			gone = append(gone, k)
		}
	}
	for i := range c.p.Columns {
		k := &c.p.Columns[i]
		old := c.last.column(k.Name)
		switch {
		case old == nil:
			came = append(came, k)
		case old.Kind != k.Kind && old.Kind != None && k.Kind != None:
			c.add(Blocking, CodeKindChanged, k.Name, "the column holds %s, but held %s before", plural(k.Kind),
				plural(old.Kind))
		}
	}

	// A missing column with a new one like it was renamed. Each new column is used once.
	pairable := len(gone) <= maxRenames && len(came) <= maxRenames
	for _, old := range gone {
		i := slices.IndexFunc(came, func(k *Column) bool { return pairable && couldBeSame(k, old) })
		if i < 0 {
			since, lacks := "the night before had it", func(p *Profile) bool { return p.column(old.Name) == nil }
			if len(c.before) > 1 && !slices.ContainsFunc(c.before, lacks) {
				since = fmt.Sprintf("the %d nights before had it", len(c.before))
			}
			c.add(Blocking, CodeColumnMissing, old.Name, "the column is missing; %s", since)
			continue
		}
		c.add(Blocking, CodeColumnRenamed, old.Name,
			"the column is missing, but the new column %q has similar contents: rename it back, or rename it in the "+
				"spec, too", came[i].Name)
		came = slices.Delete(came, i, i+1)
	}
	for _, k := range came {
		c.add(Note, CodeColumnNew, k.Name, "the column is new")
	}
}

// plural names what a column of a kind holds.
func plural(kind ColumnKind) string {
	if kind == None {
		return "no values"
	}
	return string(kind) + "s"
}

// couldBeSame reports whether two columns of different names could be the same one: by kind, missing values and
// distribution.
func couldBeSame(a, b *Column) bool {
	return a.Kind == b.Kind && a.Kind != None && math.Abs(a.Missing-b.Missing) < 0.1 && Distance(a, b) < 0.1
}

// Distance compares the distributions of two columns, which must be of the same kind: from 0 for equal ones to 1 for
// disjoint ones. It is numberDistance or levelDistance. Of times nothing is compared: it is 0.
func Distance(a, b *Column) float64 {
	switch {
	case a.Kind == Time || a.Kind == None:
		return 0
	case a.Kind == Number && len(a.Quantiles) > 0 && len(b.Quantiles) > 0:
		return numberDistance(a, b)
	case len(a.Levels) == 0 || len(b.Levels) == 0:
		return 1
	}
	return levelDistance(a, b)
}

// numberDistance returns the largest difference of the two cumulative distributions (Kolmogorov and Smirnov), at the
// known quantiles of both. At a number that many rows have, a distribution jumps: it is compared before and after.
func numberDistance(a, b *Column) float64 {
	worst := 0.0
	for _, k := range []*Column{a, b} {
		for _, x := range k.Quantiles {
			for _, below := range []bool{true, false} {
				worst = max(worst, math.Abs(shareBelow(a.Quantiles, x, below)-shareBelow(b.Quantiles, x, below)))
			}
		}
	}
	return worst
}

// shareBelow estimates the share of a column's numbers that are less than value, if below, or else at most value. The
// quantiles are at equal steps, ascending, and may be equal. Between two of them it interpolates.
func shareBelow(quantiles []float64, value float64, below bool) float64 {
	i, found := slices.BinarySearch(quantiles, value) // the first that is equal, or else the first above
	if found {
		for !below && i+1 < len(quantiles) && quantiles[i+1] == value {
			i++
		}
		return float64(i) / float64(len(quantiles)-1)
	}

	switch {
	case i == 0:
		return 0
	case i == len(quantiles):
		return 1
	}
	return (float64(i-1) + (value-quantiles[i-1])/(quantiles[i]-quantiles[i-1])) / float64(len(quantiles)-1)
}

// levelDistance returns the total variation of the two distributions of levels: the share of rows that would have to
// have another level for all shares to be equal. All levels that were not kept count as one (Rest).
func levelDistance(a, b *Column) float64 {
	sum := math.Abs(a.Rest - b.Rest)
	for _, l := range a.Levels {
		sum += math.Abs(l.Share - b.shareOf(l.Text))
	}
	for _, l := range b.Levels {
		if a.findLevel(l.Text) == nil {
			sum += l.Share
		}
	}
	return min(1, sum/2)
}
