package plot

import "math"

// Node is a split or a leaf of a tree.
type Node struct {
	Text    string  // of a split: what is asked; of a leaf: its value
	Share   float64 // of the rows that come here
	Value   float64 // of a leaf: below 0 pulls a prediction down
	Yes, No int     // indices of what follows; of a leaf, both -1
}

// Tree is a chart of a tree, from its root on the left to its leaves on the right.
type Tree struct {
	Chart
	Nodes []Node // the first is the root
}

const (
	leafHeight = 21
	levelWidth = 168
)

// Draw draws it, as high as its leaves are many and as wide as it is deep.
func (t *Tree) Draw() *Chart {
	c := t.Chart
	c.Wide = true
	if len(t.Nodes) == 0 {
		return &c
	}
	most := 0.0
	for _, n := range t.Nodes {
		if n.Yes < 0 && finite(n.Value) {
			most = max(most, math.Abs(n.Value))
		}
	}
	l := &treeLayout{tree: t, chart: &c, most: most, seen: make([]bool, len(t.Nodes))}
	l.place(0, 0)
	c.H = max(60, float64(l.leaves*leafHeight)+14)
	c.W = max(Half+1, float64(l.depth)*levelWidth+130)
	return &c
}

// treeLayout goes through a tree, leaves from top to bottom.
type treeLayout struct {
	tree   *Tree
	chart  *Chart
	most   float64 // the greatest value of a leaf, without its sign
	leaves int
	depth  int
	seen   []bool // a node that two lead to would not end
}

// place draws what lies below a node, then the node itself, in the middle of its two branches. It gives the node's
// height.
func (l *treeLayout) place(i, depth int) float64 {
	n := l.tree.Nodes[i]
	l.depth = max(l.depth, depth)
	x := 12 + float64(depth)*levelWidth
	if l.seen[i] || n.Yes < 0 || n.No < 0 || n.Yes >= len(l.seen) || n.No >= len(l.seen) {
		y := float64(l.leaves*leafHeight) + 16
		l.leaves++
		l.leaf(n, x, y)
		return y
	}

	l.seen[i] = true
	yes, no := l.place(n.Yes, depth+1), l.place(n.No, depth+1)
	y := (yes + no) / 2
	for _, next := range []struct {
		node int
		y    float64
	}{{n.Yes, yes}, {n.No, no}} {
		var p pen
		p.to('M', x, y).to('L', x+levelWidth-34, y)
		p = append(p, curveTo(x+levelWidth-34, y, x+levelWidth, next.y)...)
		l.chart.add("br "+weightClass(l.tree.Nodes[next.node].Share), None, p)
	}
	l.chart.label(clip(n.Text, 24), x+6, y-5, "l")
	return y
}

// leaf draws a leaf: the wider its bar, the more it moves a prediction.
func (l *treeLayout) leaf(n Node, x, y float64) {
	class := "bar v1"
	if n.Value > 0 {
		class = "bar v5"
	}
	w := 0.0
	if l.most > 0 && finite(n.Value) {
		w = 36 * math.Abs(n.Value) / l.most
	}
	w = max(1.5, w)
	l.chart.mark(class, box(x+2, y-5, w, 10))
	l.chart.label(clip(n.Text, 20), x+w+7, y+4, "l")
}

// curveTo is a bend from one height to another.
func curveTo(x1, y1, x2, y2 float64) string {
	middle := (x1 + x2) / 2
	return "C" + at(middle) + " " + at(y1) + " " + at(middle) + " " + at(y2) + " " + at(x2) + " " + at(y2)
}

// weightClass says how many rows go along a branch: w0 to w4.
func weightClass(share float64) string {
	switch {
	case share >= 0.5:
		return "w4"
	case share >= 0.2:
		return "w3"
	case share >= 0.05:
		return "w2"
	case share >= 0.01:
		return "w1"
	}
	return "w0"
}
