package fit

import (
	"math/rand/v2"

	"coppice/internal/gbt"
)

// oneIn draws one of every `of` neighbouring rows in use: the same rows for every configuration, spread evenly over
// time where rows are in its order.
func oneIn(d *gbt.Data, of int) []uint32 {
	rng := rand.New(rand.NewPCG(uint64(of), 0))
	used := d.Used()
	rows := make([]uint32, 0, (used+of-1)/of)
	for first := 0; first < used; first += of {
		i := first + rng.IntN(min(of, used-first))
		if d.Subset != nil {
			rows = append(rows, d.Subset[i])
			continue
		}
		rows = append(rows, uint32(i))
	}
	return rows
}

// forSample returns the parameters with which a model of one in `of` rows is regularised like one of all: what is
// counted or summed up over rows shrinks with them.
func forSample(p gbt.Params, of int) gbt.Params {
	n := float64(of)
	fewest := 1
	if p.PathSmooth > 0 {
		fewest = 2 // the trainer asks for it
	}
	p.MinDataInLeaf = max(fewest, p.MinDataInLeaf/of)
	p.MinDataPerGroup = max(1, p.MinDataPerGroup/of)

	for _, v := range []*float64{&p.MinSumHessian, &p.LambdaL1, &p.LambdaL2, &p.MinGainToSplit, &p.CatSmooth, &p.CatL2,
		&p.PathSmooth} {
		*v /= n
	}
	return p
}
