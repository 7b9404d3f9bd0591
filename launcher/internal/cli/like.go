package cli

import (
	"context"
	"errors"
	"fmt"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// like resolves the model in the spec's encodings.like to its dataset, and replaces it by that in the spec, because the
// dataset's contents depend on it. It returns nil if the spec names no model, or names a champion and there is none
// yet.
func (w *World) like(ctx context.Context, c *cloud, spec *dataset.Spec, quiet bool) (*dataset.Manifest, error) {
	if spec.Encodings.Like == "" {
		return nil, nil
	}

	model, ref, err := splitRef(spec.Encodings.Like)
	if err != nil {
		return nil, spec.Errorf("encodings.like", "%v", err)
	}
	v, err := c.registry.Get(ctx, model, ref)
	if ref == sweep.Champion && problem.Of(err) == problem.NotFound { // the first night
		if !quiet {
			fmt.Fprintf(w.Err, "model %s has no champion yet, so encodings are chosen as if there were no like:\n",
				model)
		}
		spec.Encodings.Like = ""
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("encodings.like: %w", err)
	}

	data, err := c.registry.ReadFile(ctx, v, scorer.FileDataset)
	if err != nil {
		return nil, fmt.Errorf("encodings.like: %w", err)
	}
	old, err := dataset.DecodeManifest(data)
	if err != nil {
		return nil, fmt.Errorf("%s of version %d of model %s: %w", scorer.FileDataset, v.Number, v.Model, err)
	}
	spec.Encodings.Like = old.Name + "@" + old.Version
	return old, nil
}

// inBucket checks that the dataset to follow is in the bucket, since a task cannot read the registry.
func (c *cloud) inBucket(ctx context.Context, like *dataset.Manifest) error {
	if like == nil {
		return nil
	}
	_, err := stager.Manifest(ctx, c.datasets, like.Name, like.Version)
	if errors.Is(err, blob.ErrNotExist) {
		return fmt.Errorf("encodings.like: the model's dataset %s@%s is no longer in the bucket; stage without "+
			"--batch, which reads it from the registry: %w",
			like.Name, like.Version, stager.NotStaged(like.Name+"@"+like.Version))
	}
	return err
}
