package cell

import (
	"math"
	"math/bits"
	"sort"

	"coppice/internal/exact"
)

// Searcher finds bins: for every number the first bound that is not less. The range of the bounds is divided into some
// thousand cells. A guide holds the number of bounds in earlier cells; the bounds in a number's own cell, usually at
// most one, are compared. No branch there is often mispredicted.
type Searcher struct {
	bounds int
	table  [258]float64 // the bounds, then infinity: lookups read up to two beyond 256
	cells  cells
	guide  *[guideCells]uint8 // by cell, the number of bounds in earlier cells; nil if a cell has too many
	inCell int                // most bounds in one cell
	keys   []uint64           // without a guide: the table as ordered integers
}

// guideCells is the number of cells: the guide takes a tenth of the first-level cache.
const guideCells = 4096

// maxInCell is the number of bounds per cell up to which they are compared one by one.
const maxInCell = 3

// cells divide the numbers, monotonically even under rounding: a larger number is never in an earlier cell, so a bound
// in an earlier cell than x is less than x, and one in a later cell is greater.
type cells struct {
	byBits bool // cells of equal width in the number's bits, which is nearly its logarithm, instead of in the number

	scale  float64 // cells per unit
	offset float64 // cell of 0

	low   int64 // bits of the first number in the first cell
	shift uint
}

// NewSearcher takes at most 254 bounds, finite and ascending.
func NewSearcher(bounds []float64) Searcher {
	s := Searcher{bounds: len(bounds)}
	for i := range s.table {
		s.table[i] = math.Inf(1)
		if i < len(bounds) {
			s.table[i] = bounds[i] + 0 // -0 becomes 0
		}
	}

	if len(bounds) == 0 {
		return s
	}
	s.inCell = maxInCell + 1
	s.chooseCells()
	if s.guide == nil {
		s.keys = make([]uint64, len(s.table))
		for i, b := range s.table {
			s.keys[i] = exact.Ordered(b)
		}
	}

	return s
}

// chooseCells picks the cells with the fewest bounds in any one of them. Occasionally one or two bounds are far from
// all others, as numbers are that stand for missing values, such as -999; cells are then better chosen without these.
func (s *Searcher) chooseCells() {
	bounds := s.table[:s.bounds]
	try := func(c cells) {
		if guide, inCell := c.countBounds(bounds); inCell < s.inCell {
			s.cells, s.guide, s.inCell = c, guide, inCell
		}
	}

	const far = 2
	for below := 0; below <= far; below++ {
		for above := 0; above <= far; above++ {
			if below+above < len(bounds) && s.inCell > 1 {
				try(evenCells(bounds[below : len(bounds)-above]))
			}
		}
	}

	if s.inCell > 1 {
		try(bitCells(bounds))
	}
}

// evenCells have equal widths. They extend somewhat beyond the bounds, where many numbers may be, too.
func evenCells(bounds []float64) cells {
	first, last := bounds[0], bounds[len(bounds)-1]
	const margin = guideCells / 8
	c := cells{scale: 1}
	if len(bounds) > 1 {
		c.scale = (guideCells - 2*margin) / (last - first)
	}
	c.offset = margin - first*c.scale
	return c
}

// bitCells are narrow near zero and wide far from it.
func bitCells(bounds []float64) cells {
	c := cells{byBits: true, low: signedBits(bounds[0])}
	for uint64(signedBits(bounds[len(bounds)-1])-c.low)>>c.shift >= guideCells {
		c.shift++
	}
	return c
}

// signedBits maps numbers to integers with the same order.
func signedBits(x float64) int64 {
	b := int64(math.Float64bits(x))
	return b ^ int64(uint64(b>>63)>>1)
}

// even is x's cell for cells of equal width, as a float64; it may be below 0 or from guideCells on. The conversion
// around the product prevents a fused multiply-add, so that bounds and numbers are rounded alike.
func even(x, scale, offset float64) float64 { return float64(x*scale) + offset }

