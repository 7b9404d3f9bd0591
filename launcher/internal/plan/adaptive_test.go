package plan_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

const learning = "  random: {num_leaves: {log_int: [15, 255]}, learning_rate: {log_uniform: [0.01, 0.3]}, " +
	"min_data_in_leaf: {log_int: [5, 500]}}\n  method: auto\n"

// learner is the spec with a search that learns.
func learner(t *testing.T, edits ...string) *sweep.Spec {
	t.Helper()
	return must.Get(sweep.ParseSpec("sweep.yaml", []byte(learnerText(edits...)), words()))(t)
}

// learnerText is the text of spec with a search that learns (learning) and 20 trials, and with edits (see parse).
func learnerText(edits ...string) string {
	text := strings.NewReplacer("  random: {num_leaves: {log_int: [15, 255]}}\n", learning, "trials: 8",
		"trials: 20").Replace(spec)
	return strings.NewReplacer(edits...).Replace(text)
}

// sources counts the trials by where they are from, in the order of their first: "fixed 2, auto 13".
func sources(p *plan.Planned) string {
	count := map[string]int{}
	var order []string
	for _, t := range p.Trials {
		if count[t.Source]++; count[t.Source] == 1 {
			order = append(order, t.Source)
		}
	}
	for i, s := range order {
		order[i] = fmt.Sprintf("%s %d", s, count[s])
	}
	return strings.Join(order, ", ")
}

// TestASearchThatLearnsLeavesTrialsOpen: with method: auto the plan lists only the trials that depend on no result (two
// fixed ones and a portfolio of five). The other trials are open, and Expected has parameters in their place. The
// plan's JSON is read back with the same fingerprint.
func TestASearchThatLearnsLeavesTrialsOpen(t *testing.T) {
	p := built(t, learner(t), manifest(all...))
	if got, want := sources(p), "fixed 2, portfolio 5, auto 13"; got != want {
		t.Errorf("trials are from %s, want %s", got, want)
	}
	for i, trial := range p.Trials {
		if want := i >= 7; trial.Open != want || (trial.Params == nil) != want {
			t.Errorf("trial %d: open %t, parameters %v; want it open %t", i, trial.Open, trial.Params, want)
		}
	}
	if len(p.Expected) != 20 || slices.ContainsFunc(p.Expected, func(t sweep.Trial) bool { return t.Params == nil }) {
		t.Errorf("%d trials are expected; want 20, each with parameters", len(p.Expected))
	}
	noted(t, p, "13 trials are decided when they are claimed")

	// It is read as it was written.
	if read := readBack(t, p); read.Fingerprint() != p.Fingerprint() {
		t.Errorf("the plan that was read has the fingerprint %s, want %s", read.Fingerprint(), p.Fingerprint())
	}
}

// TestOpenTrialsMayBeLarge: a trial is given at least as much memory as the largest configuration of the space needs,
// whatever the base's parameters are. Leaves of one row need more only once there may be many leaves. From a base of 31
// leaves with 645 rows each, neither parameter alone makes a difference: 20,000 rows fill no more leaves of that size,
// since 20,000 / 645 is 31, and there may be no more than 31 smaller ones.
func TestOpenTrialsMayBeLarge(t *testing.T) {
	small := manifest(all...)
	for i := range small.Splits {
		small.Splits[i].Rows = 20_000
	}
	wide := []string{"log_int: [15, 255]", "log_int: [15, 4095]", "log_int: [5, 500]", "log_int: [1, 1000]"}
	for _, tc := range []struct {
		base    string // the spec's params
		m       *dataset.Manifest
		space   []string // edits of the search's ranges
		largest string
	}{
		{"eta: 0.05", manifest(all...), nil, "{num_leaves: 255, min_data_in_leaf: 5}"},
		{"eta: 0.05", small, wide, "{num_leaves: 4095, min_data_in_leaf: 1}"},
		{"eta: 0.05, num_leaves: 31, min_data_in_leaf: 645", small, wide, "{num_leaves: 4095, min_data_in_leaf: 1}"},
		{"eta: 0.05, num_leaves: 4095, min_data_in_leaf: 1000", small, wide, "{num_leaves: 4095, min_data_in_leaf: 1}"},
	} {
		open := built(t, learner(t, append(slices.Clone(tc.space), "params: {eta: 0.05}", "params: {"+tc.base+"}")...),
			tc.m)
		most := built(t, parse(t, "fixed: [{}, {learning_rate: 0.2}]", "fixed: ["+tc.largest+"]"), tc.m)
		if got, want := open.Sizing.TrialBytes, most.Sizing.TrialBytes; got < want {
			t.Errorf("params {%s}: open trials are given %d bytes; the largest configuration of the space needs %d",
				tc.base, got, want)
		}
	}
}

