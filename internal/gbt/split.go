package gbt

import "math"

// sums is the sum of gradients and the sum of hessians of a set of rows, in units of the packing.
type sums struct{ g, h float64 }

func (s sums) plus(o sums) sums  { return sums{s.g + o.g, s.h + o.h} }
func (s sums) minus(o sums) sums { return sums{s.g - o.g, s.h - o.h} }

// split is one way to split a leaf.
type split struct {
	gain    float64 // beyond splitTarget.minGain, in units of the splitScorer; 0 or less is no split
	feature int
	left    binSet  // the bins that go left, the missing one included
	at      int     // numerical: the last bin of present values that goes left
	missing bool    // numerical: missing values go left
	sums    sums    // of the left rows
	l2      float64 // the L2 penalty of both children's values
}

// betterThan reports whether s is to be chosen rather than o: it has more gain or, if the gains are equal, the lower
// feature.
func (s *split) betterThan(o *split) bool {
	return s.gain > o.gain || s.gain == o.gain && s.feature < o.feature
}

// splitScorer scores the splits of one tree. All numbers are in units of the packing, so that scoring a bin needs no
// scaling: a gain is in units of g1*g1/h1, and an output, which is a leaf's value before shrinkage, in units of g1/h1.
type splitScorer struct {
	p      *Params
	pack   packing
	l1, l2 float64
	catL2  float64
	clip   float64 // largest output; +Inf if unbounded
}

// newSplitScorer returns a splitScorer with the penalties and max_delta_step of p in units of the tree's packing.
func newSplitScorer(p *Params, pack packing) splitScorer {
	s := splitScorer{p: p, pack: pack, l1: p.LambdaL1 / pack.g1, l2: p.LambdaL2 / pack.h1, catL2: p.CatL2 / pack.h1,
		clip: inf}
	if p.MaxDeltaStep > 0 {
		s.clip = p.MaxDeltaStep * pack.h1 / pack.g1
	}
	return s
}

// gainUnit is the value of one unit of gain, and outputUnit of one unit of output.
func (s *splitScorer) gainUnit() float64   { return s.pack.g1 * s.pack.g1 / s.pack.h1 }
func (s *splitScorer) outputUnit() float64 { return s.pack.g1 / s.pack.h1 }

// leastGain is min_gain_to_split in units of gain.
func (s *splitScorer) leastGain() float64 { return s.p.MinGainToSplit / s.gainUnit() }

// softThreshold applies L1 regularisation to a sum of gradients: it moves it towards 0 by l1, but not beyond.
func (s *splitScorer) softThreshold(g float64) float64 {
	return math.Copysign(max(math.Abs(g)-s.l1, 0), g)
}

// output is the leaf value that minimises the loss's second-order approximation over rows with sums x: -G / (H + l2),
// within max_delta_step.
func (s *splitScorer) output(x sums, l2 float64) float64 {
	if x.h+l2 <= 0 {
		return 0
	}
	return max(min(-s.softThreshold(x.g)/(x.h+l2), s.clip), -s.clip)
}

// gain is twice what a leaf with sums x reduces the loss by: G^2 / (H + l2) if the output is not bounded.
func (s *splitScorer) gain(x sums, l2 float64) float64 {
	g := s.softThreshold(x.g)
	if s.clip == inf {
		return g * g / (x.h + l2)
	}
	o := s.output(x, l2)
	// The conversions keep the compiler from fusing operations, which would make models depend on the processor.
	return -(float64(2*g*o) + float64(float64((x.h+l2)*o)*o))
}

// childrenGain is the gain of both children of a split together.
func (s *splitScorer) childrenGain(left, right sums, l2 float64) float64 {
	return s.gain(left, l2) + s.gain(right, l2)
}

