package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// TestTheFinalTrainingIsTheLastTrial: final: {rows: all} adds one trial after the eight others, which trains on all
// four splits and is evaluated on none. Plans in which another trial is the final training cannot be read. A dataset
// with statistics of ids has to have those over all rows, too.
func TestTheFinalTrainingIsTheLastTrial(t *testing.T) {
	with := []string{"final: {rows: train}", "final: {rows: all}"}
	p := built(t, parse(t, with...), manifest(all...))
	read := readBack(t, p)
	final, ok := read.Final()
	if !ok || final != 8 || len(read.Own()) != 8 || read.Configurations() != 8 || len(p.Expected) != 9 ||
		p.Expected[8].Params == nil || p.Sizing.RefitBytes <= p.Sizing.TrialBytes {
		t.Errorf("the final training is trial %d (%t) of %d, sizing %+v; expected 8 of 9", final, ok, len(read.Trials),
			p.Sizing)
	}
	if rows, rated := read.RowsOf(8); len(rows) != 4 || rated != nil {
		t.Errorf("it trains on %v, rated on %v; expected four splits and none", rows, rated)
	}

	for name, spoil := range map[string]func(*sweep.Plan){
		"not in the spec":    func(p *sweep.Plan) { p.Spec.Final.Rows = sweep.FinalTrain },
		"not among trials":   func(p *sweep.Plan) { p.Trials = p.Trials[:8] },
		"not the last trial": func(p *sweep.Plan) { p.Trials[0].Refit = true },
		"with parameters":    func(p *sweep.Plan) { p.Trials[8].Params = p.Trials[0].Params },
	} {
		bad := readBack(t, p)
		spoil(bad)
		text := must.Get(json.Marshal(bad))(t)
		if _, err := sweep.DecodePlan(text); err == nil {
			t.Errorf("a final training that is %s was read; expected it to be refused", name)
		}
	}

	m := manifest(all...)
	m.Tables = []dataset.LevelTable{{}}
	refused(t, "encodings: {final: true}", parse(t, with...), m)
}

// TestFinalIsRefused: mistakes in final are refused with what to use.
func TestFinalIsRefused(t *testing.T) {
	for edit, want := range map[string]string{
		"final: {rows: most}":                      `rows is "most": use all`,
		"final: {rows: all}\nvalidate: {kfold: 5}": "final cannot be combined with validate",
		"final: {row: all}":                        `did you mean "rows"`,
	} {
		unread(t, want, strings.Replace(spec, "final: {rows: train}", edit, 1))
	}
}

// TestARankingOfSeveralMachines: a final training by several machines is refused for a ranking, since the rows of a
// query might be on several.
func TestARankingOfSeveralMachines(t *testing.T) {
	s, m := parse(t), manifest("train", "valid", "test")
	m.Label.Kind, m.Group, m.Order = dataset.Regression, "query", nil
	s.Objective, s.Metric = "lambdarank", "ndcg@10"
	s.Final = &sweep.Final{Rows: sweep.FinalAll, Machines: 2}
	_, err := build(s, m)
	if !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), "final.machines: objective lambdarank") {
		t.Errorf("a ranking by two machines: got error %v, want final.machines refused", err)
	}
}

// TestFinalIsTheDefault: without final in the spec there is a final training on all splits. There is none if it does
// not fit the machine, if the dataset lacks what it needs, or with folds; then a note says why. With final: {rows:
// train} there is none, and no note.
func TestFinalIsTheDefault(t *testing.T) {
	plain := []string{"final: {rows: train}", ""}
	encoded := manifest(all...)
	encoded.Tables = []dataset.LevelTable{{}}
	for name, tc := range map[string]struct {
		edits []string
		m     *dataset.Manifest
		final bool
		note  string
	}{
		"nothing asked for": {plain, manifest(all...), true,
			"trial 8 trains its configuration on the rows of all splits"},
		"too large for the machine": {append(slices.Clone(plain), "n2-highmem-64", "n2-standard-4",
			"num_leaves: {log_int: [15, 255]}", "num_leaves: {log_int: [2, 4]}"), manifest(all...), false,
			"the winner is registered as it is: the refit on the rows of several splits does not fit"},
		"train":                {nil, manifest(all...), false, ""},
		"no statistics":        {plain, encoded, false, "encodings: {final: true} in dataset.yaml makes them"},
		"train, no statistics": {nil, encoded, false, ""},
		"folds": {[]string{"final: {rows: train}", "validate: {kfold: 2}"}, manifest(all...), false,
			"because of validate: its winner is trained on train and valid already"},
	} {
		p := built(t, parse(t, tc.edits...), tc.m)
		_, ok := p.Final()
		if notes := strings.Join(p.Notes, "\n"); ok != tc.final || p.Spec.FinalRows() != tc.final ||
			!strings.Contains(notes, tc.note) || tc.note == "" && strings.Contains(notes, "final") {
			t.Errorf("%s: a final training %t, spec %+v, notes\n%s\nexpected %t and the note %q", name, ok,
				p.Spec.Final, notes, tc.final, tc.note)
		}
	}
}

