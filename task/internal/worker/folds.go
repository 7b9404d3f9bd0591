package worker

import (
	"context"
	"fmt"

	"coppice/fit"
	"coppice/metric"
	"coppice/search"
	"coppice/sweep"
)

// droppedError is a fold that is not trained: its configuration is behind after the first folds, or a fold of it has no score.
type droppedError struct{ reason string }

func (e *droppedError) Error() string { return e.reason }

// request puts into q which rows the trial trains on and which rate it.
func (w *Worker) request(trial int, q fit.Request) fit.Request {
	q.Rows, q.Valid = w.plan.RowsOf(trial)
	q.Program = w.Version
	return q
}

// checkFolds makes sure that the dataset's folds keep apart what the plan wants to be apart.
func (w *Worker) checkFolds() error {
	if w.plan.Folds == nil || w.plan.Folds.Scheme != string(fit.GroupKFold) {
		return nil
	}
	return w.table.CheckGroups()
}

// settleFold says what a trial of a sweep with folds trains, by the results of earlier stages: all of them are there, and none can change. chosen is the
// refit's configuration. A *brokenError is the store's, a *droppedError says why nothing is to be trained.
func (w *Worker) settleFold(ctx context.Context, trial int) (params sweep.Params, chosen *search.Choice, err error) {
	t := w.plan.Trials[trial]
	if w.plan.Stages()[trial] == 0 {
		return t.Params, nil, nil
	}

	if w.results == nil {
		w.results = map[int]sweep.Result{}
	}
	if err := w.trials.Results(ctx, w.listing, w.results, nil); err != nil {
		return t.Params, nil, &brokenError{fmt.Errorf("results of the other folds: %w", err)}
	}
	var results []sweep.Result
	for _, r := range w.results {
		results = append(results, r)
	}
	board := sweep.Fold(w.plan, results)

	if !t.Refit {
		if why := search.Drop(w.plan, board, t.Configuration); why != "" {
			return t.Params, nil, &droppedError{why}
		}
		return t.Params, nil, nil
	}

	var require []*search.Condition
	for _, text := range w.plan.Spec.Require {
		c, err := search.CompileRequire(text, metric.Canonical)
		if err != nil {
			return nil, nil, err
		}
		require = append(require, c)
	}
	if chosen, err = search.Choose(w.plan, board, require); err != nil {
		return nil, nil, err
	}
	w.Log.Info("refit", "trial", trial, "configuration", chosen.Configuration, "trees", chosen.Trees, "reason", chosen.Reason)
	return chosen.Params, chosen, nil
}
