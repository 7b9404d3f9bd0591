package exact

import "math"

// Ordered maps numbers to integers of the same order; -0 becomes 0, and NaN has no order.
func Ordered(x float64) uint64 {
	b := math.Float64bits(x + 0) // -0 becomes 0
	return b ^ (uint64(int64(b)>>63) | 1<<63)
}

// FromOrdered is the inverse of Ordered.
func FromOrdered(k uint64) float64 {
	return math.Float64frombits(k ^ (uint64(int64(^k)>>63) | 1<<63))
}
