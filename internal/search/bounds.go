package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"coppice/internal/sweep"
)

// A parameter stops at a bound if mostBest of the best fewestBest trials lie in the outer edge of its range on the same
// side. At random that happens once in 30,000 sweeps; a search that has found the edge stays there.
const (
	mostBest = 6
	edge     = 0.1 // of the range, on the scale that it is drawn on
)

// AtBounds names the numerical parameters whose best values lie at a bound of the space, where a wider range may have
// better ones. Only a parameter that has a significant effect is named: by Importance, above what chance gives in one
// of twenty draws. A bound of 0 or 1 is mostly the parameter's own, and not named.
func AtBounds(p *sweep.Plan, b sweep.Board) (texts []string) {
	type trial struct {
		own  sweep.Params
		loss float64
	}
	var done []trial
	for _, row := range b.Rows {
		r := row.Result
		if r == nil || r.Status != sweep.StatusDone || row.Trial.Refit || row.Trial.Fold > 0 || r.Params == nil {
			continue
		}
		loss := r.Score
		if p.Maximize {
			loss = -loss
		}
		done = append(done, trial{Own(p, r.Params), loss})
	}
	slices.SortStableFunc(done, func(x, y trial) int { return cmp.Compare(x.loss, y.loss) })

	names := slices.Sorted(maps.Keys(p.Spec.Search.Random))
	var dims []Dimension
	loss := make([]float64, len(done))
	for _, name := range names {
		low, _, log := rangeOf(p.Spec.Search.Random[name])
		if math.IsNaN(low) {
			continue
		}
		d := Dimension{Name: name, Log: log}
		for i, t := range done {
			v, has := t.own[name].(float64)
			if !has {
				v = math.NaN()
			}
			d.Values, loss[i] = append(d.Values, v), t.loss
		}
		dims = append(dims, d)
	}

	matters := map[string]bool{}
	for _, w := range Importance(dims, loss) {
		matters[w.Name] = w.Share > w.Chance
	}
	for _, d := range dims {
		if !matters[d.Name] {
			continue
		}
		low, high, log := rangeOf(p.Spec.Search.Random[d.Name])
		at := func(v float64) float64 { return (v - low) / (high - low) }
		if log {
			at = func(v float64) float64 { return math.Log(v/low) / math.Log(high/low) }
		}
		best := d.ofThoseThatHaveIt(upTo(len(done)))
		below, above := 0, 0
		for _, v := range best[:min(fewestBest, len(best))] {
			if at(v) <= edge {
				below++
			}
			if at(v) >= 1-edge {
				above++
			}
		}
		switch own := func(v float64) bool { return v == 0 || v == 1 }; {
		case above >= mostBest && !own(high):
			texts = append(texts, atBound(d.Name, "upper", high, above))
		case below >= mostBest && !own(low):
			texts = append(texts, atBound(d.Name, "lower", low, below))
		}
	}
	return texts
}

func atBound(name, side string, bound float64, n int) string {
	return fmt.Sprintf("%s: best at its %s bound %v (%d of the best %d trials); a wider range may have better values",
		name, side, bound, n, fewestBest)
}

// rangeOf is the range of a parameter's numbers, and whether it is drawn in the logarithm; NaN if it has choices.
func rangeOf(d sweep.Distribution) (low, high float64, log bool) {
	switch {
	case len(d.Uniform) == 2:
		return d.Uniform[0], d.Uniform[1], false
	case len(d.LogUniform) == 2:
		return d.LogUniform[0], d.LogUniform[1], true
	case len(d.Int) == 2:
		return float64(d.Int[0]), float64(d.Int[1]), false
	case len(d.LogInt) == 2:
		return float64(d.LogInt[0]), float64(d.LogInt[1]), true
	case len(d.Step) == 3:
		return d.Step[0], d.Step[1], false
	}
	return math.NaN(), math.NaN(), false
}