// splitTarget describes a leaf whose best split is wanted.
type splitTarget struct {
	total   sums    // of all rows of the leaf
	minGain float64 // what both children's gain must exceed: the gain of the unsplit leaf plus min_gain_to_split
	minH    float64 // smallest hessian of a child, from min_data_in_leaf and min_sum_hessian_in_leaf
	perH    float64 // rows per unit of hessian, from which a child's number of rows is estimated
	draw    key     // random numbers for extra_trees
}

// target returns the splitTarget of a leaf with these sums and this number of rows.
func (s *splitScorer) target(total sums, rows int) splitTarget {
	t := splitTarget{total: total}
	t.minGain = s.gain(total, s.l2) + s.leastGain()
	t.perH = float64(rows) / total.h

	// A histogram has no counts. Like LightGBM, estimate a child's number of rows from its hessian and round to
	// nearest, hence the 0.5. That is exact for squared error without weights, where the hessian is the count. The
	// smallest number above 0 keeps out children without any row.
	t.minH = max(s.p.MinSumHessian/s.pack.h1, (float64(s.p.MinDataInLeaf)-0.5)/t.perH, math.SmallestNonzeroFloat64)
	return t
}

// threshold is a division of a leaf's rows by a numerical feature: bins up to last are on the left, and from next on
// they are on the right. Bins between the two have no rows in this leaf.
type threshold struct {
	gain       float64 // of both children together
	last, next int     // next is -1 if only missing values are on the right
	left       sums    // of the left rows
	missing    bool    // missing values are on the left
}

// scoredFeature is a numerical feature whose splits are scored.
type scoredFeature struct {
	*Feature
	number int
	from   int     // index of its first bin in the histogram
	group  []uint8 // the coarse bin of each bin if max_bin is coarser than the data; else nil
}

// scoreThresholds scores every threshold of a feature in the leaf with histogram h, with the missing values on either
// side, and replaces best if one is better. scratch is memory.
func (s *splitScorer) scoreThresholds(h histogram, f scoredFeature, scratch *scan, t *splitTarget, best *split) {
	values := f.valueBins()
	var miss sums // of the rows whose value is missing
	if f.Missing >= 0 {
		miss = h.sums(f.from+f.Missing, s.pack)
	}

	// Only thresholds with a gain above goal are looked at: they have to beat the unsplit leaf and the best split so
	// far. The margin covers all rounding errors; whatever passes is compared exactly below.
	atLeast := t.minGain + best.gain
	margin := float64(roundings * (math.Abs(t.minGain) + best.gain))
	goal := max(t.minGain, atLeast-margin)

	// There are three ways to find the best threshold. Packed words are scanned as they are, which is the fastest, if
	// there is no L1 penalty, no bound on outputs and no coarser grid of bins.
	var found threshold
	var ok bool
	if s.p.ExtraTrees {
		found, ok = s.drawnThreshold(h, f, miss, t)
	} else if h.packed != nil && f.group == nil && s.l1 == 0 && s.clip == inf {
		found, ok = s.bestInWords(h.packed[f.from:f.from+values], miss, t, goal)
	} else {
		scratch.decode(h, f.from, values, s.pack)
		if f.group != nil {
			scratch.coarsen(f.group)
		}
		found, ok = s.bestInScan(scratch, miss, t, goal)
	}

	// Compare gains less minGain, as split.gain has them. Then the result does not depend on the order in which
	// features are scored, nor on the number of goroutines; adding minGain to best.gain could round differently.
	if !ok || found.gain-t.minGain <= best.gain {
		return
	}

	*best = s.splitAt(&found, miss, f.Feature, f.number, t)
}

// splitAt makes a split of a threshold of f, which has the number feature. miss are the sums of the leaf's rows whose
// value is missing.
func (s *splitScorer) splitAt(at *threshold, miss sums, f *Feature, feature int, t *splitTarget) split {
	made := split{gain: at.gain - t.minGain, feature: feature, sums: at.left, missing: at.missing, l2: s.l2}

	// If no row of the leaf shows where missing values should go, they go to the side with more hessian, or left if
	// both have the same.
	if miss == (sums{}) {
		made.missing = 2*at.left.h >= t.total.h
	}

	// Any bin in the empty gap between last and next divides these rows alike. The middle is the best guess for others.
	// Without a next bin, all present values go left.
	made.at = f.valueBins() - 1
	if at.next >= 0 {
		made.at = (at.last + at.next - 1) / 2
	}

	made.left.addUpTo(made.at)
	if made.missing && f.Missing >= 0 {
		made.left.add(f.Missing)
	}

	return made
}

