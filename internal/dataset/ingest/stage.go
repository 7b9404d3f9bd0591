package ingest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/segment"
	"coppice/internal/dataset/table"
	"coppice/internal/problem"
)

// Options of Stage.
type Options struct {
	Threads  int            // compute goroutines; 0 for all CPUs. The result does not depend on it
	Progress func(Progress) // called from one goroutine at a time; may be nil
	// Learner is a small model for finding columns that are worth combining; if nil, only combinations in the spec are
	// used.
	Learner encode.Learner
	// Orders compares scores of the same rows by how they order queries: how much better fresh ones are, and whether
	// that is beyond chance. If nil, statistics of queries are made without asking.
	Orders func(label []float32, group []uint64, fresh, old []float64) (gain float64, sure bool, err error)
	// Witness judges the labels of all rows (Night.Segments); may be nil.
	Witness segment.Scorer
}

// Phase is a phase of staging.
type Phase string

// The phases of staging, in order.
const (
	PhaseSurvey   Phase = "survey"   // the first pass over the source
	PhaseSearch   Phase = "search"   // for columns to combine; in keys
	PhaseWrite    Phase = "write"    // the second pass
	PhaseEncode   Phase = "encode"   // of ids, as statistics; in rows
	PhaseChecksum Phase = "checksum" // over the files written
)

// Progress is how far a phase is, in bytes unless noted.
type Progress struct {
	Phase Phase
	Done  int64
	Total int64
}

// Report is the result of Stage. What is to be shown is in the manifest: features with their kinds, bins, ranges and
// categories, splits with their label rates, rows left out, warnings. Night is for comparing the table with other
// nights'.
type Report struct {
	Manifest *dataset.Manifest
	Night    *Night
}

// Stage makes a dataset from a table's files in the folder dir. If dir exists, it must be an empty folder; otherwise
// the error is of kind problem.Conflict. The dataset is complete when Stage returns nil. After any other error, and if
// ctx ends, dir is removed. Errors in the spec are *strictyaml.Error, those in the table *table.InputError.
func Stage(ctx context.Context, spec *dataset.Spec, files []table.File, dir string, options Options) (*Report, error) {
	if err := checkTarget(dir); err != nil {
		return nil, err
	}
	if options.Threads <= 0 {
		options.Threads = runtime.GOMAXPROCS(0)
	}

	report, err := stageInto(ctx, spec, files, dir, options)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return report, nil
}

// checkTarget returns a conflict if dir is a file or a folder that is not empty, before any work is done.
func checkTarget(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return problem.New(problem.Conflict, "%s: cannot hold a dataset: %v", dir, err)
	}
	return problem.New(problem.Conflict, "%s: the folder is not empty; choose another or remove it", dir)
}

// LessGarbage makes the garbage collector run more often while a wide table is staged or judged, until the caller calls
// end. The samples of a wide table take hundreds of megabytes, and by default Go lets as much garbage pile up again. It
// does nothing for tables of fewer than 1000 columns. Several tables may be staged at once.
func LessGarbage(columns int) (end func()) {
	if columns < 1000 {
		return func() {}
	}
	countWide(1, 1)
	return func() { countWide(-1, 0) }
}

var wideLock sync.Mutex
var wideTables, otherPercent = 0, 25 // wide tables in work; the value of GOGC that is not in force now

// countWide adds by to the number of wide tables in work. If that makes it exchangeAt, the two values of GOGC change
// places: that is at 1 when the first table begins, and at 0 when the last one ends.
func countWide(by, exchangeAt int) {
	wideLock.Lock()
	defer wideLock.Unlock()
	wideTables += by
	if wideTables == exchangeAt {
		otherPercent = debug.SetGCPercent(otherPercent)
	}
}

