package search

import (
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"
)

// maxHalton bounds the sequence for one search: later trials are drawn at random.
const maxHalton = 1 << 10

// maxHaltonAxes is how many axes the library's sequence supports.
const maxHaltonAxes = 1000

// spread returns the first points of a randomized Halton sequence (Owen 2017), which fill the space more evenly than random ones. Point i
// does not depend on the number of points.
func spread(seed uint64, points, dims int) *mat.Dense {
	out := mat.NewDense(points, dims, nil)
	const golden = 0x9e3779b97f4a7c15
	samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(dims, nil), Src: rand.NewPCG(seed, golden)}.Sample(out)
	return out
}

// fromHalton returns the next point of the sequence: trial n takes point n or, if that may not be proposed, one far from it.
func (a *asker) fromHalton(why string) *proposal {
	if a.next >= maxHalton || len(a.axes) > maxHaltonAxes {
		return a.fromRandom()
	}
	if a.spread == nil {
		a.spread = spread(a.Seed, maxHalton, len(a.axes))
	}

	const stride = 613 // visits all points
	for i := range attempts {
		at := a.spread.RawRowView((a.next + i*stride) % maxHalton)
		if params := a.config(at); a.usable(params) {
			return &proposal{params, SourceHalton, why}
		}
	}
	return a.fromRandom() // constraints leave fewer points than trials
}
