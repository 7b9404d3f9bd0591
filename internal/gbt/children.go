package gbt

import "slices"

// prepare computes the children of leaf i, with their histograms and best splits, unless they will be the tree's last.
//
// All goroutines work together on a large leaf. On a small one each would get so little work that waiting for each
// other and adding up their sums would dominate. Then each goroutine takes a leaf of its own: leaf i and those next by
// gain. Nearly all of these will be split, and the result for a leaf does not depend on when it is computed. If there
// are fewer such leaves than goroutines, they work on leaf i together after all.
//
// Workers of a team wait for each other at every exchange, so they prepare as many leaves with one as is likely to pay.
func (g *grower) prepare(l *leaf) error {
	splits := g.p.NumLeaves - len(g.leaves)
	next := g.nextByGain(l, splits)
	switch {
	case g.data.link != nil:
		return g.prepareTogether(next, splits > 1)
	case len(next) == 1 || len(next) < g.pool.size:
		return g.prepareTogether(next[:1], splits > 1)
	}

	for _, l := range next { // allocation is not concurrent
		l.children = g.newChildren()
		l.children.spareHist = histogram{packed: g.histograms.freePacked.take(g.histograms.bins())}
	}

	g.pool.parallel(len(next), 1, func(worker, lo, hi int) {
		for _, l := range next[lo:hi] {
			g.prepareAlone(l, worker)
		}
	})

	// A leaf without a useful split needs no histogram.
	for _, l := range next {
		g.freeUseless(&l.children.left)
		g.freeUseless(&l.children.right)
	}
	return nil
}

// newChildren takes the memory of two leaves from the free list, emptied.
func (g *grower) newChildren() *children {
	n := len(g.freeChildren)
	if n == 0 {
		return new(children)
	}
	c := g.freeChildren[n-1]
	g.freeChildren = g.freeChildren[:n-1]
	*c = children{}
	return c
}

// leavesEach is how many small leaves per goroutine are prepared ahead, which evens out their different sizes;
// smallLeaf is how many rows one goroutine handles alone in a table of up to smallColumns columns.
const (
	leavesEach   = 4
	smallLeaf    = grain
	smallColumns = 64
)

// isSmall reports whether sharing the leaf would cost more than leaving it to one goroutine.
func (g *grower) isSmall(l *leaf) bool {
	return len(l.rows)*max(len(g.features), smallColumns) <= smallLeaf*smallColumns
}

// nextByGain returns leaf i and, if it is small and there are several goroutines, the small leaves likely to be split
// next; in a team, also large ones. It predicts which will be split from the gains in the previous tree, and takes at
// most half as many as there are splits to come, since new leaves may have more gain. If features or thresholds are
// drawn per node, a leaf's split can only be found once its parent has a number.
//
// All workers of a team have the same result: it does not depend on their goroutines, nor on their own rows.
func (g *grower) nextByGain(l *leaf, splits int) []*leaf {
	g.nextLeaves = append(g.nextLeaves[:0], l)
	if g.p.FeatureFractionByNode < 1 || g.p.ExtraTrees {
		return g.nextLeaves
	}
	team := g.data.link != nil
	if !team && (g.pool.size == 1 || !g.isSmall(l)) {
		return g.nextLeaves
	}

	// Leaves that are prepared but not yet split count towards the limit.
	known := 0
	for j := range g.leaves {
		if g.leaves[j].children != nil {
			known++
		}
	}
	most := leavesEach*g.pool.size - known
	if team {
		most = g.histograms.mostPairs() - known // so that those ahead take 4 MiB at most
	}

	// Next by gain, as long as they are likely to be split at all.
	for len(g.nextLeaves) < min((splits+1)/2, most) {
		best, gain := (*leaf)(nil), g.minPrevGain/g.splitScorer.gainUnit()
		for j := range g.leaves {
			l := &g.leaves[j]
			if l.best.gain > gain && l.children == nil && (team || g.isSmall(l)) && !slices.Contains(g.nextLeaves, l) {
				best, gain = l, l.best.gain
			}
		}

		if best == nil {
			break
		}
		g.nextLeaves = append(g.nextLeaves, best)
	}
	return g.nextLeaves
}

// newPair is one or two leaves whose histograms are being made: the root, or the children of a leaf.
type newPair struct {
	pair   histogramPair
	leaves []*leaf
}

