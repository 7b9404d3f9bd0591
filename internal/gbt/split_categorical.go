package gbt

import (
	"cmp"
	"slices"
)

// category is one bin of a categorical feature in one leaf.
type category struct {
	bin   int
	sums  sums
	order float64 // what sortedSubset sorts by
}

// scoreCategorical scores splits of a categorical feature in the leaf with histogram h, and replaces best if one is
// better. The feature has this number of bins, which begin at from in the histogram; only the first leftBins of them
// may go left. buf is memory.
//
// If the feature has at most max_cat_to_onehot bins, each category is scored alone against the rest, or with
// extra_trees only one that is drawn. If it has more, as in LightGBM, categories are sorted by gradient over hessian:
// the best of all subsets is then the first so many from one end (Fisher, 1958).
func (s *splitScorer) scoreCategorical(h histogram, from, bins, leftBins int, t *splitTarget, feature int, best *split,
	buf []category) {
	// The categories that have rows in this leaf and may go left.
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

// oneAgainstRest scores the splits with one category on the left and all others on the right. A split with too small a
// child is skipped.
func (s *splitScorer) oneAgainstRest(all []category, t *splitTarget, feature int, best *split) {
	for _, c := range all {
		rest := t.total.minus(c.sums)
		if c.sums.h < t.minH || rest.h < t.minH {
			continue
		}
		if gain := s.childrenGain(c.sums, rest, s.l2) - t.minGain; gain > max(best.gain, 0) {
			*best = split{gain: gain, feature: feature, sums: c.sums, l2: s.l2}
			best.left.add(c.bin)
		}
	}
}

// sortedSubset sorts the categories by gradient over hessian, which is smoothed by cat_smooth, and scores those at
// either end as the left side. Categories with fewer than cat_smooth rows are left out, and go right. The elements of
// all are reordered.
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

// runFromEnd scores the first 1, 2, 3 ... of the sorted categories as the left side, up to half of them, rounded up, or
// max_cat_threshold, and replaces best if one is better. A number is skipped while the left side is too small for a
// child, or if it adds fewer than min_data_per_group rows to the last one that was scored: that would fit noise. The
// loop ends when the right side is too small for a child or has fewer than min_data_per_group rows. Numbers of rows are
// estimated from hessians and rounded to nearest, hence the 0.5.
func (s *splitScorer) runFromEnd(sorted []category, t *splitTarget, feature int, best *split) {
	l2 := s.l2 + s.catL2
	left := sums{}
	since := 0.0 // rows added since the last number that was scored
	longest := min(s.p.MaxCatThreshold, (len(sorted)+1)/2)

	drawn := -1 // with extra_trees, the only number of categories to score, less one
	if s.p.ExtraTrees {
		drawn = pick(t.draw.uniform(uint64(feature)), longest)
	}

	found := 0 // how many categories are on the left of best, if it was found here
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

		// Both sides are large enough, and so is the step.
		since = 0
		if s.p.ExtraTrees && i != drawn {
			continue
		}

		if gain := s.childrenGain(left, rest, l2) - t.minGain; gain > max(best.gain, 0) {
			*best = split{gain: gain, feature: feature, sums: left, l2: l2} // its categories are added at the end
			found = i + 1
		}
	}

	for _, c := range sorted[:found] {
		best.left.add(c.bin)
	}
}
