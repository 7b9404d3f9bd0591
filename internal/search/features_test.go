package search

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// grouped returns features with so many groups a, b, c ..., each of one column of its name, beside rest columns that
// are in no group.
func grouped(try string, groups, rest int) *sweep.Features {
	f := &sweep.Features{Try: try, Groups: map[string][]string{}, Rest: rest}
	for i := range groups {
		name := string(rune('a' + i))
		f.Groups[name] = []string{name}
	}
	return f
}

// described returns the sets in words, such as "only a, c".
func described(f *sweep.Features, sets [][]bool) (out []string) {
	for _, s := range sets {
		out = append(out, f.Describe(s))
	}
	return out
}

// TestSets: each way to try features lists its sets of groups, and a forward selection has as many whole steps as fit
// the number of trials. It is an error if the trials are too few, or if there is nothing to compare.
func TestSets(t *testing.T) {
	for _, tc := range []struct {
		try          string
		groups, rest int
		most         int      // trials; 0 is no limit
		want         []string // the sets that are listed
		open         int      // trials whose sets are decided later
	}{
		{sweep.TryDropOne, 3, 0, 0, []string{"all groups", "all but a", "all but b", "all but c"}, 0},
		{sweep.TryDropOne, 1, 4, 0, []string{"all groups", "no group"}, 0},
		{sweep.TryAddOne, 3, 0, 0, []string{"all groups", "only a", "only b", "only c"}, 0},
		{sweep.TryAddOne, 3, 2, 9, []string{"all groups", "no group", "only a", "only b", "only c"}, 0},
		{sweep.TryAddOne, 1, 2, 0, []string{"all groups", "no group"}, 0},
		{sweep.TryForward, 4, 0, 0, []string{"all groups"}, 4 + 3 + 2},
		{sweep.TryForward, 4, 1, 0, []string{"all groups", "no group"}, 4 + 3 + 2},
		{sweep.TryForward, 4, 1, 10, []string{"all groups", "no group"}, 4 + 3}, // whole steps only
		{sweep.TryForward, 4, 1, 6, []string{"all groups", "no group"}, 4},
	} {
		f := grouped(tc.try, tc.groups, tc.rest)
		sets, open, err := Sets(f, tc.most, 1)
		if got := described(f, sets); err != nil || open != tc.open || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s of %d groups, %d columns in none, %d trials: %v and %d open, error %v; want %v and %d", tc.try,
				tc.groups, tc.rest, tc.most, got, open, err, tc.want, tc.open)
		}
	}

	// What is an error, by its text.
	for want, q := range map[string]struct {
		try                string
		groups, rest, most int
	}{
		"all columns are in one group":                                       {sweep.TryDropOne, 1, 0, 0},
		"forward of one group has no step":                                   {sweep.TryForward, 1, 3, 0},
		"drop_one with 5 groups takes at least 6 trials, and trials is 5":    {sweep.TryDropOne, 5, 0, 5},
		"forward with 5 groups takes at least 7 trials, and trials is 6":     {sweep.TryForward, 5, 1, 6},
		"add_one with 5 groups takes at least 7 trials, and trials is 3; ra": {sweep.TryAddOne, 5, 1, 3},
	} {
		_, _, err := Sets(grouped(q.try, q.groups, q.rest), q.most, 1)
		if of := new(SpecError); !errors.As(err, &of) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got error %v, want a *SpecError with %q", q, err, want)
		}
	}
}

// TestSubsets: random subsets are distinct, of about half of the groups, the same for a seed, and more of them begin
// with the same ones.
func TestSubsets(t *testing.T) {
	f := grouped(sweep.TrySubsets, 8, 0)
	// 30 and 60 sets of one seed, and 60 of another.
	few, _, _ := Sets(f, 30, 5)
	many, _, _ := Sets(f, 60, 5)
	other, _, _ := Sets(f, 60, 6)
	if !reflect.DeepEqual(few, many[:30]) || reflect.DeepEqual(many, other) {
		t.Errorf("got %v; want the first 30 of the seed's 60 sets, and other sets from another seed", described(f, few))
	}

	had, kept := map[string]bool{}, 0
	for i, s := range many {
		key := f.Describe(s)
		if had[key] || key == "no group" || (key == "all groups") != (i == 0) {
			t.Errorf("set %d is %s; want all groups first, and no other twice, nor without a column", i, key)
		}
		had[key] = true
		for _, k := range s {
			kept += boolean(k)
		}
	}
	if share := float64(kept) / (60 * 8); share < 0.4 || share > 0.6 {
		t.Errorf("the sets have a share of %.2f of the groups, want about a half", share)
	}

	// Of three groups there are seven sets with a column, or eight if there are other columns beside them.
	for rest, want := range []int{7, 8} {
		if all, _, _ := Sets(grouped(sweep.TrySubsets, 3, rest), 100, 1); len(all) != want {
			t.Errorf("of three groups and %d other columns come %d sets, want all %d", rest, len(all), want)
		}
	}
}

// TestStep: every configuration of a forward selection is one candidate of one step. Step s of five groups has 5-s
// candidates, after the listed configurations and the steps before.
func TestStep(t *testing.T) {
	for _, rest := range []int{0, 5} {
		f := grouped(sweep.TryForward, 5, rest)
		n := f.Listed()
		for step := range 4 {
			must.Equal(t, f.StepBegins(step), n, "step %d begins at configuration", step)
			for c := range 5 - step {
				if s, candidate, ok := f.Step(n); !ok || s != step || candidate != c {
					t.Errorf("configuration %d is candidate %d of step %d (%t), want %d of %d", n, candidate, s, ok, c,
						step)
				}
				n++
			}
		}
		if _, _, ok := f.Step(f.Listed() - 1); ok {
			t.Errorf("configuration %d belongs to a step; want it listed before the first", f.Listed()-1)
		}
	}
}

