package dataset

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// Parallel calls fn for 0 to n-1, on up to threads goroutines of which the caller's is one, and returns when all calls
// have. The order of calls is arbitrary.
func Parallel(threads, n int, fn func(i int)) {
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			fn(i)
		}
	}

	var wg sync.WaitGroup
	for range min(threads, n) - 1 {
		wg.Go(work)
	}

	work()
	wg.Wait()
}

// Resize returns a slice of length n in the memory of s, or in new memory if s is too small. Its contents are
// arbitrary.
func Resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// encodeAll returns numbers as files have them, in little-endian bytes.
func encodeAll[T uint32 | uint64 | float32 | float64](values []T) []byte {
	out, _ := binary.Append(nil, binary.LittleEndian, values) // it cannot fail for numbers of a fixed size
	return out
}

// decodeAll reads what encodeAll wrote; nil of nil.
func decodeAll[T uint32 | uint64 | float32 | float64](data []byte) []T {
	if data == nil {
		return nil
	}
	out := make([]T, len(data)/binary.Size(T(0)))
	_, _ = binary.Decode(data, binary.LittleEndian, out) // of as many bytes as they need
	return out
}

// PickInto returns the elements of from with the given indices, in the memory of to if that is large enough. It is nil
// if from is.
func PickInto[T any, N int | int32 | uint32](from []T, places []N, to []T) []T {
	if from == nil {
		return nil
	}
	to = Resize(to, len(places))
	for i, p := range places {
		to[i] = from[p]
	}
	return to
}

// Pick returns the elements of from with the given indices, in new memory. It is nil if from is.
func Pick[T any, N int | int32 | uint32](from []T, places []N) []T {
	return PickInto(from, places, nil)
}

// Pick returns a copy of the values with the given indices.
func (v *Values) Pick(places []int32) Values { return pickValues(v, places) }

// pickValues is Values.Pick for any type of indices.
func pickValues[N int | int32](v *Values, places []N) Values {
	return Values{Type: v.Type, Unit: v.Unit, Text: Pick(v.Text, places), Float: Pick(v.Float, places),
		Int: Pick(v.Int, places), Null: Pick(v.Null, places), Literal: Pick(v.Literal, places)}
}
