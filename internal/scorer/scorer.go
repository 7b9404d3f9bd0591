// Package scorer predicts with a registered version: raw rows in, calibrated probabilities (or, for regression, values)
// out. The gate uses it to compare versions, and `launcher predict` to serve.
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

// Files of a version in the registry. The aggregator writes them all; a scorer needs the first four, except that a
// regression has no calibrator.
const (
	FileModel      = "model.txt"        // LightGBM text
	FileFeatures   = "features.json"    // dataset.Encoding
	FileCalibrator = "calibrator.json"  // calibrate.Calibrator
	FileLevels     = dataset.LevelsFile // dataset.Levels, if features are statistics of levels
	FilePlan       = "plan.json"        // sweep.Plan
	FileResult     = "result.json"      // sweep.Result of the winner
	FileDataset    = "dataset.json"     // dataset.Manifest
	FileReport     = "report.json"      // measurements
	FileReference  = "reference.arrow"  // raw test rows with labels, on which models of later nights are compared
	// cell.Inputs of the dataset's sample: how many values are usually missing, unseen and rare
	FileInputs = "inputs.json"

	// Of a version whose model comes from a final training: the winner as it was judged, which has not seen the rows
	// that later versions are compared on.
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

// Close unmaps memory. The scorer must not be used afterwards.
func (s *Scorer) Close() error { return s.levels.Close() }

// New makes a scorer from its parts. calibrator may be nil, as may levels if the encoding needs none; the scorer closes
// them.
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

// Open reads a version. A version that cannot predict, because one of its files is missing, damaged or of another kind,
// is of kind Damaged; other errors are those of storage.
func Open(ctx context.Context, r *registry.Registry, v registry.Version) (*Scorer, error) {
	return openFiles(ctx, r, v, FileModel, FileFeatures, FileCalibrator, FileLevels)
}

// OpenJudged is Open for the model that was judged: that of the winner, if the version's is of a final training.
func OpenJudged(ctx context.Context, r *registry.Registry, v registry.Version) (*Scorer, error) {
	if JudgedModel(v) == FileModel {
		return Open(ctx, r, v)
	}
	return openFiles(ctx, r, v, FileJudgedModel, FileJudgedFeatures, FileJudgedCalibrator, FileJudgedLevels)
}

// JudgedModel is the name of the model that was judged, which has seen no held-out rows.
func JudgedModel(v registry.Version) string {
	if _, ok := v.File(FileJudgedModel); ok {
		return FileJudgedModel
	}
	return FileModel
}

// openFiles opens a scorer from files of those names. A version without the file of levels has no statistics.
func openFiles(ctx context.Context, r *registry.Registry, v registry.Version, model, features, calibrator,
	levels string) (*Scorer, error) {
	return openScorer(ctx, r, v, model, features, calibrator, func(e *dataset.Encoding) (*dataset.Levels, error) {
		if _, ok := v.File(levels); !ok {
			return nil, nil
		}
		data, err := r.ReadFile(ctx, v, levels)
		if err != nil {
			return nil, err
		}
		return dataset.ReadLevels(data, e.Tables)
	})
}

// OpenMapped is Open, except that it maps the version's levels from a file in the folder cache, if that can be written.
// The scorer must be closed.
func OpenMapped(ctx context.Context, r *registry.Registry, v registry.Version, cache string) (*Scorer, error) {
	return openScorer(ctx, r, v, FileModel, FileFeatures, FileCalibrator,
		func(e *dataset.Encoding) (*dataset.Levels, error) { return mapLevels(ctx, r, v, cache, e) })
}

// openScorer reads and checks what predicts; what is damaged or does not fit together is of kind Damaged and names the
// version.
func openScorer(ctx context.Context, r *registry.Registry, v registry.Version, model, encoding, calibrator string,
	openLevels func(*dataset.Encoding) (*dataset.Levels, error)) (*Scorer, error) {
	unfit := func(err error) error {
		return problem.Wrap(problem.Damaged, err, "version %d of model %s cannot predict", v.Number, v.Model)
	}

	files := map[string][]byte{}
	for _, name := range []string{model, encoding, calibrator, FileInputs} {
		if _, ok := v.File(name); !ok && (name == calibrator || name == FileInputs) {
			continue
		}
		data, err := r.ReadFile(ctx, v, name)
		if err != nil {
			return nil, mapDamage(err, unfit)
		}
		files[name] = data
	}

	m, err := gbt.ReadModel(bytes.NewReader(files[model]))
	if err != nil {
		return nil, unfit(fmt.Errorf("%s: %w", FileModel, err))
	}

	features, err := dataset.DecodeEncoding(files[encoding])
	if err != nil {
		return nil, unfit(fmt.Errorf("%s: %w", FileFeatures, err))
	}

	var c *calibrate.Calibrator
	if text := files[calibrator]; text != nil {
		if c, err = calibrate.Decode(text); err != nil {
			return nil, unfit(fmt.Errorf("%s: %w", calibrator, err))
		}
	}

	levels, err := openLevels(features)
	if err != nil {
		return nil, mapDamage(err, unfit)
	}
	s, err := New(m, c, features, levels)
	if err == nil {
		err = s.checkTogether()
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

// mapDamage turns errors about a version's files, as opposed to storage errors, into what unfit makes of them.
func mapDamage(err error, unfit func(error) error) error {
	if k := problem.Of(err); k == problem.Damaged || k == problem.NotFound {
		return unfit(err)
	}
	return err
}

// Columns returns the names of the columns that a row must have.
func (s *Scorer) Columns() []string { return slices.Clone(s.encoder.Columns()) } // the caller may sort them

// Numbers tells, for each of Columns, whether only the numbers that its texts spell matter, and not their spelling.
func (s *Scorer) Numbers() []bool { return s.encoder.Numbers() }

// Sample predicts every row of a dataset's sample.
func (s *Scorer) Sample(sample *dataset.Sample, threads int) ([]float64, error) {
	values, err := s.Values(sample)
	if err != nil {
		return nil, err
	}
	return s.Predict(values, threads)
}

// Values returns the model's inputs for a sample's rows: one number per feature, row by row.
func (s *Scorer) Values(sample *dataset.Sample) ([]float64, error) {
	return s.encoder.EncodeSample(sample)
}

// Predict computes predictions from the results of Values: one a row, or one for each class.
func (s *Scorer) Predict(values []float64, threads int) ([]float64, error) {
	raw := make([]float64, len(values)/s.Model.Features()*s.Model.Outputs())
	if err := s.Model.PredictAll(values, raw, threads); err != nil {
		return nil, err
	}
	return s.calibrate(raw), nil
}

// Batch predicts the rows of a batch: raw scores and predictions, one a row, or one for each class. values is scratch
// memory, returned for the next call. The columns' values are counted in in.
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

// calibrate turns raw scores into predictions, in place.
func (s *Scorer) calibrate(raw []float64) []float64 {
	if s.Calibrator != nil {
		return s.Calibrator.PredictAll(raw[:0], raw)
	}
	s.Model.Transform(raw)
	return raw
}
