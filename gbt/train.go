package gbt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Options are what a training run borrows; none of them changes the model but Shift, Input and, by stopping early, Valid, Eval
// and Maximize.
type Options struct {
	Threads int // goroutines; at least 1

	// Valid are held-out rows, scored after every tree, with the training data's features.
	Valid *Data
	// Eval scores raw scores of the used rows of Valid, in their order. It is called after every tree, from one goroutine,
	// and may keep nothing of its argument.
	Eval func(raw []float64) (float64, error)
	// Maximize says whether a higher score is better.
	Maximize bool

	// Shift is added to every raw score of the finished model, and to those that Eval gets; training rows are learnt from
	// without it. Where a negative row was kept with probability w, log(w) makes the log odds those of all rows. As with the
	// constant of boost_from_average, the first tree carries it.
	Shift float64

	// Input, when not nil, is a model that the training continues: scores begin at its, and its trees stand before the new ones
	// in the finished model. num_iterations, early_stopping_round and Progress are of new trees.
	Input *InputModel

	// OnTree is told about every tree. An error ends the training with that error.
	OnTree func(Progress) error

	// Checkpoint is shown the state before every tree, from the training's goroutine, and decides by itself when one is worth
	// keeping. It is shown the last one again when ctx has ended within a tree, before Train returns. An error ends the
	// training with that error.
	Checkpoint func(*Checkpoint) error
	// Resume, when not nil, is where to resume: the model is the one that a training that never stopped would have ended with.
	// A checkpoint of another run (parameters, data, Valid, Maximize or Identity) is refused with a *MismatchError.
	Resume *Checkpoint
	// Identity says in words what is not looked at to tell two runs apart: which table's bytes these are, what Eval measures.
	Identity string
}

// Progress is the state of a training run after a tree.
type Progress struct {
	Tree   int // 1, 2, 3 ...
	Leaves int
	Score  float64 // of Valid; NaN without Eval
	Best   int     // the tree with the best score so far, 0 without Eval
	Took   time.Duration
}

// Result is a finished training run.
type Result struct {
	Model *Model // up to the best tree, when stopping early was asked for
	Grown int    // trees grown in all, without an input model's
	Best  int    // trees in Model
	Score float64
	// Stopped says why no more trees were grown.
	Stopped Stop
	Resumed int           // trees that came out of Options.Resume
	Took    time.Duration // training, with what the resumed trees had taken before
}

// Stop is why training ended.
type Stop string

// The reasons for which training ends well.
const (
	StopIterations Stop = "num_iterations reached"
	StopEarly      Stop = "no improvement on valid"
	StopNoSplit    Stop = "no split improves the model"
)

// ErrDiverged is wrapped by the error of a training whose steps grow beyond what a number can hold.
var ErrDiverged = errors.New("the training diverges")

// Train grows a model on d. It ends early when ctx does, with ctx's error. The same data, parameters and ratings give the
// same model, bit for bit, whatever the number of threads.
func Train(ctx context.Context, d *Data, p Params, opt Options) (*Result, error) {
	pool := newPool(opt.Threads)
	defer pool.close()

	b, err := newBooster(ctx, d, p, opt, pool)
	if err != nil {
		return nil, err
	}

	for b.stopped == "" {
		at := b.checkpoint()
		if err := ctx.Err(); err != nil {
			return nil, b.abandoned(ctx, at, err)
		}
		if err := b.save(at); err != nil {
			return nil, err
		}
		if err := b.step(ctx); err != nil {
			return nil, b.abandoned(ctx, at, err)
		}
	}

	return b.result(), nil
}

// booster is a training run between two trees.
type booster struct {
	p     Params // as the model file has them; the grower's are for all copies of a row
	opt   Options
	data  *Data
	obj   objective
	grow  *grower
	pool  *pool
	walks walks

	bias       float64   // the constant that boosting starts from; the first tree carries it
	score      []float64 // of all rows of data
	validScore []float64 // of all rows of opt.Valid
	valid      []float64 // the used ones of them, for Eval
	gh         []uint32
	bag        int

	trees              []*Tree
	round              int // trees tried, which is what random choices are keyed by; a try in which nothing splits gives no tree
	roundsWithoutSplit int // rounds without a split, in a row
	best               int // trees of the best score
	bestIn             int // the round of the best score
	bestAt             float64
	stopped            Stop

	run     run // what its checkpoints belong to; empty where nobody wants any
	started time.Time
	before  time.Duration // what the resumed trees had taken
	resumed int           // trees
}

