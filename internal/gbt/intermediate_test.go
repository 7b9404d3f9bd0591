package gbt

import (
	"math"
	"slices"
)

// waypoint is a node above a leaf, and on which side of it the leaf is.
type waypoint struct {
	node   int
	isLeft bool
}

// reach lists the values with which rows come to a leaf, by feature: bins, and last missing values that have none.
// Categories are not told apart.
func reach(d *Data, t *Tree, left func(node, bin int) bool, path []waypoint) [][byteBins + 1]bool {
	all := make([][byteBins + 1]bool, len(d.Features))
	for f := range all {
		for v := range all[f] {
			all[f][v] = v < d.Features[f].Bins || v == byteBins
		}
	}
	for _, at := range path {
		f := t.Feature[at.node]
		if d.Features[f].Categorical {
			continue
		}
		for v := range all[f] {
			isLeft := t.Decision[at.node]&decisionDefaultLeft != 0
			if v < byteBins {
				isLeft = left(at.node, v)
			}
			all[f][v] = all[f][v] && isLeft == at.isLeft
		}
	}
	return all
}

// mustExceed is 1 if the values of one leaf may not be below another's, -1 if not above: rows that differ in one
// feature, with that direction, come to one or the other.
func mustExceed(d *Data, t *Tree, left func(node, bin int) bool, directions []int8, path, other []waypoint) int {
	i := 0
	for path[i] == other[i] {
		i++
	}
	parting := t.Feature[path[i].node]
	a, b := reach(d, t, left, path), reach(d, t, left, other)
	for f := range a {
		common := false
		for v := range a[f] {
			common = common || a[f][v] && b[f][v]
		}
		if !common && f != parting {
			return 0
		}
	}
	if path[i].isLeft {
		return -int(directions[parting])
	}
	return int(directions[parting])
}

// rebind bounds the other leaves by those that the split of leaf i has made.
func (r *reference) rebind(t *refTree, i int) {
	directions := r.p.MonotoneConstraints.among(r.d.Features)
	last := len(r.leaves) - 1
	left := func(node, bin int) bool { return t.sets[node][bin] }
	for k := range r.leaves[:last] {
		l := &r.leaves[k]
		low, high := l.low, l.high
		for _, o := range []*refLeaf{&r.leaves[i], &r.leaves[last]} {
			switch {
			case k == i:
			case mustExceed(r.d, t.Tree, left, directions, l.way, o.way) > 0:
				l.low = math.Max(l.low, o.out)
			case mustExceed(r.d, t.Tree, left, directions, l.way, o.way) < 0:
				l.high = math.Min(l.high, o.out)
			}
		}
		if (l.low != low || l.high != high) && l.best.gain > 0 {
			l.best = r.bestSplit(l)
		}
	}
}

// rebind bounds the places of later nodes by the children that a node was split into.
func (w *watch) rebind(t *Tree, node int, places []place, children [2]place) {
	directions := w.p.MonotoneConstraints.among(w.data.Features)
	left := func(node, bin int) bool { return t.left[node].has(bin) }
	for k := node + 1; k < len(places); k++ {
		at := &places[k]
		if at.way == nil || slices.Contains([]int{t.Left[node], t.Right[node]}, k) {
			continue // below another leaf, or a child
		}
		for _, o := range children {
			switch mustExceed(w.data, t, left, directions, at.way, o.way) {
			case 1:
				at.low = max(at.low, o.value)
			case -1:
				at.high = min(at.high, o.value)
			}
		}
	}
}
