package search_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// spaces returns the spaces that every method has to handle, by name.
func spaces() map[string]sweep.Search {
	type dist = sweep.Distribution
	return map[string]sweep.Search{
		"numbers": {Random: map[string]dist{"x": {Uniform: []float64{-1, 2}}, "y": {LogUniform: []float64{1e-4, 10}}}},
		"mixed": {Random: map[string]dist{
			"rate": {LogUniform: []float64{1e-3, 1}}, "leaves": {LogInt: []int64{2, 500}},
			"depth": {Int: []int64{1, 12}},
			"share": {Step: []float64{0.1, 1, 0.1}}, "kind": {Choice: []any{"a", "b", "c"}},
			"rows": {Choice: []any{10.0, 200.0, 50.0}},
			"flag": {Choice: []any{true, false}}, "one": {Choice: []any{"always"}},
		}},
		"constrained": {
			Random: map[string]dist{"leaves": {LogInt: []int64{2, 1000}}, "depth": {Int: []int64{1, 10}},
				"rate": {Uniform: []float64{0, 1}}},
			Constraints: []string{"leaves <= 2 ^ depth", "rate * depth < 3"},
		},
		"trees": {Random: map[string]dist{
			"eta": {LogUniform: []float64{1e-3, 1}}, "nrounds": {LogInt: []int64{10, 3000}},
			"max_depth": {Int: []int64{2, 15}}, "impute": {Choice: []any{"mean", "median"}},
		}},
	}
}

// value returns what is known of a trial, whose score is the quality of its params. By the trial's number some fail,
// have no score or an infinite one, are stopped or still running.
func value(trial int, params sweep.Params) sweep.Seen {
	k := scored(trial, params, quality(params))
	switch trial % 11 {
	case 3:
		k.Status, k.Score = sweep.StatusFailed, nil
	case 5:
		k.Score = nil
	case 6:
		*k.Score = math.Inf(1)
	case 7:
		k.Status = sweep.StatusStopped
		*k.Score--
	case 9:
		k.Status = sweep.StatusRunning
	}
	return k
}

// scored returns what is known of a trial that is done with this score.
func scored(trial int, params sweep.Params, value float64) sweep.Seen {
	return sweep.Seen{Trial: trial, Params: params, Status: sweep.StatusDone, Score: &value}
}

// quality returns a score that is best where all numbers are 0.29 or -0.29, and texts are long.
func quality(params sweep.Params) float64 {
	sum := 0.0
	for name, v := range params {
		switch v := v.(type) {
		case float64:
			sum -= math.Pow(math.Log(math.Abs(v)+0.01)-math.Log(0.3), 2)
		case string:
			sum += float64(len(v)*len(name)) / 10
		}
	}
	return sum
}

// checkSuggestion checks what is true of every suggestion: it has a source, a reason and a value of each distribution,
// meets the constraints and repeats none of seen, to which it is added.
func checkSuggestion(t *testing.T, s sweep.Search, got search.Suggestion, seen map[string]bool) {
	t.Helper()
	text := must.Get(json.Marshal(got.Params))(t)
	if seen[string(text)] {
		t.Errorf("trial %d is %s, as one before; want another configuration", got.Trial, text)
	}
	seen[string(text)] = true
	if got.Source == "" || got.Reason == "" {
		t.Errorf("trial %d is %+v; want a source and a reason", got.Trial, got)
	}
	if len(got.Params) != len(s.Random) {
		t.Errorf("trial %d has %d of %d parameters: %s", got.Trial, len(got.Params), len(s.Random), text)
	}
	for name, d := range s.Random {
		if v := got.Params[name]; !inside(d, v) {
			t.Errorf("trial %d: %s is %v, expected a value of %+v", got.Trial, name, v, d)
		}
	}
	for _, c := range s.Constraints {
		compiled := must.Get(search.CompileConstraint(c, got.Params))(t)
		if holds, err := compiled.Holds(got.Params); err != nil || !holds {
			t.Errorf("trial %d: %s holds is %t for %s (error %v); want true", got.Trial, c, holds, text, err)
		}
	}
}

