package search

import (
	"cmp"
	"slices"

	"coppice/sweep"
)

// stopping is the rule of a plan, without curves.
func stopping(p *sweep.Plan) Stopping {
	rule := p.Spec.Search.Stop
	return Stopping{Rule: rule.Rule, Rungs: rule.Rungs, Eta: rule.Eta, Maximize: p.Maximize, Noise: rule.Noise, Trials: len(p.Trials)}
}

// RungsOf returns the rungs at which a trial of a plan is compared: under hyperband not all of them.
func RungsOf(p *sweep.Plan, trial int) []int {
	s := stopping(p)
	return s.rungsOf(trial)
}

// AtRung decides whether a trial of a plan continues from the rung that it reached with own: a pure function of the plan and of the scores
// seen, others' up to that rung and its own at earlier ones. Errors are *SpecError.
func AtRung(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached) (Verdict, error) {
	s := stopping(p)
	of := map[int][]CurvePoint{own.Trial: nil}
	for _, r := range append(slices.Clone(seen), own) {
		of[r.Trial] = append(of[r.Trial], CurvePoint{Step: r.Step, Value: r.Score})
	}
	for trial, points := range of {
		slices.SortFunc(points, func(a, b CurvePoint) int { return cmp.Compare(a.Step, b.Step) })
		s.Curves = append(s.Curves, Curve{Trial: trial, Points: points, Status: TrialRunning})
	}
	slices.SortFunc(s.Curves, func(a, b Curve) int { return cmp.Compare(a.Trial, b.Trial) })
	return Judge(s, own.Trial)
}
