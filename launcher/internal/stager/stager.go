// Package stager turns a dataset.yaml into a dataset version in a folder or a bucket: it fetches the source if that lies
// in a bucket, recognises an input that was staged before, and uploads what package ingest made, the manifest last.
package stager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"coppice/blob"
	"coppice/dataset"
	"coppice/dataset/ingest"
	"coppice/sweep"
)

// Step is a part of the work, for a progress bar.
type Step string

// The steps, in order.
const (
	StepFetch    Step = "fetch"
	StepSurvey   Step = "survey"
	StepWrite    Step = "bin"
	StepChecksum Step = "checksum"
	StepUpload   Step = "upload"
)

// Stager stages datasets.
type Stager struct {
	// Bucket opens a bucket by name. It is called only for sources and destinations in buckets.
	Bucket  func(ctx context.Context, name string) (blob.Store, error)
	Scratch string // for files on their way; empty is the system's folder for temporary files
	Threads int    // 0 is all CPUs
	// Progress may be nil. It is called from one goroutine at a time, in bytes.
	Progress func(step Step, done, total int64)
}

// Destination is where dataset versions are kept: datasets/NAME/VERSION/ in a bucket, NAME/VERSION in a folder.
type Destination struct {
	Store blob.Store // nil for a folder
	URL   string     // gs://BUCKET[/PREFIX], for people
	Dir   string     // the folder
}

// Staged is a dataset version at its place.
type Staged struct {
	Manifest *dataset.Manifest
	Place    string // folder or URL of the version
	Existed  bool   // it had been there; nothing was read but the inputs' checksums
}

// pointer is the object that names a version.
type pointer struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
}

// Stage makes the dataset that spec describes at dst.
func (s *Stager) Stage(ctx context.Context, spec *dataset.Spec, dst Destination) (*Staged, error) {
	src, err := s.find(ctx, spec.Source)
	if err != nil {
		return nil, err
	}
	fingerprint, err := ingest.Fingerprint(ctx, spec, src.files)
	if err != nil {
		return nil, err
	}
	if m, err := dst.known(ctx, spec.Name, fingerprint); err != nil || m != nil {
		if err != nil {
			return nil, err
		}
		return &Staged{Manifest: m, Place: dst.place(m), Existed: true}, dst.latest(ctx, m)
	}
	work, err := os.MkdirTemp(s.Scratch, "coppice-stage-")
	if err != nil {
		return nil, fmt.Errorf("make a scratch folder: %w", err)
	}
	defer os.RemoveAll(work)
	if err := s.fetch(ctx, src, work); err != nil {
		return nil, err
	}
	if dst.Store == nil {
		return s.intoFolder(ctx, spec, src.files, dst, fingerprint)
	}
	report, err := s.ingest(ctx, spec, src.files, filepath.Join(work, "dataset"))
	if err != nil {
		return nil, err
	}
	m := report.Manifest
	if err := s.upload(ctx, filepath.Join(work, "dataset"), m, dst.Store); err != nil {
		return nil, err
	}
	if _, err := blob.CreateJSON(ctx, dst.Store, sweep.DatasetInput(m.Name, fingerprint), pointer{1, m.Version}); err != nil {
		return nil, fmt.Errorf("remember the input: %w", err)
	}
	return &Staged{Manifest: m, Place: dst.place(m)}, dst.latest(ctx, m)
}

func (s *Stager) ingest(ctx context.Context, spec *dataset.Spec, files []ingest.File, dir string) (*ingest.Report, error) {
	steps := map[ingest.Phase]Step{ingest.PhaseSurvey: StepSurvey, ingest.PhaseWrite: StepWrite, ingest.PhaseChecksum: StepChecksum}
	return ingest.Stage(ctx, spec, files, dir, ingest.Options{Threads: s.Threads, Progress: func(p ingest.Progress) {
		s.report(steps[p.Phase], p.Done, p.Total)
	}})
}

func (s *Stager) report(step Step, done, total int64) {
	if s.Progress != nil {
		s.Progress(step, done, total)
	}
}

