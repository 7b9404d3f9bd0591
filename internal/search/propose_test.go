package search_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// trainer is a fake trainer's Canonical: it knows the names and defaults of eight parameters, and one bound.
func trainer(params map[string]any) (map[string]any, error) {
	full := map[string]any{
		"num_leaves": 31.0, "max_depth": -1.0, "learning_rate": 0.1, "min_data_in_leaf": 20.0, "lambda_l2": 0.0,
		"feature_fraction": 1.0, "boosting": "gbdt", "num_iterations": 100.0,
	}
	for name, value := range params {
		if _, known := full[name]; !known {
			return nil, fmt.Errorf("unknown parameter %s", name)
		}
		if v, ok := value.(float64); ok && name == "num_leaves" && v < 2 {
			return nil, fmt.Errorf("num_leaves is %v: use 2 or more", v)
		}
		full[name] = value
	}
	return full, nil
}

// request asks for so many trials over a base with 2,000 trees and a learning rate of 0.05, for the fake trainer.
func request(trials int, s sweep.Search) search.Request {
	return search.Request{
		Search: s, Base: map[string]any{"num_iterations": 2000.0, "learning_rate": 0.05}, Trials: trials, Seed: 7,
		Canonical: trainer,
	}
}

// propose returns the proposal for a request, after checkProposal.
func propose(t *testing.T, r search.Request) search.Proposal {
	t.Helper()
	p := must.Get(search.Propose(r))(t)
	checkProposal(t, r, p)
	return p
}

// checkProposal checks what is true of every proposal: trials are numbered in their order, differ from each other, meet
// the constraints, have the base's parameters and the counted sources, and are the same after a round trip through
// JSON.
func checkProposal(t *testing.T, r search.Request, p search.Proposal) {
	t.Helper()
	seen := map[string]bool{}
	counts := map[string]int{}
	for i, trial := range p.Trials {
		text := must.Get(json.Marshal(trial.Params))(t)
		var back sweep.Params
		if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, trial.Params) {
			t.Errorf("trial %d: %v became %v on its way through JSON (error %v); want the same", i, trial.Params, back,
				err)
		}
		if trial.Number != i || seen[string(text)] {
			t.Errorf("trial %d of the list has number %d and params %s; want number %[1]d, and params that none "+
				"before has", i, trial.Number, text)
		}
		seen[string(text)] = true
		counts[trial.Source]++
		for _, c := range r.Search.Constraints {
			compiled := must.Get(search.CompileConstraint(c, trial.Params))(t)
			if holds, err := compiled.Holds(trial.Params); err != nil || !holds {
				t.Errorf("trial %d: %s holds is %t for %s (error %v); want true", i, c, holds, text, err)
			}
		}
		if want, given := r.Base["num_iterations"]; given && trial.Params["num_iterations"] != want {
			t.Errorf("trial %d is %s; want num_iterations as in the base, %v", i, text, want)
		}
	}
	if counts["fixed"] != p.Fixed || counts["grid"] != p.Grid || len(p.Trials) > r.Trials {
		t.Errorf("%d trials are from %v; want %d fixed and %d of the grid, and at most %d", len(p.Trials), counts,
			p.Fixed, p.Grid, r.Trials)
	}
}

