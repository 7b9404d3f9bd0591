package gbt

import (
	"fmt"
	"slices"
)

// Merge returns one model whose raw score is the mean of the models' raw scores: it has the trees of all of them, in
// order, with values divided by the number of models. The models must have the same objective and features. The result
// gets the parameter lines of the first model. The models are not changed.
func Merge(models []*Model) (*Model, error) {
	if len(models) == 0 {
		return nil, fmt.Errorf("%w: no model to merge", ErrData)
	}
	first := models[0]
	all := &Model{Objective: first.Objective, FeatureNames: first.FeatureNames, FeatureInfos: first.FeatureInfos,
		Params: first.Params}
	for i, m := range models {
		if m.Objective != first.Objective || !slices.Equal(m.FeatureNames, first.FeatureNames) ||
			!slices.Equal(m.FeatureInfos, first.FeatureInfos) {
			return nil, fmt.Errorf("%w: models 1 and %d of those to merge differ in their objective or features",
				ErrData, i+1)
		}
		for _, t := range m.Trees {
			all.Trees = append(all.Trees, t.dividedBy(float64(len(models))))
		}
	}
	return all, nil
}

// dividedBy returns a copy of the tree with its values and its shrinkage divided by n, as LightGBM shrinks a tree.
func (t *Tree) dividedBy(n float64) *Tree {
	divide := func(values []float64) []float64 {
		values = slices.Clone(values)
		for i := range values {
			values[i] /= n
		}
		return values
	}
	s := *t
	s.LeafValue, s.InternalValue, s.Shrinkage = divide(t.LeafValue), divide(t.InternalValue), t.Shrinkage/n
	return &s
}
