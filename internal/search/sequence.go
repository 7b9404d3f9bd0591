package search

import (
	"math"
	"math/bits"
	"math/rand/v2"

	library "github.com/c-bata/goptuna/sobol"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"
)

// maxPoints bounds a sequence for one search: later trials are drawn at random.
const maxPoints = 1 << 10

// maxSequenceAxes is how many axes the library's Halton sequence supports; the one for Sobol's supports 21,199.
const maxSequenceAxes = 1000

// sequences fill the space more evenly than random points do. They return their first points, a row each, with a place
// between 0 and 1 on each axis; point i does not depend on the number of points.
var sequences = map[string]func(seed uint64, points, axes int) *mat.Dense{
	SourceHalton: halton,
	SourceSobol:  sobol,
}

// nextPoint is why a search that takes a sequence's points proposes one.
const nextPoint = "the next point of the sequence"

// sequenceStream tells the random bits of a sequence from others of the same seed.
const sequenceStream = 0x9e3779b97f4a7c15

// halton is the randomized Halton sequence (Owen 2017).
func halton(seed uint64, points, axes int) *mat.Dense {
	out := mat.NewDense(points, axes, nil)
	samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(axes, nil),
		Src: rand.NewPCG(seed, sequenceStream)}.Sample(out)
	return out
}

// sobol is Sobol's sequence with the direction numbers of Joe and Kuo (2008) and a random digital shift: on each axis
// the same random bits are flipped in all points, so that of the first 2^k points there is still one in each 2^k-th of
// every axis.
func sobol(seed uint64, points, axes int) *mat.Dense {
	random := rand.New(rand.NewPCG(seed, sequenceStream))
	shift := make([]uint32, axes)
	for j := range shift {
		shift[j] = random.Uint32()
	}

	// The library leaves out the origin, which is the first point, and the second axis: its second is the sequence's
	// third. Without that axis few points of few parameters are spread less evenly.
	engine := library.NewEngine(uint32(max(axes-1, 1)))
	second := uint32(0)
	out := mat.NewDense(points, axes, nil)
	for i := range points {
		at := out.RawRowView(i)
		if i > 0 {
			drawn := engine.Draw()
			at[0] = drawn[0]
			if second ^= secondDirection(bits.TrailingZeros(uint(i))); axes > 1 {
				at[1] = math.Ldexp(float64(second), -32)
				copy(at[2:], drawn[1:])
			}
		}
		for j, place := range at {
			at[j] = math.Ldexp(float64(uint32(math.Ldexp(place, 32))^shift[j]), -32)
		}
	}
	return out
}

// secondDirection returns direction number k of Sobol's second axis, whose primitive polynomial is x + 1.
func secondDirection(k int) uint32 {
	v := uint32(1) << 31
	for range k {
		v ^= v >> 1
	}
	return v
}

// fromPoints returns the next point of a sequence: trial n takes point n or, if that may not be proposed, one far from
// it. One search looks at one sequence.
func (a *asker) fromPoints(source, why string) *proposal {
	if a.next >= maxPoints || len(a.axes) > maxSequenceAxes {
		return a.fromRandom()
	}
	if a.spread == nil {
		a.spread = sequences[source](a.Seed, maxPoints, len(a.axes))
	}

	const stride = 613 // visits all points
	for i := range attempts {
		at := a.spread.RawRowView((a.next + i*stride) % maxPoints)
		if params := a.config(at); a.usable(params) {
			return &proposal{params, source, why}
		}
	}
	return a.fromRandom() // constraints leave fewer points than trials
}
