package metric

import (
	"math"
	"math/bits"
	"slices"

	"coppice/internal/exact"
)

// ranking sorts rows by descending prediction. A row's key is a 64-bit integer: how many representable float64s its
// prediction is below the highest one. So ascending keys are descending predictions. If the rows have no weights and a
// bit is free, the ranking is packed: the label is the lowest bit of the key, and a row takes 8 bytes. Otherwise each
// key has a tag with the row's weight and label.
type ranking struct {
	keys, spareKeys []uint64
	tags, spareTags []uint32 // float32 bits of the weight, with the label as sign; or row numbers; not if packed
	packed          bool
	top             uint64                  // exact.Ordered of the highest prediction
	width           int                     // bits of the largest key
	digits          [passes][buckets]uint32 // of the radix sort: by pass and digit, a count and then a position
}

const (
	digitBits = 11
	buckets   = 1 << digitBits
	passes    = 3
	maxRows   = math.MaxUint32

	// Runs of up to this many keys are sorted by insertion.
	smallRun = 24
)

// fill sets keys and tags to those of the rows, not sorted yet. The rows are valid for binary metrics, and low and high
// are their least and greatest predictions.
func (r *ranking) fill(in Input, low, high float64) {
	n := len(in.Pred)
	r.top = exact.Ordered(high)
	r.width = bits.Len64(r.top - exact.Ordered(low))
	r.packed = in.Weight == nil && r.width < 64
	r.keys = resize(r.keys, n)
	r.spareKeys = resize(r.spareKeys, n)

	// Without weights the label is the lowest bit, and only keys are sorted.
	label := in.Label[:n]
	if r.packed {
		r.width++
		for i, p := range in.Pred {
			r.keys[i] = (r.top-exact.Ordered(p))<<1 | uint64(int64(label[i]))
		}
		return
	}

	// Otherwise label and weight are the tag.
	r.tags = resize(r.tags, n)
	r.spareTags = resize(r.spareTags, n)
	for i, p := range in.Pred {
		w := float32(1)
		if in.Weight != nil {
			w = in.Weight[i]
		}
		r.keys[i] = r.top - exact.Ordered(p)
		r.tags[i] = math.Float32bits(w)&^(1<<31) | uint32(int32(label[i]))<<31
	}
}

// sortRows sets r.tags to the numbers of the rows, by descending prediction. low and high are the least and the
// greatest prediction.
func (r *ranking) sortRows(pred []float64, low, high float64) {
	r.top = exact.Ordered(high)
	r.sortNumbers(len(pred), bits.Len64(r.top-exact.Ordered(low)),
		func(i int) uint64 { return r.top - exact.Ordered(pred[i]) })
}

// sortNumbers sets r.tags to the numbers 0 to n-1, sorted by the key that a function returns for each, and equal keys
// by number. Keys have at most width bits.
func (r *ranking) sortNumbers(n, width int, key func(i int) uint64) {
	r.packed = false
	r.width = width
	r.keys, r.spareKeys = resize(r.keys, n), resize(r.spareKeys, n)
	r.tags, r.spareTags = resize(r.tags, n), resize(r.spareTags, n)
	for i := range n {
		r.keys[i], r.tags[i] = key(i), uint32(i)
	}
	r.sortKeys()
}

// resize returns a slice of n elements with any contents, in the memory of s if that is enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// sortKeys sorts keys, ascending, and their tags with them. It is a stable radix sort by at most the highest 33 bits,
// in which different predictions almost always differ. The few runs of keys that are equal in these are then sorted by
// insertion. If such a run is long, all keys are radix sorted by the remaining bits as well, so that no choice of
// predictions makes it slow.
func (r *ranking) sortKeys() {
	low := 0
	if r.packed {
		low = 1 // the label does not count
	}

	if len(r.keys) <= smallRun {
		r.insert(0, len(r.keys))
		return
	}

	// The sort is stable: sorting by the low bits and then by the high ones sorts by both.
	high := max(r.width-passes*digitBits, low)
	r.sortByBits(high, r.width)
	if high > low && !r.finish(high) {
		r.sortByBits(low, high)
		r.sortByBits(high, r.width)
	}
}

