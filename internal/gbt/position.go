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
	link       *link
	learns     bool // next is not yet made
}

// newPositions returns those of all, a team's worker's own rows with guests behind them.
func newPositions(p *Params, d, all *Data) (*positions, error) {
	switch {
	case p.PositionBiasRegularization != 0 && d.Position == nil:
		return nil, &ParamError{positionBias, "the table does not say at which place a row was shown; name the " +
			"column with position: COLUMN"}
	case d.Position == nil || p.Objective == xendcg:
		return nil, nil
	}
	most := 0.0
	for r, place := range d.Position {
		if !(place >= 0 && place <= maxPosition) || place != float32(int(place)) {
			return nil, fmt.Errorf("%w: position %v in row %d; places are whole numbers from 0 to %d", ErrData, place,
				d.first()+uint64(r), maxPosition)
		}
		most = max(most, float64(place))
	}
	d.link.most(&most)
	n := int(most) + 1
	return &positions{of: all.Position, rate: p.LearningRate, regularise: p.PositionBiasRegularization, tree: -1,
		factor: make([]float64, n), next: make([]float64, n), link: d.link}, nil
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

// learn makes the next factors from a tree's first gradients of all rows in use, added up in the order of rows; in a
// team, in turn.
func (o *positions) learn(rows []uint32, g, h []float64) {
	if o == nil || !o.learns {
		return
	}
	o.learns = false
	sums := make([]float64, 3*len(o.factor))     // by place, of g, h and 1
	_ = o.link.floatsInTurn(sums, func() error { // the link keeps its error
		for _, r := range rows {
			s := sums[3*int(o.of[r]):][:3]
			s[0], s[1], s[2] = s[0]+g[r], s[1]+h[r], s[2]+1
		}
		return nil
	})
	const least = 0.001 // LightGBM's bound on the hessian
	for place := range o.factor {
		s := sums[3*place:][:3]
		pull := float64(float64(o.factor[place]*o.regularise) * s[2]) // by itself: arm64 would fuse it
		slope := -s[0] - pull
		curve := s[1] + float64(o.regularise*s[2])
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
