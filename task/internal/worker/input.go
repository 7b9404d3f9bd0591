package worker

import (
	"context"
	"fmt"

	"coppice/dataset"
	"coppice/fit"
	"coppice/sweep"
)

// openInput reads the model that the trials continue, if any, and translates its thresholds to the bins of the mapped dataset.
func (w *Worker) openInput(ctx context.Context) error {
	in := w.plan.Input
	if in == nil || w.input != nil {
		return nil
	}

	read := map[string][]byte{}
	for what, o := range map[string]sweep.Object{"model": in.Text, "dataset": in.Dataset} {
		data, err := w.trials.File(ctx, o)
		if err != nil {
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
	w.Log.Info("continuing a model", "model", in.Model, "version", in.Version, "mode", in.Mode, "trees", len(w.input.Trees),
		"thresholds", w.input.Cuts, "moved", w.input.Moved)
	return nil
}
