package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
)

// TestTheSameIndexInAnotherJobIsAnotherTask: a sweep that could not get its first machines has a second job, while the
// task with the same index in the first may be alive.
func TestTheSameIndexInAnotherJobIsAnotherTask(t *testing.T) {
	w := newWorld(t, 2, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 1, 0, 4, 0) // by a job without an id
		again := w.worker(4)
		again.Job, again.Attempt = "nightly-1-f1", 1
		start := time.Now()
		if err := again.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < time.Minute {
			t.Errorf("taken from another job's task after %s", waited)
		}
		var c sweep.Claim
		if _, err := blob.ReadJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Claim(1, 1), &c); err != nil ||
			c.Job != "nightly-1-f1" {
			t.Errorf("the claim of the second job's task: got %+v (error %v); want job nightly-1-f1", c, err)
		}
	})
}
