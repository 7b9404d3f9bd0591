package page

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"coppice/internal/nights"
	"coppice/internal/page/plot"
)

// trend is a number night by night. Numbers that are not known are NaN.
type trend struct {
	Name              string
	Unit              plot.Unit
	Last, Least, Most float64 // of the newest night, and of all
	Found             int     // nights in which something was found of it
	Spark             string
}

func newTrend(name string, values []float64) trend {
	t := trend{Name: name, Last: math.NaN(), Least: math.NaN(), Most: math.NaN()}
	for _, v := range values {
		if t.Last = v; !math.IsNaN(v) {
			t.Least, t.Most = orMin(t.Least, v), -orMin(-t.Most, -v)
		}
	}
	t.Spark = plot.Spark(values, 0, 160, 20)
	return t
}

// orMin is the smaller of two numbers, the first of which may not be known.
func orMin(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	return min(a, b)
}

// trends are what is followed from night to night, beside the columns.
func (p *datasetPage) trends() (all []trend) {
	for _, of := range trends {
		var values []float64
		for i := range p.Nights {
			values = append(values, of.of(&p.Nights[i]))
		}
		t := newTrend(p.titleOf(of.id, of.title), values)
		if t.Unit = of.unit; !math.IsNaN(t.Most) {
			all = append(all, t)
		}
	}
	return all
}

// drifts are how far each column was from the night before: 0 is the same distribution, 1 nothing in common. They are
// drawn on one scale.
func (p *datasetPage) drifts() (all []trend) {
	names := map[string]bool{}
	for _, n := range p.Nights {
		for name := range n.Drift {
			names[name] = true
		}
	}
	most := 0.1 // below it, noise would fill the drawing
	var of [][]float64
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var values []float64
		found := 0
		for _, n := range p.Nights {
			v, ok := n.Drift[name]
			if !ok {
				v = math.NaN()
			}
			values = append(values, v)
			if slices.ContainsFunc(n.Findings, func(f nights.Finding) bool { return f.Column == name }) {
				found++
			}
		}
		t := newTrend(name, values)
		t.Found, most = found, max(most, t.Most)
		all, of = append(all, t), append(of, values)
	}
	for i := range all {
		all[i].Spark = plot.Spark(of[i], most, 160, 20)
	}
	slices.SortStableFunc(all, func(a, b trend) int { return cmp.Compare(b.Most, a.Most) })
	return all
}
