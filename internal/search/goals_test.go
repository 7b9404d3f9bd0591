package search_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// twoGoals is the spec of a sweep with precision and model size as objectives.
func twoGoals(within string) sweep.Spec {
	return sweep.Spec{Goals: []sweep.Goal{{Name: "average_precision", Maximize: true}, {Name: "model_bytes"}},
		Pick: &sweep.Pick{Best: "average_precision", Within: within}}
}

// TestPickOfSeveralObjectives: among the trials close enough to the best in the first objective the second decides, and
// the reason says so.
func TestPickOfSeveralObjectives(t *testing.T) {
	se := 0.02
	boardOf := func(spec sweep.Spec) (*sweep.Plan, sweep.Board) {
		p := &sweep.Plan{Sweep: "s", Maximize: true, Spec: spec}
		var results []sweep.Result
		for i, v := range [][2]float64{{0.80, 900}, {0.795, 300}, {0.785, 200}, {0.70, 100}, {0.79, 400},
			{0.795, 300}} {
			p.Trials = append(p.Trials, sweep.Trial{Number: i})
			results = append(results, sweep.Result{Sweep: "s", Trial: i, Status: sweep.StatusDone, Score: v[0],
				Trees: 9, ScoreSE: &se, Model: &sweep.Object{Bytes: int64(v[1])}})
		}
		return p, sweep.Fold(p, results)
	}

	for within, tc := range map[string]struct {
		candidates []int
		reason     string
	}{
		"1%": {[]int{1, 5, 0, 4, 2, 3},
			"trial 1 has the lowest model_bytes, 300, of 3 trials within 1% of the best average_precision: it has " +
				"0.795, and trial 0, which has 0.8, has model_bytes 900"},
		"1se": {[]int{2, 1, 5, 4, 0, 3},
			"trial 2 has the lowest model_bytes, 200, of 5 trials within 0.02 (1se) of the best average_precision"},
		"0": {[]int{0, 1, 5, 4, 2, 3},
			"trial 0 has the highest average_precision, 0.8, and no other is within 0 of it"},
		"0.011": {[]int{1, 5, 4, 0, 2, 3}, "trial 1 has the lowest model_bytes, 300, of 4 trials within 0.011"},
	} {
		p, b := boardOf(twoGoals(within))
		s := search.Pick(p, b, "average_precision", nil, nil)
		if !slices.Equal(s.Candidates, tc.candidates) || !strings.HasPrefix(s.Reason, tc.reason) {
			t.Errorf("within %s: %v, %s\nexpected %v, %s", within, s.Candidates, s.Reason, tc.candidates, tc.reason)
		}
	}

	// A winner that cannot be used is recorded, though another one has a better score.
	p, b := boardOf(twoGoals("1%"))
	s := search.Pick(p, b, "average_precision", nil, map[int]string{1: "its scores differ"})
	if want := []sweep.Rejected{{Trial: 1, Reason: "its scores differ"}}; !slices.Equal(s.Candidates,
		[]int{5, 0, 4, 2, 3}) || !slices.Equal(s.Rejected, want) ||
		!strings.HasSuffix(s.Reason, "; of the others, 1 may not win") {
		t.Errorf("without the rule's first: %+v; want 5 first, and %v rejected", s, want)
	}

	// The smallest model first, among those at most twice as large as the best.
	spec := twoGoals("100%")
	spec.Pick.Best = "model_bytes"
	p, b = boardOf(spec)
	s = search.Pick(p, b, "average_precision", nil, map[int]string{0: "its scores differ"})
	if !slices.Equal(s.Candidates, []int{2, 3, 1, 5, 4}) || len(s.Rejected) != 1 {
		t.Errorf("by bytes first: %+v, expected 2, then 3, 1, 5 and 4, and 0 rejected", s)
	}

	var front []int
	for _, row := range b.Rows {
		if row.Front {
			front = append(front, row.Trial.Number)
		}
	}
	if !slices.Equal(front, []int{0, 1, 5, 2, 3}) {
		t.Errorf("the front is %v, expected all but 4, which 1 beats in both", front)
	}
}

// dominated is how much of the area dominated by the best front a sweep of so many trials dominates, each decided after
// the one before.
func dominated(t *testing.T, method string, seed uint64, trials int) float64 {
	t.Helper()
	p := &sweep.Plan{Format: 1, Maximize: true, Base: sweep.Params{"seed": 1.0}, Spec: twoGoals("1%")}
	p.Spec.Seed = seed
	p.Spec.Search = sweep.Search{Method: method,
		Random: map[string]sweep.Distribution{"rate": {LogUniform: []float64{0.01, 1}},
			"leaves": {LogInt: []int64{4, 1000}},
			"trees":  {LogInt: []int64{10, 1000}}, "share": {Uniform: []float64{0, 1}},
			"kind": {Choice: []any{"a", "b", "c"}}}}
	for n := range trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Open: true})
	}

	var seen []sweep.Seen
	var points [][2]float64
	for n := range trials {
		s := must.Get(search.Decide(p, n, seen, nil))(t)
		values := precisionAndBytes(s.Params)
		seen = append(seen, sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &values[0], Values: values,
			Params: s.Params})
		points = append(points, [2]float64{values[0], math.Log10(values[1])})
	}
	return area(points) / best()
}

