package fit

import (
	"fmt"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// Scheme says on which folds cross-validation trains, and which it evaluates.
type Scheme string

// The schemes. All divide the train split by the dataset's fold numbers, as masks over the one mapped table.
const (
	KFold      Scheme = "kfold"   // evaluate each fold with a model of all others
	GroupKFold Scheme = "group"   // the same, for a dataset in which no group is split between folds
	Forward    Scheme = "forward" // evaluate each fold but the first with a model of all earlier ones, in time
)

// ErrScheme is wrapped by errors about a scheme that the dataset's folds do not support.
var ErrScheme = problem.New(problem.Input, "this cross-validation does not fit the dataset")

// Folds returns the rounds of a scheme with k folds, from 2 to dataset.Folds: which folds of train each round trains
// on, and which it evaluates. If the dataset does not support the scheme, the error wraps ErrScheme.
//
// The dataset has ten folds. They were assigned by group if there are groups, else by ranges of time in a dataset that
// is split by time, else by key or row (FORMAT.md). For fewer folds, neighbours are joined, which keeps groups together
// and time in order: fold f of ten becomes fold f*k/10 of k.
func Folds(m *dataset.Manifest, s Scheme, k int) ([]sweep.Round, error) {
	switch {
	case k < 2 || k > dataset.Folds:
		return nil, fmt.Errorf("%w: %d folds; use 2 to %d", ErrScheme, k, dataset.Folds)
	case s == GroupKFold && m.Group == "":
		return nil, fmt.Errorf("%w: dataset %s has no groups; stage it with group: COLUMN, or use %s", ErrScheme,
			m.Name, KFold)
	case s == Forward && !m.ByTime():
		return nil, fmt.Errorf("%w: dataset %s is split by %s, so its folds do not follow each other in time; stage "+
			"it with split: {by: time, ...}, or use %s", ErrScheme, m.Name, m.Split.By, KFold)
	case s == Forward && m.Group != "":
		return nil, fmt.Errorf("%w: the folds of dataset %s are by its groups (%s) and do not follow each other in "+
			"time; stage it without group, or use %s", ErrScheme, m.Name, m.Group, GroupKFold)
	case s != KFold && s != GroupKFold && s != Forward:
		return nil, fmt.Errorf("%w: there is no scheme %.20q", ErrScheme, s)
	}

	if seen := statisticsLeak(m, s); seen != "" {
		return nil, fmt.Errorf("%w: the statistics of ids in dataset %s were made from all rows of train, so rows "+
			"would be evaluated that a statistic has seen the %s of; stage it with encodings: none", ErrScheme, m.Name,
			seen)
	}

	// Join the dataset's folds to k ones.
	joined := make([][]uint8, k)
	for f := range dataset.Folds {
		joined[f*k/dataset.Folds] = append(joined[f*k/dataset.Folds], uint8(f))
	}

	var folds []sweep.Round
	for i, rated := range joined {
		train := slices.Concat(joined[:i]...)
		if s != Forward {
			train = append(train, slices.Concat(joined[i+1:]...)...)
		}
		if len(train) > 0 { // going forward, nothing is before the first fold
			folds = append(folds, sweep.Round{Train: trainRows(train), Rated: trainRows(rated)})
		}
	}
	return folds, nil
}

// statisticsLeak reports whether statistics of ids make cross-validation too optimistic. They are made from all rows of
// train, so they may have seen labels that a scheme keeps from the training: those of an evaluated row's group, of its
// key, or of the future. The result says which of these, and is empty if there is no leak.
func statisticsLeak(m *dataset.Manifest, s Scheme) string {
	switch {
	case m.Order == nil: // the dataset has no statistics
		return ""
	case m.Order.By == dataset.OrderGroup && s != Forward: // a row's statistics have seen no label of its group
		return ""
	case s == GroupKFold:
		return "group"
	case s == Forward && m.Order.By != dataset.OrderTime:
		return "future"
	case s == KFold && m.Split.By == dataset.SplitByHash:
		return "key"
	}
	return ""
}

// trainRows returns the rows of train in some of the dataset's folds.
func trainRows(folds []uint8) sweep.Rows { return sweep.Rows{Split: dataset.TrainSplit, Folds: folds} }

// maskRows returns the rows of a split that are in part.Folds, to train on. Unlike Select it makes no copies of their
// targets, since the trainer reads these through the mask.
func (t *Table) maskRows(part sweep.Rows) (*gbt.Data, error) {
	whole, err := t.Select(sweep.Rows{Split: part.Split})
	if err != nil {
		return nil, err
	}
	whole.Data.Subset = part.Select(t.ds.Split(part.Split).Fold)
	if len(whole.Data.Subset) == 0 {
		return nil, fmt.Errorf("%w: split %s has none in folds %v", ErrNoRows, part.Split, part.Folds)
	}
	return &whole.Data, nil
}
