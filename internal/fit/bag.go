package fit

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
)

// bag is a training of one model for each fold, on the rows of all others, whose mean is the model.
type bag struct {
	q       Request
	stop    metric.Metric // what stops a model
	all     *gbt.Data     // the rows of every fold
	fold    []uint8       // of each row
	threads int           // of one model

	mu    sync.Mutex // of what follows, and of q.OnTree
	grown int
	raw   []float64 // score of each row by the one model that has not learnt from it
	parts []*gbt.Result
}

// trainBag trains q.Bag models at once. Rows that a model has not learnt from say how many trees it gets, if the
// parameters leave that to a metric, and all of these rows together how the mean of the models is calibrated. The fold
// numbers of the dataset keep the rows of a key in one fold. Nothing is saved on the way: tables for this are small.
func (t *Table) trainBag(ctx context.Context, q Request, train *gbt.Data) (*Evaluated, error) {
	at := min(q.Bag, max(1, q.Threads))
	b := &bag{q: q, stop: q.Metric, all: train, threads: max(1, q.Threads) / at}
	if !gbt.Ranks(q.Params.Objective) { // others stop by chance on a fold's rows, or are not defined there (LAB.md)
		var err error
		if b.stop, err = metric.Usual(q.Params.Objective); err != nil {
			return nil, err
		}
	}
	b.raw = make([]float64, train.Rows*max(1, q.Params.NumClass))
	for _, part := range q.Rows {
		copies := 1 // train has those of its own rows
		if part.Split != dataset.TrainSplit {
			copies = max(1, train.Copies)
		}
		for range copies {
			b.fold = append(b.fold, t.ds.Split(part.Split).Fold...)
		}
	}
	if len(b.fold) != train.Rows || train.Subset != nil {
		return nil, fmt.Errorf("%w: %d rows have a fold, of %d", ErrScheme, len(b.fold), train.Rows)
	}
	for i, f := range b.fold {
		b.fold[i] = uint8(int(f) * q.Bag / dataset.Folds)
	}

	// Keys may be so few that none is in a fold, whose model would have no rows to stop by.
	var folds []uint8
	for k := range uint8(q.Bag) {
		if slices.Contains(b.fold, k) {
			folds = append(folds, k)
		}
	}
	if len(folds) < 2 {
		return nil, fmt.Errorf("%w: all are in one fold of %d", ErrNoRows, q.Bag)
	}
	b.parts = make([]*gbt.Result, len(folds))

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(at)
	for i, k := range folds {
		group.Go(func() (err error) {
			b.parts[i], err = b.trainWithout(ctx, k, t.Identity(q))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return b.mergeModels(train.Label, train.Weight)
}

// trainWithout trains the model that leaves out fold k.
func (b *bag) trainWithout(ctx context.Context, k uint8, identity string) (*gbt.Result, error) {
	train, rated := *b.all, &HeldOut{Data: *b.all}
	train.Subset = make([]uint32, 0, b.all.Rows)
	for r, f := range b.fold {
		if f == k {
			rated.Data.Subset = append(rated.Data.Subset, uint32(r))
		} else {
			train.Subset = append(train.Subset, uint32(r))
		}
	}
	rows := rated.Data.Subset
	rated.Label, rated.Weight = dataset.Pick(train.Label, rows), dataset.Pick(train.Weight, rows)
	rated.Group = dataset.Pick(train.Group, rows)

	q := b.q
	opt := gbt.Options{Threads: b.threads, Maximize: b.stop.Maximize, Identity: identity, Deadline: q.Deadline,
		OnTree: b.onTree, Rows: train.Used()}
	if q.Params.EarlyStoppingRound > 0 {
		opt.Valid, opt.Eval = &rated.Data, newRater(q.Params, b.stop, rated)
	}
	res, err := gbt.Train(ctx, &train, q.Params, opt)
	if err != nil {
		return nil, err
	}
	raw, err := res.Model.PredictBinned(&rated.Data, b.threads)
	if err != nil {
		return nil, err
	}
	n := res.Model.Outputs()
	for i, r := range rows { // no two folds share a row
		copy(b.raw[int(r)*n:], raw[i*n:(i+1)*n])
	}
	return res, nil
}

// onTree counts the trees of all models.
func (b *bag) onTree(g gbt.Progress) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grown++
	g.Tree, g.Metric, g.Best = b.grown, math.NaN(), 0
	if b.q.OnTree == nil {
		return nil
	}
	return b.q.OnTree(g)
}

// mergeModels makes the mean of the models, with the metrics and, of two classes, the calibrator of the rows out of
// fold.
func (b *bag) mergeModels(label, weight []float32) (*Evaluated, error) {
	res := &gbt.Result{Stopped: b.parts[0].Stopped, Metric: math.NaN()}
	models := make([]*gbt.Model, len(b.parts))
	for i, p := range b.parts {
		models[i] = p.Model
		res.Grown, res.Took = res.Grown+p.Grown, res.Took+p.Took
		if p.Stopped == gbt.StopLimit {
			res.Stopped = p.Stopped
		}
	}
	var err error
	if res.Model, err = gbt.Merge(models); err != nil {
		return nil, err
	}
	res.Best = res.Model.Iterations()

	o := &Evaluated{Result: res, Seconds: res.Took.Seconds(), ScoreSE: math.NaN(), TrainRows: b.all.Rows,
		Metrics: map[string]float64{}}
	values := float64(b.all.Rows) * float64(len(b.all.Features)) * float64(max(res.Grown, 1)*res.Model.Outputs())
	o.NsPerValue = o.Seconds * 1e9 / values
	if b.q.Params.Objective == "binary" {
		choice, err := calibrate.Choose(b.raw, label, weight, false) // out of fold, and a bag is not by time
		if err != nil {
			return nil, err
		}
		o.Calibrator = choice.Calibrator
	}
	res.Model.Transform(b.raw)
	var e metric.Evaluator
	e.Reset(metric.Input{Label: label, Weight: weight, Pred: b.raw, Group: b.all.Group})
	o.Metrics = evaluateDefined(&e, b.q.Metrics)
	o.Score = math.NaN() // as it may be defined for the rows of valid alone
	if value, err := e.Eval(b.q.Metric); err == nil {
		o.Score = b.q.Metric.Score(value)
	}
	return o, nil
}
