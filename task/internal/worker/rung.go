package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"coppice/gbt"
	"coppice/search"
	"coppice/sweep"
	"coppice/sweepstore"
)

// stoppedError ends the training of a trial that has fallen behind at a rung.
type stoppedError struct{ rung *sweep.Rung }

func (e *stoppedError) Error() string { return e.rung.Reason }

// atRung decides, after each tree at a rung, whether the trial continues. The decision is written before it is acted on, and binds a later
// holder of the trial. When the store cannot say what the other trials reached, the trial continues.
func (w *Worker) atRung(ctx context.Context, claim *sweep.Claim, g gbt.Progress) error {
	stop := w.plan.Spec.Search.Stop
	if stop == nil || stop.By == sweep.ByRows || !slices.Contains(stop.Rungs, g.Tree) {
		return nil
	}
	return w.compare(ctx, claim, g)
}

// compare decides whether a trial that has reached a rung continues.
func (w *Worker) compare(ctx context.Context, claim *sweep.Claim, g gbt.Progress) error {

	r, err := w.rung(ctx, claim, g)
	var damaged *sweepstore.DamagedError
	switch {
	case errors.As(err, &damaged):
		w.Log.Warn("the decision about the trial at a rung cannot be read; it continues", "trial", claim.Trial, "trees", g.Tree, "error", err.Error())
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // not saved beyond the rung yet, so the next holder decides it again
	case err != nil:
		w.Log.Warn("the trial is not compared with the others at a rung", "trial", claim.Trial, "trees", g.Tree, "error", err.Error())
	default:
		w.passed = append(w.passed, sweep.RungScore{Step: r.Step, Score: r.Score})
		if r.Stop {
			return &stoppedError{r}
		}
	}
	return nil
}

// rung decides about the trial at a rung, or reads an earlier decision.
func (w *Worker) rung(ctx context.Context, claim *sweep.Claim, g gbt.Progress) (*sweep.Rung, error) {
	if claim.Claim > 0 { // an earlier holder may have reached the rung
		there, err := w.trials.Rung(ctx, claim.Trial, g.Tree)
		if there != nil || err != nil {
			return there, err
		}
	}

	list, err := w.trials.List(ctx)
	if err != nil {
		return nil, err
	}
	from := g.Tree
	if w.plan.Spec.Search.Stop.Rule == sweep.StopMedian { // the median rule compares the whole curve
		from = 1
	}
	if w.rungs == nil {
		w.rungs = map[sweepstore.RungKey]float64{}
	}
	if err := w.trials.GatherRungs(ctx, list, claim.Trial, from, g.Tree, w.rungs); err != nil {
		return nil, err
	}

	own := sweep.Reached{Step: g.Tree, Trial: claim.Trial, Score: g.Metric}
	w.rungs[sweepstore.RungKey{Step: g.Tree, Trial: claim.Trial}] = g.Metric
	r := &sweep.Rung{Format: sweep.FormatVersion, Sweep: w.Sweep, Trial: claim.Trial, Claim: claim.Claim, Step: g.Tree, Score: g.Metric,
		Seen: sweepstore.ReachedOf(w.rungs, claim.Trial, from, g.Tree), At: time.Now().UTC()}
	v, err := search.AtRung(w.plan, own, r.Seen)
	if err != nil {
		return nil, err
	}
	r.Stop, r.Reason = v.Action == search.Stop, v.Reason

	created, err := w.trials.CreateRung(ctx, *r)
	if err != nil {
		return nil, err
	}
	if !created { // another holder of the trial was faster
		there, err := w.trials.Rung(ctx, claim.Trial, g.Tree)
		if there == nil && err == nil {
			err = fmt.Errorf("trial %d at %d trees: its record has disappeared", claim.Trial, g.Tree)
		}
		return there, err
	}
	w.Log.Info("rung", "trial", claim.Trial, "trees", g.Tree, "score", g.Metric, "stop", r.Stop, "reason", r.Reason)
	return r, nil
}