// bestInWords returns the best threshold of a feature whose bins of present values are packed words; false if no gain
// exceeds goal. miss are the sums of the rows whose value is missing.
func (s *splitScorer) bestInWords(words []int64, miss sums, t *splitTarget, goal float64) (threshold, bool) {
	// First with the missing values on the right, where they are because the left sums do not have them.
	gain, at := s.bestWord(words, sums{}, t, goal)

	// Then with the missing values on the left, which has to beat the first result. (Their hessian alone may have been
	// rounded to 0, so both sums are compared.)
	missing := false
	if miss != (sums{}) {
		if g, i := s.bestWord(words, miss, t, gain); i >= 0 {
			gain, at = g, i
			missing = true
		}
	}

	if at < 0 {
		return threshold{}, false
	}

	// bestWord returns only the bin: add up the sums below it.
	found := threshold{gain: gain, last: at, next: at + 1, missing: missing}
	var sum int64
	for _, w := range words[:at+1] {
		sum += w
	}
	g, h := s.pack.sums(sum)
	found.left = sums{float64(g), float64(h)}
	if missing {
		found.left = found.left.plus(miss)
	}

	// Skip empty bins above the threshold.
	for found.next < len(words) && words[found.next] == 0 {
		found.next++
	}
	if found.next == len(words) {
		found.next = -1
	}

	return found, true
}

// scan is a feature's part of a leaf's histogram, decoded. It has an entry for each bin of present values that has
// rows, ascending. coarsen joins the entries of a coarse bin.
type scan struct {
	n     int             // number of entries
	first [byteBins]uint8 // lowest bin of entry i
	last  [byteBins]uint8 // highest bin of entry i
	below [byteBins]sums  // sums of entries 0..i
}

// bestInScan is bestInWords for a scan. Entries have rows, so there are no empty bins to skip above the threshold.
func (s *splitScorer) bestInScan(c *scan, miss sums, t *splitTarget, goal float64) (threshold, bool) {
	// First with the missing values on the right, then on the left.
	gain, at := s.bestThreshold(c.below[:c.n], sums{}, t, goal)
	missing := false
	if miss != (sums{}) {
		if g, i := s.bestThreshold(c.below[:c.n], miss, t, gain); i >= 0 {
			gain, at = g, i
			missing = true
		}
	}

	if at < 0 {
		return threshold{}, false
	}

	found := threshold{gain: gain, last: int(c.last[at]), next: -1, left: c.below[at], missing: missing}
	if missing {
		found.left = found.left.plus(miss)
	}
	if at < c.n-1 {
		found.next = int(c.first[at+1])
	}
	return found, true
}

// decode fills the scan from the bins from <= b < from+values of a histogram.
func (sc *scan) decode(h histogram, from, values int, pack packing) {
	if h.packed != nil {
		sc.decodePacked(h.packed[from:from+values], pack)
	} else {
		sc.decodeWide(h.wide[from : from+values])
	}
}

// coarsen joins consecutive entries that are in the same coarse bin, so that no threshold divides a coarse bin. coarse
// has the coarse bin of each bin.
func (sc *scan) coarsen(coarse []uint8) {
	n := 0
	for i := range sc.n {
		if n > 0 && coarse[sc.last[n-1]] == coarse[sc.first[i]] {
			sc.last[n-1], sc.below[n-1] = sc.last[i], sc.below[i]
			continue
		}

		sc.first[n], sc.last[n], sc.below[n] = sc.first[i], sc.last[i], sc.below[i]
		n++
	}

	sc.n = n
}
