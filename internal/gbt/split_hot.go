package gbt

// The loops below run once per bin, feature and leaf; with many small leaves they cost as much as the histograms.

// roundings is more than all relative errors together that the computation of a gain may have.
const roundings = 1e-12

// decodePacked makes running sums of the words, skipping empty bins. Words are added whole: a sum of words is the word
// of the sums.
func (sc *scan) decodePacked(words []int64, pack packing) {
	var sum int64
	n := 0
	for b, w := range words {
		if w == 0 {
			continue
		}

		sum += w
		g, h := pack.sums(sum)
		sc.first[n&(byteBins-1)], sc.last[n&(byteBins-1)] = uint8(b), uint8(b)
		sc.below[n&(byteBins-1)] = sums{float64(g), float64(h)}
		n++
	}

	sc.n = n
}

// decodeWide is decodePacked for a large leaf.
func (sc *scan) decodeWide(pairs []wide) {
	var g, h int64
	n := 0
	for b, w := range pairs {
		if w.g == 0 && w.h == 0 {
			continue
		}

		g, h = g+w.g, h+w.h
		sc.first[n&(byteBins-1)], sc.last[n&(byteBins-1)] = uint8(b), uint8(b)
		sc.below[n&(byteBins-1)] = sums{float64(g), float64(h)}
		n++
	}

	sc.n = n
}

// bestThreshold finds the best threshold in running sums, with extra added to each. It returns the gain of both sides
// together and the entry before the threshold; -1 if no gain exceeds goal. Hessians grow from entry to entry, so the
// loop ends at the first right side that is too small; beyond the last entry nothing is left on the right, except
// missing values.
func (s *splitScorer) bestThreshold(below []sums, extra sums, t *splitTarget, goal float64) (gain float64, at int) {
	gain, at = goal, -1
	for i, x := range below {
		x = x.plus(extra)
		rest := t.total.minus(x)
		if rest.h < t.minH {
			break
		}
		if v := s.sides(x, rest, s.l2); v > gain && x.h >= t.minH {
			gain, at = v, i
		}
	}
	return gain, at
}

// bestWordGo is bestThreshold over the words of a packed histogram.
func (s *splitScorer) bestWordGo(words []int64, extra sums, t *splitTarget, goal float64) (gain float64, at int) {
	gain, at = goal, -1
	l2, minH, total := s.l2, t.minH, t.total

	var sum int64
	for b, w := range words {
		if w == 0 && b > 0 { // the same sums as the previous bin; at 0 extra alone may matter
			continue
		}

		sum += w
		wg, wh := s.pack.sums(sum)
		g, h := float64(wg)+extra.g, float64(wh)+extra.h
		restG, restH := total.g-g, total.h-h
		if restH < minH {
			break
		}
		if v := g*g/(h+l2) + restG*restG/(restH+l2); v > gain && h >= minH {
			gain, at = v, b
		}
	}

	return gain, at
}