// prepareTogether prepares leaves, of which there are several only in a team, with all goroutines. The smaller child's
// rows are added up; the larger child is the difference to the parent. The tree's last split needs no histograms of its
// children.
func (g *grower) prepareTogether(next []*leaf, furtherSplits bool) error {
	left, all := make([]int, len(next)), make([]int64, len(next))
	for k, l := range next {
		l.children = g.newChildren()
		left[k] = divide(g.pool, l.rows, l.spare, g.data.Columns[l.best.feature], &l.best.left)
		all[k] = int64(left[k])
	}
	g.data.link.sumWords(all)
	if err := g.data.link.failed(); err != nil {
		return err
	}

	pairs := make([]newPair, 0, len(next))
	for k, l := range next {
		small, large := g.shareRows(l, left[k], int(all[k]))
		parent := l.hist
		l.hist = histogram{}
		if !furtherSplits || !g.splittable(small) && !g.splittable(large) {
			g.histograms.free(parent)
			continue
		}

		pair := g.histograms.buildPair(small.rows, small.n, parent, large.n)
		small.hist, large.hist = pair.smaller, pair.larger
		pairs = append(pairs, newPair{pair, []*leaf{small, large}})
	}
	return g.findSplits(pairs)
}

// prepareAlone does the same for a small leaf in one goroutine.
func (g *grower) prepareAlone(l *leaf, worker int) {
	left := partition(l.rows, l.spare, g.data.Columns[l.best.feature], &l.best.left)
	small, large := g.shareRows(l, left, left)
	small.hist = l.children.spareHist
	large.hist = l.hist
	l.hist = histogram{}

	if !g.splittable(small) && !g.splittable(large) {
		return
	}

	pair := g.histograms.buildAlone(worker, small.rows, small.hist, large.hist)
	finders := g.finders(worker, small, large)
	g.scoreFeatures(&pair, finders, worker, 0, len(g.features))
	pickBest(finders)
}

// shareRows makes the children of a leaf whose rows have been divided, with n rows on the left, and all workers'
// together. The left rows are at the front of the leaf's rows, the right ones at the front of its spare; what remains
// of each slice is as long as the other child's rows.
func (g *grower) shareRows(l *leaf, n, all int) (small, large *leaf) {
	best := &l.best
	rows := l.rows
	spare := l.spare
	// the parent's number if it is split at once; otherwise split sets it, and nothing random depends on it
	next := len(g.tree.Feature)
	there := len(rows) - n

	left := leaf{depth: l.depth + 1, sums: best.sums, l2: best.l2, parent: next, isLeft: true, rows: rows[:n],
		n: all, spare: spare[there:]}
	right := leaf{depth: l.depth + 1, sums: l.sums.minus(best.sums), l2: best.l2, parent: next, rows: spare[:there],
		n: l.n - all, spare: rows[n:]}

	l.children.left = left
	l.children.right = right
	if left.n > right.n {
		return &l.children.right, &l.children.left
	}
	return &l.children.left, &l.children.right
}

// undoSplit restores a leaf that was prepared but not split. The left child's rows are at the front of the leaf's rows;
// merging from the end leaves room for the right child's.
func (g *grower) undoSplit(l *leaf) {
	if l.children == nil {
		return
	}

	left, right := l.children.left.rows, l.children.right.rows
	// Both are ascending, and the left one is merged in place: go from the end.
	for len(right) > 0 {
		at := len(left) + len(right) - 1
		if n := len(left); n > 0 && left[n-1] > right[len(right)-1] {
			l.rows[at] = left[n-1]
			left = left[:n-1]
		} else {
			l.rows[at] = right[len(right)-1]
			right = right[:len(right)-1]
		}
	}

	g.histograms.free(l.children.left.hist)
	g.histograms.free(l.children.right.hist)
	g.freeChildren = append(g.freeChildren, l.children)
	l.children = nil
}

func (g *grower) splittable(l *leaf) bool {
	return l.n >= max(2*g.p.MinDataInLeaf, 2) && (g.p.MaxDepth <= 0 || l.depth < g.p.MaxDepth) && l.sums.h > 0
}

// splitFinder finds the best split of one leaf.
type splitFinder struct {
	leaf     *leaf
	target   splitTarget
	features []int   // that the node may use, ascending
	best     []split // per goroutine
}

