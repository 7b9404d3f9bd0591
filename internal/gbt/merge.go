package gbt

import (
	"fmt"
	"slices"
)

// Merge returns one model whose raw score is the mean of the models' scores: the trees of all of them, in order, with
// scaled values. The models predict the same objective from the same features; the parameters in the file are the first
// one's. Merging again gives the same bytes.
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

// dividedBy returns the tree with its values divided by n, as LightGBM shrinks one.
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
