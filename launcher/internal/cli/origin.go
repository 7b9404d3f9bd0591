package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/fit"
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
	if o.manifest, _, err = trainedOn(ctx, r, v); err != nil {
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

// trainedOn reads the manifest of a version's dataset.
func trainedOn(ctx context.Context, r *registry.Registry, v registry.Version) (*dataset.Manifest, []byte, error) {
	text, err := r.ReadFile(ctx, v, scorer.FileDataset)
	if err != nil {
		return nil, nil, err
	}
	m, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s of version %d of model %s: %w", scorer.FileDataset, v.Number, v.Model, err)
	}
	return m, text, nil
}

// noChampion says that a model has no champion yet, as on its first night.
func noChampion(ref string, err error) bool {
	return ref == sweep.Champion && problem.Of(err) == problem.NotFound
}

// readInput returns the version that the spec continues, and checks that the dataset is suitable: otherwise the sweep
// is rejected before a machine starts. It returns nil if the spec continues no version, or continues a champion and
// there is none yet.
func readInput(ctx context.Context, w *Setup, s *sweep.Spec, m *dataset.Manifest) (*plan.Continued, error) {
	if s.Continue == nil {
		return nil, nil
	}

	v, err := w.registry.Get(ctx, s.Model, s.Continue.From)
	if err != nil && noChampion(s.Continue.From, err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := w.registry.ReadFile(ctx, v, scorer.FileModel)
	if err != nil {
		return nil, err
	}
	old, manifest, err := trainedOn(ctx, w.registry, v)
	if err != nil {
		return nil, err
	}

	moved, err := fit.Input(m, old, text)
	if err != nil {
		return nil, fmt.Errorf("continue version %d of model %s: %w", v.Number, v.Model, err)
	}
	if was, _, _ := strings.Cut(moved.Objective, " "); was != s.Objective {
		return nil, problem.New(problem.Input, "version %d of model %s has objective %s, but the sweep has %s",
			v.Number,
			v.Model, was, s.Objective)
	}
	return &plan.Continued{Model: v.Model, Version: v.Number, Trees: len(moved.Trees), Cuts: moved.Cuts,
		Moved: moved.Moved,
		Text:  text, Dataset: manifest, Trained: old}, nil
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
	if err != nil && noChampion(ref, err) {
		if !w.asJSON {
			fmt.Fprintf(w.Err, "model %s has no champion yet, so encodings are chosen as if there were no like:\n",
				model)
		}
		spec.Encodings.Like = ""
		return nil, nil
	}
	var old *dataset.Manifest
	if err == nil {
		old, _, err = trainedOn(ctx, w.registry, v)
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
