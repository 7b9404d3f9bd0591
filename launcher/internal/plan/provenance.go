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

// ProvenanceOf reads the manifest of the dataset that a version was trained on and, if the version has one, the plan of
// its sweep. Both are files of the version.
func ProvenanceOf(ctx context.Context, models *registry.Registry, version registry.Version) (of Provenance, err error) {
	of.Version = version
	text, err := models.ReadFile(ctx, version, scorer.FileDataset)
	if err != nil {
		return of, err
	}
	if of.Manifest, err = dataset.DecodeManifest(text); err != nil {
		return of, fmt.Errorf("%s of version %d of model %s: %w", scorer.FileDataset, version.Number, version.Model,
			err)
	}

	// A version that no sweep has made has no plan.
	if _, ok := version.File(scorer.FilePlan); !ok {
		return of, nil
	}
	if text, err = models.ReadFile(ctx, version, scorer.FilePlan); err != nil {
		return of, err
	}
	of.Plan, err = sweep.DecodePlan(text)
	return of, err
}
