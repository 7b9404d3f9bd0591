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
	histograms     *histogramBuilder
	coarseBin      [][]uint8 // by feature, the coarse bin of each bin; nil if max_bin is as fine as the data
	usableFeatures []int     // the features that may split; only these count for feature_fraction
	leftBins       []int     // by feature, how many of its first bins may go left; all bins of a numerical feature

	order  []uint32 // the bag's rows, then the other rows in use; while a tree grows, the bag's rows are moved by leaf
	spare  []uint32 // as long as order
	leaves []leaf

	scratch      []splitScratch // by goroutine
	nextLeaves   []*leaf        // memory for the result of nextByGain
	freeChildren []*children    // for reuse
	minPrevGain  float64        // the least gain of a split in the previous tree

	// State of the current tree.
	number      int // by which random draws are keyed
	tree        *Tree
	splitScorer splitScorer
	features    []int // the features that this tree may use, ascending
}

// leaf is a leaf of the tree that is being grown.
type leaf struct {
	rows   []uint32 // ascending; a part of grower.order or grower.spare
	n      int      // how many rows it has; in a team, those of all workers
	spare  []uint32 // free memory as long as rows: the part of the other of these two slices
	depth  int
	sums   sums      // of its rows
	l2     float64   // the L2 penalty of its value: lambda_l2, plus cat_l2 below a split by many categories
	hist   histogram // zero if the leaf cannot be split
	best   split     // its best split; a gain of 0 or less if it has none
	parent int       // node number; -1 for the root
	isLeft bool

	children *children // nil until the best split is prepared; then they own its rows and histogram
}

// children are the two leaves that a split makes.
type children struct {
	left, right leaf
	spareHist   histogram // memory for the smaller child's histogram, if a single goroutine prepares them
}

// newGrower allocates the memory for growing, once for all trees. The grower keeps p, d and pool.
func newGrower(p *Params, d *Data, pool *pool) *grower {
	g := &grower{p: p, data: d, pool: pool, histograms: newHistogramBuilder(d, pool)}
	g.order = make([]uint32, d.Used())
	g.spare = make([]uint32, len(g.order))

	g.scratch = make([]splitScratch, pool.size)
	for i := range g.scratch {
		g.scratch[i].best = [2][]split{make([]split, pool.size), make([]split, pool.size)}
		g.scratch[i].categories = make([]category, 0, byteBins)
	}

	g.usableFeatures = splittingFeatures(p, d.Features)

	g.coarsen()
	return g
}

// grow grows a tree on the first bag rows of g.order. gh has the packed gradients of these rows, by row. number is the
// tree's, by which random draws are keyed. It returns nil without an error if no split improves the loss. A large tree
// takes minutes, so ctx is checked before every split. Until the next call, g.leaves has the rows of each leaf.
func (g *grower) grow(ctx context.Context, number, bag int, gh []uint32, pack packing) (*Tree, error) {
	if len(g.usableFeatures) == 0 {
		return nil, nil
	}

	g.number = number
	g.tree = g.newTree()
	g.splitScorer = newSplitScorer(g.p, pack)
	g.features = treeFeatures(g.p, number, g.usableFeatures)
	g.histograms.begin(g.features, gh, pack)
	if err := g.growRoot(bag); err != nil {
		return nil, err
	}

	// Leaf-wise growth: always split the leaf with the most gain. It may have been prepared together with an earlier
	// one. After an error the training ends, so nothing is undone.
	for len(g.leaves) < g.p.NumLeaves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}

		i := g.mostGain()
		if i < 0 {
			break
		}
		if g.leaves[i].children == nil {
			if err := g.prepare(&g.leaves[i]); err != nil {
				return nil, err
			}
		}
		g.applySplit(i)
	}

	// The root could not be split.
	if len(g.leaves) == 1 {
		g.histograms.free(g.leaves[0].hist)
		return nil, nil
	}

	g.finish()
	g.minPrevGain = slices.Min(g.tree.Gain) // the next tree prepares leaves above it ahead (nextByGain)
	return g.tree, nil
}

// newTree returns a tree without nodes, whose slices have capacity for as many as the previous tree has.
func (g *grower) newTree() *Tree {
	n := 0
	if g.tree != nil {
		n = len(g.tree.Feature)
	}
	return &Tree{
		Shrinkage: g.p.LearningRate,
		Feature:   make([]int, 0, n), Threshold: make([]float64, 0, n), Decision: make([]uint8, 0, n),
		Left: make([]int, 0, n), Right: make([]int, 0, n),
		Gain: make([]float64, 0, n), InternalValue: make([]float64, 0, n), InternalWeight: make([]float64, 0, n),
		InternalCount: make([]int, 0, n),
		LeafValue:     make([]float64, 0, n+1), LeafWeight: make([]float64, 0, n+1), LeafCount: make([]int, 0, n+1),
		left: make([]binSet, 0, n),
	}
}

