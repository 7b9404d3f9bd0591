package gbt

import "math/bits"

// With extra_trees each feature tries one threshold or set of categories, drawn at random (Geurts et al., 2006).

// pick returns one of the numbers below n, from 64 uniform bits.
func pick(random uint64, n int) int {
	at, _ := bits.Mul64(random, uint64(n))
	return int(at)
}

// drawnThreshold is the one threshold of a numerical feature that extra_trees tries, with missing values on the better
// side.
func (s *splitScorer) drawnThreshold(h histogram, f scoredFeature, miss sums, t *splitTarget) (threshold, bool) {
	at := drawnBin(f.valueBins(), f.group, t.draw.uniform(uint64(f.number)))

	var g, hs int64
	for b := range at + 1 {
		bg, bh := h.binSums(f.from+b, s.pack)
		g, hs = g+bg, hs+bh
	}

	found := threshold{gain: t.minGain, last: at, next: at + 1}
	if found.next == f.valueBins() {
		found.next = -1
	}

	ok := false
	consider := func(left sums, missing bool) {
		rest := t.total.minus(left)
		if left.h < t.minH || rest.h < t.minH {
			return
		}
		if v := s.sides(left, rest, s.l2); v > found.gain {
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

// drawnBin draws the last bin on the left. With a single bin or coarse bin, only missing values can be on the right.
func drawnBin(values int, coarse []uint8, random uint64) int {
	if coarse == nil {
		return pick(random, max(values-1, 1))
	}
	last := pick(random, max(int(coarse[values-1]), 1))
	if coarse[values-1] == 0 {
		return values - 1
	}
	at := 0
	for at+1 < values && int(coarse[at+1]) <= last {
		at++
	}
	return at
}
