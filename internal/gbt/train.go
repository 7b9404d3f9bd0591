package gbt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Options are the settings of a training run that are not parameters of the model. Shift and Input change the model.
// Valid, Eval and Maximize change it through early stopping only, and Deadline, OnTree and Checkpoint only by ending
// the training early. None of the others affects it.
type Options struct {
	Threads int // goroutines; at least 1

	// Valid are held-out rows with the training data's features, predicted after every tree. Valid and Eval are set
	// together or not at all.
	Valid *Data
	// Eval computes the metric from the raw scores of the used rows of Valid, [used rows x outputs]: in the rows'
	// order, with one score for each class. It is called after every tree, from one goroutine, and must not retain its
	// argument. A metric of NaN or infinity ends the training with an error: nothing could be compared with it.
	Eval func(raw []float64) (float64, error)
	// Maximize says that a higher metric is better.
	Maximize bool

	// Shift is added to every raw score of the finished model, and to those passed to Eval. Gradients of the training
	// rows are computed without it. It corrects for sampling: if negative rows were kept with probability w, a Shift of
	// log(w) turns the sample's log odds into those of all rows. The leaf values of the first tree contain it, as they
	// contain the initial constant of boost_from_average.
	Shift float64

	// Input, if not nil, is a model to continue: scores begin at its predictions, and its trees precede the new ones in
	// the finished model. num_iterations, early_stopping_round and Progress refer to new trees only.
	Input *InputModel

	// OnTree is called after every tree. Its error ends the training. If that error is ErrLimit, the training ends as
	// at its Deadline, with a model. In a team, only the first worker calls it.
	OnTree func(Progress) error
	Rows   int // reported in Progress.Rows: the rows of all workers; the training does not use it

	// Deadline, if not zero, is when the training ends with the trees that it has. They are the first trees of the
	// model that it would have had, and with early stopping those up to the best one. The tree that is being grown is
	// discarded. In a team, only the first worker's Deadline counts, and the tree that is being grown is finished.
	Deadline time.Time

	// Checkpoint is called with the state before every tree, from the training's goroutine, and decides whether to save
	// it. If ctx ends while a tree is being grown, it is called once more with the state before that tree, and then
	// Train returns. Its error ends the training.
	Checkpoint func(*Checkpoint) error
	// Resume, if not nil, is the state to resume from: the model will be that of an uninterrupted training. A
	// checkpoint of a different run (in parameters, data, Valid, Maximize or Identity) is refused with a
	// *MismatchError.
	Resume *Checkpoint
	// Identity is the caller's description of whatever else distinguishes two runs: the table that the bytes come from,
	// or the metric that Eval computes.
	Identity string
}

// Progress is the state of a training run after a tree.
type Progress struct {
	Tree   int           // 1, 2, 3 ...; with several classes, the number of the round
	Leaves int           // of this tree; with several classes, of all trees of the round
	Metric float64       // Eval's result on Valid; NaN without Eval
	Best   int           // the tree with the best metric so far, 0 without Eval
	Took   time.Duration // time that this tree took, with its evaluation
	Rows   int           // Options.Rows
}

// Result is a finished training run. With several classes, one tree for each of them counts as one tree here.
type Result struct {
	Model *Model // with early stopping, only the trees up to the best one

	// Grown is the number of trees grown, those of an Options.Resume included and those of an Options.Input not. If no
	// split was found at all, it is 1, and the model is one constant tree; or 0 with an Options.Input, whose trees are
	// then the model.
	Grown int
	Best  int // number of trees in Model, those of an Options.Input included
	// Metric is the best metric after any tree, even if Model has more trees than that. It is NaN without Eval, and if
	// no split was found at all, since Eval is called after trees with a split only.
	Metric float64

	Stopped Stop
	Resumed int           // trees taken from Options.Resume
	Took    time.Duration // training time, including that of the resumed trees
}

// Stop is why a training ended, in words for people.
type Stop string

// The regular ends of a training.
const (
	StopIterations Stop = "num_iterations reached"
	StopEarly      Stop = "no improvement on valid"
	StopNoSplit    Stop = "no split improves the model"
	StopLimit      Stop = "at its limit"
)

// ErrLimit is the error of Train if its Deadline comes before the first tree is finished. An Options.OnTree returns it
// to end the training regularly, as at a Deadline.
var ErrLimit = errors.New("the training is at its limit")

