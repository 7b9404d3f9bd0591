package gbt

import (
	"math"
	"slices"
)

// shifted returns the trees with Options.Shift added to the first. The booster's own trees do not have it, since the
// training rows' scores are rebuilt from them on resuming.
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

// result is the finished model: an input model's trees come first, and early stopping leaves none after the best.
func (b *booster) result() *Result {
	if len(b.trees) == 0 && b.opt.Input == nil {
		for k := range b.outputs {
			b.trees = append(b.trees, constantTree(b.outputs[k].bias))
		}
	}
	m := &Model{Objective: b.obj.String(), Trees: b.shifted(b.trees), FeatureNames: b.names,
		FeatureInfos: b.infos, Params: b.p.parameterLines(b.data.Features)}
	if in := b.opt.Input; in != nil {
		m.Trees = slices.Concat(in.Trees, b.trees)
		m.Params = append(m.Params, in.line())
	}

	r := &Result{Model: m, Grown: b.iterations(), Best: m.Iterations(), Metric: b.BestMetric, Stopped: b.stopped,
		Resumed: b.resumed, Took: b.elapsed()}
	if b.p.EarlyStoppingRound > 0 && b.Best > 0 {
		r.Best = b.iterationsBefore() + b.Best
		r.Model = m.truncated(r.Best)
	}
	return r
}

// decide ends the training at the last round, or when early stopping applies.
func (b *booster) decide() {
	switch {
	case b.p.EarlyStoppingRound > 0 && b.Round-b.BestIn >= b.p.EarlyStoppingRound:
		b.stopped = StopEarly
	case b.Round >= b.p.NumIterations:
		b.stopped = StopIterations
	}
}

// maxRoundsWithoutSplit bounds the consecutive rounds without a split. With one useful feature of forty, of which a
// tenth is drawn, one in 38,000 trainings ends too early. Each of these rounds costs a pass over the rows.
const maxRoundsWithoutSplit = 100

// sampled reports whether rounds differ, so that one with a split may follow one without.
func (b *booster) sampled() bool {
	return len(b.grow.usableFeatures) > 0 && b.p.draws()
}

// improvedTo reports whether a metric beats the best by more than early_stopping_min_delta; the first always does.
func (b *booster) improvedTo(s float64) bool {
	switch {
	case math.IsNaN(b.BestMetric):
		return true
	case b.opt.Maximize:
		return s > b.BestMetric+b.p.EarlyStoppingDelta
	}
	return s < b.BestMetric-b.p.EarlyStoppingDelta
}
