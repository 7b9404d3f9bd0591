package gbt

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"coppice/internal/exact"
)

// The reference trainer is this package's algorithm written for clarity instead of speed: one goroutine, a list of rows
// per leaf, every histogram counted anew from the columns with plain 64-bit sums, every split scored by the formula of
// the paper. From the package it takes what determines the numbers (rounded gradients, random draws) and nothing that
// counts, subtracts, decodes, scores or partitions. Models of the two must be equal byte for byte; see FuzzReference.
type reference struct {
	p      *Params // scaled by Data.Copies
	said   *Params // as in the model file
	d      *Data
	groups [][]uint8 // by feature, the coarser bin of each bin; nil if max_bin is as fine
	usable []int     // by categorical feature, how many bins may go left

	// State of the current tree.
	round    int
	features []int
	gh       []wide // of every row
	pack     packing
	l1       float64 // lambda_l1 in units of g1
	leaves   []refLeaf
}

type refLeaf struct {
	rows   []uint32 // ascending
	depth  int
	sum    wide
	l2     float64
	parent int
	isLeft bool
	best   refSplit
}

// node is unique to the leaf within the tree.
func (l *refLeaf) node() int {
	if l.isLeft {
		return 2 * (l.parent + 1)
	}
	return 2*(l.parent+1) + 1
}

type refSplit struct {
	gain    float64 // 0 is no split
	feature int
	left    [byteBins]bool // bins that go left
	last    int            // numerical: the last bin of present values that goes left
	missing bool
	l2      float64
}

// newReference returns a reference trainer for d. It scales parameters by Data.Copies and joins bins to coarse ones, as
// the trainer does.
func newReference(d *Data, p Params) *reference {
	p, err := p.ForColumns(columnNames(d.Features))
	if err != nil {
		panic(err)
	}
	said := p
	if d.Copies > 1 {
		p.MinDataInLeaf *= d.Copies
		p.MinDataPerGroup *= d.Copies
		p.MinSumHessian *= float64(d.Copies)
	}
	r := &reference{p: &p, said: &said, d: d, groups: make([][]uint8, len(d.Features)),
		usable: make([]int, len(d.Features))}
	for f := range d.Features {
		feature := &d.Features[f]
		r.usable[f] = feature.Bins
		switch {
		case feature.Bins <= p.MaxBin:
		case feature.Categorical:
			r.usable[f] = p.MaxBin - 1
		default:
			counts := make([]int64, byteBins)
			for _, row := range usedRows(d) {
				counts[d.Columns[f][row]]++
			}
			missing := feature.Bins - feature.valueBins()
			r.groups[f] = evenCoarseBins(counts[:feature.valueBins()], max(p.MaxBin-missing, 1))
		}
	}
	return r
}

// usedRows returns the numbers of the rows in use.
func usedRows(d *Data) []uint32 {
	if d.Subset != nil {
		return slices.Clone(d.Subset)
	}
	rows := make([]uint32, d.Rows)
	for i := range rows {
		rows[i] = uint32(i)
	}
	return rows
}

// candidates are the features that may split.
func (r *reference) candidates() []int {
	ignored := "," + strings.TrimPrefix(string(r.p.IgnoreColumn), byName) + ","
	var all []int
	for f := range r.d.Features {
		name := r.d.Features[f].Name
		if !strings.HasPrefix(string(r.p.IgnoreColumn), byName) {
			name = strconv.Itoa(f)
		}
		if r.d.Features[f].Bins > 1 && !strings.Contains(ignored, ","+name+",") {
			all = append(all, f)
		}
	}
	return all
}

