package gbt

import "math"

// Tree is one regression tree, in the arrays of LightGBM's text format. Internal node i splits on Feature[i]; a
// negative child c is the leaf ^c. A tree with one leaf has no internal nodes.
type Tree struct {
	Feature   []int
	Threshold []float64 // numerical: values <= it go left; categorical: index into CatBoundaries
	Decision  []uint8   // bit 0 categorical, bit 1 missing goes left, bits 2-3 missing type (2: NaN)
	Left      []int
	Right     []int
	Gain      []float64

	LeafValue  []float64
	LeafWeight []float64 // sum of hessians
	LeafCount  []int     // rows

	InternalValue  []float64
	InternalWeight []float64
	InternalCount  []int

	// CatBoundaries delimits, in CatThreshold, the bit set of the categories that go left at each categorical node.
	CatBoundaries []int
	CatThreshold  []uint32

	Shrinkage float64

	// left holds the bins that go left at each node; it is nil in trees read from a file.
	left []binSet
}

// Bits of Decision.
const (
	decisionCategorical = 1 << 0
	decisionDefaultLeft = 1 << 1
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

// route sends rows down the tree by their bins and calls visit with each leaf's rows, which it reorders. It makes one
// pass over one column per node, without a branch on the data.
func (t *Tree) route(columns [][]byte, rows, scratch []uint32, visit func(leaf int, rows []uint32)) {
	if len(t.Feature) == 0 {
		visit(0, rows)
		return
	}
	t.routeFrom(0, columns, rows, scratch, visit)
}

// routeFrom is route from a node on; a negative one is a leaf.
func (t *Tree) routeFrom(node int, columns [][]byte, rows, scratch []uint32, visit func(int, []uint32)) {
	if len(rows) == 0 {
		return
	}
	if node < 0 {
		visit(^node, rows)
		return
	}
	n := partition(rows, scratch, columns[t.Feature[node]], &t.left[node])
	copy(rows[n:], scratch[:len(rows)-n])
	t.routeFrom(t.Left[node], columns, rows[:n], scratch[:n], visit)
	t.routeFrom(t.Right[node], columns, rows[n:], scratch[n:], visit)
}

// rowSet is the rows 0..n-1, or a subset.
type rowSet struct {
	n      int
	subset []uint32
}

func (d *Data) rows() rowSet { return rowSet{d.Rows, d.Subset} }

func (s rowSet) len() int {
	if s.subset != nil {
		return len(s.subset)
	}
	return s.n
}

// copy fills dst with the rows at positions from, from+1 ...
func (s rowSet) copy(dst []uint32, from int) {
	if s.subset != nil {
		copy(dst, s.subset[from:])
		return
	}
	for i := range dst {
		dst[i] = uint32(from + i)
	}
}

// predict returns the tree's value for one row of raw feature values, by LightGBM's rules.
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

// goesLeft says where a raw value goes at a node, by the node's rule of what is missing; NaN is 0 where nothing is.
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

// inCategory reports whether a raw value is a category that goes left; its fraction does not count, as in LightGBM.
func (t *Tree) inCategory(node int, v float64) bool {
	if !(v >= 0 && v < 1<<31) { // NaN and negative categories go right
		return false
	}
	c := int(v)
	words := t.categories(node)
	return c/32 < len(words) && words[c/32]>>(c%32)&1 == 1
}

// categories returns the bit set of the categories that go left at a categorical node.
func (t *Tree) categories(node int) []uint32 {
	set := int(t.Threshold[node])
	return t.CatThreshold[t.CatBoundaries[set]:t.CatBoundaries[set+1]]
}

// addCategories appends the set of categories as a bit set and returns its index.
func (t *Tree) addCategories(left *binSet) int {
	if t.CatBoundaries == nil {
		t.CatBoundaries = []int{0}
	}

	var words []uint32
	for _, w := range left {
		words = append(words, uint32(w), uint32(w>>32))
	}
	for len(words) > 1 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}

	t.CatThreshold = append(t.CatThreshold, words...)
	t.CatBoundaries = append(t.CatBoundaries, len(t.CatThreshold))
	return len(t.CatBoundaries) - 2
}
