package gbt

import "math/bits"

// With extra_trees each feature tries one threshold or set of categories, drawn at random (Geurts et al., 2006).

// pick turns 64 uniform bits into one of the numbers below n, all equally likely.
func pick(random uint64, n int) int {
	at, _ := bits.Mul64(random, uint64(n))
	return int(at)
}

// drawnThreshold draws the one threshold of a numerical feature that extra_trees tries, and puts the missing values,
// whose sums are miss, on the better side. It returns false if a child is too small or the gain does not exceed
// t.minGain.
func (s *splitScorer) drawnThreshold(h histogram, f scoredFeature, miss sums, t *splitTarget) (threshold, bool) {
	at := drawnBin(f.valueBins(), f.group, t.draw.uniform(uint64(f.number)))

	// The sums of the bins on the left.
	var g, hs int64
	for b := range at + 1 {
		bg, bh := h.binSums(f.from+b, s.pack)
		g, hs = g+bg, hs+bh
	}

	// next is the bin after it even if that has no rows, so that splitAt takes the bin that was drawn.
	found := threshold{gain: t.minGain, last: at, next: at + 1}
	if found.next == f.valueBins() {
		found.next = -1
	}

	// consider takes a left side if no child is too small and it is better than what was found before.
	ok := false
	consider := func(left sums, missing bool) {
		rest := t.total.minus(left)
		if left.h < t.minH || rest.h < t.minH {
			return
		}
		if v := s.childrenGain(left, rest, s.l2); v > found.gain {
			found.gain = v
			found.left = left
			found.missing = missing
			ok = true
		}
	}

	left := sums{float64(g), float64(hs)}
	consider(left, false)
	if miss != (sums{}) {
		consider(left.plus(miss), true)
	}
	return found, ok
}

// drawnBin draws the last of the bins of present values that goes left, such that at least one goes right. If there is
// only one, it goes left: only missing values can then go right. With coarse bins, a coarse bin is drawn in the same
// way, and its last bin is returned. coarse has the coarse bin of each bin; it is nil if there are no coarse bins.
func drawnBin(values int, coarse []uint8, random uint64) int {
	if coarse == nil {
		return pick(random, max(values-1, 1))
	}

	// With a single coarse bin, all bins go left.
	highest := int(coarse[values-1])
	if highest == 0 {
		return values - 1
	}

	// Draw the last coarse bin that goes left, and find its last bin.
	last := pick(random, highest)
	at := 0
	for at+1 < values && int(coarse[at+1]) <= last {
		at++
	}
	return at
}
