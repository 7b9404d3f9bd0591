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

// RungVerdict is a decision about a trial at a rung: one of the actions above, with its reason for people.
type RungVerdict struct{ Action, Reason string }

// Rungs returns the numbers of steps (trees) at which trials of at most highest steps are compared, ascending: highest
// / eta, highest / eta^2 and so on, rounded down, as long as they are not below lowest. An eta below 2 counts as 2, and
// a lowest below 1 as 1.
func Rungs(lowest, highest, eta int) []int {
	var rungs []int
	for step := highest / max(eta, 2); step >= max(lowest, 1); step /= max(eta, 2) {
		rungs = append(rungs, step)
	}
	slices.Reverse(rungs)
	return rungs
}

// RungsOf returns the rungs at which a trial of a plan with search.stop is compared, ascending. Under hyperband they
// are those of the trial's bracket, under the other rules all. Bracket b skips the first b rungs, so its trials are
// stopped later and cost more; it gets fewer trials in return.
func RungsOf(p *sweep.Plan, trial int) []int {
	rungs := p.Spec.Search.Stop.Rungs
	return rungs[min(bracketOf(p, trial), len(rungs)):]
}

// bracketOf returns the bracket of a trial, which depends on its number alone; it is 0 unless the rule is hyperband. Of
// brackets 0 to B, bracket b gets a share of the trials in proportion to eta^(B-b) / (B-b+1), as sized by Li et al.
// (2018). With r rungs there are r+1 brackets, the last of which compares its trials at no rung.
func bracketOf(p *sweep.Plan, trial int) int {
	stop := p.Spec.Search.Stop
	if stop.Rule != sweep.StopHyperband {
		return 0
	}
	brackets := len(stop.Rungs) + 1
	var edges []float64 // by bracket: the sum of the weights up to it
	total := 0.0
	for b := range brackets {
		left := brackets - 1 - b
		total += math.Pow(float64(stop.Eta), float64(left)) * float64(brackets) / float64(left+1)
		edges = append(edges, total)
	}

	// The fractional parts of multiples of the golden ratio are spread evenly over 0 to 1 (a low-discrepancy sequence).
	// So any successive trials, not only all of them, are divided between the brackets in proportion.
	const golden = 0.6180339887498949
	_, at := math.Modf(float64(float64(trial)*golden) + golden)
	// One is always found: at is below 1, and the last edge is total.
	return slices.IndexFunc(edges, func(edge float64) bool { return at*total < edge })
}

// AtRung decides whether a trial goes on from the rung that it has just reached, or waits there. own is the trial with
// its rung and score, and seen has the other trials' scores, also at other rungs. Resumable decides later about the
// trials that wait. With halving every trial waits, so that the decision does not depend on the order of arrival.
// AtRung is a pure function of its arguments.
func AtRung(p *sweep.Plan, own sweep.Reached, seen []sweep.Reached) RungVerdict {
	if p.Spec.Search.Stop.Rule == sweep.StopHalving {
		return RungVerdict{Wait, fmt.Sprintf("at rung %d every trial waits for all others", own.Step)}
	}
	return AfterPause(p, own, seen, false)
}

// AfterPause decides about a trial that waits at a rung: it goes on, stops or keeps waiting. own is the trial with its
// rung and score, and seen has the other trials' scores, of which those at the same rung and in the same bracket count.
// last says that no other trial will come to the rung, so that the trial is not to wait any more. A step that is no
// rung of the trial lets it go on.
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

// rankedBy returns a score turned so that higher is better. NaN and infinities of either sign become the worst score,
// since they say that the training has diverged.
func rankedBy(p *sweep.Plan, score float64) float64 {
	switch {
	case !sweep.Finite(score):
		return math.Inf(-1)
	case p.Maximize:
		return score
	}
	return -score
}

// judgeRung decides about one trial by successive halving. field has all trials that have come to the rung, best first,
// and rank is the trial's place among them, from 1.
//
// The best 1/eta of them, rounded down, continue, as do trials whose score is equal to that of the last of these. The
// others wait, since worse trials may still come. last says that none will: then the others stop, and at least one
// trial continues, however few there are.
func judgeRung(stop *sweep.Stop, field []entry, rank, rung int, last bool) RungVerdict {
	// At the end the best trial of each rung continues in any case, so that the sweep has a model.
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
	case !(behind > 0): // equally good; also both without a score, where behind is NaN
		return RungVerdict{GoOn, why}
	case last:
		return RungVerdict{Stop, why}
	}
	return RungVerdict{Wait, why}
}