// inside reports whether v is a value of the distribution.
func inside(d sweep.Distribution, v any) bool {
	if d.Choice != nil {
		return slices.Contains(d.Choice, v)
	}
	x, number := v.(float64)
	between := func(low, high float64) bool { return number && low <= x && x <= high }
	whole := func(b []int64) bool { return between(float64(b[0]), float64(b[1])) && x == math.Trunc(x) }
	switch {
	case d.Uniform != nil:
		return between(d.Uniform[0], d.Uniform[1])
	case d.LogUniform != nil:
		return between(d.LogUniform[0], d.LogUniform[1])
	case d.Int != nil:
		return whole(d.Int)
	case d.LogInt != nil:
		return whole(d.LogInt)
	}
	steps := (x - d.Step[0]) / d.Step[2]
	return between(d.Step[0], d.Step[1]) && math.Abs(steps-math.Round(steps)) < 1e-6
}

// next returns the suggestions that a request gets, all of the wanted number.
func next(t *testing.T, r search.Ask) []search.Suggestion {
	t.Helper()
	got, err := search.Next(r)
	if err != nil {
		t.Fatalf("asked for %d with %d known: %v", r.Number, len(r.Known), err)
	}
	if len(got) != r.Number {
		t.Fatalf("asked for %d trials, got %d", r.Number, len(got))
	}
	return got
}

// TestAsk: every method proposes valid configurations of every space, none twice, with numbers that follow on, and what
// it proposes does not depend on how it is asked. Each is asked for 1, 9, 2 and 5 trials, one after the other: within
// the initial design of 8 trials, across its end, and twice after it.
func TestAsk(t *testing.T) {
	for _, method := range search.Methods() {
		for name, s := range spaces() {
			t.Run(method+"/"+name, func(t *testing.T) {
				r := search.Ask{Search: s, Method: method, Maximize: true, Seed: 5}
				seen := map[string]bool{}
				for _, n := range []int{1, 9, 2, 5} {
					r.Number = n
					got := next(t, r)
					checkSame(t, r, got)
					for _, one := range got {
						must.Equal(t, one.Trial, len(r.Known), "the next trial has number")
						checkSuggestion(t, s, one, seen)
						r.Known = append(r.Known, value(one.Trial, one.Params))
					}
				}
			})
		}
	}
}

// checkSame checks that a request gets the same suggestions as at first with its results in another order, and if it
// asks for one trial at a time.
func checkSame(t *testing.T, r search.Ask, first []search.Suggestion) {
	t.Helper()
	want := asJSON(t, first)
	shuffled := r
	shuffled.Known = slices.Clone(r.Known)
	rand.New(rand.NewPCG(1, uint64(len(r.Known)))).Shuffle(len(shuffled.Known), func(i, j int) {
		shuffled.Known[i], shuffled.Known[j] = shuffled.Known[j], shuffled.Known[i]
	})
	if got := asJSON(t, next(t, shuffled)); got != want {
		t.Errorf("with the results in another order: got\n%s\nwant, as before,\n%s", got, want)
	}

	single := r
	single.Known = slices.Clone(r.Known)
	single.Number = 1
	var singly []search.Suggestion
	for range first {
		one := next(t, single)[0]
		singly = append(singly, one)
		single.Known = append(single.Known, sweep.Seen{Trial: one.Trial, Params: one.Params,
			Status: sweep.StatusRunning})
	}
	if got := asJSON(t, singly); got != want {
		t.Errorf("asked for one after the other: got\n%s\nwant, as at once,\n%s", got, want)
	}
}

// asJSON returns v as indented JSON.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.MarshalIndent(v, "", " "))(t)
	return string(text)
}

