package gbt

import (
	"context"
	"fmt"
	"math"
)

// grower grows one tree after another over the same rows.
type grower struct {
	p       *Params
	data    *Data
	threads int
	count   *counter
	part    partitioner
	groups  [][]uint8 // of each feature, the coarser bin of each bin; nil where max_bin is as fine as the data
	varied  []int     // the features that may split; the others take no part in feature_fraction
	usable  []int     // of each categorical feature, how many bins may go left

	order  []uint32 // rows in the bag, leaf by leaf; behind them those left out
	leaves []leaf
	scans  []scan // one per goroutine
	cats   [][]category

	// of the present tree:
	number   int
	tree     *Tree
	score    scorer
	features []int
	best     []candidate // one per goroutine
}

// leaf is a leaf that may yet be split.
type leaf struct {
	from, rows int // its rows are order[from : from+rows]
	depth      int
	sums       sums
	l2         float64 // with which its value is computed
	hist       histogram
	best       candidate
	parent     int // internal node, -1 for the root
	isLeft     bool
}

func newGrower(p *Params, d *Data, threads int) *grower {
	g := &grower{p: p, data: d, threads: threads, count: newCounter(d, threads)}
	g.order = make([]uint32, d.Used())
	g.part = partitioner{threads: threads, scratch: make([]uint32, len(g.order))}
	g.scans = make([]scan, threads)
	g.best = make([]candidate, threads)
	g.cats = make([][]category, threads)
	for i := range g.cats {
		g.cats[i] = make([]category, 0, MaxBins)
	}
	g.varied = eligible(p, d.Features)
	g.coarsen()
	return g
}

// grow makes tree number tree from the rows' packed gradients. bag is how many of order's rows it may see. It returns nil
// when no split helps. A large tree takes minutes, so ctx is looked at before every split.
func (g *grower) grow(ctx context.Context, tree, bag int, gh []uint32, pack packing) (*Tree, error) {
	if len(g.varied) == 0 {
		return nil, nil
	}
	g.number, g.tree, g.score = tree, &Tree{Shrinkage: g.p.LearningRate}, newScorer(g.p, pack)
	g.features = treeFeatures(g.p, tree, g.varied)
	g.count.begin(g.features, gh, pack)
	if err := g.plant(bag); err != nil {
		return nil, err
	}
	for len(g.leaves) < g.p.NumLeaves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		i := g.mostGain()
		if i < 0 {
			break
		}
		left, right := g.split(i)
		if len(g.leaves) < g.p.NumLeaves {
			g.countChildren(left, right)
		}
	}
	if len(g.leaves) == 1 {
		g.count.free(g.leaves[0].hist)
		return nil, nil
	}
	g.finish()
	return g.tree, nil
}

// plant makes the root leaf and finds its best split. Every row has one bin of every feature, so any feature's sums are
// the rows' sums; a byte that is no bin of its feature would be missing from them, and is an error.
func (g *grower) plant(bag int) error {
	root := leaf{rows: bag, parent: -1, l2: g.score.l2, hist: g.count.count(g.order[:bag])}
	if f := g.count.stray(); f >= 0 {
		return fmt.Errorf("%w: feature %q has rows with a bin beyond its %d", ErrData, g.data.Features[f].Name, g.data.Features[f].Bins)
	}
	root.sums = g.count.total(root.hist)
	g.leaves = append(g.leaves[:0], root)
	g.findSplit(&g.leaves[0])
	return nil
}

// mostGain is the leaf whose best split takes most off the loss; -1 when none has one. Of equals, the oldest.
func (g *grower) mostGain() int {
	best, gain := -1, 0.0
	for i := range g.leaves {
		if g.leaves[i].best.gain > gain {
			best, gain = i, g.leaves[i].best.gain
		}
	}
	return best
}

// split carries out leaf i's best split. As in LightGBM, the left child takes the leaf's number and the right one the
// next free number.
func (g *grower) split(i int) (left, right int) {
	parent := g.leaves[i]
	c := &parent.best
	rows := g.order[parent.from : parent.from+parent.rows]
	n := g.part.split(rows, g.part.scratch[parent.from:parent.from+parent.rows], g.data.Columns[c.feature], &c.left)
	node := g.addNode(i, &parent)
	l := leaf{from: parent.from, rows: n, depth: parent.depth + 1, sums: c.sums, l2: c.l2, parent: node, isLeft: true}
	r := leaf{from: parent.from + n, rows: parent.rows - n, depth: parent.depth + 1, sums: parent.sums.minus(c.sums), l2: c.l2, parent: node}
	l.hist = parent.hist // until countChildren gives both their own
	g.leaves[i] = l
	g.leaves = append(g.leaves, r)
	return i, len(g.leaves) - 1
}

