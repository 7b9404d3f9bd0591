package gbt

import "slices"

// A greedy tree begins with the split that takes most off the loss, and so it cannot see two features that matter only
// together: of the sign of a product, either factor says nothing. Once in lookahead_freq trees the best pair of splits is
// looked for, too: one feature's and then another's on either side of it (lookahead: Murthy and Salzberg, IJCAI 1995), on a
// sample of rows in coarse bins (as FAST finds interactions: Lou, Caruana, Gehrke and Hooker, KDD 2013). Its first split
// becomes the root if the pair holds on other rows, and if its three splits take more off the loss each than the best one
// does by itself. A table without such a pair gets the same trees as without looking.

const (
	lookRows     = 4096         // of the bag, on which pairs are compared
	checkRows    = 2 * lookRows // others, on which the best pair has to hold
	lookFeatures = 64           // among which pairs are looked for, at most
	lookShare    = 16           // pairs x lookRows may be the 16th part of rows x features, which is some percent of a tree's time
	lookLeast    = 1 << 16      // or so many, in small tables
	coarseBins   = 8            // of a feature, with about as many rows each
	none         = coarseBins - 1
	minLookRows  = coarseBins * coarseBins
	takeTogether = 64 // rows whose bins are asked for before the next step, so that the processor waits for many of them at once

	// evidence is how much more than by chance a pair has to take off the loss, in units of what one leaf more does by
	// chance. Three leaves more do that once in 600 looks.
	evidence = 12
)

// lookahead looks for pairs of splits.
type lookahead struct {
	g        *grower
	draw     key
	bag      []uint32         // rows
	gh       []uint32         // their packed gradients
	features []int            // looked at
	coarse   [][MaxBins]uint8 // of each, the coarse bin of each bin
	pairs    [][2]int         // of places in features
	best     []pairOfSplits   // of each goroutine

	// The sample's rows, lookRows of them or checkRows:
	words []int64   // their gradients
	codes [][]uint8 // of each feature looked at, their coarse bins
}

// pairOfSplits is the first feature's split behind coarse bin cut, and the second feature's on either side of it.
type pairOfSplits struct {
	gain          float64 // of all, on the sample
	number        int     // of the pair
	first, second int     // places in features
	cut           int
	cuts          [2]int // of the second feature, up to the first one's cut and behind it; behind the last coarse bin is none
}

// lookAhead replaces the root's best split by the first of a pair's, where that is better.
func (g *grower) lookAhead(bag, gh []uint32) {
	l, root := &g.look, &g.leaves[0]
	l.g, l.bag, l.gh, l.draw = g, bag, gh, newKey(g.p.Seed, forLookahead, g.number)
	pieces := min(lookRows+checkRows, len(bag)) / 3
	if !g.looks() || root.best.gain <= 0 || pieces < minLookRows || !l.choose(pieces) {
		return
	}
	each := func(gain float64, rows int) float64 { return gain * float64(len(bag)) / float64(rows) / 3 }
	l.take(pieces, l.places(), func(i int) uint32 { return l.row(3*i, 3*pieces) })
	p := l.search()
	if each(p.gain, pieces) <= root.best.gain {
		return
	}
	l.take(2*pieces, []int{p.first, p.second}, func(i int) uint32 { return l.row(3*(i/2)+1+i%2, 3*pieces) })
	noise := l.noise()
	gain := l.gainOf(&p) - float64(3*noise)
	if each(gain, 2*pieces) > root.best.gain && gain > evidence*noise {
		g.splitRoot(l.features[p.first], &l.coarse[p.first], p.cut)
	}
}

// looks says whether the present tree looks ahead. With fewer than four leaves there is no room for a pair, and where nodes draw their
// features, the second one's may not be there.
func (g *grower) looks() bool {
	p := g.p
	return p.LookaheadFreq > 0 && g.number%p.LookaheadFreq == p.LookaheadFreq-1 &&
		p.NumLeaves >= 4 && p.MaxDepth != 1 && p.FeatureFractionByNode >= 1
}

