package stager

import (
	"bytes"
	"context"
	"errors"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// pointer is a small JSON object that names a version: the latest one of a dataset, or the one that an input (a spec
// and its files, by their fingerprint) was staged as.
type pointer struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	// CRC32C has the checksum of every file except the manifest, by name. Only pointers of inputs in a bucket have it:
	// objects can be compared with it without reading them.
	CRC32C map[string]uint32 `json:"crc32c,omitempty"`
}

// readPointer reads a pointer in a bucket. A format other than 1 was written by another build: it is an error of kind
// Conflict, since this build might misread it and must not overwrite it.
func readPointer(ctx context.Context, store blob.Store, object string) (p pointer, err error) {
	if _, err = blob.ReadJSON(ctx, store, object, &p); err == nil && p.Format != 1 {
		err = problem.New(problem.Conflict, "%s has format %d, and this build reads 1: use the build that wrote it",
			object, p.Format)
	}
	return p, err
}

// Manifest reads the manifest of a version from the datasets bucket. A damaged one is an error of kind Damaged, a
// missing one is blob.ErrNotExist.
func Manifest(ctx context.Context, store blob.Store, name, version string) (*dataset.Manifest, error) {
	if _, _, err := sweep.SplitDatasetRef(name + "@" + version); err != nil {
		return nil, err
	}

	text, _, err := blob.ReadAll(ctx, store, sweep.DatasetDir(name, version)+dataset.ManifestFile, dataset.MaxManifest)
	if err != nil {
		return nil, err
	}

	m, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, err
	}
	if m.Name != name || m.Version != version {
		return nil, problem.New(problem.Damaged,
			"dataset %s@%s: not a dataset manifest of Coppice: version: it is the manifest of %s@%s", name, version,
			m.Name, m.Version)
	}
	return m, nil
}

// NotStaged returns the error of kind NotFound about a dataset, NAME or NAME@VERSION, that is not in the bucket.
func NotStaged(ref string) error {
	return problem.New(problem.NotFound, "dataset %s is not staged; run `launcher stage` with its dataset.yaml first",
		ref)
}

// Resolve returns the manifest of a version in the bucket, given as NAME or NAME@VERSION. NAME alone is the latest
// version. A missing one is an error of kind NotFound.
func Resolve(ctx context.Context, store blob.Store, ref string) (*dataset.Manifest, error) {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return nil, err
	}

	if version == "" {
		p, err := readPointer(ctx, store, sweep.DatasetLatest(name))
		if errors.Is(err, blob.ErrNotExist) {
			return nil, NotStaged(ref)
		}
		if err != nil {
			return nil, err
		}
		version = p.Version
	}

	m, err := Manifest(ctx, store, name, version)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, NotStaged(name + "@" + version)
	}
	return m, err
}

// Renew says that a version is about to be used: it writes the manifest anew, so that `launcher clean` leaves the
// version alone for a week. ref is NAME@VERSION. A missing version is an error of kind NotFound.
func Renew(ctx context.Context, store blob.Store, ref string) error {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return err
	}
	object := sweep.DatasetDir(name, version) + dataset.ManifestFile

	// If another process writes the manifest between reading and writing, try again.
	for range 20 {
		var text []byte
		var a blob.Attrs
		if text, a, err = blob.ReadAll(ctx, store, object, dataset.MaxManifest); err == nil {
			_, err = dataset.DecodeManifest(text)
		}
		if err == nil {
			_, err = store.Put(ctx, object, a.Generation, bytes.NewReader(text))
		}
		if !errors.Is(err, blob.ErrPrecondition) {
			break
		}
	}
	if errors.Is(err, blob.ErrNotExist) {
		return NotStaged(ref)
	}
	return err
}
