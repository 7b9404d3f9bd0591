package dataset

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
)

// Parallel calls fn for 0 to n-1 on up to threads goroutines, including the caller's.
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

// Resize returns a slice of length n with arbitrary contents, in the memory of s if it suffices.
func Resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// encodeAll returns numbers as a file has them, in little endian.
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

// PickInto returns the elements at the given places, in the memory of to if it suffices; nil of nil.
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

// Pick is PickInto new memory.
func Pick[T any, N int | int32 | uint32](from []T, places []N) []T {
	return PickInto(from, places, nil)
}

// Pick returns the values at the given places.
func (v *Values) Pick(places []int32) Values { return pickValues(v, places) }

func pickValues[N int | int32](v *Values, places []N) Values {
	return Values{Type: v.Type, Unit: v.Unit, Text: Pick(v.Text, places), Float: Pick(v.Float, places),
		Int: Pick(v.Int, places), Null: Pick(v.Null, places), Literal: Pick(v.Literal, places)}
}
