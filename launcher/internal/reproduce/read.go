package reproduce

import (
	"context"
	"fmt"
	"os"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/plan"
	"coppice/launcher/internal/stager"
)

// Reproducible reads a version's plan and dataset, and rejects one that cannot be trained again.
func Reproducible(ctx context.Context, r *registry.Registry, v registry.Version) (plan.Provenance, error) {
	of, err := plan.ProvenanceOf(ctx, r, v)
	if err == nil && of.Plan == nil {
		err = problem.New(problem.Input, "%s has no plan among its files, so it was not registered by a sweep",
			of.Called())
	}
	return of, err
}

// Read reads what a version was trained from, but for the dataset, whose Dir the caller sets.
func Read(ctx context.Context, r *registry.Registry, of plan.Provenance) (*Recipe, error) {
	if err := of.Plan.Trainable(); err != nil {
		return nil, err
	}
	q := &Recipe{Plan: of.Plan, Files: map[string][]byte{}}
	var result sweep.Result
	if err := r.ReadJSON(ctx, of.Version, scorer.FileResult, &result); err != nil {
		return nil, err
	}
	q.Trial, q.Params = result.Trial, result.Params
	if result.AtLimit {
		q.Trees = result.TreesGrown
	}
	if result.From != nil {
		q.Lineage = result.From.Lineage
	}
	for _, file := range append(compared[:len(compared):len(compared)], scorer.FileJudgedCalibrator) {
		if _, ok := of.File(file); !ok {
			continue
		}
		data, err := r.ReadFile(ctx, of.Version, file)
		if err != nil {
			return nil, err
		}
		q.Files[file] = data
	}
	return q, nil
}

// Fetch copies a dataset into a temporary folder, which the caller removes.
func Fetch(ctx context.Context, datasets blob.Store, m *dataset.Manifest) (string, error) {
	staged, err := stager.Resolve(ctx, datasets, m.Name+"@"+m.Version)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "coppice-reproduce-")
	if err != nil {
		return "", err
	}
	if err := stager.FetchTo(ctx, datasets, staged, dir); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return dir, nil
}

// Conflict is the error about a version that came out different.
func (r *Report) Conflict(of plan.Provenance) error {
	var parts []string
	for _, f := range r.Files {
		if !f.Same {
			parts = append(parts, f.Name+": "+f.Differs)
		}
	}
	builds := ""
	if of.Plan.Coppice != r.Build {
		builds = fmt.Sprintf("; it was planned by build %s, and trained again by %s", of.Plan.Coppice, r.Build)
	}
	return problem.New(problem.Conflict, "%s trained again on %s differs in %s%s", of.Called(), r.Dataset,
		strings.Join(parts, "; "), builds)
}