// best is the area dominated by the front of fifty thousand random configurations.
var best = sync.OnceValue(func() float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	var points [][2]float64
	for range 50_000 {
		values := precisionAndBytes(sweep.Params{"rate": math.Pow(10, -2*rng.Float64()),
			"leaves": math.Pow(10, 0.6+2.4*rng.Float64()), "trees": math.Pow(10, 1+2*rng.Float64()),
			"share": rng.Float64(), "kind": "b"})
		points = append(points, [2]float64{values[0], math.Log10(values[1])})
	}
	return area(points)
})

// precisionAndBytes resembles a sweep of boosted trees: larger models are better up to a point, if rate and the rest
// match.
func precisionAndBytes(p sweep.Params) []float64 {
	of := func(name string) float64 { return p[name].(float64) }
	kind := map[any]float64{"a": 0.03, "b": 0, "c": 0.015}[p["kind"]]
	size := math.Log10(of("leaves") * of("trees"))
	off := math.Log10(of("rate") * of("trees") / 20)
	precision := 0.8 - 0.3*math.Exp(-0.9*(size-1.6)) - 0.05*off*off - 0.08*math.Pow(of("share")-0.7,
		2) - kind - 0.02*math.Pow(max(0, size-4.5), 2)
	return []float64{precision, 60*of("leaves")*of("trees") + 500}
}

// area is what points dominate, between a precision of 0.3 and a hundred million bytes.
func area(points [][2]float64) float64 {
	slices.SortFunc(points, func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) })
	const worst, largest = 0.3, 8
	sum, best := 0.0, worst
	for _, p := range points {
		if p[0] > best && p[1] < largest {
			sum += (p[0] - best) * (largest - p[1])
			best = p[0]
		}
	}
	return sum
}

// TestTwoObjectives: after as many trials, a method that learns dominates more of the area below the best front than
// random draws.
func TestTwoObjectives(t *testing.T) {
	const seeds, trials = 2, 30
	missing := map[string]float64{}
	for seed := range uint64(seeds) {
		for _, method := range []string{sweep.MethodGP, sweep.MethodRandom} {
			missing[method] += (1 - dominated(t, method, seed, trials)) / seeds
		}
	}
	logMissing(t, missing, trials, seeds)
	if !(missing["gp"] < 0.75*missing["random"]) {
		t.Errorf("%d trials leave %.3v of what the best front dominates; expected gp to leave less than three "+
			"quarters of what random does", trials, missing)
	}
}

// logMissing prints what docs/LAB.md cites.
func logMissing(t *testing.T, missing map[string]float64, trials, seeds int) {
	t.Helper()
	for _, method := range slices.Sorted(maps.Keys(missing)) {
		t.Logf("of the best front's area %d trials of %s leave %.3f, mean of %d seeds", trials, method, missing[method],
			seeds)
	}
}

// TestDecideForSeveralObjectives: a decision can be reproduced, another trial aims at another part of the front, and
// results that lack an objective are skipped.
func TestDecideForSeveralObjectives(t *testing.T) {
	p := &sweep.Plan{Format: 1, Maximize: true, Base: sweep.Params{"seed": 1.0}, Spec: twoGoals("1%")}
	p.Spec.Search = sweep.Search{Method: sweep.MethodGP,
		Random: map[string]sweep.Distribution{"x": {Uniform: []float64{0, 1}}}}
	var seen []sweep.Seen
	for n := range 16 {
		x := float64(n) / 16
		s := sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &x, Params: sweep.Params{"x": x},
			Values: []float64{x, math.Exp(9 * x)}}
		if n%5 == 0 {
			s.Values = nil
		}
		p.Trials, seen = append(p.Trials, sweep.Trial{Number: n, Open: true}), append(seen, s)
	}

	places := map[string]bool{}
	for n := 16; n < 24; n++ {
		s := must.Get(search.Decide(p, n, seen, nil))(t)
		if err := search.Replay(p, &sweep.Decision{Trial: n, Own: s.Params, Source: s.Source, Reason: s.Reason,
			Seen: seen}); err != nil {
			t.Errorf("trial %d: %v", n, err)
		}
		if !strings.Contains(s.Reason, "; weights average_precision 0.") {
			t.Errorf("the reason %q does not say by which weights", s.Reason)
		}
		places[fmt.Sprintf("%.1f", s.Params["x"])] = true
	}
	if len(places) < 3 {
		t.Errorf("eight trials ask for %v only, expected several places of the front", places)
	}

	q := p.Spec
	found, err := search.Fitting(p,
		[]sweep.Result{{Trial: 1, Status: sweep.StatusDone, Score: 0.5, Params: sweep.Params{"x": 0.5}},
			{Trial: 2, Status: sweep.StatusDone, Score: 0.4, Params: sweep.Params{"x": 0.4},
				Model: &sweep.Object{Bytes: 7}}}, 5)
	want := []sweep.Seen{scored(2, sweep.Params{"x": 0.4}, 0.4)}
	want[0].Values = []float64{0.4, 7}
	if err != nil || !reflect.DeepEqual(found, want) {
		t.Errorf("of two earlier results, of which one has no bytes, %+v fit %v, error %v; expected %+v", found,
			q.Goals, err, want)
	}
}