// TestAskExhausts: every method proposes each configuration of a finite space once, and then returns an error that says
// how many there are. Of 4 x 2 x 2 = 16 the constraint leaves 14, since n = 4 goes with k = a only. They are asked for
// by fours, so that the last request gets two and the error.
func TestAskExhausts(t *testing.T) {
	s := sweep.Search{
		Random: map[string]sweep.Distribution{"n": {Int: []int64{1, 4}}, "k": {Choice: []any{"a", "b"}},
			"m": {Int: []int64{1, 2}}},
		Constraints: []string{`n < 4 or k == "a"`},
	}
	const configurations = (4 + 3) * 2
	for _, method := range search.Methods() {
		// Ask until there is an error, which may come with a few suggestions.
		seen := map[string]bool{}
		r := search.Ask{Search: s, Method: method, Number: 4}
		var exhausted error
		for exhausted == nil {
			var got []search.Suggestion
			got, exhausted = search.Next(r)
			for _, one := range got {
				seen[asJSON(t, one.Params)] = true
				r.Known = append(r.Known, scored(one.Trial, one.Params, quality(one.Params)))
			}
		}
		if len(seen) != configurations || len(r.Known) != configurations {
			t.Errorf("%s: got %d trials, %d different ones, want %d of both", method, len(r.Known), len(seen),
				configurations)
		}
		if text := exhausted.Error(); !strings.Contains(text, "16 configurations") ||
			!strings.Contains(text, "14 are known") || !problem.Is(exhausted, problem.Input) {
			t.Errorf("%s: the space ends with %q; want 16 configurations, of which 14 are known", method, text)
		}
	}
}

// TestAskLearns: with 40 trials gp and auto come at least four times as close to the best loss as random draws do: 0 at
// x = 0.3, y = 0.1, z = 0.8 and k = b. The searches with even seeds maximize the negative loss.
func TestAskLearns(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{
		"x": {Uniform: []float64{0, 1}}, "y": {LogUniform: []float64{1e-3, 1}}, "z": {Uniform: []float64{0, 1}},
		"k": {Choice: []any{"a", "b", "c"}},
	}}
	loss := func(p sweep.Params) float64 {
		x, y, z := p["x"].(float64), math.Log10(p["y"].(float64)), p["z"].(float64)
		out := square(x-0.3) + square((y+1)/3) + square(z-0.8)/2
		if p["k"] == "b" {
			return out
		}
		return out + 0.1
	}

	// mean is by method: the best loss found, on average of the seeds.
	mean := map[string]float64{}
	const seeds, trials = 3, 40
	for _, method := range search.Methods() {
		for seed := range uint64(seeds) {
			r := search.Ask{Search: s, Method: method, Seed: seed, Number: 4, Maximize: seed%2 == 0}
			best := math.Inf(1)
			for len(r.Known) < trials {
				for _, one := range next(t, r) {
					v := loss(one.Params)
					best = min(best, v)
					if r.Maximize {
						v = -v
					}
					r.Known = append(r.Known, scored(one.Trial, one.Params, v))
				}
			}
			mean[method] += best / seeds
		}
	}
	random := mean[sweep.MethodRandom]
	if mean[sweep.MethodGP] > random/4 || mean[sweep.MethodAuto] > random/4 {
		t.Errorf("mean loss after %d trials in batches of 4: %v; expected gp and auto below a quarter of random's",
			trials, mean)
	}
}

// TestAskRefuses: a request for which nothing can be proposed is an error that names the part of the spec. The keys are
// the beginnings of the errors.
func TestAskRefuses(t *testing.T) {
	one := sweep.Search{Random: map[string]sweep.Distribution{"x": {Uniform: []float64{0, 1}}}}
	with := func(change func(*search.Ask)) search.Ask {
		r := search.Ask{Search: one, Number: 1}
		change(&r)
		return r
	}
	for want, r := range map[string]search.Ask{
		`search: method: "bayes" is unknown; use one of [auto gp halton random]`: with(func(r *search.Ask) {
			r.Method = "bayes"
		}),
		`search: random x: nothing can be drawn from`: with(func(r *search.Ask) {
			r.Search.Random = map[string]sweep.Distribution{"x": {Uniform: []float64{1, 0}}}
		}),
		`search: constraints[0]: "z > 1": column 1: unknown name "z" (known: x)`: with(func(r *search.Ask) {
			r.Search.Constraints = []string{"z > 1"}
		}),
		`search: no configuration is left for another trial: 2000 draws from search.random broke a constraint or ` +
			`were known, and 0 are known`: with(func(r *search.Ask) {
			r.Search.Constraints = []string{"x > 2"}
		}),
	} {
		for _, method := range []string{"", sweep.MethodRandom} {
			if r.Method == "" {
				r.Method = method
			}
			_, err := search.Next(r)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("method %q: got error\n     %v\nwant %s ...", r.Method, err, want)
			}
		}
	}
}

