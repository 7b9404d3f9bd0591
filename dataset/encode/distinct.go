package encode

import "math/bits"

// Distinct estimates how many levels a stream has, and how many of them have at least so many rows: it counts exactly those
// levels whose hashes end in enough zeros (distinct sampling: Gibbons, VLDB 2001). What it holds in the end does not depend
// on the order of the rows.
type Distinct struct {
	stats map[uint64]slot
	depth int // how many zeros
}

// distinctLevels is how many levels are counted at most: the estimate is then good to some 3 %.
const distinctLevels = 2048

// NewDistinct begins.
func NewDistinct() *Distinct { return &Distinct{stats: map[uint64]slot{}} }

// Wants reports whether the level is one of those that are counted, so far. Only those need be added.
func (d *Distinct) Wants(level uint64) bool { return bits.TrailingZeros64(level) >= d.depth }

// Add counts a row of a level.
func (d *Distinct) Add(level uint64, label, weight float64) {
	s := d.stats[level]
	s.see(label, weight)
	d.stats[level] = s
	for len(d.stats) > distinctLevels {
		d.depth++
		for l := range d.stats {
			if !d.Wants(l) {
				delete(d.stats, l)
			}
		}
	}
}

// Levels is about how many levels have at least floor rows.
func (d *Distinct) Levels(floor int) int {
	n := 0
	for _, s := range d.stats {
		if int(s.rows) >= floor {
			n++
		}
	}
	return n << d.depth
}
