package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
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

// TestWatchConcludes: where no messages are sent, watching has the aggregator look once the sweep's tasks have ended,
// and what stops it is said once.
func TestWatchConcludes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.staged()
		looks := 0
		w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "fifth", "--no-wait")
		p, _ := must.Get2(sweepstore.New(w.buckets["sweeps"], "fifth").Plan(t.Context()))(t)
		w.conclude = func(context.Context) error {
			if looks++; looks < 3 {
				return errors.New("no folder")
			}
			w.concluded(sweep.OutcomeWinner)(p)
			return nil
		}
		w.jobs.status = &engine.JobStatus{State: engine.Done}
		code, out, errOut := w.run("watch", "fifth")
		if code != 0 || !strings.Contains(out, "ctr v1 is live") {
			t.Errorf("exit code %d: %s", code, out)
		}
		if looks != 3 || strings.Count(errOut, "no folder") != 1 {
			t.Errorf("it looked %d times, and said %s; want 3 times, and one warning", looks, errOut)
		}
	})
}
