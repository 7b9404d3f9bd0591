package conclude

import (
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset/encode"
)

// prints are hashes of the values of a night's test rows, by column, in the order of the rows; "" has the labels.
type prints map[string][]uint32

// prints hashes the labels and the first goneColumns columns of the rows.
func (r *reference) prints() prints {
	p := prints{}
	for _, y := range r.targets.Label {
		p[""] = append(p[""], math.Float32bits(y))
	}
	for k, name := range r.sample.Names[:min(len(r.sample.Names), goneColumns)] {
		for i := range r.sample.Row {
			p[name] = append(p[name], uint32(encode.FNV(r.sample.Columns[k].TextOf(i))))
		}
	}
	return p
}

// sharedBy estimates the share of the rows of p that are also in other, compared by the columns that both have. least
// is four standard errors of that estimate; a share up to least is returned as 0. Both are NaN if one of the two has
// no rows.
//
// Rows of few values are also equal by chance. How often, chance, is estimated by the rows that have an equal one in
// their own table. A share s of common rows and equal ones among the others make up s + (1-s)*chance of the rows, which
// is solved for s. That chance decides on each row is a binomial variance of chance*(1-chance) over the rows, once for
// each table. Divided by 1-chance, as s is, the standard error is sqrt(chance/(1-chance) * (1/a+1/b)).
func (p prints) sharedBy(other prints) (share, least float64) {
	a, b := float64(len(p[""])), float64(len(other[""])) // rows: prints[""] has a hash of each row's label
	if a*b == 0 {
		return math.NaN(), math.NaN()
	}

	// Count the equal rows of each side: 0 is p, 1 is other.
	times := [2]map[uint64]float64{{}, {}}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(p)), func(name string) bool { return other[name] == nil })
	for side, table := range []prints{p, other} {
		for i := range table[""] {
			var row uint64
			for _, name := range names {
				row = encode.Mix(row ^ uint64(table[name][i]))
			}
			times[side][row]++
		}
	}

	// Rows of p that other has, too, and by side the rows that equal another one of their own side.
	both, again := 0.0, [2]float64{}
	for side := range times {
		for row, n := range times[side] {
			if side == 0 && times[1][row] > 0 {
				both += n
			}
			if n > 1 {
				again[side] += n
			}
		}
	}

	// Added rows keep chance above 0 if none of a few rows equals another (Laplace's rule of succession).
	chance := max((again[0]+1)/(a+2), (again[1]+1)/(b+2))
	least = 4 * math.Sqrt(chance/(1-chance)*(1/a+1/b))
	share = (both/a - chance) / (1 - chance)
	if share <= least {
		share = 0
	}
	return share, least
}
