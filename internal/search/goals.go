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

// scalarize replaces the scores of all known trials by one value that stands for several objectives, for the decision
// about one trial (ParEGO: Knowles 2006). The value is the largest of a trial's losses, each on a scale from 0 to 1 and
// times a weight that is drawn for the trial to be decided. Each set of weights aims at another part of the Pareto
// front, so the trials spread along it. Lower values are better, so r.Maximize becomes false. Trials without values for
// all goals lose their scores. It returns the weights as text, for the reason.
func (r *Ask) scalarize(goals []sweep.Goal, trial int) string {
	// Change copies, not the caller's trials. Those of all searches are put on one scale together.
	r.Known, r.Earlier, r.Maximize = slices.Clone(r.Known), slices.Clone(r.Earlier), false
	var all []*sweep.Seen
	add := func(trials []sweep.Seen) {
		for i := range trials {
			trials[i].Score = nil
			if len(trials[i].Values) == len(goals) {
				all = append(all, &trials[i])
			}
		}
	}
	add(r.Known)
	for i := range r.Earlier {
		r.Earlier[i].Trials = slices.Clone(r.Earlier[i].Trials)
		add(r.Earlier[i].Trials)
	}

	// For every trial, the sum of its weighted losses, and the largest of them.
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

// weightsOf draws a weight for each goal, uniformly from all positive weights that add up to 1: exponentially
// distributed numbers, divided by their sum. They depend on the seed and the trial only.
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

// onScale returns the losses of trials in goal number g, mapped to a scale from 0 for the best to 1 for the worst; 0 if
// all are equal. They are warped first, half by value and half by rank. Bytes of models, for instance, differ by orders
// of magnitude, and by values alone all but the largest would look the same.
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
	for i, warped := range out {
		out[i] = 0
		if best > worst {
			out[i] = (best - warped) / (best - worst)
		}
	}
	return out
}

// sortByGoals sorts the trials that may win, of which there is at least one, by the rule in spec.Pick, and returns why
// the first one wins, for people. The trials whose value in the most important goal is close enough to the best come
// first, in the order of the other goals. The others follow, in the order of the most important goal.
func sortByGoals(spec *sweep.Spec, eligible []*sweep.Result) (reason string) {
	goals, values := spec.Goals, make(map[int][]float64, len(eligible)) // by trial, then goal
	for _, e := range eligible {
		values[e.Trial] = spec.Values(e)
	}
	first := slices.IndexFunc(goals, func(g sweep.Goal) bool { return g.Name == spec.Pick.Best })
	loss := func(e *sweep.Result, g int) float64 { return goals[g].Loss(values[e.Trial][g]) }

	// Sort by the most important goal, and find how many are close enough to the best.
	slices.SortStableFunc(eligible, func(a, b *sweep.Result) int { return cmp.Compare(loss(a, first), loss(b, first)) })
	best := eligible[0]
	within, allowed := toleranceOf(spec.Pick, best, values[best.Trial][first])
	near := 0
	for near < len(eligible) && loss(eligible[near], first) <= loss(best, first)+within {
		near++
	}

	// Sort these by the other goals and, if they are equal there, by the most important one.
	slices.SortStableFunc(eligible[:near], func(a, b *sweep.Result) int {
		for g := range goals {
			if c := cmp.Compare(loss(a, g), loss(b, g)); g != first && c != 0 {
				return c
			}
		}
		return cmp.Compare(loss(a, first), loss(b, first))
	})

	// Say why the first one wins. second is the first of the other goals.
	winner := eligible[0]
	value := func(r *sweep.Result, g int) string { return sweep.Score(values[r.Trial][g], 0) }
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

// toleranceOf returns how far from the best value in the most important goal a trial may be, and the same as text for
// people. best is the trial with that value. The tolerance is absolute, a share of the value, or a number of the
// trial's standard errors; without a known standard error it is 0.
func toleranceOf(pick *sweep.Pick, best *sweep.Result, value float64) (within float64, text string) {
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
