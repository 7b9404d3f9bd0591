// Package random is the counter-based generator of the search, the calibrator and the encoders: the random bits of draw
// i are a hash of i, so that they depend on no draw before. It is SplitMix64 (Steele, Lea and Flood, Fast Splittable
// Pseudorandom Number Generators, OOPSLA 2014): Mix(seed + i*Step) is its output i. Package gbt has the same beside its
// kernels in assembly, which use the constants.
package random

// Step is what the generator's counter grows by.
const Step = 0x9e3779b97f4a7c15

// Mix is the generator's finalizer, a bijection: every input bit reaches every output bit.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
