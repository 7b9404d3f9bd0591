package gbt

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// grower grows one tree after another over the same rows.
type grower struct {
	p      *Params
	data   *Data
	crew   *crew
	count  *counter
	groups [][]uint8 // of each feature, the coarser bin of each bin; nil where max_bin is as fine as the data
	varied []int     // the features that may split; the others take no part in feature_fraction
	usable []int     // of each categorical feature, how many bins may go left

	order  []uint32 // rows in the bag, which leaves reorder; behind them those left out
	spare  []uint32 // as long
	leaves []leaf
	scans  []scan // one per goroutine
	cats   [][]category

	best     [2][]candidate // of each leaf that is being searched, one per goroutine
	searches []search

	// of the present tree:
	number   int
	tree     *Tree
	score    scorer
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
	best   candidate
	parent int // internal node, -1 for the root
	isLeft bool
}

func newGrower(p *Params, d *Data, crew *crew) *grower {
	g := &grower{p: p, data: d, crew: crew, count: newCounter(d, crew)}
	g.order = make([]uint32, d.Used())
	g.spare = make([]uint32, len(g.order))
	g.scans = make([]scan, crew.size)
	for i := range g.best {
		g.best[i] = make([]candidate, crew.size)
	}
	g.searches = make([]search, 0, len(g.best))
	g.cats = make([][]category, crew.size)
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
	m := g.count.count(g.order[:bag], histogram{}, 0)
	g.crew.parallel(len(g.features), minFeatures, func(_, lo, hi int) {
		for i := lo; i < hi; i++ {
			g.count.gather(m, i)
		}
	})
	g.count.release(m)
	root := leaf{rows: g.order[:bag], spare: g.spare[:bag], parent: -1, l2: g.score.l2, hist: m.child}
	if f := g.count.stray(); f >= 0 {
		return fmt.Errorf("%w: feature %q has rows with a bin beyond its %d", ErrData, g.data.Features[f].Name, g.data.Features[f].Bins)
	}
	root.sums = g.count.total(root.hist)
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

// split carries out leaf i's best split. As in LightGBM, the left child takes the leaf's number and the right one the
// next free number.
func (g *grower) split(i int) (left, right int) {
	parent := g.leaves[i]
	c := &parent.best
	rows, spare := parent.rows, parent.spare
	n := divide(g.crew, rows, spare, g.data.Columns[c.feature], &c.left)
	node := g.addNode(i, &parent)
	l := leaf{depth: parent.depth + 1, sums: c.sums, l2: c.l2, parent: node, isLeft: true}
	r := leaf{depth: parent.depth + 1, sums: parent.sums.minus(c.sums), l2: c.l2, parent: node}
	// The left rows lie at the front of one piece and the right ones at the front of the other; what is left of each is as
	// long as the other's rows.
	there := len(rows) - n
	l.rows, r.rows = rows[:n], spare[:there]
	r.spare, l.spare = rows[n:], spare[there:]
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
	if len(small.rows) > len(large.rows) {
		small, large = large, small
	}
	if !g.splittable(small) && !g.splittable(large) {
		g.count.free(parent)
		return
	}
	m := g.count.count(small.rows, parent, len(large.rows))
	small.hist, large.hist = m.child, m.sibling
	g.findSplits(m, small, large)
	g.count.release(m)
}

func (g *grower) splittable(l *leaf) bool {
	return len(l.rows) >= max(2*g.p.MinDataInLeaf, 2) && (g.p.MaxDepth <= 0 || l.depth < g.p.MaxDepth) && l.sums.h > 0
}

// search is for the best split of one leaf.
type search struct {
	leaf     *leaf
	task     leafTask
	features []int       // that the node may use, ascending
	best     []candidate // one per goroutine
}

// findSplits sets the leaves' best splits, and gives the histogram of a leaf back when there is nothing to split. Goroutines
// share the features; a feature's sums are put together (where m still has them apart) and rated while they are in the cache.
func (g *grower) findSplits(m *family, leaves ...*leaf) {
	searches := g.searches[:0]
	for i, l := range leaves {
		if g.splittable(l) {
			searches = append(searches, g.search(l, g.best[i]))
		}
	}
	g.crew.parallel(len(g.features), minFeatures, func(worker, lo, hi int) {
		for i, f := range g.features[lo:hi] {
			if m != nil {
				g.count.gather(m, lo+i)
			}
			for s := range searches {
				if searches[s].mayUse(f) {
					g.rate(f, &searches[s], worker)
				}
			}
		}
	})
	for i := range searches {
		searches[i].end()
	}
	for _, l := range leaves {
		if l.best.gain <= 0 {
			g.count.free(l.hist)
			l.hist = histogram{}
		}
	}
}

func (g *grower) search(l *leaf, best []candidate) search {
	node := 2*(l.parent+1) + 1 // unique in the tree: both children of node p, and 1 for the root
	if l.isLeft {
		node--
	}
	clear(best)
	return search{leaf: l, task: g.score.task(l.sums, len(l.rows)), features: nodeFeatures(g.p, g.number, node, g.features), best: best}
}

func (s *search) mayUse(f int) bool {
	_, found := slices.BinarySearch(s.features, f)
	return found
}

// end takes the best of what the goroutines found. Of equal gains the lowest feature wins, whichever of them met it.
func (s *search) end() {
	best := &s.leaf.best
	*best = s.best[0]
	for _, c := range s.best[1:] {
		if c.gain > best.gain || c.gain == best.gain && c.feature < best.feature {
			*best = c
		}
	}
}

// minFeatures is the fewest features worth a range of their own.
const minFeatures = 4

func (g *grower) rate(f int, s *search, worker int) {
	feature, from, best := &g.data.Features[f], g.count.offset[f], &s.best[worker]
	if feature.Categorical {
		g.score.categorical(s.leaf.hist, from, feature.Bins, g.usable[f], &s.task, f, best, g.cats[worker])
		return
	}
	g.score.numerical(s.leaf.hist, from, feature, g.groups[f], &g.scans[worker], &s.task, f, best)
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
	t.InternalCount = append(t.InternalCount, len(l.rows))
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
		g.tree.LeafCount = append(g.tree.LeafCount, len(l.rows))
		g.count.free(l.hist)
		l.hist = histogram{}
	}
}

// scattered estimates which share of the bag's rows lie more than a cache line of scores behind the row before them in their leaf:
// about all where rows are in no order, few in a table that was recorded in runs of alike rows.
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

// addLeafValues adds the tree's values to the scores of the bag's rows, whose leaves are known.
func (g *grower) addLeafValues(score []float64, bag int) {
	g.crew.parallel(bag, grain, func(_, lo, hi int) {
		for i := range g.leaves {
			rows, v := g.leaves[i].rows, g.tree.LeafValue[i]
			from, to := min(max(lo, 0), len(rows)), min(max(hi, 0), len(rows))
			for _, r := range rows[from:to] {
				score[r] += v
			}
			lo, hi = lo-len(rows), hi-len(rows)
		}
	})
}
