package search_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// breeding returns the plan of a population of five in four generations, trials 0 to 19, with a constraint that half of
// the range of num_leaves breaks.
func breeding(maximize bool) *sweep.Plan {
	p := &sweep.Plan{Format: 1, Maximize: maximize, Base: sweep.Params{"learning_rate": 0.1,
		"num_leaves": 31.0, "bagging_freq": 0.0, "bagging_fraction": 1.0}}
	p.Spec.Metric, p.Spec.Seed = "auc", 3
	p.Spec.Search = sweep.Search{Method: sweep.MethodPBT, Population: 5, Constraints: []string{"num_leaves <= 100"},
		Random: map[string]sweep.Distribution{
			"learning_rate": {LogUniform: []float64{0.01, 0.5}}, "num_leaves": {LogInt: []int64{4, 200}},
			"bagging_freq":     {Choice: []any{0.0, 1.0}},
			"bagging_fraction": {Uniform: []float64{0.3, 1}}}}
	for n := range 20 {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: sweep.MethodPBT, Open: true})
	}
	return p
}

// raised decides the first trials of a population one after the other and gives each its score; NaN is a trial that
// failed. It returns what is known of them, and the decisions.
func raised(t *testing.T, p *sweep.Plan, trials int, score func(n int, params sweep.Params) float64) (seen []sweep.Seen,
	all []search.Suggestion) {
	t.Helper()
	for n := range trials {
		s, err := search.Decide(p, n, seen, nil)
		if err != nil {
			t.Fatalf("trial %d: %v", n, err)
		}
		v := score(n, s.Params)
		one := sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &v, Params: s.Params}
		if math.IsNaN(v) {
			one.Status, one.Score = sweep.StatusFailed, nil
		}
		seen, all = append(seen, one), append(all, s)
	}
	return seen, all
}

// TestPopulation: members continue their own models with the same parameters, and the worst of five continues the best
// one's model with changed parameters: a fifth of five is one. A decision depends on the generation before only, in any
// order.
func TestPopulation(t *testing.T) {
	for _, maximize := range []bool{true, false} {
		p := breeding(maximize)
		seen, all := raised(t, p, 20, func(n int, _ sweep.Params) float64 {
			v := []float64{0.5, 0.9, 0.3, 0.7, 0.6}[n%5] // member 2 is always the worst, and 1 the best
			if !maximize {
				v = -v
			}
			return v
		})
		for n, s := range all {
			switch {
			case n < 5:
				if s.Parent != nil {
					t.Errorf("maximize %t: trial %d of the first generation continues trial %d", maximize, n, *s.Parent)
				}
			case n%5 == 2:
				if s.Parent == nil || *s.Parent != n-5-1 || !strings.Contains(s.Reason, "number 5 of 5") {
					t.Errorf("maximize %t: trial %d, whose member was the worst, is %+v; want it to continue trial "+
						"%d, the best", maximize, n, s, n-6)
				} else {
					checkChanged(t, all[*s.Parent].Params, s.Params)
				}
			default:
				if s.Parent == nil || *s.Parent != n-5 || !equal(s.Params, all[n-5].Params) {
					t.Errorf("maximize %t: trial %d is %+v; want it to continue trial %d with the same parameters",
						maximize, n, s, n-5)
				}
			}
			if leaves := s.Params["num_leaves"].(float64); leaves > 100 {
				t.Errorf("maximize %t: trial %d has %v leaves, which a constraint forbids", maximize, n, leaves)
			}

			// The same from the generation before alone, in another order, and with results of its own generation.
			other := slices.Clone(seen[max(0, n/5*5-5):])
			other = slices.DeleteFunc(other, func(o sweep.Seen) bool { return o.Trial == n })
			slices.Reverse(other)
			again, err := search.Decide(p, n, other, nil)
			if err != nil || !equal(again.Params, s.Params) || again.Reason != s.Reason {
				t.Errorf("maximize %t: trial %d, decided again from the generation before, is %+v (%v); want %+v",
					maximize, n, again, err, s)
			}
		}
	}
}

// equal reports whether two configurations are the same.
func equal(a, b sweep.Params) bool { return sweep.ConfigurationKey(a) == sweep.ConfigurationKey(b) }

