package gbt

import (
	"math"

	"coppice/internal/exact"
)

// The gradient loops run once per row and tree. Both round g/g1 and h/h1 to whole numbers at random, up with the
// probability of the fraction (as in quantized training, Shi et al., NeurIPS 2022). Rounding to nearest would shift
// thousands of equal gradients the same way, and with them every leaf. Products are converted to float64 so that the
// compiler for arm64 does not fuse them with a following addition, which would round differently.

// fillRowsGo writes the packed gradients of the rows lo <= r < hi to gh[r], of logistic loss: g = p - y and h = p (1 -
// p), times the row's weight. Row r is rounded with number r of k.
func (l *logistic) fillRowsGo(gh []uint32, raw []float64, lo, hi int, k key) {
	gInv, hInv := 1/l.pack.g1, 1/l.pack.h1
	for r := lo; r < hi; r++ {
		y, w := 0.0, l.weight[0]
		if l.d.Label[r] == l.positive {
			y, w = 1, l.weight[1]
		}
		if l.d.Weight != nil {
			w *= float64(l.d.Weight[r])
		}

		p := sigmoid(raw[r])
		g := float64(float64((p-y)*w) * gInv)
		h := float64(float64(float64(p*(1-p))*w) * hInv)
		gh[r] = roundPair(g, h, k.uniform(uint64(r)))
	}
}

// blockRows is the most rows whose exact gradients are computed together.
const blockRows = 256

// gradientBlock iterates over the exact gradients of rows, a block of up to blockRows rows at a time.
type gradientBlock struct {
	obj    objective
	raw    []float64 // by row
	of     rowSet
	at, hi int // the positions in the set that are still to come

	rows []uint32  // the rows of this block
	g, h []float64 // their gradients and hessians
}

// newGradientBlock returns an iterator over the rows at positions lo <= i < hi of a set, before the first block.
func newGradientBlock(obj objective, raw []float64, rows rowSet, lo, hi int) *gradientBlock {
	n := min(hi-lo, blockRows)
	return &gradientBlock{obj: obj, raw: raw, of: rows, at: lo, hi: hi, rows: make([]uint32, n),
		g: make([]float64, n), h: make([]float64, n)}
}

// nextBlock computes the next block, and returns false if there is none.
func (b *gradientBlock) nextBlock() bool {
	n := min(len(b.rows), b.hi-b.at)
	b.rows, b.g, b.h = b.rows[:n], b.g[:n], b.h[:n]
	b.of.copy(b.rows, b.at)
	b.at += n
	for i, r := range b.rows {
		b.g[i] = b.raw[r]
	}
	if n > 0 {
		b.obj.gradients(b.rows, b.g, b.h)
	}
	return n > 0
}

// packGradients is objective.fill for an objective that computes exact gradients, in units of pack. Rows that are not
// in use may be among the rows. prepare has not seen their gradients, so these are limited to what rounding can take
// (within). They are part of no sum.
func packGradients(obj objective, pack packing, gh []uint32, raw []float64, rows rowSet, lo, hi int, k key) {
	gInv := 1 / pack.g1
	for b := newGradientBlock(obj, raw, rows, lo, hi); b.nextBlock(); {
		// Hessians of 1 are not stored. Neighbouring rows are rounded together, others one by one.
		switch {
		case pack.hessianBits == bitsUnitHessian:
			for i, r := range b.rows {
				gh[r] = uint32(roundRandomly(within(float64(b.g[i]*gInv)), k.uniform(uint64(r))))
			}
		case rows.subset == nil:
			first := int(b.rows[0])
			roundBlock(gh[first:first+len(b.rows)], b.g, b.h, pack, k.from(uint64(first)))
		default:
			for i, r := range b.rows {
				roundBlockGo(gh[r:r+1], b.g[i:i+1], b.h[i:i+1], pack, k.from(uint64(r)))
			}
		}
	}
}

// roundBlockGo rounds and packs g[i] and h[i] into gh[i], with number i of k. All three slices are equally long.
func roundBlockGo(gh []uint32, g, h []float64, pack packing, k key) {
	gInv, hInv := 1/pack.g1, 1/pack.h1
	for i := range gh {
		gh[i] = roundPair(within(float64(g[i]*gInv)), within(float64(h[i]*hInv)), k.uniform(uint64(i)))
	}
}

// within limits x to what fits the bits of a gradient if all hessians are 1, which is more than any other use needs.
func within(x float64) float64 { return min(max(x, -maxG24), maxG24) }

// roundPair rounds g and h at random with the two halves of u, and packs them into a row's 32 bits.
func roundPair(g, h float64, u uint64) uint32 {
	return uint32(roundRandomly(g, u))<<16 | uint32(roundRandomly(h, u>>32))&0xffff
}

// roundRandomly rounds x up with the probability of its fraction, else down: it adds a uniform number from 0 to 1, made
// of the low 32 bits of u, and takes the floor. A conversion truncates towards zero, which is the floor of positive
// numbers; roundOffset makes x positive for it. Near 2^30 a float64 has 22 bits after the point, so that many of the
// random bits count.
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

// exponentialsGo replaces each x by e^(factor x).
func exponentialsGo(x []float64, factor float64) {
	for i, v := range x {
		x[i] = exact.Exp(float64(factor * v))
	}
}
