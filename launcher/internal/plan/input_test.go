package plan_test

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
)

// TestContinuedRowsMayBeKeptBack: where the rows that a version was trained on may be among those that tell how good it
// is, the plan says so, and what to do.
func TestContinuedRowsMayBeKeptBack(t *testing.T) {
	shares := map[string]float64{"train": 0.8, "valid": 0.2}
	until := func(train float64) map[string]float64 { return map[string]float64{"train": train} }
	for name, c := range map[string]struct {
		old, now dataset.SplitRule
		same     bool // version
		want     string
	}{
		"random": {dataset.SplitRule{By: "random", Seed: 1}, dataset.SplitRule{By: "random", Seed: 1}, false,
			"split at random"},
		"the same dataset": {dataset.SplitRule{By: "random"}, dataset.SplitRule{By: "random"}, true, ""},
		"hash": {dataset.SplitRule{By: "hash", Column: "user", Shares: shares},
			dataset.SplitRule{By: "hash", Column: "user", Shares: shares}, false, ""},
		"of another column": {dataset.SplitRule{By: "hash", Column: "user"},
			dataset.SplitRule{By: "hash", Column: "site"}, false,
			"split by hash of user, but this one is split by hash of site"},
		"other shares": {dataset.SplitRule{By: "hash", Column: "user", Shares: shares},
			dataset.SplitRule{By: "hash", Column: "user", Shares: map[string]float64{"train": 0.5, "valid": 0.5}},
			false, "other shares"},
		"random before": {dataset.SplitRule{By: "random"}, dataset.SplitRule{By: "time", Column: "ts"}, false,
			"was split by random, but this one is split by time of ts"},
		"night after night": {dataset.SplitRule{By: "time", Column: "ts", Until: until(100)},
			dataset.SplitRule{By: "time", Column: "ts", Until: until(200)}, false, ""},
		"an older table": {dataset.SplitRule{By: "time", Column: "ts", Until: until(200)},
			dataset.SplitRule{By: "time", Column: "ts", Until: until(100)}, false, "train ends later"},
	} {
		t.Run(name, func(t *testing.T) {
			m, old := manifest(all...), manifest(all...)
			m.Split, old.Split = c.now, c.old
			if !c.same {
				old.Version = "fedcba9876543210"
			}
			s := parse(t)
			s.Continue = &sweep.Continue{From: sweep.Champion}
			p := must.Get(plan.Build(plan.Inputs{Spec: s, Manifest: m,
				Job: func(id sweep.ID) string { return "jobs/" + string(id) }, Now: time.Unix(1, 0), Version: "v1",
				Input: &plan.Continued{Model: "ctr", Version: 7, Text: []byte("tree"), Dataset: []byte("{}"),
					Trained: old}}))(t)
			notes := strings.Join(p.Notes, "\n")
			if warned := strings.Contains(notes,
				"version 7 was trained on may be in valid, calib and test"); warned != (c.want != "") ||
				!strings.Contains(notes, c.want) {
				t.Errorf("from %+v to %+v the notes are\n%s\nexpected %q", c.old, c.now, notes, c.want)
			}
			if c.want != "" && !strings.Contains(notes, "split by time or by a hash of an id") {
				t.Errorf("the notes do not say what to do:\n%s", notes)
			}
		})
	}
}

// TestTrialsThatWouldBeTheSame: where some draws of bagging_freq are 0, bagging_fraction is not drawn beside them;
// where bagging_fraction is 1, bagging_freq does nothing, and two of them are duplicates.
func TestTrialsThatWouldBeTheSame(t *testing.T) {
	grid := specOf(t, "binary_logloss\ntrials: 6\nsearch:\n  grid: {bagging_fraction: [0.5, 1], "+
		"bagging_freq: [1, 2, 3]}\n")
	p := built(t, grid, manifest(all...))
	if len(p.Trials) != 5 || p.Skipped != 2 || p.Spec.Metric != "log_loss" {
		t.Errorf("a grid: %d trials; expected 4 and the final one, 2 left out, by log_loss", len(p.Trials))
	}
	drawn := specOf(t, "auc\ntrials: 8\nsearch:\n  random: {bagging_fraction: {step: [0.5, 0.8, 0.1]}, "+
		"bagging_freq: {choice: [0, 1]}}\n")
	if p := built(t, drawn, manifest(all...)); len(p.Trials) != 5 {
		t.Errorf("got %d trials; expected 4 and the final one", len(p.Trials))
	}
}

// TestWhatIsSearchedHasAPlace: an error about configurations names the line of the spec.
func TestWhatIsSearchedHasAPlace(t *testing.T) {
	for text, want := range map[string]string{
		"trials: 1\nsearch:\n  fixed: [{num_leaves: 31}, {num_leaves: 15}]\n": "sweep.yaml:6:3: search: 2 fixed " +
			"configurations are more than trials: 1; raise trials to at least 2 or shorten the list",
		"trials: 2\nsearch:\n  constraints: [num_leaves > 20]\n  fixed: " +
			"[{num_leaves: 31}, {num_leaves: 15}]\n": "sweep.yaml:7:30: search: fixed[1]: num_leaves=15 breaks the " +
			"constraint num_leaves > 20",
		"trials: 2\nsearch:\n  random: {verbosity: {choice: [0, 1]}}\n": "sweep.yaml:6:24: verbosity has " +
			"no effect here, so that there is nothing to search",
		"trials: 4\nsearch:\n  grid: {bagging_fraction: [0.5, 0.6, 0.7, 0.8]}\n": "sweep.yaml:6:3: search: grid " +
			"bagging_fraction=0.5: bagging_fraction: has no effect without bagging_freq of 1 or more",
		"trials: 4\nsearch:\n  method: auto\n  random: {bagging_fraction: {uniform: [0.5, 0.9]}}\n": "sweep.yaml:6:3: " +
			"search: found 0 of 4 trials: of 10000 random draws 10000 were refused by the trainer (bagging_fraction=" +
			"0.528695: bagging_fraction: has no effect without bagging_freq of 1 or more); loosen the constraints, widen " +
			"the ranges or ask for fewer trials",
		"trials: 4\nparams: {bagging_fraction: 0.5}\n": "sweep.yaml:1:1: search: params: bagging_fraction: has no " +
			"effect without bagging_freq of 1 or more",
	} {
		s := specOf(t, "auc\n"+text)
		if _, err := build(s, manifest(all...)); err == nil || err.Error() != want {
			t.Errorf("%s: got error %v; want %s", text, err, want)
		}
	}
}