// checkChanged fails the test unless the learning rate of to is that of from, multiplied by one of the factors of
// population-based training and moved into the bounds. The tolerance is for the rounding of drawn numbers.
func checkChanged(t *testing.T, from, to sweep.Params) {
	t.Helper()
	x, y := from["learning_rate"].(float64), to["learning_rate"].(float64)
	inside := func(factor float64) float64 { return min(max(x*factor, 0.01), 0.5) }
	if math.Abs(y/inside(0.8)-1) > 1e-3 && math.Abs(y/inside(1.25)-1) > 1e-3 {
		t.Errorf("the learning rate %v became %v, want it multiplied by 0.8 or 1.25", x, y)
	}
}

// TestPopulationLoses: a member without a model is replaced by the best, and a generation without any model ends the
// population. In the first generation member 1 has failed; the others rank 3, 4, 0, 2.
func TestPopulationLoses(t *testing.T) {
	p := breeding(true)
	seen, _ := raised(t, p, 5, func(n int, _ sweep.Params) float64 {
		return []float64{0.5, math.NaN(), 0.3, 0.7, 0.6}[n]
	})
	s, err := search.Decide(p, 6, seen, nil)
	if err != nil || s.Parent == nil || *s.Parent != 3 ||
		!strings.Contains(s.Reason, "trial 1 has no model; continues trial 3") {
		t.Errorf("trial 6, whose member failed, is %+v (%v); want it to continue trial 3, the best", s, err)
	}
	// The one that failed counts as the worst, so that the last of the four others continues its own model.
	if s, err := search.Decide(p, 7, seen, nil); err != nil || s.Parent == nil || *s.Parent != 2 {
		t.Errorf("trial 7, number 4 of 4 with a model, is %+v (%v); want it to continue trial 2, its own", s, err)
	}

	// A proposal that was refused is not repeated.
	first := must.Get(search.Decide(p, 6, seen, nil))(t)
	if again, err := search.Decide(p, 6, seen, []sweep.Params{first.Params}); err != nil ||
		equal(again.Params, first.Params) {
		t.Errorf("after %v was refused, trial 6 is %v (%v); want other parameters", first.Params, again.Params, err)
	}

	seen, _ = raised(t, p, 5, func(int, sweep.Params) float64 { return math.NaN() })
	var over *search.SelectedError
	if _, err := search.Decide(p, 5, seen, nil); !errors.As(err, &over) || !strings.Contains(over.Reason, "died out") {
		t.Errorf("no trial of the first generation has a model: got error %v, want that the population has died out",
			err)
	}
}

// TestPopulationOfFew: in a space of few configurations, no two members of a generation train the same model, whichever
// of them is decided first. A member for which no other configuration is left continues its own model.
func TestPopulationOfFew(t *testing.T) {
	// Ten members share ten configurations, in six generations.
	p := breeding(true)
	p.Spec.Search.Population = 10
	for n := 20; n < 60; n++ {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: sweep.MethodPBT, Open: true})
	}
	p.Spec.Search.Constraints = nil
	p.Spec.Search.Random = map[string]sweep.Distribution{"num_leaves": {Int: []int64{1, 10}}}
	seen, all := raised(t, p, 60, func(n int, _ sweep.Params) float64 { return float64(n*7%10) + 0.5 })
	models := map[string]int{}
	for n, s := range all {
		key := sweep.ConfigurationKey(sweep.Params{"generation": n / 10, "params": s.Params, "from": s.Parent})
		if other, has := models[key]; has {
			t.Errorf("trials %d and %d are both %v of trial %v; want each model trained once", other, n, s.Params,
				s.Parent)
		}
		models[key] = n

		// The same comes out if nothing else of its own generation has been decided.
		again, err := search.Decide(p, n, seen[:n/10*10], nil)
		if err != nil || !equal(again.Params, s.Params) || again.Reason != s.Reason {
			t.Errorf("trial %d, decided before all others of its generation, is %+v (%v); want %+v", n, again, err, s)
		}
	}

	// The worst of two, trial 2's member, in a space with one configuration that the constraint allows.
	p = breeding(true)
	p.Spec.Search.Population, p.Spec.Search.Constraints = 2, []string{"bagging_freq <= 0"}
	p.Spec.Search.Random = map[string]sweep.Distribution{"bagging_freq": {Choice: []any{0.0, 1.0}}}
	only := sweep.Params{"bagging_freq": 0.0}
	seen = nil
	for n := range 2 {
		score := float64(n)
		seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &score, Params: only})
	}
	s, err := search.Decide(p, 2, seen, nil)
	if err != nil || s.Parent == nil || *s.Parent != 0 || !equal(s.Params, only) ||
		!strings.Contains(s.Reason, "no untried parameters left") {
		t.Errorf("trial 2, for which no other parameters are left, is %+v (%v); want it to go on from its own "+
			"model, of trial 0", s, err)
	}
	if s, err = search.Decide(p, 2, seen, []sweep.Params{only}); !problem.Is(err, problem.Input) {
		t.Errorf("trial 2, whose own parameters have been refused too, is %+v (%v); want an error of kind input", s,
			err)
	}
}

