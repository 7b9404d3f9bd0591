package search_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// learning is a plan of open trials over three parameters, after one that is listed.
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

// scored decides that many trials of a plan, one after the other, each with a score once it has ended.
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

// TestDecide: a constraint may refer to a parameter of all trials, no configuration comes twice, refused ones do not
// come at all, and a method that learns beats one that does not.
func TestDecide(t *testing.T) {
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

	p := learning(sweep.MethodAuto, 31)
	seen := scoredBy(t, p, 12)
	first := must.Get(search.Decide(p, 20, seen, nil))(t)
	second, err := search.Decide(p, 20, seen, []sweep.Params{first.Params})
	if err != nil || fmt.Sprint(second.Params) == fmt.Sprint(first.Params) {
		t.Errorf("%v was refused, and %v is proposed, error %v; want another", first.Params, second.Params, err)
	}
}

// TestAGridOverOtherParametersTakesNothing: a finite space is enumerated to its end, although a grid over other
// parameters has tried its parameters' defaults.
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
			t.Errorf("%s: %v were proposed, expected 15 and 31", method, found)
		}
		if s, err := search.Decide(p, 4, seen, nil); !problem.Is(err, problem.Input) {
			t.Errorf("%s: after both of two configurations: %+v, error %v; want one of kind input", method, s, err)
		}
	}
}

// TestReplay: a decision follows from what it has seen, and a changed one does not.
func TestReplay(t *testing.T) {
	p := learning(sweep.MethodGP, 31)
	seen := scoredBy(t, p, 15)
	s := must.Get(search.Decide(p, 17, seen, nil))(t)
	d := &sweep.Decision{Trial: 17, Own: s.Params, Source: s.Source, Reason: s.Reason, Seen: seen}
	if err := search.Replay(p, d); err != nil {
		t.Errorf("made again: %v; want the same", err)
	}

	d.Seen = seen[:14]
	if err := search.Replay(p, d); err == nil || !strings.Contains(err.Error(), "trial 17 was decided as") {
		t.Errorf("made again from one result less: %v; want an error about trial 17", err)
	}
}

// BenchmarkDecide is one decision with 1,000 finished trials.
func BenchmarkDecide(b *testing.B) {
	p := learning(sweep.MethodGP, 1002)
	seen := scoredBy(b, learning(sweep.MethodHalton, 1002), 1000)
	b.ResetTimer()
	for b.Loop() {
		must.Get(search.Decide(p, 1001, seen, nil))(b)
	}
}
