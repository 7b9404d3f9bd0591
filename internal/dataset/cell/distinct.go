package cell

import (
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/exact"
)

// Distinct is a number and how many rows have it.
type Distinct struct {
	X float64
	N int
}

// Counter counts the distinct numbers of one column after another, reusing its memory.
type Counter struct {
	keys, spare []uint64
	all         []Distinct
}

// Count returns the distinct numbers that are not NaN, ascending, with infinities clamped to the float64 range. rows is
// their total count. The slice is valid until the next call.
func (c *Counter) Count(numbers []float64) (all []Distinct, rows int) {
	keys := slices.Grow(c.keys[:0], len(numbers))
	for _, x := range numbers {
		if x == x { // not NaN
			keys = append(keys, exact.Ordered(Clamp(x)))
		}
	}

	c.keys = keys
	c.sort(keys)

	all = c.all[:0]
	for from := 0; from < len(keys); {
		to := from + 1
		for to < len(keys) && keys[to] == keys[from] {
			to++
		}
		all = append(all, Distinct{exact.FromOrdered(keys[from]), to - from})
		from = to
	}

	c.all = all
	return all, len(keys)
}

// Sort sorts finite numbers in place. -0 becomes 0.
func (c *Counter) Sort(numbers []float64) {
	c.keys = dataset.Resize(c.keys, len(numbers))
	for i, x := range numbers {
		c.keys[i] = exact.Ordered(x)
	}
	c.sort(c.keys)
	for i, key := range c.keys {
		numbers[i] = exact.FromOrdered(key)
	}
}

// Keys are first radix sorted by their upper 33 bits, eleven at a time: sign, exponent and the beginning of the
// fraction, which distinguish most numbers. Those that differ only in lower bits are then neighbours.
const (
	digitBits = 11
	digits    = 3
	lowBits   = 64 - digits*digitBits
)

// sort sorts keys in place. Few of them are sorted by comparison, which is faster then.
func (c *Counter) sort(keys []uint64) {
	if len(keys) < 1024 {
		slices.Sort(keys)
		return
	}

	// Count how often each digit has each value.
	var counts [digits][1 << digitBits]uint32
	for _, k := range keys {
		counts[0][k>>lowBits%(1<<digitBits)]++
		counts[1][k>>(lowBits+digitBits)%(1<<digitBits)]++
		counts[2][k>>(lowBits+2*digitBits)]++
	}

	c.spare = dataset.Resize(c.spare, len(keys))
	// Distribute the keys by one digit after the other, the lowest first, between two slices.
	from, to := keys, c.spare
	for d := range digits {
		shift := lowBits + d*digitBits
		starts := &counts[d]
		if int(starts[keys[0]>>shift%(1<<digitBits)]) == len(keys) {
			continue // the same digit everywhere: the order would stay
		}

		// Turn counts into where the keys with each value begin.
		sum := uint32(0)
		for i, n := range starts {
			starts[i], sum = sum, sum+n
		}

		for _, k := range from {
			digit := k >> shift % (1 << digitBits)
			to[starts[digit]] = k
			starts[digit]++
		}
		from, to = to, from
	}

	if &from[0] != &keys[0] { // the last digit was distributed into the spare slice
		copy(keys, from)
	}
	sortNeighbours(keys)
}

// sortNeighbours completes the order of keys that are sorted by all but their lowBits.
func sortNeighbours(keys []uint64) {
	for i := 1; i < len(keys); i++ {
		if keys[i] >= keys[i-1] {
			continue
		}

		// Find all keys with the same upper bits, and sort them.
		top := keys[i] >> lowBits
		from, to := i-1, i+1
		for from > 0 && keys[from-1]>>lowBits == top {
			from--
		}
		for to < len(keys) && keys[to]>>lowBits == top {
			to++
		}

		slices.Sort(keys[from:to])
		i = to
	}
}

// Median returns the lower of the two middle numbers, of rows numbers in all; NaN if there are none.
func Median(all []Distinct, rows int) float64 {
	before := 0
	for _, d := range all {
		before += d.N
		if before > (rows-1)/2 {
			return d.X
		}
	}
	return math.NaN()
}
