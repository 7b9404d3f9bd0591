package gbt

import (
	"math"
	"slices"
)

// shifted returns the trees of an output with Options.Shift added to the first one, which is copied. The booster's own
// trees do not contain the shift, because a resumed training recomputes the scores of the training rows from them.
func (b *booster) shifted(trees []*Tree) []*Tree {
	if b.firstTreeShift() == 0 || len(trees) == 0 {
		return trees
	}

	// A shallow copy whose values do not share memory with the original.
	first := *trees[0]
	first.LeafValue = slices.Clone(first.LeafValue)
	first.InternalValue = slices.Clone(first.InternalValue)

	first.addBias(b.opt.Shift)
	return append([]*Tree{&first}, trees[1:]...)
}

// result builds the finished model. The trees of an input model come first. With early stopping, trees after the best
// one are left out.
func (b *booster) result() *Result {
	// Without any split the model is a constant.
	if len(b.trees) == 0 && b.opt.Input == nil {
		for k := range b.outputs {
			b.trees = append(b.trees, constantTree(b.outputs[k].bias))
		}
	}
	m := &Model{Objective: b.obj.String(), Trees: b.shifted(b.trees), FeatureNames: b.names,
		FeatureInfos: b.infos, Params: b.p.parameterLines(b.data.Features)}
	if in := b.opt.Input; in != nil {
		m.Trees = slices.Concat(in.Trees, b.trees)
		m.Params = append(m.Params, in.paramLine())
	}

	r := &Result{Model: m, Grown: b.iterations(), Best: m.Iterations(), Metric: b.BestMetric, Stopped: b.stopped,
		Resumed: b.resumed, Took: b.elapsed()}
	if b.p.EarlyStoppingRound > 0 && b.Best > 0 {
		r.Best = b.iterationsBefore() + b.Best
		r.Model = m.truncated(r.Best)
	}
	return r
}

// checkStop sets b.stopped if this was the last of num_iterations rounds, or if the best metric is
// early_stopping_round rounds old.
func (b *booster) checkStop() {
	switch {
	case b.p.EarlyStoppingRound > 0 && b.Round-b.BestIn >= b.p.EarlyStoppingRound:
		b.stopped = StopEarly
	case b.Round >= b.p.NumIterations:
		b.stopped = StopIterations
	}
}

// maxRoundsWithoutSplit is how many rounds without a split in a row end the training. Each of them costs a pass over
// the rows. Ending too early is rare: if one feature of forty is useful and a tenth of them is drawn per tree, a
// hundred trees in a row miss it with probability 0.9^100, in one of 38,000 trainings.
const maxRoundsWithoutSplit = 100

// sampled reports whether rounds draw different rows or features, so that a round with a split may follow one without.
func (b *booster) sampled() bool {
	return len(b.grow.usableFeatures) > 0 && b.p.draws()
}

// improves reports whether a metric beats the best by more than early_stopping_min_delta. The first metric always does.
func (b *booster) improves(metric float64) bool {
	switch {
	case math.IsNaN(b.BestMetric):
		return true
	case b.opt.Maximize:
		return metric > b.BestMetric+b.p.EarlyStoppingDelta
	}
	return metric < b.BestMetric-b.p.EarlyStoppingDelta
}
