package search_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"coppice/internal/search"
	"coppice/internal/sweep"
)

// TestNSGA2Parents: the parents of a child are of the fronts that its reason names, counted one by one here; of two
// fronts the first is chosen more often, and a trial without all of its values is no parent.
func TestNSGA2Parents(t *testing.T) {
	p := &sweep.Plan{Format: sweep.FormatGoals, Maximize: true, Base: sweep.Params{"seed": 1.0}, Spec: twoGoals("1%")}
	p.Spec.Search = sweep.Search{Method: sweep.MethodNSGA2,
		Random: map[string]sweep.Distribution{"x": {Uniform: []float64{0, 1}}, "k": {Choice: []any{"a", "b"}}}}
	rng := rand.New(rand.NewPCG(1, 2))
	values := map[int][]float64{}
	var seen []sweep.Seen
	for n := range 40 {
		v := []float64{float64(rng.IntN(12)), float64(rng.IntN(12))}
		s := sweep.Seen{Trial: n, Status: sweep.StatusDone, Score: &v[0], Params: sweep.Params{"x": rng.Float64(),
			"k": "a"}}
		if n%4 > 0 {
			s.Values, values[n] = v, v
		}
		p.Trials, seen = append(p.Trials, sweep.Trial{Number: n, Open: true}), append(seen, s)
	}

	fronts, first := frontsOf(values), 0
	for n := 40; n < 100; n++ {
		s, err := search.Decide(p, n, seen, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := search.Replay(p, &sweep.Decision{Trial: n, Own: s.Params, Source: s.Source, Reason: s.Reason,
			Seen: seen}); err != nil {
			t.Errorf("trial %d: %v", n, err)
		}

		var x, y, frontX, frontY, best, results int
		if _, err := fmt.Sscanf(s.Reason,
			"a child of trials %d and %d, of fronts %d and %d among the best %d of %d results", &x, &y, &frontX,
			&frontY, &best, &results); err != nil {
			t.Fatalf("trial %d: the reason %q does not name two parents: %v", n, s.Reason, err)
		}
		if fronts[x] != frontX || fronts[y] != frontY || best != 12 || results != 30 {
			t.Errorf("trial %d: %s; want fronts %d and %d, 12 of 30", n, s.Reason, fronts[x], fronts[y])
		}
		if frontX == 1 {
			first++
		}
	}
	if first < 20 {
		t.Errorf("%d of 60 children have a first parent of the first front, want a third at least", first)
	}
}

// frontsOf counts fronts from 1: a trial's is one after the last of those that dominate it. The first value is to be
// high, the second low.
func frontsOf(values map[int][]float64) map[int]int {
	of := map[int]int{}
	for range values { // each round settles one front at least
		for n, v := range values {
			of[n] = 1
			for m, w := range values {
				if w[0] >= v[0] && w[1] <= v[1] && (w[0] > v[0] || w[1] < v[1]) {
					of[n] = max(of[n], of[m]+1)
				}
			}
		}
	}
	return of
}

// TestTwoObjectivesForNSGA2: with enough trials it comes closer to the best front than random draws, by a third at
// least.
func TestTwoObjectivesForNSGA2(t *testing.T) {
	const seeds, trials = 8, 100
	missing := map[string]float64{}
	for seed := range uint64(seeds) {
		for _, method := range []string{sweep.MethodNSGA2, sweep.MethodTPE, sweep.MethodRandom} {
			missing[method] += (1 - dominated(t, method, seed, trials)) / seeds
		}
	}
	logMissing(t, missing, trials, seeds)
	if missing["nsga2"] > missing["random"]*2/3 {
		t.Errorf("%d trials leave %.3v of what the best front dominates; want nsga2 to leave at most two thirds of "+
			"what random does", trials, missing)
	}
}

// TestNSGA2WithOneObjective is a genetic algorithm: it comes closer than random draws.
func TestNSGA2WithOneObjective(t *testing.T) {
	loss := func(p sweep.Params) float64 {
		sum := 0.0
		for i := range 5 {
			sum += square(p[fmt.Sprintf("x%d", i)].(float64) - 0.3)
		}
		return sum
	}
	mean := map[string]float64{}
	for _, method := range []string{search.MethodNSGA2, search.MethodRandom} {
		for seed := range uint64(3) {
			best, _ := run(t, search.Ask{Search: numbers(5), Method: method, Seed: seed}, 100, 4, loss)
			mean[method] += best / 3
		}
	}
	if mean[search.MethodNSGA2] > mean[search.MethodRandom]/3 {
		t.Errorf("after 100 trials the mean loss is %.3g, of random draws %.3g; want at most a third",
			mean[search.MethodNSGA2], mean[search.MethodRandom])
	}
}
