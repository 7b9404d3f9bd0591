package search

import (
	"cmp"
	"fmt"
	"slices"

	"coppice/internal/sweep"
)

// AtRung decides whether a trial of a plan continues from the rung that it reached with own: a pure function of the
// plan and of the scores seen, others' up to that rung and its own at earlier ones. In a plan whose trials pause it
// never stops one: what becomes of those that wait is decided by Resumable. With halving every trial waits, so that the
// decision does not depend on the order of arrival. Errors are
// *SpecError.
func AtRung(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached) (Verdict, error) {
	if p.Pauses() && p.Spec.Search.Stop.Rule == sweep.StopHalving {
		return Verdict{Action: Wait, Rung: own.Step, Reason: fmt.Sprintf("at rung %d every trial waits for all others",
			own.Step)}, nil
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

// Ladder is what is known when a task asks what becomes of paused trials. A trial has one score at a rung.
type Ladder struct {
	Paused  []sweep.Reached // the paused trials without a verdict: their rungs and scores there
	Reached []sweep.Reached // the scores of all trials at rungs
	Coming  map[int]int     // by rung, how many trials may still come to it; for halving only
	Last    bool            // every trial has ended or is paused
}

// Resumption is a verdict on a paused trial.
type Resumption struct {
	sweep.Reached
	Verdict Verdict // GoOn, Stop or Wait
	Last    bool

	rung []sweep.Reached // all scores at the rung, by trial
}

// Seen returns the others' scores at the rung, by trial. With the plan and Last, the verdict follows from them.
func (r *Resumption) Seen() []sweep.Reached {
	seen := make([]sweep.Reached, 0, len(r.rung))
	for _, other := range r.rung {
		if other.Trial != r.Trial {
			seen = append(seen, other)
		}
	}
	return seen
}

// Resumable returns the paused trials of which can be said what becomes of them: those to be promoted, the highest rung
// and its best trial first, or else those that are to end. With asha and hyperband a trial is promoted as soon as it is
// among the best 1/eta of those that have come to its rung, and ends when nothing is left that could change that. With
// halving all trials at a rung get their verdicts once none is on its way to it. Of the last ones at a rung the best
// goes on, so that a sweep has a model. Errors are *SpecError.
func Resumable(p *sweep.Plan, l Ladder) ([]Resumption, error) {
	if p.Spec.Search.Stop.Rule == sweep.StopHalving {
		l.Last = true
		l.Paused = slices.DeleteFunc(slices.Clone(l.Paused), func(r sweep.Reached) bool { return l.Coming[r.Step] > 0 })
	}
	all, err := l.verdicts(p)
	if err != nil {
		return nil, err
	}

	var promoted, ended []Resumption
	for _, r := range all {
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

// Behind returns those of the paused trials, ascending, that others beat: they would end if none came to their rungs
// any more. Errors are
// *SpecError.
func Behind(p *sweep.Plan, l Ladder) (trials []int, err error) {
	l.Last = true
	all, err := l.verdicts(p)
	for _, r := range all {
		if r.Verdict.Action == Stop {
			trials = append(trials, r.Trial)
		}
	}
	slices.Sort(trials)
	return trials, err
}

// verdicts judges every paused trial, the highest rung and its best trial first. Each rung is put in order once, not
// for each trial: there may be a thousand, and every task asks again and again.
func (l *Ladder) verdicts(p *sweep.Plan) ([]Resumption, error) {
	s := stopping(p)
	s.Pauses, s.Last = true, l.Last
	if err := s.check(); err != nil {
		return nil, err
	}

	// The scores at each rung, by trial, and best first for each bracket.
	type field struct{ step, bracket int }
	rungs, fields := map[int][]sweep.Reached{}, map[field][]entry{}
	for _, r := range l.Reached {
		f := field{r.Step, s.bracketOf(r.Trial)}
		rungs[r.Step] = append(rungs[r.Step], r)
		fields[f] = append(fields[f], entry{r.Trial, s.score(r.Score)})
	}
	for _, rung := range rungs {
		slices.SortFunc(rung, func(a, b sweep.Reached) int { return cmp.Compare(a.Trial, b.Trial) })
	}
	for _, entries := range fields {
		slices.SortFunc(entries, compareEntries)
	}

	all := make([]Resumption, 0, len(l.Paused))
	for _, own := range l.Paused {
		r := Resumption{Reached: own, Last: l.Last, rung: rungs[own.Step]}
		among := fields[field{own.Step, s.bracketOf(own.Trial)}]
		at, listed := slices.BinarySearchFunc(among, entry{own.Trial, s.score(own.Score)}, compareEntries)

		if listed && slices.Contains(s.rungsOf(own.Trial), own.Step) {
			r.Verdict = s.ranked(among, at+1, own.Step)
		} else {
			var err error
			if r.Verdict, err = AfterPause(p, own, r.Seen(), l.Last); err != nil {
				return nil, err
			}
		}
		all = append(all, r)
	}

	slices.SortFunc(all, func(a, b Resumption) int {
		byScore := cmp.Compare(a.Score, b.Score)
		if p.Maximize {
			byScore = -byScore
		}
		return cmp.Or(cmp.Compare(b.Step, a.Step), byScore, cmp.Compare(a.Trial, b.Trial))
	})
	return all, nil
}

// AfterPause says what becomes of a trial that is paused at a rung, given the others' scores there: it goes on, stops
// or keeps waiting. last says that no other will come. Errors are *SpecError.
func AfterPause(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached, last bool) (Verdict, error) {
	s := compared(p, own, seen)
	s.Pauses, s.Last = true, last
	return Judge(s, own.Trial)
}

// ReplayPromotion repeats a recorded verdict on a paused trial, from what it has seen. It returns nil if the outcome is
// the same.
func ReplayPromotion(p *sweep.Plan, r *sweep.Promotion) error {
	switch {
	case r.Enough && !r.Promoted: // the reason is the sweep's
		return nil
	case r.Unread && r.Promoted: // nothing could be compared
		return nil
	case r.Enough || r.Unread:
		return fmt.Errorf("search: trial %d at %d trees: promoted is %t (%s), although the sweep has enough (%t) or "+
			"its score could not be read (%t)", r.Trial, r.Step, r.Promoted, r.Reason, r.Enough, r.Unread)
	}
	v, err := AfterPause(p, sweep.Reached{Step: r.Step, Trial: r.Trial, Score: r.Score}, r.Seen, r.Last)
	if err != nil {
		return err
	}
	if (v.Action == GoOn) != r.Promoted || v.Reason != r.Reason {
		return fmt.Errorf("search: trial %d at %d trees: promoted is %t (%s); from what had been seen comes %s (%s)",
			r.Trial, r.Step, r.Promoted, r.Reason, v.Action, v.Reason)
	}
	return nil
}