// Ladder is what is known of the trials' rungs when a task asks what becomes of the paused ones. A trial has at most
// one score at a rung.
type Ladder struct {
	Paused  []sweep.Reached // the paused trials without a verdict: their rungs and scores there
	Reached []sweep.Reached // the scores of all trials at rungs
	Coming  map[int]int     // by rung, how many trials may still come to it; for halving only
	Last    bool            // every trial has ended or is paused
}

// Resumption is a verdict on a paused trial.
type Resumption struct {
	sweep.Reached      // the trial, its rung and its score there
	RungVerdict        // what becomes of it
	Last          bool // the verdict was reached on the assumption that no other trial comes to the rung

	rung []sweep.Reached // the scores of all trials at the rung, ascending by trial
}

// Seen returns the other trials' scores at the rung, ascending by trial. From the plan, the trial's own score, Last and
// these, AfterPause comes to the same verdict again: they are what a record of it has to keep.
func (r *Resumption) Seen() []sweep.Reached {
	seen := make([]sweep.Reached, 0, len(r.rung))
	for _, other := range r.rung {
		if other.Trial != r.Trial {
			seen = append(seen, other)
		}
	}
	return seen
}

// Resumable returns verdicts on paused trials, as far as they can be given already. If any trial is to go on, it
// returns all that are to go on. Only if there is none, it returns those that are to stop. The highest rung comes
// first, and at each rung the best trial.
//
// With asha and hyperband a trial goes on as soon as it is among the best 1/eta of those that have come to its rung. It
// stops when l.Last says that nothing is left that could change that. With halving all trials at a rung get their
// verdicts once no other is on its way to it. When no other trial comes to a rung, its best trial goes on in any case,
// so that the sweep has a model.
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

// Behind returns the paused trials that others beat so far, ascending. They would stop if no other trial came to their
// rungs any more.
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

// verdicts decides about every paused trial, as AfterPause would about each by itself. The highest rung comes first,
// and at each rung the best trial. It sorts each rung once, not once for each trial: there may be a thousand trials,
// and every task asks again and again.
func (l *Ladder) verdicts(p *sweep.Plan) []Resumption {
	// Collect the scores at each rung, by trial, and those at each rung of a bracket, best first.
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

	// A trial whose own score is not among those at its rung is compared by AfterPause, which adds it.
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

// expectedEnds estimates, for every trial that was stopped at a rung, the score that it would have ended with, by
// trial. The score at the rung itself cannot be compared with scores of other rungs and of whole trainings: to a method
// that learns, whatever was trained longer would seem to be better. The estimate adds to the score what other trials
// gained from that rung to the next, from there to the one after, and so on to the end: each the median over the trials
// that have both scores, or 0 if none has. Stopped trials without a score are left out.
func expectedEnds(seen []sweep.Seen) map[int]float64 {
	// gains is by rung: the median gain from it to the next rung or, from the last one, to the end of the training.
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

	// Add the gains from each stopped trial's last rung on.
	ends := map[int]float64{}
	for _, s := range seen {
		if s.Status != sweep.StatusStopped || s.Score == nil || len(s.Rungs) == 0 {
			continue
		}
		end := *s.Score // at its last rung, which is among the steps, since those are the rungs of all in seen
		for i := slices.Index(steps, s.Rungs[len(s.Rungs)-1].Step); i < len(steps); i++ {
			end += gains[i]
		}
		ends[s.Trial] = end
	}
	return ends
}

// rungSteps returns all rungs at which any trial has a score, ascending.
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

// scoreAt returns a trial's score at a rung; reached is false if it has none there.
func scoreAt(s sweep.Seen, step int) (score float64, reached bool) {
	i := slices.IndexFunc(s.Rungs, func(r sweep.RungScore) bool { return r.Step == step })
	if i < 0 {
		return 0, false
	}
	return s.Rungs[i].Score, true
}

// scoreAfter returns a trial's score at the first of the steps, which are the rungs after one. If there are none, it is
// the score at the trial's end. reached is false if the trial did not come there.
func scoreAfter(s sweep.Seen, steps []int) (score float64, reached bool) {
	switch {
	case len(steps) > 0:
		return scoreAt(s, steps[0])
	case s.Status == sweep.StatusDone && s.Score != nil:
		return *s.Score, true
	}
	return 0, false
}
