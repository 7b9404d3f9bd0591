package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"coppice/internal/sweep"
)

// maxSubsetMisses is how many draws in a row may repeat a set before no more are drawn.
const maxSubsetMisses = 10_000

// Sets returns the sets of groups that a sweep compares, as far as they depend on no result, and how many more its
// steps take at most. All groups together come first. At most most configurations are wanted, where that is a choice;
// random subsets are drawn one after the other, so that more of them begin with the same ones.
func Sets(f *sweep.Features, most int, seed uint64) (listed [][]bool, open int, err error) {
	groups := len(f.Groups)
	fail := func(format string, args ...any) ([][]bool, int, error) {
		return nil, 0, specErrorf("features", format, args...)
	}
	if groups+min(f.Rest, 1) < 2 {
		return fail("all columns are in one group, and there is nothing to compare it with; name more groups, or " +
			"leave columns out of it")
	}
	if f.Try == sweep.TryForward && groups < 2 {
		return fail("%s of one group has no step; use %s", f.Try, sweep.TryDropOne)
	}

	all := make([]bool, groups)
	for i := range all {
		all[i] = true
	}
	listed = [][]bool{all}
	if f.Try == sweep.TrySubsets {
		return append(listed, subsets(f, most-1, seed)...), 0, nil
	}

	// With one group, all groups are what adding it to none makes.
	if f.Try != sweep.TryDropOne && f.Rest > 0 {
		listed = append(listed, make([]bool, groups))
	}
	for i := range groups {
		switch one := make([]bool, groups); {
		case f.Try == sweep.TryDropOne:
			one = slices.Clone(all)
			one[i] = false
			listed = append(listed, one)
		case f.Try == sweep.TryAddOne && groups > 1:
			one[i] = true
			listed = append(listed, one)
		}
	}

	least := len(listed)
	if f.Try == sweep.TryForward {
		least += groups // the first step
		for step := range groups - 1 {
			if through := f.StepBegins(step+1) - len(listed); most == 0 || len(listed)+through <= most {
				open = through
			}
		}
	}
	if most > 0 && most < least {
		return fail("%s with %d groups takes at least %d trials, and trials is %d; raise it, or leave it out", f.Try,
			groups, least, most)
	}
	return listed, open, nil
}

// subsets draws sets: each group with probability one half, not all of them, none only if other columns remain, and no
// set twice.
func subsets(f *sweep.Features, most int, seed uint64) (out [][]bool) {
	groups := len(f.Groups)
	had := map[string]bool{}
	const stream = 0x5e75
	draw := rand.New(rand.NewPCG(seed, stream))

	for misses := 0; len(out) < most && misses < maxSubsetMisses; misses++ {
		set, kept := make([]bool, groups), 0
		for i := range set {
			if set[i] = draw.Uint64()&1 == 1; set[i] {
				kept++
			}
		}

		if key := fmt.Sprint(set); kept < groups && kept+f.Rest > 0 && !had[key] {
			had[key] = true
			out, misses = append(out, set), 0
		}
	}
	return out
}

// selected is the state of a forward selection before a step.
type selected struct {
	kept   []bool
	score  float64 // of the set, if known
	known  bool
	reason string // for the latest group
}

// selectGroups repeats the steps of a forward selection before a step, from the scores of configurations. After each
// step it keeps the group whose set has the best score, if that is better than without the group. The error is a
// *SelectedError.
func selectGroups(p *sweep.Plan, step int, score func(configuration int) (float64, bool)) (selected, error) {
	f := p.Spec.Search.Features
	names := f.Names()
	s := selected{kept: make([]bool, len(names)), reason: "the first step of the selection"}
	if f.Rest > 0 {
		s.score, s.known = score(1)
	}

	for k := range step {
		best, found := -1, 0.0
		for c, i := range notKept(s.kept) {
			if v, done := score(f.StepBegins(k) + c); done && (best < 0 || v != found && p.Maximize == (v > found)) {
				best, found = i, v
			}
		}
		set := f.Describe(s.kept)
		switch {
		case best < 0:
			return s, &SelectedError{fmt.Sprintf("the selection ended after %s: no trial of step %d has a score", set,
				k+1)}
		case s.known && (found == s.score || p.Maximize == (found < s.score)):
			return s, &SelectedError{fmt.Sprintf("the selection ended with %s, %s %.6g: the best of the others, %s, "+
				"made it %.6g", set, p.Spec.Metric, s.score, names[best], found)}
		}
		s.reason = fmt.Sprintf("step %d: %s was the best of %d groups to add to %s, with %s %.6g", k+2, names[best],
			len(names)-k, set, p.Spec.Metric, found)
		s.kept[best], s.score, s.known = true, found, true
	}
	return s, nil
}

// notKept returns the groups that a set does not have, ascending: the candidates of a step.
func notKept(kept []bool) (out []int) {
	for i, k := range kept {
		if !k {
			out = append(out, i)
		}
	}
	return out
}

// decideForward says which groups a trial of a forward selection has: those of the steps before, and one more. It looks
// at steps before the trial's own only, all of whose trials have ended, so it is the same for any number of tasks.
func decideForward(p *sweep.Plan, trial int, seen []sweep.Seen) (Suggestion, error) {
	f := p.Spec.Search.Features
	step, candidate, ok := f.Step(p.Ordinal(trial))
	if !ok || step >= len(f.Groups)-1 {
		return Suggestion{}, specErrorf("features", "trial %d belongs to no step of a selection among %d groups", trial,
			len(f.Groups))
	}

	of := map[int]float64{}
	for _, s := range seen {
		if s.Status == sweep.StatusDone && s.Score != nil && !math.IsNaN(*s.Score) {
			of[p.Ordinal(s.Trial)] = *s.Score
		}
	}
	s, err := selectGroups(p, step, func(configuration int) (float64, bool) {
		v, done := of[configuration]
		return v, done
	})
	if err != nil {
		return Suggestion{}, err
	}

	i := notKept(s.kept)[candidate]
	reason := fmt.Sprintf("%s; this trial adds %s", s.reason, f.Names()[i])
	s.kept[i] = true
	return Suggestion{Trial: trial, Params: normalizeNumbers(f.Params(s.kept)), Source: sweep.TryForward,
		Reason: reason}, nil
}
