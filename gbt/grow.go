package gbt

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// grower grows one tree after another over the same rows.
type grower struct {
	p              *Params
	data           *Data
	pool           *pool
	count          *counter
	groups         [][]uint8 // of each feature, the coarser bin of each bin; nil where max_bin is as fine as the data
	usableFeatures []int     // the features that may split; the others take no part in feature_fraction
	usable         []int     // of each categorical feature, how many bins may go left

	directions []int8  // of monotone_constraints, by feature; nil where there are none
	together   [][]int // the groups of interaction_constraints; nil where all features may meet

	order  []uint32 // rows in the bag, which leaves reorder; behind them those left out
	spare  []uint32 // as long
	leaves []leaf
	scans  []scan // one per goroutine
	cats   [][]category

	scratch      []splitScratch // one per goroutine
	next         []int          // the leaves that ahead has picked
	freeChildren []*children    // memory for the next
	minPrevGain  float64        // the least gain of the splits of the tree before

	// of the present tree:
	number   int
	tree     *Tree
	score    splitScorer
	features []int
}

// leaf is a leaf that may yet be split.
type leaf struct {
	rows   []uint32 // ascending, a piece of the grower's order or spare
	spare  []uint32 // as long, a piece of either
	depth  int
	sums   sums
	l2     float64 // with which its value is computed
	hist   histogram
	best   split
	parent int // internal node, -1 for the root
	isLeft bool

	out       float64 // its value, where its sums alone do not say it
	low, high float64 // bounds of its value
	groups    []int   // of interaction_constraints, those that have all features of its path

	children *children // that the best split makes of it, when they are known; its rows are theirs then, and so is its histogram
}

// children are the leaves that a split makes.
type children struct {
	left, right leaf
	free        histogram // for the smaller one's, where one goroutine finds them
}

func newGrower(p *Params, d *Data, pool *pool) *grower {
	g := &grower{p: p, data: d, pool: pool, count: newCounter(d, pool)}
	g.order = make([]uint32, d.Used())
	g.spare = make([]uint32, len(g.order))

	g.scans = make([]scan, pool.size)
	g.scratch = make([]splitScratch, pool.size)
	for i := range g.scratch {
		g.scratch[i] = newSplitScratch(pool.size)
	}

	g.cats = make([][]category, pool.size)
	for i := range g.cats {
		g.cats[i] = make([]category, 0, MaxBins)
	}

	g.usableFeatures = eligible(p, d.Features)
	g.directions = p.MonotoneConstraints.among(d.Features)
	g.together = p.InteractionConstraints.among(d.Features)

	g.coarsen()
	return g
}

// grow makes tree number tree from the rows' packed gradients. bag is how many of order's rows it may see. It returns nil
// when no split helps. A large tree takes minutes, so ctx is looked at before every split.
func (g *grower) grow(ctx context.Context, tree, bag int, gh []uint32, pack packing) (*Tree, error) {
	if len(g.usableFeatures) == 0 {
		return nil, nil
	}

	g.number = tree
	g.tree = g.newTree()
	g.score = newSplitScorer(g.p, pack, g.directions)
	g.features = treeFeatures(g.p, tree, g.usableFeatures)
	g.count.begin(g.features, gh, pack)
	if err := g.growRoot(bag); err != nil {
		return nil, err
	}

	// Leaf-wise growth: always the leaf with the most to gain.
	for len(g.leaves) < g.p.NumLeaves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		i := g.mostGain()
		if i < 0 {
			break
		}
		if g.leaves[i].children == nil {
			g.prepare(i)
		}
		g.split(i)
	}

	if len(g.leaves) == 1 {
		g.count.free(g.leaves[0].hist)
		return nil, nil
	}

	g.finish()
	g.minPrevGain = slices.Min(g.tree.Gain)
	return g.tree, nil
}

// newTree is a tree without a node yet, and room for as many as the tree before has.
func (g *grower) newTree() *Tree {
	n := 0
	if g.tree != nil {
		n = len(g.tree.Feature)
	}
	return &Tree{
		Shrinkage: g.p.LearningRate,
		Feature:   make([]int, 0, n), Threshold: make([]float64, 0, n), Decision: make([]uint8, 0, n), Left: make([]int, 0, n), Right: make([]int, 0, n),
		Gain: make([]float64, 0, n), InternalValue: make([]float64, 0, n), InternalWeight: make([]float64, 0, n), InternalCount: make([]int, 0, n),
		LeafValue: make([]float64, 0, n+1), LeafWeight: make([]float64, 0, n+1), LeafCount: make([]int, 0, n+1), left: make([]binSet, 0, n),
	}
}

