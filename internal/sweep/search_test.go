package sweep_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// featured returns the good spec without trials and with these lines as its search, after other edits: pairs of a text
// and its replacement.
func featured(search string, edits ...string) string {
	begin, rest, _ := strings.Cut(good, "search:\n")
	_, end, _ := strings.Cut(rest, "machine:")
	return strings.NewReplacer(append(edits, "trials: 50\n", "")...).Replace(begin + "search:\n" + search + "machine:" +
		end)
}

// TestParseFeatures: a search of features is read with its groups, and needs no number of trials. All its trials are
// listed in the plan, except with a forward selection.
func TestParseFeatures(t *testing.T) {
	s, err := sweep.ParseSpec("sweep.yaml",
		[]byte(featured("  features: {try: drop_one, groups: {site: [site, \"site:*\"], user: [age]}}\n")), words())
	must.Do(t, err)
	want := &sweep.Features{Try: "drop_one", Groups: map[string][]string{"site": {"site", "site:*"}, "user": {"age"}}}
	if !reflect.DeepEqual(s.Search.Features, want) || s.Trials != 0 || !s.Search.Listed() {
		t.Errorf("got %+v, %d trials, listed %t; want %+v, no number of trials, listed", s.Search.Features, s.Trials,
			s.Search.Listed(), want)
	}
	if s, err = sweep.ParseSpec("sweep.yaml", []byte(featured("  features: {try: forward}\n")), words()); err != nil ||
		s.Search.Listed() {
		t.Errorf("a forward selection: error %v, listed %t; want none, and trials that are decided when they are "+
			"claimed", err, s.Search.Listed())
	}
}

// TestParseFeaturesRefuses: a search of features with missing or unknown parts, or beside what it cannot be combined
// with, is refused with its place. from and to are an edit of the spec.
func TestParseFeaturesRefuses(t *testing.T) {
	for _, tc := range []struct{ search, from, to, want string }{
		{"  features:\n", "", "", "features has no value"},
		{"  features: {try: dropone}\n", "", "",
			`try is "dropone" (did you mean "drop_one"?): use one of [drop_one add_one subsets forward]`},
		{"  features: {}\n", "", "", `try is ""`},
		{"  features: {try: subsets}\n", "", "", "try: subsets needs trials"},
		{"  features: {try: drop_one, groups: {a: []}}\n", "", "", `the group "a" has no columns`},
		{"  features: {try: drop_one, groups: {\"\": [age]}}\n", "", "", "a group has no name"},
		{"  features: {try: forward}\n", "seed: 7", "seed: 7\ntrials: 2000",
			"try: forward takes at most 1000; use fewer, or leave it out"},
		{"  features: {try: drop_one, groups: {}}\n", "", "", "there are no groups"},
		{"  features: {try: drop_one}\n  fixed: [{}]\n", "", "",
			"search.fixed cannot be combined with search.features"},
		{"  features: {try: drop_one}\n  random: {num_leaves: {int: [2, 9]}}\n", "", "",
			"search.random cannot be combined with search.features"},
		{"  features: {try: forward}\n  stop: {rule: asha}\n", "", "",
			"search.stop cannot be combined with try: forward"},
		{"  features: {try: drop_one}\n", "seed: 7", "seed: 7\ntrials: 0", "trials is 0: use 1 to 10000"},
	} {
		text := featured(tc.search)
		if tc.from != "" {
			text = strings.Replace(text, tc.from, tc.to, 1)
		}
		_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		placed(t, tc.search+tc.to, err, tc.want)
	}
}