// stageInto writes the dataset into the folder dir. Nothing is written until the first pass has accepted the table.
// After an error dir may hold some files, which the caller removes.
func stageInto(ctx context.Context, spec *dataset.Spec, files []table.File, dir string,
	options Options) (*Report, error) {
	// Find out what the columns are and what each is for.
	source, err := table.Open(files, table.Options{CSV: spec.CSV, Threads: options.Threads})
	if err != nil {
		return nil, err
	}
	defer LessGarbage(len(source.Columns()))() // collects garbage more often from here to the end, if the table is wide
	markers := cell.NewMarkers(spec.Missing)
	reading, err := Recognise(ctx, spec, source, "", markers)
	if err != nil {
		return nil, err
	}
	roles, err := assignRoles(spec, source, markers)
	if err != nil {
		return nil, err
	}

	// The first pass.
	survey := newSurvey(spec, source, roles, markers, options.Threads)
	survey.reading = reading
	if err := survey.readTable(ctx, options.progress(PhaseSurvey)); err != nil {
		return nil, err
	}

	// Between the passes: the features.
	manifest := survey.newManifest(files)
	design, err := survey.describe(ctx, manifest, options)
	if err != nil {
		return nil, err
	}

	// The second pass.
	writer, err := dataset.NewWriter(dir, manifest)
	if err != nil {
		return nil, err
	}
	defer writer.Close()

	pass := newPass(survey, manifest, writer, design, options.Witness)
	if len(design.keys) > 0 {
		pass.statistics = newStatistics(survey, manifest, design, dir, options)
		defer pass.statistics.close()
	}

	if err := pass.writeFiles(ctx, options); err != nil {
		return nil, err
	}

	// What only the second pass has seen.
	manifest.About.Warnings = append(manifest.About.Warnings, splitWarnings(manifest, pass.learnt[:])...)
	manifest.About.Divided = pass.groups.Divided()
	if err := writer.Finish(ctx, options.Threads, options.progress(PhaseChecksum)); err != nil {
		return nil, err
	}
	night, err := pass.night.finish(ctx)
	if err != nil {
		return nil, err
	}
	night.Segments = pass.segments.Counts()
	return &Report{Manifest: manifest, Night: night}, nil
}

// describe decides on the dataset's features and adds them to the manifest. Afterwards nothing needs the sampled rows.
func (s *survey) describe(ctx context.Context, manifest *dataset.Manifest, options Options) (*design, error) {
	columns, train, err := s.buildFeatures(ctx, manifest)
	if err != nil {
		return nil, err
	}
	d, err := s.design(ctx, columns, train, options)
	if err != nil {
		return nil, err
	}
	if err := d.addFeatures(manifest, columns, s); err != nil {
		return nil, err
	}
	if len(manifest.Features) == 0 {
		return nil, s.spec.Errorf("drop", "no column is left to be a feature: all hold long texts, or a "+
			"value of their own in each row")
	}
	return d, nil
}

// newManifest returns the manifest with all that the first pass tells, without features.
func (s *survey) newManifest(files []table.File) *dataset.Manifest {
	spec := s.spec
	m := &dataset.Manifest{Name: spec.Name, Missing: spec.Missing, Formats: s.reading.Formats, MaxBin: spec.MaxBin,
		Label: s.labels.info, Weight: spec.Weight, Group: spec.Group, Values: spec.Values,
		Split: *s.splitter.rule, LeftOut: s.labels.missing, Negatives: spec.Sample.Negatives, Thinned: s.labels.thinned}

	for i, n := range s.counts {
		if n > 0 {
			m.Splits = append(m.Splits, dataset.Rows{Name: dataset.SplitNames()[i], Rows: int(n)})
		}
	}

	for _, f := range files {
		m.About.Sources = append(m.About.Sources, dataset.Source{URI: f.URI, Bytes: f.Bytes, Generation: f.Generation,
			Checksum: f.Checksum})
	}
	m.About.Unripe = s.ripe.describeUnripe()
	ripe := s.rows + s.labels.missing + s.labels.thinned
	m.About.Warnings = slices.Concat(s.ripe.warnings(ripe), s.labels.warnSpellings(), s.labels.rareWarnings(),
		s.reading.Said)
	for _, name := range s.roles.index {
		m.About.Warnings = append(m.About.Warnings, dataset.Warning{Code: HintIndex, Column: name,
			Text: "left out: it is the index of a pandas.DataFrame, by its name, its numbers or the file's " +
				"metadata; list it under numeric or categorical if it is a feature"})
	}
	if len(s.labels.absent) > 0 {
		m.About.LeftOut = s.labels.absent
	}

	return m
}

// progress returns a function that reports the progress of a phase, from one goroutine at a time; nil if nobody asks.
func (o Options) progress(phase Phase) func(done, total int64) {
	if o.Progress == nil {
		return nil
	}
	return Serial(func(done, total int64) { o.Progress(Progress{phase, done, total}) })
}

