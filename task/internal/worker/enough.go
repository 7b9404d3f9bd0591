package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// enough says whether a claimed trial is still to be trained. The task that first finds that the sweep has enough
// records it, with what it has seen; all other tasks follow that record. A storage failure is transient, an
// *untrainedError says why the trial is not trained.
func (w *Worker) enough(ctx context.Context, claim *sweep.Claim) error {
	if !w.plan.EndsByRule() {
		return nil
	}
	there, err := w.readEnough(ctx)
	if there != nil || err != nil {
		return asEnough(there, err)
	}

	seen, err := w.trials.Finished(ctx, w.listing, w.results)
	if err != nil {
		return storeFailed(fmt.Errorf("results of the other trials: %w", err))
	}
	rule, reason := search.Enough(w.plan, seen)
	if rule == "" {
		return nil
	}

	e := sweep.Enough{Format: sweep.FormatVersion, Sweep: w.Sweep, Rule: rule, Reason: reason, Trial: claim.Trial,
		Claim: claim.Claim, Task: w.Task, Attempt: w.Attempt,
		Seen: seen, At: time.Now().UTC()}
	created, err := w.whole.CreateEnough(ctx, e)
	if err != nil {
		return storeFailed(err)
	}
	if !created {
		return asEnough(w.readEnough(ctx))
	}
	w.Log.Info("the sweep has enough; no more trials are started", "rule", rule, "reason", reason, "seen", len(seen))
	return asEnough(&e, nil)
}

// readEnough reads the decision; even if it cannot be read, the sweep starts no more trials.
func (w *Worker) readEnough(ctx context.Context) (*sweep.Enough, error) {
	e, err := w.whole.Enough(ctx)
	if problem.Is(err, problem.Damaged) {
		return &sweep.Enough{Reason: "why, cannot be read"}, nil
	}
	return e, err
}

func asEnough(e *sweep.Enough, err error) error {
	switch {
	case err != nil:
		return storeFailed(err)
	case e == nil:
		return storeFailed(errors.New("another task has ended the sweep by a rule, but its record is missing"))
	}
	return &untrainedError{"not trained, the sweep has enough: " + e.Reason}
}
