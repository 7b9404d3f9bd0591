package search_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// dart is a space in which one parameter exists under a condition on another, and a third under a condition on that.
func dart() sweep.Search {
	return sweep.Search{Random: map[string]sweep.Distribution{
		"boosting":         {Choice: []any{"gbdt", "dart"}},
		"lambda_l2":        {Choice: []any{1.0, 2.0, 3.0}, When: `boosting == "dart"`},
		"min_data_in_leaf": {Int: []int64{30, 31}, When: map[string]any{"lambda_l2": []any{2, 3.0}}},
	}}
}

// exists returns the parameters that a configuration of dart has.
func exists(params sweep.Params) (lambda, leaf bool) {
	lambda = params["boosting"] == "dart"
	return lambda, lambda && params["lambda_l2"].(float64) > 1
}

// TestProposeUnderConditions: a configuration that lacks a parameter trains with the base's value or the default and
// lists it as absent, and two that differ only in such a parameter are the same.
func TestProposeUnderConditions(t *testing.T) {
	r := request(12, dart())
	r.Base["lambda_l2"] = 0.5
	p := propose(t, r)

	for _, trial := range p.Trials {
		lambda, leaf := exists(trial.Params)
		var want []string
		if !lambda {
			want = append(want, "lambda_l2")
		}
		if !leaf {
			want = append(want, "min_data_in_leaf")
		}
		if !slices.Equal(trial.Absent, want) || !lambda && trial.Params["lambda_l2"] != 0.5 || !leaf &&
			trial.Params["min_data_in_leaf"] != 20.0 {
			t.Errorf("trial %d trains %v without %v, expected without %v, which have 0.5 and 20 then", trial.Number,
				trial.Params, trial.Absent, want)
		}
	}
	// gbdt; dart with 1; with 2 and 3 two of each.
	if len(p.Trials) != 6 || len(p.Notes) != 1 {
		t.Errorf("%d configurations with notes %q, expected the six that there are, and a note", len(p.Trials), p.Notes)
	}
}

// TestGridUnderConditions: values of a grid for an absent parameter do not count, nor do constraints on it.
func TestGridUnderConditions(t *testing.T) {
	s := dart()
	s.Grid = map[string][]any{"boosting": {"gbdt", "dart"}, "lambda_l2": {1.0, 2.0, 3.0}}
	s.Constraints = []string{"lambda_l2 >= 1"}
	p := propose(t, request(4, sweep.Search{Random: s.Random, Grid: s.Grid}))
	if p.Grid != 4 || p.Duplicates != 2 {
		t.Errorf("of 2 x 3 configurations %d are trials and %d repeat another, expected 4 and 2: gbdt is one", p.Grid,
			p.Duplicates)
	}

	r := request(6, s)
	found, err := search.Propose(r)
	if err != nil || !slices.ContainsFunc(found.Trials, func(t sweep.Trial) bool { return t.Params["boosting"] == "gbdt" }) {
		t.Errorf("%+v, error %v; expected gbdt among them: lambda_l2 is 0 there, and the constraint on it is not asked",
			found.Trials, err)
	}
}

// TestDecideUnderConditions: in a sweep whose trials are decided one after the other, every method proposes only
// parameters that exist, repeats nothing and can be replayed.
func TestDecideUnderConditions(t *testing.T) {
	for _, method := range []string{sweep.MethodAuto, sweep.MethodGP, sweep.MethodTPE, sweep.MethodHalton} {
		p := &sweep.Plan{Format: 1, Base: sweep.Params{"boosting": "gbdt", "lambda_l2": 0.5,
			"min_data_in_leaf": 20.0, "learning_rate": 0.1}}
		p.Spec.Search = dart()
		p.Spec.Search.Method = method
		p.Spec.Search.Random["learning_rate"] = sweep.Distribution{LogUniform: []float64{0.01, 0.5},
			When: "lambda_l2 == 1"}
		for n := range 30 {
			p.Trials = append(p.Trials, sweep.Trial{Number: n, Open: true})
		}
		p.Trials[0] = sweep.Trial{Params: sweep.Params{"boosting": "gbdt", "lambda_l2": 0.5, "min_data_in_leaf": 20.0,
			"learning_rate": 0.1}, Absent: []string{"lambda_l2", "learning_rate", "min_data_in_leaf"}}

		score := 0.5
		seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score}}
		keys := map[string]bool{"map[boosting:gbdt]": true}
		for n := 1; n < 20; n++ {
			s, err := search.Decide(p, n, seen, nil)
			if err != nil {
				t.Fatalf("%s, trial %d: %v", method, n, err)
			}
			lambda, leaf := exists(s.Params)
			_, hasLambda := s.Params["lambda_l2"]
			_, hasLeaf := s.Params["min_data_in_leaf"]
			_, hasRate := s.Params["learning_rate"]
			if hasLambda != lambda || hasLeaf != leaf || hasRate != (lambda && !leaf) {
				t.Errorf("%s, trial %d: proposed %v, of which something should not be there, or something is missing",
					method, n, s.Params)
			}
			if key := fmt.Sprint(s.Params); keys[key] {
				t.Errorf("%s, trial %d: %s was tried before", method, n, key)
			} else {
				keys[key] = true
			}
			if err := search.Replay(p, &sweep.Decision{Trial: n, Own: s.Params, Source: s.Source, Reason: s.Reason,
				Seen: seen}); err != nil {
				t.Errorf("%s, trial %d: decided again: %v", method, n, err)
			}
			value := math.Abs(float64(n) - 7)
			seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &value, Params: s.Params})
		}
	}
}