// errDiverged is wrapped by the error of a training whose values overflow.
var errDiverged = errors.New("the training diverges")

// Train grows a model on d, which it does not change. It returns ctx's error if ctx ends first. The same data,
// parameters and Eval results give the same model, bit for bit, for any number of threads.
//
// A wrong argument is a *ParamError or wraps ErrData or has kind problem.Input; a lost worker of a team wraps ErrTeam.
func Train(ctx context.Context, d *Data, p Params, opt Options) (*Result, error) {
	pool := newPool(opt.Threads)
	defer pool.close()

	b, err := newBooster(ctx, d, p, opt, pool)
	if err != nil {
		return nil, err
	}

	// The deadline ends growing, but not ctx. The workers of a team must all stop at the same tree, so there the leader
	// compares the time after each tree instead (report).
	growing, cancel := ctx, func() {}
	if !opt.Deadline.IsZero() && d.Team == nil {
		growing, cancel = context.WithDeadline(ctx, opt.Deadline)
	}
	defer cancel()

	for b.stopped == "" {
		// Offer the state before this round to the caller.
		state := b.checkpoint()
		if err := ctx.Err(); err != nil {
			return nil, b.abandoned(ctx, state, err)
		}
		if err := b.saveCheckpoint(state); err != nil {
			return nil, err
		}

		err := growing.Err()
		if err == nil {
			err = b.growRound(growing)
		}

		// A limit ends the training with the trees so far; any other error ends it without a model. While growing has
		// not ended, growing.Err() is nil, which no error is. In a team growing is ctx, and ErrLimit comes from report.
		switch {
		case err == nil:
		case ctx.Err() == nil && (errors.Is(err, ErrLimit) || errors.Is(err, growing.Err())):
			if len(b.trees) == 0 {
				return nil, ErrLimit
			}
			b.stopped = StopLimit
		default:
			return nil, b.abandoned(ctx, state, err)
		}
	}

	return b.result(), nil
}

// output is one raw score per row and the objective whose gradients it is learnt from: a model of several classes has
// one output for each class, any other model has a single one.
type output struct {
	obj      objective
	bias     float64   // the initial constant; it is added to the leaf values of the first tree
	raw      []float64 // [rows of data] current raw scores; undefined for rows that are not in use
	validRaw []float64 // [rows of valid] the same of the held-out rows; nil without them
}

// checkArguments checks everything that a caller can get wrong, before memory for all rows is allocated. It sets the
// fields of b that follow from the arguments alone: the data with its link to the team, the held-out rows, the
// parameters for this table and the objectives.
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

	// Connect to the team, in a copy of the caller's Data.
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
	objs, err := newObjectives(&b.p, d)
	if err != nil {
		return err
	}
	b.outputs = make([]output, len(objs))
	for k, obj := range objs {
		b.outputs[k].obj = obj
	}
	b.output = &b.outputs[0]
	if len(objs) > 1 && b.opt.Shift != 0 {
		return &ParamError{"shift", "scores of several classes have none"}
	}
	if b.opt.Input != nil {
		return b.opt.Input.check(d, b.obj)
	}
	return nil
}

// beginScores allocates the raw scores of all outputs and sets them to the output's initial constant, which is derived
// from the labels if fromAverage is true. It also allocates Eval's argument.
func (b *booster) beginScores(fromAverage bool) {
	for k := range b.outputs {
		o := &b.outputs[k]
		o.bias = o.obj.init(fromAverage)
		o.raw = slices.Repeat([]float64{o.bias}, b.data.Rows)
		if v := b.valid; v != nil {
			o.validRaw = slices.Repeat([]float64{o.bias}, v.Rows)
		}
		if c, ok := o.obj.(*class); ok {
			c.raw = append(c.raw, o.raw) // shared by all classes: a softmax needs the scores of each of them
		}
	}
	if v := b.valid; v != nil {
		b.evalRaw = make([]float64, len(b.outputs)*v.Used())
	}
}

// iterations is the number of trees of each output so far, without those of an input model.
func (b *booster) iterations() int { return len(b.trees) / len(b.outputs) }

// treesOf returns the trees of the k-th output. In trees, the outputs take turns: each round has one tree of each.
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

