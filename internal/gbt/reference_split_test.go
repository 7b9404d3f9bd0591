package gbt

import (
	"cmp"
	"math"
	"slices"
)

func (r *reference) bestSplit(l *refLeaf) refSplit {
	best := refSplit{}
	if len(l.rows) < max(2*r.p.MinDataInLeaf, 2) || r.p.MaxDepth > 0 && l.depth >= r.p.MaxDepth || l.sum.h == 0 {
		return best
	}
	for _, f := range nodeFeatures(r.p, r.round, l.node(), r.features) {
		q := r.splitSearch(l, f)
		var found refSplit
		switch {
		case !r.d.Features[f].Categorical && r.p.ExtraTrees:
			found = q.oneThreshold()
		case !r.d.Features[f].Categorical:
			found = q.numerical()
		case r.d.Features[f].Bins <= r.p.MaxCatToOnehot:
			found = q.oneAgainstRest()
		default:
			found = q.sortedSubset()
		}
		if found.gain > best.gain {
			best = found
			best.feature = f
		}
	}
	return best
}

// splitSearch is the search for the best split of a leaf on one feature.
type splitSearch struct {
	*reference
	leaf    *refLeaf
	feature *Feature
	number  int
	total   wide
	bins    [byteBins]wide
	unsplit float64 // gain that a split must exceed
	leastH  float64 // least hessian on both sides
	perH    float64 // rows per unit of hessian
}

func (r *reference) splitSearch(l *refLeaf, f int) *splitSearch {
	q := &splitSearch{reference: r, leaf: l, feature: &r.d.Features[f], number: f, total: l.sum}
	for _, row := range l.rows {
		b := &q.bins[r.d.Columns[f][row]]
		b.g, b.h = b.g+r.gh[row].g, b.h+r.gh[row].h
	}
	q.unsplit = r.gain(l.sum, r.l2()) + r.p.MinGainToSplit/(r.pack.g1*r.pack.g1/r.pack.h1)
	q.perH = float64(len(l.rows)) / float64(l.sum.h)
	q.leastH = max(r.p.MinSumHessian/r.pack.h1, (float64(r.p.MinDataInLeaf)-0.5)/q.perH, math.SmallestNonzeroFloat64)
	return q
}

func (a wide) and(b wide) wide    { return wide{a.g + b.g, a.h + b.h} }
func (a wide) except(b wide) wide { return wide{a.g - b.g, a.h - b.h} }

// allowed is the gain of both sides together; not ok if a side is too small.
func (q *splitSearch) allowed(left wide, l2 float64) (gain float64, ok bool) {
	right := q.total.except(left)
	if float64(left.h) < q.leastH || float64(right.h) < q.leastH {
		return 0, false
	}
	return q.gain(left, l2) + q.gain(right, l2), true
}

// stretch is a run of bins that no threshold separates.
type stretch struct {
	first, last int
	sum         wide
}

// stretches returns the non-empty bins of present values, joined if max_bin is coarser.
func (q *splitSearch) stretches() []stretch {
	var all []stretch
	group := q.groups[q.number]
	for b, s := range q.bins[:q.feature.valueBins()] {
		n := len(all) - 1
		switch {
		case s == wide{}:
		case n >= 0 && group != nil && group[all[n].last] == group[b]:
			all[n].last, all[n].sum = b, all[n].sum.and(s)
		default:
			all = append(all, stretch{b, b, s})
		}
	}
	return all
}

// numerical tries every threshold with missing values on the right, then every one with them on the left. On a tie the
// first wins.
func (q *splitSearch) numerical() refSplit {
	var missing wide
	if q.feature.Missing >= 0 {
		missing = q.bins[q.feature.Missing]
	}
	all := q.stretches()
	values := q.feature.valueBins()
	best, gain, left := refSplit{}, q.unsplit, wide{}
	for _, missingLeft := range []bool{false, true} {
		if missingLeft && missing == (wide{}) {
			break
		}
		var sum wide
		if missingLeft {
			sum = missing
		}
		for i, s := range all {
			sum = sum.and(s.sum)
			if i == len(all)-1 && (missingLeft || missing == wide{}) {
				break // nothing is left for the right side
			}
			v, ok := q.allowed(sum, q.l2())
			if !ok || v <= gain {
				continue
			}
			gain, left = v, sum
			best = refSplit{gain: v - q.unsplit, last: values - 1, missing: missingLeft, l2: q.l2()}
			if i < len(all)-1 {
				best.last = (s.last + all[i+1].first - 1) / 2
			}
		}
	}
	if best.gain == 0 {
		return refSplit{}
	}
	if missing == (wide{}) {
		best.missing = float64(2*left.h) >= float64(q.total.h)
	}
	for b := range best.last + 1 {
		best.left[b] = true
	}
	if best.missing && q.feature.Missing >= 0 {
		best.left[q.feature.Missing] = true
	}
	return best
}

// present returns the categories in the leaf that may go left.
func (q *splitSearch) present() []int {
	var all []int
	for b := range q.usable[q.number] {
		if q.bins[b].h > 0 {
			all = append(all, b)
		}
	}
	return all
}

func (q *splitSearch) oneAgainstRest() refSplit {
	best, drawn := refSplit{}, -1
	if q.p.ExtraTrees {
		drawn = q.random(q.usable[q.number])
	}
	for _, b := range q.present() {
		if drawn >= 0 && b != drawn {
			continue
		}
		if v, ok := q.allowed(q.bins[b], q.l2()); ok && v-q.unsplit > best.gain {
			best = refSplit{gain: v - q.unsplit, l2: q.l2()}
			best.left[b] = true
		}
	}
	return best
}

// rows is the estimated number of rows behind a sum of hessians.
func (q *splitSearch) rows(s wide) float64 { return float64(float64(s.h) * q.perH) }

// sortedSubset sorts categories by gradient over hessian and tries those from either end.
func (q *splitSearch) sortedSubset() refSplit {
	var sorted []int
	for _, b := range q.present() {
		if q.rows(q.bins[b])+0.5 >= q.p.CatSmooth {
			sorted = append(sorted, b)
		}
	}
	ratio := func(b int) float64 {
		return float64(q.bins[b].g) / (float64(q.bins[b].h) + q.p.CatSmooth/q.pack.h1)
	}
	slices.SortFunc(sorted, func(a, b int) int { return cmp.Or(cmp.Compare(ratio(a), ratio(b)), a-b) })
	best := refSplit{}
	for range 2 {
		q.fromOneEnd(sorted, &best)
		slices.Reverse(sorted)
	}
	return best
}

func (q *splitSearch) fromOneEnd(sorted []int, best *refSplit) {
	group := float64(q.p.MinDataPerGroup)
	var left wide
	since := 0.0
	longest := min(q.p.MaxCatThreshold, (len(sorted)+1)/2)
	for i := range longest {
		left = left.and(q.bins[sorted[i]])
		since += q.rows(q.bins[sorted[i]])
		right := q.total.except(left)
		if float64(left.h) < q.leastH {
			continue
		}
		if float64(right.h) < q.leastH || q.rows(right)+0.5 < group {
			return
		}
		if since+0.5 < group {
			continue
		}
		since = 0
		if q.p.ExtraTrees && i != q.random(longest) {
			continue
		}
		if v, ok := q.allowed(left, q.catL2()); ok && v-q.unsplit > best.gain {
			*best = refSplit{gain: v - q.unsplit, l2: q.catL2()}
			for _, b := range sorted[:i+1] {
				best.left[b] = true
			}
		}
	}
}

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