// splitScratch is one goroutine's memory for finding the splits of two leaves.
type splitScratch struct {
	finders    [2]splitFinder
	best       [2][]split // the finders', for each goroutine
	scan       scan
	categories []category // room for those of a feature
}

// findSplits sets the best splits of the pairs' leaves, frees the histogram of a leaf that has none, and releases the
// pairs. Goroutines share the features; a feature's sums are reduced (if a pair still holds them per goroutine) and
// scored while they are in the cache.
//
// In a team, each worker has a part of the features, which it scores with the sums over all workers' rows.
func (g *grower) findSplits(pairs []newPair) error {
	link := g.data.link
	if link != nil {
		g.histograms.exchange(pairs, link)
	}

	var leaves []*leaf
	first, end := g.histograms.own()
	for i := range pairs {
		pair := &pairs[i].pair
		finders := g.finders(0, pairs[i].leaves...)
		g.pool.parallel(end-first, minFeatures,
			func(worker, lo, hi int) { g.scoreFeatures(pair, finders, worker, first+lo, first+hi) })
		pickBest(finders)
		leaves = append(leaves, pairs[i].leaves...)
	}

	link.agreeOnSplits(leaves)
	for _, l := range leaves {
		g.freeUseless(l)
	}
	for i := range pairs {
		g.histograms.release(&pairs[i].pair)
	}
	return link.failed()
}

// finders returns a splitFinder for each leaf that can be split, in the given worker's scratch memory.
func (g *grower) finders(worker int, leaves ...*leaf) []splitFinder {
	r := &g.scratch[worker]
	finders := r.finders[:0]
	for i, l := range leaves {
		if g.splittable(l) {
			finders = append(finders, g.newFinder(l, r.best[i]))
		}
	}
	return finders
}

// scoreFeatures finds splits by features lo to hi of the tree's.
func (g *grower) scoreFeatures(pair *histogramPair, finders []splitFinder, worker, lo, hi int) {
	for i, f := range g.features[lo:hi] {
		g.histograms.reduce(pair, lo+i)
		for s := range finders {
			if finders[s].mayUse(f, g.features) {
				g.scoreFeature(f, &finders[s], worker)
			}
		}
	}
}

func (g *grower) freeUseless(l *leaf) {
	if l.best.gain <= 0 {
		g.histograms.free(l.hist)
		l.hist = histogram{}
	}
}

// newFinder prepares to find the best split of a leaf: its sums, the features drawn for it and, with extra_trees, its
// random numbers. best has a split for each goroutine.
func (g *grower) newFinder(l *leaf, best []split) splitFinder {
	node := 2*(l.parent+1) + 1 // unique in the tree: both children of node p, and 1 for the root
	if l.isLeft {
		node--
	}

	clear(best)
	s := splitFinder{leaf: l, target: g.splitScorer.target(l.sums, l.n), features: nodeFeatures(g.p, g.number, node,
		g.features), best: best}

	if g.p.ExtraTrees {
		s.target.draw = key(newKey(g.p.Seed, forThresholds, g.number).at(uint64(node)))
	}
	return s
}

func (s *splitFinder) mayUse(f int, all []int) bool {
	if len(s.features) == len(all) { // of which they are some
		return true
	}
	_, found := slices.BinarySearch(s.features, f)
	return found
}

// pickBest gives each leaf the best of the goroutines' splits, which does not depend on their number.
func pickBest(finders []splitFinder) {
	for _, s := range finders {
		best := &s.leaf.best
		*best = s.best[0]
		for _, found := range s.best[1:] {
			if found.before(best) {
				*best = found
			}
		}
	}
}

// minFeatures is the fewest features worth a chunk of their own.
const minFeatures = 4

// scoreFeature scores all splits of a leaf at feature f and keeps the goroutine's best.
func (g *grower) scoreFeature(f int, s *splitFinder, worker int) {
	feature := &g.data.Features[f]
	from := g.histograms.offset[f]
	best := &s.best[worker]

	if feature.Categorical {
		g.splitScorer.scoreCategorical(s.leaf.hist, from, feature.Bins, g.leftBins[f], &s.target, f, best,
			g.scratch[worker].categories)
		return
	}
	scored := scoredFeature{Feature: feature, number: f, from: from, group: g.coarseBin[f]}
	g.splitScorer.scoreThresholds(s.leaf.hist, scored, &g.scratch[worker].scan, &s.target, best)
}