// TestOtherMethods: the trials come from the method that the spec names. They are open only if the method looks at
// results. Without a method the trials are byte for byte those of random.
func TestOtherMethods(t *testing.T) {
	for method, want := range map[string]string{"gp": "fixed 2, gp 18", "halton": "fixed 2, halton 18",
		"random": "fixed 2, random 18"} {
		p := built(t, learner(t, "method: auto", "method: "+method), manifest(all...))
		must.Equal(t, sources(p), want, "%s: trials are from", method)
		if listed := method == "halton" || method == "random"; p.Open() == listed {
			t.Errorf("%s: open %t; want open trials only where results are looked at", method, p.Open())
		}
	}

	// A sweep without a method has the trials that it always had.
	plain := built(t, learner(t, "  method: auto\n", ""), manifest(all...))
	random := built(t, learner(t, "method: auto", "method: random"), manifest(all...))
	a, _ := json.Marshal(plain.Trials)
	b, _ := json.Marshal(random.Trials)
	if string(a) != string(b) || strings.Contains(string(a), "open") || strings.Contains(string(a), "reason") {
		t.Errorf("without a method the trials begin with\n%.300s\nwant those of method: random\n%.300s", a, b)
	}
}

// TestWarmStart: with warm_start, the best trials of earlier sweeps follow the fixed ones, and a portfolio of a quarter
// of the trials follows them. At least half of the trials are new. Notes and reasons say what is from where. What
// earlier sweeps have found does not change the sweep's id or fingerprint.
func TestWarmStart(t *testing.T) {
	s := learner(t, "method: auto", "method: auto\n  warm_start: auto")
	night := func(n int, trials ...sweep.Seen) sweep.Earlier {
		return sweep.Earlier{Sweep: sweep.ID(fmt.Sprintf("night-%d", n)), Dataset: "clicks@0123456789abcde" +
			fmt.Sprint(n), Created: time.Unix(int64(n), 0).UTC(), Trials: trials}
	}
	found := func(trial int, score, leaves float64) sweep.Seen {
		return sweep.Seen{Trial: trial, Status: sweep.StatusDone, Score: &score,
			Params: sweep.Params{"num_leaves": leaves, "learning_rate": 0.1, "min_data_in_leaf": 20.0}}
	}
	build := func(s *sweep.Spec, earlier ...sweep.Earlier) *plan.Planned {
		t.Helper()
		p := must.Get(plan.Build(plan.Inputs{Spec: s, Manifest: manifest(all...),
			Job: func(id sweep.ID) string { return "jobs/" + string(id) }, Now: time.Unix(9, 0),
			Earlier: func(*sweep.Plan) ([]sweep.Earlier, error) { return earlier, nil }}))(t)
		return p
	}

	p := build(s, night(3, found(4, 0.9, 100), found(5, 0.8, 50)), night(2, found(1, 0.95, 77), found(2, 0.85, 100)))
	if got, want := sources(p), "fixed 2, warm 3, portfolio 5, auto 10"; got != want {
		t.Fatalf("trials are from %s, want %s", got, want)
	}
	// First the best of each night, the newest night first, then the second best. Night 2's second, trial 2, has the
	// parameters of night 3's best, so it is left out. Trials 0 and 1 are the fixed ones.
	for i, want := range []float64{100, 77, 50} {
		if trial := p.Trials[2+i]; trial.Params["num_leaves"] != want || !strings.Contains(trial.Reason, "night-") {
			t.Errorf("trial %d has %v leaves because %q; want %v, and the night named", trial.Number,
				trial.Params["num_leaves"], trial.Reason, want)
		}
	}
	noted(t, p, "2 results of night-3, on clicks@0123456789abcde3", "trial 2 is number 1 of night-3, with 0.9",
		"3 of 20 trials start from an earlier winner, 15 are new") // without the 2 fixed ones

	// Of five trials, two of which are fixed, at most half of the other three are earlier winners, rounded down to one,
	// and a quarter of them, 0.75, is one of the portfolio.
	few := build(learner(t, "method: auto", "method: auto\n  warm_start: auto", "trials: 20", "trials: 5"),
		night(3, found(1, 0.9, 100), found(2, 0.8, 90), found(3, 0.7, 80)))
	if got, want := sources(few), "fixed 2, warm 1, portfolio 1, auto 1"; got != want {
		t.Errorf("trials are from %s, want %s", got, want)
	}

	// With other earlier results it is the same sweep, so that the same command finds the one that runs.
	if other := build(s); other.Fingerprint() != p.Fingerprint() || other.Sweep != p.Sweep {
		t.Errorf("with another history: sweep %s, fingerprint %s; want the same, %s and %s", other.Sweep,
			other.Fingerprint(), p.Sweep, p.Fingerprint())
	}
	noted(t, build(s), "no earlier sweep of model ctr has a result that fits the space") // of a first night
}

