package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweepstore"
)

// cancelled marks the sweep as cancelled.
func (w *world) cancelled(t *testing.T) {
	t.Helper()
	w.write(t, func(ctx context.Context, s *sweepstore.Sweep) (bool, error) { return s.Cancel(ctx, time.Now()) })
}

// TestACancelledSweepLeavesNothing: the checkpoints of a trial that no task holds go with the next task that leaves,
// and those of one whose task is told to go with that task.
func TestACancelledSweepLeavesNothing(t *testing.T) {
	for name, run := range map[string]func(w *world) error{
		"its machine vanished before": func(w *world) error {
			w.until(t, 0, "checkpoints/", 1)
			if left, _ := w.checkpointsOf(t, 0); len(left) == 0 {
				t.Fatal("the machine that vanished has left no checkpoint, so nothing is tested")
			}
			w.cancelled(t)
			next := w.worker(1)
			return next.Run(t.Context())
		},
		"told to go": func(w *world) error {
			ctx, cancel := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Sweeps = before(w.sweeps, "checkpoints/", func() {
				w.cancelled(t)
				cancel()
			})
			err := worker.Run(ctx)
			if !problem.Is(err, problem.Transient) {
				return errors.Join(err, errors.New("want a transient error: it was told to go"))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, long)
			must.Do(t, run(w))
			for trial := range w.plan.Trials {
				if left, _ := w.checkpointsOf(t, trial); len(left) > 0 {
					t.Errorf("the sweep was cancelled and its tasks have left: trial %d has %d checkpoints; want none",
						trial, len(left))
				}
			}
		})
	}
}
