package gbt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Options are the settings of a training run that are not parameters of the model. None of them affects the model
// except Shift, Input and, through early stopping, Valid, Eval and Maximize.
type Options struct {
	Threads int // goroutines; at least 1

	// Valid are held-out rows with the training data's features, predicted after every tree.
	Valid *Data
	// Eval computes the metric from the raw scores of the used rows of Valid, in their order, one for each class. It is
	// called after every tree, from one goroutine, and must not retain its argument. NaN ends the training with an
	// error: nothing could be compared with it.
	Eval func(raw []float64) (float64, error)
	// Maximize says that a higher metric is better.
	Maximize bool

	// Shift is added to every raw score of the finished model, and to those passed to Eval; training rows are learnt
	// from without it. If negative rows were sampled with probability w, log(w) corrects the log odds to those of all
	// rows. As with the constant of boost_from_average, the first tree carries it.
	Shift float64

	// Input, if not nil, is a model to continue: scores begin at its predictions, and its trees precede the new ones in
	// the finished model. num_iterations, early_stopping_round and Progress refer to new trees only.
	Input *InputModel

	// OnTree is called after every tree. Its error ends the training; ErrLimit ends it as Deadline does. In a team, the
	// first worker calls it.
	OnTree func(Progress) error
	Rows   int // that Progress names: those of all workers

	// Deadline, if not zero, is when the training ends with the trees that it has: the first ones of the model that it
	// would have had, up to the best one with early stopping. The tree under way is given up. In a team, it is the
	// first worker's that counts, and that tree is finished.
	Deadline time.Time

	// Checkpoint is called with the state before every tree, from the training's goroutine, and decides whether to save
	// it. If ctx ends within a tree, it is called once more with the last state before Train returns. Its error ends
	// the training.
	Checkpoint func(*Checkpoint) error
	// Resume, if not nil, is where to resume: the model will be that of an uninterrupted training. A checkpoint of a
	// different run (in parameters, data, Valid, Maximize or Identity) is refused with a *MismatchError.
	Resume *Checkpoint
	// Identity describes what else distinguishes two runs: which table the bytes come from, what Eval measures.
	Identity string
}

// Progress is the state of a training run after a tree.
type Progress struct {
	Tree   int     // 1, 2, 3 ...
	Leaves int     // of all classes
	Metric float64 // Eval's result on Valid; NaN without Eval
	Best   int     // the tree with the best metric so far, 0 without Eval
	Took   time.Duration
	Rows   int // Options.Rows
}

// Result is a finished training run.
type Result struct {
	Model *Model // up to the best tree, with early stopping
	// Trees are counted by round: of several classes, each has as many.

	// trees grown in total, without an input model's; 1 if no split was found at all, for the tree of a constant
	Grown  int
	Best   int     // trees in Model
	Metric float64 // the best tree's, even where Model has more trees; NaN without Eval
	// Stopped says why training ended.
	Stopped Stop
	Resumed int           // trees taken from Options.Resume
	Took    time.Duration // training time, including that of the resumed trees
}

// Stop is why a training ended.
type Stop string

// The regular ends of a training.
const (
	StopIterations Stop = "num_iterations reached"
	StopEarly      Stop = "no improvement on valid"
	StopNoSplit    Stop = "no split improves the model"
	StopLimit      Stop = "at its limit"
)

// ErrLimit is returned by a training that comes to its Deadline without a model, and by an Options.OnTree that ends
// one.
var ErrLimit = errors.New("the training is at its limit")

// errDiverged is wrapped by the error of a training whose values overflow.
var errDiverged = errors.New("the training diverges")

// Train grows a model on d. It ends early when ctx does, with ctx's error. The same data, parameters and Eval results
// give the same model, bit for bit, for any number of threads.
func Train(ctx context.Context, d *Data, p Params, opt Options) (*Result, error) {
	pool := newPool(opt.Threads)
	defer pool.close()

	b, err := newBooster(ctx, d, p, opt, pool)
	if err != nil {
		return nil, err
	}

	growing, cancel := ctx, func() {}
	if !opt.Deadline.IsZero() && d.Team == nil {
		growing, cancel = context.WithDeadline(ctx, opt.Deadline)
	}
	defer cancel()

	for b.stopped == "" {
		at := b.checkpoint()
		if err := ctx.Err(); err != nil {
			return nil, b.abandoned(ctx, at, err)
		}
		if err := b.saveCheckpoint(at); err != nil {
			return nil, err
		}

		err := growing.Err()
		if err == nil {
			err = b.growRound(growing)
		}
		switch {
		case err == nil:
		case ctx.Err() == nil && (errors.Is(err, ErrLimit) || errors.Is(err, growing.Err())):
			if len(b.trees) == 0 {
				return nil, ErrLimit
			}
			b.stopped = StopLimit
		default:
			return nil, b.abandoned(ctx, at, err)
		}
	}

	return b.result(), nil
}