// choose draws the features that are looked at, as many numerical ones as there is time for, and says whether there are two.
func (l *lookahead) choose(rows int) bool {
	var numerical []int
	for _, f := range l.g.features {
		if !l.g.data.Features[f].Categorical {
			numerical = append(numerical, f)
		}
	}
	n, most := 1, max(len(l.bag)*len(l.g.features)/lookShare, lookLeast)/rows
	for n < min(len(numerical), lookFeatures) && n*(n+1)/2 <= most {
		n++
	}
	l.features, l.coarse, l.pairs = l.features[:0], l.coarse[:0], l.pairs[:0]
	for i, at := range l.draw.choose(make([]int, 0, n), len(numerical), n) {
		l.features = append(l.features, numerical[at])
		l.coarse = append(l.coarse, l.g.coarseBins(numerical[at]))
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
	feature, from, root := &g.data.Features[f], g.count.offset[f], g.leaves[0].hist
	counts := make([]int, feature.valueBins())
	for b := range counts {
		_, h := root.at(from+b, g.score.pack)
		counts[b] = int(h)
	}
	n := coarseBins
	if feature.Missing >= 0 {
		n--
		coarse[feature.Missing] = coarseBins - 1
	}
	copy(coarse[:], evenGroups(counts, n))
	if group := g.groups[f]; group != nil { // there may be no threshold within
		for b := 1; b < len(counts); b++ {
			if group[b] == group[b-1] {
				coarse[b] = coarse[b-1]
			}
		}
	}
	return coarse
}

// row is one of the i-th of equally long pieces of the bag.
func (l *lookahead) row(i, pieces int) uint32 {
	from, to := i*len(l.bag)/pieces, (i+1)*len(l.bag)/pieces
	return l.bag[from+int(l.draw.at(uint64(i))%uint64(to-from))]
}

// take makes n rows the sample. Only the features at the given places are looked at.
func (l *lookahead) take(n int, places []int, row func(i int) uint32) {
	l.words = slices.Grow(l.words[:0], n)[:n]
	for len(l.codes) < len(l.features) {
		l.codes = append(l.codes, nil)
	}
	for _, at := range places {
		l.codes[at] = slices.Grow(l.codes[at][:0], n)[:n]
	}
	data, pack := l.g.data, l.g.score.pack
	l.g.crew.parallel(n, 512, func(_, lo, hi int) {
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
}

// search is the best pair of splits on the sample. Of equals it is the first, whichever goroutine met it.
func (l *lookahead) search() pairOfSplits {
	l.best = append(l.best[:0], make([]pairOfSplits, l.g.crew.size)...)
	l.g.crew.parallel(len(l.pairs), 4, func(worker, lo, hi int) {
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
	upTo := c.upTo(l.g.score.pack)
	all := &upTo[none]
	unsplit := l.worth(all[none])
	for cut := range none {
		below, cutBelow := l.bestCut(&upTo[cut])
		behind, cutBehind := l.bestCut(all.minus(&upTo[cut]))
		if gain := below + behind - unsplit; gain > p.gain {
			p.gain, p.cut, p.cuts = gain, cut, [2]int{cutBelow, cutBehind}
		}
	}
	return p
}

func (l *lookahead) bestCut(x *running) (gain float64, cut int) {
	gain, cut = l.worth(x[none]), none
	for at := range none {
		if v := l.cutAt(x, at); v > gain {
			gain, cut = v, at
		}
	}
	return gain, cut
}

func (l *lookahead) cutAt(x *running, cut int) float64 {
	if cut == none {
		return l.worth(x[none])
	}
	return l.worth(x[cut]) + l.worth(x[none].minus(x[cut]))
}

// worth is what a leaf with these sums takes off the loss.
func (l *lookahead) worth(x sums) float64 {
	if x.h <= 0 {
		return 0
	}
	return l.g.score.gain(x, l.g.score.l2)
}

// gainOf is what the pair's splits take off the loss on the sample, wherever they were found.
func (l *lookahead) gainOf(p *pairOfSplits) float64 {
	c := l.count(p.first, p.second)
	upTo := c.upTo(l.g.score.pack)
	all, below := &upTo[none], &upTo[p.cut]
	return l.cutAt(below, p.cuts[0]) + l.cutAt(all.minus(below), p.cuts[1]) - l.worth(all[none])
}

// noise is what one leaf more takes off the loss of the sample by chance: 1 where hessians are the gradients' variances.
func (l *lookahead) noise() float64 {
	var squares, hessians float64
	for _, w := range l.words {
		g, h := l.g.score.pack.sums(w)
		squares += float64(g * g)
		hessians += float64(h)
	}
	return squares / max(hessians, 1)
}

// splitRoot makes the split of feature f behind a coarse bin the root's, if it is allowed.
func (g *grower) splitRoot(f int, coarse *[MaxBins]uint8, cut int) {
	root, feature, from := &g.leaves[0], &g.data.Features[f], g.count.offset[f]
	c := candidate{feature: f, l2: g.score.l2}
	for b := 0; b < feature.valueBins() && int(coarse[b]) <= cut; b++ {
		c.at = b
		c.left.add(b)
		c.sums = c.sums.plus(root.hist.sums(from+b, g.score.pack))
	}
	c.missing = 2*c.sums.h >= root.sums.h && (feature.Missing < 0 || root.hist.sums(from+feature.Missing, g.score.pack) == sums{})
	if c.missing && feature.Missing >= 0 {
		c.left.add(feature.Missing)
	}
	task, right := g.score.task(root.sums, len(root.rows)), root.sums.minus(c.sums)
	if c.sums.h < task.minH || right.h < task.minH {
		return
	}
	c.gain = g.score.gain(c.sums, c.l2) + g.score.gain(right, c.l2) - task.shift
	if c.gain > 0 {
		root.best = c
	}
}
