package stager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

// Listed is a dataset version in the bucket.
type Listed struct {
	Manifest *dataset.Manifest
	Stored   time.Time
	Latest   bool  // its dataset's name alone refers to it
	Damaged  error // why the manifest cannot be read; Manifest then has only name and version
}

// manifestsAtOnce is how many manifests are read at the same time.
const manifestsAtOnce = 16

// Versions returns the versions of a dataset, or of all datasets if name is empty, as the bucket lists them. It reads
// no manifest: each Manifest has only name and version. Latest and Damaged are not set; List sets them.
func Versions(ctx context.Context, store blob.Store, name string) (all []Listed, err error) {
	for attrs, err := range store.List(ctx, sweep.DatasetVersions(name)) {
		if err != nil {
			return nil, fmt.Errorf("list datasets: %w", err)
		}
		parts := strings.Split(attrs.Name, "/") // datasets/NAME/VERSION/manifest.json
		if len(parts) == 4 && parts[3] == dataset.ManifestFile {
			m := &dataset.Manifest{Name: parts[1], Version: parts[2]}
			all = append(all, Listed{Manifest: m, Stored: attrs.Updated})
		}
	}
	return all, nil
}

// List returns the same with the manifests. A version whose manifest is missing or damaged is in it, too, with the
// reason in Damaged.
func List(ctx context.Context, store blob.Store, name string) ([]Listed, error) {
	out, err := Versions(ctx, store, name)
	if err != nil {
		return nil, err
	}

	// The latest version of each dataset. Without a readable pointer there is none.
	latest := map[string]string{}
	for _, v := range out {
		name := v.Manifest.Name
		if _, known := latest[name]; !known {
			latest[name] = ""
			if p, err := readPointer(ctx, store, sweep.DatasetLatest(name)); err == nil {
				latest[name] = p.Version
			}
		}
	}

	// Read the manifests.
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(manifestsAtOnce)
	for i := range out {
		v := &out[i]
		v.Latest = latest[v.Manifest.Name] == v.Manifest.Version
		group.Go(func() error {
			m, err := Manifest(ctx, store, v.Manifest.Name, v.Manifest.Version)
			switch {
			case err == nil:
				v.Manifest = m
			case damaged(err):
				v.Damaged = err
			default:
				return err
			}
			return nil
		})
	}
	return out, group.Wait()
}

// FetchTo copies a whole dataset version from the bucket into the folder dir, and verifies it. The manifest comes last,
// as it makes a version complete.
func FetchTo(ctx context.Context, store blob.Store, m *dataset.Manifest, dir string) error {
	prefix := sweep.DatasetDir(m.Name, m.Version)
	names := []string{dataset.ManifestFile}
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	slices.Reverse(names) // so that the manifest is last
	for _, name := range names {
		attrs, err := store.Stat(ctx, prefix+name)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := blob.Fetch(ctx, store, attrs, to, func(int64) {}); err != nil {
			return fmt.Errorf("fetch %s: %w", prefix+name, err)
		}
	}
	_, err := dataset.Check(ctx, dir, nil)
	return err
}