// output is a raw score of a model and what it is learnt from.
type output struct {
	obj      objective
	bias     float64   // the initial constant; the first tree carries it
	raw      []float64 // by row of data; of rows that are not in use they mean nothing
	validRaw []float64 // by row of valid; nil without
}

// checkArguments checks everything that a caller can get wrong, before memory for all rows is allocated, and sets what
// depends on nothing else: the parameters for this table, the objectives and the link to the team.
func (b *booster) checkArguments(d *Data, p Params) error {
	if err := d.check(true); err != nil {
		return err
	}
	if v := b.opt.Valid; v != nil {
		if err := v.check(false); err != nil {
			return fmt.Errorf("valid: %w", err)
		}
		if len(v.Features) != len(d.Features) {
			return fmt.Errorf("%w: valid has %d features, train %d", ErrData, len(v.Features), len(d.Features))
		}
	}
	if b.opt.Shift-b.opt.Shift != 0 { // NaN or infinite
		return &ParamError{"shift", fmt.Sprintf("%v cannot be added to scores", b.opt.Shift)}
	}

	var err error
	if d.Team != nil {
		part := *d
		if part.link, err = newLink(d); err != nil {
			return err
		}
		d = &part
	}
	b.data = d
	if d.link.leads() {
		b.valid = b.opt.Valid
	}

	if b.p, err = p.ForTable(d.Features); err != nil {
		return err
	}
	each, err := newObjective(&b.p, d)
	if err != nil {
		return err
	}
	b.outputs = make([]output, len(each))
	for k, obj := range each {
		b.outputs[k].obj = obj
	}
	b.output = &b.outputs[0]
	if len(each) > 1 && b.opt.Shift != 0 {
		return &ParamError{"shift", "scores of several classes have none"}
	}
	if b.opt.Input != nil {
		return b.opt.Input.check(d, b.obj)
	}
	return nil
}

// beginScores sets all raw scores to their output's initial constant, the average's or 0.
func (b *booster) beginScores(fromAverage bool) {
	for k := range b.outputs {
		o := &b.outputs[k]
		o.bias = o.obj.init(fromAverage)
		o.raw = slices.Repeat([]float64{o.bias}, b.data.Rows)
		if v := b.valid; v != nil {
			o.validRaw = slices.Repeat([]float64{o.bias}, v.Rows)
		}
		if c, ok := o.obj.(*class); ok {
			c.raw = append(c.raw, o.raw) // each class sees all
		}
	}
	if v := b.valid; v != nil {
		b.evalRaw = make([]float64, len(b.outputs)*v.Used())
	}
}

// iterations is the number of trees of each output.
func (b *booster) iterations() int { return len(b.trees) / len(b.outputs) }

// treesOf returns the trees of the k-th output among those of all.
func (b *booster) treesOf(k int, trees []*Tree) []*Tree {
	if len(b.outputs) == 1 {
		return trees
	}
	var own []*Tree
	for i := k; i < len(trees); i += len(b.outputs) {
		own = append(own, trees[i])
	}
	return own
}

// addToValid adds trees to the scores of the held-out rows.
func (b *booster) addToValid(ctx context.Context, trees ...*Tree) {
	if v := b.valid; v != nil {
		addPredictions(ctx, trees, v.Columns, v.rows(), b.validRaw, b.walks)
	}
}

// metric is Eval's result after the last tree; NaN without Eval. In a team, one worker evaluates.
func (b *booster) metric() (float64, error) {
	if b.opt.Eval == nil || b.opt.Valid == nil {
		return math.NaN(), nil
	}
	return b.data.link.askLeader(b.ownMetric)
}