// cross is the spec with validate.
func cross(t *testing.T, validate string, edits ...string) *sweep.Spec {
	t.Helper()
	return parse(t, append([]string{"machine:", "validate: " + validate + "\nmachine:"}, edits...)...)
}

// TestFoldsBecomeTrials: with validate: {kfold: 5} each of 8 configurations becomes five trials, and a refit is the
// last of 41. The refit's memory includes a copy of the rows of train and valid.
func TestFoldsBecomeTrials(t *testing.T) {
	p := built(t, cross(t, "{kfold: 5}"), manifest(all...))
	readBack(t, p)
	if len(p.Trials) != 8*5+1 || p.Configurations() != 8 || p.Folds.First != 3 || !p.Trials[40].Refit ||
		len(p.Expected) != 41 || p.Expected[40].Params == nil {
		t.Errorf("8 configurations are %d trials, %d configurations, %d folds first; want 41, 8 and 3, the last a "+
			"refit", len(p.Trials), p.Configurations(), p.Folds.First)
	}
	noted(t, p, "8 configurations in 5 folds of train (kfold) are 40 trials")

	// Of each of 131 million rows, those of train and valid, 40 features of two bytes and 8 bytes more are copied. The
	// trainer has its own memory.
	if least := int64(131_000_000 * 88); p.Sizing.RefitBytes < least || p.Sizing.RefitBytes > 2*least ||
		p.Sizing.TrialBytes >= p.Sizing.RefitBytes {
		t.Errorf("the refit needs %d bytes and a fold %d; want more than %d, less than twice that, and less",
			p.Sizing.RefitBytes, p.Sizing.TrialBytes, least)
	}
}

// TestFoldsThatTheDatasetDoesNotHave: folds by group, by time or at random are refused if the dataset was not staged
// for them; the error says how to stage it. Forward validation of a dataset that is divided by time is planned, with
// four rounds for five folds, since before the first fold there is nothing to train on.
func TestFoldsThatTheDatasetDoesNotHave(t *testing.T) {
	order := func(by string) func(*dataset.Manifest) {
		return func(m *dataset.Manifest) {
			m.Order = &dataset.Ordering{By: by, Copies: 1}
			m.Split.By = dataset.SplitByHash
		}
	}
	for name, tc := range map[string]struct {
		validate string
		change   func(*dataset.Manifest)
		want     string
	}{
		"no groups": {"{kfold: 5, by: group}", func(*dataset.Manifest) {},
			"dataset clicks has no groups; stage it with group: COLUMN"},
		"no time": {"{forward: 5}", func(m *dataset.Manifest) { m.Split.By = dataset.SplitByHash },
			"do not follow each other in time; stage it with split: {by: time"},
		"statistics": {"{kfold: 5}", order(dataset.OrderRandom), "stage it with encodings: none"},
		"of groups": {"{kfold: 5, by: group}",
			func(m *dataset.Manifest) { order(dataset.OrderTime)(m); m.Group = "user" },
			"stage it with encodings: none"},
		"none that time": {"{forward: 5}", func(m *dataset.Manifest) { m.Split.By = dataset.SplitByTime }, ""},
	} {
		m := manifest(all...)
		tc.change(m)
		p, err := build(cross(t, tc.validate), m)
		if tc.want == "" && (err != nil || len(p.Folds.Rounds) != 4) || tc.want != "" &&
			(err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: validate: %s: got error %v; want one with %q, or none and 4 rounds if that is empty", name,
				tc.validate, err, tc.want)
		}
	}
}