// TestMethodsAreChecked: unknown methods, and options that go with none, are refused with what to use.
func TestMethodsAreChecked(t *testing.T) {
	for edit, want := range map[string]string{
		"method: atuo":                        `unknown method "atuo"`,
		"method: halton\n  warm_start: auto":  "not halton",
		"method: auto\n  warm_start: yes":     "use auto, or leave it out",
		"constraints: []\n  warm_start: auto": "not random",
	} {
		unread(t, want, learnerText("method: auto", edit))
	}
}

// TestChoicesAreSpelledAsTrialsAre: the plan's choices are spelled as in trials' parameters, since the search compares
// both. "1, 0" and "0,1" are the same columns, and 7 is written as text.
func TestChoicesAreSpelledAsTrialsAre(t *testing.T) {
	_, space, _ := strings.Cut(strings.TrimSuffix(learning, "\n  method: auto\n"), "{num_leaves: {log_int: [15, 255]}")
	const choices = `, ignore_column: {choice: ["1, 0", "0,1", 7]}}`
	p := built(t, learner(t, space, choices), manifest(all...))
	choice := p.Spec.Search.Random["ignore_column"].Choice
	if len(choice) != 3 || choice[0] != choice[1] || choice[2] == choice[0] {
		t.Fatalf("the plan's choices are %q; want the first two alike", choice)
	}
	if _, text := choice[2].(string); !text {
		t.Errorf("a number stands in the plan as %T; want the text that a trial has", choice[2])
	}
}

