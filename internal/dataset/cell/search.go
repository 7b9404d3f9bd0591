package cell

import (
	"math"
	"math/bits"
	"sort"

	"coppice/internal/exact"
)

// Searcher finds bins: for every number the first bound that is not less. The range of the bounds is divided into 4,096
// cells, for each of which guide says how many bounds are in earlier cells. Only the bounds in a number's own cell,
// usually at most one, are compared with it, and without a branch that the processor would often mispredict. A Searcher
// is safe for concurrent use.
type Searcher struct {
	bounds int
	table  [258]float64 // the bounds, then infinity: lookups read up to two beyond 256
	cells  cells
	guide  *[guideCells]uint8 // by cell, the number of bounds in earlier cells; nil if a cell has too many
	inCell int                // most bounds in one cell
	keys   []uint64           // without a guide: the table as integers in the same order
}

// guideCells is the number of cells. The guide has a byte for each, about a tenth of a first-level cache.
const guideCells = 4096

// maxInCell is the most bounds in a cell, since advance compares a number with three bounds.
const maxInCell = 3

// cells divide the range of numbers. A larger number is never in an earlier cell, even with rounding. So a bound in an
// earlier cell than x is less than x, and one in a later cell is greater.
type cells struct {
	byBits bool // cells of equal width in the number's bits, which is nearly its logarithm, instead of in the number

	scale  float64 // cells per unit
	offset float64 // cell of 0

	low   int64 // bits of the first number in the first cell
	shift uint
}

// NewSearcher returns a Searcher for bounds, at most 254 of them, which are finite and ascending.
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

// chooseCells sets s.cells, s.guide and s.inCell to the cells with the fewest bounds in any one of them. If no cells
// have fewer than s.inCell, which the caller sets to one more than allowed, the guide stays nil.
func (s *Searcher) chooseCells() {
	bounds := s.table[:s.bounds]
	try := func(c cells) {
		if guide, inCell := c.countBounds(bounds); inCell < s.inCell {
			s.cells, s.guide, s.inCell = c, guide, inCell
		}
	}

	// One or two bounds may be far from all others, such as numbers that stand for missing values (-999). Cells of
	// equal width are then better without these, so try to leave out up to two at each end.
	// One bound in a cell is the best that there is, so stop there.
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

// evenCells returns cells of equal widths. An eighth of them is on each side of the bounds, where many numbers may be.
// Around a single bound they have the width 1.
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

// bitCells returns cells of equal width in the bits of numbers: they are narrow near zero and wide far from it. The
// width is the least power of two for which guideCells of them reach the last bound.
func bitCells(bounds []float64) cells {
	c := cells{byBits: true, low: signedBits(bounds[0])}
	for uint64(signedBits(bounds[len(bounds)-1])-c.low)>>c.shift >= guideCells {
		c.shift++
	}
	return c
}

// signedBits maps floats to integers in the same order. The bits of a negative float grow as it gets smaller, so all of
// them but the sign are inverted.
func signedBits(x float64) int64 {
	b := int64(math.Float64bits(x))
	return b ^ int64(uint64(b>>63)>>1)
}

// evenCell returns the cell of x among cells of equal width, as a float64. It may be below 0, or guideCells and above.
// The conversion to float64 prevents a fused multiply-add, so that bounds and numbers are rounded alike on every
// processor.
func evenCell(x, scale, offset float64) float64 { return float64(x*scale) + offset }

// countBounds returns the guide for these cells, and the most bounds in any one of them. If bounds are so near each
// other that the scale of the cells is infinite, the guide is nil and the most is more than allowed.
func (c *cells) countBounds(bounds []float64) (*[guideCells]uint8, int) {
	var in [guideCells]int
	before, most := 0, 0
	for _, b := range bounds {
		if c.byBits {
			in[uint64(signedBits(b)-c.low)>>c.shift]++ // within guideCells, by the choice of bitCells
			continue
		}
		switch z := evenCell(b, c.scale, c.offset); {
		case z >= 0 && z < guideCells:
			in[int(z)]++
		case z < 0:
			before++
		case z != z: // NaN, from an infinite scale
			return nil, maxInCell + 1
		}
	}

	// Bounds after the last cell are in no count, as they are less than no number in a cell.

	guide := new([guideCells]uint8)
	for i, n := range in {
		guide[i] = uint8(before)
		before += n
		most = max(most, n)
	}

	return guide, most
}

// Find writes the bin of every x to out: the number of bounds less than it, or missing if x is NaN.
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

// findEvenly is Find for cells of equal width, the case of most columns. Like the other loops, it copies what it needs
// of s to local variables, so that they stay in registers.
func (s *Searcher) findEvenly(xs []float64, out []uint8, missing uint8) {
	guide, table, scale, offset := s.guide, &s.table, s.cells.scale, s.cells.offset
	out = out[:len(xs)]
	for i, x := range xs {
		z := evenCell(x, scale, offset)
		if !(z >= 0 && z < guideCells) {
			out[i] = s.outside(x, missing)
			continue
		}
		// The remainder is z itself; with it the compiler needs no check that the index is in the array. The conversion
		// by way of int64 is a single instruction.
		out[i] = advance(guide[uint(int64(z))%guideCells], x, table)
	}
}

// findByBits is Find for cells of equal width in the bits of numbers. The &63 changes nothing: it tells the compiler
// that a shift is less than the width of a word.
func (s *Searcher) findByBits(xs []float64, out []uint8, missing uint8) {
	guide, table, first, low, shift := s.guide, &s.table, s.table[0], s.cells.low, s.cells.shift&63
	out = out[:len(xs)]
	for i, x := range xs {
		cell := uint64(signedBits(x)-low) >> shift
		if !(x >= first) || cell >= guideCells { // true for NaN as well
			out[i] = s.outside(x, missing)
			continue
		}
		out[i] = advance(guide[cell], x, table)
	}
}

// outside returns the bin of a number that is in no cell, or missing for NaN. There may also be bounds outside of the
// cells, which chooseCells has left out, so such a number is searched for among all bounds. There is at least one.
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

// advance returns p, the number of bounds in earlier cells, plus how many of the next three bounds are less than x.
// That is x's bin: a cell has at most three bounds, and those of later cells are not less.
func advance(p uint8, x float64, table *[258]float64) uint8 {
	at := uint(p)
	return p + isAbove(x, table[at]) + isAbove(x, table[at+1]) + isAbove(x, table[at+2])
}

// isAbove returns 1 if x > bound, else 0. The compiler makes it a comparison without a branch.
func isAbove(x, bound float64) uint8 {
	if x > bound {
		return 1
	}
	return 0
}

// findEverywhere is Find without a guide: it searches all bounds, of which a quarter remain after each of four steps.
func (s *Searcher) findEverywhere(xs []float64, out []uint8, missing uint8) {
	if s.bounds == 0 {
		clear(out[:len(xs)]) // every number is in bin 0
	}
	for i, x := range xs {
		switch {
		case x != x:
			out[i] = missing
		case s.bounds > 0:
			// The table is filled up with infinity, so there are 256 bounds: four times 64.
			key, p := exact.Ordered(x), uint64(0)

			// a, b and c are 1 if the bound at the end of the first, second and third quarter is less than x.
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
