package ingest

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/exact"
)

// axis counts the rows at each point of a time column, in bounded memory. It is exact up to a number of distinct times;
// beyond that, neighbouring times share time buckets, as fine as memory allows. The buckets depend only on the set of
// times, not on their order. The counts are always exact, so a cut between two buckets tells exactly how many rows
// precede it.
type axis struct {
	counts map[uint64]int64 // by the order-preserving bits of a time, shifted right
	shift  uint
	limit  int
	rows   int64
}

// minTimeBuckets is the least number of distinct times that an axis can hold exactly.
const minTimeBuckets = 1 << 18

// shiftStep coarsens 16-fold at a time, because most times have many low bits that are always zero.
const shiftStep = 4

type timeBucket struct {
	key  uint64
	rows int64
}

func newAxis(limit int) *axis { return &axis{counts: map[uint64]int64{}, limit: limit} }

// add counts a row at a time. With more distinct times than the limit, neighbouring ones share a bucket from then on.
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

// nearestCut returns the cut between lo and hi that comes closest to the wanted share of rows before it. A cut is the
// number of time buckets before it.
func nearestCut(buckets []timeBucket, wanted float64, lo, hi int) int {
	total := int64(0)
	for _, g := range buckets {
		total += g.rows
	}
	target := wanted * float64(total)

	best, distance, before := lo, math.Inf(1), int64(0)
	for cut, g := range buckets {
		if d := math.Abs(float64(before) - target); cut >= lo && cut <= hi && d < distance {
			best, distance = cut, d
		}
		before += g.rows
	}

	if d := math.Abs(float64(before) - target); hi == len(buckets) && d < distance {
		best = hi
	}
	return best
}

// foldEnds divides one split's time buckets into folds that follow each other in time, and returns the largest number
// of each but the last. With fewer time buckets than folds, some folds stay empty.
func foldEnds(axis *axis, buckets []timeBucket) []float64 {
	var ends []float64
	for k := 1; k < dataset.Folds; k++ {
		cut := nearestCut(buckets, float64(k)/dataset.Folds, min(1, len(buckets)), len(buckets))
		ends = append(ends, axis.greatest(buckets[cut-1].key))
	}
	slices.SortFunc(ends, cmp.Compare[float64])
	return ends
}
