package search

import (
	"slices"

	"coppice/internal/sweep"
)

// expectedEnds estimates, for every trial that was stopped at a rung, the score that it would have ended with. Its
// score there is not comparable with those of other rungs and of whole trainings: to a method that learns, the first
// configurations, with which none could be compared yet, would seem to be the best. So it gets what the others gained
// from its rung to the next, and from there to the end: medians of the trials that have both scores.
func expectedEnds(seen []sweep.Seen) map[int]float64 {
	steps := rungSteps(seen)
	gains := make([]float64, len(steps))
	for i, step := range steps {
		var gained []float64
		for _, s := range seen {
			from, reached := scoreAt(s, step)
			to, further := scoreAfter(s, steps[i+1:])
			if reached && further {
				gained = append(gained, to-from)
			}
		}
		if len(gained) > 0 {
			gains[i] = median(gained)
		}
	}

	ends := map[int]float64{}
	for _, s := range seen {
		if s.Status != sweep.StatusStopped || s.Score == nil || len(s.Rungs) == 0 {
			continue
		}
		end := *s.Score
		for i := slices.Index(steps, s.Rungs[len(s.Rungs)-1].Step); i < len(steps); i++ {
			end += gains[i]
		}
		ends[s.Trial] = end
	}
	return ends
}

// rungSteps are all rungs at which a trial has a score, ascending.
func rungSteps(seen []sweep.Seen) []int {
	var steps []int
	for _, s := range seen {
		for _, r := range s.Rungs {
			steps = append(steps, r.Step)
		}
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

func scoreAt(s sweep.Seen, step int) (score float64, reached bool) {
	i := slices.IndexFunc(s.Rungs, func(r sweep.RungScore) bool { return r.Step == step })
	if i < 0 {
		return 0, false
	}
	return s.Rungs[i].Score, true
}

// scoreAfter is a trial's score at the first of these rungs or, after the last one, at its end.
func scoreAfter(s sweep.Seen, steps []int) (score float64, reached bool) {
	switch {
	case len(steps) > 0:
		return scoreAt(s, steps[0])
	case s.Status == sweep.StatusDone && s.Score != nil:
		return *s.Score, true
	}
	return 0, false
}
