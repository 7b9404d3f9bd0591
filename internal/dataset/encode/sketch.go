package encode

import (
	"math"
	"math/bits"
)

// sketch counts the rows of levels approximately, in a fixed number of counters. Levels that share a counter are
// counted together, so a count may be too high but never too low (a counting Bloom filter with one hash). If not all
// levels can have a place in their table, it tells which ones may have enough rows for one.
type sketch struct {
	counters []uint16
	shift    int // right shift from a level's hash to its counter
}

// There are four to eight counters per level, as many as a power of two gives, within these bounds.
const (
	minCounters = 1 << 16
	maxCounters = 1 << 27
)

// newSketch returns a sketch without rows, for about that many levels.
func newSketch(levels int) *sketch {
	n := min(max(1<<bits.Len(uint(4*levels)), minCounters), maxCounters)
	return &sketch{counters: make([]uint16, n), shift: 64 - bits.Len(uint(n-1))}
}

// add counts one row of each of the levels.
func (s *sketch) add(levels []uint64) {
	for _, level := range levels {
		if c := &s.counters[level>>s.shift]; *c < math.MaxUint16 {
			*c++
		}
	}
}

// atLeast reports whether a level may have at least floor rows. Counters stop at 65,535, so with a higher floor it also
// says so of some levels with fewer rows.
func (s *sketch) atLeast(level uint64, floor int) bool {
	return int(s.counters[level>>s.shift]) >= min(floor, math.MaxUint16)
}