// params returns each trial as text: its source and the values of the named parameters.
func params(p search.Proposal, names ...string) []string {
	var out []string
	for _, trial := range p.Trials {
		words := []string{trial.Source}
		for _, n := range names {
			words = append(words, fmt.Sprint(trial.Params[n]))
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// TestFixedThenGridThenRandom: fixed configurations come first, then the grid, then draws. Configurations that repeat
// one are left out and counted: here the third fixed one, {}, and the grid's 31 leaves with a lambda of 0 are the
// defaults, as the first one is.
func TestFixedThenGridThenRandom(t *testing.T) {
	p := propose(t, request(8, sweep.Search{
		Fixed: []sweep.Params{{"num_leaves": 31}, {"num_leaves": 63.0, "learning_rate": 0.03}, {}},
		Grid:  map[string][]any{"num_leaves": {31.0, 15.0}, "lambda_l2": {0.0, 10.0, "x"}},
		Random: map[string]sweep.Distribution{
			"num_leaves": {LogInt: []int64{15, 255}}, "learning_rate": {LogUniform: []float64{0.01, 0.3}},
		},
	}))
	got := params(p, "num_leaves", "lambda_l2", "learning_rate")
	want := []string{
		"fixed 31 0 0.05", "fixed 63 0 0.03", "grid 15 0 0.05", "grid 31 10 0.05", "grid 15 10 0.05", "grid 31 x 0.05",
		"grid 15 x 0.05",
	}
	if !slices.Equal(got[:7], want) || !strings.HasPrefix(got[7], "random ") || len(got) != 8 {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	must.Equal(t, p.Duplicates, 2, "number of configurations that repeat another")
}

// TestNothingToSearchIsOneTrial: without anything to search the params are the only trial, and fewer configurations
// than trials are noted.
func TestNothingToSearchIsOneTrial(t *testing.T) {
	p := propose(t, request(1, sweep.Search{}))
	if len(p.Trials) != 1 || p.Fixed != 1 {
		t.Errorf("a search of nothing: got %+v, want the params alone as one fixed trial", p)
	}
	p = propose(t, request(50, sweep.Search{Fixed: []sweep.Params{{}, {"num_leaves": 7.0}}}))
	want := "search: defines 2 configurations, but trials is 50; only 2 will run. Add ranges under search.random."
	if len(p.Trials) != 2 || !slices.Equal(p.Notes, []string{want}) {
		t.Errorf("%d trials, %q; want two, and a note that says so", len(p.Trials), p.Notes)
	}
	p, err := search.Propose(search.Request{Trials: 1, Base: map[string]any{"anything": 3}})
	if err != nil || !reflect.DeepEqual(p.Trials[0].Params, sweep.Params{"anything": 3.0}) {
		t.Errorf("nothing to search: got %+v (error %v); want one trial with the fixed parameter", p, err)
	}
}

// wide returns a search with fixed configurations, a grid, every form of distribution and constraints.
func wide() sweep.Search {
	return sweep.Search{
		Fixed: []sweep.Params{{"num_leaves": 31.0, "max_depth": 6.0}},
		Grid:  map[string][]any{"num_leaves": {31.0, 63.0, 127.0}, "max_depth": {5.0, 6.0, -1.0}},
		Random: map[string]sweep.Distribution{
			"learning_rate":    {LogUniform: []float64{0.01, 0.3}},
			"num_leaves":       {LogInt: []int64{15, 255}},
			"max_depth":        {Int: []int64{-1, 8}},
			"feature_fraction": {Uniform: []float64{0.5, 1}},
			"min_data_in_leaf": {Step: []float64{10, 100, 10}},
			"lambda_l2":        {Choice: []any{0.0, 1.0, 10.0}},
		},
		Constraints: []string{"num_leaves <= 2 ^ max_depth", "lambda_l2 == 0 || feature_fraction < 0.9"},
	}
}

// TestSameRequestSameProposal: the same seed gives the same trials, another seed others.
func TestSameRequestSameProposal(t *testing.T) {
	for seed := range uint64(5) {
		r := request(200, wide())
		r.Seed = seed
		a, b := propose(t, r), propose(t, r)
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: one request gave %+v and %+v; want the same twice", seed, a, b)
		}
		must.Equal(t, len(a.Trials), 200, "seed %d: trials", seed)
		r.Seed++
		if reflect.DeepEqual(propose(t, r).Trials, a.Trials) {
			t.Errorf("seeds %d and %d give the same trials, want different ones", r.Seed-1, r.Seed)
		}
	}
}

// TestAProposalNeverChanges pins the first draws: a plan that is made again must be the same in every later version.
func TestAProposalNeverChanges(t *testing.T) {
	s := wide()
	s.Fixed, s.Grid = nil, nil
	got := params(propose(t, request(3, s)), "learning_rate", "num_leaves", "max_depth", "feature_fraction",
		"min_data_in_leaf", "lambda_l2")
	want := []string{
		"random 0.0351109 72 0 0.832801 90 0", "random 0.0214041 15 7 0.869871 40 10",
		"random 0.0229975 111 -1 0.542098 40 10",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the draws %q, want those that were recorded, %q", got, want)
	}
}

// TestAnotherParameterChangesNoDraw: neither more parameters nor more trials change what is drawn for those before.
func TestAnotherParameterChangesNoDraw(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{"learning_rate": {Uniform: []float64{0.01, 0.3}},
		"num_leaves": {Int: []int64{2, 9999}}}}
	before := propose(t, request(100, s))
	s.Random = maps.Clone(s.Random)
	s.Random["lambda_l2"] = sweep.Distribution{Uniform: []float64{0, 1}}
	s.Random["feature_fraction"] = sweep.Distribution{Uniform: []float64{0.1, 1}}
	after := propose(t, request(100, s))
	if a, b := params(before, "learning_rate", "num_leaves"),
		params(after, "learning_rate", "num_leaves"); !slices.Equal(a, b) {
		t.Errorf("with other parameters %q became %q, want the same", a, b)
	}
	if longer := propose(t, request(150, s)); !reflect.DeepEqual(longer.Trials[:100], after.Trials) {
		t.Errorf("of 150 trials the first 100 are %+v, want those of 100 trials, %+v", longer.Trials[:100],
			after.Trials)
	}
}

// draws returns n values of one distribution, repeated ones included.
func draws(t *testing.T, n int, d sweep.Distribution) []float64 {
	t.Helper()
	counter := 0.0
	p := must.Get(search.Propose(search.Request{
		Search: sweep.Search{Random: map[string]sweep.Distribution{"x": d}}, Trials: n, Seed: 3,
		Canonical: func(params map[string]any) (map[string]any, error) {
			counter++ // so that no two are duplicates
			return map[string]any{"x": params["x"], "n": counter}, nil
		},
	}))(t)
	var out []float64
	for _, trial := range p.Trials {
		out = append(out, trial.Params["x"].(float64))
	}
	if len(out) != n {
		t.Fatalf("%d of %d draws, want all", len(out), n)
	}
	return out
}

// TestDistributions: draws follow their distribution and keep within its bounds. The largest difference between the
// cumulative distribution of 10,000 draws and the expected one (Kolmogorov's distance) is at most 0.02. With a random
// seed it would be above that once in 1,500 cases, 2 exp(-2 x 10,000 x 0.02^2); the seed is fixed.
func TestDistributions(t *testing.T) {
	const n = 10_000
	for name, tc := range map[string]struct {
		d        sweep.Distribution
		cdf      func(x float64) float64
		discrete bool // both ends are to be drawn; otherwise high is not, and values hardly repeat
		low      float64
		high     float64
	}{
		"uniform": {d: sweep.Distribution{Uniform: []float64{-2, 3}},
			cdf: func(x float64) float64 { return (x + 2) / 5 }, low: -2, high: 3},
		"narrow": {d: sweep.Distribution{Uniform: []float64{1000, 1000.5}},
			cdf: func(x float64) float64 { return (x - 1000) / 0.5 }, low: 1000, high: 1000.5},
		"log_uniform": {d: sweep.Distribution{LogUniform: []float64{1e-4, 10}},
			cdf: func(x float64) float64 { return math.Log(x/1e-4) / math.Log(1e5) }, low: 1e-4, high: 10},
		"narrow log": {d: sweep.Distribution{LogUniform: []float64{5, 5.001}},
			cdf: func(x float64) float64 { return math.Log(x/5) / math.Log(1.0002) }, low: 5, high: 5.001},
		"int": {d: sweep.Distribution{Int: []int64{-3, 16}},
			cdf: func(x float64) float64 { return (x + 4) / 20 }, discrete: true, low: -3, high: 16},
		"log_int": {d: sweep.Distribution{LogInt: []int64{1, 50}}, discrete: true, low: 1, high: 50,
			cdf: func(x float64) float64 { return math.Log((x+0.5)/0.5) / math.Log(50.5/0.5) }},
		"step": {d: sweep.Distribution{Step: []float64{0.1, 1, 0.1}},
			cdf: func(x float64) float64 { return math.Round(x*10) / 10 }, discrete: true, low: 0.1, high: 1},
		"choice": {d: sweep.Distribution{Choice: []any{1.0, 2.0, 3.0, 4.0}},
			cdf: func(x float64) float64 { return x / 4 }, discrete: true, low: 1, high: 4},
	} {
		t.Run(name, func(t *testing.T) {
			got := draws(t, n, tc.d)
			slices.Sort(got)
			if got[0] < tc.low || got[n-1] > tc.high || !tc.discrete && got[n-1] >= tc.high {
				t.Errorf("the draws are from %v to %v, want them from %v to %v", got[0], got[n-1], tc.low, tc.high)
			}
			if tc.discrete && (got[0] != tc.low || got[n-1] != tc.high) {
				t.Errorf("the draws are from %v to %v, want both ends, %v and %v", got[0], got[n-1], tc.low, tc.high)
			}

			// Of equal draws the last one counts, since the cumulative distribution steps there.
			distance, distinct := 0.0, 0
			for i, x := range got {
				if i+1 < n && got[i+1] == x {
					continue
				}
				distinct++
				distance = max(distance, math.Abs(float64(i+1)/n-tc.cdf(x)))
			}
			if distance > 0.02 {
				t.Errorf("the distance from the distribution is %.4f, want at most .02", distance)
			}
			if !tc.discrete && distinct < n*9/10 {
				t.Errorf("got %d different values of %d draws, want at least nine in ten", distinct, n)
			}
		})
	}
}

// TestDrawnNumbersAreShort: a drawn number has at most six digits, or as many as a narrow range needs, and is within
// its bounds.
func TestDrawnNumbersAreShort(t *testing.T) {
	for _, d := range []sweep.Distribution{{Uniform: []float64{0.5, 1}}, {LogUniform: []float64{1e-8, 10}},
		{Uniform: []float64{0, 1000}}, {Step: []float64{0, 1, 0.1}}} {
		for _, x := range draws(t, 500, d) {
			text := fmt.Sprint(x)
			if digits := strings.TrimLeft(strings.NewReplacer(".", "", "-", "").Replace(strings.Split(text, "e")[0]),
				"0"); len(digits) > 6 {
				t.Fatalf("drawn from %+v: got %s with %d digits, want at most six", d, text, len(digits))
			}
		}
	}

	// Ranges that are too narrow, too small or too large for six digits.
	for _, d := range []sweep.Distribution{{Uniform: []float64{0.12345678, 0.12345679}},
		{LogUniform: []float64{0.99999999, 1}}, {Uniform: []float64{-1e-300, 1e-300}},
		{Uniform: []float64{1e300, 1.5e300}}} {
		bounds := append(slices.Clone(d.Uniform), d.LogUniform...)
		for _, x := range draws(t, 500, d) {
			if x < bounds[0] || x >= bounds[1] {
				t.Fatalf("drawn from %+v: got %v, want it within the bounds", d, x)
			}
		}
	}
}

// TestSmallSpacesAreExhausted: a small space is drawn to its last configuration, also if constraints leave few. The
// space has 40 x 3 x 3 = 360 configurations. A note says that all of them are tried or, with constraints, all that
// these allow.
func TestSmallSpacesAreExhausted(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{
		"num_leaves": {Int: []int64{2, 41}}, "lambda_l2": {Choice: []any{0.0, 1.0, 10.0}},
		"max_depth": {Step: []float64{3, 7, 2}},
	}}
	for _, trials := range []int{300, 360} {
		p := propose(t, request(trials, s))
		if len(p.Trials) != trials || strings.Contains(strings.Join(p.Notes, ""), "only") {
			t.Errorf("%d of %d trials, %q; want all, and no note", len(p.Trials), trials, p.Notes)
		}
	}
	p := propose(t, request(1000, s))
	want := "search: defines 360 configurations, but trials is 1000; only 360 will run. " +
		"All 360 of search.random are among them."
	if len(p.Trials) != 360 || !slices.Equal(p.Notes, []string{want}) {
		t.Errorf("%d trials, %q; want 360, and a note that says so", len(p.Trials), p.Notes)
	}
	s.Constraints = []string{"num_leaves > 40", "num_leaves > 41 || lambda_l2 == 10"}
	p = propose(t, request(1000, s))
	want = "search: defines 3 configurations, but trials is 1000; only 3 will run. " +
		"Of the 360 of search.random, all that constraints and the trainer allow are among them."
	if len(p.Trials) != 3 || !slices.Equal(p.Notes, []string{want}) { // 41 leaves, lambda 10, three depths
		t.Errorf("a space of three configurations: planned %v, %q; want three trials, and a note that says so",
			params(p, "num_leaves", "lambda_l2", "max_depth"), p.Notes)
	}
}

// TestFixedAndGridFillAllTrials: where two trials have two fixed configurations, a note says that nothing is drawn.
func TestFixedAndGridFillAllTrials(t *testing.T) {
	p := propose(t, request(2, sweep.Search{Fixed: []sweep.Params{{}, {"num_leaves": 3.0}}, Random: wide().Random}))
	if !slices.Equal(p.Notes,
		[]string{"the fixed configurations and the grid take all 2 trials; nothing is drawn from search.random"}) {
		t.Errorf("the notes are %q; want one that nothing is drawn", p.Notes)
	}
}

// TestProposeErrors: a search that cannot be carried out is refused, with the part of the spec that is wrong. Of a
// space too large to be enumerated, 10,000 useless draws in a row end the drawing.
func TestProposeErrors(t *testing.T) {
	leaves := map[string]sweep.Distribution{"num_leaves": {Int: []int64{31, 1 << 40}}}
	big := map[string][]any{}
	for i := range 9 {
		big[fmt.Sprint("p", i)] = []any{1, 2, 3, 4}
	}
	for name, tc := range map[string]struct {
		trials int
		s      sweep.Search
		want   string
	}{
		"no trials": {0, sweep.Search{}, "search: trials: 0; use 1 to 10000"},
		"constraint": {5, sweep.Search{Constraints: []string{"1 == 1", "num_leafs < 3"}},
			`search: constraints[1]: "num_leafs < 3": column 1: unknown name "num_leafs" (did you mean "num_leaves"?)`},
		"fixed": {5, sweep.Search{Fixed: []sweep.Params{{}, {"num_leaves": 1.0}}},
			"search: fixed[1]: num_leaves is 1: use 2 or more"},
		"fixed breaks": {5, sweep.Search{Fixed: []sweep.Params{{"num_leaves": 64.0, "max_depth": 5.0}},
			Constraints: []string{"num_leaves <= 2 ^ max_depth"}},
			"search: fixed[0]: max_depth=5 num_leaves=64 breaks the constraint num_leaves <= 2 ^ max_depth"},
		"grid": {5, sweep.Search{Grid: map[string][]any{"num_leaves": {3.0, 1.0}}},
			"search: grid num_leaves=1: num_leaves is 1: use 2 or more"},
		"big grid": {5, sweep.Search{Grid: big},
			"search: grid: it has more than 100000 configurations; shorten it or use random"},
		"nan": {5, sweep.Search{Fixed: []sweep.Params{{"lambda_l2": math.NaN()}}},
			"search: fixed[0]: it cannot be written as JSON: json: unsupported value: NaN"},
		"too many": {4, sweep.Search{Fixed: []sweep.Params{{}, {"num_leaves": 3.0}},
			Grid: map[string][]any{"num_leaves": {4.0, 5.0, 6.0}}},
			"search: 2 fixed and 3 grid configurations are more than trials: 4; raise trials to at least 5 or " +
				"shorten the grid"},
		"one too many": {1, sweep.Search{Fixed: []sweep.Params{{}, {"num_leaves": 3.0}}},
			"search: 2 fixed configurations are more than trials: 1; raise trials to at least 2 or shorten the list"},
		"a grid too many": {2, sweep.Search{Grid: map[string][]any{"num_leaves": {4.0, 5.0, 6.0}}},
			"search: 3 grid configurations are more than trials: 2; raise trials to at least 3 or shorten the grid"},
		"distribution": {4, sweep.Search{Random: map[string]sweep.Distribution{"num_leaves": {}}},
			"search: random num_leaves: nothing can be drawn from {Uniform:[] LogUniform:[] Int:[] LogInt:[] " +
				"Step:[] Choice:[] DrawnAs:}"},
		"impossible": {4, sweep.Search{Random: leaves, Constraints: []string{"num_leaves <= 2 ^ max_depth",
			"num_leaves < 20"}},
			"search: found 0 of 4 trials: of 10000 random draws 10000 broke the constraint num_leaves < 20; loosen " +
				"the constraints, widen the ranges or ask for fewer trials"},
		"few": {4, sweep.Search{Fixed: []sweep.Params{{}}, Random: leaves, Constraints: []string{"num_leaves == 31"}},
			"search: found 1 of 4 trials: of 10000 random draws 10000 broke the constraint num_leaves == 31; loosen " +
				"the constraints, widen the ranges or ask for fewer trials"},
		"refused": {4, sweep.Search{Random: map[string]sweep.Distribution{"bagging": {Uniform: []float64{0, 1}}}},
			"search: found 0 of 4 trials: of 10000 random draws 10000 were refused by the trainer " +
				"(bagging=0.608141: unknown parameter bagging); loosen the constraints, widen the ranges or ask for " +
				"fewer trials"},
		"all grid broken": {4, sweep.Search{Grid: map[string][]any{"num_leaves": {4.0}},
			Constraints: []string{"num_leaves == 5"}},
			"search: found 0 of 4 trials: of 1 grid configuration 1 broke the constraint num_leaves == 5; loosen the " +
				"constraints, widen the ranges or ask for fewer trials"},
		"all grid broken, and all draws": {4, sweep.Search{Grid: map[string][]any{"lambda_l2": {0.0, 1.0, 2.0}},
			Random: leaves, Constraints: []string{"lambda_l2 > 1", "num_leaves < 20"}},
			"search: found 0 of 4 trials: of 3 grid configurations 2 broke the constraint lambda_l2 > 1, 1 broke the " +
				"constraint num_leaves < 20, and of 10000 random draws 10000 broke the constraint lambda_l2 > 1; " +
				"loosen the constraints, widen the ranges or ask for fewer trials"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := search.Propose(request(tc.trials, tc.s))
			if err == nil || err.Error() != tc.want {
				t.Fatalf("got  error %v\nwant %s", err, tc.want)
			}
			if !problem.Is(err, problem.Input) {
				t.Errorf("got error %v; want one of kind input", err)
			}
			must.Equal(t, len(p.Trials), 0, "trials beside the error")
		})
	}
}