func newBooster(ctx context.Context, d *Data, p Params, opt Options, pool *pool) (*booster, error) {
	if err := d.check(true); err != nil {
		return nil, err
	}

	if v := opt.Valid; v != nil {
		if err := v.check(false); err != nil {
			return nil, fmt.Errorf("valid: %w", err)
		}
		if len(v.Features) != len(d.Features) {
			return nil, fmt.Errorf("%w: valid has %d features, train %d", ErrData, len(v.Features), len(d.Features))
		}
	}

	if (opt.Eval != nil) != (opt.Valid != nil) || p.EarlyStoppingRound > 0 && opt.Eval == nil {
		return nil, &ParamError{"early_stopping_round", "needs held-out rows and a metric"}
	}

	p, err := p.ForTable(d.Features)
	if err != nil {
		return nil, err
	}
	if p.RefitDecayRate != Defaults().RefitDecayRate {
		return nil, &ParamError{refitDecay, "only a refit uses it; leave it out"}
	}
	if opt.Shift-opt.Shift != 0 { // NaN or infinite
		return nil, &ParamError{"shift", fmt.Sprintf("%v cannot be added to scores", opt.Shift)}
	}

	obj, err := newObjective(&p, d)
	if err != nil {
		return nil, err
	}
	if opt.Input != nil {
		if err := opt.Input.check(d, obj); err != nil {
			return nil, err
		}
	}

	b := &booster{p: p, opt: opt, data: d, obj: obj, bestAt: math.NaN(), started: time.Now(), pool: pool, walks: newWalks(pool)}
	// Refuse another training's checkpoint before memory for all rows is asked for.
	if opt.Checkpoint != nil || opt.Resume != nil {
		b.run = newRun(d, p, opt)
	}
	if opt.Resume != nil {
		if err := opt.Resume.run.same(&b.run); err != nil {
			return nil, err
		}
	}

	// Rows are in the table once per copy, and what a leaf needs is meant per original row.
	perCopy := b.p.forCopies(d.Copies)
	b.grow = newGrower(&perCopy, d, pool)
	b.gh = make([]uint32, d.Rows)
	b.bias = obj.init(p.BoostFromAverage && opt.Input == nil)
	b.score = filled(d.Rows, b.bias)

	if opt.Valid != nil {
		b.validScore = filled(opt.Valid.Rows, b.bias)
		b.valid = make([]float64, opt.Valid.Used())
	}

	if err := b.begin(ctx); err != nil {
		return nil, err
	}
	if opt.Resume != nil {
		return b, b.resume(ctx, opt.Resume)
	}
	return b, nil
}

func filled(n int, x float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = x
	}
	return s
}

// step grows one tree, adds it to the scores, evaluates it and decides whether to go on. A tree that finds no split among its
// features and rows says nothing of the next one, which may draw others.
func (b *booster) step(ctx context.Context) error {
	start := time.Now()
	tree := b.treesBefore() + b.round
	b.round++

	// Gradients at the scores so far, of the rows that this tree learns from.
	b.drawRows(tree)
	pack := b.obj.prepare(b.score, b.grow.order, b.pool)
	k := newKey(b.p.Seed, forRounding, tree)
	b.pool.parallel(len(b.gh), grain, func(_, lo, hi int) { b.obj.fill(b.gh, b.score, lo, hi, k) })

	t, err := b.grow.grow(ctx, tree, b.bag, b.gh, pack)
	if err != nil {
		return err
	}

	// No split was found. With another bag or other features the next round may find one.
	if t == nil {
		b.decide()
		if b.roundsWithoutSplit++; !b.sampled() || b.roundsWithoutSplit >= maxRoundsWithoutSplit || b.stopped != "" && len(b.trees) == 0 {
			b.stopped = StopNoSplit
		}
		return nil
	}

	b.roundsWithoutSplit = 0
	if !t.finite() {
		return fmt.Errorf("%w at tree %d: a leaf's value is not finite; use a smaller learning_rate or more lambda_l2", ErrDiverged, len(b.trees)+1)
	}

	// Scores are a whole tree further, or not at all.
	whole := context.WithoutCancel(ctx)
	b.addValues(whole, t)
	if b.opt.Valid != nil {
		addScores(whole, []*Tree{t}, b.opt.Valid.Columns, b.opt.Valid.rows(), b.validScore, b.walks)
	}

	// The first tree takes the bias along, so that the trees alone sum up to a score.
	if len(b.trees) == 0 {
		t.addBias(b.bias)
		if shift := b.carried(); shift != 0 {
			for r := range b.validScore {
				b.validScore[r] += shift
			}
		}
	}

	b.trees = append(b.trees, t)
	return b.evaluate(t, start)
}

