package cell

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
)

// Bins are made as in LightGBM (src/io/bin.cpp of microsoft/LightGBM): of equal counts, but a value with many rows gets
// a bin of its own, and so does zero. The differences: zero has a bin only if it occurs, and bounds are the exact
// midpoints.
const (
	minPerBin = 3     // rows of the sample
	zero      = 1e-35 // smaller magnitudes count as 0
)

// FindBounds chooses bins for a sample's distinct numbers, ascending, and returns the upper bounds of all bins but the
// last one. There are at most bins bins. With zeroApart, zero gets a bin of its own if the sample has it and there is
// room.
func FindBounds(all []Distinct, bins int, zeroApart bool) []float64 {
	// Separate the values that count as zero.
	below, _ := slices.BinarySearchFunc(all, -zero, func(d Distinct, x float64) int { return cmp.Compare(d.X, x) })
	above := below
	for above < len(all) && all[above].X <= zero {
		above++
	}
	negative, positive := all[:below], all[above:]

	sides := min(1, len(negative)) + min(1, len(positive))
	if !zeroApart || above == below || bins < sides+1 {
		return cutIntoBins(all, bins)
	}

	// Give both sides bins in proportion to their rows, and at least one. left is the number of bins for negative
	// values.
	n, p := rowsOf(negative), rowsOf(positive)
	left := 0
	if n > 0 {
		left = int(math.Round(float64(n) / float64(n+p) * float64(bins-1)))
		left = max(1, min(left, bins-1-min(1, len(positive)))) // without the bins of zero and of positive values
	}

	var bounds []float64 // none if all values are zero
	if n > 0 {
		bounds = append(cutIntoBins(negative, left), -zero)
	}
	if p > 0 {
		bounds = append(bounds, zero)
		bounds = append(bounds, cutIntoBins(positive, bins-len(bounds))...) // each bound so far ends a bin
	}
	return bounds
}

// rowsOf returns the number of rows that have the values.
func rowsOf(values []Distinct) int {
	n := 0
	for _, v := range values {
		n += v.N
	}
	return n
}

// cutIntoBins divides the values, ascending, into at most bins bins of about equal numbers of rows, and returns the
// bounds between them. There are fewer bins if these would have fewer than minPerBin rows on average. A heavy value,
// with at least as many rows as such a bin, ends its bin, which it shares at most with values that fill it by less than
// half.
func cutIntoBins(values []Distinct, bins int) []float64 {
	if len(values) <= bins {
		return cutFew(values)
	}

	total := rowsOf(values)
	bins = max(1, min(bins, total/minPerBin))
	fair := float64(total) / float64(bins)
	heavy := func(v Distinct) bool { return float64(v.N) >= fair }

	// light and shared are the rows and the bins that remain for the values that share bins.
	light, shared := total, bins
	for _, v := range values {
		if heavy(v) {
			light -= v.N
			shared--
		}
	}

	// target is the rows of a shared bin. Where no bin is shared, all values are heavy, and it is not used.
	target := fair
	if shared > 0 {
		target = float64(light) / float64(shared)
	}

	// End a bin after a heavy value, when it has as many rows as the target, or before a heavy value if it is half
	// full. The target is set anew after each bin, as the rows that remain are divided among the bins that remain.
	var bounds []float64
	filled := 0
	for i, v := range values[:len(values)-1] {
		if len(bounds) == bins-1 {
			break
		}

		filled += v.N
		next := values[i+1]
		if !heavy(v) {
			light -= v.N
		}

		if heavy(v) || float64(filled) >= target || heavy(next) && float64(filled) >= max(1, target/2) {
			bounds = append(bounds, boundBetween(v.X, next.X))
			filled = 0
			if !heavy(v) {
				shared--
				if shared > 0 {
					target = float64(light) / float64(shared)
				}
			}
		}
	}

	return bounds
}

// cutFew divides values when there are no more of them than bins. Each gets a bin of its own, or shares one with the
// next value if it has fewer than minPerBin rows.
func cutFew(values []Distinct) []float64 {
	var bounds []float64
	filled := 0
	for i := 0; i+1 < len(values); i++ {
		filled += values[i].N
		if filled >= minPerBin {
			bounds = append(bounds, boundBetween(values[i].X, values[i+1].X))
			filled = 0
		}
	}
	return bounds
}

// boundBetween returns a bound x with a <= x < b: the midpoint if rounding allows, otherwise a.
func boundBetween(a, b float64) float64 {
	m := a/2 + b/2
	if m >= b || m < a {
		return a
	}
	return m
}

// CountTexts counts the texts of a column, without missing values. Spellings of one value are counted together, under
// the most frequent one.
func CountTexts(v *dataset.Values, t *Markers) map[string]int64 {
	counts := map[string]int64{}
	var buf []byte

	for i := range v.Len() {
		if Missing(v, i, t) {
			continue
		}
		if v.Type == dataset.Text {
			counts[v.Text[i]]++
			continue
		}

		buf = v.AppendText(buf[:0], i)
		counts[string(buf)]++
	}

	if v.Type == dataset.Text { // other types have only one spelling
		mergeSpellings(counts, t)
	}
	return counts
}

// MostFrequent chooses at most limit categories from counts by text, the most frequent first, and returns them with
// their counts. It leaves out texts longer than dataset.MaxCategory, and texts with fewer than minPerBin rows unless
// they are among the first two. Values that are left out share the bin of other categories.
func MostFrequent(counts map[string]int64, limit int) ([]string, []int64) {
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
