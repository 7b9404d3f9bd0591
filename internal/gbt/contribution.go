package gbt

import (
	"fmt"

	"coppice/internal/problem"
)

// Contributions computes what each feature adds to the raw score of each row: SHAP values by the polynomial algorithm
// for trees (Lundberg et al., 2018, algorithm 2), as LightGBM's predict(pred_contrib=True). x is [rows x Features()]
// and out, the result, [rows x Outputs() x (Features()+1)]. The last number of an output is the expected score, the
// same in every row; the numbers of a row and output add up to its raw score.
//
// The probability of going either way at a node is taken from the counts of training rows. A model whose file does not
// have these is refused.
func (m *Model) Contributions(x, out []float64, threads int) error {
	f, n := m.Features(), m.Outputs()
	rows := len(out) / (n * (f + 1))
	if len(x) != f*rows || len(out) != n*rows*(f+1) {
		return fmt.Errorf("%w: %d values and room for %d contributions of %d features", ErrData, len(x), len(out), f)
	}
	for k := range n {
		if err := m.outputModel(k).contributions(x, out[k*(f+1):], n*(f+1), threads); err != nil {
			return err
		}
	}
	return nil
}

// contributions is Contributions for a model with one output. Row r's numbers are written to out[r*stride:].
func (m *Model) contributions(x, out []float64, stride, threads int) error {
	f := m.Features()
	rows := len(x) / f

	// The expected score, and the depth of the deepest tree.
	expected, deepest := 0.0, 0
	for i, t := range m.Trees {
		mean, err := t.expected()
		if err != nil {
			return fmt.Errorf("tree %d: %w", i, err)
		}
		expected += mean
		deepest = max(deepest, t.depth())
	}

	// A row visits every node of every tree, which takes hundreds of microseconds: one row is enough for a chunk.
	pool := newPool(threads)
	defer pool.close()
	walks := make([]shapWalk, pool.size)
	pool.parallel(rows, 1, func(worker, lo, hi int) {
		w := &walks[worker]
		w.growFor(deepest)
		for r := lo; r < hi; r++ {
			w.x, w.phi = x[r*f:(r+1)*f], out[r*stride:][:f+1]
			clear(w.phi)
			w.phi[f] = expected
			for _, t := range m.Trees {
				if len(t.Feature) > 0 {
					w.tree = t
					w.visit(0, 0, 0, 1, 1, -1)
				}
			}
		}
	})
	return nil
}

// expected returns the mean of the leaf values over the training rows. It is an error if a node or leaf has no count.
func (t *Tree) expected() (float64, error) {
	if len(t.Feature) == 0 {
		return t.LeafValue[0], nil
	}

	sum, rows := 0.0, 0
	for leaf, n := range t.LeafCount {
		if n < 1 {
			return 0, problem.New(problem.Input, "the model has no count of rows for leaf %d, without which nothing "+
				"can be said of contributions", leaf)
		}
		sum += float64(float64(n) * t.LeafValue[leaf])
		rows += n
	}
	for node, n := range t.InternalCount {
		if n < 1 { // needed as a divisor
			return 0, problem.New(problem.Input, "the model has no count of rows for node %d, without which nothing "+
				"can be said of contributions", node)
		}
	}
	return sum / float64(rows), nil
}

// depth is the number of internal nodes on the longest path from the root to a leaf. One pass is enough, because
// children have greater numbers than their parents.
func (t *Tree) depth() int {
	deepest, above := 0, make([]int, len(t.Feature)) // above: by node, how many nodes lead to it
	for node := range t.Feature {
		for _, child := range []int{t.Left[node], t.Right[node]} {
			if child >= 0 {
				above[child] = above[node] + 1
			}
		}
		deepest = max(deepest, above[node]+1)
	}
	return deepest
}

// rowsBelow is the number of training rows that reached a node, or a leaf if child is negative.
func (t *Tree) rowsBelow(child int) float64 {
	if child < 0 {
		return float64(t.LeafCount[^child])
	}
	return float64(t.InternalCount[child])
}

// step is an element of the path to a node, in the paper's terms: one for each feature that the nodes above split by.
// The first step of a path belongs to no feature.
type step struct {
	feature int
	zero    float64 // share of training rows that get through the feature's nodes: what counts if it is unknown
	one     float64 // 1 if this row gets through them, else 0: what counts if it is known
	weight  float64 // of step i: the weight of all sets of i known features
}

