package encode

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// table holds the statistics of the levels of one key, for the rows processed so far. It is a hash table with open
// addressing; a level is already a hash and is not hashed again. All data of a level is together, because a table is
// usually larger than any cache. A slot is the upper bits of the hash, so slots are nearly in the order of hashes.
type table struct {
	slots []slot
	used  int
	shift int // right shift from hash to slot
}

// slot is one level; a free slot has key 0, and a level that hashes to 0 is treated as 1.
type slot struct {
	key    uint64
	n, sum float64 // of the rows processed: sums of weights and of weighted labels
	rows   uint32  // number of rows
	number uint32  // of the level in this table; stays when the table grows
}

// absent is the slot of a level that is not in the table.
const absent = -1

func newTable(levels int) *table {
	t := &table{}
	t.allocate(slotsFor(levels))
	return t
}

// allocate makes n free slots, where n is a power of two.
func (t *table) allocate(n int) {
	t.slots, t.shift = make([]slot, n), 64-bits.Len(uint(n-1))
}

// slotsFor is the number of slots in a table of that many levels: a power of two of which at most three quarters are
// used.
func slotsFor(levels int) int { return 1 << max(4, bits.Len(uint(levels+levels/3))) }

func keyOf(level uint64) uint64 { return max(level, 1) }

// findSlot returns the slot of a level, or absent and the slot where it would go.
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

// touch loads the slots of the levels to be looked up next. The loop is so short that the processor overlaps many cache
// misses; find would wait for one after the other.
func (t *table) touch(levels []uint64) (sum uint64) {
	for _, level := range levels {
		sum += t.slots[keyOf(level)>>t.shift].key
	}
	return sum
}

// add adds a level in the free slot that find returned. There must be room.
func (t *table) add(level uint64, at int32) {
	t.slots[at] = slot{key: keyOf(level), number: uint32(t.used)}
	t.used++
}

// reserve makes sure that more levels can be added. It may move existing ones.
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

// see adds a row.
func (s *slot) see(label, weight float64) {
	s.n += weight
	s.sum += float64(weight * label) // not fused with the sum, so that every processor computes the same bits
	if s.rows < math.MaxUint32 {
		s.rows++
	}
}

// begin resets the statistics, but keeps the levels.
func (t *table) begin() {
	for i := range t.slots {
		s := &t.slots[i]
		s.n, s.sum, s.rows = 0, 0, 0
	}
}

// sorted returns the used slots with at least floor rows, by ascending hash. Only slots between two free ones need
// sorting among themselves; those at the beginning that overflowed from the end belong at the end.
func (t *table) sorted(floor int) []int32 {
	out := make([]int32, 0, t.used)
	sort := func(from int) {
		slices.SortFunc(out[from:], func(a, b int32) int { return cmp.Compare(t.slots[a].key, t.slots[b].key) })
	}

	var turned []int32
	from := 0
	for i := range t.slots {
		s := &t.slots[i]
		switch {
		case s.key == 0:
			sort(from)
			from = len(out)
		case int(s.rows) < floor:
		case s.key>>t.shift > uint64(i):
			turned = append(turned, int32(i))
		default:
			out = append(out, int32(i))
		}
	}
	out = append(out, turned...)
	sort(from)
	return out
}