// buildFeatures makes the feature of each column from the sample, and adds warnings about the columns to the manifest.
// It returns the columns and the sampled rows of train, from which design decides on further encodings. It frees the
// columns' own samples.
func (s *survey) buildFeatures(ctx context.Context, manifest *dataset.Manifest) ([]sampledColumn, *trainSample, error) {
	train, err := s.selectTrain()
	if err != nil {
		return nil, nil, err
	}

	n := len(s.columns)
	manifest.BinRows = len(train.places)
	columns, warnings, errs := make([]sampledColumn, n), make([][]dataset.Warning, n), make([]error, n)
	texts := s.repackTexts(ctx, train)

	// As many builders as goroutines: each takes one for a column and gives it back.
	scratch := make(chan *builder, s.threads)
	for range s.threads {
		scratch <- &builder{}
	}

	dataset.Parallel(s.threads, n, func(i int) {
		if ctx.Err() != nil {
			return
		}
		use := <-scratch
		defer func() { scratch <- use }()

		sample := texts[i]
		texts[i] = nil // free it as soon as the feature is made, and the numbers likewise
		if sample == nil {
			raw := s.columns[i].sample.finish(s.sampler.used())
			sample = use.gather(&raw, train.places)
		}

		columns[i], errs[i] = s.buildColumn(i, sample, use)
		if errs[i] == nil {
			warnings[i] = s.columns[i].warnings(columns[i].built, columns[i].bins, train, manifest.Label.Kind,
				&use.folds)
			columns[i].numbers = nil
		}
	})

	if err := firstOf(ctx.Err(), errs); err != nil {
		return nil, nil, err
	}

	// Warnings about the table come before those about single columns.
	if text := s.splitter.keyless(s.rows); text != "" {
		manifest.About.Warnings = append(manifest.About.Warnings,
			dataset.Warning{Code: WarnKeyless, Column: s.spec.Split.Key, Text: text})
	}
	manifest.About.Warnings = append(manifest.About.Warnings, s.keyHint()...)
	manifest.About.Warnings = append(manifest.About.Warnings, train.sentinel(&manifest.Label)...)
	for _, w := range warnings {
		manifest.About.Warnings = append(manifest.About.Warnings, w...)
	}

	return columns, train, nil
}

// buildColumn makes the feature of column number i of the survey, and finds the bins of its sampled values. If each of
// its values may be a level, it also hashes the levels of as many sampled rows as keys are measured on.
func (s *survey) buildColumn(i int, sample *dataset.Values, scratch *builder) (sampledColumn, error) {
	c := s.columns[i]
	f, err := c.buildFeature(s.spec, sample, scratch)
	if err != nil {
		return sampledColumn{}, err
	}
	out := sampledColumn{built: f, number: i, from: &c.feature, bins: make([]uint8, sample.Len())}
	if c.levels != nil {
		out.levels, out.exact = c.levels.Levels(1), c.exactLevels()
	}

	// The bin of each sampled value.
	encoder := cell.NewColumnEncoder(&f.Feature, c.markers)
	if f.Kind == dataset.Categorical {
		encoder.Categories(sample, out.bins)
	} else {
		encoder.BinNumbers(f.numbers, out.bins)
	}

	if s.spec.Encodings.Off || f.present == 0 || f.Kind != dataset.Categorical && !s.mayBeIDs(f) {
		return out, nil
	}

	// The level of each sampled value.
	out.hashes = make([]uint64, min(sample.Len(), s.spec.Encodings.Rows))
	part := dataset.Part{Column: f.Name, Kind: f.Kind}
	if c.feature.from != nil {
		part.Kind = dataset.Numeric // the sample holds hours and weekdays, not times
	}
	first := make([]int32, len(out.hashes))
	for j := range first {
		first[j] = int32(j)
	}
	some := sample.Pick(first)
	return out, cell.NewPartReader(part, c.markers).Hashes(&some, out.hashes)
}

// firstOf returns err or, if that is nil, the first of errs that is not nil.
func firstOf(err error, errs []error) error {
	for _, e := range errs {
		if err == nil {
			err = e
		}
	}
	return err
}