// TestNoSearchAtAll: fifty trials of a spec without search are fifty different configurations of the default space, by
// method auto. Parameters that the spec sets are not searched: of five, the learning rate, under its alias eta. The
// first trial is the default configuration; of a sweep of one trial it is the only one.
func TestNoSearchAtAll(t *testing.T) {
	few := func(trials, more string) *plan.Planned {
		t.Helper()
		return built(t, specOf(t, "auc\ntrials: "+trials+"\n"+more+"final: {rows: train}\n"), manifest(all...))
	}
	p := few("50", "params: {eta: 0.05, num_iterations: 300}\n")
	first := p.Trials[0]
	if len(p.Trials) != 50 || p.Spec.Search.Method != sweep.MethodAuto || len(p.Spec.Search.Random) != 4 ||
		first.Source != search.SourceDefault || first.Params["learning_rate"] != 0.05 ||
		first.Params["num_leaves"] != 31. {
		t.Errorf("50 trials without search: %s of %d parameters by %q, first %+v; expected 50 of 4 by auto, the "+
			"default first", sources(p), len(p.Spec.Search.Random), p.Spec.Search.Method, first)
	}
	keys := map[string]bool{}
	for _, e := range p.Expected {
		keys[sweep.ConfigurationKey(e.Params)] = true
	}
	if len(keys) != 50 {
		t.Errorf("50 trials without search: %d different configurations, want 50", len(keys))
	}
	if one := few("1", ""); len(one.Trials) != 1 || one.Trials[0].Source != search.SourceFixed {
		t.Errorf("one trial without search: %s; expected a fixed one", sources(one))
	}

	// The default comes first in every search that learns, unless the spec lists it or a constraint excludes it.
	space := "search: {random: {num_leaves: {int: [40, 80]}}, method: METHOD}\n"
	for method, want := range map[string]string{"auto": search.SourceDefault, "gp": search.SourceDefault,
		"halton": "halton", "random": "random"} {
		if p := few("9", strings.Replace(space, "METHOD", method, 1)); p.Trials[0].Source != want {
			t.Errorf("method %s: %s, first %s; expected %s", method, sources(p), p.Trials[0].Source, want)
		}
	}
	for name, more := range map[string]string{"listed": "fixed: [{}]", "refused": `constraints: ["num_leaves > 35"]`} {
		p := few("9", strings.Replace(space, "method: METHOD", "method: gp, "+more, 1))
		if text := sources(p); strings.Contains(text, search.SourceDefault) {
			t.Errorf("%s: %s; expected no default of its own", name, text)
		}
	}
}

// TestPopulation: with population-based training all trials are open, and as many run at once as the population has
// members: of 12 trials in 3 generations, 4.
func TestPopulation(t *testing.T) {
	p := built(t, breeding(t, "trials: 12"), manifest(all...))
	readBack(t, p)
	if got := sources(p); got != "pbt 12" || p.AtOnce() != 4 || len(p.Expected) != 12 || p.Expected[11].Params == nil ||
		p.Sizing.Tasks > 4 {
		t.Errorf("the trials are from %s, %d at once in %d tasks, %d expected; want 12 of pbt, 4 at once and no more "+
			"tasks, 12", got, p.AtOnce(), p.Sizing.Tasks, len(p.Expected))
	}
	noted(t, p, "a population of 4 in 3 generations")
}

// breeding is a spec of population-based training with a population of four. trials is its line of that name.
func breeding(t *testing.T, trials string, edits ...string) *sweep.Spec {
	t.Helper()
	return parse(t, append([]string{"  fixed: [{}, {learning_rate: 0.2}]\n", "  method: pbt\n  population: 4\n",
		"trials: 8", trials}, edits...)...)
}

// TestPopulationOfFew: a space with fewer configurations than the population has members is refused, and one with as
// many is enough for all generations.
func TestPopulationOfFew(t *testing.T) {
	few := func(values string) *sweep.Spec {
		return breeding(t, "trials: 12", "num_leaves: {log_int: [15, 255]}", "min_data_in_leaf: {choice: "+values+"}")
	}
	refused(t, "only 3 different configurations for a population of 4", few("[2, 3, 4]"), manifest(all...))
	if p := built(t, few("[2, 3, 4, 5]"), manifest(all...)); strings.Contains(strings.Join(p.Notes, "; "), "will run") {
		t.Errorf("four configurations for a population of 4: the notes are %q, want none about too few", p.Notes)
	}
}

// TestPopulationNeedsMemory: a trial has memory for the trees that it continues. With a third generation these are 100
// trees more, as num_iterations is 100 by default, of up to 255 leaves.
func TestPopulationNeedsMemory(t *testing.T) {
	two := built(t, breeding(t, "trials: 8"), manifest(all...)).Sizing.TrialBytes
	three := built(t, breeding(t, "trials: 12"), manifest(all...)).Sizing.TrialBytes
	if grown := three - two; grown < 100*255*100 { // trees, leaves, and bytes of a leaf at least
		t.Errorf("a third generation adds %d bytes to a trial's memory (%d after %d); want those of the second's trees",
			grown, three, two)
	}
}

