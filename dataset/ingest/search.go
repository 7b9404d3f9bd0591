package ingest

import (
	"math"
	"math/bits"
)

// searcher finds bins: for every number the first bound that is not less. Numbers are compared as ordered whole numbers, and
// comparisons are added up as the borrows of subtractions, so that nothing depends on a branch that could be mispredicted.
type searcher struct {
	bounds int
	table  [512]uint64 // the bounds, then infinity: finding may look beyond the last one

	// Where the bounds lie evenly enough, the range between them is cut into cells of equal width, and the search begins
	// behind the bounds of the cells before: few are left.
	guide []uint8 // of each cell, how many bounds lie in cells before it; nil where cells do not help
	low   float64 // where the first cell begins
	scale float64 // cells per unit
	many  bool    // some cell has more than 3 bounds, but none more than 15
}

// guideCells is how many cells the range of the bounds is cut into.
const guideCells = 2048

// newSearcher takes at most 254 bounds, finite and ascending.
func newSearcher(bounds []float64) searcher {
	s := searcher{bounds: len(bounds)}
	for i := range s.table {
		s.table[i] = ordered(math.Inf(1))
		if i < len(bounds) {
			s.table[i] = ordered(bounds[i])
		}
	}
	if len(bounds) <= 15 {
		return s // two steps without a guide are as good
	}
	s.low = bounds[0]
	s.scale = guideCells / (bounds[len(bounds)-1] - s.low)
	if !finite(s.scale) || s.scale == 0 {
		return s
	}
	var in [guideCells]int
	for _, b := range bounds {
		in[s.cell(b)]++
	}
	guide, before := make([]uint8, guideCells), 0
	for c, n := range in {
		if n > 15 {
			return s
		}
		s.many = s.many || n > 3
		guide[c] = uint8(before)
		before += n
	}
	s.guide = guide
	return s
}

// cell is the cell of a number. It never falls when x rises, whatever rounding does: so a bound in an earlier cell than x is
// less than x, and one in a later cell is greater.
func (s *searcher) cell(x float64) int {
	y := (x - s.low) * s.scale
	if !(y > 0) { // NaN too
		return 0
	}
	if y >= guideCells {
		return guideCells - 1
	}
	return int(y)
}

// find writes the bin of every x: how many bounds are less than it, or missing where x is NaN.
func (s *searcher) find(xs []float64, out []uint8, missing uint8) {
	out = out[:len(xs)]
	switch {
	case s.guide == nil:
		s.findEverywhere(xs, out)
	case s.many:
		for i, x := range xs {
			out[i] = uint8(s.step(s.step(uint64(s.guide[s.cell(x)]), ordered(x), 4), ordered(x), 1))
		}
	default:
		for i, x := range xs {
			out[i] = uint8(s.step(uint64(s.guide[s.cell(x)]), ordered(x), 1))
		}
	}
	for i, x := range xs {
		if x != x {
			out[i] = missing
		}
	}
}

// step moves p on by so many times stride, up to 3, as the bounds stride apart behind p are less than key.
func (s *searcher) step(p, key, stride uint64) uint64 {
	_, a := bits.Sub64(s.table[(p+stride-1)&511], key, 0)
	_, b := bits.Sub64(s.table[(p+2*stride-1)&511], key, 0)
	_, c := bits.Sub64(s.table[(p+3*stride-1)&511], key, 0)
	return p + (a+b+c)*stride
}

// findEverywhere divides all bounds in four at each step.
func (s *searcher) findEverywhere(xs []float64, out []uint8) {
	for i, x := range xs {
		key := ordered(x)
		p := uint64(0)
		if s.bounds > 63 {
			p = s.step(p, key, 64)
		}
		if s.bounds > 15 {
			p = s.step(p, key, 16)
		}
		if s.bounds > 3 {
			p = s.step(p, key, 4)
		}
		out[i] = uint8(s.step(p, key, 1))
	}
}
