package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// untrainedError ends a claimed trial before it is trained: the final training needs the time, its configuration fell
// behind after the first folds, one of its folds has no score, or the selection of columns ended before it.
type untrainedError struct{ reason string }

func (e *untrainedError) Error() string { return e.reason }

// request sets which rows the trial trains on and which it is evaluated on.
func (w *Worker) request(trial int, q fit.Request) fit.Request {
	q.Rows, q.Valid = w.plan.RowsOf(trial)
	final, ok := w.plan.Final()
	if q.Final = ok && trial == final; q.Final {
		q.Bag = w.plan.Spec.Bag()
	}
	q.Program = w.Version
	return q
}

// training is what all machines that train a trial have to know of it, by what it is decided that it trains.
func (w *Worker) training(ctx context.Context, trial int, m metric.Metric, chosen sweep.Params,
	from *sweep.Origin) (fit.Request, error) {
	params, err := gbt.ParseParams(chosen)
	if err != nil {
		return fit.Request{}, err
	}
	input, err := w.inputOf(ctx, from)
	if err != nil {
		return fit.Request{}, err
	}
	return w.request(trial, fit.Request{Params: params, Metric: m, Threads: w.threads(w.plan.Trials[trial]),
		RateTrees: w.plan.Spec.Search.Stop != nil, Input: input}), nil
}

// threads is how many a trial is trained with. A refit comes after all others, so its machine is its own; the bytes are
// the same for any number.
func (w *Worker) threads(of sweep.Trial) int {
	z := &w.plan.Sizing
	if of.Refit {
		return max(z.ThreadsPerTask, min(runtime.GOMAXPROCS(0), z.RefitThreads()))
	}
	return z.ThreadsPerTask
}

// checkFolds checks that no group is split between folds when the plan asks for grouped folds.
func (w *Worker) checkFolds() error {
	if w.plan.Folds == nil || w.plan.Folds.Scheme != string(fit.GroupKFold) {
		return nil
	}
	return w.table.CheckGroups()
}

// settleFold returns what a claimed trial of a cross-validated sweep, or the final training, trains. The first folds of
// an open configuration settle that; all others depend only on the results of earlier stages, all of which exist and
// none of which can change. chosen is the refit's configuration. A storage failure is transient; an *untrainedError
// says why there is nothing to train.
func (w *Worker) settleFold(ctx context.Context, claim *sweep.Claim) (params sweep.Params, chosen *sweep.Rated,
	err error) {
	trial := claim.Trial
	t := w.plan.Trials[trial]
	if !t.Refit && t.Fold <= w.plan.Folds.First {
		params, _, err = w.settle(ctx, claim)
		return params, nil, err
	}

	board, err := w.board(ctx)
	if err != nil {
		return t.Params, nil, storeFailed(fmt.Errorf("results of the other folds: %w", err))
	}

	if final, ok := w.plan.Final(); ok && trial == final {
		return w.settleFinal(board)
	}
	if !t.Refit {
		params = paramsOf(board, t.Configuration)
		if why := search.Drop(w.plan, board, t.Configuration); why != "" {
			return params, nil, &untrainedError{why}
		}
		return params, nil, nil
	}

	require, err := search.CompileRequires(w.plan.Spec.Require, metric.Canonical)
	if err != nil {
		return nil, nil, err
	}
	chosen, none := search.Choose(w.plan, board, require)
	if chosen == nil {
		return nil, nil, errors.New(none)
	}
	w.Log.Info("refit", "trial", trial, "configuration", chosen.Configuration, "trees", chosen.Trees, "reason",
		chosen.Reason)
	return chosen.Params, chosen, nil
}

// board ranks what has ended by the latest listing.
func (w *Worker) board(ctx context.Context) (sweep.Board, error) {
	err := w.trials.Results(ctx, w.listing, w.results, nil)
	return sweep.Fold(w.plan, slices.Collect(maps.Values(w.results))), err
}

// best is what the final training would train; none says why nothing.
func (w *Worker) best(board sweep.Board) (winner *sweep.Result, params sweep.Params, none string, err error) {
	require, err := search.CompileRequires(w.plan.Spec.Require, metric.Canonical)
	if err == nil {
		winner, params, none = search.ChooseFinal(w.plan, board, require)
	}
	return winner, params, none, err
}

// settleFinal returns what the final training trains, with the winner's score.
func (w *Worker) settleFinal(board sweep.Board) (sweep.Params, *sweep.Rated, error) {
	winner, params, none, err := w.best(board)
	if err != nil {
		return nil, nil, err
	}
	if winner == nil {
		return nil, nil, &untrainedError{none}
	}
	w.Log.Info("final training", "trial", winner.Trial, "trees", params["num_iterations"])
	return params, &sweep.Rated{Trials: []int{winner.Trial}, Mean: &winner.Score, Metrics: winner.Metrics}, nil
}

// paramsOf returns what the first folds of a configuration have trained. If it was never decided, none of them has a
// score.
func paramsOf(b sweep.Board, configuration int) sweep.Params {
	for i := range b.Configurations {
		if c := &b.Configurations[i]; c.Configuration == configuration {
			return c.Params
		}
	}
	return nil
}
