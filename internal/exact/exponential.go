package exact

import "math"

// Exp is e^x, accurate to a unit or two in the last place; beyond Limit it does not grow or shrink any more. NaN stays
// NaN.
func Exp(x float64) float64 {
	if x != x {
		return x
	}
	s := min(max(-x, -Limit), Limit)
	y := math.FMA(s, -log2e, magic)
	n := y - magic
	u := math.FMA(n, Ln2Low, math.FMA(n, Ln2High, s))
	q := Alternating[0]
	for _, c := range Alternating[1:] {
		q = math.FMA(q, u, c)
	}
	return math.Float64frombits(math.Float64bits(q) + math.Float64bits(y)<<52)
}

// Limit keeps 2^n within float64's exponents.
const Limit = 708

// ln(2) in two parts: the higher one has so few bits that its products with whole numbers are exact.
const (
	Ln2High = 0x1.62e42feep-1
	Ln2Low  = math.Ln2 - Ln2High

	log2e = 1 / math.Ln2
	magic = 3 << 51 // adding it leaves the nearest integer in the low bits
)

// Alternating are the coefficients of e^-u from u^13 down to 1; the truncation error is below 1e-17 for |u| <= ln(2)/2.
// The trainer's assembly computes with the same.
var Alternating = [14]float64{-1.0 / 6227020800, 1.0 / 479001600, -1.0 / 39916800, 1.0 / 3628800, -1.0 / 362880,
	1.0 / 40320,
	-1.0 / 5040, 1.0 / 720, -1.0 / 120, 1.0 / 24, -1.0 / 6, 0.5, -1, 1}