// TestARefitThatDoesNotFit: on n2-standard-4 the folds fit into the memory, but the refit on all rows does not. With
// folds a refit is necessary, so the plan is refused.
func TestARefitThatDoesNotFit(t *testing.T) {
	refused(t, "the refit on the rows of several splits does not fit a n2-standard-4", cross(t, "{kfold: 5}",
		"n2-highmem-64", "n2-standard-4", "num_leaves: {log_int: [15, 255]}", "num_leaves: {log_int: [2, 4]}"),
		manifest(all...))
}

// TestFoldsOfASearchThatLearns: fixed configurations, an earlier winner, the portfolio and open configurations each
// become five folds. Expected has the same trials with parameters, and memory is sized for the largest of the space.
func TestFoldsOfASearchThatLearns(t *testing.T) {
	s := learner(t, "machine:", "validate: {kfold: 5}\nmachine:", "method: auto", "method: auto\n  warm_start: auto")
	earlier := []sweep.Earlier{{Sweep: "night-3",
		Trials: []sweep.Seen{{Trial: 4, Status: sweep.StatusDone, Score: new(0.9),
			Params: sweep.Params{"num_leaves": 100.0, "learning_rate": 0.1, "min_data_in_leaf": 20.0}}}}}
	p := must.Get(plan.Build(plan.Inputs{Spec: s, Manifest: manifest(all...),
		Job:     func(id sweep.ID) string { return "jobs/" + string(id) },
		Earlier: func(*sweep.Plan) ([]sweep.Earlier, error) { return earlier, nil }}))(t)
	readBack(t, p)

	// Five folds each of 2 fixed configurations, 1 winner, a quarter of the 20 from the portfolio, and 12 open ones.
	if got, want := sources(p), "fixed 10, warm 5, portfolio 25, auto 60, refit 1"; got != want ||
		p.Configurations() != 20 {
		t.Errorf("the folds of %d configurations are from %s; want 20, from %s", p.Configurations(), got, want)
	}
	for i, expected := range p.Expected {
		trial := p.Trials[i]
		if trial.Open != (trial.Source == "auto") || len(expected.Params) == 0 || expected.Fold != trial.Fold ||
			expected.Configuration != trial.Configuration || expected.Refit != trial.Refit {
			t.Errorf("trial %d is %+v, and expected as %+v; want the same fold, with parameters, open where the "+
				"search decides", i, trial, expected)
		}
	}
	noted(t, p, "12 configurations are decided when their first fold is claimed",
		"20 configurations in 5 folds of train (kfold) are 100 trials",
		"warm_start: configuration 2 is number 1 of night-3",
		"warm_start: 1 of 20 configurations starts from an earlier winner, 17 are new")

	// Folds and refit may become the largest that the space has.
	largest := built(t, cross(t, "{kfold: 5}", "fixed: [{}, {learning_rate: 0.2}]",
		"fixed: [{num_leaves: 255, min_data_in_leaf: 5}]"), manifest(all...))
	if p.Sizing.TrialBytes < largest.Sizing.TrialBytes || p.Sizing.RefitBytes < largest.Sizing.RefitBytes {
		t.Errorf("open folds are given %d bytes and the refit %d; the largest configuration of the space needs %d "+
			"and %d", p.Sizing.TrialBytes, p.Sizing.RefitBytes, largest.Sizing.TrialBytes, largest.Sizing.RefitBytes)
	}
}

