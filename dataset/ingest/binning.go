package ingest

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"coppice/dataset"
)

// Bins are made as LightGBM makes them (src/io/bin.cpp of microsoft/LightGBM): equal counts, but a value that many rows
// have keeps a bin of its own, and so has zero. Where this parts from it: zero has a bin only if it occurs, and bounds are
// the exact midpoints.
const (
	minPerBin = 3     // rows of the sample
	zero      = 1e-35 // numbers as near to 0 as this are 0
)

// findBounds gives the greatest numbers of at most bins bins, but for the last one's, which is infinite.
func findBounds(all []distinct, bins int, zeroApart bool) []float64 {
	below, _ := slices.BinarySearchFunc(all, -zero, func(d distinct, x float64) int { return cmp.Compare(d.x, x) })
	above := below
	for above < len(all) && all[above].x <= zero {
		above++
	}
	negative, positive := all[:below], all[above:]

	sides := min(1, len(negative)) + min(1, len(positive))
	if !zeroApart || above == below || bins < sides+1 {
		return cut(all, bins)
	}

	// Each side gets bins by its rows, and at least one.
	n, p := rowsOf(negative), rowsOf(positive)
	left := 0
	if n > 0 {
		left = int(math.Round(float64(n) / float64(n+p) * float64(bins-1)))
		left = max(1, min(left, bins-1-min(1, len(positive))))
	}

	var bounds []float64 // none when all is zero
	if n > 0 {
		bounds = append(cut(negative, left), -zero)
	}
	if p > 0 {
		bounds = append(bounds, zero)
		bounds = append(bounds, cut(positive, bins-len(bounds))...)
	}
	return bounds
}

func rowsOf(values []distinct) int {
	n := 0
	for _, v := range values {
		n += v.n
	}
	return n
}

// cut divides the values into at most bins bins of about equally many rows. A value with more rows than such a bin has one
// to itself. It gives the bounds between bins.
func cut(values []distinct, bins int) []float64 {
	if len(values) <= bins {
		return cutFew(values)
	}

	total := rowsOf(values)
	bins = max(1, min(bins, total/minPerBin))
	fair := float64(total) / float64(bins)
	heavy := func(v distinct) bool { return float64(v.n) >= fair }

	light, shared := total, bins // rows and bins of the values that share bins
	for _, v := range values {
		if heavy(v) {
			light -= v.n
			shared--
		}
	}

	target := fair
	if shared > 0 {
		target = float64(light) / float64(shared)
	}

	var bounds []float64
	filled := 0
	for i, v := range values[:len(values)-1] {
		if len(bounds) == bins-1 {
			break
		}

		filled += v.n
		next := values[i+1]
		if !heavy(v) {
			light -= v.n
		}

		if heavy(v) || float64(filled) >= target || heavy(next) && float64(filled) >= max(1, target/2) {
			bounds = append(bounds, between(v.x, next.x))
			filled = 0
			if !heavy(v) {
				if shared--; shared > 0 {
					target = float64(light) / float64(shared)
				}
			}
		}
	}

	return bounds
}

// cutFew gives every value a bin of its own, unless it has too few rows.
func cutFew(values []distinct) []float64 {
	var bounds []float64
	filled := 0
	for i := 0; i+1 < len(values); i++ {
		if filled += values[i].n; filled >= minPerBin {
			bounds = append(bounds, between(values[i].x, values[i+1].x))
			filled = 0
		}
	}
	return bounds
}

// between is the number halfway from a to b that is less than b and not less than a.
func between(a, b float64) float64 {
	m := a/2 + b/2
	if m >= b || m < a {
		return a
	}
	return m
}

// countTexts counts how often each text of a column occurs that is not missing.
func countTexts(v *dataset.Values, t *missingMarkers) map[string]int64 {
	counts := map[string]int64{}
	var buf []byte

	for i := range v.Len() {
		if missing(v, i, t) {
			continue
		}
		if v.Type == dataset.Text {
			counts[v.Text[i]]++
			continue
		}

		buf = v.AppendText(buf[:0], i)
		counts[string(buf)]++
	}

	if v.Type == dataset.Text { // all others are written in one way
		mergeSpellings(counts, t)
	}
	return counts
}

// mostFrequent gives at most limit texts, the most frequent first, and how often each occurs. Those with fewer rows than a
// bin should have are left to the bin of others, unless they are among the first two; so are those that are too long.
func mostFrequent(counts map[string]int64, limit int) ([]string, []int64) {
	texts := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	texts = slices.DeleteFunc(texts, func(text string) bool { return len(text) > dataset.MaxCategory })
	texts = texts[:min(limit, len(texts))]

	for len(texts) > 2 && counts[texts[len(texts)-1]] < minPerBin {
		texts = texts[:len(texts)-1]
	}

	numbers := make([]int64, len(texts))
	for i, text := range texts {
		numbers[i] = counts[text]
	}
	return texts, numbers
}
