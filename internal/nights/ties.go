package nights

import (
	"math"
	"slices"
)

// tieCodes is how many codes a column is reduced to before its ties are measured.
const tieCodes = 16

// reduceCodes returns a copy of the codes of the column's values (columnEncoder) with fewer different ones, all below
// tieCodes: ranges of numbers are joined, with the peaks that are in them, and levels that are not among the most
// frequent share code 1, that of other levels. Code 0 stays that of a missing value.
func (c *Column) reduceCodes(codes []uint8) []uint8 {
	out := slices.Clone(codes)
	for i, code := range codes {
		switch {
		case c.byLevels() && code >= tieCodes:
			out[i] = 1
		case c.Kind == Number && !c.byLevels() && code > 0:
			at := int(code) - 1
			if at >= steps {
				at = c.rangeOf(c.Peaks[at-steps].Number)
			}
			out[i] = uint8(1 + at*(tieCodes-1)/steps) // ranges 0 to 19 are spread over the codes 1 to 15
		}
	}
	return out
}

// associate returns the association of every column with each earlier one, a lower triangle. It is 0 for none and 1 if
// one column determines the other, rounded to three decimals. codes are [columns][rows], below tieCodes.
func associate(codes [][]uint8) [][]float64 {
	out := make([][]float64, len(codes))
	for i := range codes {
		out[i] = make([]float64, i)
		for j := range i {
			out[i][j] = math.Round(1000*tie(codes[i], codes[j])) / 1000
		}
	}
	return out
}

// tie returns the association of two columns by their rows' codes, below tieCodes: Cramer's V with the bias correction
// of Bergsma (2013), without which independent columns of many codes would look associated. It is 0 if one of them has
// a single code.
func tie(a, b []uint8) float64 {
	var table [tieCodes][tieCodes]float64
	var rows, columns [tieCodes]float64
	n := float64(len(a))
	for i := range a {
		table[a[i]][b[i]]++
	}
	for r := range table {
		for c, x := range table[r] {
			rows[r] += x
			columns[c] += x
		}
	}

	// Pearson's statistic, and how many codes each column has.
	chi2, nr, nc := 0.0, 0.0, 0.0
	for r := range table {
		if rows[r] > 0 {
			nr++
		}
		if columns[r] > 0 {
			nc++
		}
		for c, x := range table[r] {
			if e := rows[r] * columns[c] / n; e > 0 {
				chi2 += (x - e) * (x - e) / e
			}
		}
	}
	if n < 2 || nr < 2 || nc < 2 {
		return 0
	}

	// The correction of the statistic, and of both numbers of codes.
	phi2 := max(0, chi2/n-(nr-1)*(nc-1)/(n-1))
	nr -= (nr - 1) * (nr - 1) / (n - 1)
	nc -= (nc - 1) * (nc - 1) / (n - 1)
	return math.Sqrt(phi2 / max(min(nr, nc)-1, 1e-9))
}
