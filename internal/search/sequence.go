package search

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"

	"coppice/internal/sweep"
)

const (
	// maxPoints bounds a sequence for one search: later trials are drawn at random.
	maxPoints = 1 << 10
	// maxSequenceAxes is how many axes the library's sequence supports.
	maxSequenceAxes = 1000
	// sequenceStream tells the random bits of a sequence from others of the same seed.
	sequenceStream = 0x9e3779b97f4a7c15
)

// halton returns the first points of the randomized Halton sequence (Owen 2017), [points x axes], with coordinates from
// 0 to below 1. They fill the space more evenly than random points do. Point i depends on the seed and the number of
// axes, but not on the number of points.
func halton(seed uint64, points, axes int) *mat.Dense {
	out := mat.NewDense(points, axes, nil)
	samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(axes, nil),
		Src: rand.NewPCG(seed, sequenceStream)}.Sample(out)
	return out
}

// fromHalton proposes a point of the Halton sequence: trial n takes point n or, if that may not be proposed, another
// one far from it, which later trials are not likely to take. It draws at random for trials after the last point, in a
// space with too many axes for the sequence or none, and if no point is usable. why is the suggestion's reason.
func (a *asker) fromHalton(why string) *Suggestion {
	if a.next >= maxPoints || len(a.axes) == 0 || len(a.axes) > maxSequenceAxes {
		return a.fromRandom()
	}
	if a.spread == nil {
		a.spread = halton(a.Seed, maxPoints, len(a.axes))
	}

	const stride = 613 // odd, so that it visits all points, whose number is a power of 2
	for i := range maxPoints {
		at := a.spread.RawRowView((a.next + i*stride) % maxPoints)
		if params := a.config(at); a.usable(params) {
			return suggest(sweep.MethodHalton, params, "%s", why)
		}
	}
	return a.fromRandom() // constraints, and trials before, leave no point
}
