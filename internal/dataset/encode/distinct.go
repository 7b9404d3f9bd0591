package encode

import "math/bits"

// DistinctCount estimates how many levels a stream of rows has, and how many of them have a minimum number of rows. It
// counts exactly those levels whose hashes end in depth zeros, which are one in 2^depth (distinct sampling: Gibbons,
// VLDB 2001). When these are too many, depth grows. The final state does not depend on the order of the rows.
type DistinctCount struct {
	table *table
	depth int // required number of trailing zeros
}

// distinctLevels is the most levels counted. At least about half as many remain, so that the estimate is accurate to
// some 3 %, one over the square root of 1,024.
const distinctLevels = 2048

// NewDistinct returns a DistinctCount without levels.
func NewDistinct() *DistinctCount { return &DistinctCount{table: newTable(0)} }

// Wants reports whether the level is one of those counted. Rows of other levels must not be added.
func (d *DistinctCount) Wants(level uint64) bool { return bits.TrailingZeros64(level) >= d.depth }

// Add counts a row of a level that d Wants.
func (d *DistinctCount) Add(level uint64, label, weight float64) {
	at, _ := d.table.findSlot(level)
	if at == absent {
		d.table.reserve(1)
		_, at = d.table.findSlot(level)
		d.table.add(level, at)
	}
	d.table.slots[at].addRow(label, weight)

	// If there are too many levels, require another zero: about half of them are dropped and never counted again.
	for d.table.used > distinctLevels {
		d.depth++
		kept := newTable(d.table.used / 2)
		for _, s := range d.table.slots {
			if s.key != 0 && d.Wants(s.key) {
				kept.reserve(1)
				_, free := kept.findSlot(s.key)
				kept.slots[free] = s // with its old number, which nothing here uses
				kept.used++
			}
		}
		d.table = kept
	}
}

// Levels estimates how many levels have at least floor rows: each counted level stands for 2^depth.
func (d *DistinctCount) Levels(floor int) int {
	n := 0
	for i := range d.table.slots {
		if s := &d.table.slots[i]; s.key != 0 && int(s.rows) >= floor {
			n++
		}
	}
	return n << d.depth
}

// All reports whether all levels have been counted, so that Levels is exact.
func (d *DistinctCount) All() bool { return d.depth == 0 }
