package conclude

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// holdout is the part of the dataset that the aggregator needs: targets of the held-out rows and the sample's raw
// values. It never reads the table itself.
type holdout struct {
	manifest     *dataset.Manifest
	manifestText []byte
	calib, test  dataset.Targets // for the rows of the plan's parts
	sample       *dataset.Sample
	levels       *dataset.Levels // of the target tables behind its features; nil if there are none
	values       []float64       // the sample's encoded values, row-major
	calibRows    []place         // sample rows in the calib part
	testRows     []place         // sample rows in the test part
}

// place is a row's index in the sample, and its index among the targets of its part (calib or test).
type place struct{ sample, part int }

// Limits on what is read into memory, in bytes.
const (
	maxManifest = 64 << 20
	maxTargets  = 8 << 30
	maxSample   = 2 << 30
	maxLevels   = 3 << 30
)

// readHoldout reads what the winner is judged by: the manifest, the encoded sample, and the targets of the calibration
// and test rows. A *dataError says that the dataset is at fault, such as by a sample without any of these rows.
func (a *Aggregator) readHoldout(ctx context.Context, p *sweep.Plan) (*holdout, error) {
	prefix := sweep.DatasetDir(p.Dataset.Name, p.Dataset.Version)
	h := &holdout{}
	var err error
	if h.manifestText, err = a.read(ctx, prefix+dataset.ManifestFile, maxManifest); err != nil {
		return nil, err
	}
	if h.manifest, err = dataset.DecodeManifest(h.manifestText); err != nil {
		return nil, &dataError{fmt.Errorf("dataset %s@%s: %w", p.Dataset.Name, p.Dataset.Version, err)}
	}
	if h.manifest.Version != p.Dataset.Version {
		return nil, &dataError{fmt.Errorf("dataset %s@%s: its manifest says %s", p.Dataset.Name, p.Dataset.Version,
			h.manifest.Version)}
	}
	sample, err := a.readFile(ctx, prefix, h.manifest, dataset.SampleFile, maxSample)
	if err != nil {
		return nil, err
	}

	if h.sample, err = dataset.ReadSample(sample); err != nil {
		return nil, &dataError{fmt.Errorf("dataset %s: %w", dataset.SampleFile, err)}
	}
	if err := a.encodeSample(ctx, prefix, h); err != nil {
		return nil, err
	}
	if h.calib, h.calibRows, err = a.readPart(ctx, prefix, h, p.Holdout.Calib); err != nil {
		return nil, err
	}
	if h.test, h.testRows, err = a.readPart(ctx, prefix, h, p.Holdout.Test); err != nil {
		return nil, err
	}
	if len(h.calibRows)+len(h.testRows) == 0 {
		return nil, &dataError{errNoSample}
	}
	return h, nil
}

// encodeSample sets h.levels and h.values: the sample's rows as the inputs of a model. h.manifest and h.sample must be
// set. A sample or levels that cannot be used are a *dataError.
func (a *Aggregator) encodeSample(ctx context.Context, prefix string, h *holdout) error {
	if slices.ContainsFunc(h.manifest.Files, func(f dataset.FileInfo) bool { return f.Name == dataset.LevelsFile }) {
		data, err := a.readFile(ctx, prefix, h.manifest, dataset.LevelsFile, maxLevels)
		if err != nil {
			return err
		}
		if h.levels, err = dataset.ReadLevels(data, h.manifest.Tables); err != nil {
			return &dataError{fmt.Errorf("dataset %s: %w", dataset.LevelsFile, err)}
		}
	}

	encoder, err := cell.NewEncoder(h.manifest.Encoding(), h.levels)
	if err == nil {
		h.values, err = encoder.EncodeSample(h.sample)
	}

	if err != nil {
		return &dataError{fmt.Errorf("dataset %s: %w", dataset.SampleFile, err)}
	}
	return nil
}

