package plan

import (
	"context"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// Provenance is a registered version with what it was made of.
type Provenance struct {
	registry.Version
	Manifest *dataset.Manifest
	Plan     *sweep.Plan // nil if the version does not record it
}

// Name is the version's, such as ctr@3.
func (v Provenance) Name() string { return fmt.Sprintf("%s@%d", v.Model, v.Number) }

// ProvenanceOf reads a version's dataset and plan.
func ProvenanceOf(ctx context.Context, r *registry.Registry, v registry.Version) (of Provenance, err error) {
	of.Version = v
	if of.Manifest, _, err = TrainedOn(ctx, r, v); err != nil {
		return of, err
	}
	if _, ok := v.File(scorer.FilePlan); !ok {
		return of, nil
	}
	text, err := r.ReadFile(ctx, v, scorer.FilePlan)
	if err != nil {
		return of, err
	}
	of.Plan, err = sweep.DecodePlan(text)
	return of, err
}

// FollowLike resolves the model in the spec's encodings.like to its dataset, and replaces it by that in the spec,
// because the dataset's contents depend on it. It returns nil, and leaves a spec without like, if that names no model,
// or a champion and there is none yet.
func FollowLike(ctx context.Context, r *registry.Registry, spec *dataset.Spec) (*dataset.Manifest, error) {
	if spec.Encodings.Like == "" {
		return nil, nil
	}

	model, ref, err := sweep.SplitModelRef(spec.Encodings.Like)
	if err != nil {
		return nil, spec.Errorf("encodings.like", "%v", err)
	}
	v, err := r.Get(ctx, model, ref)
	if err != nil && NoChampion(ref, err) {
		spec.Encodings.Like = ""
		return nil, nil
	}
	var old *dataset.Manifest
	if err == nil {
		old, _, err = TrainedOn(ctx, r, v)
	}
	if err != nil {
		return nil, fmt.Errorf("encodings.like: %w", err)
	}
	spec.Encodings.Like = old.Name + "@" + old.Version
	return old, nil
}
