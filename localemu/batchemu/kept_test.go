//go:build unix

package batchemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// TestJobsOutliveTheServer: another server on the folder shows the jobs that ended, and goes on with the others as
// after the loss of all machines.
func TestJobsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	keep := func(o *Options) { o.Dir, o.Keep = dir, true }
	w := newWorld(t, keep)
	ended := w.create("ended", "fail", 1, nil)
	w.waitState(ended.Name, batchpb.JobStatus_FAILED)
	running := w.create("running", "hang-once", 2, nil)
	w.waitCount(running.Name, "RUNNING", 2)
	w.server.Close()

	w = newWorld(t, keep)
	if e, r, err := w.server.Resume(); e != 1 || r != 1 || err != nil {
		t.Fatalf("the next server found %d ended and %d unfinished jobs, and %v; expected 1 and 1", e, r, err)
	}
	if got := w.waitState(ended.Name, batchpb.JobStatus_FAILED); got.Uid != ended.Uid ||
		len(got.Status.StatusEvents) != 3 {
		t.Errorf("the job that had ended is now %v; expected uid %s and 3 events", got, ended.Uid)
	}
	w.waitState(running.Name, batchpb.JobStatus_SUCCEEDED)
	if events := w.task(running.Name, 1).Status.StatusEvents; len(events) != 4 ||
		events[1].TaskExecution.GetExitCode() != 50002 {
		t.Errorf("a task of the job that was running has the events %v; expected 50002 and another attempt", events)
	}
}

// TestJobsThatWereEnding: those being cancelled are cancelled by the next server, and those whose tasks have no
// attempts left fail there.
func TestJobsThatWereEnding(t *testing.T) {
	dir := t.TempDir()
	keep := func(o *Options) { o.Dir, o.Keep = dir, true }
	w := newWorld(t, keep)
	cancelled := w.create("cancelled", "stubborn", 1, nil)
	last := w.create("last", "hang", 1, func(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.MaxRetryCount = 0 })
	w.waitCount(cancelled.Name, "RUNNING", 1)
	w.waitCount(last.Name, "RUNNING", 1)
	eventually(t, "the task ignores SIGTERM, so that its job does not end before the server", func() bool {
		log, _ := os.ReadFile(filepath.Join(w.server.opts.LogDir, "cancelled", "task-0.attempt-0.log"))
		return strings.Contains(string(log), "ignoring SIGTERM")
	})
	if _, err := w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: cancelled.Name}); err != nil {
		t.Fatal(err)
	}
	w.server.Close()

	w = newWorld(t, keep)
	if _, r, err := w.server.Resume(); r != 2 || err != nil {
		t.Fatalf("the next server found %d unfinished jobs, and %v; expected 2", r, err)
	}
	w.waitState(cancelled.Name, batchpb.JobStatus_CANCELLED)
	w.waitState(last.Name, batchpb.JobStatus_FAILED)
}

// TestAKeptJobThatIsDamaged is named.
func TestAKeptJobThatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, func(o *Options) { o.Dir, o.Keep = dir, true })
	for _, text := range []string{"{", `{"format": 1, "id": "a", "job": {"name": "a"}}`,
		`{"format": 2, "id": "a", "job": {}}`} {
		if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "jobs", "a.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.server.Resume(); err == nil || !strings.Contains(err.Error(), "a.json") {
			t.Errorf("resuming with the file %s: %v; expected an error that names it", text, err)
		}
	}
}

// TestRestart: jobs go on as after the loss of all machines, and what clients were told does not change.
func TestRestart(t *testing.T) {
	struck := map[string]int{}
	w := newWorld(t, func(o *Options) { o.Keep, o.Struck = true, func(class string) { struck[class]++ } })
	ended, running := w.create("ended", "ok", 1, nil), w.create("running", "hang-once", 2, nil)
	w.waitState(ended.Name, batchpb.JobStatus_SUCCEEDED)
	w.waitCount(running.Name, "RUNNING", 2)
	if err := w.server.Restart(); err != nil {
		t.Fatal(err)
	}

	w.waitState(ended.Name, batchpb.JobStatus_SUCCEEDED)
	w.waitState(running.Name, batchpb.JobStatus_SUCCEEDED)
	if struck["Batch restarted"] != 1 || len(struck) != 1 {
		t.Errorf("struck %v; expected one restart", struck)
	}
	w.server.Close()
	if err := w.server.Restart(); err != nil || struck["Batch restarted"] != 1 {
		t.Errorf("restarting a closed server: %v, struck %v; expected nothing to happen", err, struck)
	}
}
