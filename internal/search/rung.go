package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"coppice/internal/sweep"
)

// Actions for a trial at a rung.
const (
	GoOn = "continue"
	Stop = "stop"
	Wait = "wait" // for the other trials at the rung
)

// RungVerdict is a decision about a trial at a rung, with its reason.
type RungVerdict struct{ Action, Reason string }

// Rungs returns the steps at which trials of at most highest steps are compared: highest / eta, highest / eta^2 and so
// on, down to lowest.
func Rungs(lowest, highest, eta int) []int {
	var rungs []int
	for step := highest / max(eta, 2); step >= max(lowest, 1); step /= max(eta, 2) {
		rungs = append(rungs, step)
	}
	slices.Reverse(rungs)
	return rungs
}

// RungsOf returns the rungs at which a trial of a plan is compared: under hyperband those of its bracket. Bracket b
// skips the first b rungs and gets fewer trials in proportion to their higher cost.
func RungsOf(p *sweep.Plan, trial int) []int {
	rungs := p.Spec.Search.Stop.Rungs
	return rungs[min(bracketOf(p, trial), len(rungs)):]
}

// bracketOf assigns trials to brackets by number: brackets 0, 1, 2 ... have weights eta^(B-b) / (B-b+1), as sized by Li
// et al. (2018).
func bracketOf(p *sweep.Plan, trial int) int {
	stop := p.Spec.Search.Stop
	if stop.Rule != sweep.StopHyperband {
		return 0
	}
	brackets := len(stop.Rungs) + 1
	var edges []float64
	total := 0.0
	for b := range brackets {
		left := brackets - 1 - b
		total += math.Pow(float64(stop.Eta), float64(left)) * float64(brackets) / float64(left+1)
		edges = append(edges, total)
	}

	// A low-discrepancy sequence, so that any run of trials is divided between the brackets in proportion.
	const golden = 0.6180339887498949
	_, at := math.Modf(float64(float64(trial)*golden) + golden)
	return slices.IndexFunc(edges, func(edge float64) bool { return at*total < edge })
}

// AtRung decides whether a trial of a plan goes on from the rung that it has reached with own, or waits there: a pure
// function of the plan and of the others' scores at the rung. What becomes of those that wait is decided by Resumable.
// With halving every trial waits, so that the decision does not depend on the order of arrival.
func AtRung(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached) RungVerdict {
	if p.Spec.Search.Stop.Rule == sweep.StopHalving {
		return RungVerdict{Wait, fmt.Sprintf("at rung %d every trial waits for all others", own.Step)}
	}
	return AfterPause(p, own, seen, false)
}

// AfterPause says what becomes of a trial that is paused at a rung, given the others' scores there: it goes on, stops
// or keeps waiting. last says that no other will come.
func AfterPause(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached, last bool) RungVerdict {
	if !slices.Contains(RungsOf(p, own.Trial), own.Step) {
		return RungVerdict{GoOn, "it has not come to a rung"}
	}
	self := entry{own.Trial, rankedBy(p, own.Score)}
	field := []entry{self}
	for _, r := range seen {
		if r.Step == own.Step && r.Trial != own.Trial && bracketOf(p, r.Trial) == bracketOf(p, own.Trial) {
			field = append(field, entry{r.Trial, rankedBy(p, r.Score)})
		}
	}
	slices.SortFunc(field, compareEntries)
	return judgeRung(p.Spec.Search.Stop, field, slices.Index(field, self)+1, own.Step, last)
}

// entry is a trial at a rung; higher scores are better.
type entry struct {
	trial int
	score float64
}

// compareEntries puts the best first; on a tie, the lower number.
func compareEntries(a, b entry) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.trial, b.trial))
}

// rankedBy returns a score so that higher is better; one that is no number is the worst.
func rankedBy(p *sweep.Plan, score float64) float64 {
	switch {
	case !sweep.Finite(score):
		return math.Inf(-1)
	case p.Maximize:
		return score
	}
	return -score
}

