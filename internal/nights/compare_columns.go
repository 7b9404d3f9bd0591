package nights

import (
	"fmt"
	"math"
	"slices"
)

// maxRenames is up to how many missing and new columns renames are looked for, by comparing every pair of them. With
// more it is another table.
const maxRenames = 100

// checkColumns looks for columns that were added, removed, renamed or replaced since last night.
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

	pairable := len(gone) <= maxRenames && len(came) <= maxRenames
	for _, old := range gone {
		i := slices.IndexFunc(came, func(k *Column) bool { return pairable && alike(k, old) })
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

func plural(kind ColumnKind) string {
	if kind == None {
		return "no values"
	}
	return string(kind) + "s"
}

// alike reports whether two columns of different names could be the same one: by kind, missing values and distribution.
func alike(a, b *Column) bool {
	return a.Kind == b.Kind && a.Kind != None && math.Abs(a.Missing-b.Missing) < 0.1 && Distance(a, b) < 0.1
}

// Distance compares two columns of the same kind: the total variation of their ranges or levels, from 0 for the same
// distribution to 1 for disjoint ones.
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

// numberDistance is the largest difference of the two cumulative distributions (Kolmogorov and Smirnov), at the known
// quantiles.
func numberDistance(a, b *Column) float64 {
	worst := 0.0
	for _, pair := range [][2]*Column{{a, b}, {b, a}} {
		for _, x := range pair[0].Quantiles {
			for _, below := range []bool{true, false} {
				worst = max(worst, math.Abs(shareBelow(pair[0].Quantiles, x, below)-shareBelow(pair[1].Quantiles, x,
					below)))
			}
		}
	}
	return worst
}

// shareBelow estimates the share of the numbers less than a value, or at most that.
func shareBelow(quantiles []float64, value float64, below bool) float64 {
	i, found := slices.BinarySearch(quantiles, value)
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

// levelDistance is the share of rows that would have to have another value for the levels of a to have b's shares
// (total variation), from 0 to 1.
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