// forward returns the plan of a forward selection by auc among four groups, beside two columns that are in no group.
func forward(maximize bool) *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: "s-1", Maximize: maximize,
		Base: sweep.Params{sweep.IgnoreColumn: ""}}
	p.Spec.Metric = "auc"
	p.Spec.Search.Features = grouped(sweep.TryForward, 4, 2)
	sets, open, err := Sets(p.Spec.Search.Features, 0, 1)
	if err != nil {
		panic(err)
	}
	for _, s := range sets {
		p.Trials = append(p.Trials, sweep.Trial{Number: len(p.Trials), Params: p.Spec.Search.Features.Params(s)})
	}
	for range open {
		p.Trials = append(p.Trials, sweep.Trial{Number: len(p.Trials), Open: true})
	}
	return p
}

// runForward decides all open trials of a plan in their order and gives each trial the score of the groups it has; NaN
// is a trial that failed. It returns what is known of the trials, the groups of each in words, and the first error.
func runForward(p *sweep.Plan, score func(kept []bool) float64) (seen []sweep.Seen, had []string, err error) {
	f := p.Spec.Search.Features
	for n, t := range p.Trials {
		params := t.Params
		if t.Open {
			s, err := Decide(p, n, seen, nil)
			if err != nil {
				return seen, had, err
			}
			params = s.Params
		}
		kept, _ := f.Kept(params)
		had = append(had, f.Describe(kept))
		v := score(kept)
		s := sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &v}
		if t.Open {
			s.Params = params
		}
		if math.IsNaN(v) {
			s.Status, s.Score = sweep.StatusFailed, nil
		}
		seen = append(seen, s)
	}
	return seen, had, nil
}

// TestForward: a forward selection adds the group that helps most together with those it has, and ends when none helps.
// Of the groups c helps most. Then a does, although alone d helps more, since d is useless beside c. b harms.
func TestForward(t *testing.T) {
	gain := func(k []bool) float64 {
		g := 0.5 + 0.2*float64(boolean(k[2])) + 0.05*float64(boolean(k[0])) - 0.01*float64(boolean(k[1]))
		if k[3] && !k[2] {
			g += 0.1
		}
		return g
	}
	for _, maximize := range []bool{true, false} {
		p := forward(maximize)
		score := gain
		if !maximize {
			score = func(k []bool) float64 { return 1 - gain(k) }
		}
		seen, had, err := runForward(p, score)
		want := []string{"all groups", "no group", "only a", "only b", "only c", "only d", "only a, c", "only b, c",
			"only c, d", "all but d", "all but b"}
		var over *SelectedError
		if err != nil || !reflect.DeepEqual(had, want) {
			t.Fatalf("maximize %t: the trials had %q, error %v; want %q", maximize, had, err, want)
		}

		// The last trial is decided the same without the trial before it, which is of the same step, and with the
		// others in another order.
		last := len(p.Trials) - 1
		a, errA := Decide(p, last, seen, nil)
		b, errB := Decide(p, last, append(append([]sweep.Seen{}, seen[5:last-1]...), seen[:5]...), nil)
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("maximize %t: trial %d is %+v (%v) and, from the steps before it in another order, %+v (%v); "+
				"want the same", maximize, last, a, errA, b, errB)
		}
		if !strings.Contains(a.Reason, "step 3: a was the best of 3 groups to add to only c") {
			t.Errorf("maximize %t: the reason is %q; want that a was the best to add, for step 3", maximize, a.Reason)
		}

		// Nothing but c helps: the selection is over after the second step.
		alone := func(k []bool) float64 { return score([]bool{false, k[1], k[2], k[3]}) }
		seen, had, err = runForward(p, alone)
		if !errors.As(err, &over) || len(seen) != 9 ||
			!strings.Contains(over.Reason, "the selection ended with only c, auc") {
			t.Errorf("maximize %t: with one group that helps the trials had %q, error %v; want the selection ended "+
				"with c, after 9 trials", maximize, had, err)
		}
	}
}

// TestForwardWithoutScores: a failed trial is no candidate, and a step without a score ends the selection.
func TestForwardWithoutScores(t *testing.T) {
	// c would be best alone, but fails there. So d is selected, which is better than a and b.
	p := forward(true)
	_, had, err := runForward(p, func(k []bool) float64 {
		if k[2] && !k[3] {
			return math.NaN()
		}
		return 0.5 + 0.1*float64(boolean(k[2])) + 0.01*float64(boolean(k[3]))
	})
	if err != nil || had[6] != "only a, d" {
		t.Errorf("c failed alone, and after %q, error %v, the second step begins with %s; want d selected", had, err,
			had[min(6, len(had)-1)])
	}
	_, had, err = runForward(p, func([]bool) float64 { return math.NaN() })
	var over *SelectedError
	if !errors.As(err, &over) || len(had) != 6 || !strings.Contains(over.Reason, "no trial of step 1 has a score") {
		t.Errorf("all trials failed: after %q error %v; want the end of the selection for want of scores", had, err)
	}
}

// boolean returns 1 for true and 0 for false.
func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