// TestCopiesOfQueriesNeedMemory: if train has several copies of its rows, each in another order of queries, a trial
// needs 8 bytes for each row of train to tell a query's copies apart. Otherwise it needs none.
func TestCopiesOfQueriesNeedMemory(t *testing.T) {
	p := built(t, breeding(t, "trials: 8"), manifest(all...))
	need := func(by string, copies int) int64 {
		m := manifest(all...)
		m.Order = &dataset.Ordering{By: by, Copies: copies}
		return must.Get(plan.Need(m, p.Plan, p.Expected, 1))(t).Trial
	}
	if got, want := need("group", 2)-need("random", 2), int64(8*130_000_000); got != want {
		t.Errorf("a trial on two orders of queries has %d bytes more than on two of rows, want %d", got, want)
	}
	if more := need("group", 1) - need("random", 1); more != 0 {
		t.Errorf("a trial on one order of queries has %d bytes more than on one of rows, want none", more)
	}
}

// sets is a spec with search.features, of the given text, in place of its search and its trials. edits are as in parse.
func sets(t *testing.T, features string, edits ...string) *sweep.Spec {
	t.Helper()
	return parse(t, append([]string{"search:\n  fixed: [{}, {learning_rate: 0.2}]\n  random: {num_leaves: {log_int: " +
		"[15, 255]}}\n", "search: {features: " + features + "}\n", "trials: 8\n", ""}, edits...)...)
}

// columns is a dataset with these features.
func columns(names ...string) *dataset.Manifest {
	m := manifest(all...)
	m.Features = nil
	for _, n := range names {
		m.Features = append(m.Features, dataset.Feature{Name: n, Bins: 20})
	}
	return m
}

// ignored returns the lists of columns that trials ignore, "open" for an open one. Of each configuration it has the
// first fold, and it leaves out the refit.
func ignored(p *plan.Planned) (out []string) {
	for _, t := range p.Trials {
		switch {
		case t.Open:
			out = append(out, "open")
		case t.Fold < 2 && !t.Refit:
			out = append(out, fmt.Sprint(t.Params[sweep.IgnoreColumn]))
		}
	}
	return out
}

// TestSetsOfColumns: each trial ignores the columns that are not in its set. Groups are given by names or patterns, or
// each column is one. Columns in no group are in every set; what params ignore is ignored in every set as well.
func TestSetsOfColumns(t *testing.T) {
	m := columns("age", "site", "site:count", "site:rate", "user_a", "user_b")
	for name, tc := range map[string]struct {
		spec *sweep.Spec
		want []string
	}{
		"patterns": {sets(t, `{try: drop_one, groups: {site: [site, "site:*"], user: ["user_?"]}}`),
			[]string{"", "name:site,site:count,site:rate", "name:user_a,user_b"}},
		"alone": {sets(t, `{try: add_one, groups: {user: ["user_*"], age: [age]}}`),
			[]string{"", "name:age,user_a,user_b", "name:user_a,user_b", "name:age"}},
		"each": {sets(t, `{try: drop_one}`, "params: {eta: 0.05}", `params: {ignore_column: "name:site*"}`),
			[]string{"name:site,site:count,site:rate", "name:age,site,site:count,site:rate",
				"name:site,site:count,site:rate,user_a", "name:site,site:count,site:rate,user_b"}},
		"forward": {sets(t, `{try: forward, groups: {user: ["user_*"], age: [age]}}`),
			[]string{"", "name:age,user_a,user_b", "open", "open"}},
		"folds": {sets(t, `{try: drop_one, groups: {user: ["user_*"]}}`, "machine:",
			"validate: {kfold: 5}\nmachine:"), []string{"", "name:user_a,user_b"}},
	} {
		p, err := build(tc.spec, m)
		if err != nil {
			t.Errorf("%s: planning: got error %v, want none", name, err)
			continue
		}
		if got := ignored(p); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: the trials ignore %q, want %q", name, got, tc.want)
		}
		if p.Spec.Trials != p.Configurations() || len(p.Expected) != len(p.Trials) ||
			slices.ContainsFunc(p.Expected, func(e sweep.Trial) bool { return e.Params == nil }) {
			t.Errorf("%s: %d trials, %d in the spec, %d expected; want the same number, each with parameters", name,
				p.Configurations(), p.Spec.Trials, len(p.Expected))
		}
		if p.Folds != nil && p.Folds.First != 5 {
			t.Errorf("%s: sets are dropped after %d folds, want all folds of every set", name, p.Folds.First)
		}
		readBack(t, p)
	}
}

