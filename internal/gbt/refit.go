package gbt

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// StopRefit is the Stop of a refit.
const StopRefit Stop = "all trees refitted"

// refitRows is the size of the blocks in which rows are summed before the blocks are added up; it is fixed, so that
// sums do not depend on the number of threads.
const refitRows = 1 << 15

// Refit keeps the splits of Options.Input and renews its leaf values on d, one tree after the other: each leaf keeps
// refit_decay_rate of its old value, and the rest is what training here would have given it. It is LightGBM's refit
// with boost_from_average off. With it on, the first tree starts from the constant that a training here would start
// from.
//
// Checkpoints are neither written nor used, and at its Deadline there is no model: the trees that are left would have
// the values that were to be renewed. The same data, parameters and model give the same bytes for any number of
// threads.
func Refit(ctx context.Context, d *Data, p Params, opt Options) (*Result, error) {
	pool := newPool(opt.Threads)
	defer pool.close()

	r, err := newRefit(d, p, opt, pool)
	if err != nil {
		return nil, err
	}

	for _, t := range opt.Input.Trees {
		start := time.Now()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !opt.Deadline.IsZero() && !start.Before(opt.Deadline) {
			return nil, ErrLimit
		}

		r.obj.prepare(len(r.trees), r.raw, nil, r.pool)
		renewed := r.renew(t)
		if !renewed.finite() {
			return nil, fmt.Errorf("%w at tree %d: a leaf's value is not finite; use more lambda_l2", errDiverged,
				len(r.trees)+1)
		}
		r.add(renewed)
		var err error
		if r.last, err = r.metric(); err != nil {
			return nil, err
		}
		if err := r.report(r.last, len(r.trees), start); err != nil {
			return nil, err
		}
	}
	return r.result(), nil
}

// refit is the state of Refit between two trees. Scores of data and trees are without Options.Shift.
type refit struct {
	scored
	last    float64 // Eval's last result
	scratch [][2][]uint32
}

func newRefit(d *Data, p Params, opt Options, pool *pool) (*refit, error) {
	if p.PathSmooth > 0 {
		return nil, &ParamError{pathSmooth, "a refit does not smooth; leave it out"}
	}
	if o := findObjective(p.Objective); o != nil && o.renews {
		return nil, &ParamError{"objective", fmt.Sprintf("a refit renews leaves by gradients, and those of %s are "+
			"quantiles of their rows; train again or continue the model", o.name)}
	}
	if p.Boosting != gbdt {
		return nil, &ParamError{boosting, fmt.Sprintf("a refit renews one tree after the other, as gbdt; %s does not",
			p.Boosting)}
	}
	if opt.Input == nil {
		return nil, inputErrorf("a refit needs one")
	}
	if d.Team != nil {
		return nil, &ParamError{refitDecay, "a refit is made by one worker alone"}
	}
	s, err := newScored(d, p, opt, pool)
	if err != nil {
		return nil, err
	}
	if len(s.outputs) > 1 {
		return nil, &ParamError{"objective", fmt.Sprintf("a refit renews models of one output, and %s has one for "+
			"each class; train again or continue the model", s.p.Objective)}
	}

	r := &refit{scored: s, last: math.NaN(), scratch: make([][2][]uint32, pool.size)}
	r.begin(s.p.BoostFromAverage)
	for i := range r.validRaw {
		r.validRaw[i] = opt.Shift
	}
	return r, nil
}

// leafSums holds the gradients and hessians of a leaf's rows.
type leafSums struct{ g, h float64 }

// renew returns the tree with renewed leaf values, mixed by refit_decay_rate.
func (r *refit) renew(t *Tree) *Tree {
	out := *t
	out.LeafValue = slices.Clone(t.LeafValue)
	first := len(r.trees) == 0

	for leaf, s := range r.sums(t) {
		was := t.LeafValue[leaf]
		is := float64(r.output(s) * t.Shrinkage)
		if first { // which carries the constant
			was -= r.opt.Shift
			is += r.bias
		}
		out.LeafValue[leaf] = float64(r.p.RefitDecayRate*was) + float64((1-r.p.RefitDecayRate)*is)
	}
	return &out
}

// sums returns the sums of each leaf. Blocks of rows are summed separately, then in order.
func (r *refit) sums(t *Tree) []leafSums {
	rows := r.data.rows()
	chunks := make([][]leafSums, (rows.len()+refitRows-1)/refitRows)

	r.pool.parallel(len(chunks), 1, func(worker, lo, hi int) {
		use := &r.scratch[worker]
		for b := lo; b < hi; b++ {
			from := b * refitRows
			n := min(refitRows, rows.len()-from)
			use[0], use[1] = resized(use[0], n), resized(use[1], n)
			rows.copy(use[0], from)

			sums := make([]leafSums, t.Leaves())
			t.route(r.data.Columns, use[0], use[1], func(leaf int, part []uint32) { r.addGradients(&sums[leaf], part) })
			chunks[b] = sums
		}
	})

	total := make([]leafSums, t.Leaves())
	for _, sums := range chunks {
		for leaf, s := range sums {
			total[leaf].g += s.g
			total[leaf].h += s.h
		}
	}
	return total
}

// addGradients adds up the rows of a leaf. Each is first rounded to single precision, as in LightGBM.
func (r *refit) addGradients(s *leafSums, rows []uint32) {
	for _, row := range rows {
		g, h := r.obj.at(row, r.raw[row])
		s.g += float64(float32(g))
		s.h += float64(float32(h))
	}
}

// output is a leaf's value before shrinkage.
func (r *refit) output(s leafSums) float64 {
	const epsilon = 1e-15 // LightGBM's, for a leaf without rows
	g := math.Copysign(max(math.Abs(s.g)-r.p.LambdaL1, 0), s.g)
	out := -g / (s.h + epsilon + r.p.LambdaL2)
	if most := r.p.MaxDeltaStep; most > 0 {
		out = min(max(out, -most), most)
	}
	return out
}

// add adds a renewed tree to the raw scores.
func (r *refit) add(t *Tree) {
	whole := context.Background() // never leave raw scores partly updated
	if len(r.trees) == 0 {
		clear(r.raw) // the tree carries the constant that they began with
	}
	r.trees = append(r.trees, t)
	addPredictions(whole, []*Tree{t}, r.data.Columns, r.data.rows(), r.raw, r.walks)
	r.addToValid(whole, t)
}

func (r *refit) result() *Result {
	in := r.opt.Input
	m := &Model{Objective: in.Objective, FeatureNames: in.FeatureNames, FeatureInfos: in.FeatureInfos, Trees: r.trees,
		Params: append(r.p.lines(r.data.Features), in.line(), "[task: refit]")}
	if r.opt.Shift != 0 {
		first := *m.Trees[0]
		first.LeafValue = slices.Clone(first.LeafValue)
		for leaf := range first.LeafValue {
			first.LeafValue[leaf] += r.opt.Shift
		}
		m.Trees[0] = &first
	}
	return &Result{Model: m, Grown: len(m.Trees), Best: len(m.Trees), Metric: r.last, Stopped: StopRefit,
		Took: time.Since(r.started)}
}
