package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
}

// Stage makes a dataset of the table that files hold in the folder dir, which must not exist or be empty (otherwise:
// *ExistsError). It is complete when Stage returns; an error or the end of ctx leaves nothing behind. Errors about the spec
// are *strictyaml.Error, those about the table *TableError.
func Stage(ctx context.Context, spec *dataset.Spec, files []File, dir string, o Options) (*Report, error) {
	if err := checkTarget(dir); err != nil {
		return nil, err
	}
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	m, err := stageInto(ctx, spec, files, dir, o)
	if err != nil {
		if left := os.RemoveAll(dir); left != nil {
			err = errors.Join(err, left)
		}
		return nil, err
	}
	return &Report{Manifest: m}, nil
}

// checkTarget refuses, before any work, a folder that something is in.
func checkTarget(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return &ExistsError{dir, fmt.Sprintf("cannot hold a dataset: %v", err)}
	}
	return &ExistsError{dir, "the folder is not empty; choose another or remove it"}
}

// stageInto writes the dataset into the folder dir. Nothing is there before the first pass has accepted the table.
func stageInto(ctx context.Context, spec *dataset.Spec, files []File, dir string, o Options) (*dataset.Manifest, error) {
	t, err := OpenTable(files, TableOptions{CSV: spec.CSV, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	r, err := assignRoles(spec, t)
	if err != nil {
		return nil, err
	}
	tok := newTokens(spec.Missing)
	s := newSurvey(spec, r, tok, o.Threads)
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
	if len(s.labels.absent) > 0 {
		m.About.LeftOut = s.labels.absent
	}
	if err := s.buildFeatures(ctx, m); err != nil {
		return nil, err
	}
	w, err := dataset.NewWriter(dir, m)
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
	texts := s.repackTexts(train)
	scratch := make(chan *builder, s.threads)
	for range s.threads {
		scratch <- &builder{}
	}
	parallel(s.threads, n, func(i int) {
		if ctx.Err() != nil {
			return
		}
		use := <-scratch
		defer func() { scratch <- use }()
		c := s.columns[i]
		sample := texts[i]
		texts[i] = nil // let it go as soon as the feature is made, and so the numbers
		if sample == nil {
			raw := c.sample.finish(s.sampler.used())
			sample = use.gather(&raw, train.places)
		}
		f, err := c.build(s.spec, sample, use)
		if err != nil {
			errs[i] = err
			return
		}
		m.Features[i] = f.Feature
		warnings[i] = c.warnings(f, sample, train, m.Label.Kind, use)
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
