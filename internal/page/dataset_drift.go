package page

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"coppice/internal/nights"
	"coppice/internal/page/plot"
)

// drift is how far a column was from the night before, night by night.
type drift struct {
	Column     string
	Last, Most float64 // 0 is the same distribution, 1 nothing in common; NaN where the last night says nothing
	Found      int     // nights in which something was found of it
	Spark      string  // of all nights, on one scale for all columns
}

// drifts are those of all columns, which moved most first.
func (p *datasetPage) drifts() (all []drift) {
	names := map[string]bool{}
	for _, n := range p.Nights {
		for name := range n.Drift {
			names[name] = true
		}
	}
	most := 0.1 // below it, noise would fill the drawing
	var of [][]float64
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := drift{Column: name}
		var values []float64
		for _, n := range p.Nights {
			d.Last = math.NaN()
			if v, ok := n.Drift[name]; ok {
				d.Last, d.Most = v, max(d.Most, v)
			}
			values = append(values, d.Last)
			if slices.ContainsFunc(n.Findings, func(f nights.Finding) bool { return f.Column == name }) {
				d.Found++
			}
		}
		most = max(most, d.Most)
		all, of = append(all, d), append(of, values)
	}
	for i := range all {
		all[i].Spark = plot.Spark(of[i], most, 160, 20)
	}
	slices.SortStableFunc(all, func(a, b drift) int { return cmp.Compare(b.Most, a.Most) })
	return all
}
