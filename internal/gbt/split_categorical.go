package gbt

import (
	"cmp"
	"slices"
)

// category is one bin of a categorical feature in one leaf.
type category struct {
	bin   int
	sums  sums
	order float64 // sort key
}

// scoreCategorical scores splits of an unordered feature and updates best. With few categories, each against the rest,
// or with extra_trees one that is drawn. With many, as in LightGBM and after Fisher (1958): sorted by gradient over
// hessian, the best of all subsets is a run from either end. leftBins is the number of bins that may go left (for a
// coarser max_bin).
func (s *splitScorer) scoreCategorical(h histogram, from, bins, leftBins int, t *splitTarget, feature int, best *split,
	buf []category) {
	all := buf[:0]

	for b := range bins {
		if x := h.sums(from+b, s.pack); x.h > 0 && b < leftBins {
			all = append(all, category{bin: b, sums: x})
		}
	}

	if bins <= s.p.MaxCatToOnehot {
		if s.p.ExtraTrees {
			drawn := pick(t.draw.uniform(uint64(feature)), leftBins)
			all = slices.DeleteFunc(all, func(c category) bool { return c.bin != drawn })
		}
		s.oneAgainstRest(all, t, feature, best)
	} else {
		s.sortedSubset(all, t, feature, best)
	}
}

// oneAgainstRest scores each category alone on the left, unless either side is too small.
func (s *splitScorer) oneAgainstRest(all []category, t *splitTarget, feature int, best *split) {
	for _, c := range all {
		rest := t.total.minus(c.sums)
		if c.sums.h < t.minH || rest.h < t.minH {
			continue
		}
		if gain := s.sides(c.sums, rest, s.l2) - t.minGain; gain > max(best.gain, 0) {
			*best = split{gain: gain, feature: feature, sums: c.sums, l2: s.l2}
			best.left.add(c.bin)
		}
	}
}

// sortedSubset scores runs from either end of the categories, sorted by gradient, that have cat_smooth rows or more.
func (s *splitScorer) sortedSubset(all []category, t *splitTarget, feature int, best *split) {
	smooth := s.p.CatSmooth / s.pack.h1
	sorted := slices.DeleteFunc(all, func(c category) bool { return float64(c.sums.h*t.perH)+0.5 < s.p.CatSmooth })
	for i := range sorted {
		sorted[i].order = sorted[i].sums.g / (sorted[i].sums.h + smooth)
	}
	slices.SortFunc(sorted, func(a, b category) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.bin, b.bin))
	})
	s.runFromEnd(sorted, t, feature, best)
	slices.Reverse(sorted)
	s.runFromEnd(sorted, t, feature, best)
}

// runFromEnd scores the first 1, 2, 3 ... categories as the left side. It skips steps that add fewer than
// min_data_per_group rows, which would fit noise.
func (s *splitScorer) runFromEnd(sorted []category, t *splitTarget, feature int, best *split) {
	l2 := s.l2 + s.catL2
	left := sums{}
	since := 0.0
	longest := min(s.p.MaxCatThreshold, (len(sorted)+1)/2)

	drawn := -1 // the run length that extra_trees tries
	if s.p.ExtraTrees {
		drawn = pick(t.draw.uniform(uint64(feature)), longest)
	}

	found := 0
	for i := range longest {
		left = left.plus(sorted[i].sums)
		since += float64(sorted[i].sums.h * t.perH)
		rest := t.total.minus(left)

		if left.h < t.minH {
			continue
		}
		if rest.h < t.minH || float64(rest.h*t.perH)+0.5 < float64(s.p.MinDataPerGroup) {
			break
		}
		if since+0.5 < float64(s.p.MinDataPerGroup) {
			continue
		}

		// Enough rows since the last length tried.
		since = 0
		if s.p.ExtraTrees && i != drawn {
			continue
		}

		if gain := s.sides(left, rest, l2) - t.minGain; gain > max(best.gain, 0) {
			*best = split{gain: gain, feature: feature, sums: left, l2: l2}
			found = i + 1
		}
	}

	if found > 0 {
		for _, c := range sorted[:found] {
			best.left.add(c.bin)
		}
	}
}