// TestPopulationMovesSmallNumbers: whole and stepped numbers that a factor of 0.8 or 1.25 would leave where they are
// move by one step, as far as the bounds allow. want has all values that come out over 40 seeds. The trial that is
// decided is 6, of the second generation of five: trial 1 before it has no model, so that it continues trial 0, the
// only one with a model.
func TestPopulationMovesSmallNumbers(t *testing.T) {
	for name, tc := range map[string]struct {
		d    sweep.Distribution
		from float64
		want []float64
	}{
		"whole":     {sweep.Distribution{Int: []int64{0, 9}}, 1, []float64{0, 2}},
		"zero":      {sweep.Distribution{Int: []int64{-3, 3}}, 0, []float64{-1, 1}},
		"negative":  {sweep.Distribution{Int: []int64{-5, 5}}, -1, []float64{-2, 0}},
		"end":       {sweep.Distribution{Int: []int64{1, 3}}, 1, []float64{2}},
		"logarithm": {sweep.Distribution{LogInt: []int64{1, 50}}, 1, []float64{2}},
		"stepped":   {sweep.Distribution{Step: []float64{0, 2, 0.5}}, 1, []float64{0.5, 1.5}},
	} {
		came := map[float64]bool{}
		for seed := range uint64(40) {
			p := breeding(true)
			p.Spec.Seed, p.Spec.Search.Constraints = seed, nil
			p.Spec.Search.Random = map[string]sweep.Distribution{"max_depth": tc.d}
			p.Base["max_depth"] = 1.0
			one := 0.5
			seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &one,
				Params: sweep.Params{"max_depth": tc.from}}}
			s, err := search.Decide(p, 6, seen, nil)
			if err != nil {
				t.Fatalf("%s: decided trial 6, whose member has no model: got error %v, want none", name, err)
			}
			came[s.Params["max_depth"].(float64)] = true
		}
		got := slices.Sorted(maps.Keys(came))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v of %+v became %v in 40 seeds; want %v", name, tc.from, tc.d, got, tc.want)
		}
	}
}

// learning returns a plan with one listed trial, number 0, and open ones over three parameters. Its constraint refers
// to max_depth, which all trials have as 5, so num_leaves is at most 32.
func learning(method string, trials int) *sweep.Plan {
	p := &sweep.Plan{Format: 1, Maximize: true, Base: sweep.Params{"max_depth": 5.0, "seed": 1.0},
		Trials: []sweep.Trial{{Number: 0, Params: sweep.Params{"learning_rate": 0.1, "num_leaves": 20.0,
			"min_data_in_leaf": 20.0, "max_depth": 5.0, "seed": 1.0}}}}
	p.Spec.Seed = 3
	p.Spec.Search = sweep.Search{Method: method, Constraints: []string{"num_leaves <= 2 ^ max_depth"},
		Random: map[string]sweep.Distribution{
			"learning_rate": {LogUniform: []float64{0.01, 0.5}}, "num_leaves": {LogInt: []int64{4, 255}},
			"min_data_in_leaf": {LogInt: []int64{5, 500}}}}
	for n := 1; n < trials; n++ {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Source: method, Open: true})
	}
	return p
}

