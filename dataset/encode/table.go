package encode

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// table holds the statistics of the levels of one key, as far as the rows have been gone through. It is a hash table with open
// addressing; the hash of a level is its key, so it need not be hashed again. What is known of a level lies side by side, because
// a table is mostly larger than any cache. A level's slot is told by the upper bits of its hash, so that the slots are nearly in the
// order of hashes.
type table struct {
	slots []slot
	used  int
	shift int // of a hash, to become a slot
}

// slot is one level; a free one has key 0, and a level that hashes to 0 counts as 1.
type slot struct {
	key    uint64
	n, sum float64 // of the rows gone through: their weights, and weighted labels
	rows   uint32  // how many they are
	number uint32  // of the level in this table, which stays when the table grows
}

// absent is the slot of a level that is not in the table.
const absent = -1

func newTable(levels int) *table {
	t := &table{}
	t.allocate(slotsFor(levels))
	return t
}

// allocate makes free slots; n is a power of two.
func (t *table) allocate(n int) {
	t.slots, t.shift = make([]slot, n), 64-bits.Len(uint(n-1))
}

// slotsFor is how many slots a table of so many levels has: a power of two of which at most three of four are used.
func slotsFor(levels int) int { return 1 << max(4, bits.Len(uint(levels+levels/3))) }

func keyOf(level uint64) uint64 { return max(level, 1) }

// find gives the slot of a level, or absent and the slot that would be its own.
func (t *table) find(level uint64) (at, free int32) {
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

// touch asks for the slots of levels that are looked for next. The loop is so short that the processor waits for many of them at
// once; find would wait for one after the other.
func (t *table) touch(levels []uint64) (sum uint64) {
	for _, level := range levels {
		sum += t.slots[keyOf(level)>>t.shift].key
	}
	return sum
}

// add makes a level in a slot that find has given. There must be room.
func (t *table) add(level uint64, at int32) {
	t.slots[at] = slot{key: keyOf(level), number: uint32(t.used)}
	t.used++
}

// room makes sure that so many levels can be added. It moves the levels that there are.
func (t *table) room(more int) {
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
			_, free := t.find(s.key)
			t.slots[free] = s
		}
	}
}

// see goes through a row.
func (s *slot) see(label, weight float64) {
	s.n += weight
	s.sum += float64(weight * label) // not fused with the sum, so that every processor comes to the same bits
	if s.rows < math.MaxUint32 {
		s.rows++
	}
}

// begin forgets the rows gone through, but not the levels.
func (t *table) begin() {
	for i := range t.slots {
		s := &t.slots[i]
		s.n, s.sum, s.rows = 0, 0, 0
	}
}

// sorted are the slots in use with at least floor rows, by ascending hash. Slots between two free ones are the only ones that need be
// sorted among themselves; those at the beginning whose place would have been at the end belong there.
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