// train is Train without held-out rows.
func (r *reference) train() *Model {
	splittingFeatures := r.candidates()
	each, err := newObjectives(r.p, r.d)
	if err != nil {
		panic(err)
	}

	// By output, the initial constant and the rows' scores, which begin there.
	var biases []float64
	var scores [][]float64
	for _, obj := range each {
		biases = append(biases, obj.init(r.p.BoostFromAverage))
		scores = append(scores, slices.Repeat(biases[len(biases)-1:], r.d.Rows))
	}
	for _, obj := range each {
		if c, ok := obj.(*class); ok {
			c.raw = scores // a softmax takes those of all classes
		}
	}
	m := &Model{Objective: each[0].String(), Params: r.said.parameterLines(r.d.Features)}
	m.FeatureNames, m.FeatureInfos = describe(r.d.Features)

	// Grow a tree of each output per round. If trees are not sampled, a round without a split ends the training.
	sampled := r.p.FeatureFraction < 1 || r.p.FeatureFractionByNode < 1 || r.p.ExtraTrees ||
		r.p.bags()
	for round, roundsWithoutSplit := 0, 0; round < r.p.NumIterations && roundsWithoutSplit < maxRoundsWithoutSplit &&
		len(splittingFeatures) > 0; round++ {
		rows := usedRows(r.d)
		bag := drawBag(r.p, round, rows, make([]uint32, len(rows)), nil)
		var grown []*Tree
		splits := false
		for k, obj := range each {
			number := round*len(each) + k
			r.gradients(obj, scores[k], rows, number)
			r.features = treeFeatures(r.p, number, splittingFeatures)
			t := r.grow(rows[:bag])
			first := len(m.Trees) == 0
			if t == nil { // a constant tree adds 0, except that the first one has the initial constant
				value := 0.0
				if first {
					value = biases[k]
				}
				grown = append(grown, constantTree(value))
				continue
			}
			splits = true
			r.renew(obj, t, rows[:bag], scores[k])
			for _, row := range rows {
				scores[k][row] += t.LeafValue[r.leafOf(t, row)]
			}
			if first {
				t.addBias(biases[k])
			}
			grown = append(grown, t.Tree)
		}
		if !splits && !sampled {
			break
		}
		if !splits {
			roundsWithoutSplit++
			continue
		}
		roundsWithoutSplit = 0
		m.Trees = append(m.Trees, grown...)
	}
	if len(m.Trees) == 0 { // no split at all: the model is a constant
		for _, bias := range biases {
			m.Trees = append(m.Trees, constantTree(bias))
		}
	}
	return m
}

// renew gives leaves the quantiles of their rows' residuals, found by sorting; of gamma, it raises them to the value of
// least loss.
func (r *reference) renew(obj objective, t *refTree, rows []uint32, score []float64) {
	if r.p.Objective == "gamma" {
		all := make([][]uint32, len(t.LeafValue))
		for _, row := range rows {
			all[r.leafOf(t, row)] = append(all[r.leafOf(t, row)], row)
		}
		for leaf, own := range all {
			x := r.sum(own)
			g, h := float64(float64(x.g)*r.pack.g1), float64(float64(x.h)*r.pack.h1)
			if best := exact.Log(h / (g + h)); g > 0 && t.LeafValue[leaf] < best {
				t.LeafValue[leaf] = best
			}
		}
	}
	o, ok := obj.(*pointwise)
	if !ok || o.quantile == 0 {
		return
	}
	for leaf := range t.LeafValue {
		var values, weights []float64
		for _, row := range rows {
			if r.leafOf(t, row) == leaf {
				values = append(values, float64(r.d.Label[row])-score[row])
				weights = append(weights, o.weight(row))
			}
		}

		// Weights as whole numbers, in the units of weightedQuantiles.
		_, exponent := math.Frexp(slices.Max(weights))
		units := make([]int64, len(weights))
		for i, w := range weights {
			units[i] = int64(math.Ldexp(w, 62-bits.Len(uint(r.d.Used()))-exponent))
		}
		if r.d.Weight == nil {
			units = nil
		}
		t.LeafValue[leaf] = sortedQuantile(values, units, o.quantile) * r.p.LearningRate
	}
}