// judgeRung is successive halving: of the trials that have come to a rung, best first, the best one in eta continue, as
// do those that are as good as the last of these. rank is that of the trial, from 1.
func judgeRung(stop *sweep.Stop, field []entry, rank, rung int, last bool) RungVerdict {
	keep := len(field) / stop.Eta
	if last {
		keep = max(keep, 1)
	}
	if keep == 0 {
		return RungVerdict{Wait, fmt.Sprintf("%d have come to rung %d, fewer than %d", len(field), rung, stop.Eta)}
	}
	why := fmt.Sprintf("rank %d of %d at rung %d; %d continue", rank, len(field), rung, keep)
	if rank <= keep {
		return RungVerdict{GoOn, why}
	}

	behind := field[keep-1].score - field[rank-1].score
	why += fmt.Sprintf(", and it is behind by %.3g", behind)
	switch {
	case !(behind > 0): // also where neither is a number
		return RungVerdict{GoOn, why}
	case last:
		return RungVerdict{Stop, why}
	}
	return RungVerdict{Wait, why}
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
	RungVerdict
	Last bool

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
// goes on, so that a sweep has a model.
func Resumable(p *sweep.Plan, l Ladder) []Resumption {
	if p.Spec.Search.Stop.Rule == sweep.StopHalving {
		l.Last = true
		l.Paused = slices.DeleteFunc(slices.Clone(l.Paused), func(r sweep.Reached) bool { return l.Coming[r.Step] > 0 })
	}

	var promoted, ended []Resumption
	for _, r := range l.verdicts(p) {
		switch r.Action {
		case GoOn:
			promoted = append(promoted, r)
		case Stop:
			ended = append(ended, r)
		}
	}
	if len(promoted) > 0 {
		return promoted
	}
	return ended
}

// Behind returns those of the paused trials, ascending, that others beat: they would end if none came to their rungs
// any more.
func Behind(p *sweep.Plan, l Ladder) (trials []int) {
	l.Last = true
	for _, r := range l.verdicts(p) {
		if r.Action == Stop {
			trials = append(trials, r.Trial)
		}
	}
	slices.Sort(trials)
	return trials
}

// verdicts judges every paused trial, the highest rung and its best trial first. Each rung is put in order once, not
// for each trial: there may be a thousand, and every task asks again and again.
func (l *Ladder) verdicts(p *sweep.Plan) []Resumption {
	// The scores at each rung, by trial, and best first for each bracket.
	type place struct{ step, bracket int }
	rungs, fields := map[int][]sweep.Reached{}, map[place][]entry{}
	for _, r := range l.Reached {
		at := place{r.Step, bracketOf(p, r.Trial)}
		rungs[r.Step] = append(rungs[r.Step], r)
		fields[at] = append(fields[at], entry{r.Trial, rankedBy(p, r.Score)})
	}
	for _, rung := range rungs {
		slices.SortFunc(rung, func(a, b sweep.Reached) int { return cmp.Compare(a.Trial, b.Trial) })
	}
	for _, field := range fields {
		slices.SortFunc(field, compareEntries)
	}

	all := make([]Resumption, 0, len(l.Paused))
	for _, own := range l.Paused {
		r := Resumption{Reached: own, Last: l.Last, rung: rungs[own.Step]}
		field := fields[place{own.Step, bracketOf(p, own.Trial)}]
		at, listed := slices.BinarySearchFunc(field, entry{own.Trial, rankedBy(p, own.Score)}, compareEntries)

		if listed && slices.Contains(RungsOf(p, own.Trial), own.Step) {
			r.RungVerdict = judgeRung(p.Spec.Search.Stop, field, at+1, own.Step, l.Last)
		} else {
			r.RungVerdict = AfterPause(p, own, r.Seen(), l.Last)
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
	return all
}

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