// shapWalk walks down a tree with one row.
type shapWalk struct {
	tree  *Tree
	x     []float64 // the row's values
	phi   []float64 // the row's contributions by feature, to which visit adds
	steps []step    // memory for the path at each depth; each path is behind that of the depth above
}

// growFor makes sure that there is memory for the paths in trees of this depth. The path at depth d has at most d+1
// steps, and the root's parent counts as another level.
func (w *shapWalk) growFor(deepest int) {
	// 1 + 2 + ... + (deepest + 2)
	if n := (deepest + 2) * (deepest + 3) / 2; len(w.steps) < n {
		w.steps = make([]step, n)
	}
}

// visit adds the contributions of the leaves below a node, or of the leaf ^node if it is negative, to w.phi. The path
// of the node's parent is w.steps[from:from+n]. The step from the parent to the node has the given zero, one and
// feature.
func (w *shapWalk) visit(node, from, n int, zero, one float64, feature int) {
	// The path to this node: the parent's and one more step.
	t := w.tree
	path := w.steps[from+n : from+n+n+1]
	copy(path, w.steps[from:from+n])
	extend(path, zero, one, feature)

	// A leaf contributes its value to each feature on the path: with the weight of all sets of the other features, by
	// how much knowing the feature changes whether the row gets here.
	if node < 0 {
		value := t.LeafValue[^node]
		for i := 1; i < len(path); i++ {
			w.phi[path[i].feature] += float64(weightWithout(path, i) * (path[i].one - path[i].zero) * value)
		}
		return
	}

	split := t.Feature[node]
	goes, other := t.Right[node], t.Left[node]
	if t.goesLeft(node, w.x[split]) {
		goes, other = other, goes
	}

	// A feature that occurs again has only one step: remove the earlier one, and continue from its shares.
	zero, one = 1, 1
	for i := 1; i < len(path); i++ {
		if path[i].feature == split {
			zero, one = path[i].zero, path[i].one
			unwind(path, i)
			path = path[:len(path)-1]
			break
		}
	}

	// Both children extend this path, each in the memory behind it. The row itself goes to only one of them.
	rows := float64(t.InternalCount[node])
	w.visit(goes, from+n, len(path), zero*t.rowsBelow(goes)/rows, one, split)
	w.visit(other, from+n, len(path), zero*t.rowsBelow(other)/rows, 0, split)
}

// extend sets the last step of a path, whose other steps are set already, and updates the weights of all steps (EXTEND
// in the paper).
func extend(path []step, zero, one float64, feature int) {
	last := len(path) - 1
	path[last] = step{feature: feature, zero: zero, one: one}
	if last == 0 {
		path[0].weight = 1
	}

	// Backwards, because a weight is made from the old weight of the step before it.
	for i := last - 1; i >= 0; i-- {
		path[i+1].weight += one * path[i].weight * float64(i+1) / float64(last+1)
		path[i].weight = zero * path[i].weight * float64(last-i) / float64(last+1)
	}
}

// unwind removes step i from a path, as if it had never been added (UNWIND in the paper). The steps after it move one
// place forward, and the last element of path is then unused.
func unwind(path []step, i int) {
	last := len(path) - 1
	zero, one := path[i].zero, path[i].one
	next := path[last].weight

	for j := last - 1; j >= 0; j-- {
		if one != 0 {
			was := path[j].weight
			path[j].weight = next * float64(last+1) / (float64(j+1) * one)
			next = was - path[j].weight*zero*float64(last-j)/float64(last+1)
		} else {
			path[j].weight = path[j].weight * float64(last+1) / (zero * float64(last-j))
		}
	}

	// Weights stay where they are: that of place j is of all sets of j features, whichever step is there.
	for j := i; j < last; j++ {
		path[j].feature, path[j].zero, path[j].one = path[j+1].feature, path[j+1].zero, path[j+1].one
	}
}

// weightWithout returns the sum of the weights that would be left after unwind of step i, without changing the path.
func weightWithout(path []step, i int) float64 {
	last := len(path) - 1
	zero, one := path[i].zero, path[i].one
	next, total := path[last].weight, 0.0

	for j := last - 1; j >= 0; j-- {
		if one != 0 {
			weight := next * float64(last+1) / (float64(j+1) * one)
			total += weight
			next = path[j].weight - weight*zero*float64(last-j)/float64(last+1)
		} else {
			total += path[j].weight / (zero * float64(last-j) / float64(last+1))
		}
	}
	return total
}
