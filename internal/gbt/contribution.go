package gbt

import "fmt"

// Contributions computes what each feature adds to the raw score of each row: SHAP values by the polynomial algorithm
// for trees (Lundberg et al., 2018, algorithm 2), as LightGBM's predict(pred_contrib=True). x has Features() values per
// row, out Features()+1 for each output: the last is the expected score, the same in every row, and a row's numbers add
// up to its raw score.
//
// The probability of going either way at a node is taken from the counts of training rows; a model whose file does not
// have these is refused.
func (m *Model) Contributions(x, out []float64, threads int) error {
	f, n := m.Features(), m.Outputs()
	rows := len(out) / (n * (f + 1))
	if len(x) != f*rows || len(out) != n*rows*(f+1) {
		return fmt.Errorf("%w: %d values and room for %d contributions of %d features", ErrData, len(x), len(out), f)
	}
	for k := range n {
		if err := m.output(k).contributions(x, out[k*(f+1):], n*(f+1), threads); err != nil {
			return err
		}
	}
	return nil
}

// contributions is Contributions of one output, to every stride-th place of out.
func (m *Model) contributions(x, out []float64, stride, threads int) error {
	f := m.Features()
	rows := len(x) / f
	expected, deepest := 0.0, 0
	for i, t := range m.Trees {
		mean, err := t.expected()
		if err != nil {
			return fmt.Errorf("tree %d: %w", i, err)
		}
		expected += mean
		deepest = max(deepest, t.depth())
	}

	// A row visits every node of every tree, hundreds of microseconds: one is enough for a chunk.
	pool := newPool(threads)
	defer pool.close()
	walks := make([]shapWalk, pool.size)
	pool.parallel(rows, 1, func(worker, lo, hi int) {
		w := &walks[worker]
		w.room(deepest)
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

// expected is the mean of the leaf values over the training rows.
func (t *Tree) expected() (float64, error) {
	if len(t.Feature) == 0 {
		return t.LeafValue[0], nil
	}

	sum, rows := 0.0, 0
	for leaf, n := range t.LeafCount {
		if n < 1 {
			return 0, modelErrorf(0, "leaf %d has no count of rows, without which nothing can be said of contributions",
				leaf)
		}
		sum += float64(float64(n) * t.LeafValue[leaf])
		rows += n
	}
	for node, n := range t.InternalCount {
		if n < 1 { // needed as a divisor
			return 0, modelErrorf(0, "node %d has no count of rows, without which nothing can be said of contributions",
				node)
		}
	}
	return sum / float64(rows), nil
}

// depth is the longest path from the root to a leaf, in nodes. Children follow their parents.
func (t *Tree) depth() int {
	deepest, at := 0, make([]int, len(t.Feature))
	for node := range t.Feature {
		for _, child := range []int{t.Left[node], t.Right[node]} {
			if child >= 0 {
				at[child] = at[node] + 1
			}
		}
		deepest = max(deepest, at[node]+1)
	}
	return deepest
}

// rowsBelow is the number of training rows in a node or leaf.
func (t *Tree) rowsBelow(child int) float64 {
	if child < 0 {
		return float64(t.LeafCount[^child])
	}
	return float64(t.InternalCount[child])
}

// step is a feature on the path to a node: the share of rows that get through if the feature is unknown (zero), whether
// this row does if it is known (one), and the weight of all sets of known features of one size.
type step struct {
	feature           int
	zero, one, weight float64
}

// shapWalk walks down a tree with one row.
type shapWalk struct {
	tree  *Tree
	x     []float64
	phi   []float64
	steps []step // the path at each depth, after that of the depth above
}

// room allocates the paths for trees of this depth: at depth d there are at most d+1 steps.
func (w *shapWalk) room(deepest int) {
	// 1 + 2 + ... + (deepest + 2)
	if n := (deepest + 2) * (deepest + 3) / 2; len(w.steps) < n {
		w.steps = make([]step, n)
	}
}

// visit adds to phi the contributions of the leaves below a node. The path of the node above, of n steps, begins at
// from; zero, one and feature belong to the step to this node.
func (w *shapWalk) visit(node, from, n int, zero, one float64, feature int) {
	t := w.tree
	path := w.steps[from+n : from+n+n+1]
	copy(path, w.steps[from:from+n])
	extend(path, zero, one, feature)

	if node < 0 {
		value := t.LeafValue[^node]
		for i := 1; i < len(path); i++ {
			w.phi[path[i].feature] += float64(without(path, i) * (path[i].one - path[i].zero) * value)
		}
		return
	}

	split := t.Feature[node]
	goes, other := t.Right[node], t.Left[node]
	if t.goesLeft(node, w.x[split]) {
		goes, other = other, goes
	}

	// A feature that occurs again counts once: undo its earlier step.
	zero, one = 1, 1
	for i := 1; i < len(path); i++ {
		if path[i].feature == split {
			zero, one = path[i].zero, path[i].one
			unwind(path, i)
			path = path[:len(path)-1]
			break
		}
	}

	rows := float64(t.InternalCount[node])
	w.visit(goes, from+n, len(path), zero*t.rowsBelow(goes)/rows, one, split)
	w.visit(other, from+n, len(path), zero*t.rowsBelow(other)/rows, 0, split)
}

// extend fills the last step of a path and updates the weights of the sets.
func extend(path []step, zero, one float64, feature int) {
	last := len(path) - 1
	path[last] = step{feature, zero, one, 0}
	if last == 0 {
		path[0].weight = 1
	}
	for i := last - 1; i >= 0; i-- {
		path[i+1].weight += one * path[i].weight * float64(i+1) / float64(last+1)
		path[i].weight = zero * path[i].weight * float64(last-i) / float64(last+1)
	}
}

// unwind is the inverse of extend for step i; it frees the path's last step.
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
	for j := i; j < last; j++ {
		path[j].feature, path[j].zero, path[j].one = path[j+1].feature, path[j+1].zero, path[j+1].one
	}
}

// without is the sum of the weights that unwind would leave.
func without(path []step, i int) float64 {
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
