package encode

import (
	"math"

	"coppice/internal/random"
)

// Seeds keep the kinds of parts distinct: the text "3", the number 3 and the third range are three levels. They are
// documented in FORMAT.md, because prediction programs in other languages have to hash the same way.
const (
	seedText    = 0x74657874   // "text"
	seedNumber  = 0x6e756d6265 // "numbe"
	seedRange   = 0x72616e6765 // "range"
	seedMissing = 0x6e756c6c   // "null"
	seedLevel   = 0x6c6576656c // "level"
	seedOrder   = 0x6f72646572 // "order"
	seedFold    = 0x666f6c64   // "fold"
)

// Mix spreads the bits of x (the finalizer of splitmix64: Steele, Lea, Flood, Fast splittable pseudorandom number
// generators, 2014). It is a bijection.
func Mix(x uint64) uint64 { return random.Mix(x + random.Step) }

// Fold returns the fold, from 0 to n-1, for the hash h of a group, a key or a row's number. It scales the upper 32 bits
// of a hash of h to n.
func Fold(h uint64, n int) uint8 { return uint8((Mix(h^seedFold) >> 32) * uint64(n) >> 32) }

// FNV is 64-bit FNV-1a.
func FNV[T ~string | ~[]byte](s T) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// Text hashes a part that is a text.
func Text[T ~string | ~[]byte](s T) uint64 { return Mix(FNV(s) ^ seedText) }

// Number hashes a part that is a number. All NaNs are missing; -0 equals 0.
func Number(x float64) uint64 {
	if x != x {
		return Missing()
	}
	return Mix(math.Float64bits(x+0) ^ seedNumber)
}

// Range hashes a part that is in range number i.
func Range(i int) uint64 { return Mix(uint64(i) ^ seedRange) }

// Missing returns the hash of a missing part. Rows in which a part is missing form a level like any other.
func Missing() uint64 { return Mix(seedMissing) }

// Level returns the hash of a level without parts, to which Join adds them.
func Level() uint64 { return seedLevel }

// Join returns the hash of a level with one more part, the hash part. The order of parts matters.
func Join(level, part uint64) uint64 { return Mix(level ^ part) }

// Order returns the sort key of a row of train in the random order with this number.
func Order(row uint32, order int) uint64 { return orderOfGroup(uint64(row), order) }

// orderOfGroup is Order for a hash that all rows of a group share, so that they have the same sort key.
func orderOfGroup(group uint64, order int) uint64 { return Mix(Mix(group^seedOrder) + uint64(order)) }
