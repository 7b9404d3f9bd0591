package gbt

import "slices"

// prepare makes the children of leaf l by its best split, and computes their histograms and their own best splits. For
// the last split of a tree these are not needed, and not computed. l.children is set; l itself stays a leaf until
// applySplit, or undoSplit at the end of the tree.
//
// All goroutines work together on a large leaf. On a small one, each would get so little work that waiting for each
// other and adding up their sums would dominate. Then each goroutine takes a leaf of its own: l, and the leaves that
// are likely to be split next (nextByGain). Nearly all of these will be split, and the result for a leaf does not
// depend on when it is computed. If there are fewer such leaves than goroutines, all work on l together after all.
//
// Workers of a team wait for each other at every exchange, so they prepare several leaves with one exchange.
func (g *grower) prepare(l *leaf) error {
	splits := g.p.NumLeaves - len(g.leaves) // how many splits the tree may still get, this one included
	next := g.nextByGain(l, splits)
	switch {
	case g.data.link != nil:
		return g.prepareTogether(next, splits > 1)
	case len(next) == 1 || len(next) < g.pool.size:
		return g.prepareTogether(next[:1], splits > 1)
	}

	// Take memory before the goroutines start: the free lists are not safe for concurrent use.
	for _, l := range next {
		l.children = g.newChildren()
		l.children.spareHist = histogram{packed: g.histograms.freePacked.take(g.histograms.bins())}
	}

	g.pool.parallel(len(next), 1, func(worker, lo, hi int) {
		for _, l := range next[lo:hi] {
			g.prepareAlone(l, worker)
		}
	})

	// For the same reason, free the histograms of leaves without a split afterwards.
	for _, l := range next {
		g.freeUseless(&l.children.left)
		g.freeUseless(&l.children.right)
	}
	return nil
}

// newChildren returns zeroed memory for two leaves, from the free list if it has some.
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

// leavesEach is how many small leaves are prepared at once, per goroutine: several, which evens out their different
// sizes. smallLeaf is the most rows of a leaf that one goroutine handles alone if a tree has up to smallColumns
// features; with more features, it is less in proportion.
const (
	leavesEach   = 4
	smallLeaf    = grain
	smallColumns = 64
)

// isSmall reports whether sharing the leaf among goroutines would cost more than leaving it to one.
func (g *grower) isSmall(l *leaf) bool {
	return len(l.rows)*max(len(g.features), smallColumns) <= smallLeaf*smallColumns
}