// TestKept: Kept recognizes from a trial's parameters the groups that Params made them of, and that they leave out only
// a part of a group. Describe says the set in the fewest words.
func TestKept(t *testing.T) {
	f := &sweep.Features{Groups: map[string][]string{"a": {"x", "y"}, "b": {"z"}, "c": {"w"}}, Ignored: []string{"v"}}
	for _, kept := range [][]bool{{true, true, true}, {false, true, true}, {true, false, false},
		{false, false, false}} {
		if got, ok := f.Kept(f.Params(kept)); !ok || !reflect.DeepEqual(got, kept) {
			t.Errorf("the groups %v make %v, which has the groups %v, %t; want the same", kept, f.Params(kept), got, ok)
		}
	}
	if _, ok := f.Kept(sweep.Params{"ignore_column": "name:v,x"}); ok {
		t.Error("parameters that ignore x alone, half of group a, are taken as a set of groups; want them refused")
	}
	if _, ok := f.Kept(nil); ok {
		t.Error("a trial without parameters is taken as a set of groups; want it refused")
	}
	for want, kept := range map[string][]bool{"all groups": {true, true, true}, "no group": {false, false, false},
		"all but b": {true, false, true}, "only c": {false, false, true}} {
		if got := f.Describe(kept); got != want {
			t.Errorf("%v is described as %q, want %q", kept, got, want)
		}
	}
}

// TestDescribeMany: a set of more than twenty groups is described by the first twenty and the number of the others.
func TestDescribeMany(t *testing.T) {
	f := &sweep.Features{Groups: map[string][]string{}}
	kept := make([]bool, 60)
	for i := range kept {
		f.Groups[string(rune('A'+i))] = []string{"x"}
		kept[i] = i < 25
	}
	if got, want := f.Describe(kept),
		"only A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T and 5 more"; got != want {
		t.Errorf("25 of 60 groups are described as %q, want %q", got, want)
	}
}

// TestStagesOfASelection: the trials of a step are in a stage of their own, after the steps before, and the refit is in
// the last one. Of three groups the first step has three candidates, beside two listed sets, and the second has two.
// Sets that are all listed wait for nothing.
func TestStagesOfASelection(t *testing.T) {
	p := plan()
	p.Spec.Search.Features = &sweep.Features{Try: sweep.TryForward, Rest: 2,
		Groups: map[string][]string{"a": {"x"}, "b": {"y"}, "c": {"z"}}}
	p.Trials = nil
	for n := range 7 {
		p.Trials = append(p.Trials, sweep.Trial{Number: n, Open: n > 1})
	}
	if got, want := p.Stages(), []int{0, 0, 0, 0, 0, 1, 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("the trials of a selection among three groups are in the stages %v, want %v", got, want)
	}

	p.Folds = sweep.NewFolds("kfold", make([]sweep.Round, 2), false)
	p.Trials = p.Folds.Expand(p.Trials)
	if got, want := p.Stages(), []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("in two folds they and the refit are in the stages %v, want %v", got, want)
	}

	p.Spec.Search.Features.Try = sweep.TryDropOne
	for n := range p.Trials {
		p.Trials[n].Open = false
	}
	if got := p.Stages(); got[13] != 0 || got[14] != 2 {
		t.Errorf("sets that are listed, in folds, are in the stages %v; want the refit in 2 and all others in 0", got)
	}
}

// bred returns the good spec with a population of 10 and a range as its search, after edits: pairs of a text and its
// replacement.
func bred(edits ...string) string {
	begin, rest, _ := strings.Cut(good, "search:\n")
	_, end, _ := strings.Cut(rest, "machine:")
	search := "search:\n  method: pbt\n  population: 10\n  random: {learning_rate: {log_uniform: [0.01, 0.3]}}\n"
	return strings.NewReplacer(edits...).Replace(begin + search + "machine:" + end)
}