// TestSetsOfColumnsRefused: each search.features that is impossible on its dataset is refused with an error (the key)
// of kind input. That of nine subsets, of which there are only four, is planned, and the key is in a note.
//
// A forward selection among 45 groups takes 1 + 45 + 44 + ... + 2 = 1,035 trials, more than the 1,000 that may be open:
// one with all groups, and at each step one for each group that is left, until one group is. As each column is a group,
// there is no trial without any.
// Of 400 columns with names of 250 bytes, each of 401 trials ignores nearly all: that is 40 MB of names, and 16 MiB are
// allowed.
func TestSetsOfColumnsRefused(t *testing.T) {
	m := columns("age", "a,b", "site", "site:rate")
	for want, s := range map[string]*sweep.Spec{
		`groups: dataset clicks: g: there is no column "sitr" (did you mean "site"?)`: sets(t,
			"{try: drop_one, groups: {g: [sitr]}}"),
		"the column site is in the groups g and h": sets(t,
			`{try: drop_one, groups: {g: [site], h: ["site*"]}}`),
		"no column that matches; take the group out": sets(t,
			`{try: drop_one, groups: {g: ["age:*"], h: [site]}}`),
		"params.ignore_column leaves out the column site already": sets(t,
			`{try: drop_one, groups: {g: [site]}}`, "params: {eta: 0.05}", `params: {ignore_column: "name:site"}`),
		`group a,b: dataset clicks: the column "a,b" cannot be written`: sets(t, "{try: drop_one}"),
		"drop_one with 2 groups takes at least 3 trials, and trials is 2": sets(t,
			"{try: drop_one, groups: {g: [site], h: [age]}}", "seed: 3", "seed: 3\ntrials: 2"),
		`params.ignore_column: dataset clicks: the column "a,b" cannot be written`: sets(t,
			"{try: drop_one, groups: {g: [site]}}", "params: {eta: 0.05}", `params: {ignore_column: "1"}`),
		"add_one with 400 groups in 401 sets: the lists of the columns": sets(t, "{try: add_one}"),
		"all columns are in one group": sets(t,
			`{try: drop_one, groups: {g: ["*"]}}`),
		"forward with 45 groups takes 1035 trials; use fewer groups, or set trials": sets(t, "{try: forward}"),
		"subsets of 2 groups: 4 sets of columns; 9 were requested, and there are no more": sets(t,
			"{try: subsets, groups: {g: [site], h: [age]}}", "seed: 3", "seed: 3\ntrials: 9"),
	} {
		table := m
		if strings.Contains(want, "in one group") {
			table = columns("age", "site")
		}
		var names []string
		switch {
		case strings.Contains(want, "45 groups"):
			for i := range 45 {
				names = append(names, fmt.Sprint("c", i))
			}
			table = columns(names...)
		case strings.Contains(want, "400 groups"):
			for i := range 400 {
				names = append(names, fmt.Sprintf("%0250d", i))
			}
			table = columns(names...)
		}
		p, err := build(s, table)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want %q", err, want)
			}
			if code := program.ExitCode(t.Context(), err); code != sweep.ExitInput {
				t.Errorf("the error %v has the exit code %d, expected that of an input at fault", err, code)
			}
			continue
		}
		noted(t, p, want)
	}
}

// TestMoreSubsets: a sweep of 32 random subsets begins with the 20 subsets of a sweep of 20.
func TestMoreSubsets(t *testing.T) {
	m := columns("a", "b", "c", "d", "e", "f")
	plan32 := built(t, sets(t, "{try: subsets}", "seed: 3", "seed: 3\ntrials: 32"), m)
	plan20 := built(t, sets(t, "{try: subsets}", "seed: 3", "seed: 3\ntrials: 20"), m)
	if got, want := ignored(plan20), ignored(plan32)[:20]; !reflect.DeepEqual(got, want) {
		t.Errorf("20 sets are %q, want the first of 32, %q", got, want)
	}
}
