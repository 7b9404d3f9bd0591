package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/stager"
)

// splitRef splits MODEL[@REF].
func splitRef(arg string) (model, ref string, err error) {
	model, ref, pinned := strings.Cut(arg, "@")
	if err := sweep.CheckName("model", model); err != nil {
		return "", "", err
	}
	if pinned && ref == "" {
		return "", "", program.Usagef("%q: expected MODEL, MODEL@VERSION or MODEL@ALIAS", arg)
	}
	return model, ref, nil
}

// origin is a registered version with what it was made of.
type origin struct {
	registry.Version
	manifest *dataset.Manifest
	plan     *sweep.Plan // nil if the version does not record it
}

func (o origin) name() string { return fmt.Sprintf("%s@%d", o.Model, o.Number) }

// readOrigin reads a version's dataset and plan.
func readOrigin(ctx context.Context, r *registry.Registry, v registry.Version) (o origin, err error) {
	o.Version = v
	if o.manifest, _, err = plan.TrainedOn(ctx, r, v); err != nil {
		return o, err
	}
	if _, ok := v.File(scorer.FilePlan); !ok {
		return o, nil
	}
	text, err := r.ReadFile(ctx, v, scorer.FilePlan)
	if err != nil {
		return o, err
	}
	o.plan, err = sweep.DecodePlan(text)
	return o, err
}

// resolveLike resolves the model in the spec's encodings.like to its dataset, and replaces it by that in the spec,
// because the dataset's contents depend on it. It returns nil if the spec names no model, or names a champion and there
// is none yet.
func resolveLike(ctx context.Context, w *Setup, spec *dataset.Spec) (*dataset.Manifest, error) {
	if spec.Encodings.Like == "" {
		return nil, nil
	}

	model, ref, err := splitRef(spec.Encodings.Like)
	if err != nil {
		return nil, spec.Errorf("encodings.like", "%v", err)
	}
	v, err := w.registry.Get(ctx, model, ref)
	if err != nil && plan.NoChampion(ref, err) {
		if !w.asJSON {
			fmt.Fprintf(w.Err, "model %s has no champion yet, so encodings are chosen as if there were no like:\n",
				model)
		}
		spec.Encodings.Like = ""
		return nil, nil
	}
	var old *dataset.Manifest
	if err == nil {
		old, _, err = plan.TrainedOn(ctx, w.registry, v)
	}
	if err != nil {
		return nil, fmt.Errorf("encodings.like: %w", err)
	}
	spec.Encodings.Like = old.Name + "@" + old.Version
	return old, nil
}

// checkLikeStaged checks that the dataset to follow is in the bucket, since a task cannot read the registry.
func checkLikeStaged(ctx context.Context, w *Setup, like *dataset.Manifest) error {
	if like == nil {
		return nil
	}
	_, err := stager.Manifest(ctx, w.datasets, like.Name, like.Version)
	if errors.Is(err, blob.ErrNotExist) {
		return problem.New(problem.NotFound,
			"encodings.like: the model's dataset %s@%s is no longer in the bucket; stage "+
				"without --batch, which reads it from the registry", like.Name, like.Version)
	}
	return err
}
