package exact

import "math"

// Ordered maps numbers to integers that sort in the same way: x < y exactly if Ordered(x) < Ordered(y). -0 and 0 are
// equal. x must not be NaN.
func Ordered(x float64) uint64 {
	// The bits of positive numbers already sort like them; setting the highest bit puts them above all negative ones.
	// The bits of negative numbers sort the other way, so all of them are flipped.
	b := math.Float64bits(x + 0) // -0 + 0 is 0
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// FromOrdered is the inverse of Ordered; it never returns -0.
func FromOrdered(k uint64) float64 {
	return math.Float64frombits(k ^ (uint64(int64(^k)>>63) | 1<<63))
}
