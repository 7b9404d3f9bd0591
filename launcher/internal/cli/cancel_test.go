package cli

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestAfterACancel: the same file starts nothing and says what does. With another name or number of trials it is another
// sweep, which learns from what the cancelled one has trained.
func TestAfterACancel(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := strings.Replace(sweepYAML, "search: {", "search: {method: gp, warm_start: auto, ", 1)
	var first struct{ Sweep sweep.ID }
	must.Do(t, json.Unmarshal([]byte(w.must("sweep", w.file("sweep.yaml", spec), "--no-wait", "--json")), &first))
	p := w.plan(first.Sweep)
	for trial, leaves := range []float64{7, 35} {
		o := sweep.Object{Name: sweep.Names(first.Sweep).Attempt(trial, 0) + "x"}
		params := maps.Clone(p.Base)
		params["num_leaves"] = leaves
		must.Get(sweepstore.NewTrials(w.buckets["sweeps"], p).CreateResult(t.Context(), sweep.Result{Format: 1,
			Sweep: first.Sweep, Trial: trial, Status: sweep.StatusDone, Score: 0.6 + leaves/1000, Model: &o,
			Scores: &sweep.Scored{Calib: o, Test: o}, Params: params}))(t)
	}
	w.must("cancel", string(first.Sweep))
	w.refused(sweep.ExitConflict, "sweep "+string(first.Sweep)+" was cancelled, and is not started again; with another "+
		"name: or number of trials:", "sweep", w.file("sweep.yaml", spec), "--no-wait")

	w.jobs.cancelled = false
	for _, change := range [][2]string{{"trials: 4", "trials: 6"}, {"name: night", "name: again"}} {
		var next struct{ Sweep sweep.ID }
		file := w.file("sweep.yaml", strings.Replace(spec, change[0], change[1], 1))
		must.Do(t, json.Unmarshal([]byte(w.must("sweep", file, "--no-wait", "--json")), &next))
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
	w.jobs.status = &engine.JobStatus{State: engine.Running, Began: true}
	w.must("sweep", w.file("sweep.yaml", fallbackYAML), "--id", "x", "--no-wait")
	must.Get(w.buckets["sweeps"].Put(t.Context(), sweep.Names("x").JobRecord(1), blob.Any, strings.NewReader("{")))(t)
	w.must("leaderboard", "x")
	w.refused(sweep.ExitInput, "jobs/1.json", "cancel", "x")
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("x").Cancel()); err != nil {
		t.Errorf("cancelled a sweep with a damaged job record: %v; want its tasks asked to stop", err)
	}
	w.refused(sweep.ExitUsage, "ends in -f and a number", "sweep", w.file("sweep.yaml", sweepYAML), "--id", "x-f1")
}

// TestAnEmptyNameIsNoSweep: "$SWEEP" of a shell that has not set it cancels nothing, and shows no other sweep.
func TestAnEmptyNameIsNoSweep(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	for _, command := range []string{"status", "leaderboard", "bill", "report --out -", "cancel"} {
		code, out, errOut := w.run(append(strings.Fields(command), "")...)
		if code == 0 || !strings.Contains(errOut, "sweep id") {
			t.Errorf("%s of an empty name ended with %d, want a refusal\n%s%s", command, code, out, errOut)
		}
	}
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("x").Cancel()); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("the newest sweep is cancelled: %v", err)
	}
}
