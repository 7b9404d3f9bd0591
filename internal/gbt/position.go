package gbt

import (
	"fmt"
	"math"
	"slices"
)

// maxPosition is the highest place at which a row can have been shown.
const maxPosition = 1<<16 - 1

// positions learn how much a place by itself adds to what people take from it, together with a ranking's trees
// (LightGBM's unbiased lambdarank, src/objective/rank_objective.hpp): lambdas are those at the scores of rows with the
// factors of their places, and after each tree's a factor takes a Newton step of its own. No factor gets into a tree.
type positions struct {
	of         []float32 // by row
	rate       float64   // learning_rate
	regularise float64   // per row of a place
	tree       int       // the one with whose lambdas next was made; -1 before
	factor     []float64 // by place, at that tree
	next       []float64 // after it
	learns     bool      // next is not yet made
}

func newPositions(p *Params, d *Data) (*positions, error) {
	switch {
	case p.PositionBiasRegularization != 0 && d.Position == nil:
		return nil, &ParamError{positionBias, "the table does not say at which place a row was shown; name the " +
			"column with position: COLUMN"}
	case d.Position == nil || p.Objective == xendcg:
		return nil, nil
	}
	most := 0
	for r, place := range d.Position {
		if !(place >= 0 && place <= maxPosition) || place != float32(int(place)) {
			return nil, fmt.Errorf("%w: position %v in row %d; places are whole numbers from 0 to %d", ErrData, place,
				r, maxPosition)
		}
		most = max(most, int(place))
	}
	return &positions{of: d.Position, rate: p.LearningRate, regularise: p.PositionBiasRegularization, tree: -1,
		factor: make([]float64, most+1), next: make([]float64, most+1)}, nil
}

// begin makes the factors those of a tree. For goss, two rankings share them, and both prepare each tree.
func (o *positions) begin(tree int) {
	if o != nil && tree != o.tree {
		o.tree, o.learns = tree, true
		copy(o.factor, o.next)
	}
}

// add adds the factors of rows' places to their scores.
func (o *positions) add(score []float64, rows []uint32) {
	if o == nil {
		return
	}
	for i, r := range rows {
		score[i] += o.factor[int(o.of[r])]
	}
}

// learn makes the next factors from a tree's first gradients of all rows in use, added up in the order of rows.
func (o *positions) learn(rows []uint32, g, h []float64) {
	if o == nil || !o.learns {
		return
	}
	o.learns = false
	sum := make([]struct{ g, h, rows float64 }, len(o.factor))
	for _, r := range rows {
		s := &sum[int(o.of[r])]
		s.g, s.h, s.rows = s.g+g[r], s.h+h[r], s.rows+1
	}
	const least = 0.001 // LightGBM's bound on the hessian
	for place, s := range sum {
		pull := float64(float64(o.factor[place]*o.regularise) * s.rows) // by itself: arm64 would fuse it
		slope := -s.g - pull
		curve := s.h + float64(o.regularise*s.rows)
		o.next[place] = o.factor[place] + float64(o.rate*slope)/(math.Abs(curve)+least)
	}
}

// learnt returns a copy of the factors after the last tree; nil without positions.
func (o *positions) learnt() []float64 {
	if o == nil {
		return nil
	}
	return slices.Clone(o.next)
}

// positionsOf returns those of an objective; nil if it has none.
func positionsOf(obj objective) *positions {
	if o, ok := obj.(*ranking); ok {
		return o.positions
	}
	return nil
}

// resume sets the factors to those of a checkpoint.
func (o *positions) resume(factors []float64) error {
	if o == nil && factors == nil {
		return nil
	}
	if o == nil || len(factors) != len(o.next) {
		return &MismatchError{"its positions differ"}
	}
	copy(o.next, factors)
	return nil
}
