package report

import (
	"math"

	"coppice/internal/page"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// worths describes what groups of columns are worth; nil for a sweep that does not compare them.
func worths(p *sweep.Plan, b sweep.Board) *page.Worths {
	if p.Spec.Search.Features == nil {
		return nil
	}
	w := search.NewWorths(p, b)
	out := &page.Worths{How: w.How}
	for _, g := range w.Groups {
		out.Groups = append(out.Groups, page.Worth{Group: g.Group, Columns: len(g.Columns), Value: orNaN(g.Worth),
			Low: orNaN(g.Low), High: orNaN(g.High), Step: g.Step})
	}
	return out
}

func orNaN(x *float64) float64 {
	if x == nil {
		return math.NaN()
	}
	return *x
}
