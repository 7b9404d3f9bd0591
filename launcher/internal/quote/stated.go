package quote

import (
	"cmp"
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// Stated is a hypothetical dataset, given by its size.
type Stated struct {
	Rows     int // of train
	Features int
	HeldOut  int // rows in each of valid, calib and test
	Classes  int // of a label of several classes

	Validate *sweep.Validate // the dataset is assumed to have suitable folds
}

// Limits on a stated size.
const (
	maxStatedRows     = 100_000_000_000
	maxStatedFeatures = 100_000
)

// bytesPerRow is the size of a staged row without its features, which have two bytes each: label and fold
// (internal/dataset/FORMAT.md).
const bytesPerRow = 5

// statedMean is an arbitrary mean label; no plan depends on it.
const statedMean = 0.5

// Manifest returns a stand-in for the manifest of a dataset that is not staged: all features have 255 bins, and one
// file has the bytes of all. Its label is one that the objective can learn, and for an objective that ranks its rows
// have queries. The error names the allowed sizes, or says that the number of classes is missing.
func (s Stated) Manifest(name, objective string) (*dataset.Manifest, error) {
	if s.Rows < 1 || s.Rows > maxStatedRows || s.Features < 1 || s.Features > maxStatedFeatures || s.HeldOut < 1 ||
		s.HeldOut > maxStatedRows {
		return nil, fmt.Errorf("%d rows, %d held out, %d features: use 1 to %d rows and 1 to %d features", s.Rows,
			s.HeldOut, s.Features, maxStatedRows, maxStatedFeatures)
	}

	m := &dataset.Manifest{Name: name, Version: "0000000000000000", Sample: dataset.SampleInfo{Rows: 1}}
	m.Label.Kind = dataset.Regression
	switch {
	case gbt.Classes(objective) && (s.Classes < 2 || s.Classes > dataset.MaxClasses):
		return nil, fmt.Errorf("objective %s grows a tree for each class: say how many there are, 2 to %d, as params: "+
			"{num_class: N}", objective, dataset.MaxClasses)
	case gbt.Classes(objective):
		m.Label.Kind, m.Label.Classes = dataset.Classes, make([]string, s.Classes) // nothing looks at their names
	case gbt.Ranks(objective):
		m.Group = "query"
	case objective == "binary":
		m.Label.Kind = dataset.Binary
	}
	if v := s.Validate; v != nil {
		m.Split.By, m.Group = dataset.SplitByTime, cmp.Or(v.By, m.Group)
	}
	for i := range s.Features {
		m.Features = append(m.Features, dataset.Feature{Name: fmt.Sprintf("f%d", i), Bins: 255})
	}

	bytes := int64(0)
	for _, split := range []string{sweep.Train, sweep.Valid, sweep.Calib, sweep.Test} {
		rows := s.HeldOut
		if split == sweep.Train {
			rows = s.Rows
		}
		m.Splits = append(m.Splits, dataset.Rows{Name: split, Rows: rows, LabelMean: statedMean})
		bytes += int64(rows) * (2*int64(s.Features) + bytesPerRow)
	}
	m.Files = []dataset.FileInfo{{Name: "stated", Bytes: bytes}}
	return m, nil
}