// addValues adds the tree's values to the scores of all rows in use. The bag's rows know their leaves, but lie in the order of
// the leaves, and a jump to one row's score costs about as much as sixty nodes cost per row when 64 neighbouring rows pass them
// at once. The other rows in use have to be routed anyway, which alone takes longer. Where few of the table's rows are in use,
// neighbours are few, too.
func (b *booster) addValues(ctx context.Context, t *Tree) {
	out := b.grow.order[b.bag:]
	byBlocks := float64(len(t.Feature)) * float64(b.data.Rows)
	apart := 60*b.grow.scattered()*float64(b.bag) + 2048*float64(len(out))
	if byBlocks <= apart && routable(t, b.data.Columns) {
		addScores(ctx, []*Tree{t}, b.data.Columns, b.data.rows(), b.score, b.walks)
		return
	}
	b.grow.addLeafValues(b.score)
	if len(out) > 0 {
		addScores(ctx, []*Tree{t}, b.data.Columns, rowSet{subset: out}, b.score, b.walks)
	}
}

// drawRows fills the grower's order with the rows in use, ascending, those in the bag first.
func (b *booster) drawRows(tree int) {
	rows := b.data.rows()
	b.pool.parallel(rows.len(), grain, func(_, lo, hi int) { rows.copy(b.grow.order[lo:hi], lo) })
	b.bag = drawBag(&b.p, tree, b.data.Label, b.grow.order, b.grow.spare)
}

func (b *booster) evaluate(t *Tree, start time.Time) error {
	n := len(b.trees)
	score := math.NaN()
	if b.opt.Eval != nil {
		valid := b.opt.Valid
		if valid.Subset == nil {
			copy(b.valid, b.validScore)
		} else {
			for i, r := range valid.Subset {
				b.valid[i] = b.validScore[r]
			}
		}

		s, err := b.opt.Eval(b.valid)
		if err != nil {
			return fmt.Errorf("evaluate tree %d: %w", n, err)
		}
		score = s
		if b.improved(s) {
			b.best = n
			b.bestIn = b.round
			b.bestAt = s
		}
	}

	if b.opt.OnTree != nil {
		if err := b.opt.OnTree(Progress{Tree: n, Leaves: t.Leaves(), Score: score, Best: b.best, Took: time.Since(start)}); err != nil {
			return err
		}
	}

	b.decide()
	return nil
}

// decide ends the training when its rounds or its patience are over.
func (b *booster) decide() {
	switch {
	case b.p.EarlyStoppingRound > 0 && b.round-b.bestIn >= b.p.EarlyStoppingRound:
		b.stopped = StopEarly
	case b.round >= b.p.NumIterations:
		b.stopped = StopIterations
	}
}

// maxRoundsWithoutSplit is how many rounds in a row may be without a split. One useful feature of forty, a tenth of them drawn: one time
// in 38,000 a training ends too early. Each of these rounds costs a pass over the rows.
const maxRoundsWithoutSplit = 100

// sampled says whether a round without a split may be followed by one with it.
func (b *booster) sampled() bool {
	return len(b.grow.usableFeatures) > 0 && b.p.draws()
}

func (b *booster) improved(s float64) bool {
	switch {
	case math.IsNaN(b.bestAt):
		return true
	case b.opt.Maximize:
		return s > b.bestAt+b.p.EarlyStoppingDelta
	}
	return s < b.bestAt-b.p.EarlyStoppingDelta
}

// shifted are the trees with Options.Shift, which the first one carries. Those that are kept and gone on from do not have it:
// training rows' scores are made of them.
func (b *booster) shifted(trees []*Tree) []*Tree {
	if b.carried() == 0 || len(trees) == 0 {
		return trees
	}

	first := *trees[0]
	first.LeafValue = slices.Clone(first.LeafValue)
	first.InternalValue = slices.Clone(first.InternalValue)

	first.addBias(b.opt.Shift)
	return append([]*Tree{&first}, trees[1:]...)
}

func (b *booster) result() *Result {
	if len(b.trees) == 0 && b.opt.Input == nil {
		b.trees = append(b.trees, constantTree(b.bias))
	}
	m := &Model{Objective: b.obj.String(), Trees: b.shifted(b.trees), Params: b.p.lines(b.data.Features)}
	if in := b.opt.Input; in != nil {
		m.Trees = slices.Concat(in.Trees, b.trees)
		m.Params = append(m.Params, in.line())
	}
	m.FeatureNames, m.FeatureInfos = describe(b.data.Features)

	r := &Result{Model: m, Grown: len(b.trees), Best: len(m.Trees), Score: b.bestAt, Stopped: b.stopped, Resumed: b.resumed, Took: b.elapsed()}
	if b.p.EarlyStoppingRound > 0 && b.best > 0 {
		r.Best = b.treesBefore() + b.best
		r.Model = m.truncated(r.Best)
	}
	return r
}