// TestTrialsComparedBySamples: stop: {by: rows} compares trials after training on one row in 25, and a note says so. A
// table of which that is too small a sample is refused. Without by, the plan chooses: rows of a large table for log
// loss, else trees.
func TestTrialsComparedBySamples(t *testing.T) {
	spec := parse(t, "search:", "search:\n  stop: {rule: asha, by: rows}")
	p := built(t, spec, manifest(all...))
	readBack(t, p)

	// By rows eta is 5, and the sample is one row in eta squared; of a small table it would be one in eta. A sample has
	// 2,000 rows at least, of which one in 5 of 9,900 rows falls short with 1,980.
	stop := p.Spec.Search.Stop
	if len(stop.Rungs) != 1 || stop.OneIn != 25 || stop.Eta != 5 {
		t.Errorf("rungs %v, of one row in %d, eta %d; want one, 25 and 5", stop.Rungs, stop.OneIn, stop.Eta)
	}
	noted(t, p, "after training on one row in 25 (asha, one in 5 continues)")

	small := manifest(all...)
	for i := range small.Splits {
		small.Splits[i].Rows = 9900
	}
	refused(t, "one in 5 of 9900 is too small a sample", spec, small)

	// A spec that does not say by what leaves it to metric and table.
	for _, c := range []struct {
		metric string
		m      *dataset.Manifest
		want   string
	}{{"log_loss", small, sweep.ByTrees}, {"log_loss", manifest(all...), sweep.ByRows},
		{"auc", manifest(all...), sweep.ByTrees}} {
		if p, err := build(parse(t, "metric: ap", "metric: "+c.metric, "search:", "search:\n  stop: {rule: asha}"),
			c.m); err != nil || p.Spec.Search.Stop.By != c.want {
			t.Errorf("stop: {rule: asha} for %s on %d rows: got error %v, want trials to be compared by %s", c.metric,
				c.m.Splits[0].Rows, err, c.want)
		}
	}
}

// TestTooFewTreesForARung: stop: {by: trees} is refused if the trees of the longest trial, 100, divided by eta are
// fewer than min_trees. Equally many are enough for one rung.
func TestTooFewTreesForARung(t *testing.T) {
	stop := func(trees string) *sweep.Spec {
		return parse(t, "search:", "search:\n  stop: {rule: asha, by: trees, eta: 4, min_trees: "+trees+"}")
	}
	refused(t, "100 trees divided by eta, 4, are fewer than min_trees, 26, so no trial would ever be stopped",
		stop("26"), manifest(all...))
	if got := built(t, stop("25"), manifest(all...)).Spec.Search.Stop.Rungs; !slices.Equal(got, []int{25}) {
		t.Errorf("with 25 min_trees the rungs are %v, want 25 alone", got)
	}
}

// TestSequences: a sweep by method halton has the same trials each time it is planned, and they are the first ones of a
// sweep of more trials.
func TestSequences(t *testing.T) {
	planned := func(trials string) (*plan.Planned, string) {
		p := built(t, learner(t, "method: auto", "method: "+sweep.MethodHalton, "trials: 20", "trials: "+trials),
			manifest(all...))
		text := must.Get(json.Marshal(p.Trials[:20]))(t)
		return p, string(text)
	}
	p, first := planned("20")
	if again, text := planned("20"); text != first || again.Fingerprint() != p.Fingerprint() {
		t.Errorf("planned twice, the trials are\n%s\nand\n%s\nwant the same", first, text)
	}
	if _, text := planned("32"); text != first {
		t.Errorf("20 trials are\n%s\nwant the first of a sweep of 32\n%s", first, text)
	}
}

// TestBagIsRefused: mistakes in ensemble are refused with what to use; a bag of 1, or none, is one model.
func TestBagIsRefused(t *testing.T) {
	spec := withoutRequire(t)
	for edit, want := range map[string]string{
		"ensemble: {bag: 0}":                       "bag is 0: use 2 to 10",
		"ensemble: {bag: 11}":                      "bag is 11: use 2 to 10",
		"ensemble: {bags: 3}":                      `did you mean "bag"`,
		"ensemble: {bag: 3}\nfinal: {rows: train}": "its models are those of the final training; leave final out",
		"ensemble: {bag: 3}\nvalidate: {kfold: 5}": "validate has none: its winner is " +
			"trained on train and valid already",
	} {
		unread(t, want, strings.Replace(spec, "machine:", edit+"\nmachine:", 1))
	}
	for edit, want := range map[string]int{"": 1, "ensemble: {bag: 1}": 1,
		"ensemble: {bag: 3}\nfinal: {rows: all}": 3} {
		text := strings.Replace(spec, "machine:", edit+"\nmachine:", 1)
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || s.Bag() != want {
			t.Errorf("%s: got %+v, %v, expected a bag of %d", edit, s, err, want)
		}
	}
}

