package gbt

import (
	"math"
	"math/bits"
	"slices"

	"coppice/internal/exact"
)

// residual is a number of a row, such as its label less its raw score, and what the row counts for.
type residual struct {
	key    uint64  // in the order of the numbers
	weight float64 // counted without its fraction
}

// byteValues is how many values a byte of a key has.
const byteValues = 256

// choose returns, for each of several sets of which every worker has a part, the least key with which more than a limit
// of the set's weight is reached, and the weight before it. limit returns that of a set by its total weight, and is
// less. Keys are found byte by byte, by the weights of the values that the next byte has, in eight exchanges; choose
// reorders the sets.
func (l *link) choose(sets [][]residual, pool *pool, limit func(total int64) int64) (keys []uint64, before []int64) {
	keys, before = make([]uint64, len(sets)), make([]int64, len(sets))
	limits := make([]int64, len(sets))
	rest := slices.Clone(sets) // those with the key's first bytes
	const most = mostWords / byteValues
	words := make([]int64, byteValues*min(len(sets), most))
	for shift := 56; shift >= 0; shift -= 8 {
		for first := 0; first < len(sets); first += most {
			n := min(len(sets)-first, most)
			sums := words[:byteValues*n]
			clear(sums)
			pool.parallel(n, 1, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					of := (*[byteValues]int64)(sums[byteValues*i:])
					for _, x := range rest[first+i] {
						of[byte(x.key>>shift)] += int64(x.weight)
					}
				}
			})
			l.sumWords(sums)
			pool.parallel(n, 1, func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					s, of := first+i, sums[byteValues*i:][:byteValues]
					if shift == 56 {
						limits[s] = limit(total(of))
					}
					if l == nil && len(rest[s]) == 1 { // as soon in small leaves
						keys[s] = rest[s][0].key >> shift
						continue
					}
					b, sum, limit := 0, before[s], limits[s]
					for ; b < byteValues-1 && sum+of[b] <= limit; b++ {
						sum += of[b]
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

// withByte moves the residuals with a byte of their key to the front, and returns them.
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

// plainQuantiles returns quantiles of sets of equal weights, of which all workers together have so many: each
// interpolates between the two neighbours where the level is, counted from the greatest down, as LightGBM's
// PercentileFun.
func (l *link) plainQuantiles(sets [][]residual, size []int, level float64, pool *pool) []float64 {
	place := func(n int64) (at float64, i int64) {
		at = float64((1 - level) * float64(n))
		return at, int64(at)
	}
	keys, before := l.choose(sets, pool, func(n int64) int64 {
		_, i := place(n)
		return n - min(max(i, 1), n)
	})

	values, below := make([]float64, len(sets)), make([]*float64, len(sets))
	pool.parallel(len(sets), 1, func(_, lo, hi int) {
		for s := lo; s < hi; s++ {
			least := exact.Ordered(-inf)
			for _, x := range sets[s] {
				if x.key < keys[s] {
					least = max(least, x.key)
				}
			}
			v := exact.FromOrdered(least)
			below[s] = &v
		}
	})
	l.takeLargest(below...)

	for s := range sets {
		n := int64(size[s])
		values[s] = exact.FromOrdered(keys[s])
		if at, i := place(n); i >= 1 && i < n && before[s] == n-i { // else its neighbour is as great
			values[s] -= float64((values[s] - *below[s]) * (at - float64(i)))
		}
	}
	return values
}

// weightedQuantiles returns for each set the least number up to which more than a share of the set's weight is reached.
// It scales the weights, which are then added as integers, by a power of two such that the sum of all workers' rows
// fits an int64.
func (l *link) weightedQuantiles(sets [][]residual, rows int, share float64, pool *pool) []float64 {
	heaviest := make([]*float64, len(sets))
	for s, set := range sets {
		w := 0.0
		for _, x := range set {
			w = max(w, x.weight)
		}
		heaviest[s] = &w
	}
	l.takeLargest(heaviest...)
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
	keys, _ := l.choose(sets, pool, func(total int64) int64 {
		return min(int64(float64(total)*share), total-1)
	})
	values := make([]float64, len(sets))
	for s, k := range keys {
		values[s] = exact.FromOrdered(k)
	}
	return values
}
