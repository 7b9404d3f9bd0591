package page

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"coppice/internal/page/plot"
	"coppice/internal/search"
)

// orNaN is a number that may not be known.
func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}

// mostGroups is how many groups the chart shows; the table has all.
const mostGroups = 30

// worthChart draws what groups of columns are worth.
func (p *sweepPage) worthChart() *plot.Chart {
	w := p.Worths
	if w == nil {
		return nil
	}
	c := plot.Ranges{Chart: plot.Chart{ID: "worths", Title: "What groups of columns are worth", W: 980},
		X: plot.Axis{Label: "gain in " + p.Metric + "; right of the line the group helps"}, Line: 0, Room: 260,
		NoteRoom: 150}
	if !p.Maximize {
		c.X.Label = "fall in " + p.Metric + "; right of the line the group helps"
	}
	var helps []string
	known := 0
	for i, g := range w.Groups {
		// Without an interval nothing is certain: it is drawn as a point.
		value, low, high := orNaN(g.Worth), orNaN(g.Low), orNaN(g.High)
		if math.IsNaN(low) || math.IsNaN(high) {
			low, high = value, value
		}
		sure := low != high
		if g.Worth != nil {
			known++
		}
		if sure && low > 0 {
			helps = append(helps, g.Group)
		}
		note := english.Plural(len(g.Columns), "column", "")
		if g.Step > 0 {
			note += ", step " + strconv.Itoa(g.Step)
		}
		if i < mostGroups && g.Worth != nil {
			c.Rows = append(c.Rows, plot.Range{Label: g.Group, Note: note, Value: value, Low: low, High: high,
				Before: math.NaN(),
				Class: cmp.Or(map[bool]string{true: "good"}[sure && low > 0],
					map[bool]string{true: "bad"}[sure && high < 0], "open")})
		}
	}
	c.Summary = fmt.Sprintf("By how much %s is better with a group of columns than without it; %s.", p.Metric, w.How)
	switch {
	case known == 0:
		c.Summary = fmt.Sprintf("What the %d groups of columns are worth is not known yet: %s.", len(w.Groups), w.How)
	case len(helps) > 0:
		c.Summary += fmt.Sprintf(" Beyond chance: %s.", list(helps))
	}
	c.Keys = []plot.Key{{Class: "dot key good", Label: "helps beyond chance"},
		{Class: "dot key open", Label: "may be chance"}, {Class: "dot key bad", Label: "harms beyond chance"}}

	tabulate(p.data, "worths", c.Title, w.Groups, []field[search.Worth]{
		{"group", plot.Plain, func(g search.Worth) any { return g.Group }},
		{"columns", plot.Plain, func(g search.Worth) any { return len(g.Columns) }},
		{"worth", plot.Plain, func(g search.Worth) any { return orNaN(g.Worth) }},
		{"lowest", plot.Plain, func(g search.Worth) any { return orNaN(g.Low) }},
		{"highest", plot.Plain, func(g search.Worth) any { return orNaN(g.High) }},
	})
	return c.Draw()
}