// night returns an earlier sweep with 30 results for x from 0 to 29/30. The score is highest, level, at x = best.
// params makes the configuration of x.
func night(name string, best, level float64, params func(x float64) sweep.Params) sweep.Earlier {
	s := sweep.Earlier{Sweep: sweep.ID(name)}
	for i := range 30 {
		x := float64(i) / 30
		s.Trials = append(s.Trials, scored(i, params(x), level-square(x-best)))
	}
	return s
}

// begun plans a sweep of so many trials with the method auto that knows earlier sweeps. It returns the plan and the
// trials that the sweep begins with, without the first one, which has to be the default.
func begun(t *testing.T, s sweep.Search, total int, earlier ...sweep.Earlier) (*sweep.Plan, []sweep.Trial) {
	t.Helper()
	p := &sweep.Plan{Format: 1, Maximize: true, Base: sweep.Params{}, Earlier: earlier}
	p.Spec.Search = s
	p.Spec.Search.Method = sweep.MethodAuto
	trials, err := search.Begin(p, nil, total, func(own sweep.Params) (sweep.Params, error) {
		return maps.Clone(own), nil
	})
	if err != nil || len(trials) == 0 || trials[0].Source != search.SourceDefault {
		t.Fatalf("a sweep of %d trials begins with %+v, %v; expected the default first", total, trials, err)
	}
	p.Trials = trials
	return p, trials[1:]
}

// TestBeginWarm: a sweep begins with the winners of earlier sweeps, in turn and newest first, which take half of its
// trials. Winners of a sweep over other parameters, or outside of the bounds, are left out. The model then looks near
// the earlier optimum. The scores of the earlier sweeps new and old fall with the distance from x = 0.6 and 0.5, and
// their trials are 1/30 = 0.033 apart: new gives 0.60, then its neighbours 0.57 and 0.63, and old gives 0.50, then
// 0.47.
func TestBeginWarm(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{"x": {Uniform: []float64{0, 1}},
		"y": {Uniform: []float64{0, 1}}}}
	full := func(x float64) sweep.Params { return sweep.Params{"x": x, "y": math.Mod(x*7, 1)} }
	foreign := night("other", 0.9, 5, func(x float64) sweep.Params { return sweep.Params{"x": x, "z": 1.0} })
	beyond := night("wide", 0.9, 5, func(x float64) sweep.Params { return sweep.Params{"x": x + 1.5, "y": 0.5} })
	earlier := []sweep.Earlier{night("new", 0.6, 0.8, full), beyond, foreign, night("old", 0.5, 0.7, full)}

	p, got := begun(t, s, 10, earlier...)
	var places []string
	for _, one := range got {
		if one.Source == search.SourceWarm {
			places = append(places, fmt.Sprintf("%.2f", one.Params["x"]))
		}
	}
	if want := []string{"0.60", "0.50", "0.57", "0.47", "0.63"}; len(got) != 5 || !slices.Equal(places, want) {
		t.Errorf("%d trials are listed, winners at x = %v; want five winners at %v", len(got), places, want)
	}
	must.Equal(t, got[0].Reason, "number 1 of new, with 0.8", "the first trial's reason")

	// Earlier optima tell where to look now. Four trials are left: the plan has the default and the five winners.
	near := 0
	var seen []sweep.Seen
	for n := len(p.Trials); n < 10; n++ {
		one := must.Get(search.Decide(p, n, seen, nil))(t)
		if math.Abs(one.Params["x"].(float64)-0.6) < 0.2 {
			near++
		}
		seen = append(seen, sweep.Seen{Trial: n, Params: one.Params, Status: sweep.StatusRunning})
	}
	if near < 3 {
		t.Errorf("%d of the four trials after these are near the former best, x = 0.6, want at least 3: %s", near,
			asJSON(t, seen))
	}

	// Of six trials half are three, fewer than the five winners that a sweep begins with at most.
	if _, got = begun(t, s, 6, earlier...); len(got) != 3 {
		t.Errorf("%d of 6 trials are winners of earlier sweeps, expected 3", len(got))
	}
}