// sortedQuantile is LightGBM's PercentileFun if weights is nil. Otherwise it is the first value up to which more than
// that share of the weight lies; if all weights are 0, all rows count alike.
func sortedQuantile(values []float64, weights []int64, level float64) float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(values[a], values[b])
	})
	if weights != nil {
		total, sum := int64(0), int64(0)
		for _, w := range weights {
			total += w
		}
		if total == 0 {
			return sortedQuantile(values, slices.Repeat([]int64{1}, len(values)), level)
		}
		for _, i := range order {
			sum += weights[i]
			if sum > int64(float64(total)*level) {
				return values[i]
			}
		}
		return values[order[len(order)-1]]
	}
	slices.Reverse(order)
	at := float64((1 - level) * float64(len(order)))
	i := int(at)
	switch {
	case i < 1:
		return values[order[0]]
	case i >= len(order):
		return values[order[len(order)-1]]
	}
	above, below := values[order[i-1]], values[order[i]]
	return above - float64((above-below)*(at-float64(i)))
}

// gradients sets r.gh to the gradients and hessians of all rows at their scores, rounded as the trainer rounds them.
func (r *reference) gradients(obj objective, score []float64, rows []uint32, tree int) {
	r.round = tree
	r.pack = obj.prepare(tree, score, rows, newPoolOfSize(1))
	r.l1 = r.p.LambdaL1 / r.pack.g1
	packed := make([]uint32, r.d.Rows)
	obj.fill(packed, score, rowSet{n: len(packed)}, 0, len(packed), newKey(r.p.Seed, forRounding, tree))
	r.gh = make([]wide, len(packed))
	for row, w := range packed {
		r.gh[row].g, r.gh[row].h = r.pack.sums(r.pack.word(w))
	}
}

func (r *reference) sum(rows []uint32) (s wide) {
	for _, row := range rows {
		s.g, s.h = s.g+r.gh[row].g, s.h+r.gh[row].h
	}
	return s
}

// refTree adds to a tree the bins that go left at each node.
type refTree struct {
	*Tree
	sets [][byteBins]bool
}

// leafOf returns the leaf that a row reaches by its bins.
func (r *reference) leafOf(t *refTree, row uint32) int {
	node := 0
	for node >= 0 {
		if t.sets[node][r.d.Columns[t.Feature[node]][row]] {
			node = t.Left[node]
		} else {
			node = t.Right[node]
		}
	}
	return ^node
}

// grow grows one tree on the rows, leaf by leaf; nil if no split helps.
func (r *reference) grow(rows []uint32) *refTree {
	t := &refTree{Tree: &Tree{Shrinkage: r.p.LearningRate}}
	root := refLeaf{rows: slices.Clone(rows), sum: r.sum(rows), l2: r.l2(), parent: -1}
	root.best = r.bestSplit(&root)
	r.leaves = []refLeaf{root}
	for len(r.leaves) < r.p.NumLeaves {
		i := 0
		for j := range r.leaves {
			if r.leaves[j].best.gain > r.leaves[i].best.gain {
				i = j
			}
		}
		if r.leaves[i].best.gain <= 0 {
			break
		}
		r.split(t, i)
	}
	if len(r.leaves) == 1 {
		return nil
	}
	for i := range r.leaves { // a leaf's number is its place
		l := &r.leaves[i]
		t.LeafValue = append(t.LeafValue, r.value(l))
		t.LeafWeight = append(t.LeafWeight, float64(l.sum.h)*r.pack.h1)
		t.LeafCount = append(t.LeafCount, len(l.rows))
	}
	return t
}

// split carries out the best split of leaf i: the left child takes its place, the right one comes last.
func (r *reference) split(t *refTree, i int) {
	parent := r.leaves[i]
	best := &parent.best
	node := len(t.Feature)
	if parent.parent >= 0 { // the node above points at the leaf; now at the new node
		if parent.isLeft {
			t.Left[parent.parent] = node
		} else {
			t.Right[parent.parent] = node
		}
	}
	r.addNode(t, &parent, i)
	left := refLeaf{depth: parent.depth + 1, l2: best.l2, parent: node, isLeft: true}
	right := refLeaf{depth: parent.depth + 1, l2: best.l2, parent: node}
	for _, row := range parent.rows {
		child := &right
		if best.left[r.d.Columns[best.feature][row]] {
			child = &left
		}
		child.rows = append(child.rows, row)
	}
	for _, child := range []*refLeaf{&left, &right} {
		child.sum = r.sum(child.rows)
	}
	left.best, right.best = r.bestSplit(&left), r.bestSplit(&right)
	r.leaves[i] = left
	r.leaves = append(r.leaves, right)
}

