package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// cross is the spec with validate.
func cross(t *testing.T, validate string, edits ...string) *sweep.Spec {
	t.Helper()
	return parse(t, append([]string{"machine:", "validate: " + validate + "\nmachine:"}, edits...)...)
}

func TestFoldsBecomeTrials(t *testing.T) {
	p := built(t, cross(t, "{kfold: 5}"), manifest(all...))
	readBack(t, p)
	if len(p.Trials) != 8*5+1 || p.Configurations() != 8 || p.Folds.First != 3 || !p.Trials[40].Refit ||
		len(p.Expected) != 41 || p.Expected[40].Params == nil {
		t.Errorf("8 configurations are %d trials, %d configurations, %d folds first; want 41, 8 and 3, the last a "+
			"refit", len(p.Trials), p.Configurations(), p.Folds.First)
	}
	if !slices.ContainsFunc(p.Notes, func(n string) bool {
		return strings.Contains(n, "8 configurations in 5 folds of train (kfold) are 40 trials")
	}) {
		t.Errorf("the notes do not say how many trials that are: %q", p.Notes)
	}

	// 40 features twice and 8 bytes of each of 131 million rows are copied, and the trainer has its own.
	if least := int64(131_000_000 * 88); p.Sizing.RefitBytes < least || p.Sizing.RefitBytes > 2*least ||
		p.Sizing.TrialBytes >= p.Sizing.RefitBytes {
		t.Errorf("the refit needs %d bytes and a fold %d; want more than %d, less than twice that, and less",
			p.Sizing.RefitBytes, p.Sizing.TrialBytes, least)
	}
}

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
			t.Errorf("%s: validate: %s gave %v; want %q", name, tc.validate, err, tc.want)
		}
	}
}

func TestARefitThatDoesNotFit(t *testing.T) {
	refused(t, "the refit on the rows of several splits does not fit a n2-standard-4", cross(t, "{kfold: 5}",
		"n2-highmem-64", "n2-standard-4", "num_leaves: {log_int: [15, 255]}", "num_leaves: {log_int: [2, 4]}"),
		manifest(all...))
}

// TestFoldsOfASearchThatLearns: winners, portfolio and open configurations each become folds, and what is expected has
// parameters and folds.
func TestFoldsOfASearchThatLearns(t *testing.T) {
	s := learner(t, "machine:", "validate: {kfold: 5}\nmachine:", "method: auto", "method: auto\n  warm_start: auto")
	earlier := []sweep.Earlier{{Sweep: "night-3",
		Trials: []sweep.Seen{{Trial: 4, Status: sweep.StatusDone, Score: new(0.9),
			Params: sweep.Params{"num_leaves": 100.0, "learning_rate": 0.1, "min_data_in_leaf": 20.0}}}}}
	p := must.Get(plan.Build(plan.Inputs{Spec: s, Manifest: manifest(all...),
		Job:     func(id sweep.ID) string { return "jobs/" + string(id) },
		Earlier: func(*sweep.Plan) ([]sweep.Earlier, error) { return earlier, nil }}))(t)
	p.Job = p.JobName(0)
	data := must.Get(json.Marshal(p.Plan))(t)
	if _, err := sweep.DecodePlan(data); err != nil && !strings.Contains(err.Error(), "job") {
		t.Fatalf("the plan is refused by its reader: %v", err)
	}

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
	notes := strings.Join(p.Notes, "\n")
	for _, want := range []string{"12 configurations are decided when their first fold is claimed",
		"20 configurations in 5 folds of train (kfold) are 100 trials",
		"warm_start: configuration 2 is number 1 of night-3",
		"warm_start: 1 of 20 configurations start from an earlier winner, 17 are new"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the notes do not say %q:\n%s", want, notes)
		}
	}

	// Folds and refit may become the largest that the space has.
	largest := built(t, cross(t, "{kfold: 5}", "fixed: [{}, {learning_rate: 0.2}]",
		"fixed: [{num_leaves: 255, min_data_in_leaf: 5}]"), manifest(all...))
	if p.Sizing.TrialBytes < largest.Sizing.TrialBytes || p.Sizing.RefitBytes < largest.Sizing.RefitBytes {
		t.Errorf("open folds are given %d bytes and the refit %d; the largest configuration of the space needs %d "+
			"and %d", p.Sizing.TrialBytes, p.Sizing.RefitBytes, largest.Sizing.TrialBytes, largest.Sizing.RefitBytes)
	}
}
