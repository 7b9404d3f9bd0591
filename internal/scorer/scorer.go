// Package scorer predicts with a registered version of a model: raw rows in, calibrated probabilities or, for
// regression, values out. `launcher predict` uses it, and the aggregator to compare a new version with the one in use.
//
//	files of a version -> Open -> Scorer
//	raw rows -> encoder (features.json, levels) -> model.txt -> calibrator.json -> predictions
//
// It also has the files that describe a version's test rows (Reference, ReadTested), and Compact, which drops levels
// that do not affect predictions. A level is a value of a category of which the dataset keeps statistics, such as its
// click rate.
package scorer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/strictjson"
)

// Files of a version in the registry, all written by the aggregator. A scorer needs the first four; only a model of
// probabilities has a calibrator, and only an encoding with statistics has levels.
const (
	FileModel      = "model.txt"        // LightGBM text
	FileFeatures   = "features.json"    // dataset.Encoding
	FileCalibrator = "calibrator.json"  // calibrate.Calibrator
	FileLevels     = dataset.LevelsFile // dataset.Levels, if features are statistics of levels
	FilePlan       = "plan.json"        // sweep.Plan
	FileResult     = "result.json"      // sweep.Result of the winner
	FileDataset    = "dataset.json"     // dataset.Manifest
	FileReport     = "report.json"      // measurements
	FileReference  = "reference.arrow"  // raw test rows with labels, on which later versions are compared with this one
	FileInputs     = "inputs.json"      // cell.Inputs of the dataset's sample: usual shares of missing, unseen values

	// A version's model may come from a final training on all rows. Then these files hold the judged model: the sweep's
	// winner as it was evaluated. It has not seen the test rows, on which later versions are compared.
	FileJudgedModel      = "judged.txt"
	FileJudgedFeatures   = "judged-features.json"
	FileJudgedLevels     = "judged-levels.arrow"
	FileJudgedCalibrator = "judged-calibrator.json"
)

// Scorer predicts. It is immutable and safe for concurrent use.
type Scorer struct {
	Model      *gbt.Model
	Calibrator *calibrate.Calibrator // nil if predictions are not probabilities
	Encoding   *dataset.Encoding     // of the features, in the model's order
	Usual      *cell.Inputs          // for the dataset's held-out rows; nil if the version does not record it
	encoder    *cell.Encoder
	levels     *dataset.Levels
}

// Close unmaps the levels. The scorer must not be used afterwards.
func (s *Scorer) Close() error { return s.levels.Close() }

// New makes a scorer from its parts. calibrator may be nil, and levels if the encoding needs none. The scorer takes
// over levels and closes them; on an error they are left to the caller.
func New(m *gbt.Model, calibrator *calibrate.Calibrator, features *dataset.Encoding, levels *dataset.Levels) (*Scorer,
	error) {
	if m.Features() != len(features.Features) {
		return nil, fmt.Errorf("the model has %d features, its encoding %d", m.Features(), len(features.Features))
	}
	encoder, err := cell.NewEncoder(features, levels)
	if err != nil {
		return nil, err
	}
	return &Scorer{Model: m, Calibrator: calibrator, Encoding: features, encoder: encoder, levels: levels}, nil
}

// Open reads a version and returns its scorer, which the caller closes. If the version cannot predict, because a file
// is missing or damaged or the files do not belong together, the error is of kind Damaged. Other errors are those of
// storage.
func Open(ctx context.Context, r *registry.Registry, v registry.Version) (*Scorer, error) {
	return openFiles(ctx, r, v, registered)
}

// OpenJudged is Open for the judged model of a version, which has not seen the test rows.
func OpenJudged(ctx context.Context, r *registry.Registry, v registry.Version) (*Scorer, error) {
	if JudgedModel(v) == FileModel {
		return Open(ctx, r, v)
	}
	return openFiles(ctx, r, v, fileNames{model: FileJudgedModel, features: FileJudgedFeatures,
		calibrator: FileJudgedCalibrator, levels: FileJudgedLevels})
}

// JudgedModel returns the name of the file with the judged model: FileModel, unless that comes from a final training.
func JudgedModel(v registry.Version) string {
	if _, ok := v.File(FileJudgedModel); ok {
		return FileJudgedModel
	}
	return FileModel
}

// fileNames are the names of a model's files in a version.
type fileNames struct {
	model, features    string
	calibrator, levels string // of files that a version need not have
}

// registered are the names of the files of the model that a version serves.
var registered = fileNames{model: FileModel, features: FileFeatures, calibrator: FileCalibrator, levels: FileLevels}

// openFiles returns a scorer made from the files of a version with these names. The levels are read into memory. If the
// version has no file of levels, the scorer has none.
func openFiles(ctx context.Context, r *registry.Registry, v registry.Version, names fileNames) (*Scorer, error) {
	return openScorer(ctx, r, v, names, func(e *dataset.Encoding) (*dataset.Levels, error) {
		if _, ok := v.File(names.levels); !ok {
			return nil, nil
		}
		data, err := r.ReadFile(ctx, v, names.levels)
		if err != nil {
			return nil, err
		}
		return dataset.ReadLevels(data, e.Tables)
	})
}

