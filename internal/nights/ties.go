package nights

import (
	"math"
	"slices"
)

// tieCodes is how many codes a column is reduced to before its ties are measured.
const tieCodes = 16

// reduceCodes reduces the column's codes to tieCodes: numbers to wider ranges, texts to the most frequent levels.
func (c *Column) reduceCodes(codes []uint8) []uint8 {
	out := slices.Clone(codes)
	for i, code := range codes {
		switch {
		case c.byLevels() && code >= tieCodes:
			out[i] = 1
		case c.Kind == Number && !c.byLevels() && code > 0:
			out[i] = uint8(1 + (int(code)-1)*(tieCodes-1)/steps)
		}
	}
	return out
}

// associate returns the association of every column with each earlier one, from 0 for none to 1 if one determines the
// other.
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

// tie is Cramer's V with the bias correction of Bergsma (2013).
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

	phi2 := max(0, chi2/n-(nr-1)*(nc-1)/(n-1))
	nr -= (nr - 1) * (nr - 1) / (n - 1)
	nc -= (nc - 1) * (nc - 1) / (n - 1)
	return math.Sqrt(phi2 / max(min(nr, nc)-1, 1e-9))
}