// addToValid adds the predictions of the current output's trees to the scores of the held-out rows, if there are any.
func (b *booster) addToValid(ctx context.Context, trees ...*Tree) {
	if v := b.valid; v != nil {
		addPredictions(ctx, trees, v.Columns, v.rows(), b.validRaw, b.walks)
	}
}

// metric is Eval's result after the last tree; NaN without Eval. In a team, the leader alone calls Eval, and all
// workers get its result.
func (b *booster) metric() (float64, error) {
	if b.opt.Eval == nil || b.opt.Valid == nil {
		return math.NaN(), nil
	}
	return b.data.link.askLeader(b.computeMetric)
}

// computeMetric calls Options.Eval with the scores of the used rows of valid.
func (b *booster) computeMetric() (float64, error) {
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

// report calls Options.OnTree for the last round, which began at start. In a team it returns ErrLimit once the deadline
// has passed; without a team, Train's context watches the time.
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
	p     Params // as in the model file; the grower has its own, scaled by Data.Copies (forCopies)
	opt   Options
	data  *Data
	pool  *pool
	walks walks

	*output           // the one of outputs whose tree is being grown
	outputs []output  // one, or one for each class
	valid   *Data     // opt.Valid on the leader of a team, which evaluates; nil on its other workers
	evalRaw []float64 // [used rows of valid x outputs] Eval's argument, reused from tree to tree
	trees   []*Tree   // one of each output per round, in the outputs' order; without an input model's
	started time.Time

	progress
	grow    *grower
	stopped Stop // why the training is over; empty while it goes on

	gh  []uint32 // [rows of data] gradient and hessian in the current packing; undefined for rows not in use
	bag int      // the current tree learns from the first bag rows of grow.order

	names, infos []string // of the features, as in the model file

	run     run           // identifies this training in its checkpoints; zero if none are written or resumed
	before  time.Duration // training time of the resumed trees
	resumed int           // number of resumed trees
}

// newBooster checks the arguments and the checkpoint to resume, allocates memory for all rows, and computes the raw
// scores before the first new tree: from the initial constant, from an input model or from the checkpoint's trees. The
// booster uses pool, which the caller closes.
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

	// Check the checkpoint before allocating memory for all rows. In a team, newRun hashes the rows of all workers.
	if opt.Checkpoint != nil || opt.Resume != nil {
		b.run = newRun(b.data, b.p, opt)
		if err := b.data.link.firstErr(); err != nil {
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
			b.outputs[k].bias = 0 // the input model's first tree already contains its initial constant
		}
	}
	b.Bias = b.bias // for checkpoints

	if err := b.continueInput(ctx); err != nil {
		return nil, err
	}
	if opt.Resume != nil {
		if err := b.resume(ctx, opt.Resume); err != nil {
			return nil, err
		}
	}
	return b, b.data.link.firstErr()
}

// growRound grows one tree for each output, adds them to the raw scores, evaluates the model and sets b.stopped if the
// training is to end. A round in which no output finds a split adds no tree. On an error, raw scores and trees may be
// those of different rounds, and the booster cannot be used any more.
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

	// No split was found. If rows or features are sampled, a later round may find one with other samples. But give up
	// if they are not, if too many rounds in a row had none, or if the last round is over and no tree has ever been
	// grown. (Without samples rounds differ only in how gradients are rounded and, with rank_xendcg, in its random
	// numbers. LightGBM's program gives up then, too.)
	if !splits {
		b.checkStop()
		b.RoundsWithoutSplit++
		alwaysSame := !b.sampled()
		tooMany := b.RoundsWithoutSplit >= maxRoundsWithoutSplit
		neverSplit := b.stopped != "" && len(b.trees) == 0
		if alwaysSame || tooMany || neverSplit {
			b.stopped = StopNoSplit
		}
		return nil
	}

	// Every round has a tree of each class: a class without a split gets a constant one, which adds 0.
	b.RoundsWithoutSplit = 0
	for k, t := range grown {
		if t == nil {
			grown[k] = constantTree(0)
			if len(b.trees) == 0 { // the first tree of each output contains its initial constant
				grown[k] = constantTree(b.outputs[k].bias)
			}
		}
	}
	b.trees = append(b.trees, grown...)
	return b.evaluate(start)
}