// nextByGain returns first and the other leaves that are to be prepared with it, in the order of their gains. splits is
// how many splits the tree may still get.
//
// With a single goroutine, or if first is large, there are no others. Else they are small leaves that are likely to be
// split next: those whose gain is above the least gain that a split of the previous tree had. With first, they are at
// most half as many as there are splits to come, since the children of a leaf may have more gain than these. In a team
// they may be large, too.
//
// If features or thresholds are drawn per node, there are no others either: the draw depends on the number of the
// leaf's parent, which is only known once the parent is split.
//
// All workers of a team get the same leaves: the result depends neither on their goroutines nor on their own rows.
func (g *grower) nextByGain(first *leaf, splits int) []*leaf {
	g.nextLeaves = append(g.nextLeaves[:0], first)
	if g.p.FeatureFractionByNode < 1 || g.p.ExtraTrees {
		return g.nextLeaves
	}
	team := g.data.link != nil
	if !team && (g.pool.size == 1 || !g.isSmall(first)) {
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

	// Take the leaf with the most gain again and again, as long as it is likely to be split at all.
	for len(g.nextLeaves) < min((splits+1)/2, most) {
		// minPrevGain is in units of the loss, and 0 before the first tree; gains of leaves are in the packing's.
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

// prepareTogether prepares leaves, of which there are several only in a team, with all goroutines. furtherSplits says
// whether the tree may get more splits than these; if not, the children need no histograms.
func (g *grower) prepareTogether(next []*leaf, furtherSplits bool) error {
	// Divide the rows of each leaf: how many go left here, and in all workers together.
	left, all := make([]int, len(next)), make([]int64, len(next))
	for k, l := range next {
		l.children = g.newChildren()
		left[k] = divide(g.pool, l.rows, l.spare, g.data.Columns[l.best.feature], &l.best.left)
		all[k] = int64(left[k])
	}
	g.data.link.sumWords(all)
	if err := g.data.link.firstErr(); err != nil {
		return err
	}

	// Begin the histograms of the children: the smaller child's rows are added up, and the larger child's histogram
	// will be the difference to the parent's, which the pair takes over.
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

// prepareAlone prepares a small leaf in the goroutine with number worker; others may prepare other leaves at the same
// time. It does what prepareTogether does, without a team, in memory that prepare has taken for it.
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

// shareRows sets l.children to the two leaves of a leaf whose rows have been divided. n of this worker's rows are on
// the left, and allLeft of all workers' rows. It returns the child with fewer rows and the one with more, counted over
// all workers.
//
// The left rows are at the front of the leaf's rows, the right ones at the front of its spare. What remains of each
// slice is as long as the other child's rows, and becomes that child's spare.
func (g *grower) shareRows(l *leaf, n, allLeft int) (small, large *leaf) {
	best := &l.best
	rows := l.rows
	spare := l.spare

	// The number that the parent will get if it is split next. If it is split later, applySplit corrects it; random
	// draws that depend on it are not made before (nextByGain).
	parent := len(g.tree.Feature)
	nRight := len(rows) - n

	left := leaf{depth: l.depth + 1, sums: best.sums, l2: best.l2, parent: parent, isLeft: true, rows: rows[:n],
		n: allLeft, spare: spare[nRight:]}
	right := leaf{depth: l.depth + 1, sums: l.sums.minus(best.sums), l2: best.l2, parent: parent, rows: spare[:nRight],
		n: l.n - allLeft, spare: rows[n:]}

	l.children.left = left
	l.children.right = right
	if left.n > right.n {
		return &l.children.right, &l.children.left
	}
	return &l.children.left, &l.children.right
}

// undoSplit restores the rows of a leaf that was prepared but not split, and frees its children. A leaf that was not
// prepared is left as it is. The leaf's own histogram is lost: prepare has used it up.
func (g *grower) undoSplit(l *leaf) {
	if l.children == nil {
		return
	}

	// Merge the ascending rows of both children into the leaf's rows, where the left ones already are, at the front.
	// Going from the end, no row is overwritten before it is moved.
	left, right := l.children.left.rows, l.children.right.rows
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

// splittable reports whether the limits on leaf sizes and depth allow to split a leaf at all.
func (g *grower) splittable(l *leaf) bool {
	return l.n >= max(2*g.p.MinDataInLeaf, 2) && (g.p.MaxDepth <= 0 || l.depth < g.p.MaxDepth) && l.sums.h > 0
}

// splitFinder is the search for the best split of one leaf.
type splitFinder struct {
	leaf     *leaf
	target   splitTarget
	features []int   // the features that the node may use, ascending
	best     []split // by goroutine, the best split that it has found
}

// splitScratch is one goroutine's memory for finding the splits of two leaves.
type splitScratch struct {
	finders    [2]splitFinder
	best       [2][]split // splitFinder.best of each finder
	scan       scan
	categories []category // memory for scoreCategorical
}

// findSplits sets the best split of each leaf of the pairs, frees the histogram of a leaf that has none, and releases
// the pairs. The goroutines share the features. Each completes the sums of a feature (reduce) and scores its splits at
// once, while they are in the cache.
//
// In a team, each worker scores a part of the features, with the sums over all workers' rows, and then all workers
// agree on the best splits.
func (g *grower) findSplits(pairs []newPair) error {
	link := g.data.link
	if link != nil {
		g.histograms.exchange(pairs, link)
	}

	var leaves []*leaf
	first, end := g.histograms.ownFeatures()
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
	return link.firstErr()
}

// finders returns a splitFinder for each of at most two leaves that can be split, in the scratch memory of the
// goroutine with number worker.
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

// scoreFeatures completes the pair's histograms for the features lo <= i < hi of the tree's, and updates the best
// splits that the finders have for the goroutine with number worker.
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

// freeUseless frees the histogram of a leaf without a split: it will never have children.
func (g *grower) freeUseless(l *leaf) {
	if l.best.gain <= 0 {
		g.histograms.free(l.hist)
		l.hist = histogram{}
	}
}

// newFinder returns the splitFinder of a leaf, with the features drawn for it and, with extra_trees, its random
// numbers. best is its memory, a split for each goroutine; it is cleared.
func (g *grower) newFinder(l *leaf, best []split) splitFinder {
	// A number for the random draws that is unique in the tree: 1 for the root; 2p+2 and 2p+3 for the children of node
	// p.
	node := 2*(l.parent+1) + 1
	if l.isLeft {
		node--
	}

	clear(best)
	s := splitFinder{leaf: l, target: g.splitScorer.target(l.sums, l.n), features: nodeFeatures(g.p, g.number, node,
		g.features), best: best}

	if g.p.ExtraTrees {
		s.target.draw = key(newKey(g.p.Seed, forThresholds, g.number).uniform(uint64(node)))
	}
	return s
}

// mayUse reports whether the node may split by feature f of the tree's features.
func (s *splitFinder) mayUse(f int, treeFeatures []int) bool {
	if len(s.features) == len(treeFeatures) { // none was left out
		return true
	}
	_, found := slices.BinarySearch(s.features, f)
	return found
}

// pickBest sets the best split of each leaf to the best one that any goroutine has found. The result does not depend on
// which goroutine scored which features.
func pickBest(finders []splitFinder) {
	for _, s := range finders {
		best := &s.leaf.best
		*best = s.best[0]
		for _, found := range s.best[1:] {
			if found.betterThan(best) {
				*best = found
			}
		}
	}
}

// minFeatures is the fewest features worth a chunk of their own.
const minFeatures = 4

// scoreFeature scores all splits of a leaf by feature f, and updates the best split of the goroutine with number
// worker.
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
