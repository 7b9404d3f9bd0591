package ingest

import (
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/exact"
)

// axis counts the rows at each point of a time column, in bounded memory: a histogram of times. Up to limit distinct
// times, each has a bucket of its own. Beyond that, neighbouring times share buckets, as fine as the limit allows. The
// buckets depend only on the set of times, not on their order. The counts are always exact, so a cut between two
// buckets tells exactly how many rows precede it.
type axis struct {
	counts map[uint64]int64 // rows by key: the order-preserving bits of a time (exact.Ordered), shifted right by shift
	shift  uint
	limit  int   // most buckets
	rows   int64 // all rows
}

// minTimeBuckets is the least limit of an axis.
const minTimeBuckets = 1 << 18

// shiftStep is by how many bits keys are shortened at a time: 16 keys become one. Single bits would often join nothing,
// because most times have many low bits that are always zero.
const shiftStep = 4

type timeBucket struct {
	key  uint64
	rows int64
}

func newAxis(limit int) *axis { return &axis{counts: map[uint64]int64{}, limit: limit} }

// add counts a row at a time. Keys are the integers to which exact.Ordered maps times, in the order of times.
// Neighbouring buckets are joined as long as there are more than the limit.
func (a *axis) add(value float64) {
	a.rows++
	a.counts[exact.Ordered(value)>>a.shift]++
	for len(a.counts) > a.limit {
		coarse := make(map[uint64]int64, len(a.counts)/4)
		for k, n := range a.counts {
			coarse[k>>shiftStep] += n
		}
		a.counts = coarse
		a.shift += shiftStep
	}
}

// sorted returns the buckets that have rows, the earliest first.
func (a *axis) sorted() []timeBucket {
	keys := slices.Sorted(maps.Keys(a.counts))
	out := make([]timeBucket, len(keys))
	for i, k := range keys {
		out[i] = timeBucket{k, a.counts[k]}
	}
	return out
}

// greatest is the largest number in a time bucket.
func (a *axis) greatest(key uint64) float64 {
	return exact.FromOrdered(key<<a.shift | (1<<a.shift - 1))
}

// least is the smallest number in a time bucket.
func (a *axis) least(key uint64) float64 { return exact.FromOrdered(key << a.shift) }

// nearestCut returns the cut from lo to hi that comes closest to the wanted share of rows before it; of two as close,
// the earlier. A cut is the number of buckets before it.
func nearestCut(buckets []timeBucket, share float64, lo, hi int) int {
	total := int64(0)
	for _, g := range buckets {
		total += g.rows
	}
	target := share * float64(total)

	// before is the number of rows before the cut.
	best, distance, before := lo, math.Inf(1), int64(0)
	for cut, g := range buckets {
		if d := math.Abs(float64(before) - target); cut >= lo && cut <= hi && d < distance {
			best, distance = cut, d
		}
		before += g.rows
	}

	// The cut after the last bucket.
	if d := math.Abs(float64(before) - target); hi == len(buckets) && d < distance {
		best = hi
	}
	return best
}

// foldEnds divides one split's buckets into dataset.Folds folds of about equal numbers of rows, which follow each other
// in time. It returns the largest time of each fold but the last, ascending. There must be a bucket. With fewer buckets
// than folds, some folds end at the same time: the later one of them is empty.
func foldEnds(axis *axis, buckets []timeBucket) []float64 {
	var ends []float64
	for k := 1; k < dataset.Folds; k++ {
		cut := nearestCut(buckets, float64(k)/dataset.Folds, 1, len(buckets))
		ends = append(ends, axis.greatest(buckets[cut-1].key))
	}
	return ends
}
