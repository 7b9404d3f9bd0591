package gbt

import (
	"math"
	"slices"
)

// A greedy tree begins with the split that takes most off the loss, and so it cannot see two features that matter only
// together: of the sign of a product, either factor says nothing. Once in lookahead_freq trees the best pair of splits is
// looked for, too: one feature's and then another's on either side of it (lookahead: Murthy and Salzberg, IJCAI 1995), on a
// sample of rows in coarse bins (as FAST finds interactions: Lou, Caruana, Gehrke and Hooker, KDD 2013). Its first split
// becomes the root if the pair holds on other rows, and if its three splits take more off the loss, on average, than the best
// one does by itself.

const (
	lookRows     = 4096         // of the bag, on which pairs are compared; at most
	checkRows    = 2 * lookRows // others, on which the best pair has to hold
	lookBlocks   = 32           // of neighbouring rows, in turns for looking and for checking
	lookFeatures = 64           // among which pairs are looked for, at most
	coarseBins   = 8            // of a feature, with about as much hessian each
	lastCoarse   = coarseBins - 1

	// Pairs are as many as take an eighth of looking at every row's bins once, which is some percent of a tree's time, or a
	// tenth of a millisecond where there are few rows. ratePair is how many rows could be added up while the sums are rated.
	lookShare = 8
	lookLeast = 1 << 16
	ratePair  = 4096

	// evidence is how much more than by chance a pair has to take off the loss for certain, in units of what one leaf more
	// does by chance.
	evidence = 6

	takeTogether = 64 // rows whose bins are asked for before the next step, so that the processor waits for many of them at once
)

// lookahead looks for pairs of splits. Rows are those of a sample: first those for looking, then those for checking.
type lookahead struct {
	grow     *grower
	draw     key
	bag      []uint32         // rows
	gh       []uint32         // their packed gradients
	block    int              // rows of the sample in a block of the bag
	features []int            // looked at
	coarse   [][MaxBins]uint8 // of each, the coarse bin of each bin
	pairs    [][2]int         // of places in features
	best     []pairOfSplits   // of each goroutine

	words []int64   // of each row, its gradients
	codes [][]uint8 // of each feature looked at and each row, the coarse bin
	score scorer    // the tree's, for so few rows
	minH  float64   // least hessian of a leaf among so few
}

// pairOfSplits is the first feature's split behind coarse bin cut, and the second feature's on either side of it. Missing values are
// behind every cut. Behind the last coarse bin there is nothing to cut off: no split.
type pairOfSplits struct {
	gain          float64 // of all, on the rows for looking
	number        int     // of the pair
	first, second int     // places in features
	cut           int
	cuts          [2]int // of the second feature, up to the first one's cut and behind it
}

// lookAhead replaces the root's best split by the first of a pair's, where that is better.
func (g *grower) lookAhead(bag, gh []uint32) {
	if !g.looks() || g.leaves[0].best.gain <= 0 {
		return
	}

	l := &g.look
	l.grow = g
	l.bag = bag
	l.gh = gh
	l.draw = newKey(g.p.Seed, forLookedRows, g.number)

	l.block = min(lookRows/lookBlocks, len(bag)/lookBlocks/3)
	if l.block*lookBlocks < coarseBins*coarseBins || !l.choose() {
		return
	}

	// Find the best pair of splits on a sample of rows.
	l.take(lookBlocks*l.block, l.places(), l.rowToLook)
	p := l.search()
	if !l.beatsRoot(p.gain) {
		return
	}

	// Judge the pair on rows that had no say in the choice.
	l.take(2*lookBlocks*l.block, []int{p.first, p.second}, l.rowToCheck)
	noise := l.noise()
	gain := l.gainOf(&p) - float64(3*noise)
	gain -= float64(2 * math.Sqrt(max(gain, 0)*noise)) // its standard error; not fused, as everywhere

	if gain > evidence*noise && l.beatsRoot(gain) {
		g.splitRoot(l.features[p.first], &l.coarse[p.first], p.cut)
	}
}

// looks says whether the present tree looks ahead. With fewer than four leaves there is no room for a pair, and where nodes draw their
// features or thresholds, or where there are constraints, the second one's split may not be there.
func (g *grower) looks() bool {
	p := g.p
	return p.LookaheadFreq > 0 && g.number%p.LookaheadFreq == p.LookaheadFreq-1 &&
		p.NumLeaves >= 4 && p.MaxDepth != 1 && p.FeatureFractionByNode >= 1 &&
		!p.ExtraTrees && p.MonotoneConstraints == "" && p.InteractionConstraints == ""
}

