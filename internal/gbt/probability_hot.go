package gbt

import "math"

// Probability turns a raw score of a binary model into a probability, 1 / (1 + e^-raw), accurate to a few units in the
// last place and with the same bits on every machine, which math.Exp does not guarantee. NaN stays NaN; the smallest
// result is 3e-308.
func Probability(raw float64) float64 {
	if raw != raw {
		return raw
	}
	return 1 / (1 + expMinus(raw))
}

// Exp is e^x, accurate to a unit or two in the last place and with the same bits on every machine; beyond
// probabilityLimit it does not grow or shrink any more. NaN stays NaN.
func Exp(x float64) float64 {
	if x != x {
		return x
	}
	return expMinus(-x)
}

// expMinus is e^-x.
func expMinus(x float64) float64 {
	s := min(max(x, -probabilityLimit), probabilityLimit)
	y := math.FMA(s, -expLog2e, expMagic)
	n := y - expMagic
	u := math.FMA(n, expLn2Low, math.FMA(n, expLn2High, s))
	q := expAlternating[0]
	for _, c := range expAlternating[1:] {
		q = math.FMA(q, u, c)
	}
	return math.Float64frombits(math.Float64bits(q) + math.Float64bits(y)<<mantissaBits)
}

func probabilitiesGo(scores []float64) {
	for i, s := range scores {
		scores[i] = Probability(s)
	}
}

// probabilityLimit keeps 2^n within float64's exponents.
const probabilityLimit = 708

// ln(2) in two parts: the higher one has so few bits that its products with whole numbers are exact.
const (
	expLn2High = 0x1.62e42feep-1
	expLn2Low  = math.Ln2 - expLn2High
)

// expAlternating are the coefficients of e^-u from u^13 down to 1; the truncation error is below 1e-17 for |u| <=
// ln(2)/2.
var expAlternating = [14]float64{-1.0 / 6227020800, 1.0 / 479001600, -1.0 / 39916800, 1.0 / 3628800, -1.0 / 362880,
	1.0 / 40320,
	-1.0 / 5040, 1.0 / 720, -1.0 / 120, 1.0 / 24, -1.0 / 6, 0.5, -1, 1}
