package sweep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// bred is a spec with a population, with edits.
func bred(edits ...string) string {
	begin, rest, _ := strings.Cut(good, "search:\n")
	_, end, _ := strings.Cut(rest, "machine:")
	search := "search:\n  method: pbt\n  population: 10\n  random: {learning_rate: {log_uniform: [0.01, 0.3]}}\n"
	return strings.NewReplacer(edits...).Replace(begin + search + "machine:" + end)
}

func TestParsePopulation(t *testing.T) {
	for text, want := range map[string]int{bred(): 10, bred("population: 10", "population: 25"): 25,
		bred("  population: 10\n", ""): 10} {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || s.Search.Population != want || s.Search.Listed() {
			t.Errorf("got a population of %d, listed %t, error %v; want %d, decided when claimed", s.Search.Population,
				s.Search.Listed(), err, want)
		}
	}
	for from, tc := range map[string]struct{ to, want string }{
		"population: 10": {"population: 1", "sweep.yaml:11:15: population is 1: use 2 to 200"},
		"trials: 50":     {"trials: 45", "trials is 45: a population of 10 takes a multiple of that"},
		"trials: 50\n":   {"trials: 10\n", "two generations or more"},
		"  random":       {"  fixed: [{}]\n  random", "search.fixed cannot be combined with search.method: pbt"},
		"  method: pbt": {"  method: pbt\n  stop: {rule: asha}",
			"search.stop cannot be combined with search.method: pbt"},
		"machine:": {"validate: {kfold: 5}\nmachine:", "validate cannot be combined with search.method: pbt"},
		"{learning_rate:": {"{num_iterations: {int: [10, 50]}, learning_rate:",
			"num_iterations cannot change during a training"},
		"method: pbt":         {"method: gp", "search.population is for method: pbt"},
		"  population: 10\n":  {"  population: 10\n  warm_start: auto\n", "warm_start"},
		"trials: 50\nseed: 7": {"trials: 1000\nseed: 7", "at most 50 generations"},
		"search:\n  method: pbt\n": {"search:\n  method: pbt\n  features: {try: forward}\n",
			"cannot be combined with search.features"},
	} {
		v := words()
		v.Goal = func(name string) (sweep.Goal, error) { return sweep.Goal{Name: name}, nil }
		_, err := sweep.ParseSpec("sweep.yaml", []byte(strings.Replace(bred(), from, tc.to, 1)), v)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q instead of %q: got error %v, want %q", tc.to, from, err, tc.want)
		}
	}
}

// TestDecodePopulation: a plan that would train a population otherwise than it says is refused, and so is an origin
// that lies ahead.
func TestDecodePopulation(t *testing.T) {
	p := plan()
	p.Spec.Search = sweep.Search{Method: sweep.MethodPBT, Population: 2,
		Random: map[string]sweep.Distribution{"learning_rate": {Uniform: []float64{0.1, 0.2}}}}
	p.Base = sweep.Params{"learning_rate": 0.1}
	p.Trials = nil
	for n := range 6 {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Open: true, Source: sweep.MethodPBT})
	}
	decode := func() error {
		data := must.Get(json.Marshal(p))(t)
		_, err := sweep.DecodePlan(data)
		return err
	}
	if err := decode(); err != nil {
		t.Fatalf("a population of 2 in 3 generations: got error %v, want none", err)
	}
	if got := p.Stages(); got[1] != 0 || got[2] != 1 || got[5] != 2 {
		t.Errorf("the trials are in the stages %v, want [0 0 1 1 2 2]", got)
	}
	p.Trials[3].Open, p.Trials[3].Params = false, p.Base
	if decode() == nil {
		t.Error("a population with a trial that stands in the plan is taken")
	}

	d := sweep.Decision{Format: 1, Sweep: p.Sweep, Trial: 3, Params: p.Base, Own: p.Base}
	model := sweep.Object{Name: "x", Bytes: 10, SHA256: strings.Repeat("a", 64)}
	for name, tc := range map[string]struct {
		from *sweep.Origin
		ok   bool
	}{
		"none":        {nil, true},
		"one":         {&sweep.Origin{Trial: 1, Model: model, Lineage: []sweep.Params{p.Base}}, true},
		"itself":      {&sweep.Origin{Trial: 3, Model: model, Lineage: []sweep.Params{p.Base}}, false},
		"no lineage":  {&sweep.Origin{Trial: 1, Model: model}, false},
		"no checksum": {&sweep.Origin{Trial: 1, Lineage: []sweep.Params{p.Base}}, false},
	} {
		d.From = tc.from
		data := must.Get(json.Marshal(d))(t)
		if _, err := sweep.DecodeDecision(data); (err == nil) != tc.ok {
			t.Errorf("a decision with the origin %q: got error %v, want one: %t", name, err, !tc.ok)
		}
	}
}