// scoredBy decides the first trials of a plan, one after the other, and returns them with their scores. The score is
// highest, 0, at a learning rate of 0.07 with 25 leaves.
func scoredBy(t testing.TB, p *sweep.Plan, trials int) []sweep.Seen {
	t.Helper()
	score := func(own sweep.Params) *float64 {
		rate, leaves := own["learning_rate"].(float64), own["num_leaves"].(float64)
		v := -math.Pow(math.Log(rate/0.07), 2) - math.Pow(math.Log(leaves/25), 2)
		return &v
	}
	seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: score(p.Trials[0].Params)}}
	for n := 1; n < trials; n++ {
		s := must.Get(search.Decide(p, n, seen, nil))(t)
		seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: score(s.Params), Params: s.Params})
	}
	return seen
}

// TestDecide: a constraint may refer to a parameter that is not searched, no configuration comes twice, refused ones do
// not come at all, and a method that learns beats one that does not.
func TestDecide(t *testing.T) {
	// auto learns, halton does not.
	best := map[string]float64{}
	for _, method := range []string{sweep.MethodAuto, sweep.MethodHalton} {
		p := learning(method, 31)
		keys := map[string]bool{}
		best[method] = math.Inf(-1)
		for _, s := range scoredBy(t, p, 30) {
			if s.Params != nil && s.Params["num_leaves"].(float64) > 32 {
				t.Errorf("%s: trial %d has %v leaves, of which a depth of 5 has 32 at most", method, s.Trial,
					s.Params["num_leaves"])
			}
			if key := fmt.Sprint(s.Params); keys[key] {
				t.Errorf("%s: trial %d repeats %s", method, s.Trial, key)
			} else {
				keys[key] = true
			}
			best[method] = max(best[method], *s.Score)
		}
	}
	if !(best["auto"] > best["halton"]) {
		t.Errorf("after 30 trials auto has found %v and halton %v; want auto to be better", best["auto"],
			best["halton"])
	}

	// Trial 20 is decided from 12 results, and again after its first proposal was refused.
	p := learning(sweep.MethodAuto, 31)
	seen := scoredBy(t, p, 12)
	first := must.Get(search.Decide(p, 20, seen, nil))(t)
	second, err := search.Decide(p, 20, seen, []sweep.Params{first.Params})
	if err != nil || fmt.Sprint(second.Params) == fmt.Sprint(first.Params) {
		t.Errorf("%v was refused, and %v is proposed, error %v; want another", first.Params, second.Params, err)
	}
}

// TestAGridOverOtherParametersTakesNothing: trials of a grid over max_bin do not count as trials of the searched space,
// although they have one of its values, 31 leaves. So both values of the space are proposed, and then none is left.
func TestAGridOverOtherParametersTakesNothing(t *testing.T) {
	for _, method := range []string{sweep.MethodGP, sweep.MethodHalton} {
		p := &sweep.Plan{Format: 1, Base: sweep.Params{"num_leaves": 31.0, "max_bin": 255.0}}
		p.Spec.Search = sweep.Search{Method: method, Grid: map[string][]any{"max_bin": {63.0, 127.0}},
			Random: map[string]sweep.Distribution{"num_leaves": {Choice: []any{15.0, 31.0}}}}
		for i, bins := range []float64{63, 127} {
			p.Trials = append(p.Trials,
				sweep.Trial{Number: i, Source: "grid", Params: sweep.Params{"num_leaves": 31.0, "max_bin": bins}})
		}
		p.Trials = append(p.Trials, sweep.Trial{Number: 2, Open: true}, sweep.Trial{Number: 3, Open: true},
			sweep.Trial{Number: 4, Open: true})

		score := 0.5
		seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score},
			{Trial: 1, Status: sweep.StatusDone, Score: &score}}
		found := map[any]bool{}
		for n := 2; n < 4; n++ {
			s, err := search.Decide(p, n, seen, nil)
			if err != nil {
				t.Fatalf("%s, trial %d after a grid of two over max_bin: %v; expected 15 and 31 leaves with max_bin "+
					"255, which nothing has tried", method, n, err)
			}
			found[s.Params["num_leaves"]] = true
			seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &score, Params: s.Params})
		}
		if !found[15.0] || !found[31.0] {
			t.Errorf("%s: %v leaves were proposed, want 15 and 31", method, found)
		}
		if s, err := search.Decide(p, 4, seen, nil); !problem.Is(err, problem.Input) {
			t.Errorf("%s: after both of two configurations: %+v, error %v; want one of kind input", method, s, err)
		}
	}
}
