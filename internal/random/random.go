// Package random is a counter-based generator of random numbers: number i is a hash of i, so that it does not depend on
// the numbers drawn before. It is SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators,
// OOPSLA 2014): Mix(seed + i*Step) is number i, 64 uniform bits. Package gbt has a generator of its own with the same
// constants, because its assembly uses them.
package random

// Step is what the counter of SplitMix64 grows by from one number to the next.
const Step = 0x9e3779b97f4a7c15

// Mix is the finalizer of SplitMix64: a bijection in which every input bit affects every output bit.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
