package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"coppice/internal/sweep"
)

// chebyshev is the weight of the sum of the losses, which is added to the largest loss: of two trials with the same
// largest loss, the one that is better elsewhere wins.
const chebyshev = 0.05

// scalarize makes one objective of several, for the decision about one trial (ParEGO: Knowles 2006): the largest of
// the losses, each on a scale from 0 to 1 and times a weight that is drawn for the trial. Each set of weights aims at
// another part of the front, so the trials spread along it. The weights are returned as text.
func (r *Ask) scalarize(goals []sweep.Goal, trial int) string {
	r.Known, r.Earlier, r.Maximize = slices.Clone(r.Known), slices.Clone(r.Earlier), false
	var all []*sweep.Seen
	add := func(trials []sweep.Seen) {
		for i := range trials {
			if trials[i].Score = nil; len(trials[i].Values) == len(goals) {
				all = append(all, &trials[i])
			}
		}
	}
	add(r.Known)
	for i := range r.Earlier {
		r.Earlier[i].Trials = slices.Clone(r.Earlier[i].Trials)
		add(r.Earlier[i].Trials)
	}

	weights := weightsOf(r.Seed, trial, goals)
	sums, largest := make([]float64, len(all)), make([]float64, len(all))
	for g, goal := range goals {
		for i, loss := range onScale(all, g, goal) {
			weighted := weights[g] * loss
			sums[i] += weighted
			largest[i] = max(largest[i], weighted)
		}
	}
	for i, k := range all {
		score := largest[i] + chebyshev*sums[i]
		k.Score = &score
	}

	var text []string
	for g, goal := range goals {
		text = append(text, fmt.Sprintf("%s %.2f", goal.Name, weights[g]))
	}
	return "weights " + strings.Join(text, ", ")
}

// weightsOf draws weights uniformly from all that add up to 1.
func weightsOf(seed uint64, trial int, goals []sweep.Goal) []float64 {
	weights := make([]float64, len(goals))
	sum := 0.0
	for g := range goals {
		weights[g] = -math.Log1p(-unit(random(seed, uint64(trial), fmt.Sprintf("weight of goal %d", g))))
		sum += weights[g]
	}
	for g := range weights {
		weights[g] /= sum
	}
	return weights
}

// onScale maps the losses of trials in a goal to 0 (the best) to 1: half by position between best and worst, with the
// bad end clipped, half by rank. Bytes of models differ by orders of magnitude, and values alone would make all but the
// largest look the same.
func onScale(all []*sweep.Seen, g int, goal sweep.Goal) []float64 {
	scores := make([]float64, len(all))
	for i, k := range all {
		scores[i] = -goal.Loss(k.Values[g])
	}
	if len(scores) == 0 {
		return nil
	}
	out := warpScores(scores)
	best, worst := slices.Max(out), slices.Min(out)
	for i, w := range out {
		if out[i] = 0; best > worst {
			out[i] = (best - w) / (best - worst)
		}
	}
	return out
}

// byGoals sorts the trials that may win by Spec.Pick, and says why the first is first: those close enough to the best
// in the most important goal come first, by the other goals in their order, then the others by that goal.
func byGoals(spec *sweep.Spec, eligible []*sweep.Result) (reason string) {
	goals, of := spec.Goals, make(map[int][]float64, len(eligible))
	for _, e := range eligible {
		of[e.Trial] = spec.Values(e)
	}
	first := slices.IndexFunc(goals, func(g sweep.Goal) bool { return g.Name == spec.Pick.Best })
	loss := func(e *sweep.Result, g int) float64 { return goals[g].Loss(of[e.Trial][g]) }

	slices.SortStableFunc(eligible, func(a, b *sweep.Result) int { return cmp.Compare(loss(a, first), loss(b, first)) })
	best := eligible[0]
	within, allowed := reachOf(spec.Pick, best, of[best.Trial][first])
	near := 0
	for near < len(eligible) && loss(eligible[near], first) <= loss(best, first)+within {
		near++
	}

	slices.SortStableFunc(eligible[:near], func(a, b *sweep.Result) int {
		for g := range goals {
			if c := cmp.Compare(loss(a, g), loss(b, g)); g != first && c != 0 {
				return c
			}
		}
		return cmp.Compare(loss(a, first), loss(b, first))
	})

	winner := eligible[0]
	value := func(r *sweep.Result, g int) string { return sweep.Score(of[r.Trial][g], 0) }
	if near == 1 {
		return fmt.Sprintf("trial %d has the %s %s, %s, and no other is within %s of it", winner.Trial,
			extreme(goals[first].Maximize), goals[first].Name, value(winner, first), allowed)
	}
	second := 0
	if first == 0 {
		second = 1
	}
	text := fmt.Sprintf("trial %d has the %s %s, %s, of %d trials within %s of the best %s", winner.Trial,
		extreme(goals[second].Maximize), goals[second].Name, value(winner, second), near, allowed, goals[first].Name)
	if winner != best {
		text += fmt.Sprintf(": it has %s, and trial %d, which has %s, has %s %s", value(winner, first), best.Trial,
			value(best, first), goals[second].Name, value(best, second))
	}
	return text
}

// reachOf returns how far from the best value a trial may be.
func reachOf(pick *sweep.Pick, best *sweep.Result, value float64) (within float64, text string) {
	t, err := pick.Tolerance()
	switch {
	case err != nil: // ParseSpec and DecodePlan reject it
		return 0, "0"
	case t.Share > 0:
		return t.Share * math.Abs(value), pick.Within
	case t.Errors > 0 && best.ScoreSE == nil:
		return 0, "0, since its standard error is not known,"
	case t.Errors > 0:
		return t.Errors * *best.ScoreSE, fmt.Sprintf("%s (%s)", sweep.Digits(t.Errors**best.ScoreSE, 2), pick.Within)
	}
	return t.Absolute, pick.Within
}