// TestParsePopulation: a population has 10 members unless the spec says otherwise. Trials that are not whole
// generations, and what a population cannot be combined with, are refused. So is a search over the number of trees, by
// whatever name.
func TestParsePopulation(t *testing.T) {
	for text, want := range map[string]int{bred(): 10, bred("population: 10", "population: 25"): 25,
		bred("  population: 10\n", ""): 10} {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || s.Search.Population != want || s.Search.Listed() {
			t.Errorf("got a population of %d, listed %t, error %v; want %d, decided when claimed", s.Search.Population,
				s.Search.Listed(), err, want)
		}
	}
	// What is refused: the spec with from replaced by to, and a part of the error.
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
		"  random: {learning_rate:": {"  random: {n_estimators: {int: [10, 50]}, learning_rate:",
			"sweep.yaml:12:27: n_estimators cannot change during a training"},
		"method: pbt":         {"method: gp", "search.population is for method: pbt"},
		"  population: 10\n":  {"  population: 10\n  warm_start: auto\n", "warm_start"},
		"trials: 50\nseed: 7": {"trials: 1000\nseed: 7", "at most 50 generations"},
		"search:\n  method: pbt\n": {"search:\n  method: pbt\n  features: {try: forward}\n",
			"cannot be combined with search.features"},
	} {
		v := words()
		v.Goal = func(name string) (sweep.Goal, error) { return sweep.Goal{Name: name}, nil }
		_, err := sweep.ParseSpec("sweep.yaml", []byte(strings.Replace(bred(), from, tc.to, 1)), v)
		must.Say(t, fmt.Sprintf("%q instead of %q", tc.to, from), err, tc.want)
	}
}

// TestDecodePopulation: a plan of a population is read, with its generations as stages, and refused if one of its
// trials has parameters already, if they are no whole generations, or too many, or if trials are stopped. A decision is
// refused if the trial whose model it continues is not an earlier one, or has no lineage or checksum.
func TestDecodePopulation(t *testing.T) {
	base := sweep.Params{"learning_rate": 0.1}
	of := func(trials int) (all []sweep.Trial) {
		for n := range trials {
			all = append(all, sweep.Trial{Number: n, Open: true, Source: sweep.MethodPBT})
		}
		return all
	}
	population := func() *sweep.Plan { // of 2 in 3 generations
		p := plan()
		p.Spec.Search = sweep.Search{Method: sweep.MethodPBT, Population: 2,
			Random: map[string]sweep.Distribution{"learning_rate": {Uniform: []float64{0.1, 0.2}}}}
		p.Base, p.Trials = base, of(6)
		return p
	}
	p := population()
	if got, want := p.Stages(), []int{0, 0, 1, 1, 2, 2}; !reflect.DeepEqual(got, want) {
		t.Errorf("the trials are in the stages %v, want %v", got, want)
	}
	refusedPlans(t, population, map[string]func(*sweep.Plan){
		"trial 3 of a population":         func(p *sweep.Plan) { p.Trials[3].Open, p.Trials[3].Params = false, base },
		"a population of 2 in 5 trials":   func(p *sweep.Plan) { p.Trials = of(5) },
		"a population of 2 in 102 trials": func(p *sweep.Plan) { p.Trials = of(102) },
		"a population of 2 in 6 trials": func(p *sweep.Plan) {
			p.Spec.Search.Stop = &sweep.Stop{Rule: sweep.StopASHA, By: sweep.ByTrees, Eta: 3}
		},
	})

	// Decisions for trial 3, by the trial whose model it continues.
	d := sweep.Decision{Format: 1, Sweep: p.Sweep, Trial: 3, Params: base, Own: base}
	model := sweep.Object{Name: "x", Bytes: 10, SHA256: strings.Repeat("a", 64)}
	for name, tc := range map[string]struct {
		from *sweep.Origin
		ok   bool
	}{
		"none":        {nil, true},
		"one":         {&sweep.Origin{Trial: 1, Model: model, Lineage: []sweep.Params{base}}, true},
		"itself":      {&sweep.Origin{Trial: 3, Model: model, Lineage: []sweep.Params{base}}, false},
		"no lineage":  {&sweep.Origin{Trial: 1, Model: model}, false},
		"no checksum": {&sweep.Origin{Trial: 1, Lineage: []sweep.Params{base}}, false},
	} {
		d.From = tc.from
		data := must.Get(json.Marshal(d))(t)
		if _, err := sweep.DecodeDecision(data); (err == nil) != tc.ok {
			t.Errorf("a decision with the origin %q: got error %v, want one: %t", name, err, !tc.ok)
		}
	}
}
