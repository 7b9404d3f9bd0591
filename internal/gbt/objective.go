package gbt

import (
	"errors"
	"fmt"
	"math"
)

// objective computes gradients and hessians of the loss from raw scores. Sums of both are kept in fixed point; see
// packing.
type objective interface {
	// init returns the constant raw score to begin with.
	init(fromAverage bool) float64
	// prepare is called before each tree and sets its units. rows are the rows in use, in any order.
	prepare(raw []float64, rows []uint32, pool *pool) packing
	// fill writes the packed gradients of rows lo <= r < hi, whose raw scores are raw[r], to gh[r], with the random
	// numbers of k for rounding. It is called after prepare, for parts of the rows at once.
	fill(gh []uint32, raw []float64, lo, hi int, k key)
	// String returns the objective as written in the model file.
	String() string
}

// packing says how a gradient g and a hessian h are stored in a row's 32 bits and in a histogram's 64-bit word, which
// holds the sum of g above hessianBits bits for the sum of h. A word can take maxPackedRows rows before the lower sum
// could reach the upper one or the upper one overflow.
//
// If hessians vary, a row is int16 g, uint16 h, and hessianBits is 32. If all are equal, h is 1 in every row, so a
// row's 32 bits are all g's, a word's lower sum is a count, and hessianBits is 24.
type packing struct {
	hessianBits uint
	g1, h1      float64 // value of one unit of g and of h
}

// maxPackedRows is the most rows whose sums fit a word: with n of them, n x (2^16-1) < 2^32 and n x 2^15 <= 2^31 if
// hessians vary, and n < 2^24 and n x 2^23 <= 2^39 if all are 1.
const maxPackedRows = 1 << 16

// The largest multiples of the units before rounding, which can add one.
const (
	maxG16 = 1<<15 - 2
	maxH16 = 1<<16 - 2
	maxG24 = 1<<23 - 2
)

// The two values of packing.hessianBits.
const (
	bitsVaryingHessian = 32
	bitsUnitHessian    = 24
)

// word widens a row's 32 bits to a histogram's 64.
func (p packing) word(row uint32) int64 {
	if p.hessianBits == bitsUnitHessian {
		return int64(int32(row))<<bitsUnitHessian | 1
	}
	return int64(int32(row)>>16)<<bitsVaryingHessian | int64(row&0xffff)
}

// sums splits a word.
func (p packing) sums(word int64) (g, h int64) {
	return word >> p.hessianBits, word & (1<<p.hessianBits - 1)
}

// errOneClass reports training data of a single class.
var errOneClass = errors.New("all rows have the same label; nothing can be learnt")

func newObjective(p *Params, d *Data) (objective, error) {
	switch p.Objective {
	case "binary":
		return newBinary(p, d)
	case "regression":
		return newRegression(d)
	}
	return nil, fmt.Errorf("objective %q", p.Objective)
}

// binary is logistic loss on labels 0 and 1.
type binary struct {
	d        *Data
	weight   [2]float64 // of the negative and the positive class
	heaviest float64    // largest product of a row's and its class's weight
	pack     packing
}