// intoFolder stages beside the final place and renames: what is visible under a version is complete.
func (s *Stager) intoFolder(ctx context.Context, spec *dataset.Spec, files []ingest.File, dst Destination, fingerprint string) (*Staged, error) {
	home := filepath.Join(dst.Dir, spec.Name)
	if err := os.MkdirAll(filepath.Join(home, "inputs"), 0o755); err != nil {
		return nil, fmt.Errorf("make the dataset's folder: %w", err)
	}
	temporary, err := os.MkdirTemp(home, ".staging-")
	if err != nil {
		return nil, fmt.Errorf("make the dataset's folder: %w", err)
	}
	defer os.RemoveAll(temporary)
	report, err := s.ingest(ctx, spec, files, filepath.Join(temporary, "dataset"))
	if err != nil {
		return nil, err
	}
	m := report.Manifest
	place := dst.place(m)
	if err := os.Rename(filepath.Join(temporary, "dataset"), place); err != nil {
		if _, there := dataset.ReadManifest(place); there != nil { // the same contents may have come from another input
			return nil, fmt.Errorf("put the dataset into its place: %w", err)
		}
	}
	text, err := json.Marshal(pointer{1, m.Version})
	if err != nil {
		return nil, err
	}
	if err := renameio.WriteFile(dst.input(m.Name, fingerprint), append(text, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("remember the input: %w", err)
	}
	return &Staged{Manifest: m, Place: place}, dst.latest(ctx, m)
}

func (d Destination) input(name, fingerprint string) string {
	return filepath.Join(d.Dir, name, "inputs", fingerprint+".json")
}

// place is the version's folder or URL.
func (d Destination) place(m *dataset.Manifest) string {
	if d.Store == nil {
		return filepath.Join(d.Dir, m.Name, m.Version)
	}
	return strings.TrimSuffix(d.URL, "/") + "/" + strings.TrimSuffix(sweep.DatasetDir(m.Name, m.Version), "/")
}

// known is the manifest of the version that this input was staged as; nil when there is none.
func (d Destination) known(ctx context.Context, name, fingerprint string) (*dataset.Manifest, error) {
	var p pointer
	if d.Store == nil {
		text, err := os.ReadFile(d.input(name, fingerprint))
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		if err != nil {
			return nil, nil //nolint:nilerr // without a readable pointer the input counts as new
		}
		m, err := dataset.ReadManifest(filepath.Join(d.Dir, name, p.Version))
		if err != nil || m.Version != p.Version {
			return nil, nil //nolint:nilerr // the version was removed
		}
		return m, nil
	}
	_, err := blob.ReadJSON(ctx, d.Store, sweep.DatasetInput(name, fingerprint), &p)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := Manifest(ctx, d.Store, name, p.Version)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	return m, err
}

// latest makes the version what the dataset's name alone means.
func (d Destination) latest(ctx context.Context, m *dataset.Manifest) error {
	if d.Store == nil {
		return nil
	}
	text, err := json.Marshal(pointer{1, m.Version})
	if err != nil {
		return err
	}
	if _, err := d.Store.Put(ctx, sweep.DatasetLatest(m.Name), blob.Any, strings.NewReader(string(text)+"\n")); err != nil {
		return fmt.Errorf("make version %s the latest: %w", m.Version, err)
	}
	return nil
}

const maxManifest = 64 << 20

// Manifest reads a version's manifest from the datasets bucket.
func Manifest(ctx context.Context, store blob.Store, name, version string) (*dataset.Manifest, error) {
	if _, _, err := sweep.SplitDatasetRef(name + "@" + version); err != nil {
		return nil, err
	}
	text, _, err := blob.ReadAll(ctx, store, sweep.DatasetDir(name, version)+dataset.ManifestFile, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := dataset.DecodeManifest(text)
	if err != nil {
		return nil, err
	}
	if m.Name != name || m.Version != version {
		return nil, fmt.Errorf("dataset %s@%s: its manifest says %s@%s", name, version, m.Name, m.Version)
	}
	return m, nil
}

// NotStagedError is a dataset that is not in the bucket.
type NotStagedError struct{ Ref string }

func (e *NotStagedError) Error() string {
	return fmt.Sprintf("dataset %s is not staged; run `launcher stage` with its dataset.yaml first", e.Ref)
}

// Is makes the error fs.ErrNotExist.
func (e *NotStagedError) Is(target error) bool { return target == blob.ErrNotExist }

// Resolve finds the manifest that NAME or NAME@VERSION means. One that is not there is a *NotStagedError.
func Resolve(ctx context.Context, store blob.Store, ref string) (*dataset.Manifest, error) {
	name, version, err := sweep.SplitDatasetRef(ref)
	if err != nil {
		return nil, err
	}
	if version == "" {
		var p pointer
		_, err := blob.ReadJSON(ctx, store, sweep.DatasetLatest(name), &p)
		if errors.Is(err, blob.ErrNotExist) {
			return nil, &NotStagedError{ref}
		}
		if err != nil {
			return nil, err
		}
		version = p.Version
	}
	m, err := Manifest(ctx, store, name, version)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, &NotStagedError{name + "@" + version}
	}
	return m, err
}
