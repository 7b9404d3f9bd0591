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

// Sets returns the sets of feature groups that a sweep compares. listed has those that depend on no result: for each
// set it says by group, in the order of f.Names, whether the set has it. All groups together come first. open is how
// many more configurations a forward selection takes, which are decided from results; it is 0 otherwise.
//
// limit bounds the number of configurations, listed and open; 0 is none. It is an error if the ways to try cannot be
// complete within it. Random subsets fill the limit. They are drawn one after the other, so a higher limit only adds
// sets. Forward selection takes as many whole steps as the limit allows.
func Sets(f *sweep.Features, limit int, seed uint64) (listed [][]bool, open int, err error) {
	groups := len(f.Groups)
	fail := func(format string, args ...any) ([][]bool, int, error) {
		return nil, 0, specErrorf("features", format, args...)
	}

	// f.Rest counts the columns in no group, which all sets have. With such columns the empty set is one, too.
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
	if f.Try == sweep.TrySubsets { // a spec with subsets has trials, so limit is not 0
		return append(listed, subsets(f, limit-1, seed)...), 0, nil
	}

	// The other columns alone are what groups are added to. Dropping starts from all groups, and so does not need them.
	if f.Try != sweep.TryDropOne && f.Rest > 0 {
		listed = append(listed, make([]bool, groups))
	}
	for i := range groups {
		switch one := make([]bool, groups); {
		case f.Try == sweep.TryDropOne:
			one = slices.Clone(all)
			one[i] = false
			listed = append(listed, one)
		case f.Try == sweep.TryAddOne && groups > 1: // of a single group, adding it makes all groups, listed above
			one[i] = true
			listed = append(listed, one)
		}
	}

	// Of a forward selection at least the first step has to fit, which tries every group.
	least := len(listed)
	if f.Try == sweep.TryForward {
		least += groups
		for step := range groups - 1 {
			through := f.StepBegins(step+1) - len(listed) // open configurations up to the end of the step
			if limit == 0 || len(listed)+through <= limit {
				open = through
			}
		}
	}
	if limit > 0 && limit < least {
		return fail("%s with %d groups takes at least %d trials, and trials is %d; raise it, or leave it out", f.Try,
			groups, least, limit)
	}
	return listed, open, nil
}

// subsets draws at most limit different sets of groups, each group with probability one half. The set of all groups is
// left out, and so is the empty set unless there are columns in no group. It returns fewer if maxSubsetMisses draws in
// a row bring no new set, which says that there are hardly any more.
func subsets(f *sweep.Features, limit int, seed uint64) (out [][]bool) {
	groups := len(f.Groups)
	had := map[string]bool{}
	const stream = 0x5e75
	draw := rand.New(rand.NewPCG(seed, stream))

	for misses := 0; len(out) < limit && misses < maxSubsetMisses; misses++ {
		set, kept := make([]bool, groups), 0
		for i := range set {
			set[i] = draw.Uint64()&1 == 1
			if set[i] {
				kept++
			}
		}

		hasColumns := kept+f.Rest > 0
		if key := fmt.Sprint(set); kept < groups && hasColumns && !had[key] {
			had[key] = true
			out, misses = append(out, set), 0
		}
	}
	return out
}

// selected is the state of a forward selection before a step.
type selected struct {
	kept   []bool  // by group: whether the selection has it
	score  float64 // of the kept groups together with the columns in no group
	known  bool    // there is such a score
	reason string  // why the latest group was kept, for people
}

// selectGroups repeats the steps 0 to step-1 of a forward selection, from the scores of their configurations. In each
// step it keeps the group with which the score is best. It is a *SelectedError if that is no better than without the
// group, since the selection has ended then, or if no configuration of a step has a score. score returns a
// configuration's score; false if it has none.
func selectGroups(p *sweep.Plan, step int, score func(configuration int) (float64, bool)) (selected, error) {
	f := p.Spec.Search.Features
	names := f.Names()

	// Configuration 1 has the columns in no group alone, if there are such columns.
	s := selected{kept: make([]bool, len(names)), reason: "the first step of the selection"}
	if f.Rest > 0 {
		s.score, s.known = score(1)
	}

	for k := range step {
		// Find the group whose configuration has the best score, the first one on a tie.
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
		case s.known && (found == s.score || p.Maximize == (found < s.score)): // no better than without the group
			return s, &SelectedError{fmt.Sprintf("the selection ended with %s, %s %.6g: the best of the others, %s, "+
				"made it %.6g", set, p.Spec.Metric, s.score, names[best], found)}
		}
		// The reason is for the trials of the next step, k+1, which people count from 1.
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

// decideForward says which groups a trial of a forward selection has: those that the steps before have selected, and
// one more. It looks only at steps before the trial's own, all of whose trials have ended. So the decision does not
// depend on how many tasks work at the same time. It is a *SelectedError if the selection has ended before.
func decideForward(p *sweep.Plan, trial int, seen []sweep.Seen) (Suggestion, error) {
	f := p.Spec.Search.Features
	step, candidate, ok := f.Step(p.Ordinal(trial))
	if !ok || step >= len(f.Groups)-1 {
		return Suggestion{}, specErrorf("features", "trial %d belongs to no step of a selection among %d groups", trial,
			len(f.Groups))
	}

	// Repeat the steps before from the scores.
	scores := map[int]float64{} // by configuration
	for _, s := range seen {
		if s.Status == sweep.StatusDone && s.Score != nil && !math.IsNaN(*s.Score) {
			scores[p.Ordinal(s.Trial)] = *s.Score
		}
	}
	s, err := selectGroups(p, step, func(configuration int) (float64, bool) {
		v, done := scores[configuration]
		return v, done
	})
	if err != nil {
		return Suggestion{}, err
	}

	// Add this trial's candidate to what was selected.
	i := notKept(s.kept)[candidate]
	reason := fmt.Sprintf("%s; this trial adds %s", s.reason, f.Names()[i])
	s.kept[i] = true
	return Suggestion{Trial: trial, Params: normalizeNumbers(f.Params(s.kept)), Source: sweep.TryForward,
		Reason: reason}, nil
}