func newBinary(p *Params, d *Data) (*binary, error) {
	b := &binary{d: d, weight: [2]float64{1, p.ScalePosWeight}}
	var seen [4]float64
	count, heaviest := seen[:2], seen[2:]

	err := d.each(seen[:], func(r uint32, w float64) error {
		y := d.Label[r]
		if y != 0 && y != 1 {
			return fmt.Errorf("%w: label %v in row %d; the binary objective takes 0 and 1", ErrData, y, r)
		}
		if w > 0 {
			count[int(y)]++
			heaviest[int(y)] = max(heaviest[int(y)], w)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}

	if count[0] == 0 || count[1] == 0 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}

	if p.IsUnbalance { // the rarer class is weighted up, as LightGBM does
		if count[1] > count[0] {
			b.weight[0] = count[1] / count[0]
		} else {
			b.weight[1] = count[0] / count[1]
		}
	}

	b.heaviest = max(heaviest[0]*b.weight[0], heaviest[1]*b.weight[1])
	// |gradient| < weight and hessian <= weight/4 for any raw scores, so the grid is the same for every tree.
	b.pack = packing{hessianBits: bitsVaryingHessian, g1: b.heaviest / maxG16, h1: b.heaviest / 4 / maxH16}

	return b, nil
}

func (b *binary) init(fromAverage bool) float64 {
	if !fromAverage {
		return 0
	}
	var sum [2]float64
	_ = b.d.each(sum[:], func(r uint32, w float64) error {
		sum[int(b.d.Label[r])] += float64(w * b.weight[int(b.d.Label[r])]) // not fused, as everywhere
		return nil
	})
	return Log(sum[1] / sum[0])
}

func (b *binary) prepare([]float64, []uint32, *pool) packing { return b.pack }
func (b *binary) String() string                             { return binaryObjective }

func (b *binary) fill(gh []uint32, raw []float64, lo, hi int, k key) {
	fillBinary(gh, raw, b.d.Label, b.d.Weight, b.weight, b.pack, lo, hi, k)
}

// regression is squared error. Without weights all hessians are 1.
type regression struct {
	d    *Data
	pack packing
}

func newRegression(d *Data) (*regression, error) {
	var seen [3]float64
	first, heavy, differ := &seen[0], &seen[1], &seen[2]
	err := d.each(seen[:], func(r uint32, w float64) error {
		if *heavy == 0 {
			*first = float64(d.Label[r])
		}
		if w > 0 {
			*heavy = 1
			if float64(d.Label[r]) != *first {
				*differ = 1
			}
		}
		return nil
	})

	if err != nil {
		return nil, err
	}
	if *heavy == 0 || *differ == 0 {
		return nil, fmt.Errorf("%w: %w", ErrData, errOneClass)
	}
	return &regression{d: d}, nil
}

func (o *regression) init(fromAverage bool) float64 {
	if !fromAverage {
		return 0
	}
	var sums [2]float64
	_ = o.d.each(sums[:], func(r uint32, w float64) error {
		sums[0] += float64(w * float64(o.d.Label[r]))
		sums[1] += w
		return nil
	})
	return sums[0] / sums[1]
}

// prepare finds the largest gradient, which becomes the end of the grid.
func (o *regression) prepare(raw []float64, rows []uint32, pool *pool) packing {
	// The largest gradient and the heaviest row decide how fine the grid can be.
	largest := make([]float64, pool.size)
	heaviest := make([]float64, pool.size)

	pool.parallel(len(rows), grain, func(worker, lo, hi int) {
		g, h := largest[worker], heaviest[worker]
		for _, r := range rows[lo:hi] {
			w := 1.0
			if o.d.Weight != nil {
				w = float64(o.d.Weight[r])
				h = max(h, w)
			}
			g = max(g, math.Abs(raw[r]-float64(o.d.Label[r]))*w)
		}
		largest[worker], heaviest[worker] = g, h
	})

	g, h := 0.0, 0.0
	for i := range largest {
		g, h = max(g, largest[i]), max(h, heaviest[i])
	}
	o.d.link.most(&g, &h)
	if g == 0 {
		g = 1 // all gradients are 0: every row is fitted exactly
	}

	// Without weights, all hessians are 1 and take no bits.
	if o.d.Weight == nil {
		o.pack = packing{hessianBits: bitsUnitHessian, g1: g / maxG24, h1: 1}
	} else {
		o.pack = packing{hessianBits: bitsVaryingHessian, g1: g / maxG16, h1: h / maxH16}
	}
	return o.pack
}

func (o *regression) String() string { return "regression" }

func (o *regression) fill(gh []uint32, raw []float64, lo, hi int, k key) {
	fillRegression(gh, raw, o.d.Label, o.d.Weight, o.pack, lo, hi, k)
}

// each calls f with every used row and its weight, ascending, until the first error. All that f carries from row to row
// has to be in state: in a team, each worker goes on with the state of the one before, and all end with the last one's.
func (d *Data) each(state []float64, f func(r uint32, w float64) error) error {
	if d.link == nil {
		return d.eachOwn(f)
	}

	words := make([]int64, len(state))
	put := func() {
		for i, v := range state {
			words[i] = int64(math.Float64bits(v))
		}
	}
	take := func() {
		for i, w := range words {
			state[i] = math.Float64frombits(uint64(w))
		}
	}
	put()
	err := d.link.inTurn(words, func() error {
		take()
		defer put()
		return d.eachOwn(f)
	})
	take()
	return err
}

// eachOwn is each of this worker's rows.
func (d *Data) eachOwn(f func(r uint32, w float64) error) error {
	for i := range d.Used() {
		r := uint32(i)
		if d.Subset != nil {
			r = d.Subset[i]
		}

		w := 1.0
		if d.Weight != nil {
			w = float64(d.Weight[r])
		}

		if err := f(r, w); err != nil {
			return err
		}
	}
	return nil
}
