package ingest

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"coppice/internal/dataset/encode"
)

// sampler chooses up to size rows uniformly from a stream of unknown length: those with the lowest hashes. The choice
// depends only on the rows' numbers.
//
// It collects somewhat more than size and discards the excess now and then: that costs a few nanoseconds per row
// collected, where a heap would cost cache misses in proportion to its depth.
type sampler struct {
	size  int
	rows  []slot // chosen so far
	free  []int  // slots of discarded rows
	limit uint64 // rows with larger hashes are not chosen
}

type slot struct {
	hash  uint64
	place int
}

// chosen is a row of a batch and the slot that it goes into.
type chosen struct{ row, slot int }

func newSampler(size int) sampler { return sampler{size: size, limit: math.MaxUint64} }

// slots is the most slots needed.
func (s *sampler) slots() int { return s.size + max(s.size/4, 64) }

// used is how many slots have been used so far.
func (s *sampler) used() int { return len(s.rows) + len(s.free) }

// offerRow returns the slot for a row; ok is false if the row is not chosen.
func (s *sampler) offerRow(row int64) (place int, ok bool) {
	h := encode.Mix(uint64(row) ^ seedBins<<24)
	if h > s.limit {
		return 0, false
	}

	if len(s.rows) == s.slots() {
		if s.keepLowest(); h > s.limit {
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

// keepLowest discards all but the size rows with the lowest hashes, and lowers limit to the greatest of these. There
// must be at least size rows.
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

// greatestKept returns the size-th lowest hash. Of all the buckets of hashes it sorts only the one that has it.
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

// hashBuckets is how many buckets divide the range of hashes.
const hashBuckets = 4096

// bucketShift is the right shift that maps hashes up to limit to bucket numbers.
func bucketShift(limit uint64) int { return max(0, bits.Len64(limit|1)-bits.Len(hashBuckets-1)) }

// sorted returns up to size rows with the lowest hashes, in order of the hashes. No rows may be offered after it.
func (s *sampler) sorted() []slot {
	if len(s.rows) > s.size {
		s.keepLowest()
	}

	// Divide the rows into buckets of hashes, whose order is that of their numbers, and sort each: faster than sorting
	// all at once.
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
