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

// bag is the training of one model for each fold, on the rows of all other folds. The mean of these models is the
// result.
type bag struct {
	q       Request
	stop    metric.Metric // decides when a model has enough trees
	all     *gbt.Data     // the rows of all folds
	fold    []uint8       // by row, the fold whose model leaves it out
	threads int           // for one model
	parts   []*gbt.Result // the models, by fold that has rows

	// raw is the score of each row by the model that leaves it out: [rows x outputs]. Models write different rows of
	// it.
	raw []float64

	mu    sync.Mutex // for grown, and so that q.OnTree is called once at a time
	grown int        // trees of all models so far
}

// trainBag trains q.Bag models, several at once, and merges them. Each leaves out the rows of one fold, which are the
// rows of some keys (or groups) of the dataset. With early stopping, these rows decide how many trees the model gets.
// The score of each row by the model that has not learnt from it gives the metrics and the calibration of the merged
// model. train has the rows of q.Rows, which must be whole splits, since each row needs its fold. q.Valid, q.Resume and
// q.Grow are not used. No checkpoints are written, since tables for which bags are worth it are small.
func (t *Table) trainBag(ctx context.Context, q Request, train *gbt.Data) (*Evaluated, error) {
	// Divide the threads among the models.
	atOnce := min(q.Bag, max(1, q.Threads))
	b := &bag{q: q, stop: q.Metric, all: train, threads: max(1, q.Threads) / atOnce}

	// Models are stopped by the objective's usual metric. With other metrics, which may be noisy or not defined on the
	// few rows of a fold, they would stop by chance (docs/LAB.md).
	if !gbt.Ranks(q.Params.Objective) {
		var err error
		if b.stop, err = metric.Usual(q.Params.Objective); err != nil {
			return nil, err
		}
	}
	b.raw = make([]float64, train.Rows*max(1, q.Params.NumClass))

	// Find the fold of each row. The dataset's folds are joined to q.Bag ones.
	for _, part := range q.Rows {
		copies := 1 // the train split contains its own copies; rows of other splits are repeated as often
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

	// b.fold is a copy, so the dataset's own folds stay.
	for i, f := range b.fold {
		b.fold[i] = uint8(int(f) * q.Bag / dataset.Folds)
	}

	// If there are few keys, some folds have no rows. No model leaves those out.
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
	group.SetLimit(atOnce)
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

// trainWithout trains the model that leaves out fold k, and sets the scores of this fold's rows in b.raw.
func (b *bag) trainWithout(ctx context.Context, k uint8, identity string) (*gbt.Result, error) {
	// Divide the rows.
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

	// Train on the others. No Shift is needed: the launcher plans no bag for a dataset with sampled negatives.
	q := b.q
	opt := gbt.Options{Threads: b.threads, Maximize: b.stop.Maximize, Identity: identity, Deadline: q.Deadline,
		OnTree: b.onTree, Rows: train.Used()}
	if q.Params.EarlyStoppingRound > 0 {
		opt.Valid, opt.Eval = &rated.Data, newTreeEvaluator(q.Params, b.stop, rated)
	}
	res, err := gbt.Train(ctx, &train, q.Params, opt)
	if err != nil {
		return nil, err
	}

	// Score the rows left out. No two folds share a row, so models write to different places of b.raw.
	raw, err := res.Model.PredictBinned(&rated.Data, b.threads)
	if err != nil {
		return nil, err
	}
	n := res.Model.Outputs()
	for i, r := range rows {
		copy(b.raw[int(r)*n:], raw[i*n:(i+1)*n])
	}
	return res, nil
}

// onTree passes on a model's progress as that of the bag: the tree's number is the count of all models' trees, and
// there is no metric.
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

// mergeModels returns the mean of the models in b.parts, with the metrics of b.raw and, for a binary label, a
// calibrator fitted to b.raw. label and weight are those of all rows. b.raw has probabilities afterwards.
func (b *bag) mergeModels(label, weight []float32) (*Evaluated, error) {
	// Merge the models. The bag ended at a limit, such as its deadline, if any of them did.
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

	o := &Evaluated{Result: res, Seconds: res.Took.Seconds(), ScoreSE: math.NaN(), TrainRows: b.all.Rows}
	values := float64(b.all.Rows) * float64(len(b.all.Features)) * float64(max(res.Grown, 1)*res.Model.Outputs())
	o.NsPerValue = o.Seconds * 1e9 / values

	// Calibrate from raw scores, before they become predictions.
	if b.q.Params.Objective == "binary" {
		choice, err := calibrate.Choose(b.raw, label, weight, false) // false: rows are not in the order of time
		if err != nil {
			return nil, err
		}
		o.Calibrator = choice.Calibrator
	}

	// Evaluate.
	res.Model.Transform(b.raw)
	var e metric.Evaluator
	e.Reset(metric.Input{Label: label, Weight: weight, Pred: b.raw, Group: b.all.Group})
	o.Metrics = evaluateDefined(&e, b.q.Metrics)
	o.Score = math.NaN() // unless the metric is defined: it may need columns that only evaluation splits have
	if value, err := e.Eval(b.q.Metric); err == nil {
		o.Score = b.q.Metric.Score(value)
	}
	return o, nil
}
