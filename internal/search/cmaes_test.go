package search_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// run searches to its end in batches, and returns the best loss and the trials.
func run(t *testing.T, r search.Ask, trials, batch int, loss func(sweep.Params) float64) (best float64,
	known []search.Known) {
	t.Helper()
	best = math.Inf(1)
	for len(r.Known) < trials {
		r.Number = min(batch, trials-len(r.Known))
		for _, one := range next(t, r) {
			v := loss(one.Params)
			best = min(best, v)
			r.Known = append(r.Known, search.Known{Trial: one.Trial, Params: one.Params, Status: search.TrialDone,
				Value: v})
		}
	}
	return best, r.Known
}

// numbers is a space of so many numbers between 0 and 1.
func numbers(n int) sweep.Search {
	s := sweep.Search{Random: map[string]sweep.Distribution{}}
	for i := range n {
		s.Random[fmt.Sprintf("x%d", i)] = sweep.Distribution{Uniform: []float64{0, 1}}
	}
	return s
}

// TestCMAESAdapts: on a long, turned valley, where one step size for all axes gets nowhere, 600 trials come to the
// bottom, several at once too; afterwards it begins again elsewhere.
func TestCMAESAdapts(t *testing.T) {
	valley := func(p sweep.Params) float64 {
		x, y, z := p["x0"].(float64)-0.7, p["x1"].(float64)-0.2, p["x2"].(float64)-0.4
		return square(x+y) + 1000*square(x-y) + 30*square(z)
	}
	for _, batch := range []int{1, 5} {
		for seed := range uint64(2) {
			best, known := run(t, search.Ask{Search: numbers(3), Method: search.MethodCMAES, Seed: seed}, 600, batch,
				valley)
			if best > 1e-5 {
				t.Errorf("seed %d, %d at once: the best of %d trials has a loss of %.3g; want at most 1e-5", seed,
					batch, len(known), best)
			}
			after := next(t, search.Ask{Search: numbers(3), Method: search.MethodCMAES, Seed: seed, Known: known,
				Number: 1})[0]
			if !strings.Contains(after.Reason, "begun again") {
				t.Errorf("seed %d, %d at once: after %d trials the reason is %q; want it to have begun again", seed,
					batch, len(known), after.Reason)
			}
		}
	}
}

// TestCMAESGenerations: the next generation is drawn once three quarters of the one before have ended, failed ones
// counted; until then draws come from the same distribution.
func TestCMAESGenerations(t *testing.T) {
	r := search.Ask{Search: numbers(3), Method: search.MethodCMAES, Number: 8} // 4 + 3 ln 3 is 7
	all := next(t, r)
	for ended, want := range map[int]string{0: "generation 1 of 7", 5: "generation 1 of 7", 6: "generation 2 of 7",
		7: "generation 2 of 7"} {
		r.Known, r.Number = nil, 1
		for i, one := range all {
			k := search.Known{Trial: one.Trial, Params: one.Params, Status: search.TrialRunning}
			if i < ended {
				k.Status, k.Value = search.TrialDone, one.Params["x0"].(float64)
			}
			if i == 2 && ended > 2 {
				k.Status, k.Value = search.TrialFailed, math.NaN()
			}
			r.Known = append(r.Known, k)
		}
		if got := next(t, r)[0].Reason; !strings.Contains(got, want) {
			t.Errorf("after %d of 8 trials have ended, the reason is %q; want %q in it", ended, got, want)
		}
	}
}

// TestCMAESBeginsAtTheBestOfEarlierSearches draws its first trials around it.
func TestCMAESBeginsAtTheBestOfEarlierSearches(t *testing.T) {
	mean := func(earlier ...search.Sweep) (x float64) {
		for _, one := range next(t, search.Ask{Search: numbers(2), Method: search.MethodCMAES, Maximize: true,
			Number: 40, Earlier: earlier}) {
			x += one.Params["x0"].(float64) / 40
		}
		return x
	}
	cold := mean()
	warm := mean(night("yesterday", 0.8, 1, func(x float64) sweep.Params { return sweep.Params{"x0": x, "x1": 0.5} }))
	if math.Abs(cold-0.5) > 0.1 || warm < 0.65 {
		t.Errorf("the mean of 40 first draws is %.2f, and %.2f when the best of yesterday is at 0.8; want 0.5, and "+
			"at least 0.65", cold, warm)
	}
}

// TestCMAESLearnsLevels: a level that is best is drawn more and more, also where nothing else is searched, and no level
// is given up.
func TestCMAESLearnsLevels(t *testing.T) {
	s := sweep.Search{Random: map[string]sweep.Distribution{"kind": {Choice: []any{"a", "b", "c", "d"}},
		"n": {Int: []int64{1, 400}}}}
	_, known := run(t, search.Ask{Search: s, Method: search.MethodCMAES}, 120, 4, func(p sweep.Params) float64 {
		if p["kind"] == "c" {
			return p["n"].(float64) / 1000
		}
		return 1 + p["n"].(float64)/1000
	})
	count := map[any]int{}
	for _, k := range known[60:] {
		count[k.Params["kind"]]++
	}
	if count["c"] < 40 || len(count) < 3 {
		t.Errorf("trials 60 to 119 draw %v; want the best level c in two thirds, and two others at times", count)
	}
}

// TestEvolutionIsFast: with a thousand finished trials a proposal takes less than 50 ms; the fastest of five, as tests
// share their processors.
func TestEvolutionIsFast(t *testing.T) {
	known := next(t, search.Ask{Search: spaces()["mixed"], Method: search.MethodRandom, Number: 1000})
	for _, method := range []string{search.MethodCMAES, search.MethodNSGA2} {
		r := search.Ask{Search: spaces()["mixed"], Method: method, Number: 1}
		for _, one := range known {
			r.Known = append(r.Known, search.Known{Trial: one.Trial, Params: one.Params, Status: search.TrialDone,
				Value: quality(one.Params)})
		}
		fastest := time.Hour
		for range 5 {
			start := time.Now()
			next(t, r)
			fastest = min(fastest, time.Since(start))
		}
		if fastest > 50*time.Millisecond {
			t.Errorf("%s: a proposal after 1,000 trials takes %v; want 50 ms at most", method, fastest)
		}
	}
}

// TestCMAESIgnoresCancelledTrials: what a person cancelled, or an extended sweep did not come to, belongs to no
// generation, and no trial of one counts as better because of it.
func TestCMAESIgnoresCancelledTrials(t *testing.T) {
	r := search.Ask{Search: numbers(3), Method: search.MethodCMAES, Number: 12}
	all := next(t, r)
	var known, cancelled []search.Known
	for i, one := range all {
		k := search.Known{Trial: one.Trial, Params: one.Params, Status: search.TrialDone,
			Value: one.Params["x0"].(float64)}
		if i < 4 {
			k.Status, k.Value = "cancelled", math.NaN()
			cancelled = append(cancelled, k)
			continue
		}
		known = append(known, k)
	}
	r.Number, r.Known = 1, known
	want := next(t, r)[0]
	r.Known = append(cancelled, known...)
	if got := next(t, r)[0]; got.Reason != want.Reason || got.Params["x0"] != want.Params["x0"] {
		t.Errorf("with 4 cancelled trials the next is %v: %s; without them %v: %s", got.Params, got.Reason, want.Params,
			want.Reason)
	}
}
