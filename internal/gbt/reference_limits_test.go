package gbt

// How the reference trainer draws thresholds.

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