// ownMetric calls Options.Eval with the scores of the used rows of valid.
func (b *booster) ownMetric() (float64, error) {
	for k := range b.outputs {
		b.opt.Valid.gather(b.evalRaw[k:], b.outputs[k].validRaw, len(b.outputs))
	}

	v, err := b.opt.Eval(b.evalRaw)
	switch {
	case err != nil:
		return 0, fmt.Errorf("evaluate tree %d: %w", b.iterations(), err)
	case v-v != 0: // NaN or infinite: nothing can be compared with it, and a checkpoint could not hold it
		return 0, fmt.Errorf("evaluate tree %d: the metric is not a number", b.iterations())
	}
	return v, nil
}

// report calls Options.OnTree for the last tree.
func (b *booster) report(metric float64, best int, start time.Time) error {
	if b.data.Team != nil && !b.opt.Deadline.IsZero() && !time.Now().Before(b.opt.Deadline) {
		return ErrLimit
	}
	if b.opt.OnTree == nil {
		return nil
	}
	leaves := 0
	for _, t := range b.trees[len(b.trees)-len(b.outputs):] {
		leaves += t.Leaves()
	}
	return b.opt.OnTree(Progress{Tree: b.iterations(), Leaves: leaves, Metric: metric, Best: best,
		Took: time.Since(start), Rows: b.opt.Rows})
}

// booster is the state of a training run between two trees.
type booster struct {
	p     Params // as in the model file; the grower's are scaled by Data.Copies
	opt   Options
	data  *Data
	pool  *pool
	walks walks

	*output           // the one whose tree is being grown
	outputs []output  // one, or one for each class
	valid   *Data     // opt.Valid, on the worker that evaluates; nil on the others of a team
	evalRaw []float64 // raw scores of its used rows, in their order, for Eval
	trees   []*Tree
	started time.Time

	progress
	grow    *grower
	stopped Stop

	// by row of data, the gradient and hessian in the current packing; of rows that are not in use they mean nothing
	gh  []uint32
	bag int // how many of grow.order's rows the current tree learns from

	names, infos []string // of the features, as in the model file

	run     run           // identifies its checkpoints; empty if there are none
	before  time.Duration // training time of the resumed trees
	resumed int           // number of resumed trees
}

// newBooster checks arguments and checkpoint, then allocates memory for all rows and brings scores to where it begins.
func newBooster(ctx context.Context, d *Data, p Params, opt Options, pool *pool) (*booster, error) {
	if (opt.Eval != nil) != (opt.Valid != nil) || p.EarlyStoppingRound > 0 && opt.Eval == nil {
		return nil, &ParamError{"early_stopping_round", "needs held-out rows and a metric"}
	}
	b := &booster{opt: opt, pool: pool, walks: newWalks(pool), started: time.Now(),
		progress: progress{BestMetric: math.NaN()}}
	if err := b.checkArguments(d, p); err != nil {
		return nil, err
	}
	b.names, b.infos = describe(d.Features)

	// Check the checkpoint before allocating memory for all rows.
	if opt.Checkpoint != nil || opt.Resume != nil {
		b.run = newRun(b.data, b.p, opt)
		if err := b.data.link.failed(); err != nil {
			return nil, err
		}
	}
	if opt.Resume != nil {
		if err := opt.Resume.run.differenceFrom(&b.run); err != nil {
			return nil, err
		}
	}

	// A row may be in the table several times; minimum sizes of a leaf apply to original rows.
	perCopy := b.p.forCopies(d.Copies)
	b.grow = newGrower(&perCopy, b.data, pool)
	b.gh = make([]uint32, d.Rows)
	b.beginScores(b.p.BoostFromAverage && opt.Input == nil)
	for k := range b.outputs {
		if opt.Input != nil {
			b.outputs[k].bias = 0 // its trees carry one
		}
	}
	b.Bias = b.bias

	if err := b.continueInput(ctx); err != nil {
		return nil, err
	}
	if opt.Resume != nil {
		if err := b.resume(ctx, opt.Resume); err != nil {
			return nil, err
		}
	}
	return b, b.data.link.failed()
}