// TestAnySearch: whatever parts of the wide search are left, Propose returns trials that pass checkProposal, with a
// note if there are too few, or an error of kind input. At least 20 of the 150 random searches give trials; otherwise
// the test would test little. The seed is another one each time, and is logged.
func TestAnySearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	made := 0
	for range 150 {
		// Leave out ranges and the grid at random, and add a constraint.
		s := wide()
		for name := range wide().Random {
			if r.IntN(3) == 0 {
				delete(s.Random, name)
			}
		}
		if r.IntN(2) == 0 {
			s.Grid = nil
		}
		if r.IntN(2) == 0 {
			s.Constraints = append(s.Constraints, fmt.Sprintf("num_leaves * min_data_in_leaf < %d", 200+r.IntN(20000)))
		}
		req := request(1+r.IntN(60), s)
		req.Seed = r.Uint64()
		p, err := search.Propose(req)
		if err != nil {
			if !problem.Is(err, problem.Input) {
				t.Fatalf("error %v; want one of kind input", err)
			}
			continue
		}
		made++
		checkProposal(t, req, p)
		if len(p.Trials) < req.Trials && len(p.Notes) == 0 {
			t.Errorf("got %d of %d trials and no note; want one that says why", len(p.Trials), req.Trials)
		}
	}
	if made < 20 {
		t.Errorf("%d of 150 searches gave a proposal, want at least 20", made)
	}
}
