package worker

import (
	"context"
	"fmt"
	"time"

	"coppice/internal/sweep"
)

// reserve says until when a claimed trial may train, so that limits.sweep leaves the final training its time. ok is
// false where none is kept: in a sweep without one, for itself, and where the store does not say how old the sweep is.
// A sweep's age is that of the claim, by the store's clock, without its pauses.
func (w *Worker) reserve(ctx context.Context, claim *sweep.Claim) (until time.Time, ok bool) {
	kept := w.plan.FinalReserve(w.pace())
	if kept == 0 || w.plan.Trials[claim.Trial].Refit {
		return time.Time{}, false
	}
	if w.began.IsZero() {
		planned, err := w.whole.Planned(ctx)
		if err == nil && w.plan.Turn(w.plan.JobNumber(w.Job)) > 0 {
			course, failed := w.whole.Course(ctx, w.plan)
			if err = failed; err == nil {
				planned = planned.Add(course.Rested())
			}
		}
		if err != nil {
			w.Log.Warn("no time is kept for the final training", "trial", claim.Trial, "error", err.Error())
			return time.Time{}, false
		}
		w.began = planned
	}
	claimed, err := w.trials.Claimed(ctx, claim.Trial, claim.Claim)
	if err != nil {
		w.Log.Warn("no time is kept for the final training", "trial", claim.Trial, "error", err.Error())
		return time.Time{}, false
	}
	left := time.Duration(w.plan.Spec.Limits.Sweep) - kept - claimed.Sub(w.began)
	return time.Now().Add(left), true
}

// pace is how long this task's trials have taken beside what the quote expects of the mean one; 1 before the first.
func (w *Worker) pace() float64 {
	if w.trained == 0 || w.plan.Quote == nil || !(w.plan.Quote.Trial.Expected > 0) {
		return 1
	}
	return w.seconds / float64(w.trained) / w.plan.Quote.Trial.Expected
}

// leaveTime lets a claimed trial train no longer than that.
func (w *Worker) leaveTime(ctx context.Context, claim *sweep.Claim, s *saving) {
	if until, ok := w.reserve(ctx, claim); ok && until.Before(s.limit) {
		s.limit, s.kept = until, true
	}
}

// cut says why a trial has only the first of its trees.
func (w *Worker) cut(grown, most int, kept bool) string {
	if kept {
		return fmt.Sprintf("stopped after %d of %d trees, %s", grown, most, w.keptBack())
	}
	return fmt.Sprintf("stopped at its limit of %s after %d of %d trees", w.plan.Spec.Limits.Trial, grown, most)
}

// keptBack is why a trial was not trained, or not to its end.
func (w *Worker) keptBack() string {
	return fmt.Sprintf("so that limits.sweep (%s) leaves time for the final training", w.plan.Spec.Limits.Sweep)
}