// TestAskPortfolio: a first search with the method auto begins with the five configurations of the portfolio, moved
// into the bounds, if its parameters are those of boosted trees: the 4,168 rounds of the first one become 3,000. Other
// methods and other spaces have none of them.
func TestAskPortfolio(t *testing.T) {
	got := next(t, search.Ask{Search: spaces()["trees"], Maximize: true, Number: 8})
	for i, one := range got {
		if want := i < 5; (one.Source == search.SourcePortfolio) != want {
			t.Errorf("trial %d is from %s, want the first five from the portfolio, and no others", i, one.Source)
		}
	}
	if p := got[0].Params; p["eta"] != 0.018 || p["nrounds"] != 3000.0 || p["max_depth"] != 13.0 {
		t.Errorf("the first is %v, want the portfolio's first: eta .018, 3,000 rounds, depth 13", p)
	}
	for _, method := range []string{sweep.MethodGP, sweep.MethodHalton, sweep.MethodRandom} {
		for _, one := range next(t, search.Ask{Search: spaces()["trees"], Method: method, Number: 8}) {
			if one.Source == search.SourcePortfolio {
				t.Errorf("%s took trial %d from the portfolio, want none", method, one.Trial)
			}
		}
	}
	for i, one := range next(t, search.Ask{Search: spaces()["mixed"], Number: 8}) {
		if one.Source == search.SourcePortfolio {
			t.Errorf("trial %d of a space that is not of boosted trees is from the portfolio, want none", i)
		}
	}
}

// TestSpellingsAreOneValue: a known trial's value is recognized as one of a choice in every spelling, and a value that
// a choice lists twice counts once. Each choice here has two values, of which known trials have one and left is the
// other.
func TestSpellingsAreOneValue(t *testing.T) {
	for _, c := range []struct {
		name   string
		choice []any
		known  []any
		left   any
	}{
		{"text of a number", []any{0.1, 0.2}, []any{"0.10"}, 0.2},
		{"number of a text", []any{"1", "2"}, []any{1}, "2"},
		{"text of a truth", []any{true, false}, []any{"true"}, false},
		{"listed twice", []any{1, 1.0, 2}, []any{1}, 2.0},
		{"texts alike", []any{"a", "b"}, []any{"b"}, "a"},
	} {
		q := search.Ask{Search: sweep.Search{Random: map[string]sweep.Distribution{"x": {Choice: c.choice}}}, Number: 2}
		for i, v := range c.known {
			q.Known = append(q.Known, scored(i, sweep.Params{"x": v}, 1))
		}
		got, err := search.Next(q)
		if len(got) != 1 || got[0].Params["x"] != c.left || err == nil ||
			!strings.Contains(err.Error(), "search.random has 2 configurations") {
			t.Errorf("%s: of %v, %v are known: %+v is proposed, error %v; expected %v, and nothing after it of 2 "+
				"configurations", c.name, c.choice, c.known, got, err, c.left)
		}
	}
}

// TestBeginPortfolioAfterOtherSweeps: a search that knows earlier ones gives the portfolio a quarter of its trials, 3
// of 12, after the winners, of which there are 5 at most. Winners of one region, here trees of depth 3, could not tell
// that another has become better.
func TestBeginPortfolioAfterOtherSweeps(t *testing.T) {
	narrow := sweep.Earlier{Sweep: "yesterday"}
	for i := range 20 {
		x := float64(i) / 20
		params := sweep.Params{"eta": 0.5 + x/4, "nrounds": 50.0 + float64(i), "max_depth": 3.0, "impute": "mean"}
		narrow.Trials = append(narrow.Trials, scored(i, params, x))
	}
	_, got := begun(t, spaces()["trees"], 12, narrow)
	n := map[string]int{}
	for _, one := range got {
		n[one.Source]++
	}
	if n[search.SourcePortfolio] != 3 || n[search.SourceWarm] != 5 || len(got) != 8 {
		t.Errorf("of 12 trials %v are listed; want 3 of the portfolio and 5 winners", n)
	}
}
