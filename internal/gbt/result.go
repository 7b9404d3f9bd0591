package gbt

import "slices"

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

// average returns a forest: the mean of the trees, written as a sum.
func (b *booster) average() *Result {
	kept := b.trees
	if b.p.EarlyStoppingRound > 0 && b.Best > 0 {
		kept = kept[:b.Best*len(b.outputs)]
	}
	rounds := len(kept) / len(b.outputs)
	parts := make([]*Tree, len(kept))
	for i, t := range kept {
		parts[i] = t.dividedBy(float64(rounds))
	}
	m := &Model{Objective: b.obj.String(), Trees: b.shifted(parts), FeatureNames: b.names, FeatureInfos: b.infos,
		Params: b.p.lines(b.data.Features)}
	return &Result{Model: m, Grown: b.iterations(), Best: rounds, Metric: b.BestMetric, Stopped: b.stopped,
		Resumed: b.resumed, Took: b.elapsed()}
}

func (b *booster) result() *Result {
	if len(b.trees) == 0 && b.opt.Input == nil {
		for k := range b.outputs {
			b.trees = append(b.trees, constantTree(b.outputs[k].bias))
		}
	}
	if b.p.Boosting == averagedTrees {
		return b.average()
	}
	m := &Model{Objective: b.obj.String(), Trees: b.shifted(b.trees), FeatureNames: b.names,
		FeatureInfos: b.infos, Params: b.p.lines(b.data.Features)}
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
