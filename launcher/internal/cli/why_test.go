package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/fit"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/sweepview"
)

// TestWhy: a listed trial, an open one that is decided and one that is not, and one that was stopped at a rung.
func TestWhy(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "search: {random: {num_leaves: {log_int: [4, 40]}}}",
		"search: {method: gp, fixed: [{}], random: {num_leaves: {log_int: [4, 40]}}, stop: {rule: "+
			"asha, min_trees: 5}}", 1)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1", "--no-wait")

	plan, _, err := sweepstore.New(w.buckets["sweeps"], "night-1").Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plan.Spec.Search.Stop.Rungs, "[11 33]"; strings.Join(strings.Fields(jsonOf(t, got)),
		"") != strings.ReplaceAll(want, " ", ",") {
		t.Errorf("the rungs of 100 trees are %v, want %s", got, want)
	}

	trials, score := sweepstore.NewTrials(w.buckets["sweeps"], plan), 0.75
	seen := []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: &score}}
	s, err := search.Decide(plan, 1, seen, nil)
	if err != nil {
		t.Fatal(err)
	}
	full, err := fit.Complete(plan.Base, s.Params, nil)
	if err != nil {
		t.Fatal(err)
	}
	must.Get(trials.CreateDecision(t.Context(), sweep.Decision{Format: 1, Sweep: plan.Sweep, Trial: 1, Task: 3,
		At: w.now, Params: full, Own: s.Params, Source: s.Source, Reason: s.Reason, Seen: seen}))(t)
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: 1, Step: 11, Score: 0.5,
		Pause: true, Reason: "rank 4 of 4", Seen: []sweep.Reached{{Step: 11, Trial: 0, Score: 0.6}}}))(t)
	must.Get(trials.CreateResult(t.Context(), sweep.Result{Format: 1, Sweep: plan.Sweep, Trial: 1,
		Status: sweep.StatusStopped, Reason: "at 11 trees: rank 4 of 4", Score: 0.5, TreesGrown: 11, Params: full}))(t)

	for trial, wants := range map[string][]string{
		"0": {"fixed", "it was planned before the first trial began"},
		"1": {"halton", "initial design (Halton)", "by task 3 under claim 0",
			"1 result; the best was trial 0 with 0.75", "repeating the decision gives the same result",
			"stopped: at 11 trees: rank 4 of 4"},
		"2": {"not yet chosen"},
	} {
		out := w.must("why", "night-1", trial)
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("why night-1 %s: got\n%s\nwant %q in it", trial, out, want)
			}
		}
	}
	var y sweepview.Reasons
	if err := json.Unmarshal([]byte(w.must("why", "night-1", "1", "--json")), &y); err != nil || y.Decision == nil ||
		len(y.Rungs) != 1 {
		t.Errorf("as JSON: %+v, error %v; want the decision and one rung", y, err)
	}
	if out := w.must("status", "night-1"); !strings.Contains(out, "1 trial, because others were better") ||
		strings.Contains(out, "failed") {
		t.Errorf("the status of a sweep with a stopped trial is\n%s\nwant one stopped and none failed", out)
	}
	w.refused(sweep.ExitUsage, "has no trial 7", "why", "night-1", "7")

	// Trial 2 waits at a rung, and is promoted.
	other := sweep.Reached{Step: 11, Trial: 0, Score: 0.6}
	must.Get(trials.CreateRung(t.Context(), sweep.Rung{Format: 1, Sweep: plan.Sweep, Trial: 2, Step: 11, Score: 0.5,
		Pause: true, Reason: "2 have come to rung 11, fewer than 3", Seen: []sweep.Reached{other}}))(t)
	must.Do(t, trials.CreatePause(t.Context(), 2, 0, 11))
	if out := w.must("status", "night-1"); !strings.Contains(out, "1 trial behind others at a rung; may resume") ||
		strings.Contains(out, "1 running") {
		t.Errorf("the status of a sweep with a paused trial is\n%s\nwant one paused and none running", out)
	}
	after := search.AfterPause(plan, sweep.Reached{Step: 11, Trial: 2, Score: 0.5}, []sweep.Reached{other}, true)
	if err != nil || after.Action != search.Stop {
		t.Fatalf("the worse of two, when no other comes: got %+v, error %v; want it to stop", after, err)
	}
	must.Get(trials.CreatePromotion(t.Context(), sweep.Promotion{Format: 1, Sweep: plan.Sweep, Trial: 2, Step: 11,
		Score: 0.5, Reason: after.Reason, Seen: []sweep.Reached{other}, Last: true}))(t)
	out := strings.Join(strings.Fields(w.must("why", "night-1", "2")), " ")
	for _, want := range []string{"at 11 trees │ 0.5", "wait", "at 11 trees, later", "rank 2 of 2 at rung 11"} {
		if !strings.Contains(out, want) {
			t.Errorf("why night-1 2, once paused: got\n%s\nwant %q in it", out, want)
		}
	}
	if strings.Contains(out, "again") {
		t.Errorf("why night-1 2: got\n%s\nwant no word of a decision that came out otherwise", out)
	}

	// A damaged record hides no other.
	must.Get(w.buckets["sweeps"].Put(t.Context(), sweep.Names(plan.Sweep).Rung(2, 33), blob.Any,
		strings.NewReader("{")))(t)
	out = strings.Join(strings.Fields(w.must("why", "night-1", "2")), " ")
	for _, want := range []string{"at 11 trees │ 0.5", "rank 2 of 2 at rung 11", "rungs/33"} {
		if !strings.Contains(out, want) {
			t.Errorf("why night-1 2 with a damaged rung at 33 trees: got\n%s\nwant %q in it", out, want)
		}
	}
}

// TestWhyOfFolds: the decision about a configuration is shown for each of its folds.
func TestWhyOfFolds(t *testing.T) {
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

	decided := []string{"of configuration 1", "initial design (Halton)",
		"by task 2 under claim 1 of trial 4, for all folds of the configuration",
		"results of 1 configuration; the best was configuration 0 with 0.75 over 3 folds",
		"repeating the decision gives the same result"}
	for trial, wants := range map[string][]string{"0": {"it was planned before"}, "3": decided, "5": decided,
		"13": decided,
		"6":  {"not yet chosen", "one of the configuration's folds"}} {
		out := strings.Join(strings.Fields(w.must("why", "night-1", trial)), " ")
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("why night-1 %s: got\n%s\nwant %q in it", trial, out, want)
			}
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}
