package search

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// grouped are so many groups a, b, c ..., each of one column of its name.
func grouped(try string, groups, rest int) *sweep.Features {
	f := &sweep.Features{Try: try, Groups: map[string][]string{}, Rest: rest}
	for i := range groups {
		name := string(rune('a' + i))
		f.Groups[name] = []string{name}
	}
	return f
}

// described are the sets, in words.
func described(f *sweep.Features, sets [][]bool) (out []string) {
	for _, s := range sets {
		out = append(out, f.Describe(s))
	}
	return out
}

func TestSets(t *testing.T) {
	for _, tc := range []struct {
		try          string
		groups, rest int
		most         int
		want         []string
		open         int
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
	few, _, _ := Sets(f, 30, 5)
	many, _, _ := Sets(f, 60, 5)
	other, _, _ := Sets(f, 60, 6)
	if !reflect.DeepEqual(few, many[:30]) || reflect.DeepEqual(many, other) {
		t.Errorf("30 sets are not the first of 60, or another seed draws the same: %v", described(f, few))
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

	// Of three groups there are seven sets with a column, or eight.
	for rest, want := range []int{7, 8} {
		if all, _, _ := Sets(grouped(sweep.TrySubsets, 3, rest), 100, 1); len(all) != want {
			t.Errorf("of three groups and %d other columns come %d sets, want all %d", rest, len(all), want)
		}
	}
}

// TestStep: every configuration of a forward selection belongs to one step and candidate.
func TestStep(t *testing.T) {
	for _, rest := range []int{0, 5} {
		f := grouped(sweep.TryForward, 5, rest)
		n := f.Listed()
		for step := range 4 {
			if got := f.StepBegins(step); got != n {
				t.Errorf("step %d begins at configuration %d, want %d", step, got, n)
			}
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

// forward plans a selection among four groups beside other columns, whose sets have the score that the function gives.
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

// run decides and scores all trials in their order. It returns the scores seen, what each trial had, and the first
// error.
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

// TestForward: c helps most, then a, although alone it helps less than d, which c makes useless; b harms.
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

		// A later trial of the last step does not look at the first, and nothing depends on the order.
		last := len(p.Trials) - 1
		a, errA := Decide(p, last, seen, nil)
		b, errB := Decide(p, last, append(append([]sweep.Seen{}, seen[5:last-1]...), seen[:5]...), nil)
		if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("maximize %t: trial %d is %+v (%v) and, from the steps before it in another order, %+v (%v); "+
				"want the same", maximize, last, a, errA, b, errB)
		}
		if !strings.Contains(a.Reason, "step 3: a was the best of 3 groups to add to only c") {
			t.Errorf("maximize %t: the reason is %q; want that a was the best of step 2", maximize, a.Reason)
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

// scoredSets is the board of a sweep whose sets have these scores in each fold; without folds one score.
func scoredSets(t *testing.T, f *sweep.Features, trials, folds int,
	score func(kept []bool, fold int) float64) (*sweep.Plan, sweep.Board) {
	t.Helper()
	sets, open, err := Sets(f, trials, 3)
	if err != nil || open > 0 {
		t.Fatalf("Sets: %v, %d open", err, open)
	}
	p := &sweep.Plan{Sweep: "s-1", Maximize: true, Spec: sweep.Spec{Metric: "auc", Search: sweep.Search{Features: f}}}
	for n, s := range sets {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Params: f.Params(s)})
	}
	if folds > 1 {
		p.Spec.Validate = &sweep.Validate{KFold: folds}
		var rounds []sweep.Round
		for i := range folds {
			rounds = append(rounds, sweep.Round{Train: sweep.Rows{Split: "train", Folds: make([]uint8, folds-1)},
				Rated: sweep.Rows{Split: "train", Folds: []uint8{uint8(i)}}})
		}
		p.Folds = sweep.NewFolds("kfold", rounds, false)
		p.Trials = p.Folds.Expand(p.Trials)
	}

	var results []sweep.Result
	for _, trial := range p.Trials {
		if trial.Refit {
			continue
		}
		kept, _ := f.Kept(trial.Params)
		results = append(results, sweep.Result{Sweep: p.Sweep, Trial: trial.Number, Configuration: trial.Configuration,
			Fold: trial.Fold, Status: sweep.StatusDone,
			Params: trial.Params, Score: score(kept, trial.Fold), BestIteration: 5, TrainRows: 10})
	}
	return p, sweep.Fold(p, results)
}

// worthOf finds a group's worth.
func worthOf(w *Worths, group string) Worth {
	for _, g := range w.Groups {
		if g.Group == group {
			return g
		}
	}
	return Worth{}
}

// near fails unless a number is there and almost what is wanted.
func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 1e-6 {
		t.Errorf("%s is %v, want %v", what, valueOrNone(got), want)
	}
}

func valueOrNone(x *float64) string {
	if x == nil {
		return "nothing"
	}
	return fmt.Sprint(*x)
}

// TestWorthsInFolds: the differences of a are .02, .03, .05 and .04 in four folds. SciPy: d = [.02, .03, .05, .04];
// se = sqrt(var(d, ddof=1) * (1/4 + 1/3)); t.ppf(.975, 3) * se = 0.0313793.
func TestWorthsInFolds(t *testing.T) {
	gain := []float64{0.02, 0.03, 0.05, 0.04}
	p, b := scoredSets(t, grouped(sweep.TryDropOne, 3, 0), 0, 4, func(k []bool, fold int) float64 {
		return 0.6 + 0.01*float64(fold) + gain[fold-1]*float64(boolean(k[0])) - 0.01*float64(boolean(k[1]))
	})
	w := NewWorths(p, b)
	a := worthOf(w, "a")
	near(t, "the worth of a", a.Worth, 0.035)
	near(t, "the lower end of a", a.Low, 0.035-0.0313793)
	near(t, "the upper end of a", a.High, 0.035+0.0313793)
	near(t, "the worth of b, which harms", worthOf(w, "b").Worth, -0.01)
	near(t, "the score without a", a.Score, 0.615)
	near(t, "the score with all", w.All, 0.65)
	if order := w.Groups[0].Group + w.Groups[1].Group + w.Groups[2].Group; order != "acb" || w.None != nil ||
		w.Missing != 0 || w.Folds != 4 {
		t.Errorf("the groups are in the order %s, with none %v, %d missing, %d folds; want acb, nothing, 0 and 4",
			order, w.None, w.Missing, w.Folds)
	}
}

// TestWorthsAlone: each alone is compared with none, without an interval; where all columns are in groups there is no
// none.
func TestWorthsAlone(t *testing.T) {
	score := func(k []bool, _ int) float64 {
		return 0.5 + 0.1*float64(boolean(k[0])) + 0.02*float64(boolean(k[1]))
	}
	p, b := scoredSets(t, grouped(sweep.TryAddOne, 2, 3), 0, 1, score)
	w := NewWorths(p, b)
	near(t, "the worth of a alone", worthOf(w, "a").Worth, 0.1)
	near(t, "the score of b alone", worthOf(w, "b").Score, 0.52)
	near(t, "the score with none", w.None, 0.5)
	if a := worthOf(w, "a"); a.Low != nil || !strings.Contains(w.How, "no intervals") {
		t.Errorf("one trial on valid has the lower end %v, and %q; want none, and why", valueOrNone(a.Low), w.How)
	}

	p, b = scoredSets(t, grouped(sweep.TryAddOne, 2, 0), 0, 1, score)
	if a := worthOf(NewWorths(p, b), "a"); a.Worth != nil || a.Score == nil {
		t.Errorf("with no set to compare it with, a has the worth %v and the score %v; want none, and one",
			valueOrNone(a.Worth), valueOrNone(a.Score))
	}

	// A lower score is better: what lowers it is worth something.
	p, b = scoredSets(t, grouped(sweep.TryAddOne, 2, 3), 0, 1, func(k []bool, f int) float64 { return -score(k, f) })
	p.Maximize = false
	near(t, "the worth of a in a metric to be minimized", worthOf(NewWorths(p, b), "a").Worth, 0.1)
}

// TestWorthsOfSubsets: from random subsets come the worths that were put in. The interval of a group that is worth
// nothing contains 0 in about 19 of 20 sweeps, and that of one that is worth much does not.
func TestWorthsOfSubsets(t *testing.T) {
	planted := []float64{0.05, 0, -0.02, 0.01, 0}
	covered, of := 0, 0
	for seed := range uint64(40) {
		noise := uint64(0)
		f := grouped(sweep.TrySubsets, 5, 1)
		p, b := scoredSets(t, f, 24, 1, func(k []bool, _ int) float64 {
			s := 0.6
			for i, has := range k {
				s += planted[i] * float64(boolean(has))
			}
			noise++
			return s + 0.004*normalFrom(seed, noise)
		})
		w := NewWorths(p, b)
		for i, name := range f.Names() {
			g := worthOf(w, name)
			if g.Low == nil {
				t.Fatalf("%s has no interval: %s", name, w.How)
			}
			of++
			if *g.Low <= planted[i] && planted[i] <= *g.High {
				covered++
			}
			if i == 0 && *g.Low <= 0 {
				t.Errorf("seed %d: the interval of a group that is worth 0.05, with noise 0.004, begins at %v", seed,
					*g.Low)
			}
		}
	}
	t.Logf("%d of %d intervals contain what was planted", covered, of)
	if share := float64(covered) / float64(of); share < 0.91 || share > 0.985 {
		t.Errorf("intervals of 95 %% contain what was planted in %.3f of %d cases", share, of)
	}

	// Too few sets tell nothing, and say so.
	p, b := scoredSets(t, grouped(sweep.TrySubsets, 5, 1), 4, 1, func([]bool, int) float64 { return 0.5 })
	if w := NewWorths(p, b); w.Groups[0].Worth != nil || !strings.Contains(w.How, "5 groups need at least 6") {
		t.Errorf("four sets of five groups: the first is worth %v, and %q; want nothing, and why",
			valueOrNone(w.Groups[0].Worth), w.How)
	}
}

// normalFrom is a draw from the standard normal distribution: the sum of twelve uniform ones, less 6.
func normalFrom(seed, n uint64) float64 {
	x, sum := seed*0x9e3779b97f4a7c15+n*0xd1342543de82ef95+1, -6.0
	for range 12 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		sum += float64(x>>11) / (1 << 53)
	}
	return sum
}

// TestWorthsOfASelection: groups have the worth of the step that last tried them.
func TestWorthsOfASelection(t *testing.T) {
	p := forward(true)
	var results []sweep.Result
	seen, _, err := runForward(p, func(k []bool) float64 {
		return 0.5 + 0.2*float64(boolean(k[2])) + 0.05*float64(boolean(k[0])) - 0.01*float64(boolean(k[1]))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seen {
		params := p.Trials[s.Trial].Params
		if s.Params != nil {
			params = s.Params
		}
		results = append(results, sweep.Result{Sweep: p.Sweep, Trial: s.Trial, Status: sweep.StatusDone, Params: params,
			Score: *s.Score})
	}
	w := NewWorths(p, sweep.Fold(p, results))
	near(t, "the worth of c", worthOf(w, "c").Worth, 0.2)
	near(t, "the worth of a", worthOf(w, "a").Worth, 0.05)
	near(t, "the worth of b", worthOf(w, "b").Worth, -0.01)
	if w.Missing != 0 {
		t.Errorf("%d sets are missing, want none", w.Missing)
	}
	if !reflect.DeepEqual(w.Selected, []string{"c", "a"}) || worthOf(w, "a").Step != 2 || worthOf(w, "d").Step != 0 {
		t.Errorf("selected %v, a at step %d, d at %d; want c and a, 2 and 0", w.Selected, worthOf(w, "a").Step,
			worthOf(w, "d").Step)
	}
}

// scoredSelection is what a selection has found when its first trials have ended, as many as given.
func scoredSelection(t *testing.T, ended int, score func(kept []bool) float64) *Worths {
	t.Helper()
	p := forward(true)
	var over *SelectedError
	seen, _, err := runForward(p, score)
	if err != nil && !errors.As(err, &over) {
		t.Fatal(err)
	}
	var results []sweep.Result
	for n := range min(ended, len(p.Trials)) {
		r := sweep.Result{Sweep: p.Sweep, Trial: n, Status: sweep.StatusStopped, Reason: "the selection ended"}
		if n < len(seen) {
			r.Status, r.Reason, r.Score, r.Params = sweep.StatusDone, "", *seen[n].Score, p.Trials[n].Params
			if seen[n].Params != nil {
				r.Params = seen[n].Params
			}
		}
		results = append(results, r)
	}
	return NewWorths(p, sweep.Fold(p, results))
}

// TestLastGroup: when every group helps, the last one is selected, too, by the set of all groups.
func TestLastGroup(t *testing.T) {
	w := scoredSelection(t, 99, func(k []bool) float64 {
		return 0.5 + 0.04*float64(boolean(k[0])) + 0.03*float64(boolean(k[1])) + 0.02*float64(boolean(k[2])) +
			0.01*float64(boolean(k[3]))
	})
	near(t, "the worth of d, selected last", worthOf(w, "d").Worth, 0.01)
	near(t, "the score with d", worthOf(w, "d").Score, 0.6)
	if !reflect.DeepEqual(w.Selected, []string{"a", "b", "c", "d"}) || worthOf(w, "d").Step != 4 {
		t.Errorf("selected %v, d at step %d; want all four, d at 4", w.Selected, worthOf(w, "d").Step)
	}
}

// TestWorthsBeforeTheEnd: a step selects nothing before all of its trials have ended, and trials beyond the end of a
// selection are no missing sets.
func TestWorthsBeforeTheEnd(t *testing.T) {
	onlyC := func(k []bool) float64 {
		return 0.5 + 0.2*float64(boolean(k[2])) + 0.1*float64(boolean(k[0] && !k[2]))
	}
	for ended, want := range map[int]struct {
		selected []string
		missing  int
	}{
		4:  {nil, 7}, // a is the best so far, and the trial of c has not ended
		6:  {[]string{"c"}, 5},
		11: {[]string{"c"}, 0},
	} {
		w := scoredSelection(t, ended, onlyC)
		if !reflect.DeepEqual(w.Selected, want.selected) || w.Missing != want.missing {
			t.Errorf("after %d trials %v is selected and %d sets are missing, want %v and %d", ended, w.Selected,
				w.Missing, want.selected, want.missing)
		}
	}
}