// growRoot makes the root leaf and finds its best split. Every row has one bin of every feature, so any feature's sums are
// the rows' sums; a byte that is no bin of its feature would be missing from them, and is an error.
func (g *grower) growRoot(bag int) error {
	m := g.count.count(g.order[:bag], histogram{}, 0)
	g.pool.parallel(len(g.features), minFeatures, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			g.count.reduce(m, i)
		}
	})
	g.count.release(m)

	root := leaf{rows: g.order[:bag], spare: g.spare[:bag], parent: -1, l2: g.score.l2, hist: m.smaller}
	if f := g.count.stray(); f >= 0 {
		return fmt.Errorf("%w: feature %q has rows with a bin beyond its %d", ErrData, g.data.Features[f].Name, g.data.Features[f].Bins)
	}
	root.sums = g.count.total(root.hist)
	root.out = g.score.output(root.sums, root.l2)
	root.low, root.high = -inf, inf

	// At the root, every group of interacting features is still possible.
	for i := range g.together {
		root.groups = append(root.groups, i)
	}

	g.leaves = append(g.leaves[:0], root)
	g.findSplits(nil, &g.leaves[0])
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

// split replaces leaf i by its children. As in LightGBM, the left child takes the leaf's number and the right one the next
// free number.
func (g *grower) split(i int) {
	parent := g.leaves[i]
	node := g.addNode(i, &parent)
	left, right := parent.children.left, parent.children.right
	left.parent, right.parent = node, node
	g.leaves[i] = left
	g.leaves = append(g.leaves, right)
	g.freeChildren = append(g.freeChildren, parent.children)
}

// addNode appends the internal node that leaf i becomes.
func (g *grower) addNode(i int, l *leaf) int {
	t, c := g.tree, &l.best
	node := len(t.Feature)

	// The parent pointed at this leaf until now.
	if l.parent >= 0 {
		if l.isLeft {
			t.Left[l.parent] = node
		} else {
			t.Right[l.parent] = node
		}
	}

	// The split in the model's terms: a set of categories, or a threshold.
	feature := &g.data.Features[c.feature]
	threshold := math.MaxFloat64 // all present values go left
	decision := uint8(missingNaN)
	switch {
	case feature.Categorical:
		threshold = float64(t.addCategories(&c.left))
		decision = decisionCategorical | missingNaN
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
	t.InternalCount = append(t.InternalCount, len(l.rows))
	t.left = append(t.left, c.left)

	return node
}

func (g *grower) value(l *leaf) float64 {
	if !g.score.plain {
		return l.out * g.score.outputUnit() * g.p.LearningRate
	}
	return g.score.output(l.sums, l.l2) * g.score.outputUnit() * g.p.LearningRate
}

// finish writes the leaves' values into the tree and gives all histograms back.
func (g *grower) finish() {
	for i := range g.leaves {
		l := &g.leaves[i]
		g.undoSplit(l)
		g.tree.LeafValue = append(g.tree.LeafValue, g.value(l))
		g.tree.LeafWeight = append(g.tree.LeafWeight, l.sums.h*g.score.pack.h1)
		g.tree.LeafCount = append(g.tree.LeafCount, len(l.rows))
		g.count.free(l.hist)
		l.hist = histogram{}
	}
}

// scattered estimates which share of the bag's rows lie more than a cache line of scores behind the row before them in their leaf:
// about all where rows are in no order, few in a table that was recorded in runs of similar rows.
func (g *grower) scattered() float64 {
	far, all := 0.0, 0.0
	for i := range g.leaves {
		rows := g.leaves[i].rows
		looks, jumps := 0, 0
		for j, step := 1, len(rows)/16+1; j < len(rows); j += step {
			looks++
			if rows[j]-rows[j-1] > 8 {
				jumps++
			}
		}

		far += float64(len(rows)) * float64(jumps) / float64(max(looks, 1))
		all += float64(len(rows))
	}
	return far / all
}

// addLeafValues adds the tree's values to the scores of the bag's rows, whose leaves are known. Leaf after leaf would jump about in
// all scores, and goroutines into each other's cache lines; so it is a window of neighbouring rows after the other, and in it leaf
// after leaf.
func (g *grower) addLeafValues(score []float64) {
	span := max(window, 64*len(g.leaves)) // some dozens of rows for each look at a leaf

	// Leaves' rows ascend: walk all of them side by side, so that scores are written in order.
	g.pool.parallel(len(score), span, func(_, lo, hi int) {
		at := make([]int, len(g.leaves))
		for i := range g.leaves {
			at[i], _ = slices.BinarySearch(g.leaves[i].rows, uint32(lo))
		}

		for lo < hi {
			lo = min(lo+span, hi)
			for i := range g.leaves {
				rows, v := g.leaves[i].rows[at[i]:], g.tree.LeafValue[i]
				n := 0
				for n < len(rows) && int(rows[n]) < lo {
					score[rows[n]] += v
					n++
				}
				at[i] += n
			}
		}
	})
}
