package search_test

import (
	"errors"
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

// breeding plans a population of five in four generations.
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

// raised decides and scores the population up to a trial; a score that is not a number is a trial that failed.
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

// TestPopulation: members go on from their own models with the same parameters; the worst of five goes on from the
// best, with others. A decision depends on the generation before only, in any order.
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

func equal(a, b sweep.Params) bool { return sweep.ConfigurationKey(a) == sweep.ConfigurationKey(b) }

// checkChanged fails unless numbers were multiplied by a factor, as far as the space allows.
func checkChanged(t *testing.T, from, to sweep.Params) {
	t.Helper()
	x, y := from["learning_rate"].(float64), to["learning_rate"].(float64)
	inside := func(factor float64) float64 { return min(max(x*factor, 0.01), 0.5) }
	if math.Abs(y/inside(0.8)-1) > 1e-3 && math.Abs(y/inside(1.25)-1) > 1e-3 {
		t.Errorf("the learning rate %v became %v, want it multiplied by 0.8 or 1.25", x, y)
	}
}

// TestPopulationLoses: a member without a model is replaced, and a generation without any ends the population.
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
	// It takes the place of the worst: the fourth of four goes on.
	if s, err := search.Decide(p, 7, seen, nil); err != nil || s.Parent == nil || *s.Parent != 2 {
		t.Errorf("trial 7, number 4 of 4 with a model, is %+v (%v); want it to continue trial 2, its own", s, err)
	}

	// A decision is repeated only with the model that it continued.
	d := &sweep.Decision{Trial: 6, Own: s.Params, Source: s.Source, Reason: s.Reason, Seen: seen,
		From: &sweep.Origin{Trial: *s.Parent}}
	if err := search.Replay(p, d); err != nil {
		t.Errorf("repeated the decision of trial 6: got error %v, want none", err)
	}
	for _, from := range []*sweep.Origin{nil, {Trial: 4}} {
		if d.From = from; search.Replay(p, d) == nil {
			t.Errorf("the decision of trial 6, continuing %+v instead of trial 3, can be repeated", from)
		}
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

// TestPopulationOfFew: where a space has few configurations, members of a generation come to different ones by
// themselves, whichever of them is decided first, and a member for which none is left goes on from its own model.
func TestPopulationOfFew(t *testing.T) {
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
		// Nothing of its own generation has been decided.
		again, err := search.Decide(p, n, seen[:n/10*10], nil)
		if err != nil || !equal(again.Params, s.Params) || again.Reason != s.Reason {
			t.Errorf("trial %d, decided before all others of its generation, is %+v (%v); want %+v", n, again, err, s)
		}
	}

	// The worst of two, in a space with one configuration that the constraint allows.
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

// TestPopulationMovesSmallNumbers: whole and stepped numbers that a factor would leave where they are move by a step.
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
