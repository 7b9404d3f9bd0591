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

// Reproducible reads a version's plan and its dataset's manifest. A version without a plan cannot be trained again,
// which is an error of kind Input.
func Reproducible(ctx context.Context, r *registry.Registry, v registry.Version) (plan.Provenance, error) {
	of, err := plan.ProvenanceOf(ctx, r, v)
	if err == nil && of.Plan == nil {
		err = problem.New(problem.Input, "%s has no plan among its files, so it was not registered by a sweep",
			of.Called())
	}
	return of, err
}

// Read returns the recipe of a version: its plan, what the trial's result says of how it was trained, and the files to
// compare with. The caller has to set Dir, the dataset's folder. A plan that this build cannot train is an error.
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
	if result.AtLimit { // a time limit ended it after so many trees, which another machine would not grow in that time
		q.Trees = result.TreesGrown
	}
	if result.From != nil {
		q.Lineage = result.From.Lineage
	}

	// The files to compare with, and the calibrator on which a final model's is based. The slice's capacity is cut so
	// that append copies it.
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

// Fetch copies the dataset of the manifest m into a temporary folder and returns that, which the caller has to remove.
// After an error there is none.
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

// Conflict returns the error, of kind Conflict, about a version that came out different: which files differ, and where.
// It also names both builds if another one has planned it.
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