// growRound grows a tree, or one for each class, adds it to the raw scores, evaluates it and decides whether to
// continue. If no split is found among its features and rows, the next round may still find one in others.
func (b *booster) growRound(ctx context.Context) error {
	start := time.Now()
	round := b.iterationsBefore() + b.Round
	b.Round++

	grown, splits := make([]*Tree, len(b.outputs)), false
	for k := range b.outputs {
		b.output = &b.outputs[k]
		t, err := b.growTree(ctx, round, k)
		if err != nil {
			return err
		}
		grown[k] = t
		splits = splits || t != nil
	}

	// No split was found. With another bag or other features the next round may find one.
	if !splits {
		b.decide()
		b.RoundsWithoutSplit++
		alwaysSame := !b.sampled()
		tooMany := b.RoundsWithoutSplit >= maxRoundsWithoutSplit
		neverSplit := b.stopped != "" && len(b.trees) == 0
		if alwaysSame || tooMany || neverSplit {
			b.stopped = StopNoSplit
		}
		return nil
	}

	b.RoundsWithoutSplit = 0
	for k, t := range grown {
		if t == nil { // other classes have splits
			grown[k] = constantTree(0)
			if len(b.trees) == 0 { // the first tree carries the bias
				grown[k] = constantTree(b.outputs[k].bias)
			}
		}
	}
	b.trees = append(b.trees, grown...)
	return b.evaluate(start)
}

// growTree grows the current output's tree and adds it to its raw scores. It returns nil if no split is found.
func (b *booster) growTree(ctx context.Context, round, k int) (*Tree, error) {
	tree := round*len(b.outputs) + k

	// Gradients at the current raw scores, for the rows that this tree learns from.
	b.drawRows(round)
	pack := b.obj.prepare(tree, b.raw, b.grow.order, b.pool)
	b.fillGradients(newKey(b.p.Seed, forRounding, tree).from(b.data.first()))

	t, err := b.grow.grow(ctx, tree, b.bag, b.gh, pack)
	if err != nil || t == nil {
		return nil, err
	}
	if !t.finite() {
		return nil, fmt.Errorf("%w at tree %d: a leaf's value is not finite; use a smaller learning_rate or more "+
			"lambda_l2", errDiverged, len(b.trees)+k+1)
	}

	b.obj.renew(b.grow, t, b.raw)
	if err := b.data.link.failed(); err != nil { // the values mean nothing
		return nil, err
	}
	b.addValues(context.WithoutCancel(ctx), t) // never leave raw scores partly updated

	// The first tree carries the bias, so that the trees alone sum up to a raw score.
	if len(b.trees) == 0 {
		t.addBias(b.bias)
		if shift := b.carried(); shift != 0 {
			for r := range b.validRaw {
				b.validRaw[r] += shift
			}
		}
	}
	return t, nil
}

// fillGradients computes the gradients of the bag's rows: with those of all others, since neighbours take less time,
// unless there are few.
func (b *booster) fillGradients(k key) {
	rows := rowSet{n: len(b.gh)}
	if !fillsAll(b.bag, len(b.gh)) {
		rows.subset = b.grow.order[:b.bag]
	}
	b.pool.parallel(rows.len(), grain, func(_, lo, hi int) { b.obj.fill(b.gh, b.raw, rows, lo, hi, k) })
}

// fillsAll reports whether the gradients of all rows are computed for a bag of so many.
func fillsAll(bag, rows int) bool {
	// about how many neighbouring rows are filled in the time of one by itself; the bits are the same either way
	together := 2
	if hasVectors() {
		together = 8
	}
	return bag >= rows/together
}

// addValues adds the tree's values to the raw scores of all rows in use: of the bag's rows, whose leaves are known, and
// of the others and of the held-out ones by routing them.
func (b *booster) addValues(ctx context.Context, t *Tree) {
	b.grow.addLeafValues(b.raw)
	if out := b.grow.order[b.bag:]; len(out) > 0 {
		addPredictions(ctx, []*Tree{t}, b.data.Columns, rowSet{subset: out}, b.raw, b.walks)
	}
	b.addToValid(ctx, t)
}

// drawRows fills the grower's order with the rows in use, the bag first, both parts ascending.
func (b *booster) drawRows(tree int) {
	rows := b.data.rows()
	b.pool.parallel(rows.len(), grain, func(_, lo, hi int) { rows.copy(b.grow.order[lo:hi], lo) })
	b.bag = drawBag(&b.p, tree, b.grow.order, b.grow.spare, b.data.link)
}

// evaluate rates the model after a round, reports it, and decides whether the training goes on.
func (b *booster) evaluate(start time.Time) error {
	metric, err := b.metric()
	if err != nil {
		return err
	}
	if b.opt.Eval != nil && b.improvedTo(metric) {
		b.Best, b.BestIn, b.BestMetric = b.iterations(), b.Round, metric
	}
	if _, err := b.data.link.askLeader(func() (float64, error) {
		return 0, b.report(metric, b.Best, start)
	}); err != nil {
		return err
	}
	b.decide()
	return nil
}
