package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/engine"
	"coppice/internal/sweep"
)

// TestWatchOfAJobThatIsGone: a restarted local cloud has the sweep's objects but not its job. The watcher soon says how
// to continue, and so does a launcher that attaches to it.
func TestWatchOfAJobThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.staged()
		file := w.file("sweep.yaml", sweepYAML)
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); strings.Contains(out, "had been started") {
			t.Errorf("started a sweep whose job is gone: got %s; want no claim that it had been started", out)
		}
		w.jobs.status = &engine.JobStatus{State: engine.Gone}
		began := time.Now()
		w.refused(sweep.ExitError,
			"its job is gone (was the local cloud restarted?); `launcher sweep SWEEP.yaml --id fifth`", "watch",
			"fifth")
		if took := time.Since(began); took < 2*time.Second || took > time.Minute {
			t.Errorf("it was said after %s", took)
		}
		delete(w.jobs.submitted, "fifth")
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); !strings.Contains(out,
			"sweep fifth was planned, but had no job; submitted, finished trials are kept\n") ||
			w.jobs.submitted["fifth"] != 1 {
			t.Errorf("started a sweep whose job is gone: got %s; want one new job, and finished trials kept", out)
		}
		if out := w.must("sweep", file, "--id", "fifth", "--no-wait"); !strings.Contains(out, "attached to it") {
			t.Errorf("started it once more: got %s; want it attached", out)
		}
	})
}
