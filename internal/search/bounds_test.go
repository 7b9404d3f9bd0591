package search_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// boundless is a sweep of random trials that are judged by a function of their parameters.
func boundless(trials int, seed uint64, score func(rate, leaves, share float64) float64) (*sweep.Plan, sweep.Board) {
	p := &sweep.Plan{Maximize: true, Base: sweep.Params{}}
	p.Spec.Search.Random = map[string]sweep.Distribution{"learning_rate": {LogUniform: []float64{0.01, 0.3}},
		"num_leaves": {LogInt: []int64{8, 127}}, "feature_fraction": {Uniform: []float64{0.4, 1}},
		"kind": {Choice: []any{"a", "b"}}}
	rng := rand.New(rand.NewPCG(seed, 0))
	var results []sweep.Result
	for n := range trials {
		rate, leaves := 0.01*math.Pow(30, rng.Float64()), math.Round(8*math.Pow(127./8, rng.Float64()))
		share := 0.4 + 0.6*rng.Float64()
		own := sweep.Params{"learning_rate": rate, "num_leaves": leaves, "feature_fraction": share, "kind": "a"}
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Params: own})
		results = append(results, sweep.Result{Trial: n, Status: sweep.StatusDone, Params: own,
			Score: score(rate, leaves, share)})
	}
	return p, sweep.Fold(p, results)
}

// TestParametersAtABoundAreNamed: on either side, and only those: none whose best values are inside, none without an
// effect, none at a bound that is the parameter's own, none from few trials.
func TestParametersAtABoundAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		trials int
		score  func(rate, leaves, share float64) float64
		want   []string
	}{
		"upper": {120, func(_, leaves, _ float64) float64 { return math.Log(leaves) },
			[]string{"num_leaves: best at its upper bound 127 "}},
		"lower": {120, func(rate, _, _ float64) float64 { return -math.Log(rate) },
			[]string{"learning_rate: best at its lower bound 0.01 "}},
		"inside":    {120, func(rate, _, _ float64) float64 { return -math.Abs(math.Log(rate / 0.05)) }, nil},
		"its own":   {120, func(_, _, share float64) float64 { return share }, nil},
		"few":       {20, func(_, leaves, _ float64) float64 { return math.Log(leaves) }, nil},
		"all equal": {120, func(_, _, _ float64) float64 { return 1 }, nil},
	} {
		got := search.AtBounds(boundless(tc.trials, 5, tc.score))
		if !slices.EqualFunc(got, tc.want, strings.HasPrefix) {
			t.Errorf("%s: got %q, expected %q", name, got, tc.want)
		}
	}

	// A search that has settled at a bound where the parameter has no effect: most trials are there, the best as well.
	p, _ := boundless(60, 3, func(_, _, _ float64) float64 { return 0 })
	var results []sweep.Result
	for n, trial := range p.Trials {
		if n%6 > 0 {
			trial.Params["num_leaves"] = 127.
		}
		results = append(results, sweep.Result{Trial: n, Status: sweep.StatusDone, Params: trial.Params,
			Score: -math.Abs(math.Log(trial.Params["learning_rate"].(float64) / 0.05))})
	}
	if got := search.AtBounds(p, sweep.Fold(p, results)); len(got) > 0 {
		t.Errorf("settled at a bound without an effect: got %q, expected nothing", got)
	}

	named := 0
	for seed := range uint64(100) { // parameters without any effect
		rng := rand.New(rand.NewPCG(seed, 9))
		named += len(search.AtBounds(boundless(60, seed, func(_, _, _ float64) float64 { return rng.Float64() })))
	}
	if named > 0 {
		t.Errorf("in 100 sweeps with random scores %d parameters are said to stop at a bound; expected none", named)
	}
}

// TestNoConfigurationTwice: every method that learns tries all configurations of a small space once, one at a time and
// several at once, and then says that none is left.
func TestNoConfigurationTwice(t *testing.T) {
	for _, method := range []string{sweep.MethodAuto, sweep.MethodGP, sweep.MethodTPE} {
		for _, at := range []int{1, 3} {
			s := sweep.Search{Random: map[string]sweep.Distribution{"kind": {Choice: []any{"a", "b", "c"}},
				"on": {Choice: []any{true, false}}, "depth": {Int: []int64{3, 4}}}}
			r := search.Ask{Search: s, Method: method, Seed: 4, Number: at}
			tried := map[string]bool{}
			for len(r.Known) < 12 {
				for _, one := range next(t, r) {
					key := fmt.Sprint(one.Params)
					if tried[key] {
						t.Errorf("%s, %d at once: %s is proposed twice", method, at, key)
					}
					tried[key] = true
					r.Known = append(r.Known, scored(one.Trial, one.Params, float64(len(key)%3))) // ties, too
				}
			}
			r.Number = 1
			if got, err := search.Next(t.Context(), r); err == nil {
				t.Errorf("%s, %d at once: after all 12 configurations comes %v; expected an error", method, at, got)
			}
		}
	}
}