// addNode appends the node that replaces a leaf by its best split.
func (r *reference) addNode(t *refTree, l *refLeaf, leaf int) {
	// LightGBM's decision_type: 1 is a categorical split, 2 that missing values go left, 2<<2 that NaN is missing.
	best, feature := &l.best, &r.d.Features[l.best.feature]
	threshold, decision := math.MaxFloat64, uint8(2<<2)
	switch {
	case feature.Categorical:
		threshold, decision = float64(len(t.CatBoundaries)), 2<<2|1
		if t.CatBoundaries == nil {
			t.CatBoundaries = []int{0}
		} else {
			threshold--
		}
		var words [byteBins / 32]uint32
		used := 1
		for b, in := range best.left {
			if in {
				words[b/32] |= 1 << (b % 32)
				used = max(used, b/32+1)
			}
		}
		t.CatThreshold = append(t.CatThreshold, words[:used]...)
		t.CatBoundaries = append(t.CatBoundaries, len(t.CatThreshold))
	case best.last < len(feature.Bounds):
		threshold = feature.Bounds[best.last]
	}
	if best.missing {
		decision |= 2
	}
	t.Feature = append(t.Feature, best.feature)
	t.Threshold = append(t.Threshold, threshold)
	t.Decision = append(t.Decision, decision)
	t.Left = append(t.Left, ^leaf)
	t.Right = append(t.Right, ^len(r.leaves))
	t.Gain = append(t.Gain, best.gain*(r.pack.g1*r.pack.g1/r.pack.h1))
	t.InternalValue = append(t.InternalValue, r.value(l))
	t.InternalWeight = append(t.InternalWeight, float64(l.sum.h)*r.pack.h1)
	t.InternalCount = append(t.InternalCount, len(l.rows))
	t.sets = append(t.sets, best.left)
}

func (r *reference) value(l *refLeaf) float64 {
	return r.output(l.sum, l.l2) * (r.pack.g1 / r.pack.h1) * r.p.LearningRate
}

// The formulas, in units of the packing: an output in g1/h1, a gain in g1*g1/h1.

func (r *reference) l2() float64    { return r.p.LambdaL2 / r.pack.h1 }
func (r *reference) catL2() float64 { return r.l2() + r.p.CatL2/r.pack.h1 }

func (r *reference) bounded() bool { return r.p.MaxDeltaStep > 0 }

// thresholded is G after the soft threshold of lambda_l1; a negative G stays negative, if only as -0.
func (r *reference) thresholded(s wide) float64 {
	g := float64(s.g)
	if g < 0 {
		return -max(-g-r.l1, 0)
	}
	return max(g-r.l1, 0)
}

// output is the value of a leaf with these sums, in units of the packing.
func (r *reference) output(s wide, l2 float64) float64 {
	h := float64(s.h) + l2
	if h <= 0 {
		return 0
	}
	out := -r.thresholded(s) / h
	if r.bounded() {
		limit := r.p.MaxDeltaStep * r.pack.h1 / r.pack.g1
		out = max(min(out, limit), -limit)
	}
	return out
}

// gain is twice a leaf's reduction of the loss: -(2 G w + (H + l2) w^2) at its output w.
func (r *reference) gain(s wide, l2 float64) float64 {
	g, h := r.thresholded(s), float64(s.h)+l2
	if !r.bounded() {
		return float64(g*g) / h
	}
	w := r.output(s, l2)
	return -(float64(2*g*w) + float64(float64(h*w)*w))
}