// sortByBits sorts stably by the bits first <= b < last of the keys, at most passes*digitBits of them. The last digit
// may reach beyond last. That does no harm: the bits there are 0, or the caller sorts by them afterwards.
func (r *ranking) sortByBits(first, last int) {
	used := (last - first + digitBits - 1) / digitBits // how many of the passes are needed
	r.count(first)

	for pass := range used {
		at := &r.digits[pass]
		if !startPositions(at, len(r.keys)) {
			continue // all rows have the same digit
		}

		shift := first + pass*digitBits
		if r.packed {
			scatter(r.spareKeys, r.keys, at, shift)
		} else {
			scatterTagged(r.spareKeys, r.keys, r.spareTags, r.tags, at, shift)
			r.tags, r.spareTags = r.spareTags, r.tags
		}
		r.keys, r.spareKeys = r.spareKeys, r.keys
	}
}

// count sets r.digits to the number of keys with each digit, for all three passes at once. The first pass's digit
// begins at bit first.
func (r *ranking) count(first int) {
	clear(r.digits[:])
	a, b, c := &r.digits[0], &r.digits[1], &r.digits[2]
	for _, k := range r.keys {
		k >>= uint(first) & 63
		a[k&(buckets-1)]++
		b[k>>digitBits&(buckets-1)]++
		c[k>>(2*digitBits)&(buckets-1)]++
	}
}

// startPositions turns the counts of a pass into positions: where the keys with each digit begin. It returns false,
// with some counts already changed, if one digit has all n keys.
func startPositions(at *[buckets]uint32, n int) bool {
	next := uint32(0)
	for d, c := range at {
		if int(c) == n {
			return false
		}
		at[d] = next
		next += c
	}
	return true
}

// scatter moves keys from src to dst, to the positions of their digits at bit shift, in the order that they had.
func scatter(dst, src []uint64, at *[buckets]uint32, shift int) {
	for _, k := range src {
		d := k >> (uint(shift) & 63) & (buckets - 1)
		dst[at[d]] = k
		at[d]++
	}
}

// scatterTagged is scatter for keys with tags.
func scatterTagged(dst, src []uint64, dstTags, srcTags []uint32, at *[buckets]uint32, shift int) {
	srcTags = srcTags[:len(src)]
	for i, k := range src {
		d := k >> (uint(shift) & 63) & (buckets - 1)
		dst[at[d]] = k
		dstTags[at[d]] = srcTags[i]
		at[d]++
	}
}

// finish completes the sort of keys that are sorted by the bits from first on: it sorts each run of keys that are equal
// in these by the others. At the first run that is too long for insertion and not sorted it stops and returns false.
func (r *ranking) finish(first int) bool {
	for begin := 0; begin < len(r.keys); {
		prefix, end := r.keys[begin]>>first, begin+1
		for end < len(r.keys) && r.keys[end]>>first == prefix {
			end++
		}

		if end-begin > smallRun && !slices.IsSorted(r.keys[begin:end]) {
			return false
		}
		if end-begin <= smallRun {
			r.insert(begin, end)
		}
		begin = end
	}
	return true
}

// insert sorts the keys begin <= i < end by insertion, with their tags. If the ranking is packed, rows with equal
// predictions are also sorted by their labels, which does not matter.
func (r *ranking) insert(begin, end int) {
	for i := begin + 1; i < end; i++ {
		for j := i; j > begin && r.keys[j-1] > r.keys[j]; j-- {
			r.keys[j-1], r.keys[j] = r.keys[j], r.keys[j-1]
			if !r.packed {
				r.tags[j-1], r.tags[j] = r.tags[j], r.tags[j-1]
			}
		}
	}
}

// step is all rows with the same prediction: the prediction, and the weight of those with label 1 and with label 0.
type step struct{ pred, pos, neg float64 }

func (s step) weight() float64 { return s.pos + s.neg }

// nextStep returns the step whose first key is keys[i], and the index of the key after its last one.
func (r *ranking) nextStep(i int) (step, int) {
	var s step
	if r.packed {
		value := r.keys[i] >> 1
		begin, pos := i, uint64(0)
		for ; i < len(r.keys) && r.keys[i]>>1 == value; i++ {
			pos += r.keys[i] & 1
		}
		s.pos = float64(pos)
		s.neg = float64(uint64(i-begin) - pos)
		s.pred = exact.FromOrdered(r.top - value)
		return s, i
	}

	value := r.keys[i]
	for ; i < len(r.keys) && r.keys[i] == value; i++ {
		w := float64(math.Float32frombits(r.tags[i] &^ (1 << 31)))
		if r.tags[i]>>31 != 0 {
			s.pos += w
		} else {
			s.neg += w
		}
	}
	s.pred = exact.FromOrdered(r.top - value)
	return s, i
}
