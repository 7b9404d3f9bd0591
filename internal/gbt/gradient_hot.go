package gbt

import "math"

// The gradient loops run once per row and tree. Both round g/g1 and h/h1 to whole numbers at random, up with the
// probability of the fraction (as in quantized training, Shi et al., NeurIPS 2022): rounding to nearest would shift
// thousands of equal gradients the same way, and with them every leaf. Conversions of products prevent that arm64's
// compiler fuses them with roundRandomly's addition.

// fillBinaryGo is logistic loss: g = p - y, h = p (1 - p).
func fillBinaryGo(gh []uint32, raw []float64, label, weight []float32, class [2]float64, pack packing, lo, hi int,
	k key) {
	gInv, hInv := 1/pack.g1, 1/pack.h1
	for r := lo; r < hi; r++ {
		y := float64(label[r])
		w := class[int(label[r])&1]
		if weight != nil {
			w *= float64(weight[r])
		}

		p := sigmoid(raw[r])
		g := float64(float64((p-y)*w) * gInv)
		h := float64(float64(float64(p*(1-p))*w) * hInv)

		u := k.at(uint64(r))
		gh[r] = uint32(roundRandomly(g, u))<<16 | uint32(roundRandomly(h, u>>32))&0xffff
	}
}

// roundRandomly rounds x up with the probability of its fraction, else down, as decided by the low 32 bits of u. The
// offset turns the conversion, which truncates towards zero, into a floor.
func roundRandomly(x float64, u uint64) int32 {
	return int32(int64(x+float64(float64(uint32(u))*randomUnit)+roundOffset) - roundOffset)
}

const (
	randomUnit  = 1.0 / (1 << 32)
	roundOffset = 1 << 30
)

// sigmoid is 1 / (1 + e^-x) to about nine digits, far finer than the grid that gradients are rounded to, and with the
// same bits on every machine: no fused multiply-add (the float64 conversions prevent it) and no library exponential.
func sigmoid(x float64) float64 {
	return 1 / (1 + expNegative(min(max(x, -sigmoidLimit), sigmoidLimit)))
}

const sigmoidLimit = 40 // beyond this the gradient is 0 or 1 on any grid

// Constants of expNegative. Adding the magic number leaves the nearest integer in the low bits.
const (
	expLog2e = 1 / math.Ln2
	expLn2   = math.Ln2
	expMagic = 3 << 51

	mantissaBits = 52 // of a float64; the exponent stands above them
)

// expTaylor are the coefficients of t^8 down to t^2; the last two are 1. The table is for the assembly; expNegative has
// them as constants of its straight line, which a loop over a table would slow down.
var expTaylor = [7]float64{1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5}

// expNegative is e^-x for |x| <= 40: 2^n e^t with |t| <= ln(2)/2 and a Taylor polynomial of degree 8, whose error is
// below 2e-10.
func expNegative(x float64) float64 {
	y := float64(-x * expLog2e)
	n := y + expMagic
	t := float64((y - (n - expMagic)) * expLn2)
	q := float64(t*(1.0/40320)) + 1.0/5040
	q = float64(q*t) + 1.0/720
	q = float64(q*t) + 1.0/120
	q = float64(q*t) + 1.0/24
	q = float64(q*t) + 1.0/6
	q = float64(q*t) + 0.5
	q = float64(q*t) + 1
	q = float64(q*t) + 1
	return math.Float64frombits(math.Float64bits(q) + math.Float64bits(n)<<mantissaBits)
}
