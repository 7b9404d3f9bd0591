package gbt

import "math"

// Tree is one regression tree, in the arrays of LightGBM's text format. Internal node i splits by Feature[i]. A child
// c >= 0 is an internal node, with a greater number than its parent; a child c < 0 is the leaf ^c. A tree with one leaf
// has no internal nodes.
type Tree struct {
	// By internal node.
	Feature   []int
	Threshold []float64 // numerical: values <= it go left; categorical: number of the category set, a whole number
	Decision  []uint8   // bits, see below: is it categorical, where missing values go, and which values are missing
	Left      []int
	Right     []int
	Gain      []float64

	// By leaf.
	LeafValue  []float64
	LeafWeight []float64 // sum of hessians
	LeafCount  []int     // rows

	// By internal node, what it would have as a leaf.
	InternalValue  []float64
	InternalWeight []float64
	InternalCount  []int

	// Category set s has the categories that go left at a node. It is a bit set in 32-bit words:
	// CatThreshold[CatBoundaries[s]:CatBoundaries[s+1]].
	CatBoundaries []int
	CatThreshold  []uint32

	Shrinkage float64 // the learning rate, which the values already contain

	// left holds, by internal node, the bins that go left; it is nil in trees read from a file.
	left []binSet
}

// Bits of Decision. Bits 2 and 3 say which values are missing at a node: none (then NaN counts as 0), zeros and NaN, or
// NaN.
const (
	decisionCategorical = 1 << 0
	decisionDefaultLeft = 1 << 1 // missing values go left
	missingNaN          = 2 << 2
	missingMask         = 3 << 2
	missingZero         = 1 << 2
)

// Leaves is the number of leaves.
func (t *Tree) Leaves() int { return len(t.LeafValue) }

// addBias adds x to every prediction of the tree.
func (t *Tree) addBias(x float64) {
	for i := range t.LeafValue {
		t.LeafValue[i] += x
	}
	for i := range t.InternalValue {
		t.InternalValue[i] += x
	}
}

// finite reports whether every leaf value is finite.
func (t *Tree) finite() bool {
	for _, v := range t.LeafValue {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return true
}

// constantTree predicts x for every row.
func constantTree(x float64) *Tree {
	return &Tree{LeafValue: []float64{x}, LeafWeight: []float64{0}, LeafCount: []int{0}, Shrinkage: 1}
}

// route sends rows, which are ascending, down the tree by their bins, and calls visit with each leaf that rows reach
// and these rows. The tree must know its bins (left). rows is reordered, and scratch, as long, is overwritten. Each
// node takes one pass over one column, without a branch on the data.
func (t *Tree) route(columns [][]byte, rows, scratch []uint32, visit func(leaf int, rows []uint32)) {
	if len(t.Feature) == 0 {
		visit(0, rows)
		return
	}
	t.routeFrom(0, columns, rows, scratch, visit)
}

// routeFrom is route for rows that have reached a node, or a leaf if it is negative.
func (t *Tree) routeFrom(node int, columns [][]byte, rows, scratch []uint32, visit func(int, []uint32)) {
	if len(rows) == 0 {
		return
	}
	if node < 0 {
		visit(^node, rows)
		return
	}

	// Left rows first, right rows behind them.
	n := partition(rows, scratch, columns[t.Feature[node]], &t.left[node])
	copy(rows[n:], scratch[:len(rows)-n])
	t.routeFrom(t.Left[node], columns, rows[:n], scratch[:n], visit)
	t.routeFrom(t.Right[node], columns, rows[n:], scratch[n:], visit)
}

// rowSet is a list of row numbers: those in subset or, if that is nil, 0..n-1.
type rowSet struct {
	n      int
	subset []uint32
}

// rows returns the rows in use.
func (d *Data) rows() rowSet { return rowSet{d.Rows, d.Subset} }

func (s rowSet) len() int {
	if s.subset != nil {
		return len(s.subset)
	}
	return s.n
}

// copy fills dst with the row numbers at the positions from, from+1 ... of the set.
func (s rowSet) copy(dst []uint32, from int) {
	if s.subset != nil {
		copy(dst, s.subset[from:])
		return
	}
	for i := range dst {
		dst[i] = uint32(from + i)
	}
}

// predict returns the tree's value for one row of raw feature values, x, as LightGBM does.
func (t *Tree) predict(x []float64) float64 {
	if len(t.Feature) == 0 {
		return t.LeafValue[0]
	}
	return t.predictFrom(0, x)
}

// predictFrom is predict for a row that has reached node.
func (t *Tree) predictFrom(node int, x []float64) float64 {
	for node >= 0 {
		if t.goesLeft(node, x[t.Feature[node]]) {
			node = t.Left[node]
		} else {
			node = t.Right[node]
		}
	}
	return t.LeafValue[^node]
}

// goesLeft reports whether a row whose feature has the raw value v goes left at a node. Which values are missing
// depends on the node; if none are, NaN counts as 0.
func (t *Tree) goesLeft(node int, v float64) bool {
	d := t.Decision[node]
	if d&decisionCategorical != 0 {
		return t.inCategory(node, v)
	}

	missing := v != v
	switch d & missingMask {
	case missingNaN:
		if missing {
			return d&decisionDefaultLeft != 0
		}
	case missingZero:
		if missing || v >= -zeroThreshold && v <= zeroThreshold {
			return d&decisionDefaultLeft != 0
		}
	default:
		if missing {
			v = 0
		}
	}

	return v <= t.Threshold[node]
}

// zeroThreshold is the magnitude up to which LightGBM treats a value as zero, if zero means missing.
const zeroThreshold = 1e-35

// inCategory reports whether a raw value is a category that goes left at a categorical node. As in LightGBM, the
// category is the value without its fraction.
func (t *Tree) inCategory(node int, v float64) bool {
	if !(v > -1 && v < 1<<31) { // NaN, and values that are negative or too large for a category, go right
		return false
	}
	c := int(v)
	words := t.categories(node)
	return c/32 < len(words) && words[c/32]>>(c%32)&1 == 1
}

// categories returns the bit set of the categories that go left at a categorical node, in the tree's memory.
func (t *Tree) categories(node int) []uint32 {
	set := int(t.Threshold[node])
	return t.CatThreshold[t.CatBoundaries[set]:t.CatBoundaries[set+1]]
}

// addCategories appends a category set with the bins in left, without zero words at its end, and returns its number. (A
// category has the number of its bin.)
func (t *Tree) addCategories(left *binSet) int {
	if t.CatBoundaries == nil {
		t.CatBoundaries = []int{0}
	}

	var words []uint32
	for _, w := range left {
		words = append(words, uint32(w), uint32(w>>32))
	}
	for len(words) > 1 && words[len(words)-1] == 0 { // a set has at least one word
		words = words[:len(words)-1]
	}

	t.CatThreshold = append(t.CatThreshold, words...)
	t.CatBoundaries = append(t.CatBoundaries, len(t.CatThreshold))
	return len(t.CatBoundaries) - 2
}
