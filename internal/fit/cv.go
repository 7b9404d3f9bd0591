package fit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

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

// Schemes returns all schemes.
func Schemes() []Scheme { return []Scheme{KFold, GroupKFold, Forward} }

// ErrScheme is wrapped by errors about a scheme that the dataset's folds do not support.
var ErrScheme = problem.New(problem.Input, "this cross-validation does not fit the dataset")

// Fold is one round of cross-validation: the dataset's fold numbers to train on and to evaluate.
type Fold struct {
	Number       int // 1, 2, 3 ...
	Of           int
	Train, Rated sweep.Rows
}

// Folds returns the rounds of a scheme with k folds, from 2 to dataset.Folds. With fewer than the dataset has,
// neighbours are joined, which keeps groups together and time in order: fold f of ten is f*k/10 of k. Fold numbers are
// assigned as FORMAT.md says: by group if there are any, else by ranges of time in a dataset split by time, else by key
// or row.
func (t *Table) Folds(s Scheme, k int) ([]Fold, error) { return Folds(t.ds.Manifest, s, k) }

// Folds is Table.Folds for a manifest.
func Folds(m *dataset.Manifest, s Scheme, k int) ([]Fold, error) {
	switch {
	case k < 2 || k > dataset.Folds:
		return nil, fmt.Errorf("%w: %d folds; use 2 to %d", ErrScheme, k, dataset.Folds)
	case s == GroupKFold && m.Group == "":
		return nil, fmt.Errorf("%w: dataset %s has no groups; stage it with group: COLUMN, or use %s", ErrScheme,
			m.Name, KFold)
	case s == Forward && m.Split.By != dataset.SplitByTime:
		return nil, fmt.Errorf("%w: dataset %s is split by %s, so its folds do not follow each other in time; stage "+
			"it with split: {by: time, ...}, or use %s", ErrScheme, m.Name, m.Split.By, KFold)
	case s == Forward && m.Group != "":
		return nil, fmt.Errorf("%w: the folds of dataset %s are by its groups (%s) and do not follow each other in "+
			"time; stage it without group, or use %s", ErrScheme, m.Name, m.Group, GroupKFold)
	case !slices.Contains(Schemes(), s):
		return nil, fmt.Errorf("%w: there is no scheme %.20q; use one of %v", ErrScheme, s, Schemes())
	}

	// No fold may be evaluated with statistics that have seen its groups, its future or its keys.
	by := m.Order
	if by != nil && (s == GroupKFold || s == Forward && by.By != dataset.OrderTime || s == KFold &&
		m.Split.By == dataset.SplitByHash) {
		return nil, fmt.Errorf("%w: the statistics of ids in dataset %s were made from all rows of train, so rows "+
			"would be evaluated that a "+
			"statistic has seen the %s of; stage it with encodings: none", ErrScheme, m.Name,
			map[Scheme]string{GroupKFold: "group", Forward: "future", KFold: "key"}[s])
	}

	joined := make([][]uint8, k)
	for f := range dataset.Folds {
		joined[f*k/dataset.Folds] = append(joined[f*k/dataset.Folds], uint8(f))
	}

	var folds []Fold
	for i := range joined {
		others := slices.Concat(slices.Concat(joined[:i]...), slices.Concat(joined[i+1:]...))
		if s == Forward {
			others = slices.Concat(joined[:i]...)
		}
		if len(others) > 0 {
			folds = append(folds, Fold{Number: len(folds) + 1, Train: trainRows(others), Rated: trainRows(joined[i])})
		}
	}

	for i := range folds {
		folds[i].Of = len(folds)
	}
	return folds, nil
}

func trainRows(folds []uint8) sweep.Rows { return sweep.Rows{Split: dataset.TrainSplit, Folds: folds} }

// CrossRequest is one configuration to cross-validate.
type CrossRequest struct {
	// Request says how each fold is trained. Its Valid is ignored: the evaluated fold takes its place, including for
	// early stopping, which makes scores slightly optimistic.
	Request
	Scheme Scheme
	Folds  int
	// OnFold is called before each fold with the numbers of rows trained and evaluated on. Its error ends the run.
	OnFold func(f Fold, train, rated int) error
}

