package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// enoughError ends a claimed trial before it is trained: by a rule, the sweep has enough.
type enoughError struct{ reason string }

func (e *enoughError) Error() string { return "not trained, the sweep has enough: " + e.reason }

// enough says whether a claimed trial is still to be trained. The task that first finds that the sweep has enough
// records it, with what it has seen; all other tasks follow that record. A *brokenError is the store's, an *enoughError
// says why the trial is not trained.
func (w *Worker) enough(ctx context.Context, claim *sweep.Claim) error {
	if !w.plan.EndsByRule() {
		return nil
	}
	there, err := w.readEnough(ctx)
	if there != nil || err != nil {
		return asEnough(there, err)
	}

	if w.results == nil {
		w.results = map[int]sweep.Result{}
	}
	seen, err := w.trials.Finished(ctx, w.listing, w.results)
	if err != nil {
		return &brokenError{fmt.Errorf("results of the other trials: %w", err)}
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
		return &brokenError{err}
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
	var damaged *sweepstore.DamagedError
	if errors.As(err, &damaged) {
		return &sweep.Enough{Reason: "why, cannot be read"}, nil
	}
	return e, err
}

func asEnough(e *sweep.Enough, err error) error {
	switch {
	case err != nil:
		return &brokenError{err}
	case e == nil:
		return &brokenError{errors.New("somebody has ended the sweep by a rule, and nothing is there")}
	}
	return &enoughError{e.Reason}
}
