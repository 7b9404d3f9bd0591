package gbt

import (
	"math"
)

// How the reference trainer handles leaf values that do not follow from sums alone, drawn thresholds, and features that
// must not be combined.

// limited reports whether leaves have values of their own.
func (r *reference) limited() bool {
	return r.p.PathSmooth > leastSmooth || r.p.MonotoneConstraints != ""
}

// smooth is the mean of w, with weight n/path_smooth, and of the parent's value.
func (r *reference) smooth(w, weight, parent float64) float64 {
	if r.p.PathSmooth <= leastSmooth {
		return w
	}
	return (float64(w*weight) + parent) / (weight + 1)
}

// lossTaken is twice a value's reduction of the loss.
func (r *reference) lossTaken(s wide, l2, w float64) float64 {
	return -(float64(2*r.thresholded(s)*w) + float64(float64((float64(s.h)+l2)*w)*w))
}

// direction is the monotone_constraints entry of a feature.
func (r *reference) direction(f int) int {
	if all := r.p.MonotoneConstraints.among(r.d.Features); all != nil {
		return int(all[f])
	}
	return 0
}

// child is the value of one side of a split.
func (q *splitSearch) child(s wide, l2 float64) float64 {
	w := q.smooth(q.output(s, l2), float64(s.h)*(q.perH/q.p.PathSmooth), q.leaf.out)
	switch { // of zeros, min and max would choose by the sign
	case w < q.leaf.low:
		return q.leaf.low
	case w > q.leaf.high:
		return q.leaf.high
	}
	return w
}

// limit adjusts the unsplit gain of a leaf that has a value of its own.
func (q *splitSearch) limit() {
	if q.p.PathSmooth <= leastSmooth {
		return
	}
	w := q.leaf.out
	if !q.feature.Categorical {
		w = q.smooth(q.output(q.leaf.sum, q.l2()), float64(len(q.leaf.rows))/q.p.PathSmooth, w)
	}
	q.unsplit = q.lossTaken(q.leaf.sum, q.l2(), w) + q.p.MinGainToSplit/(q.pack.g1*q.pack.g1/q.pack.h1)
}

// allowedLimited is allowed for children with values of their own.
func (q *splitSearch) allowedLimited(left wide, l2 float64) (gain float64, ok bool) {
	right := q.total.except(left)
	a, b := q.child(left, l2), q.child(right, l2)
	if d := float64(q.direction(q.number)); d*a > d*b {
		return 0, false
	}
	return q.lossTaken(left, l2, a) + q.lossTaken(right, l2, b), true
}

// bound sets the children's values and bounds.
func (r *reference) bound(parent, left, right *refLeaf) {
	q := r.splitSearch(parent, parent.best.feature)
	left.out, right.out = q.child(left.sum, left.l2), q.child(right.sum, right.l2)
	left.low, left.high, right.low, right.high = parent.low, parent.high, parent.low, parent.high
	middle := (left.out + right.out) / 2
	switch r.direction(parent.best.feature) {
	case 1:
		left.high, right.low = math.Min(left.high, middle), math.Max(right.low, middle)
	case -1:
		left.low, right.high = math.Max(left.low, middle), math.Min(right.high, middle)
	}
}

// random returns one of n numbers, for this feature at this node.
func (q *splitSearch) random(n int) int {
	k := newKey(q.p.Seed, forThresholds, q.round)
	return pick(key(k.at(uint64(q.leaf.node()))).at(uint64(q.number)), n)
}

// oneThreshold is numerical with a single drawn threshold.
func (q *splitSearch) oneThreshold() refSplit {
	values, group := q.feature.valueBins(), q.groups[q.number]
	var ends []int // the last left bins of all thresholds
	for b := range values - 1 {
		if group == nil || group[b] != group[b+1] {
			ends = append(ends, b)
		}
	}
	if ends == nil {
		ends = []int{values - 1}
	}
	last := ends[q.random(len(ends))]
	var present, missing wide
	for b := range last + 1 {
		present = present.and(q.bins[b])
	}
	if q.feature.Missing >= 0 {
		missing = q.bins[q.feature.Missing]
	}
	best := refSplit{}
	gain, left := q.unsplit, present
	for _, missingLeft := range []bool{false, true} {
		sum := present
		if missingLeft {
			sum = sum.and(missing)
		}
		if v, ok := q.allowed(sum, q.l2()); ok && v > gain {
			gain, left = v, sum
			best = refSplit{gain: v - q.unsplit, last: last, missing: missingLeft, l2: q.l2()}
		}
	}
	if best.gain == 0 {
		return refSplit{}
	}
	if missing == (wide{}) {
		best.missing = float64(2*left.h) >= float64(q.total.h)
	}
	for b := range last + 1 {
		best.left[b] = true
	}
	if best.missing && q.feature.Missing >= 0 {
		best.left[q.feature.Missing] = true
	}
	return best
}
