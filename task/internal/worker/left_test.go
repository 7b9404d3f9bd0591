package worker

import (
	"testing"

	"coppice/internal/blob/blobtest"
	"coppice/internal/sweep"
)

// TestATrialThatAnotherHasEndedIsLeft: its result appears while it is being trained. The task stops it, leaves the
// result as it is, and takes the next trial.
func TestATrialThatAnotherHasEndedIsLeft(t *testing.T) {
	w := newWorld(t, 2, slow)
	another := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Status: sweep.StatusFailed,
		Reason: "another task says so"}
	worker := w.worker(0)
	worker.Sweeps = &hooked{Store: w.sweeps, part: "heartbeats", do: func() {
		if _, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(0),
			another); err != nil {
			t.Error(err)
		}
	}}
	if err := worker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.result(t, 0); r.Status != another.Status || r.Reason != another.Reason {
		t.Errorf("trial 0, ended by another while it trained, ended %s: %s; want the other's result", r.Status,
			r.Reason)
	}
	if r := w.result(t, 1); r.Status != sweep.StatusDone {
		t.Errorf("trial 1 ended %s: %s; want the task to have gone on with it", r.Status, r.Reason)
	}
}
