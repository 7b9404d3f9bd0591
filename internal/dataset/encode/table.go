package encode

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// table holds the statistics of the levels of one key, for the rows added so far. It is a hash table with open
// addressing and linear probing. Levels are hashes already, so the upper bits of a level are its slot; slots are
// therefore nearly in the order of hashes. All data of a level is together, because a table is usually
// larger than any cache.
type table struct {
	slots []slot
	used  int
	shift int // right shift from a hash to its slot
}

// slot is one level of a table. A free slot has key 0.
type slot struct {
	key    uint64
	n, sum float64 // of the rows processed: sums of weights and of weighted labels
	rows   uint32  // number of rows
	number uint32  // how many levels were added before this one; stays when the table grows
}

// absent is the slot of a level that is not in the table.
const absent = -1

// newTable returns an empty table with room for that many levels.
func newTable(levels int) *table {
	t := &table{}
	t.allocate(slotsFor(levels))
	return t
}

// allocate makes n free slots, where n is a power of two.
func (t *table) allocate(n int) {
	t.slots, t.shift = make([]slot, n), 64-bits.Len(uint(n-1))
}

// slotsFor returns the number of slots for a table of that many levels: a power of two, at least 16, of which at most
// three quarters are used.
func slotsFor(levels int) int { return 1 << max(4, bits.Len(uint(levels+levels/3))) }

// keyOf returns the key of a level: its hash, or 1 if that is 0, since key 0 marks a free slot.
func keyOf(level uint64) uint64 { return max(level, 1) }

// findSlot returns the slot of a level. If the table does not have the level, at is absent, and free is the slot where
// add may put it.
func (t *table) findSlot(level uint64) (at, free int32) {
	key := keyOf(level)
	i := key >> t.shift
	for t.slots[i].key != key {
		if t.slots[i].key == 0 {
			return absent, int32(i)
		}
		i = (i + 1) & uint64(len(t.slots)-1)
	}
	return int32(i), 0
}

// touch reads the slots of the levels that are looked up next, to bring them into the cache. In so short a loop the
// processor overlaps many cache misses, while findSlot would wait for one after the other. The sum has no
// meaning: it only makes the loop read the slots.
func (t *table) touch(levels []uint64) (sum uint64) {
	for _, level := range levels {
		sum += t.slots[keyOf(level)>>t.shift].key
	}
	return sum
}

// add adds a level without rows in the free slot that findSlot returned. The caller has called reserve before.
func (t *table) add(level uint64, at int32) {
	t.slots[at] = slot{key: keyOf(level), number: uint32(t.used)}
	t.used++
}

// reserve makes sure that so many more levels can be added. If that needs more memory, the levels move to other slots.
func (t *table) reserve(more int) {
	n := len(t.slots)
	for 4*(t.used+more) > 3*n {
		n *= 2
	}
	if n == len(t.slots) {
		return
	}

	old := t.slots
	t.allocate(n)
	for _, s := range old {
		if s.key != 0 {
			_, free := t.findSlot(s.key)
			t.slots[free] = s
		}
	}
}

// addRow adds a row to the level's statistics.
func (s *slot) addRow(label, weight float64) {
	s.n += weight
	s.sum += float64(weight * label) // not fused with the sum, so that every processor computes the same bits
	if s.rows < math.MaxUint32 {
		s.rows++
	}
}

// resetStatistics sets the statistics of all levels to no rows. The levels keep their slots and numbers.
func (t *table) resetStatistics() {
	for i := range t.slots {
		s := &t.slots[i]
		s.n, s.sum, s.rows = 0, 0, 0
	}
}

// sorted returns the used slots with at least floor rows, by ascending hash.
func (t *table) sorted(floor int) []int32 {
	out := make([]int32, 0, t.used)
	sortFrom := func(from int) {
		slices.SortFunc(out[from:], func(a, b int32) int { return cmp.Compare(t.slots[a].key, t.slots[b].key) })
	}

	// A level is in its own slot or, if that was taken, in one of the used slots directly after it. So only slots
	// between two free ones need sorting among themselves. Levels that went from the last slots on to the first ones
	// (wrapped) have the highest hashes and belong at the end.
	var wrapped []int32
	from := 0 // out[from:] are the slots since the last free one
	for i := range t.slots {
		s := &t.slots[i]
		switch {
		case s.key == 0:
			sortFrom(from)
			from = len(out)
		case int(s.rows) < floor:
		case s.key>>t.shift > uint64(i):
			wrapped = append(wrapped, int32(i))
		default:
			out = append(out, int32(i))
		}
	}
	out = append(out, wrapped...)
	sortFrom(from)
	return out
}
