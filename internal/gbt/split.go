package gbt

import "math"

// sums are a set of rows' sums of gradients and hessians, in units of the packing.
type sums struct{ g, h float64 }

func (s sums) plus(o sums) sums  { return sums{s.g + o.g, s.h + o.h} }
func (s sums) minus(o sums) sums { return sums{s.g - o.g, s.h - o.h} }

// split is one way to split a leaf.
type split struct {
	gain    float64 // reduction of the loss, in units of the splitScorer; 0 or less is no split
	feature int
	left    binSet
	at      int  // numerical: the last bin of present values that goes left
	missing bool // numerical: missing values go left
	sums    sums // of the left rows
	l2      float64
}

// before reports whether s is chosen rather than o; of equal gains, the lowest feature.
func (s *split) before(o *split) bool {
	return s.gain > o.gain || s.gain == o.gain && s.feature < o.feature
}

// splitScorer scores the splits of one tree. Everything in it is in units of the packing, so that scoring a bin needs
// no scaling: gains in g1*g1/h1, outputs in g1/h1.
type splitScorer struct {
	p      *Params
	pack   packing
	l1, l2 float64
	catL2  float64
	clip   float64 // largest output; +Inf if unbounded
}

// newSplitScorer brings penalties and the bound on outputs into units of the tree's packing.
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

// soft is the soft threshold of L1 regularisation.
func (s *splitScorer) soft(g float64) float64 {
	return math.Copysign(max(math.Abs(g)-s.l1, 0), g)
}

// output is the leaf value that minimises the loss's second-order approximation: -G / (H + l2), bounded.
func (s *splitScorer) output(x sums, l2 float64) float64 {
	if x.h+l2 <= 0 {
		return 0
	}
	return max(min(-s.soft(x.g)/(x.h+l2), s.clip), -s.clip)
}

// gain is twice a leaf's reduction of the loss: G^2 / (H + l2) if the output is not bounded.
func (s *splitScorer) gain(x sums, l2 float64) float64 {
	g := s.soft(x.g)
	if s.clip == inf {
		return g * g / (x.h + l2)
	}
	o := s.output(x, l2)
	// The conversions keep the compiler from fusing operations, which would make models depend on the processor.
	return -(float64(2*g*o) + float64(float64((x.h+l2)*o)*o))
}

// sides is the gain of both children together.
func (s *splitScorer) sides(left, right sums, l2 float64) float64 {
	return s.gain(left, l2) + s.gain(right, l2)
}

// splitTarget describes a leaf whose best split is wanted.
type splitTarget struct {
	total   sums
	minGain float64 // gain that a split must exceed: the unsplit leaf's plus min_gain_to_split
	minH    float64 // smallest hessian of a child, from min_data_in_leaf and min_sum_hessian_in_leaf
	perH    float64 // rows per unit of hessian
	draw    key     // random numbers for extra_trees
}

// target returns the splitTarget of a leaf.
func (s *splitScorer) target(total sums, rows int) splitTarget {
	t := splitTarget{total: total}
	t.minGain = s.gain(total, s.l2) + s.leastGain()
	t.perH = float64(rows) / total.h
	// LightGBM estimates a child's number of rows from its hessian, which the histogram has, and rounds to nearest;
	// this is exact for squared error without weights, where the hessian is the count.
	t.minH = max(s.p.MinSumHessian/s.pack.h1, (float64(s.p.MinDataInLeaf)-0.5)/t.perH, math.SmallestNonzeroFloat64)
	return t
}

// threshold is the best division of a numerical feature: between the bins last and next, both of which have rows.
type threshold struct {
	gain       float64 // of both sides together
	last, next int     // next is -1 if only missing values are on the right
	left       sums
	missing    bool // missing values are on the left
}

// scoredFeature is a numerical feature of a histogram.
type scoredFeature struct {
	*Feature
	number int
	from   int     // the histogram's index of its first bin
	group  []uint8 // the coarse bin of each bin if max_bin is coarser than the data; else nil
}

// scoreThresholds scores every threshold of a feature, with the missing values on either side, and updates best.
func (s *splitScorer) scoreThresholds(h histogram, f scoredFeature, bins *scan, t *splitTarget, best *split) {
	values := f.valueBins()
	var miss sums
	if f.Missing >= 0 {
		miss = h.sums(f.from+f.Missing, s.pack)
	}

	// A threshold has to beat the unsplit leaf and other features' best. The margin covers all roundings: what is
	// within it of the best is compared exactly below.
	atLeast := t.minGain + best.gain
	margin := float64(roundings * (math.Abs(t.minGain) + best.gain))
	goal := max(t.minGain, atLeast-margin)

	// Packed words can be scanned directly if only the plain gain counts.
	var found threshold
	var ok bool
	if s.p.ExtraTrees {
		found, ok = s.drawnThreshold(h, f, miss, t)
	} else if h.packed != nil && f.group == nil && s.l1 == 0 && s.clip == inf {
		found, ok = s.amongWords(h.packed[f.from:f.from+values], miss, t, goal)
	} else {
		bins.decode(h, f.from, values, s.pack)
		if f.group != nil {
			bins.coarsen(f.group)
		}
		found, ok = s.amongEntries(bins, miss, t, goal)
	}

	// Features are compared by their net gains, so that their order and the number of goroutines cannot matter: adding
	// minGain back to best's gain could round differently.
	if !ok || found.gain-t.minGain <= best.gain {
		return
	}

	*best = s.splitAt(&found, miss, f.Feature, f.number, t)
}

// splitAt builds the split at a threshold of a feature. miss are the sums of missing values.
func (s *splitScorer) splitAt(at *threshold, miss sums, f *Feature, feature int, t *splitTarget) split {
	made := split{gain: at.gain - t.minGain, feature: feature, sums: at.left, missing: at.missing, l2: s.l2}
	if miss == (sums{}) { // no training row shows where missing values should go: with the heavier side
		made.missing = 2*at.left.h >= t.total.h
	}

	made.at = f.valueBins() - 1
	if at.next >= 0 { // any bin in the empty gap divides these rows alike; its middle is the best guess for other rows
		made.at = (at.last + at.next - 1) / 2
	}

	made.left.addUpTo(made.at)
	if made.missing && f.Missing >= 0 {
		made.left.add(f.Missing)
	}

	return made
}

// amongWords finds the best threshold in a packed histogram.
func (s *splitScorer) amongWords(words []int64, miss sums, t *splitTarget, goal float64) (threshold, bool) {
	gain, at := s.bestWord(words, sums{}, t, goal)

	// Try again with the missing values on the left, which has to beat the first result.
	missing := false
	if miss != (sums{}) { // a hessian may round to 0 when the gradient does not
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

// scan is one feature's histogram of one leaf, decoded: running sums over its non-empty bins.
type scan struct {
	n     int             // entries in use
	first [byteBins]uint8 // lowest bin of entry i
	last  [byteBins]uint8 // highest bin of entry i
	below [byteBins]sums  // sums of entries 0..i
}

// amongEntries finds the best threshold in a scan.
func (s *splitScorer) amongEntries(c *scan, miss sums, t *splitTarget, goal float64) (threshold, bool) {
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

// decode fills the scan from the histogram's bins of present values, which begin at from.
func (sc *scan) decode(h histogram, from, values int, pack packing) {
	if h.packed != nil {
		sc.decodePacked(h.packed[from:from+values], pack)
	} else {
		sc.decodeWide(h.wide[from : from+values])
	}
}

// coarsen joins entries that are in the same coarse bin: a coarser grid of thresholds than the data's.
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
