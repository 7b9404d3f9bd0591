package encode

import (
	"math"
	"math/bits"
)

// sketch counts levels in too little memory to keep them apart: levels that share a counter are counted together, so
// that a count may be too high but never too low (a counting Bloom filter with one hash). It identifies the levels that
// may have enough rows for a place in their table, if not all can have one.
type sketch struct {
	counters []uint16
	shift    int
}

// There are about four counters per level, within these bounds.
const (
	minCounters = 1 << 16
	maxCounters = 1 << 27
)

func newSketch(levels int) *sketch {
	n := min(max(1<<bits.Len(uint(4*levels)), minCounters), maxCounters)
	return &sketch{counters: make([]uint16, n), shift: 64 - bits.Len(uint(n-1))}
}

// add counts a row of each level.
func (s *sketch) add(levels []uint64) {
	for _, level := range levels {
		if c := &s.counters[level>>s.shift]; *c < math.MaxUint16 {
			*c++
		}
	}
}

// atLeast reports whether a level may have at least floor rows.
func (s *sketch) atLeast(level uint64, floor int) bool {
	return int(s.counters[level>>s.shift]) >= min(floor, math.MaxUint16)
}
