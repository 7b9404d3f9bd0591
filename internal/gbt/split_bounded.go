package gbt

import "math"

// How path_smooth and monotone_constraints change the scoring of splits. With them, a leaf's value does not follow from
// its sums alone, and the gain is the reduction of the loss at that value.

// leastSmooth is the largest path_smooth that has no effect, as in LightGBM: weights must stay finite.
const leastSmooth = 1e-15

// childOutput is the value of a child of the target's leaf.
func (s *splitScorer) childOutput(x sums, l2 float64, t *splitTarget) float64 {
	return t.limited(s.output(x, l2), x.h)
}

// limited applies path_smooth and monotone bounds to an output of rows with this hessian: it is drawn towards the
// leaf's own value, the more the fewer the rows, and kept within the bounds set by monotone splits above.
func (t *splitTarget) limited(output, h float64) float64 {
	if t.weight > 0 {
		output = smoothed(output, float64(h*t.weight), t.out)
	}
	if output < t.low {
		return t.low
	}
	if output > t.high {
		return t.high
	}
	return output
}

// smoothed is the mean of an output and its parent's, which has weight 1. The conversions prevent fused operations, as
// everywhere.
func smoothed(output, weight, parent float64) float64 {
	return (float64(output*weight) + parent) / (weight + 1)
}

// gainAt is gain at a given output.
func (s *splitScorer) gainAt(x sums, l2, output float64) float64 {
	return -(float64(2*s.soft(x.g)*output) + float64(float64((x.h+l2)*output)*output))
}

// sides is the gain of both children together, or -Inf if their values violate the direction.
func (s *splitScorer) sides(left, right sums, l2 float64, t *splitTarget) float64 {
	if s.plain {
		return s.gain(left, l2) + s.gain(right, l2)
	}
	a, b := s.childOutput(left, l2, t), s.childOutput(right, l2, t)
	if t.direction > 0 && a > b || t.direction < 0 && a < b {
		return math.Inf(-1)
	}
	return s.gainAt(left, l2, a) + s.gainAt(right, l2, b)
}

// target returns the splitTarget of a leaf in the tree. As in LightGBM, a smoothed leaf is compared with its loss
// reduction at its own value; for numerical features that value is smoothed towards itself once more.
func (s *splitScorer) target(l *leaf) splitTarget {
	t := s.sumsTarget(l.sums, l.n)
	if s.plain {
		return t
	}

	t.out = l.out
	t.low = l.low
	t.high = l.high

	if s.smooth > 0 {
		t.weight = t.perH / s.smooth
		t.catMinGain = s.gainAt(l.sums, s.l2, l.out) + s.leastGain()
		own := smoothed(s.output(l.sums, s.l2), float64(l.n)/s.smooth, l.out)
		t.minGain = s.gainAt(l.sums, s.l2, own) + s.leastGain()
	}

	return t
}

// inherit sets the children's values and bounds: below a split on a monotone feature, neither side may go beyond the
// middle of the two values (LightGBM's basic method).
func (s *splitScorer) inherit(l, left, right *leaf) {
	t := s.target(l)
	left.out = s.childOutput(left.sums, left.l2, &t)
	right.out = s.childOutput(right.sums, right.l2, &t)
	left.low, left.high = l.low, l.high
	right.low, right.high = l.low, l.high

	// For a feature with a direction, the middle keeps the descendants of both sides in order.
	middle := (left.out + right.out) / 2
	switch direction := s.direction(l.best.feature); {
	case direction > 0:
		left.high = min(left.high, middle)
		right.low = max(right.low, middle)
	case direction < 0:
		left.low = max(left.low, middle)
		right.high = min(right.high, middle)
	}
}

func (s *splitScorer) direction(feature int) int8 {
	if s.directions == nil {
		return 0
	}
	return s.directions[feature]
}
