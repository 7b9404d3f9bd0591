package plan

import (
	"context"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// trainedOn reads the manifest of the dataset that a registered version was trained on, which the version contains.
func trainedOn(ctx context.Context, models *registry.Registry, version registry.Version) (*dataset.Manifest, error) {
	text, err := models.ReadFile(ctx, version, scorer.FileDataset)
	if err != nil {
		return nil, err
	}
	m, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s of version %d of model %s: %w", scorer.FileDataset, version.Number, version.Model,
			err)
	}
	return m, nil
}

// Provenance is a registered version with what it was made of.
type Provenance struct {
	registry.Version
	Manifest *dataset.Manifest
	Plan     *sweep.Plan // nil if the version does not record it
}

// ProvenanceOf reads the manifest of a version's dataset and, if the version has one, the plan of its sweep.
func ProvenanceOf(ctx context.Context, models *registry.Registry, version registry.Version) (of Provenance, err error) {
	of.Version = version
	if of.Manifest, err = trainedOn(ctx, models, version); err != nil {
		return of, err
	}
	if _, ok := version.File(scorer.FilePlan); !ok {
		return of, nil
	}
	text, err := models.ReadFile(ctx, version, scorer.FilePlan)
	if err != nil {
		return of, err
	}
	of.Plan, err = sweep.DecodePlan(text)
	return of, err
}
