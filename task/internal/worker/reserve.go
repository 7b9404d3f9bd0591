package worker

import (
	"context"
	"fmt"
	"time"

	"coppice/internal/sweep"
)

// reserve says until when a claimed trial may train that has trained for spent, so that limits.sweep leaves the final
// training its time. ok is false where none is kept: in a sweep without one, for itself, if it cannot end in time
// anyway, and where the store does not say how old the sweep is or what its trials took. A sweep's age is that of the
// claim, by the store's clock.
func (w *Worker) reserve(ctx context.Context, claim *sweep.Claim, spent time.Duration) (until time.Time, ok bool) {
	if w.plan.FinalReserve() == 0 || w.plan.Trials[claim.Trial].Refit {
		return time.Time{}, false
	}
	left, best, err := w.standing(ctx, claim)
	if err != nil {
		w.Log.Warn("no time is kept for the final training", "trial", claim.Trial, "error", err.Error())
		return time.Time{}, false
	}
	share, ok := w.plan.BeforeFinal(left, spent, best)
	return time.Now().Add(share), ok
}

// standing is how much of limits.sweep was left at a claim, and which trial is the best of those that have ended.
func (w *Worker) standing(ctx context.Context, claim *sweep.Claim) (left time.Duration, best *sweep.Result, err error) {
	if w.began.IsZero() {
		planned, err := w.whole.Planned(ctx)
		if err != nil {
			return 0, nil, err
		}
		w.began = planned
	}
	claimed, err := w.trials.Claimed(ctx, claim.Trial, claim.Claim)
	if err != nil {
		return 0, nil, err
	}
	board, err := w.board(ctx)
	if err != nil {
		return 0, nil, err
	}
	best, _, _, err = w.best(board)
	return time.Duration(w.plan.Spec.Limits.Sweep) - claimed.Sub(w.began), best, err
}

// leaveTime lets a claimed trial train no longer than that.
func (w *Worker) leaveTime(ctx context.Context, claim *sweep.Claim, s *saving) {
	spent := time.Duration(0)
	if s.from != nil {
		spent = s.from.Elapsed()
	}
	if until, ok := w.reserve(ctx, claim, spent); ok && until.Before(s.limit) {
		s.limit, s.kept = until, true
	}
}

// cut says why a trial has only the first of its trees.
func (w *Worker) cut(grown, most int, kept bool) string {
	if kept {
		return fmt.Sprintf("stopped after %d of %d trees: %s", grown, most, w.plan.KeptBack())
	}
	return fmt.Sprintf("stopped at its limit of %s after %d of %d trees", w.plan.Spec.Limits.Trial, grown, most)
}