// FoldOutcome is the evaluation of one fold's model. The model is not kept.
type FoldOutcome struct {
	Fold
	TrainRows, RatedRows int
	Trees                int
	Metrics              map[string]float64 // on the evaluated rows, where they are defined
	Seconds              float64
}

// CrossValidate trains and evaluates one fold after another, each with all threads. Beside the trainer's memory it
// needs the two masks of a fold, 4 bytes per row, and scores of the evaluated fold, 16 bytes per row of the table. The
// same request has the same outcome for any number of threads.
func (t *Table) CrossValidate(ctx context.Context, q CrossRequest) ([]FoldOutcome, error) {
	folds, err := t.Folds(q.Scheme, q.Folds)
	if err != nil {
		return nil, err
	}

	outcomes := make([]FoldOutcome, 0, len(folds))
	for _, f := range folds {
		o, err := t.crossFold(ctx, q, f)
		if err != nil {
			return nil, fmt.Errorf("fold %d of %d: %w", f.Number, f.Of, err)
		}
		outcomes = append(outcomes, *o)
	}
	return outcomes, nil
}

func (t *Table) crossFold(ctx context.Context, q CrossRequest, f Fold) (*FoldOutcome, error) {
	if err := CheckRanking(q.Params.Objective, t.ds.Manifest); err != nil {
		return nil, err
	}
	train, err := t.mask(f.Train)
	if err != nil {
		return nil, err
	}
	rated, err := t.Select(f.Rated)
	if err != nil {
		return nil, err
	}

	if q.OnFold != nil {
		if err := q.OnFold(f, train.Used(), rated.Len()); err != nil {
			return nil, err
		}
	}

	opt := gbt.Options{Threads: q.Threads, OnTree: q.OnTree, Maximize: q.Metric.Maximize}
	if q.Params.EarlyStoppingRound > 0 || q.RateTrees {
		opt.Valid = &rated.Data
		opt.Eval = rater(q.Request, rated)
	}

	start := time.Now()
	res, err := gbt.Train(ctx, train, q.Params, opt)
	if err != nil {
		return nil, err
	}

	o := &Evaluated{Result: res, Score: math.NaN(), Seconds: time.Since(start).Seconds()}
	if err := o.rate(q.Request, rated); err != nil {
		return nil, err
	}
	return &FoldOutcome{Fold: f, TrainRows: train.Used(), RatedRows: rated.Len(), Trees: res.Model.Iterations(),
		Metrics: o.Metrics, Seconds: o.Seconds}, nil
}

// mask returns a part of a split to train on. Unlike Select it copies no targets: the trainer reads them through the
// mask.
func (t *Table) mask(part sweep.Rows) (*gbt.Data, error) {
	whole, err := t.Select(sweep.Rows{Split: part.Split})
	if err != nil {
		return nil, err
	}
	if whole.Data.Subset = part.Select(t.ds.Split(part.Split).Fold); len(whole.Data.Subset) == 0 {
		return nil, fmt.Errorf("%w: split %s has none in folds %v", ErrNoRows, part.Split, part.Folds)
	}
	return &whole.Data, nil
}

// Summary sums up a metric over the folds in which it is defined.
type Summary struct {
	Folds int
	Mean  float64 // all folds weigh the same
	SD    float64 // of the sample, with Folds-1 in the denominator; NaN for a single fold
}

// Summarize returns the summary of every metric that is defined in some fold.
func Summarize(outcomes []FoldOutcome) map[string]Summary {
	values := map[string][]float64{}
	for _, o := range outcomes {
		for name, v := range o.Metrics {
			values[name] = append(values[name], v)
		}
	}
	out := map[string]Summary{}
	for name, vs := range values {
		out[name] = summarize(vs)
	}
	return out
}

func summarize(values []float64) Summary {
	n := float64(len(values))
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	mean := sum / n
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return Summary{Folds: len(values), Mean: mean, SD: math.Sqrt(squares / (n - 1))}
}
