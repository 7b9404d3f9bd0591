package worker

import (
	"context"
	"errors"
	"math"

	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// compareBySample trains a trial on a sample of the rows, if the plan compares trials by it, and compares it. A
// *stoppedError says that it has fallen behind. q is the request for all rows.
func (w *Worker) compareBySample(ctx context.Context, claim *sweep.Claim, s *saving, q fit.Request, p *pulse) error {
	stop := w.plan.Spec.Search.Stop
	if stop == nil || stop.By != sweep.ByRows {
		return nil
	}

	for _, step := range search.RungsOf(w.plan, claim.Trial) {
		if claim.Claim > 0 { // an earlier holder may have come further
			r, err := w.trials.Rung(ctx, claim.Trial, step)
			if err != nil && !problem.Is(err, problem.Damaged) {
				return storeFailed(err)
			}
			if r != nil || err != nil {
				if err := w.compare(ctx, claim, gbt.Progress{Tree: step}); err != nil { // it follows what is there
					return err
				}
				continue
			}
		}

		score, err := w.trySample(ctx, s, q, p, stop.OneIn)
		if none := gbt.ErrData; errors.Is(err, none) { // so few rows are not fit to train on, such as without positives
			w.Log.Warn("a sample of the rows cannot be trained on; the trial continues", "trial", claim.Trial, "error",
				err.Error())
			continue
		}
		if err != nil {
			return err
		}
		if err := w.compare(ctx, claim, gbt.Progress{Tree: step, Metric: score}); err != nil {
			return err
		}
	}
	return nil
}

// trySample returns the score on valid of a model of one in so many rows. It is saved and resumed like any training.
func (w *Worker) trySample(ctx context.Context, s *saving, q fit.Request, p *pulse, of int) (float64, error) {
	q.OneIn, q.RateTrees, q.StandardError, q.Metrics = of, false, false, nil
	q.OnTree = func(gbt.Progress) error {
		p.measures.sampled(of)
		return nil
	}

	o, err := w.fit(ctx, s, q)
	if err != nil {
		return math.NaN(), err
	}
	if o.Stopped == gbt.StopLimit { // a model of a sample is none that could win
		return math.NaN(), gbt.ErrLimit
	}
	s.clear() // the next training is another one
	w.Log.Info("trained on a sample", "rows", o.TrainRows, "trees", o.Grown, "score", o.Score, "seconds", o.Seconds)
	return o.Score, nil
}
