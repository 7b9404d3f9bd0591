package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"coppice/dataset"
)

// Options of Stage.
type Options struct {
	Threads  int            // goroutines that compute; all CPUs when 0. The result does not depend on it
	Progress func(Progress) // told from one goroutine at a time; may be nil
}

// Phase is a part of staging.
type Phase string

// The phases of staging, in order.
const (
	PhaseSurvey   Phase = "survey"   // the first pass over the source
	PhaseWrite    Phase = "write"    // the second
	PhaseChecksum Phase = "checksum" // over the files written
)

// Progress says how far a phase is, in bytes.
type Progress struct {
	Phase Phase
	Done  int64
	Total int64
}

// Report is what Stage did. Everything to be shown is in the manifest: features with their kinds, bins, ranges and
// categories, splits with their label rates, rows left out, warnings.
type Report struct {
	Manifest *dataset.Manifest
	Existed  bool // the folder held this very version already
}

// Stage makes a dataset of the table that files hold and puts it into the folder dir, which must not exist or be empty, or
// hold the same version already (otherwise: *ExistsError). The folder appears complete or not at all; an error or the end
// of ctx leaves nothing behind. Errors about the spec are *strictyaml.Error, those about the table *TableError.
func Stage(ctx context.Context, spec *dataset.Spec, files []File, dir string, o Options) (*Report, error) {
	if err := checkTarget(dir); err != nil {
		return nil, err
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	parent, base := filepath.Split(filepath.Clean(dir))
	if parent != "" {
		if err := os.MkdirAll(parent, 0o777); err != nil {
			return nil, err
		}
	}
	tmp, err := os.MkdirTemp(parent, "."+base+".staging-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, err
	}
	m, err := stageInto(ctx, spec, files, tmp, o)
	if err != nil {
		return nil, err
	}
	existed, err := moveInto(tmp, dir, m)
	if err != nil {
		return nil, err
	}
	return &Report{Manifest: m, Existed: existed}, nil
}

// checkTarget refuses, before any work, a folder that holds something else than a dataset.
func checkTarget(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return &ExistsError{dir, fmt.Sprintf("cannot hold a dataset: %v", err)}
	}
	if _, err := dataset.ReadManifest(dir); err != nil {
		return &ExistsError{dir, "the folder is not empty and holds no dataset; choose another or remove it"}
	}
	return nil
}

// moveInto gives the finished folder its name. When the same version is there already, that one stays.
func moveInto(tmp, dir string, m *dataset.Manifest) (existed bool, err error) {
	for range 2 { // another process may put the same dataset there meanwhile
		if old, err := dataset.ReadManifest(dir); err == nil {
			if old.Version != m.Version {
				return false, &ExistsError{dir, fmt.Sprintf("holds version %s, and this input makes version %s; choose another folder or remove it", old.Version, m.Version)}
			}
			return true, nil
		}
		if err = os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) { // an empty folder
			if err = os.Rename(tmp, dir); err == nil {
				return false, dataset.SyncFolder(filepath.Dir(filepath.Clean(dir)))
			}
		}
	}
	return false, &ExistsError{dir, fmt.Sprintf("cannot be replaced: %v", err)}
}

// stageInto writes the dataset into the folder tmp.
func stageInto(ctx context.Context, spec *dataset.Spec, files []File, tmp string, o Options) (*dataset.Manifest, error) {
	t, err := OpenTable(files, TableOptions{CSV: spec.CSV, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	r, err := assignRoles(spec, t)
	if err != nil {
		return nil, err
	}
	tok := newTokens(spec.Missing)
	s := newSurvey(spec, t, r, tok, o.Threads)
	if err := s.run(ctx, t, o.progress(PhaseSurvey)); err != nil {
		return nil, err
	}
	m := &dataset.Manifest{Name: spec.Name, Missing: spec.Missing, MaxBin: spec.MaxBin, Label: s.labels.info, Weight: spec.Weight, Group: spec.Group,
		Split: *s.splitter.rule, LeftOut: s.labels.missing}
	for i, n := range s.counts {
		if n > 0 {
			m.Splits = append(m.Splits, dataset.Rows{Name: dataset.SplitNames()[i], Rows: int(n)})
		}
	}
	for _, f := range files {
		m.About.Sources = append(m.About.Sources, dataset.Source{URI: f.URI, Bytes: f.Bytes, Generation: f.Generation, Checksum: f.Checksum})
	}
	if err := s.buildFeatures(ctx, m); err != nil {
		return nil, err
	}
	w, err := dataset.NewWriter(tmp, m)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	p := newPass(s, t, m, w, tok)
	if err := p.run(ctx, o.progress(PhaseWrite)); err != nil {
		return nil, err
	}
	m.About.Warnings = append(m.About.Warnings, splitWarnings(m)...)
	return m, w.Finish(ctx, o.Threads, o.progress(PhaseChecksum))
}

func (o Options) progress(phase Phase) func(done, total int64) {
	if o.Progress == nil {
		return nil
	}
	return serial(func(done, total int64) { o.Progress(Progress{phase, done, total}) })
}

// buildFeatures makes bins of the sample, and looks for what a person should know about the columns.
func (s *survey) buildFeatures(ctx context.Context, m *dataset.Manifest) error {
	train, err := s.train()
	if err != nil {
		return err
	}
	n := len(s.columns)
	m.BinRows = len(train.places)
	m.Features = make([]dataset.Feature, n)
	warnings, errs := make([][]dataset.Warning, n), make([]error, n)
	samples := make([]*dataset.Values, n)
	for i, c := range s.columns {
		raw := c.sample.finish(len(s.sampler.heap))
		sample := gather(&raw, train.places)
		samples[i] = &sample
	}
	repack(s.threads, samples)
	parallel(s.threads, n, func(i int) {
		if ctx.Err() != nil {
			return
		}
		c := s.columns[i]
		sample := samples[i]
		samples[i] = nil // let it go as soon as the feature is made
		f, err := c.build(s.spec, sample)
		if err != nil {
			errs[i] = err
			return
		}
		m.Features[i] = f.Feature
		warnings[i] = c.warnings(f, sample, train, m.Label.Kind)
	})
	if err := firstOf(ctx.Err(), errs); err != nil {
		return err
	}
	if text := s.splitter.keyless(s.rows); text != "" {
		m.About.Warnings = append(m.About.Warnings, dataset.Warning{Code: WarnKeyless, Column: s.spec.Split.Key, Text: text})
	}
	for _, w := range warnings {
		m.About.Warnings = append(m.About.Warnings, w...)
	}
	return nil
}

// firstOf is the context's error, or the first of errs.
func firstOf(err error, errs []error) error {
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	return err
}