// growTree grows a tree for the current output, which is the k-th, and adds it to the output's raw scores. It returns
// nil if no split is found.
func (b *booster) growTree(ctx context.Context, round, k int) (*Tree, error) {
	tree := round*len(b.outputs) + k // numbers the random choices

	// Gradients at the current raw scores, for the rows that this tree learns from.
	b.drawRows(round)
	pack := b.obj.prepare(tree, b.raw, b.grow.order, b.pool)
	b.fillGradients(newKey(b.p.Seed, forRounding, tree).from(b.data.firstRow()))

	t, err := b.grow.grow(ctx, tree, b.bag, b.gh, pack)
	if err != nil || t == nil {
		return nil, err
	}
	if !t.finite() {
		return nil, fmt.Errorf("%w at tree %d: a leaf's value is not finite; use a smaller learning_rate or more "+
			"lambda_l2", errDiverged, len(b.trees)+k+1)
	}

	// Some objectives replace the leaf values. In a team that needs the other workers; after an error the values are
	// undefined.
	b.obj.renew(b.grow, t, b.raw)
	if err := b.data.link.firstErr(); err != nil {
		return nil, err
	}
	b.addValues(context.WithoutCancel(ctx), t) // never leave raw scores partly updated

	// Add the initial constant to the first tree, so that the trees alone sum up to a raw score. The raw scores already
	// have it; only the held-out ones still lack the shift.
	if len(b.trees) == 0 {
		t.addBias(b.bias)
		if shift := b.firstTreeShift(); shift != 0 {
			for r := range b.validRaw {
				b.validRaw[r] += shift
			}
		}
	}
	return t, nil
}

// fillGradients computes the packed gradients of the bag's rows, rounded with the random numbers of k. Unless the bag
// is small it computes those of all rows: neighbouring rows together take less time than scattered ones by themselves.
func (b *booster) fillGradients(k key) {
	rows := rowSet{n: len(b.gh)}
	if !fillsAll(b.bag, len(b.gh)) {
		rows.subset = b.grow.order[:b.bag]
	}
	b.pool.parallel(rows.len(), grain, func(_, lo, hi int) { b.obj.fill(b.gh, b.raw, rows, lo, hi, k) })
}

// fillsAll reports whether to compute the gradients of all rows of the table although only bag of them are needed. The
// choice affects only speed.
func fillsAll(bag, rows int) bool {
	// About how many neighbouring rows are filled in the time of one by itself.
	together := 2
	if hasVectors() {
		together = 8
	}
	return bag >= rows/together
}

// addValues adds the values of the tree just grown to the raw scores of all rows in use and of the held-out rows. The
// grower knows the leaves of the bag's rows, the first b.bag of grow.order. All other rows are sent down the tree.
func (b *booster) addValues(ctx context.Context, t *Tree) {
	b.grow.addLeafValues(b.raw)
	if notInBag := b.grow.order[b.bag:]; len(notInBag) > 0 {
		addPredictions(ctx, []*Tree{t}, b.data.Columns, rowSet{subset: notInBag}, b.raw, b.walks)
	}
	b.addToValid(ctx, t)
}

// drawRows fills the grower's order with the rows in use and sets b.bag: the bag of this round comes first, then the
// rows that are not drawn, each part ascending.
func (b *booster) drawRows(round int) {
	rows := b.data.rows()
	b.pool.parallel(rows.len(), grain, func(_, lo, hi int) { rows.copy(b.grow.order[lo:hi], lo) })
	b.bag = drawBag(&b.p, round, b.grow.order, b.grow.spare, b.data.link)
}

// evaluate computes the metric after a round that began at start, remembers the best one, reports the round to
// Options.OnTree, and sets b.stopped if the training is to end.
func (b *booster) evaluate(start time.Time) error {
	metric, err := b.metric()
	if err != nil {
		return err
	}
	if b.opt.Eval != nil && b.improves(metric) {
		b.Best, b.BestIn, b.BestMetric = b.iterations(), b.Round, metric
	}
	// In a team only the leader reports; an error of OnTree ends the training of all.
	if _, err := b.data.link.askLeader(func() (float64, error) {
		return 0, b.report(metric, b.Best, start)
	}); err != nil {
		return err
	}
	b.checkStop()
	return nil
}