// choose draws the features that are looked at, as many numerical ones as there is time for, and says whether there are two.
func (l *lookahead) choose() bool {
	var numerical []int
	for _, f := range l.grow.features {
		if !l.grow.data.Features[f].Categorical {
			numerical = append(numerical, f)
		}
	}

	// As many features as the budget for their pairs allows.
	n := 1
	most := max(len(l.bag)*len(l.grow.features)/lookShare, lookLeast) / (lookBlocks*l.block + ratePair)

	for n < min(len(numerical), lookFeatures) && n*(n+1)/2 <= most {
		n++
	}

	// Which ones is drawn anew for every tree.
	l.features = l.features[:0]
	l.coarse = l.coarse[:0]
	l.pairs = slices.Grow(l.pairs[:0], n*(n-1)/2)
	k := newKey(l.grow.p.Seed, forLookedFeatures, l.grow.number)

	for i, at := range k.choose(make([]int, 0, n), len(numerical), n) {
		l.features = append(l.features, numerical[at])
		l.coarse = append(l.coarse, l.grow.coarseBins(numerical[at]))
		for j := range i {
			l.pairs = append(l.pairs, [2]int{j, i})
		}
	}

	return len(l.features) >= 2
}

func (l *lookahead) places() []int {
	all := make([]int, len(l.features))
	for i := range all {
		all[i] = i
	}
	return all
}

// coarseBins is the coarse bin of each bin of a feature. Missing values have the last one for themselves.
func (g *grower) coarseBins(f int) (coarse [MaxBins]uint8) {
	feature := &g.data.Features[f]
	from := g.count.offset[f]
	root := g.leaves[0].hist

	weights := make([]int, feature.valueBins())
	for b := range weights {
		_, h := root.at(from+b, g.score.pack)
		weights[b] = int(h)
	}

	n := coarseBins
	if feature.Missing >= 0 {
		n--
		coarse[feature.Missing] = lastCoarse
	}
	copy(coarse[:], evenGroups(weights, n))

	if group := g.groups[f]; group != nil { // there may be no threshold within
		for b := 1; b < len(weights); b++ {
			if group[b] == group[b-1] {
				coarse[b] = coarse[b-1]
			}
		}
	}

	return coarse
}

// Of three blocks of the bag, the first is for looking and the others are for checking. Neighbours may be alike, and rows for checking
// that are copies of those looked at would find everything true.

func (l *lookahead) rowToLook(i int) uint32 {
	return l.row(i/l.block*3*l.block + i%l.block)
}

func (l *lookahead) rowToCheck(i int) uint32 {
	return l.row(i/(2*l.block)*3*l.block + l.block + i%(2*l.block))
}

// row is drawn from the i-th of equally long pieces of the bag.
func (l *lookahead) row(i int) uint32 {
	pieces := 3 * lookBlocks * l.block
	from, to := i*len(l.bag)/pieces, (i+1)*len(l.bag)/pieces
	return l.bag[from+int(l.draw.at(uint64(i))%uint64(to-from))]
}

// take makes n rows the sample. Only the features at the given places are looked at.
func (l *lookahead) take(n int, places []int, row func(i int) uint32) {
	if l.words == nil {
		l.words = make([]int64, checkRows)
	}
	for len(l.codes) < len(l.features) {
		l.codes = append(l.codes, make([]uint8, checkRows))
	}

	l.words = l.words[:n]
	data, pack := l.grow.data, l.grow.score.pack

	l.grow.crew.parallel(n, 512, func(_, lo, hi int) {
		var rows [takeTogether]uint32
		for ; lo < hi; lo += takeTogether {
			n := min(hi-lo, takeTogether)
			for i := range n {
				rows[i] = row(lo + i)
				l.words[lo+i] = pack.word(l.gh[rows[i]])
			}
			for _, at := range places {
				lookUp(l.codes[at][lo:lo+n], rows[:n], data.RowMajor[l.features[at]:], len(data.Features), &l.coarse[at])
			}
		}
	})

	// What is compared with sums shrinks with the sample.
	share := float64(n) / float64(len(l.bag))
	root := &l.grow.leaves[0]
	l.score = l.grow.score
	l.score.l1 *= share
	l.score.l2 *= share
	l.minH = max(l.grow.score.task(root.sums, len(root.rows)).minH*share, math.SmallestNonzeroFloat64)
}

