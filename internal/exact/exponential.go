package exact

import "math"

// Exp is e^x, accurate to a unit or two in the last place, with the same bits on every processor. An x beyond ±Limit
// counts as ±Limit. NaN stays NaN.
//
// With s = -x, it is e^-s = 2^-n e^-u for the nearest whole number n to s/ln(2), so that |u| <= ln(2)/2, and a Taylor
// polynomial for e^-u. The assembly of the trainer computes the same.
func Exp(x float64) float64 {
	if x != x {
		return x
	}

	// Adding magic to -s/ln(2) rounds it to a whole number, -n, which is then in the low bits of y.
	s := min(max(-x, -Limit), Limit)
	y := math.FMA(s, -log2e, magic)
	n := y - magic
	u := math.FMA(n, Ln2Low, math.FMA(n, Ln2High, s))

	q := Alternating[0]
	for _, c := range Alternating[1:] {
		q = math.FMA(q, u, c)
	}

	// Multiply by 2^-n: add -n to the exponent.
	return math.Float64frombits(math.Float64bits(q) + math.Float64bits(y)<<52)
}

// Limit is the largest |x| of Exp: beyond it, the exponent of the result could be outside the range of a float64.
const Limit = 708

// ln(2) as the sum of two numbers, so that n ln(2) is more exact than a product of float64s.
const (
	Ln2High = 0x1.62e42feep-1
	Ln2Low  = math.Ln2 - Ln2High

	log2e = 1 / math.Ln2
	magic = 3 << 51 // adding it leaves the nearest integer in the low bits
)

// Alternating has the Taylor coefficients of e^-u, from u^13 down to the constant 1. The terms that are left out are
// below 1e-17 for |u| <= ln(2)/2. The trainer's assembly uses the same numbers.
var Alternating = [14]float64{-1.0 / 6227020800, 1.0 / 479001600, -1.0 / 39916800, 1.0 / 3628800, -1.0 / 362880,
	1.0 / 40320,
	-1.0 / 5040, 1.0 / 720, -1.0 / 120, 1.0 / 24, -1.0 / 6, 0.5, -1, 1}
