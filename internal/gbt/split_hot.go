package gbt

// The loops below run once per bin, feature and leaf; with many small leaves they cost as much as the histograms.

// roundings is more than the relative error that all roundings together can cause in a gain.
const roundings = 1e-12

// decodePacked fills the scan from the packed words of a feature's bins, skipping empty bins. The running sum is kept
// as a word, since a sum of words is the word of both sums. The masks of indexes only spare bounds checks.
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

// bestThreshold finds the best threshold in running sums, with extra (the missing values, if they go left) added to
// each of them. It returns the gain of both children together and the last entry on the left. If no gain exceeds goal,
// it returns goal and -1. On a tie, the lowest entry wins.
//
// Hessians grow from entry to entry, so the loop ends at the first right side that is too small. After the last entry,
// only missing values are on the right.
func (s *splitScorer) bestThreshold(below []sums, extra sums, t *splitTarget, goal float64) (gain float64, at int) {
	gain, at = goal, -1
	for i, x := range below {
		x = x.plus(extra)
		rest := t.total.minus(x)
		if rest.h < t.minH {
			break
		}
		if v := s.childrenGain(x, rest, s.l2); v > gain && x.h >= t.minH {
			gain, at = v, i
		}
	}
	return gain, at
}

// bestWordGo is bestThreshold over the words of a packed histogram, and returns a bin in place of an entry. It supports
// neither l1 nor bounds on outputs.
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