// countBounds counts the bounds before each cell, at most 254, and returns the most in any one cell. For cells that are
// of no use, because their width is not a number, that is more than any search allows.
func (c *cells) countBounds(bounds []float64) (*[guideCells]uint8, int) {
	var in [guideCells]int
	before, most := 0, 0
	for _, b := range bounds {
		if c.byBits {
			in[uint64(signedBits(b)-c.low)>>c.shift]++
			continue
		}
		switch z := even(b, c.scale, c.offset); {
		case z >= 0 && z < guideCells:
			in[int(z)]++
		case z < 0:
			before++
		case z != z: // NaN, from cells of no width; behind the last cell no count is needed
			return nil, maxInCell + 1
		}
	}

	guide := new([guideCells]uint8)
	for i, n := range in {
		guide[i] = uint8(before)
		before += n
		most = max(most, n)
	}

	return guide, most
}

// Find writes the bin of every x: the number of bounds less than it, or missing if x is NaN.
func (s *Searcher) Find(xs []float64, out []uint8, missing uint8) {
	switch {
	case s.guide == nil:
		s.findEverywhere(xs, out, missing)
	case s.cells.byBits:
		s.findByBits(xs, out, missing)
	default:
		s.findEvenly(xs, out, missing)
	}
}

// The loops below copy what they need of s to local variables, to keep it in registers.

// findEvenly is the case of most columns: cells of equal width, with up to three bounds in one.
func (s *Searcher) findEvenly(xs []float64, out []uint8, missing uint8) {
	guide, table, scale, offset := s.guide, &s.table, s.cells.scale, s.cells.offset
	out = out[:len(xs)]
	for i, x := range xs {
		z := even(x, scale, offset)
		if !(z >= 0 && z < guideCells) {
			out[i] = s.outside(x, missing)
			continue
		}
		out[i] = three(guide[uint(int64(z))%guideCells], x, table)
	}
}

// findByBits is the case of cells by the bits of a number, with up to three bounds in one.
func (s *Searcher) findByBits(xs []float64, out []uint8, missing uint8) {
	guide, table, first, low, shift := s.guide, &s.table, s.table[0], s.cells.low, s.cells.shift&63
	out = out[:len(xs)]
	for i, x := range xs {
		cell := uint64(signedBits(x)-low) >> shift
		if !(x >= first) || cell >= guideCells { // true for NaN as well
			out[i] = s.outside(x, missing)
			continue
		}
		out[i] = three(guide[cell], x, table)
	}
}

// outside returns the bin of a number outside all cells.
func (s *Searcher) outside(x float64, missing uint8) uint8 {
	switch {
	case x != x:
		return missing
	case x <= s.table[0]:
		return 0
	case x > s.table[s.bounds-1]:
		return uint8(s.bounds)
	}
	return uint8(sort.SearchFloat64s(s.table[:s.bounds], x))
}

// three advances p by as many of the next three bounds as are less than x.
func three(p uint8, x float64, table *[258]float64) uint8 {
	at := uint(p)
	return p + above(x, table[at]) + above(x, table[at+1]) + above(x, table[at+2])
}

// above is 1 if x > bound. The compiler makes it a comparison without a branch.
func above(x, bound float64) uint8 {
	if x > bound {
		return 1
	}
	return 0
}

// findEverywhere searches all bounds, dividing by four at each step. Comparisons are added up as the borrows of
// subtractions.
func (s *Searcher) findEverywhere(xs []float64, out []uint8, missing uint8) {
	if s.bounds == 0 {
		clear(out[:len(xs)])
	}
	for i, x := range xs {
		switch {
		case x != x:
			out[i] = missing
		case s.bounds > 0:
			key, p := exact.Ordered(x), uint64(0)
			for stride := uint64(64); stride > 0; stride /= 4 {
				_, a := bits.Sub64(s.keys[p+stride-1], key, 0)
				_, b := bits.Sub64(s.keys[p+2*stride-1], key, 0)
				_, c := bits.Sub64(s.keys[p+3*stride-1], key, 0)
				p += (a + b + c) * stride
			}
			out[i] = uint8(p)
		}
	}
}
