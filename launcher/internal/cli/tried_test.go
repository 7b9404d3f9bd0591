package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/fit"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestTried: the leaderboard says why trials were tried and stopped, and status counts those that wait at a rung.
func TestTried(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "search: {random: {num_leaves: {log_int: [4, 40]}}}",
		"search: {method: gp, fixed: [{}], random: {num_leaves: {log_int: [4, 40]}}, stop: {rule: "+
			"asha, min_trees: 5}}", 1)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1", "--no-wait")

	plan, _ := must.Get2(sweepstore.New(w.buckets["sweeps"], "night-1").Plan(t.Context()))(t)
	if got, want := plan.Spec.Search.Stop.Rungs, "[11 33]"; strings.Join(strings.Fields(jsonOf(t, got)),
		"") != strings.ReplaceAll(want, " ", ",") {
		t.Errorf("the rungs of 100 trees are %v, want %s", got, want)
	}

	trials, score := sweepstore.NewTrials(w.buckets["sweeps"], plan), 0.75
	seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score}}
	s := must.Get(search.Decide(plan, 1, seen, nil))(t)
	full := must.Get(fit.Complete(plan.Base, s.Params, nil))(t)
	must.Get(trials.CreateDecision(t.Context(), sweep.Decision{Format: 1, Sweep: plan.Sweep, Trial: 1, Task: 3,
		At: w.now, Params: full, Own: s.Params, Source: s.Source, Reason: s.Reason, Seen: seen}))(t)
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: 1, Step: 11, Score: 0.5,
		Pause: true, Reason: "rank 4 of 4", Seen: []sweep.Reached{{Step: 11, Trial: 0, Score: 0.6}}}))(t)
	must.Get(trials.CreateResult(t.Context(), sweep.Result{Format: 1, Sweep: plan.Sweep, Trial: 1,
		Status: sweep.StatusStopped, Reason: "at 11 trees: rank 4 of 4", Score: 0.5, TreesGrown: 11, Params: full}))(t)

	for _, want := range []string{"fixed", "halton: initial design (Halton)", "at 11 trees: rank 4 of 4"} {
		if out := w.must("leaderboard", "night-1", "--all"); !strings.Contains(out, want) {
			t.Errorf("leaderboard night-1 --all: got\n%s\nexpected %q in it", out, want)
		}
	}
	if out := w.must("status", "night-1"); !strings.Contains(out, "1 trial, because others were better") ||
		strings.Contains(out, "failed") {
		t.Errorf("the status of a sweep with a stopped trial is\n%s\nwant one stopped and none failed", out)
	}

	// Trial 2 waits at a rung.
	other := sweep.Reached{Step: 11, Trial: 0, Score: 0.6}
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: 2, Step: 11, Score: 0.5,
		Pause: true, Reason: "2 have come to rung 11, fewer than 3", Seen: []sweep.Reached{other}}))(t)
	must.Do(t, trials.CreatePause(t.Context(), 2, 0, 11))
	if out := w.must("status", "night-1"); !strings.Contains(out, "1 trial behind others at a rung; may resume") ||
		strings.Contains(out, "1 running") {
		t.Errorf("the status of a sweep with a paused trial is\n%s\nwant one paused and none running", out)
	}
}

// TestTriedOfFolds: configurations that are decided later are in the plan, and the page says why one was tried.
func TestTriedOfFolds(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("stage", w.file("dataset.yaml", "name: plain\nsource: clicks.csv\nlabel: is_click\ndrop: "+
		"[revenue]\ncategorical: [campaign_id]\nencodings: none\nsplit: {by: hash, key: user_id, train: 0.6, valid: "+
		"0.4}\n"))
	file := w.file("sweep.yaml", strings.NewReplacer("search: {random: {num_leaves: {log_int: [4, 40]}}}",
		"search: {method: gp, fixed: [{}], random: {num_leaves: {log_int: [4, 40]}}}",
		"dataset: clicks", "dataset: plain\nvalidate: {kfold: 4}").Replace(sweepYAML))
	if out := strings.Join(strings.Fields(w.must("sweep", file, "--dry-run")), " "); !strings.Contains(out,
		"3 configurations are decided when their first fold is claimed") || strings.Count(out, "│ gp │") != 3 {
		t.Errorf("the plan is\n%s\nwant three configurations that are decided later, one line each", out)
	}
	w.must("sweep", file, "--id", "night-1", "--no-wait")

	plan, trials, score := w.plan("night-1"), sweepstore.NewTrials(w.buckets["sweeps"], w.plan("night-1")), 0.75
	seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score}}
	s := must.Get(search.Decide(plan, 3, seen, nil))(t)
	full := must.Get(fit.Complete(plan.Base, s.Params, nil))(t)
	must.Get(trials.CreateDecision(t.Context(), sweep.Decision{Format: 1, Sweep: plan.Sweep, Trial: 3, Task: 2,
		Claim: 1, Holder: 4, At: w.now, Params: full, Own: s.Params, Source: s.Source, Reason: s.Reason,
		Seen: seen}))(t)

	if out := strings.Join(strings.Fields(w.must("report", "night-1", "--out", "-")), " "); !strings.Contains(out,
		"initial design (Halton)") {
		t.Error("the page of a sweep with folds does not say why its configuration was tried")
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}
