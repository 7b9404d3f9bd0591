package ingest

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"coppice/internal/dataset/encode"
)

// sampler chooses up to size rows uniformly from a stream of unknown length: those with the lowest hashes of their
// numbers. Every chosen row has a slot, in which the caller keeps what it needs of the row; a slot is given to another
// row once its row is discarded.
//
// It collects somewhat more than size and discards the excess now and then. That costs a few nanoseconds per row
// collected, where a heap would cost cache misses in proportion to its depth.
type sampler struct {
	size  int
	rows  []slot // chosen so far
	free  []int  // slots of discarded rows
	limit uint64 // rows with larger hashes are not chosen
}

// slot is a chosen row: the hash of its number, and its place, which is the number of its slot.
type slot struct {
	hash  uint64
	place int
}

// chosen is a row of the current batch, by its index there, and the slot that it goes into.
type chosen struct{ row, slot int }

func newSampler(size int) sampler { return sampler{size: size, limit: math.MaxUint64} }

// slots returns the most slots that the sampler needs: size, and a quarter more for the excess.
func (s *sampler) slots() int { return s.size + max(s.size/4, 64) }

// used returns how many slots have been given out so far; their numbers are below it.
func (s *sampler) used() int { return len(s.rows) + len(s.free) }

// offerRow returns the slot for the row with this number; ok is false if the row is not chosen. A slot that held a
// discarded row is given out again.
func (s *sampler) offerRow(row int64) (place int, ok bool) {
	h := encode.Mix(uint64(row) ^ seedBins<<24)
	if h > s.limit {
		return 0, false
	}

	if len(s.rows) == s.slots() {
		s.keepLowest()
		if h > s.limit {
			return 0, false
		}
	}

	place = s.used()
	if n := len(s.free); n > 0 {
		place, s.free = s.free[n-1], s.free[:n-1]
	}

	s.rows = append(s.rows, slot{h, place})
	return place, true
}

// keepLowest discards all but the size rows with the lowest hashes, frees their slots, and lowers limit to the greatest
// hash that stays. There must be at least size rows. As Mix is a bijection, no two have the same hash.
func (s *sampler) keepLowest() {
	s.limit = s.greatestKept()
	kept := s.rows[:0]
	for _, r := range s.rows {
		if r.hash <= s.limit {
			kept = append(kept, r)
		} else {
			s.free = append(s.free, r.place)
		}
	}
	s.rows = kept
}

// greatestKept returns the size-th lowest hash. It divides the range of hashes into buckets, finds the bucket with that
// hash by counting, and sorts only that one. There must be at least size rows.
func (s *sampler) greatestKept() uint64 {
	var counts [hashBuckets]int
	shift := bucketShift(s.limit)
	for _, r := range s.rows {
		counts[r.hash>>shift]++
	}

	// Find the bucket in which the rows reach size; before is the number of rows in lower buckets.
	bucket, before := 0, 0
	for before+counts[bucket] < s.size {
		before += counts[bucket]
		bucket++
	}

	var in []uint64
	for _, r := range s.rows {
		if r.hash>>shift == uint64(bucket) {
			in = append(in, r.hash)
		}
	}

	slices.Sort(in)
	return in[s.size-before-1]
}

// hashBuckets is how many buckets divide the range of hashes.
const hashBuckets = 4096

// bucketShift is the right shift that maps hashes up to limit to bucket numbers.
func bucketShift(limit uint64) int { return max(0, bits.Len64(limit|1)-bits.Len(hashBuckets-1)) }

// sorted returns the chosen rows, at most size, in ascending order of their hashes. No rows may be offered after it.
func (s *sampler) sorted() []slot {
	if len(s.rows) > s.size {
		s.keepLowest()
	}

	// Divide the rows into buckets of hashes, as in a counting sort, and sort each bucket: faster than sorting all at
	// once.
	var ends [hashBuckets + 1]int
	shift := bucketShift(s.limit)
	for _, r := range s.rows {
		ends[r.hash>>shift+1]++
	}

	for b := range hashBuckets {
		ends[b+1] += ends[b]
	}

	// Now ends[b] is where bucket b begins, and ends[b+1] where it ends.
	// starts is a copy, which moves on as rows are put there.
	starts, out := ends, make([]slot, len(s.rows))
	for _, r := range s.rows {
		b := r.hash >> shift
		out[starts[b]] = r
		starts[b]++
	}

	for b := range hashBuckets {
		slices.SortFunc(out[ends[b]:ends[b+1]], func(x, y slot) int { return cmp.Compare(x.hash, y.hash) })
	}
	return out
}
