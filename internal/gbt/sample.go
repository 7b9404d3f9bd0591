package gbt

import (
	"math/bits"
	"slices"
)

// Random numbers are hashes of what they are for: (seed, purpose, tree, position). There is no shared stream, so the
// order in which they are used, the number of threads and resuming do not matter.

// key is a hashed (seed, purpose, tree). It stands for a sequence of random numbers, of which uniform(i) is the i-th.
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

// from returns the key of the sequence that begins at number first of this one.
func (k key) from(first uint64) key { return k + key(first*mixStep) }

// uniform returns number i of the sequence: 64 uniform bits.
func (k key) uniform(i uint64) uint64 { return mix(uint64(k) + i*mixStep) }

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

// choose draws count of the numbers below n with the random numbers of k, each subset equally likely (Knuth's algorithm
// S). It returns them ascending, in the memory of chosen.
func (k key) choose(chosen []int, n, count int) []int {
	chosen = chosen[:0]
	for i := 0; i < n && len(chosen) < count; i++ {
		// Select i with probability (still needed) / (still left): compare the upper half of random x left with needed.
		hi, _ := bits.Mul64(k.uniform(uint64(i)), uint64(n-i))
		if hi < uint64(count-len(chosen)) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// fractionOf returns a fraction of n, rounded, but at least 1 and at most n.
func fractionOf(n int, fraction float64) int {
	return min(max(int(float64(float64(n)*fraction)+0.5), 1), n)
}

// splittingFeatures returns the numbers of the features that may split, ascending: those with more than one bin that
// ignore_column does not name. The others stay in the model's list of features.
func splittingFeatures(p *Params, features []Feature) []int {
	ignored := p.IgnoreColumn.mustFind(features)
	var all []int
	for f := range features {
		if _, found := slices.BinarySearch(ignored, f); !found && features[f].Bins > 1 {
			all = append(all, f)
		}
	}
	return all
}

// treeFeatures returns the features that one tree may use, ascending: feature_fraction of the usable ones. The tree's
// number decides which.
func treeFeatures(p *Params, tree int, usable []int) []int {
	if p.FeatureFraction >= 1 {
		return usable
	}
	return pickFeatures(newKey(p.Seed, forTreeFeatures, tree), usable, fractionOf(len(usable), p.FeatureFraction))
}

// pickFeatures draws count of the usable features, in their order.
func pickFeatures(k key, usable []int, count int) []int {
	chosen := k.choose(make([]int, 0, count), len(usable), count)
	for i, j := range chosen {
		chosen[i] = usable[j]
	}
	return chosen
}

// nodeFeatures returns the features that one node may use: feature_fraction_bynode of the tree's, which are usable. The
// draw depends on the numbers of tree and node, not on when it is made.
func nodeFeatures(p *Params, tree, node int, usable []int) []int {
	if p.FeatureFractionByNode >= 1 {
		return usable
	}
	return pickFeatures(key(newKey(p.Seed, forNodeFeatures, tree).uniform(uint64(node))), usable,
		fractionOf(len(usable), p.FeatureFractionByNode))
}

// drawBag reorders rows, which are ascending, so that the bag comes first and then the rows left out, both ascending.
// It returns the bag's size. A new bag is drawn every bagging_freq rounds, and depends on nothing but its number.
// scratch is as long as rows, and overwritten.
//
// In a team the draw goes over the rows of all workers: each continues where the one before it stopped.
func drawBag(p *Params, round int, rows, scratch []uint32, l *link) int {
	if !p.bags() {
		return len(rows)
	}

	k := newKey(p.Seed, forBag, round/p.BaggingFreq)
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

// drawRows carries a draw of want out of `of` rows over the first of these, which are rows (Knuth's algorithm S). It
// moves the drawn ones to the front of rows and copies the others to spare, both in order, and returns how many it
// drew. There is no branch on the draw, which the processor could not predict: each row is written to both places, and
// only the place that it belongs to is advanced.
func drawRows(k key, rows, spare []uint32, of, want int) (in int) {
	for i, r := range rows {
		// As in key.choose: the row is drawn if hi < rows still needed, and then the subtraction borrows.
		hi, _ := bits.Mul64(k.uniform(uint64(i)), uint64(of-i))
		rows[in] = r // never ahead of i
		spare[i-in] = r
		_, drawn := bits.Sub64(hi, uint64(want-in), 0)
		in += int(drawn)
	}
	return in
}