// countChildren gives two new leaves their histograms and best splits: the smaller one is counted, the larger one is what
// is left of the parent's. A leaf that cannot be split needs none.
func (g *grower) countChildren(left, right int) {
	small, large := &g.leaves[left], &g.leaves[right]
	parent := small.hist
	small.hist = histogram{}
	if small.rows > large.rows {
		small, large = large, small
	}
	if !g.splittable(small) && !g.splittable(large) {
		g.count.free(parent)
		return
	}
	small.hist = g.count.count(g.order[small.from : small.from+small.rows])
	large.hist = g.count.subtract(parent, small.hist, large.rows)
	g.findSplit(small)
	g.findSplit(large)
}

func (g *grower) splittable(l *leaf) bool {
	return l.rows >= max(2*g.p.MinDataInLeaf, 2) && (g.p.MaxDepth <= 0 || l.depth < g.p.MaxDepth) && l.sums.h > 0
}

// findSplit sets l.best, and gives the histogram back when there is nothing to split.
func (g *grower) findSplit(l *leaf) {
	if g.splittable(l) {
		l.best = g.bestSplit(l)
	}
	if l.best.gain <= 0 {
		g.count.free(l.hist)
		l.hist = histogram{}
	}
}

// bestSplit rates every feature that the node may use. Of equal gains the lowest feature wins, whichever goroutine met it.
func (g *grower) bestSplit(l *leaf) candidate {
	task := g.score.task(l.sums, l.rows)
	node := 2*(l.parent+1) + 1 // unique in the tree: both children of node p, and 1 for the root
	if l.isLeft {
		node--
	}
	features := nodeFeatures(g.p, g.number, node, g.features)
	for i := range g.best {
		g.best[i] = candidate{}
	}
	parallel(g.threads, len(features), minFeatures, func(worker, lo, hi int) {
		for _, f := range features[lo:hi] {
			g.rate(f, l.hist, &task, &g.scans[worker], g.cats[worker], &g.best[worker])
		}
	})
	best := g.best[0]
	for _, c := range g.best[1:] {
		if c.gain > best.gain {
			best = c
		}
	}
	return best
}

// minFeatures is the fewest features worth a goroutine of their own.
const minFeatures = 16

func (g *grower) rate(f int, h histogram, t *leafTask, s *scan, cats []category, best *candidate) {
	feature, from := &g.data.Features[f], g.count.offset[f]
	if feature.Categorical {
		g.score.categorical(h, from, feature.Bins, g.usable[f], t, f, best, cats)
		return
	}
	g.score.numerical(h, from, feature, g.groups[f], s, t, f, best)
}

// addNode appends the internal node that leaf i becomes.
func (g *grower) addNode(i int, l *leaf) int {
	t, c := g.tree, &l.best
	node := len(t.Feature)
	if l.parent >= 0 {
		if l.isLeft {
			t.Left[l.parent] = node
		} else {
			t.Right[l.parent] = node
		}
	}
	feature := &g.data.Features[c.feature]
	threshold, decision := math.MaxFloat64, uint8(missingNaN) // all present values go left
	switch {
	case feature.Categorical:
		threshold, decision = float64(t.addCategories(&c.left)), decisionCategorical|missingNaN
	case c.at < len(feature.Bounds):
		threshold = feature.Bounds[c.at]
	}
	if c.missing {
		decision |= decisionDefaultLeft
	}
	t.Feature = append(t.Feature, c.feature)
	t.Threshold = append(t.Threshold, threshold)
	t.Decision = append(t.Decision, decision)
	t.Left = append(t.Left, ^i)
	t.Right = append(t.Right, ^len(g.leaves))
	t.Gain = append(t.Gain, c.gain*g.score.gainUnit())
	t.InternalValue = append(t.InternalValue, g.value(l))
	t.InternalWeight = append(t.InternalWeight, l.sums.h*g.score.pack.h1)
	t.InternalCount = append(t.InternalCount, l.rows)
	t.left = append(t.left, c.left)
	return node
}

func (g *grower) value(l *leaf) float64 {
	return g.score.output(l.sums, l.l2) * g.score.outputUnit() * g.p.LearningRate
}

// finish writes the leaves' values into the tree and gives all histograms back.
func (g *grower) finish() {
	for i := range g.leaves {
		l := &g.leaves[i]
		g.tree.LeafValue = append(g.tree.LeafValue, g.value(l))
		g.tree.LeafWeight = append(g.tree.LeafWeight, l.sums.h*g.score.pack.h1)
		g.tree.LeafCount = append(g.tree.LeafCount, l.rows)
		g.count.free(l.hist)
		l.hist = histogram{}
	}
}

// addLeafValues adds the tree's values to the scores of the rows it was grown on, the first bag of order, whose leaves are
// known.
func (g *grower) addLeafValues(score []float64, bag int) {
	parallel(g.threads, bag, grain, func(_, lo, hi int) {
		for i := range g.leaves {
			l, v := &g.leaves[i], g.tree.LeafValue[i]
			from, to := max(l.from, lo), min(l.from+l.rows, hi)
			for _, r := range g.order[from:max(from, to)] {
				score[r] += v
			}
		}
	})
}
