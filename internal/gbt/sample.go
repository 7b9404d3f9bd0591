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

// eligible returns the features that may split, ascending: those with more than one bin that are not ignored and, with
// interaction constraints, are in a group. The others stay in the model's list of features.
func eligible(p *Params, features []Feature) []int {
	ignored := p.IgnoreColumn.among(features)
	groups := p.InteractionConstraints.among(features)

	var all []int
	for f := range features {
		_, found := slices.BinarySearch(ignored, f)
		grouped := groups == nil ||
			slices.ContainsFunc(groups, func(group []int) bool { return slices.Contains(group, f) })
		if !found && grouped && features[f].Bins > 1 {
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

// nodeFeatures returns the features that one node may use, drawn from usable: a fraction of the number of the tree's
// features. The draw depends on the node's number, not on when it is made.
func nodeFeatures(p *Params, tree, node, ofTree int, usable []int) []int {
	if p.FeatureFractionByNode >= 1 {
		return usable
	}
	return pickFeatures(key(newKey(p.Seed, forNodeFeatures, tree).at(uint64(node))), usable,
		min(fractionOf(ofTree, p.FeatureFractionByNode), len(usable)))
}

// drawBag orders rows so that the bag comes first, then the rows left out, both ascending, and returns the bag's size.
// The draw depends only on the bag's number: a new bag is drawn every bagging_freq trees.
//
// In a team, each worker goes on with the draw where the one before it stopped.
func drawBag(p *Params, tree int, label []float32, rows, scratch []uint32, l *link) int {
	if !p.bags() {
		return len(rows)
	}

	k := newKey(p.Seed, forBag, tree/p.BaggingFreq)
	scratch = scratch[:len(rows)]

	// Of all rows, or of each class: those not yet visited, and how many of them are still to be drawn.
	fraction := []float64{p.BaggingFraction}
	remaining := []int64{int64(len(rows))}
	if p.bagsByClass() {
		fraction = []float64{p.NegBaggingFraction, p.PosBaggingFraction}
		remaining = make([]int64, 2)
		for _, r := range rows {
			remaining[int(label[r])&1]++
		}
	}
	l.sum(remaining)
	state := make([]int64, 1, 5) // rows visited, then remaining and wanted ones
	for c, n := range remaining {
		state = append(state, n, int64(fractionOf(int(n), fraction[c])))
	}

	in := 0
	_ = l.inTurn(state, func() error { // the link keeps its error
		own := k.from(uint64(state[0]))
		if len(remaining) == 2 {
			in = drawByClass(own, label, rows, scratch, state[1:])
		} else {
			in = drawRows(own, rows, scratch, int(state[1]), int(state[2]))
			state[1] -= int64(len(rows))
			state[2] -= int64(in)
		}
		state[0] += int64(len(rows))
		return nil
	})

	copy(rows[in:], scratch)
	return in
}

// drawByClass is drawRows with separate fractions for negative and positive rows, each drawn independently. state holds
// of each class how many rows are not yet visited and how many of them are still to be drawn; it is brought up to date.
func drawByClass(k key, label []float32, rows, spare []uint32, state []int64) int {
	remaining := [2]uint64{uint64(state[0]), uint64(state[2])}
	want := [2]uint64{uint64(state[1]), uint64(state[3])}

	in := 0
	for i, r := range rows { // branch-free, as draw.to
		c := int(label[r]) & 1
		hi, _ := bits.Mul64(k.at(uint64(i)), remaining[c])
		rows[in] = r // never ahead of i
		spare[i-in] = r
		_, drawn := bits.Sub64(hi, want[c], 0)
		remaining[c]--
		want[c] -= drawn
		in += int(drawn)
	}

	for c := range want {
		state[2*c], state[2*c+1] = int64(remaining[c]), int64(want[c])
	}
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
