package worker

import (
	"cmp"
	"context"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// openInput reads the model that the trials continue, if any, and translates its thresholds to the bins of the mapped
// dataset.
func (w *Worker) openInput(ctx context.Context) error {
	in := w.plan.Input
	if in == nil || w.input != nil {
		return nil
	}

	read := map[string][]byte{}
	for what, o := range map[string]sweep.Object{"model": in.Text, "dataset": in.Dataset} {
		data, lost, err := w.trials.File(ctx, o)
		if err = cmp.Or(err, lost); err != nil {
			return fmt.Errorf("input model: %w", err)
		}
		read[what] = data
	}

	old, err := dataset.DecodeManifest(read["dataset"])
	if err != nil {
		return fmt.Errorf("input model: %w", err)
	}
	if w.input, err = fit.Input(w.dataset.Manifest, old, read["model"]); err != nil {
		return err
	}
	w.Log.Info("continuing a model", "model", in.Model, "version", in.Version, "mode", in.Mode, "trees",
		w.input.Iterations(), "thresholds", w.input.Cuts, "moved", w.input.Moved)
	return nil
}

// inputOf returns the model that a trial continues: that of the whole sweep, or in a population the one of another
// trial.
func (w *Worker) inputOf(ctx context.Context, from *sweep.Origin) (*gbt.InputModel, error) {
	if from == nil {
		return w.input, nil
	}
	text, lost, err := w.trials.File(ctx, from.Model)
	switch {
	case lost != nil:
		return nil, fmt.Errorf("the model of trial %d, which it continues: %w", from.Trial, lost)
	case err != nil:
		return nil, storeFailed(fmt.Errorf("the model of trial %d, which it continues: %w", from.Trial, err))
	}
	return fit.Input(w.dataset.Manifest, w.dataset.Manifest, text)
}