// growRoot makes the root the only leaf, with the first bag rows of g.order, and finds its best split. It returns an
// error if a row has a byte beyond its feature's bins: the sums would lack that row.
func (g *grower) growRoot(bag int) error {
	n := g.data.link.sumCount(bag)
	pair := g.histograms.buildPair(g.order[:bag], n, histogram{}, 0) // the root has no parent and no sibling
	g.histograms.collectAll(&pair)

	root := leaf{rows: g.order[:bag], n: n, spare: g.spare[:bag], parent: -1, l2: g.splitScorer.l2, hist: pair.smaller}
	if f := g.histograms.findStray(); f >= 0 {
		return fmt.Errorf("%w: feature %q has rows with a bin beyond its %d", ErrData, g.data.Features[f].Name,
			g.data.Features[f].Bins)
	}
	root.sums = g.histograms.sumTotal(root.hist)
	g.leaves = append(g.leaves[:0], root)
	return g.findSplits([]newPair{{pair, []*leaf{&g.leaves[0]}}})
}

// mostGain returns the index of the leaf whose best split reduces the loss most, or -1 if no leaf has a split. Of equal
// gains, the lowest index wins.
func (g *grower) mostGain() int {
	best, gain := -1, 0.0
	for i := range g.leaves {
		if g.leaves[i].best.gain > gain {
			best, gain = i, g.leaves[i].best.gain
		}
	}
	return best
}

// applySplit replaces leaf i, which prepare has prepared, by its children and adds a node to the tree. As in LightGBM,
// the left child keeps the leaf's number and the right one gets the next free number.
func (g *grower) applySplit(i int) {
	parent := g.leaves[i]
	node := g.addNode(i, &parent)
	left, right := parent.children.left, parent.children.right
	left.parent, right.parent = node, node
	g.leaves[i] = left
	g.leaves = append(g.leaves, right)
	g.freeChildren = append(g.freeChildren, parent.children)
}

// addNode appends the internal node that replaces leaf i, which is l, by its best split. It returns the node's number.
func (g *grower) addNode(i int, l *leaf) int {
	t, best := g.tree, &l.best
	node := len(t.Feature)

	// The parent still points at the leaf.
	if l.parent >= 0 {
		if l.isLeft {
			t.Left[l.parent] = node
		} else {
			t.Right[l.parent] = node
		}
	}

	// The split in the model's terms: a set of categories, or a threshold.
	feature := &g.data.Features[best.feature]
	threshold := math.MaxFloat64 // all present values go left
	decision := uint8(missingNaN)
	switch {
	case feature.Categorical:
		threshold = float64(t.addCategories(&best.left))
		decision = decisionCategorical | missingNaN
	case best.at < len(feature.Bounds):
		threshold = feature.Bounds[best.at]
	}
	if best.missing {
		decision |= decisionDefaultLeft
	}

	t.Feature = append(t.Feature, best.feature)
	t.Threshold = append(t.Threshold, threshold)
	t.Decision = append(t.Decision, decision)
	t.Left = append(t.Left, ^i) // for now, both children are leaves, which are negative (Tree)
	t.Right = append(t.Right, ^len(g.leaves))
	t.Gain = append(t.Gain, best.gain*g.splitScorer.gainUnit())
	t.InternalValue = append(t.InternalValue, g.value(l))
	t.InternalWeight = append(t.InternalWeight, l.sums.h*g.splitScorer.pack.h1)
	t.InternalCount = append(t.InternalCount, l.n)
	t.left = append(t.left, best.left)

	return node
}

// value is the value of a leaf in the model: its output in units of raw scores, shrunk by learning_rate.
func (g *grower) value(l *leaf) float64 {
	return g.splitScorer.output(l.sums, l.l2) * g.splitScorer.outputUnit() * g.p.LearningRate
}

// finish writes the leaf values into the tree, undoes splits that were prepared but not made, and frees all histograms.
func (g *grower) finish() {
	for i := range g.leaves {
		l := &g.leaves[i]
		g.undoSplit(l)
		g.tree.LeafValue = append(g.tree.LeafValue, g.value(l))
		g.tree.LeafWeight = append(g.tree.LeafWeight, l.sums.h*g.splitScorer.pack.h1)
		g.tree.LeafCount = append(g.tree.LeafCount, l.n)
		g.histograms.free(l.hist)
		l.hist = histogram{}
	}
}

// addLeafValues adds the values of the tree just grown to the raw scores, by row, of the bag's rows, whose leaves are
// known. Going leaf by leaf would jump across all scores, and goroutines would write to the same cache lines. So it
// goes by windows of neighbouring rows and, within a window, leaf by leaf.
func (g *grower) addLeafValues(raw []float64) {
	span := max(window, 64*len(g.leaves)) // rows of a window: several dozen of each leaf

	g.pool.parallel(len(raw), span, func(_, lo, hi int) {
		// The rows of a leaf are ascending. at is the position of its next row, which begins at the first one from lo
		// on.
		at := make([]int, len(g.leaves))
		for i := range g.leaves {
			at[i], _ = slices.BinarySearch(g.leaves[i].rows, uint32(lo))
		}

		for end := lo; end < hi; {
			end = min(end+span, hi) // of this window
			for i := range g.leaves {
				rows, v := g.leaves[i].rows[at[i]:], g.tree.LeafValue[i]
				n := 0
				for n < len(rows) && int(rows[n]) < end {
					raw[rows[n]] += v
					n++
				}
				at[i] += n
			}
		}
	})
}