// TestBagByDefault: a table of 40,000 rows gets a bag of five models by default. It gets none if its rows are divided
// by time, or if the spec bounds the cost of a prediction, asks for a bag of one or takes no final training; a large
// table gets none either. A bag that the spec asks for is made despite a bound on the cost. It is refused if the rows
// are divided by time, if the statistics of ids have seen every fold, or if the negatives are sampled. A note tells of
// each bag, and only of bags.
func TestBagByDefault(t *testing.T) {
	small := func(edit func(*dataset.Manifest)) *dataset.Manifest {
		m := manifest(all...)
		for i := range m.Splits {
			m.Splits[i].Rows = 10_000
		}
		edit(m)
		return m
	}
	few := small(func(*dataset.Manifest) {}) // 40,000 rows, of at most 50,000; manifest(all...) has 133 million
	const asked = "ensemble: {bag: 3}\n"
	for _, tc := range []struct {
		lines, require string // of the spec
		m              *dataset.Manifest
		bag            int    // models that the plan has
		refused        string // a part of the error, or "" for none
	}{
		{"", "", few, 5, ""},
		{"ensemble: {bag: 1}\n", "", few, 1, ""},
		{asked, "", few, 3, ""},
		{asked, `require: ["trees < 900"]`, few, 3, ""},
		{"", `require: ["trees < 900"]`, few, 1, ""},
		{"", `require: ["auc > 0.6"]`, few, 5, ""},
		{"", "", manifest(all...), 1, ""},
		{"final: {rows: train}\n", "", few, 1, ""},
		{"", "", small(func(m *dataset.Manifest) { m.Split.By = dataset.SplitByTime }), 1, ""},
		{asked, "", small(func(m *dataset.Manifest) { m.Split.By = dataset.SplitByTime }), 0,
			"rows are divided by time"},
		{asked, "", small(func(m *dataset.Manifest) {
			m.Split.By, m.Order = dataset.SplitByHash, &dataset.Ordering{}
		}), 0, "have seen the keys of every fold"},
		{asked, "", small(func(m *dataset.Manifest) { m.Negatives = 0.1 }), 0, "a sample of its negative rows"},
	} {
		p, err := build(parse(t, `require: ["precision@1% > 0.1", "trees < 900"]`, tc.require, "final: {rows: train}\n",
			tc.lines), tc.m)
		switch {
		case tc.refused != "":
			must.Say(t, tc.lines, err, tc.refused)
		case err != nil:
			t.Errorf("%s%s: got error %v; want none", tc.lines, tc.require, err)
		case p.Spec.Bag() != tc.bag || strings.Contains(strings.Join(p.Notes, "\n"), "ensemble: ") != (tc.bag > 1):
			t.Errorf("%s%s: a bag of %d, want %d, and a note of it if it is above 1; notes %q", tc.lines, tc.require,
				p.Spec.Bag(), tc.bag, p.Notes)
		}
	}
}

// TestABagThatDoesNotFit: a bag of ten models that the spec asks for is refused if it does not fit the machine, though
// a final training of one model does; nothing is left out in its place. A n2-highcpu-2 has 2 GiB, of which the system
// and this dataset leave half a GiB. One model of 800,000 rows takes 0.2 GiB, and ten at once take 0.7.
func TestABagThatDoesNotFit(t *testing.T) {
	m := manifest(all...)
	for i := range m.Splits {
		m.Splits[i].Rows = 200_000
	}
	m.Files[0].Bytes = 512 << 20
	for bag, fits := range map[string]bool{"1": true, "10": false} {
		s := parse(t, "final: {rows: train}", "ensemble: {bag: "+bag+"}", "n2-highmem-64}",
			"n2-highcpu-2, threads_per_task: 1}")
		if fits {
			if p := built(t, s, m); !p.Spec.FinalRows() {
				t.Errorf("a bag of %s: the plan has no final training, want one; the notes are %q", bag, p.Notes)
			}
			continue
		}
		refused(t, "ensemble.bag is 10: the refit on the rows of several splits does not fit a n2-highcpu-2", s, m)
	}
}

// withoutRequire is the text of spec without its lines require and final.
func withoutRequire(t *testing.T) string {
	t.Helper()
	before, after, ok := strings.Cut(spec, "\nrequire:")
	_, after, more := strings.Cut(after, "\n")
	if !ok || !more {
		t.Fatal("the spec of these tests has no line require:, want one to leave out")
	}
	return strings.Replace(before+"\n"+after, "final: {rows: train}\n", "", 1)
}
