package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
)

// TestPauseAndResume: what a person is told, and what the sweep's other commands say of a sweep that is paused.
func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.must("sweep", file, "--id", "x", "--no-wait")
	w.refused(sweep.ExitConflict, "is not paused", "resume", "x")
	w.refused(sweep.ExitNotFound, "there is no sweep y", "pause", "y")

	// A job whose machines are not there yet is cancelled.
	if out := w.must("pause", "x"); !strings.Contains(out,
		"sweep x is paused and has no machines (job CANCELLED); 0 of 4 trials have ended") ||
		!strings.Contains(out, "launcher resume x") || !w.jobs.cancelled {
		t.Errorf("paused: got %q, job cancelled %t; want it paused without machines, and the command that lets it "+
			"go on", out, w.jobs.cancelled)
	}
	var said struct {
		Paused, Before, Resumed bool
		Job                     string
	}
	if err := json.Unmarshal([]byte(w.must("pause", "x", "--no-wait", "--json")), &said); err != nil || !said.Paused ||
		!said.Before {
		t.Errorf("paused again, as JSON: got %+v, error %v; want it paused before", said, err)
	}
	if out := w.must("status", "x"); !strings.Contains(out, "the whole sweep, now; to continue: `launcher resume x`") {
		t.Errorf("status of a sweep that is paused: got\n%s\nwant how it goes on", out)
	}
	if out := w.must("ls"); !strings.Contains(out, "paused") {
		t.Errorf("the list with a sweep that is paused: got\n%s\nwant it paused", out)
	}
	w.refused(sweep.ExitConflict, "`launcher resume x` resumes it", "watch", "x")
	w.refused(sweep.ExitConflict, "`launcher resume x` resumes it", "sweep", file, "--id", "x")

	if err := json.Unmarshal([]byte(w.must("resume", "x", "--no-wait", "--json")), &said); err != nil ||
		!said.Resumed || !strings.HasSuffix(said.Job, "/x-f1") {
		t.Errorf("resumed, as JSON: got %+v, error %v; want job x-f1", said, err)
	}
	if out := w.must("resume", "x", "--no-wait"); !strings.Contains(out,
		"sweep x was already resumed; attached to it as projects/p/locations/l/jobs/x-f1") {
		t.Errorf("resumed again: got %q; want that it was resumed before", out)
	}
	if out := w.must("status", "x"); strings.Contains(out, "the whole sweep") ||
		!strings.Contains(out, "the sweep was paused") {
		t.Errorf("status of a sweep that goes on: got\n%s\nwant that it was paused after its first job", out)
	}

	w.must("cancel", "x")
	w.refused(sweep.ExitConflict, "was cancelled", "pause", "x")
	w.refused(sweep.ExitConflict, "was cancelled", "resume", "x")
}

// TestPauseTooLate: an ending that the aggregator writes while the sweep is being paused counts.
func TestPauseTooLate(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.must("sweep", file, "--id", "x", "--no-wait")
	if _, err := sweepstore.New(w.buckets["sweeps"], "x").CreateEnding(t.Context(),
		sweep.Ending{Format: 1, Sweep: "x"}); err != nil {
		t.Fatal(err)
	}
	w.refused(sweep.ExitConflict, "is being concluded", "pause", "x")

	// It was paused too late: it is over, and neither shown nor treated as paused.
	w.must("sweep", file, "--id", "y", "--no-wait")
	w.must("pause", "y")
	if _, err := sweepstore.New(w.buckets["sweeps"], "y").CreateEnding(t.Context(),
		sweep.Ending{Format: 1, Sweep: "y"}); err != nil {
		t.Fatal(err)
	}
	if out := w.must("sweep", file, "--id", "y", "--no-wait"); !strings.Contains(out, "attached to it") {
		t.Errorf("the same sweep again, after a pause that came too late: got %q; want it attached", out)
	}
	if out := w.must("status", "y"); strings.Contains(out, "the whole sweep") {
		t.Errorf("its status: got\n%s\nwant no word of a pause", out)
	}

	for _, err := range []error{&provision.HaltedError{}, &provision.ResumedError{}} {
		if code := program.ExitCode(t.Context(), err); code != sweep.ExitConflict {
			t.Errorf("%T has the exit code %d, expected %d", err, code, sweep.ExitConflict)
		}
	}
}

// TestAResumedSweepHasItsPlan: its job is compared with the plan that was written, by fingerprint, whatever has been
// decided since.
func TestAResumedSweepHasItsPlan(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", strings.Replace(sweepYAML, "search: {", "search: {method: gp, ", 1)), "--id",
		"x", "--no-wait")
	p := w.plan("x")
	decided := sweep.Params{}
	for name, v := range p.Base {
		decided[name] = v
	}
	decided["num_leaves"] = 9.0
	d := sweep.Decision{Format: 1, Sweep: "x", Trial: 0, Params: decided, Own: sweep.Params{"num_leaves": 9.0},
		Source: "halton", Reason: "it fills the space"}
	if created, err := sweepstore.NewTrials(w.buckets["sweeps"], p).CreateDecision(t.Context(), d); !created ||
		err != nil {
		t.Fatalf("decide about trial 0: created %t, error %v", created, err)
	}

	w.must("pause", "x")
	w.jobs.submitted["x"] = 0
	var got *sweep.Plan
	w.jobs.run = func(p *sweep.Plan) { got = p }
	w.must("resume", "x", "--no-wait")
	if got == nil || got.Fingerprint() != p.Placed(1).Fingerprint() {
		t.Errorf("resumed after a decision: submitted %+v; want the plan that was written, on the machines of job 1",
			got)
	}
}

// TestADamagedJobRecordKeepsNobodyFromCancelling: also in a sweep that was paused once.
func TestADamagedJobRecordKeepsNobodyFromCancelling(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	w.must("pause", "x")
	w.must("resume", "x", "--no-wait")
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

// TestCancelledWhileItIsResumed: whoever resumes a sweep looks once more when its tasks have left.
func TestCancelledWhileItIsResumed(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	w.must("pause", "x", "--no-wait")
	w.jobs.cancelled, w.jobs.submitted["x"] = false, 0
	w.jobs.status = &provision.JobStatus{State: "RUNNING"}
	w.jobs.leaving = func() {
		if _, err := sweepstore.New(w.buckets["sweeps"], "x").Cancel(t.Context(), w.now); err != nil {
			t.Error(err)
		}
	}
	w.refused(sweep.ExitConflict, "sweep x was cancelled", "resume", "x", "--no-wait")
	if n := w.jobs.submitted["x"]; n != 0 {
		t.Errorf("resumed a sweep that was cancelled meanwhile: %d jobs submitted; want none", n)
	}
}
