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
