package gbt

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// StopRefit is how a refit ends.
const StopRefit Stop = "all trees refitted"

// refitRows is how many rows' sums are added up before they are added to those of the rows before: fixed, so that sums do not
// depend on the number of threads.
const refitRows = 1 << 15

// Refit keeps the splits of Options.Input and renews the values of its leaves on d: of each, refit_decay_rate stays, and the rest is
// what the leaf would have been given here, one tree after the other. It is LightGBM's refit where boost_from_average is off. Where it
// is on, the first tree begins at the constant that a training here would begin at.
//
// Checkpoints are neither left nor used. The same data, parameters and model give the same bytes for any number of threads.
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

		renewed := r.renew(t)
		if !renewed.finite() {
			return nil, fmt.Errorf("%w at tree %d: a leaf's value is not finite; use more lambda_l2", ErrDiverged, len(r.trees)+1)
		}
		r.add(renewed)
		if err := r.rate(renewed, start); err != nil {
			return nil, err
		}
	}
	return r.result(), nil
}

// refit is a run of Refit between two trees.
type refit struct {
	p       Params
	opt     Options
	data    *Data
	obj     objective
	pool    *pool
	walks   walks
	started time.Time

	bias       float64
	score      []float64 // of all rows of data, without Options.Shift
	validScore []float64
	trees      []*Tree // without Options.Shift
	valid      float64 // the last rating
	scratch    [][2][]uint32
}

func newRefit(d *Data, p Params, opt Options, pool *pool) (*refit, error) {
	if err := d.check(true); err != nil {
		return nil, err
	}
	p, err := p.ForTable(d.Features)
	if err != nil {
		return nil, err
	}
	if p.PathSmooth > 0 {
		return nil, &ParamError{pathSmooth, "a refit does not smooth; leave it out"}
	}
	obj, err := newObjective(&p, d)
	if err != nil {
		return nil, err
	}
	if opt.Input == nil {
		return nil, inputErrorf("a refit needs one")
	}
	if err := opt.Input.check(d, obj); err != nil {
		return nil, err
	}

	r := &refit{p: p, opt: opt, data: d, obj: obj, pool: pool, walks: newWalks(pool), started: time.Now(), valid: math.NaN(),
		bias: obj.init(p.BoostFromAverage), scratch: make([][2][]uint32, pool.size)}
	r.score = filled(d.Rows, r.bias)
	if v := opt.Valid; v != nil {
		if err := v.check(false); err != nil {
			return nil, fmt.Errorf("valid: %w", err)
		}
		r.validScore = filled(v.Rows, opt.Shift)
	}
	return r, nil
}

// leafSums are the gradients and hessians of a leaf's rows.
type leafSums struct{ g, h float64 }

// renew is the tree with the values that its leaves have here, as far as refit_decay_rate lets them.
func (r *refit) renew(t *Tree) *Tree {
	out := *t
	out.LeafValue = slices.Clone(t.LeafValue)
	first := len(r.trees) == 0

	for leaf, s := range r.sums(t) {
		was := t.LeafValue[leaf]
		is := r.output(s) * t.Shrinkage
		if first { // which carries the constant
			was -= r.opt.Shift
			is += r.bias
		}
		out.LeafValue[leaf] = float64(r.p.RefitDecayRate*was) + float64((1-r.p.RefitDecayRate)*is)
	}
	return &out
}

// sums are those of each leaf. Blocks of rows are added up by themselves, then in their order.
func (r *refit) sums(t *Tree) []leafSums {
	rows := r.data.rows()
	blocks := make([][]leafSums, (rows.len()+refitRows-1)/refitRows)

	r.pool.parallel(len(blocks), 1, func(worker, lo, hi int) {
		use := &r.scratch[worker]
		for b := lo; b < hi; b++ {
			from := b * refitRows
			n := min(refitRows, rows.len()-from)
			use[0], use[1] = resized(use[0], n), resized(use[1], n)
			rows.copy(use[0], from)

			sums := make([]leafSums, t.Leaves())
			t.route(r.data.Columns, use[0], use[1], func(leaf int, part []uint32) { r.addGradients(&sums[leaf], part) })
			blocks[b] = sums
		}
	})

	total := make([]leafSums, t.Leaves())
	for _, sums := range blocks {
		for leaf, s := range sums {
			total[leaf].g += s.g
			total[leaf].h += s.h
		}
	}
	return total
}

// addGradients adds up the rows of a leaf. Each is rounded to single precision first, as LightGBM keeps them.
func (r *refit) addGradients(s *leafSums, rows []uint32) {
	b, _ := r.obj.(*binary)
	for _, row := range rows {
		y, w := float64(r.data.Label[row]), 1.0
		if r.data.Weight != nil {
			w = float64(r.data.Weight[row])
		}

		g, h := r.score[row]-y, 1.0
		if b != nil {
			p := Probability(r.score[row])
			g, h = p-y, float64(p*(1-p))
			w *= b.weight[int(y)]
		}
		s.g += float64(float32(float64(g * w)))
		s.h += float64(float32(float64(h * w)))
	}
}

// output is a leaf's value before shrinking.
func (r *refit) output(s leafSums) float64 {
	const epsilon = 1e-15 // LightGBM's, of a leaf without rows
	g := math.Copysign(max(math.Abs(s.g)-r.p.LambdaL1, 0), s.g)
	out := -g / (s.h + epsilon + r.p.LambdaL2)
	if most := r.p.MaxDeltaStep; most > 0 {
		out = min(max(out, -most), most)
	}
	return out
}

// add puts a renewed tree into the scores.
func (r *refit) add(t *Tree) {
	whole := context.Background() // scores are a whole tree further, or not at all
	if len(r.trees) == 0 {
		clear(r.score) // the tree carries what they began at
	}
	r.trees = append(r.trees, t)
	addScores(whole, []*Tree{t}, r.data.Columns, r.data.rows(), r.score, r.walks)
	if v := r.opt.Valid; v != nil {
		addScores(whole, []*Tree{t}, v.Columns, v.rows(), r.validScore, r.walks)
	}
}

func (r *refit) rate(t *Tree, start time.Time) error {
	n := len(r.trees)
	if v := r.opt.Valid; v != nil && r.opt.Eval != nil {
		raw := make([]float64, v.Used())
		copy(raw, r.validScore)
		for i, row := range v.Subset {
			raw[i] = r.validScore[row]
		}
		score, err := r.opt.Eval(raw)
		if err != nil {
			return fmt.Errorf("evaluate tree %d: %w", n, err)
		}
		r.valid = score
	}

	if r.opt.OnTree == nil {
		return nil
	}
	return r.opt.OnTree(Progress{Tree: n, Leaves: t.Leaves(), Score: r.valid, Best: n, Took: time.Since(start)})
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
	return &Result{Model: m, Grown: len(m.Trees), Best: len(m.Trees), Score: r.valid, Stopped: StopRefit, Took: time.Since(r.started)}
}
