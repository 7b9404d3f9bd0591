package search

import (
	"cmp"
	"fmt"
	"slices"

	"coppice/sweep"
)

// AtRung decides whether a trial of a plan continues from the rung that it reached with own: a pure function of the plan and of the scores
// seen, others' up to that rung and its own at earlier ones. In a plan whose trials pause it never stops one: what becomes of those that wait
// is decided by Resumable. With halving every trial waits, so that the decision does not depend on the order of arrival. Errors are
// *SpecError.
func AtRung(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached) (Verdict, error) {
	if p.Pauses() && p.Spec.Search.Stop.Rule == sweep.StopHalving {
		return Verdict{Action: Wait, Rung: own.Step, Reason: fmt.Sprintf("at rung %d every trial waits for all others", own.Step)}, nil
	}
	s := compared(p, own, seen)
	s.Pauses = p.Pauses()
	return Judge(s, own.Trial)
}

// stopping is the rule of a plan, without curves.
func stopping(p *sweep.Plan) Stopping {
	rule := p.Spec.Search.Stop
	return Stopping{Rule: rule.Rule, Rungs: rule.Rungs, Eta: rule.Eta, Maximize: p.Maximize, Noise: rule.Noise}
}

// RungsOf returns the rungs at which a trial of a plan is compared: under hyperband not all of them.
func RungsOf(p *sweep.Plan, trial int) []int {
	s := stopping(p)
	return s.rungsOf(trial)
}

// compared returns a comparison of a trial of a plan with others.
func compared(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached) Stopping {
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
	return s
}

// Ladder is what is known when a task asks what becomes of paused trials.
type Ladder struct {
	Paused  []sweep.Reached // the paused trials without a verdict: their rungs and scores there
	Reached []sweep.Reached // the scores of all trials at rungs
	Coming  map[int]int     // by rung, how many trials may still come to it; for halving only
	Last    bool            // every trial has ended or is paused
}

// Resumption is a verdict on a paused trial, with the others' scores at its rung.
type Resumption struct {
	sweep.Reached
	Verdict Verdict // GoOn or Stop
	Seen    []sweep.Reached
	Last    bool
}

// Resumable returns the paused trials of which can be said what becomes of them: those to be promoted, the highest rung and its best trial
// first, or else those that are to end. With asha and hyperband a trial is promoted as soon as it is among the best 1/eta of those that have
// come to its rung, and ends when nothing is left that could change that. With halving all trials at a rung get their verdicts once none is
// on its way to it. Of the last ones at a rung the best goes on, so that a sweep has a model. Errors are *SpecError.
func Resumable(p *sweep.Plan, l Ladder) ([]Resumption, error) {
	halving := p.Spec.Search.Stop.Rule == sweep.StopHalving
	best := slices.SortedFunc(slices.Values(l.Paused), func(a, b sweep.Reached) int {
		byScore := cmp.Compare(a.Score, b.Score)
		if p.Maximize {
			byScore = -byScore
		}
		return cmp.Or(cmp.Compare(b.Step, a.Step), byScore, cmp.Compare(a.Trial, b.Trial))
	})

	var promoted, ended []Resumption
	for _, own := range best {
		if halving && l.Coming[own.Step] > 0 {
			continue
		}
		r := Resumption{Reached: own, Seen: []sweep.Reached{}, Last: l.Last || halving}
		for _, other := range l.Reached {
			if other.Step == own.Step && other.Trial != own.Trial {
				r.Seen = append(r.Seen, other)
			}
		}
		slices.SortFunc(r.Seen, func(a, b sweep.Reached) int { return cmp.Compare(a.Trial, b.Trial) })
		var err error
		if r.Verdict, err = AfterPause(p, own, r.Seen, r.Last); err != nil {
			return nil, err
		}
		switch r.Verdict.Action {
		case GoOn:
			promoted = append(promoted, r)
		case Stop:
			ended = append(ended, r)
		}
	}
	if len(promoted) > 0 {
		return promoted, nil
	}
	return ended, nil
}

// AfterPause says what becomes of a trial that is paused at a rung, given the others' scores there: it goes on, stops or keeps waiting. last
// says that no other will come. Errors are *SpecError.
func AfterPause(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached, last bool) (Verdict, error) {
	s := compared(p, own, seen)
	s.Pauses, s.Last = true, last
	return Judge(s, own.Trial)
}

// ReplayPromotion repeats a recorded verdict on a paused trial, from what it has seen. It returns nil if the outcome is the same.
func ReplayPromotion(p *sweep.Plan, r *sweep.Promotion) error {
	if r.Enough { // the reason is the sweep's
		return nil
	}
	v, err := AfterPause(p, sweep.Reached{Step: r.Step, Trial: r.Trial, Score: r.Score}, r.Seen, r.Last)
	if err != nil {
		return err
	}
	if (v.Action == GoOn) != r.Promoted || v.Reason != r.Reason {
		return fmt.Errorf("search: trial %d at %d trees: promoted is %t (%s); from what had been seen comes %s (%s)", r.Trial, r.Step, r.Promoted, r.Reason, v.Action, v.Reason)
	}
	return nil
}
