package stager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

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

// findStaged returns the manifest of the version that this input was staged as. It returns nil if there is none, or if
// it is not complete.
func (s *Stager) findStaged(ctx context.Context, d Destination, name, fingerprint string) (*dataset.Manifest, error) {
	if d.Store != nil {
		return d.findStagedInBucket(ctx, name, fingerprint)
	}

	var p pointer
	text, err := os.ReadFile(d.input(name, fingerprint))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return nil, nil //nolint:nilerr // without a readable pointer the input counts as new
	}

	place := filepath.Join(d.Dir, name, p.Version)
	m, err := dataset.ReadManifest(place)
	if err != nil {
		return nil, nil //nolint:nilerr // the version was removed
	}
	if whole, err := s.holdsWhole(ctx, place, p.Version); err != nil || !whole {
		return nil, err
	}
	return m, nil
}

// findStagedInBucket does the same in a bucket. It compares the sizes and checksums of all files with what the manifest
// and the pointer say, without reading the files.
func (d Destination) findStagedInBucket(ctx context.Context, name, fingerprint string) (*dataset.Manifest, error) {
	p, err := readPointer(ctx, d.Store, sweep.DatasetInput(name, fingerprint))
	if damaged(err) { // without a readable pointer the input counts as new
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	m, err := Manifest(ctx, d.Store, name, p.Version)
	if damaged(err) {
		return nil, nil // it was removed, or is being repaired
	}
	if err != nil {
		return nil, err
	}

	// A version with a missing or changed file is staged again.
	for _, f := range m.Files {
		attrs, err := d.Store.Stat(ctx, sweep.DatasetDir(name, m.Version)+f.Name)
		if errors.Is(err, blob.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if sum, ok := p.CRC32C[f.Name]; attrs.Size != f.Bytes || ok && sum != attrs.CRC32C {
			return nil, nil
		}
	}
	return m, nil
}

// damaged reports whether an error says that an object is missing or unusable.
func damaged(err error) bool {
	return errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged)
}

// MakeLatest makes the version the one that the dataset's name alone refers to. In a folder there is no such pointer,
// and it does nothing.
func (d Destination) MakeLatest(ctx context.Context, m *dataset.Manifest) error {
	if d.Store == nil {
		return nil
	}
	if err := d.putPointer(ctx, sweep.DatasetLatest(m.Name), pointer{Format: 1, Version: m.Version}); err != nil {
		return fmt.Errorf("make version %s the latest: %w", m.Version, err)
	}
	return nil
}

// putPointer writes a pointer to the bucket. It does not overwrite one of another format, which is a conflict. Any
// other one is overwritten, also one that cannot be read.
func (d Destination) putPointer(ctx context.Context, name string, p pointer) error {
	if _, err := readPointer(ctx, d.Store, name); problem.Is(err, problem.Conflict) {
		return err
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = d.Store.Put(ctx, name, blob.Any, strings.NewReader(string(text)+"\n"))
	return err
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

// Reuse makes a version that was staged before the latest one, and keeps `launcher clean` from removing it. It returns
// nil if the version has been removed meanwhile.
func (d Destination) Reuse(ctx context.Context, s *Staged) (*Staged, error) {
	if d.Store != nil {
		err := Renew(ctx, d.Store, s.Manifest.Name+"@"+s.Manifest.Version)
		if problem.Is(err, problem.NotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return s, d.MakeLatest(ctx, s.Manifest)
}
