package cli

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
)

// TestAfterACancel: the same file starts nothing and says what does. With another name or number of trials it is another
// sweep, which learns from what the cancelled one has trained.
func TestAfterACancel(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "search: {", "search: {method: gp, warm_start: auto, ", 1)
	var first struct{ Sweep sweep.ID }
	if err := json.Unmarshal([]byte(w.must("sweep", w.file("sweep.yaml", spec), "--no-wait", "--json")),
		&first); err != nil {
		t.Fatal(err)
	}
	p := w.plan(first.Sweep)
	for trial, leaves := range []float64{7, 35} {
		o := sweep.Object{Name: sweep.Names(first.Sweep).Attempt(trial, 0) + "x"}
		params := maps.Clone(p.Base)
		params["num_leaves"] = leaves
		if _, err := sweepstore.NewTrials(w.buckets["sweeps"], p).CreateResult(t.Context(), sweep.Result{Format: 1,
			Sweep: first.Sweep, Trial: trial, Status: sweep.StatusDone, Score: 0.6 + leaves/1000, Model: &o,
			Scores: &sweep.Scored{Calib: o, Test: o}, Params: params}); err != nil {
			t.Fatal(err)
		}
	}
	w.must("cancel", string(first.Sweep))
	w.refused(sweep.ExitConflict, "sweep "+string(first.Sweep)+" was cancelled, and is not started again; with another "+
		"name: or number of trials:", "sweep", w.file("sweep.yaml", spec), "--no-wait")

	w.jobs.cancelled = false
	for _, change := range [][2]string{{"trials: 4", "trials: 6"}, {"name: night", "name: again"}} {
		var next struct{ Sweep sweep.ID }
		file := w.file("sweep.yaml", strings.Replace(spec, change[0], change[1], 1))
		if err := json.Unmarshal([]byte(w.must("sweep", file, "--no-wait", "--json")), &next); err != nil {
			t.Fatal(err)
		}
		p := w.plan(next.Sweep)
		if next.Sweep == first.Sweep || len(p.Earlier) != 1 || p.Earlier[0].Sweep != first.Sweep ||
			len(p.Earlier[0].Trials) != 2 || p.Trials[1].Source != search.SourceWarm ||
			p.Trials[1].Params["num_leaves"] != 35.0 {
			t.Errorf("with %s after a cancel: sweep %s has learnt from %+v, and trial 1 is from %s with %v leaves; "+
				"expected another sweep than %s, the two results of that one, and the better one's 35 leaves after "+
				"the default", change[1], next.Sweep, p.Earlier, p.Trials[1].Source, p.Trials[1].Params["num_leaves"],
				first.Sweep)
		}
	}
}

// TestADamagedJobRecordKeepsNobodyFromCancelling: of a sweep that was given other machines.
func TestADamagedJobRecordKeepsNobodyFromCancelling(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.status = &provision.JobStatus{State: "RUNNING", Began: true, Finished: true}
	w.must("sweep", w.file("sweep.yaml", fallbackYAML), "--id", "x", "--no-wait")
	if _, err := w.buckets["sweeps"].Put(t.Context(), sweep.Names("x").JobRecord(1), blob.Any,
		strings.NewReader("{")); err != nil {
		t.Fatal(err)
	}
	w.must("leaderboard", "x")
	w.refused(sweep.ExitInput, "jobs/1.json", "cancel", "x")
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("x").Cancel()); err != nil {
		t.Errorf("cancelled a sweep with a damaged job record: %v; want its tasks asked to stop", err)
	}
	w.refused(sweep.ExitUsage, "ends in -f and a number", "sweep", w.file("sweep.yaml", sweepYAML), "--id",
		"x-f1")
}

// TestEndedByRuleIsShown: in status, on the leaderboard, as the reason why a trial was not trained, and as JSON.
func TestEndedByRuleIsShown(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "sweep: 5m}", "sweep: 5m, target: 0.6, patience: {trials: 2}}", 1)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1", "--no-wait")
	p := w.plan("night-1")
	if out := w.must("status", "night-1"); strings.Contains(out, "ended by rule") {
		t.Errorf("before it has enough, the status is\n%s", out)
	}

	trials := sweepstore.NewTrials(w.buckets["sweeps"], p)
	o := sweep.Object{Name: sweep.Names("night-1").Attempt(0, 0) + "x"}
	reason := "trial 0 has auc 0.61 on valid, and limits.target is 0.6"
	for _, r := range []sweep.Result{{Trial: 0, Status: sweep.StatusDone, Score: 0.61, TreesGrown: 9, Model: &o,
		Scores: &sweep.Scored{Calib: o, Test: o}},
		{Trial: 1, Status: sweep.StatusStopped, Reason: "not trained, the sweep has enough: " + reason}} {
		r.Format, r.Sweep = 1, "night-1"
		if _, err := trials.CreateResult(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	e := sweep.Enough{Format: 1, Sweep: "night-1", Rule: sweep.RuleTarget, Reason: reason, Trial: 1, Task: 2,
		Seen: []sweep.Seen{{Trial: 0, Status: sweep.StatusDone, Score: new(0.61)}}}
	if _, err := sweepstore.New(w.buckets["sweeps"], "night-1").CreateEnough(t.Context(), e); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"status", "night-1"}, []string{"no more trials are started (not trained: 1): " + reason}},
		{[]string{"status", "night-1", "--json"}, []string{`"enough": "` + reason, `"not_trained": 1`}},
		{[]string{"leaderboard", "night-1"}, []string{"not trained"}},
		{[]string{"why", "night-1", "1"}, []string{"target, found by task 2 when it had claimed trial 1",
			"repeating the decision gives the same result", "not trained: "}},
	} {
		out := strings.Join(strings.Fields(strings.ReplaceAll(w.must(tc.args...), "│", " ")), " ")
		for _, want := range tc.wants {
			if !strings.Contains(out, want) {
				t.Errorf("%v: got\n%s\nwant %q in it", tc.args, out, want)
			}
		}
	}

	page := w.dir + "/page.html"
	w.must("report", "night-1", "--out", page)
	if text := fileText(t, page); !strings.Contains(text, "ending by rule") ||
		!strings.Contains(text, "The sweep had enough and started no more trials") {
		t.Error("the page does not say that the sweep is ending by a rule, and why")
	}
}

// fileText returns the contents of a file.
func fileText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