// search is the best pair of splits. Of equals it is the first, whichever goroutine met it.
func (l *lookahead) search() pairOfSplits {
	l.best = append(l.best[:0], make([]pairOfSplits, l.grow.crew.size)...)
	l.grow.crew.parallel(len(l.pairs), 4, func(worker, lo, hi int) {
		best := l.best[worker]
		for i, p := range l.pairs[lo:hi] {
			c := l.count(p[0], p[1])
			best = better(best, l.rate(&c, pairOfSplits{number: 2 * (lo + i), first: p[0], second: p[1]}))
			c.turn()
			best = better(best, l.rate(&c, pairOfSplits{number: 2*(lo+i) + 1, first: p[1], second: p[0]}))
		}
		l.best[worker] = best
	})

	best := l.best[0]
	for _, p := range l.best[1:] {
		best = better(best, p)
	}
	return best
}

func better(a, b pairOfSplits) pairOfSplits {
	if b.gain > a.gain || b.gain == a.gain && b.number < a.number {
		return b
	}
	return a
}

// rate is p with the cuts that take most off the loss.
func (l *lookahead) rate(c *cells, p pairOfSplits) pairOfSplits {
	upTo := c.upTo(l.score.pack)
	all := &upTo[lastCoarse]

	for cut := range lastCoarse {
		below, behind := &upTo[cut], all.minus(&upTo[cut])
		if below[lastCoarse].h < l.minH || behind[lastCoarse].h < l.minH {
			continue
		}

		gainBelow, cutBelow := l.bestCut(below)
		gainBehind, cutBehind := l.bestCut(behind)
		if gain := gainBelow + gainBehind - l.worth(all[lastCoarse]); gain > p.gain {
			p.gain = gain
			p.cut = cut
			p.cuts = [2]int{cutBelow, cutBehind}
		}
	}

	return p
}

func (l *lookahead) bestCut(x *running) (gain float64, cut int) {
	gain, cut = l.worth(x[lastCoarse]), lastCoarse
	for at := range lastCoarse {
		if v := l.cutAt(x, at); v > gain {
			gain, cut = v, at
		}
	}
	return gain, cut
}

// cutAt is what both sides of a cut take off the loss, or both together where the cut is not allowed.
func (l *lookahead) cutAt(x *running, cut int) float64 {
	left, right := x[cut], x[lastCoarse].minus(x[cut])
	if left.h < l.minH || right.h < l.minH {
		return l.worth(x[lastCoarse])
	}
	return l.worth(left) + l.worth(right)
}

// worth is what a leaf with these sums takes off the loss.
func (l *lookahead) worth(x sums) float64 {
	if x.h <= 0 {
		return 0
	}
	return l.score.gain(x, l.score.l2)
}

// gainOf is what the pair's splits take off the loss of the sample, wherever they were found.
func (l *lookahead) gainOf(p *pairOfSplits) float64 {
	c := l.count(p.first, p.second)
	upTo := c.upTo(l.score.pack)
	all, below := &upTo[lastCoarse], &upTo[p.cut]
	return l.cutAt(below, p.cuts[0]) + l.cutAt(all.minus(below), p.cuts[1]) - l.worth(all[lastCoarse])
}

// beatsRoot says whether three splits with such a gain on the sample take more off the loss, on average, than the root's best one.
func (l *lookahead) beatsRoot(gain float64) bool {
	g := l.grow
	ofAll := gain * float64(len(l.bag)) / float64(len(l.words))
	return ofAll/3-g.p.MinGainToSplit/g.score.gainUnit() > g.leaves[0].best.gain
}

// noise is what one leaf more takes off the loss of the sample by chance: 1 where hessians are the gradients' variances.
func (l *lookahead) noise() float64 {
	var squares, hessians float64
	for _, w := range l.words {
		g, h := l.score.pack.sums(w)
		squares += float64(g * g)
		hessians += float64(h)
	}
	return squares / max(hessians, 1)
}

// splitRoot makes the split of feature f behind a coarse bin the root's, if it is allowed by itself.
func (g *grower) splitRoot(f int, coarse *[MaxBins]uint8, cut int) {
	root := &g.leaves[0]
	feature := &g.data.Features[f]
	from := g.count.offset[f]

	at := threshold{next: -1}
	var missing sums
	if feature.Missing >= 0 {
		missing = root.hist.sums(from+feature.Missing, g.score.pack)
	}

	// Bins up to the cut go left; the next one that has rows ends the threshold's gap.
	for b := range feature.valueBins() {
		x := root.hist.sums(from+b, g.score.pack)
		switch {
		case x == sums{}:
		case int(coarse[b]) <= cut:
			at.last, at.left = b, at.left.plus(x)
		case at.next < 0:
			at.next = b
		}
	}

	task := g.score.leafTask(root)
	right := root.sums.minus(at.left)
	if at.left.h < task.minH || right.h < task.minH {
		return
	}

	at.gain = g.score.sides(at.left, right, g.score.l2, &task)
	if at.gain > task.shift {
		root.best = g.score.splitAt(&at, missing, feature, f, &task)
	}
}
