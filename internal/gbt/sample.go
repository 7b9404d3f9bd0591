package gbt

import (
	"math/bits"
	"slices"
)

// Random numbers are hashes of their purpose: (seed, purpose, tree, position). There is no shared stream, so the order
// of use, the number of threads and resuming do not matter.

// key is a hashed (seed, purpose, tree); at(i) is the i-th number of its sequence.
type key uint64

// The purposes of random numbers. Changing a value changes every model.
const (
	forBag uint64 = iota + 1
	forTreeFeatures
	forNodeFeatures
	forRounding
	_ // a purpose that no longer exists
	_
	forThresholds
	forLabels
)

func newKey(seed, purpose uint64, tree int) key {
	return key(mix(mix(seed^purpose<<56) + uint64(tree)))
}

// from returns the key whose at(i) is k.at(first + i).
func (k key) from(first uint64) key { return k + key(first*mixStep) }

// at returns 64 uniform bits.
func (k key) at(i uint64) uint64 { return mix(uint64(k) + i*mixStep) }

// The constants of SplitMix64.
const (
	mixStep = 0x9E3779B97F4A7C15
	mixMul1 = 0xBF58476D1CE4E5B9
	mixMul2 = 0x94D049BB133111EB

	mixShift1 = 30
	mixShift2 = 27
	mixShift3 = 31
)

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every input bit reaches every output bit.
func mix(x uint64) uint64 {
	x ^= x >> mixShift1
	x *= mixMul1
	x ^= x >> mixShift2
	x *= mixMul2
	return x ^ x>>mixShift3
}

// choose fills chosen with count of the numbers 0..of-1, as far as they are below n: ascending, each subset equally
// likely (Knuth's algorithm S). The key decides which.
func (k key) choose(chosen []int, n, of, count int) []int {
	chosen = chosen[:0]
	for i := 0; i < n && len(chosen) < count; i++ {
		// Select with probability (still needed) / (still left), on a 64-bit grid.
		hi, _ := bits.Mul64(k.at(uint64(i)), uint64(of-i))
		if hi < uint64(count-len(chosen)) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// fractionOf is how many of n a fraction stands for: rounded, and at least one.
func fractionOf(n int, fraction float64) int {
	return min(max(int(float64(float64(n)*fraction)+0.5), 1), n)
}

// eligible returns the features that may split, ascending: those with more than one bin that are not ignored. The
// others stay in the model's list of features.
func eligible(p *Params, features []Feature) []int {
	ignored := p.IgnoreColumn.among(features)
	var all []int
	for f := range features {
		if _, found := slices.BinarySearch(ignored, f); !found && features[f].Bins > 1 {
			all = append(all, f)
		}
	}
	return all
}

// treeFeatures returns the features of usable that tree may use, ascending.
func treeFeatures(p *Params, tree int, usable []int) []int {
	if p.FeatureFraction >= 1 {
		return usable
	}
	return pickFeatures(newKey(p.Seed, forTreeFeatures, tree), usable, fractionOf(len(usable), p.FeatureFraction))
}

func pickFeatures(k key, usable []int, count int) []int {
	chosen := k.choose(make([]int, 0, count), len(usable), len(usable), count)
	for i, j := range chosen {
		chosen[i] = usable[j]
	}
	return chosen
}

// nodeFeatures returns the features that one node may use, drawn from the tree's. The draw depends on the node's
// number, not on when it is made.
func nodeFeatures(p *Params, tree, node int, usable []int) []int {
	if p.FeatureFractionByNode >= 1 {
		return usable
	}
	return pickFeatures(key(newKey(p.Seed, forNodeFeatures, tree).at(uint64(node))), usable,
		fractionOf(len(usable), p.FeatureFractionByNode))
}

// drawBag orders rows so that the bag comes first, then the rows left out, both ascending, and returns the bag's size.
// The draw depends only on the bag's number: a new bag is drawn every bagging_freq trees.
//
// In a team, each worker goes on with the draw where the one before it stopped.
func drawBag(p *Params, tree int, rows, scratch []uint32, l *link) int {
	if !p.bags() {
		return len(rows)
	}

	k := newKey(p.Seed, forBag, tree/p.BaggingFreq)
	scratch = scratch[:len(rows)]
	total := l.sumCount(len(rows))
	state := []int64{0, int64(total), int64(fractionOf(total, p.BaggingFraction))} // rows visited, to come, to be drawn
	in := 0
	_ = l.inTurn(state, func() error { // the link keeps its error
		in = drawRows(k.from(uint64(state[0])), rows, scratch, int(state[1]), int(state[2]))
		state[0] += int64(len(rows))
		state[1] -= int64(len(rows))
		state[2] -= int64(in)
		return nil
	})

	copy(rows[in:], scratch)
	return in
}

// drawRows draws want of so many rows by Knuth's algorithm S, as far as they are in rows: the first ones. It moves the
// drawn ones to the front of rows, and the others to spare, both in order, and returns how many it drew. There is no
// branch on the draw, which could not be predicted.
func drawRows(k key, rows, spare []uint32, of, want int) (in int) {
	for i, r := range rows {
		hi, _ := bits.Mul64(k.at(uint64(i)), uint64(of-i))
		rows[in] = r // never ahead of i
		spare[i-in] = r
		_, drawn := bits.Sub64(hi, uint64(want-in), 0)
		in += int(drawn)
	}
	return in
}
