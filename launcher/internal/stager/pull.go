package stager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Listed is a dataset version in the bucket.
type Listed struct {
	Manifest *dataset.Manifest
	Latest   bool  // its dataset's name alone refers to it
	Damaged  error // why the manifest cannot be read; Manifest then has only name and version
}

// List returns the versions of a dataset, or of all, that are complete according to their manifests, by name and
// version.
func List(ctx context.Context, store blob.Store, name string) ([]Listed, error) {
	var out []Listed
	latest := map[string]string{}
	for attrs, err := range store.List(ctx, sweep.DatasetVersions(name)) {
		if err != nil {
			return nil, fmt.Errorf("list datasets: %w", err)
		}
		parts := strings.Split(attrs.Name, "/") // datasets/NAME/VERSION/manifest.json
		switch {
		case len(parts) == 3 && attrs.Name == sweep.DatasetLatest(parts[1]):
			var p pointer
			if _, err := blob.ReadJSON(ctx, store, attrs.Name, &p); err == nil {
				latest[parts[1]] = p.Version
			}
		case len(parts) == 4 && parts[3] == dataset.ManifestFile:
			m, err := Manifest(ctx, store, parts[1], parts[2])
			if err != nil && !damaged(err) {
				return nil, err
			}
			if err != nil {
				m = &dataset.Manifest{Name: parts[1], Version: parts[2]}
			}
			out = append(out, Listed{Manifest: m, Damaged: err})
		}
	}

	for i := range out {
		out[i].Latest = latest[out[i].Manifest.Name] == out[i].Manifest.Version
	}
	return out, nil
}

// Pull copies a version from the bucket into the folder dir/NAME/VERSION, and returns that folder. It appears there
// atomically, with verified checksums.
func (s *Stager) Pull(ctx context.Context, store blob.Store, m *dataset.Manifest, dir string) (string, error) {
	place := Destination{Dir: dir}.Place(m)
	work, err := newWorkspace(filepath.Join(dir, m.Name), ".staging-")
	if err != nil {
		return "", err
	}
	defer work.remove()

	prefix := sweep.DatasetDir(m.Name, m.Version)
	total, done := m.Bytes(), int64(0)
	names := []string{dataset.ManifestFile}
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	slices.Reverse(names) // the manifest last
	for _, name := range names {
		attrs, err := store.Stat(ctx, prefix+name)
		if err != nil {
			return "", err
		}
		to := filepath.Join(work.path("dataset"), filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return "", err
		}
		if err := fetchOne(ctx, store, attrs, to, func(n int64) {
			done += n
			s.report(StepFetch, min(done, total), total)
		}); err != nil {
			return "", fmt.Errorf("fetch %s: %w", prefix+name, err)
		}
	}

	whole, err := s.whole(ctx, work.path("dataset"), m.Version)
	if err == nil && !whole {
		err = problem.New(problem.Damaged, "dataset %s@%s is damaged in the bucket: its checksums are not those of its "+
			"manifest; stage it again", m.Name, m.Version)
	}
	if err != nil {
		return "", err
	}
	return place, s.putIntoPlace(ctx, work, place, m.Version)
}