// TestEarlierResultsFitConditions: a result of an earlier sweep becomes a configuration of this space, without the
// parameters that do not exist in it.
func TestEarlierResultsFitConditions(t *testing.T) {
	p := &sweep.Plan{Base: sweep.Params{"boosting": "gbdt", "lambda_l2": 0.5, "min_data_in_leaf": 20.0}}
	p.Spec.Search = dart()
	found, err := search.Fitting(p, []sweep.Result{
		{Trial: 0, Status: sweep.StatusDone, Score: 3, Params: sweep.Params{"boosting": "gbdt", "lambda_l2": 9.0,
			"min_data_in_leaf": 7.0}},
		{Trial: 1, Status: sweep.StatusDone, Score: 2, Params: sweep.Params{"boosting": "dart", "lambda_l2": 9.0,
			"min_data_in_leaf": 30.0}},
		{Trial: 2, Status: sweep.StatusDone, Score: 1, Params: sweep.Params{"boosting": "dart", "lambda_l2": 2.0,
			"min_data_in_leaf": 31.0}},
	}, 5)
	want := []sweep.Seen{scored(2, sweep.Params{"boosting": "dart", "lambda_l2": 2.0, "min_data_in_leaf": 31.0}, 1),
		scored(0, sweep.Params{"boosting": "gbdt"}, 3)}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("fitting are %+v, error %v; expected %+v", found, err, want)
	}
}

// TestConditionsThatCannotBe: each is rejected with the part that it is about.
func TestConditionsThatCannotBe(t *testing.T) {
	whole := func(low, high int64, when any) sweep.Distribution {
		return sweep.Distribution{Int: []int64{low, high}, When: when}
	}
	base := sweep.Params{"boosting": "gbdt", "max_depth": -1.0, "bagging_freq": 0.0}
	for want, s := range map[string]sweep.Search{
		"search.random.a.when: the condition b == 9 never holds, whatever value b has under search.random; no trial " +
			"would have a": {
			Random: map[string]sweep.Distribution{"a": whole(1, 2, "b == 9"), "b": whole(1, 3, nil)}},
		"search.random.a.when: the condition bagging_freq > 0 never holds: bagging_freq is 0 in every trial that is " +
			"drawn": {
			Random: map[string]sweep.Distribution{"a": whole(1, 2, "bagging_freq > 0")}},
		"search.random.c.when: the condition b == 1 && a == 1 never holds, whatever value a, b has": {
			Random: map[string]sweep.Distribution{"a": whole(1, 2, nil), "b": whole(1, 2, "a == 2"),
				"c": whole(1, 2, "b == 1 && a == 1")}},
		"search.random.a.when: the condition u > 2 never holds: in none of 20000 draws of u": {
			Random: map[string]sweep.Distribution{"a": whole(1, 2, "u > 2"), "u": {Uniform: []float64{0, 1}}}},
		"search.random.a.when: the condition a == 1 depends on the parameter itself": {Random: map[string]sweep.Distribution{"a": whole(1, 2, "a == 1")}},
		`search.random.a.when: "c > 1": column 1: unknown name "c"`:                  {Random: map[string]sweep.Distribution{"a": whole(1, 2, "c > 1")}},
		"search.fixed[1]: it gives a=2, which exists only when b == 3; take it out, or make the condition hold": {
			Random: map[string]sweep.Distribution{"a": whole(1, 2, "b == 3"), "b": whole(1, 3, nil)},
			Fixed:  []sweep.Params{{"b": 3, "a": 1}, {"b": 2, "a": 2}}},
	} {
		err := search.CheckConditions(s, base)
		part, is := err.(interface{ Path() string })
		if !is {
			t.Errorf("%s: got %v", want, err)
			continue
		}
		if got := part.Path() + ": " + err.(interface{ Unwrap() error }).Unwrap().Error(); !strings.HasPrefix(got,
			want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}

	if err := search.CheckConditions(sweep.Search{Random: map[string]sweep.Distribution{"a": whole(1, 2,
		"b == 40 && max_depth > 100"), "b": whole(1, 50, nil)}}, base); err != nil {
		t.Errorf("a condition that one value in fifty meets, and a depth without limit: %v", err)
	}
}