// OpenMapped is Open, but maps the version's levels from a file in the folder cache, to which it writes them first if
// they are not there. If the folder cannot be written, the levels are read into memory.
func OpenMapped(ctx context.Context, r *registry.Registry, v registry.Version, cache string) (*Scorer, error) {
	return openScorer(ctx, r, v, registered,
		func(e *dataset.Encoding) (*dataset.Levels, error) { return mapLevels(ctx, r, v, cache, e) })
}

// openScorer reads the files of a version with these names, checks that they belong together, and returns the scorer.
// openLevels returns the levels for the encoding, or nil. Errors are as of Open.
func openScorer(ctx context.Context, r *registry.Registry, v registry.Version, names fileNames,
	openLevels func(*dataset.Encoding) (*dataset.Levels, error)) (*Scorer, error) {
	unfit := func(err error) error {
		return problem.Wrap(problem.Damaged, err, "version %d of model %s cannot predict", v.Number, v.Model)
	}

	// Read the files. Two of them may be missing.
	files := map[string][]byte{}
	for _, name := range []string{names.model, names.features, names.calibrator, FileInputs} {
		if _, ok := v.File(name); !ok && (name == names.calibrator || name == FileInputs) {
			continue
		}
		data, err := r.ReadFile(ctx, v, name)
		if err != nil {
			return nil, mapDamage(err, unfit)
		}
		files[name] = data
	}

	// Decode them.
	m, err := gbt.ReadModel(bytes.NewReader(files[names.model]))
	if err != nil {
		return nil, unfit(fmt.Errorf("%s: %w", names.model, err))
	}

	features, err := dataset.DecodeEncoding(files[names.features])
	if err != nil {
		return nil, unfit(fmt.Errorf("%s: %w", names.features, err))
	}

	var c *calibrate.Calibrator
	if text := files[names.calibrator]; text != nil {
		if c, err = calibrate.Decode(text); err != nil {
			return nil, unfit(fmt.Errorf("%s: %w", names.calibrator, err))
		}
	}

	levels, err := openLevels(features)
	if err != nil {
		return nil, mapDamage(err, unfit)
	}

	// Put them together. From here on, an error closes the levels, which may be nil.
	s, err := New(m, c, features, levels)
	if err == nil {
		err = s.checkTogether(names)
	}
	if err != nil {
		return nil, unfit(errors.Join(err, levels.Close()))
	}
	if text := files[FileInputs]; text != nil {
		if err := strictjson.DecodeKnown(text, &s.Usual); err != nil {
			return nil, unfit(errors.Join(fmt.Errorf("%s: %w", FileInputs, err), levels.Close()))
		}
	}
	return s, nil
}

// mapDamage returns unfit(err) if err says that a file of the version is damaged or missing, and otherwise err, which
// is one of storage.
func mapDamage(err error, unfit func(error) error) error {
	if k := problem.Of(err); k == problem.Damaged || k == problem.NotFound {
		return unfit(err)
	}
	return err
}

// Columns returns the names of the columns that a row must have, in a slice of the caller's own.
func (s *Scorer) Columns() []string { return slices.Clone(s.encoder.Columns()) }

// Numbers reports, for each of Columns, whether its texts are only used as numbers: then "1" and "1.0" are the same.
func (s *Scorer) Numbers() []bool { return s.encoder.Numbers() }

// Sample returns the predictions for every row of a dataset's sample, as Predict does.
func (s *Scorer) Sample(sample *dataset.Sample, threads int) ([]float64, error) {
	values, err := s.Values(sample)
	if err != nil {
		return nil, err
	}
	return s.Predict(values, threads)
}

// Values returns the model's inputs for a sample's rows, [rows x features].
func (s *Scorer) Values(sample *dataset.Sample) ([]float64, error) {
	return s.encoder.EncodeSample(sample)
}

// Predict returns the predictions for the model's inputs, [rows x features] as Values returns them. The result is
// [rows], or [rows x classes] if there are several classes.
func (s *Scorer) Predict(values []float64, threads int) ([]float64, error) {
	raw := make([]float64, len(values)/s.Model.Features()*s.Model.Outputs())
	if err := s.Model.PredictAll(values, raw, threads); err != nil {
		return nil, err
	}
	return s.calibrate(raw), nil
}

// Batch predicts the rows of a batch. It returns raw scores and predictions, each [rows] or, with several classes,
// [rows x classes]. values is memory for the model's inputs, which may be nil; it is returned as reuse for the next
// call. in counts the missing, unseen and rare values of the columns.
func (s *Scorer) Batch(b *table.Batch, values []float64, threads int, in *cell.Inputs) (raw, predicted,
	reuse []float64, err error) {
	if values, err = s.encoder.Encode(b, values, in, threads); err != nil {
		return nil, nil, nil, err
	}
	raw = make([]float64, b.Rows*s.Model.Outputs())
	if err := s.Model.PredictAll(values, raw, threads); err != nil {
		return nil, nil, nil, err
	}
	return raw, s.calibrate(slices.Clone(raw)), values, nil
}

// calibrate turns raw scores into predictions, in place: with the calibrator if there is one, else with the model's own
// transformation.
func (s *Scorer) calibrate(raw []float64) []float64 {
	if s.Calibrator != nil {
		return s.Calibrator.PredictAll(raw[:0], raw)
	}
	s.Model.Transform(raw)
	return raw
}
