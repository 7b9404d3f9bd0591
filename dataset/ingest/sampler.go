package ingest

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// sampler chooses up to size rows of a stream whose length is not known, all with the same chance: those with the lowest
// hashes. Which they are depends on nothing but the rows' numbers.
//
// It takes some more than size, and now and then lets go of those that are too many: that costs a few nanoseconds for each
// row taken, where a heap would cost its depth in cache misses.
type sampler struct {
	size  int
	rows  []slot // chosen so far
	free  []int  // slots of rows let go
	limit uint64 // rows with greater hashes are not chosen any more
}

type slot struct {
	hash  uint64
	place int
}

// chosen is a row of a batch that goes into a slot.
type chosen struct{ row, slot int }

func newSampler(size int) sampler { return sampler{size: size, limit: math.MaxUint64} }

// slots is how many slots there are at most.
func (s *sampler) slots() int { return s.size + max(s.size/4, 64) }

// used is how many slots have been used so far.
func (s *sampler) used() int { return len(s.rows) + len(s.free) }

// offer says into which slot the row goes; ok is false when it is not chosen.
func (s *sampler) offer(row int64) (place int, ok bool) {
	h := mix(uint64(row) ^ seedBins<<24)
	if h > s.limit {
		return 0, false
	}

	if len(s.rows) == s.slots() {
		if s.drop(); h > s.limit {
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

// drop lets go of all but the size rows with the lowest hashes.
func (s *sampler) drop() {
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

// greatestKept is the greatest of the size lowest hashes: it lies in the bucket that the size-th of them falls into.
func (s *sampler) greatestKept() uint64 {
	var counts [hashBuckets]int
	shift := bucketShift(s.limit)
	for _, r := range s.rows {
		counts[r.hash>>shift]++
	}

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

// hashBuckets is how many parts the range of hashes is cut into.
const hashBuckets = 4096

// bucketShift is by how many bits hashes up to limit must be shifted to become the numbers of buckets.
func bucketShift(limit uint64) int { return max(0, bits.Len64(limit|1)-bits.Len(hashBuckets-1)) }

// sorted gives up to size rows with the lowest hashes, in the order of the hashes. No more may be offered then.
func (s *sampler) sorted() []slot {
	if len(s.rows) > s.size {
		s.drop()
	}

	var ends [hashBuckets + 1]int
	shift := bucketShift(s.limit)
	for _, r := range s.rows {
		ends[r.hash>>shift+1]++
	}

	for b := range hashBuckets {
		ends[b+1] += ends[b]
	}

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