// usualInputs counts the values in the sample's columns, as seen by a model with the features of e and the levels of
// their target tables; levels is nil if there are none. h.sample must be set.
func usualInputs(e *dataset.Encoding, levels *dataset.Levels, h *holdout) (*cell.Inputs, error) {
	encoder, err := cell.NewEncoder(e, levels)
	if err != nil {
		return nil, err
	}
	return encoder.CountSample(h.sample)
}

// readPart reads the targets of a part's rows, and finds those rows in the sample. A part is a split of the dataset, or
// those of its rows that are in some folds. It returns the part's targets, and a place for each of its rows that the
// sample has: none if the sample is of another split. Rows of the sample that are not in the part have no place.
func (a *Aggregator) readPart(ctx context.Context, prefix string, h *holdout, part sweep.Rows) (dataset.Targets,
	[]place, error) {
	data, err := a.readFile(ctx, prefix, h.manifest, dataset.TargetsFile(part.Split), maxTargets)
	if err != nil {
		return dataset.Targets{}, nil, err
	}
	all, err := dataset.ReadTargets(data)
	if err != nil {
		return dataset.Targets{}, nil, &dataError{fmt.Errorf("dataset %s: %w", dataset.TargetsFile(part.Split), err)}
	}

	rows := part.Select(all.Fold) // ascending; nil for all rows of the split
	targets := all
	if rows != nil {
		targets = all.Pick(rows)
	}
	var places []place
	if h.sample.Split == part.Split {
		for i, r := range h.sample.Row {
			// r is the row's index in the split. One beyond its end is of a damaged sample, and of no use.
			j, ok := int(r), int(r) < len(all.Label)
			if rows != nil { // of some folds, the index among their rows
				j, ok = slices.BinarySearch(rows, r)
			}
			if ok {
				places = append(places, place{sample: i, part: j})
			}
		}
	}

	return targets, places, nil
}

// readFile reads one file of the dataset, whose objects begin with prefix, and verifies it against the manifest's
// checksums. A file that is missing, damaged or longer than limit bytes is a *dataError; other errors are the store's.
func (a *Aggregator) readFile(ctx context.Context, prefix string, m *dataset.Manifest, name string,
	limit int64) ([]byte, error) {
	for _, f := range m.Files {
		if f.Name != name {
			continue
		}
		if f.Bytes > limit {
			return nil, &dataError{fmt.Errorf("dataset file %s has %d bytes, more than the maximum of %d", name,
				f.Bytes, limit)}
		}
		data, err := a.read(ctx, prefix+name, f.Bytes)
		if err != nil {
			return nil, err
		}

		if int64(len(data)) != f.Bytes {
			return nil, &dataError{fmt.Errorf("dataset file %s has %d bytes, the manifest says %d", name, len(data),
				f.Bytes)}
		}

		for i := range f.Blocks {
			offset, length := f.Block(i)
			if err := f.VerifyBlock(i, data[offset:offset+length]); err != nil {
				return nil, &dataError{err}
			}
		}

		return data, nil
	}
	return nil, &dataError{fmt.Errorf("the dataset has no %s; was it staged with sample: 0, or without the split? "+
		"Stage it again", name)}
}

// read reads an object of the datasets bucket. A missing or damaged one is a *dataError, not a storage error.
func (a *Aggregator) read(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, _, err := blob.ReadAll(ctx, a.Datasets, name, limit)
	if errors.Is(err, blob.ErrNotExist) || problem.Is(err, problem.Damaged) {
		return nil, &dataError{fmt.Errorf("read the dataset: %w", err)}
	}
	return data, err
}

// row returns the encoded values of one sample row.
func (h *holdout) row(i int) []float64 {
	f := len(h.manifest.Features)
	return h.values[i*f : (i+1)*f]
}

// errNoSample: none of the sweep's held-out rows is in the sample, so no model can be verified.
var errNoSample = errors.New("the dataset's sample has no row of the calib or test part; stage it again with a " +
	"larger sample")
