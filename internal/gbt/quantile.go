package gbt

import (
	"math"
	"math/bits"
	"slices"

	"coppice/internal/exact"
)

// residual is the residual of one row, its label less its raw score, and the row's weight.
type residual struct {
	key    uint64  // exact.Ordered of the residual: an integer that sorts like it
	weight float64 // only its whole part is counted
}

// byteValues is how many values a byte of a key has.
const byteValues = 256

// selectKeys finds a weighted quantile of each of several sets. Every worker of a team passes its own part of each set,
// and all get the same result. If a set's residuals are sorted and their weights added up, keys has the first key at
// which the sum exceeds the set's limit, and before has the sum of all smaller keys. limit returns the limit of a set
// from its total weight, and must be less than that.
//
// It is a radix selection, from the highest byte of the key to the lowest: the weights of all values of the next byte
// are added up over all workers, which tells that byte of the result; then only residuals with this byte remain. So it
// takes eight exchanges in a team. The sets are reordered.
func (l *link) selectKeys(sets [][]residual, pool *pool, limit func(all int64) int64) (keys []uint64, before []int64) {
	keys, before = make([]uint64, len(sets)), make([]int64, len(sets))
	limits := make([]int64, len(sets))
	rest := slices.Clone(sets) // of each set, the residuals whose key begins like the result

	// The weights by next byte, of as many sets as one exchange takes.
	const atOnce = mostWords / byteValues
	words := make([]int64, byteValues*min(len(sets), atOnce))
	for shift := 56; shift >= 0; shift -= 8 {
		for first := 0; first < len(sets); first += atOnce {
			n := min(len(sets)-first, atOnce)

			// Add up the weight of each value of the next byte, then over all workers.
			sums := words[:byteValues*n]
			clear(sums)
			pool.parallel(n, 1, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					weights := (*[byteValues]int64)(sums[byteValues*i:])
					for _, x := range rest[first+i] {
						weights[byte(x.key>>shift)] += int64(x.weight)
					}
				}
			})
			l.sumWords(sums)

			// Choose the byte of each set in which its limit is exceeded.
			pool.parallel(n, 1, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					s, weights := first+i, sums[byteValues*i:][:byteValues]
					if shift == 56 { // the first byte: these are all residuals of the set
						limits[s] = limit(total(weights))
					}
					// If only one residual is left, as is soon the case in small leaves, the result is its key:
					// keys has the bytes down to this one. No other is left that could add to before. In a team
					// other workers may have more of them.
					if l == nil && len(rest[s]) == 1 {
						keys[s] = rest[s][0].key >> shift
						continue
					}
					b, sum := 0, before[s]
					for ; b < byteValues-1 && sum+weights[b] <= limits[s]; b++ {
						sum += weights[b]
					}
					keys[s], before[s] = keys[s]<<8|uint64(b), sum
					rest[s] = withByte(rest[s], shift, byte(b))
				}
			})
		}
	}
	return keys, before
}

func total(words []int64) (sum int64) {
	for _, w := range words {
		sum += w
	}
	return sum
}

// withByte returns the residuals whose key has the byte b at bit shift. It moves them to the front of all.
func withByte(all []residual, shift int, b byte) []residual {
	n := 0
	for i, x := range all {
		if byte(x.key>>shift) == b {
			all[i], all[n] = all[n], x
			n++
		}
	}
	return all[:n]
}

// plainQuantiles returns the quantile at level of each set of residuals, all of which have weight 1. size is how many
// residuals each set has in all workers together. Like LightGBM's PercentileFun, it interpolates between the two
// residuals on either side of the place (1 - level) x size, counted from the greatest one down.
func (l *link) plainQuantiles(sets [][]residual, size []int, level float64, pool *pool) []float64 {
	place := func(n int64) (at float64, i int64) {
		at = float64((1 - level) * float64(n))
		return at, int64(at)
	}

	// The i-th greatest residual, at least the first: the sum of weights exceeds n-i there, in ascending order.
	keys, before := l.selectKeys(sets, pool, func(n int64) int64 {
		_, i := place(n)
		return n - min(max(i, 1), n)
	})

	// Its neighbour: the greatest residual that is less.
	values, below := make([]float64, len(sets)), make([]*float64, len(sets))
	pool.parallel(len(sets), 1, func(_, lo, hi int) {
		for s := lo; s < hi; s++ {
			next := exact.Ordered(-inf)
			for _, x := range sets[s] {
				if x.key < keys[s] {
					next = max(next, x.key)
				}
			}
			v := exact.FromOrdered(next)
			below[s] = &v
		}
	})
	l.takeLargest(below...)

	// Interpolate between the two. Only if exactly n-i residuals are smaller is the next one down among them; otherwise
	// it is equal, and there is nothing to interpolate.
	for s := range sets {
		n := int64(size[s])
		values[s] = exact.FromOrdered(keys[s])
		if at, i := place(n); i >= 1 && i < n && before[s] == n-i {
			values[s] -= float64((values[s] - *below[s]) * (at - float64(i)))
		}
	}
	return values
}

// weightedQuantiles returns, for each set, the first residual in ascending order at which the sum of weights exceeds a
// share of the set's total. rows is the number of rows in use in the whole table. The weights are added as integers:
// they are scaled in place by a power of two, such that the sum of as many rows fits an int64.
func (l *link) weightedQuantiles(sets [][]residual, rows int, share float64, pool *pool) []float64 {
	// The largest weight of each set, over all workers.
	heaviest := make([]*float64, len(sets))
	for s, set := range sets {
		w := 0.0
		for _, x := range set {
			w = max(w, x.weight)
		}
		heaviest[s] = &w
	}
	l.takeLargest(heaviest...)

	// Scale the weights: the heaviest is then below 2^62 / rows.
	pool.parallel(len(sets), 1, func(_, lo, hi int) {
		for s := lo; s < hi; s++ {
			_, exponent := math.Frexp(*heaviest[s])
			units := math.Ldexp(1, 62-bits.Len(uint(rows))-exponent)
			for i := range sets[s] {
				if *heaviest[s] == 0 {
					sets[s][i].weight = 1 // no row has a weight: all count alike
				} else {
					sets[s][i].weight *= units
				}
			}
		}
	})

	keys, _ := l.selectKeys(sets, pool, func(total int64) int64 {
		return min(int64(float64(total)*share), total-1)
	})
	values := make([]float64, len(sets))
	for s, k := range keys {
		values[s] = exact.FromOrdered(k)
	}
	return values
}
