package gbt

import "fmt"

// With monotone_constraints_method: intermediate (Auguste et al., 2020), a split by a monotone feature binds its sides
// to each other's values instead of to the middle between them, which basic does. So when one of the two is split
// later, the bounds of all leaves that the new values concern are tightened, and their best splits are found again.

const (
	basicMethod        = "basic"
	intermediateMethod = "intermediate"
)

func canonicalMethod(name string) (string, error) {
	switch name {
	case basicMethod, intermediateMethod:
		return name, nil
	case "advanced":
		return "", fmt.Errorf("advanced, whose bounds differ between the thresholds of one split, is not there; use %s",
			intermediateMethod)
	}
	return "", fmt.Errorf("there is no %s %.40q; use %s or %s", monotoneMethod, name, basicMethod, intermediateMethod)
}

// pathStep is a split on the path to a leaf.
type pathStep struct {
	node   int
	isLeft bool

	// What the path up to here leaves of the feature: bins first to last of present values, and missing ones. Of a
	// categorical feature everything, as in LightGBM: no leaves are taken to be apart by their categories.
	feature     int
	first, last int
	missing     bool
}

// disjoint reports whether no row can be within both steps, which are of one feature. Missing values count even where
// the training rows have none, since every split sends them to one side.
func (s *pathStep) disjoint(o *pathStep) bool {
	return (s.first > o.last || o.first > s.last) && !(s.missing && o.missing)
}

// longer is the path to one child of a leaf that becomes a node.
func (g *grower) longer(path []pathStep, node int, best *split, isLeft bool) []pathStep {
	f := &g.data.Features[best.feature]
	next := pathStep{feature: best.feature, last: f.valueBins() - 1, missing: true}
	if above := latest(path, best.feature); above != nil {
		next = *above
	}
	next.node, next.isLeft = node, isLeft
	if !f.Categorical {
		if isLeft {
			next.last = min(next.last, best.at)
		} else {
			next.first = max(next.first, best.at+1)
		}
		next.missing = next.missing && best.missing == isLeft
	}
	return append(path[:len(path):len(path)], next)
}

// latest is the last step of a path by a feature, which says what is left of it; nil if all is.
func latest(path []pathStep, feature int) *pathStep {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].feature == feature {
			return &path[i]
		}
	}
	return nil
}

// relation is 1 if the values of leaf l may not be below those of leaf o, -1 if not above, and 0 if they are free. They
// are bound if a split by a monotone feature parts them, and rows are on either side that differ by nothing else.
func (g *grower) relation(l, o *leaf) int8 {
	i := 0
	for l.path[i].isLeft == o.path[i].isLeft {
		i++
	}
	parting := &l.path[i]
	direction := g.directions[parting.feature]
	if direction == 0 {
		return 0
	}

	for k := i + 1; k < len(l.path); k++ {
		s := &l.path[k]
		if other := latest(o.path, s.feature); other != nil && s.feature != parting.feature && s.disjoint(other) {
			return 0
		}
	}
	if parting.isLeft {
		return -direction
	}
	return direction
}

// tighten bounds the other leaves by the values of leaf i and the last leaf, which a split has just made, and finds the
// best splits of those that have new bounds again. A leaf without a split, whose histogram is gone, stays without: its
// gains only fall.
func (g *grower) tighten(i int) error {
	made := []*leaf{&g.leaves[i], &g.leaves[len(g.leaves)-1]}
	var bound []*leaf
	for k := range g.leaves[:len(g.leaves)-1] {
		l := &g.leaves[k]
		if k == i {
			continue
		}
		low, high := l.low, l.high
		for _, o := range made {
			switch g.relation(l, o) {
			case 1:
				l.low = max(l.low, o.out)
			case -1:
				l.high = min(l.high, o.out)
			}
		}
		if (l.low != low || l.high != high) && l.best.gain > 0 {
			bound = append(bound, l)
		}
	}

	first, end := g.histograms.own()
	g.pool.parallel(len(bound), 1, func(worker, lo, hi int) {
		for _, l := range bound[lo:hi] {
			finders := g.finders(worker, l)
			g.scoreFeatures(nil, finders, worker, first, end)
			endFinders(finders)
		}
	})
	g.data.link.agree(bound)
	for _, l := range bound {
		g.freeUseless(l)
	}
	return g.data.link.failed()
}

// constrained reports whether a later split can change the leaf's bounds.
func (g *grower) constrained(l *leaf) bool {
	for i := range l.path {
		if g.directions[l.path[i].feature] != 0 {
			return true
		}
	}
	return false
}
