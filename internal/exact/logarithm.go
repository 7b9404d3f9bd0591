// Package exact computes the exponential (Exp) and the logarithm (Log) with the same bits on every processor. Package
// math does not promise that: elsewhere than on amd64 its last bit may differ. The bytes of trained models, and
// whatever is chosen by a computed number, depend on that bit. The functions use no operation that a compiler may fuse
// with another.
//
// Ordered maps floating-point numbers to integers that sort in the same way.
package exact

import "math"

// Log is the natural logarithm of x. On every processor it has the bits that math.Log has on amd64. (On others,
// math.Log may fuse multiplications with additions.) Boosting starts from a logarithm, so a model's bytes depend on it.
//
// It is the method of FreeBSD's msun (K. C. Ng, 1993): x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), and
// for s = f/(2 + f) the series log(1 + f) = f - f²/2 + s (f²/2 + R(s²)), where R is a minimax polynomial.
func Log(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 1) {
		return math.Log(x) // zero, infinity or NaN, which need no rounding
	}

	// x = 2^k (1 + f)
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction, exponent = 2*fraction, exponent-1
	}
	f, k := fraction-1, float64(exponent)

	// r = R(s²), its odd and its even coefficients by themselves
	s := f / (2 + f)
	square := float64(s * s)
	fourth := float64(square * square)
	r := float64(square*polynomial(fourth, logOdd[:])) + float64(fourth*polynomial(fourth, logEven[:]))

	// k ln(2) + f - f²/2 + s (f²/2 + R), in the order that loses the least
	half := float64(0.5 * f * f)
	return float64(k*logLn2High) - ((half - (float64(s*(half+r)) + float64(k*logLn2Low))) - f)
}

// polynomial evaluates a polynomial, the coefficient of the highest power first.
func polynomial(x float64, coefficients []float64) float64 {
	y := 0.0
	for _, c := range coefficients {
		y = float64(y*x) + c
	}
	return y
}

// ln(2) as the sum of two numbers. The higher one has so few bits that its product with an exponent is exact.
const (
	logLn2High = 0x1.62e42feep-1
	logLn2Low  = 0x1.a39ef35793c76p-33
)

// R's coefficients of s², s⁶, ... and of s⁴, s⁸, ..., the highest power first.
var (
	logOdd  = [4]float64{0x1.2f112df3e5244p-3, 0x1.7466496cb03dep-3, 0x1.2492494229359p-2, 0x1.5555555555593p-1}
	logEven = [3]float64{0x1.39a09d078c69fp-3, 0x1.c71c51d8e78afp-3, 0x1.999999997fa04p-2}
)
