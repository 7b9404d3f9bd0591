package gbt

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"coppice/internal/exact"
)

// missingRule says which values are missing at a numerical node, and where they go.
type missingRule uint8

const (
	nanIsZero    missingRule = iota // none is missing; NaN counts as 0
	nanGoesRight                    // NaN is missing
	nanGoesLeft
	zeroGoesRight // zero and NaN are missing
	zeroGoesLeft
)

// columnRule is the rule of the numberColumn that a predicate belongs to. Two predicates share a column if the same
// values are missing; the column's rule is the one of these in which missing values go right.
func (rule missingRule) columnRule() missingRule {
	if rule.left() {
		return rule - 1
	}
	return rule
}

// left reports whether missing values go left.
func (rule missingRule) left() bool { return rule == nanGoesLeft || rule == zeroGoesLeft }

// ruleOf returns the missingRule of a numerical node's Tree.Decision.
func ruleOf(decision uint8) missingRule {
	left := decision&decisionDefaultLeft != 0
	switch missing := decision & missingMask; {
	case missing == missingNaN && left:
		return nanGoesLeft
	case missing == missingNaN:
		return nanGoesRight
	case missing == missingZero && left:
		return zeroGoesLeft
	case missing == missingZero:
		return zeroGoesRight
	}
	return nanIsZero
}

// compile returns the model in the form for predicting many rows. The model must have one output. It takes about 0.2
// µs per node.
//
// Trees are collected into blocks. A block ends with the tree that brings it to treeBlockLimit predicates. The bytes of
// category tables are counted over all blocks.
func (m *Model) compile() *forest {
	f := &forest{features: m.Features()}
	b := &treeBlockBuilder{answers: map[bound]uint32{}}
	for i, t := range m.Trees {
		b.addTree(t)
		if len(b.answers)+len(b.sets) >= treeBlockLimit || i == len(m.Trees)-1 {
			f.treeBlocks = append(f.treeBlocks, b.treeBlock())
			b = &treeBlockBuilder{answers: map[bound]uint32{}, tables: b.tables}
		}
	}

	answers := 0
	for i := range f.treeBlocks {
		answers = max(answers, f.treeBlocks[i].answers)
	}
	f.scratch.New = func() any { return newBatchScratch(answers) }
	return f
}

// newBatchScratch returns memory for the given number of answers. With the vectors of addTrees, which need the same
// instructions as picking bytes, batches have at most 64 rows, and few is enough.
func newBatchScratch(answers int) *batchScratch {
	s := &batchScratch{vectors: canPickBytes(), few: make([]uint64, answers)}
	if !s.vectors {
		s.answers = make([]word, answers)
	}
	return s
}

// treeBlockBuilder collects trees and their predicates, and then assigns an index to the answer to each predicate.
type treeBlockBuilder struct {
	answers map[bound]uint32 // the numerical predicates, each once; the index of its answer is set by placeBounds
	sets    []categorySet    // the categorical predicates, one for each node that has one
	trees   []treeBuilder
	tables  int // bytes of category tables in all blocks so far, if every set had a table of its own
}

// bound is the predicate "the feature's value is at most value, or missing and missing values go left".
type bound struct {
	feature int
	rule    missingRule
	value   float64
}

// categorySet is the predicate "the feature's category is in this set".
type categorySet struct {
	feature int
	words   []uint32 // the set as bits
	size    int      // one more than the largest category in the set
	answer  uint32   // index of its answer, set by placeSets
}

// treeBuilder is a flatTree whose predicates have no index yet. Predicate i is sets[i] if that is not negative, an
// index into treeBlockBuilder.sets, and bounds[i] otherwise. First come the predicates of flatTree.nodes, then those of
// deeper.
type treeBuilder struct {
	flatTree
	bounds []bound
	sets   []int
	deeper []int     // the nodes of the Tree in flatTree.deep
	values []float64 // by exit, the value of its leaf; 0 for an exit to a node
}

// addTree adds a tree to the block. The nodes nearest to the root become flat nodes, as many as fit. Wherever a path
// leaves these it has an exit, to a leaf or to a node of t from which rows are walked on.
func (b *treeBlockBuilder) addTree(t *Tree) {
	s := treeBuilder{flatTree: flatTree{tree: t}}
	var queue []int // nodes that have a place among the flat nodes, but whose children have none yet
	placed := 0

	// placeChild returns the place of a flat node or, from maxExits on, an exit. n nodes have n+1 exits, so there is
	// one node fewer than exits.
	placeChild := func(child int) uint16 {
		if child >= 0 && placed < maxExits-1 && b.flattens(t, child) {
			queue = append(queue, child)
			placed++
			return uint16(placed - 1)
		}
		return maxExits + s.addExit(child)
	}

	if len(t.Feature) == 0 {
		s.addExit(^0)
	} else {
		placeChild(0)
	}

	// Breadth first, so that the upper levels, which most rows pass, are flat.
	for len(queue) > 0 {
		node := queue[0]
		queue = queue[1:]
		s.nodes = append(s.nodes, flatNode{left: placeChild(t.Left[node]), right: placeChild(t.Right[node])})
		b.recordPredicate(&s, node)
	}

	// If not all exits are leaves, prepare for walking on below them.
	s.numberExits()
	if slices.Max(s.rest) < 0 {
		s.rest = nil
	} else if len(s.nodes) > 0 && t.Leaves() <= maxDeep {
		b.deepen(&s)
	}
	b.trees = append(b.trees, s)
}

// addExit adds an exit to a child, which is a leaf if negative, else a node. It returns the exit's number, which is
// preliminary: numberExits changes it.
func (s *treeBuilder) addExit(child int) uint16 {
	value := 0.0
	if child < 0 {
		value = s.tree.LeafValue[^child]
	}
	s.values = append(s.values, value)
	s.rest = append(s.rest, int32(max(child, -1)))
	s.exits++
	return uint16(s.exits - 1)
}

// numberExits numbers the exits anew, from left to right, and writes an unused node behind the last flat one.
func (s *treeBuilder) numberExits() {
	// Count the exits below each node, children before parents.
	n := len(s.nodes)
	exits := func(below []int, child uint16) int { // the exits below a child, or the child itself
		if child >= maxExits {
			return 1
		}
		return below[child]
	}
	below := make([]int, n)
	for i := n - 1; i >= 0; i-- {
		left := exits(below, s.nodes[i].left)
		s.nodes[i].before = uint8(left)
		below[i] = left + exits(below, s.nodes[i].right)
	}

	// Number them, parents before children. place does so for a child below which the first exit gets this number.
	values, rest := slices.Clone(s.values), slices.Clone(s.rest)
	first := make([]int, n) // by node, the number of the first exit below it
	place := func(child *uint16, number int) {
		if *child < maxExits {
			first[*child] = number
			return
		}
		s.values[number], s.rest[number] = values[*child-maxExits], rest[*child-maxExits]
		*child = uint16(maxExits + number)
	}
	for i := range s.nodes {
		place(&s.nodes[i].left, first[i])
		place(&s.nodes[i].right, first[i]+int(s.nodes[i].before))
	}

	// The assembly may read a node behind the last one. This one writes to the last exit, which is not used.
	s.nodes = append(s.nodes, flatNode{left: 2*maxExits - 1, right: 2*maxExits - 1})[:n]
}

// deepen fills s.deep with all nodes below the exits, so that rows can be walked on with answers. If one of these nodes
// has a predicate that cannot be evaluated for a batch, s.deep stays nil, and rows are walked on in the Tree.
func (b *treeBlockBuilder) deepen(s *treeBuilder) {
	t := s.tree
	var queue []int // nodes to add
	push := func(node int) {
		if node >= 0 {
			queue = append(queue, node)
		}
	}

	for _, node := range s.rest {
		push(int(node))
	}

	deep := make([]deepNode, len(t.Feature))
	for len(queue) > 0 {
		node := queue[0]
		queue = queue[1:]
		if !b.flattens(t, node) {
			s.deeper = nil
			return
		}

		deep[node].next = [2]int32{int32(t.Right[node]), int32(t.Left[node])} // by answer: 1 means left
		s.deeper = append(s.deeper, node)
		b.recordPredicate(s, node)
		push(t.Left[node])
		push(t.Right[node])
	}

	s.deep = deep
}

// recordPredicate appends the predicate of a node of s.tree to those of s, and adds it to the block's.
func (b *treeBlockBuilder) recordPredicate(s *treeBuilder, node int) {
	t := s.tree
	if t.Decision[node]&decisionCategorical != 0 {
		words := t.categories(node)
		b.sets = append(b.sets, categorySet{feature: t.Feature[node], words: words, size: setSize(words)})
		b.tables += setSize(words) + 1
		s.bounds = append(s.bounds, bound{})
		s.sets = append(s.sets, len(b.sets)-1)
		return
	}

	// As map keys, -0 and 0 are equal. placeBounds sets the answer's index.
	q := bound{feature: t.Feature[node], rule: ruleOf(t.Decision[node]), value: t.Threshold[node]}
	b.answers[q] = 0
	s.bounds = append(s.bounds, q)
	s.sets = append(s.sets, -1)
}

// treeBlock assigns an index to each answer and returns the finished block.
func (b *treeBlockBuilder) treeBlock() treeBlock {
	var g treeBlock
	b.placeBounds(&g)
	b.placeSets(&g)

	total := 0
	for i := range b.trees {
		total += len(b.trees[i].values)
	}

	// The leaf values of all trees are in one array. Every tree has a pointer to maxExits values, so it is padded.
	values := make([]float64, total+maxExits)
	at := 0
	for i := range b.trees {
		s := &b.trees[i]
		for n := range s.nodes {
			s.nodes[n].predicate = b.answerOf(s, n)
		}
		for n, node := range s.deeper {
			s.deep[node].predicate = b.answerOf(s, len(s.nodes)+n)
		}

		s.flatTree.values = (*[maxExits]float64)(values[at:])
		at += copy(values[at:], s.values)
		g.trees = append(g.trees, s.flatTree)
	}

	// How many trees one call of addTrees can add, from each tree on: up to and including the first one from whose
	// exits rows have to be walked on. It goes backwards, because a run continues with that of the next tree. A tree
	// without nodes has a run of 0, which ends the one before it.
	for i := len(g.trees) - 1; i >= 0; i-- {
		t := &g.trees[i]
		if len(t.nodes) == 0 {
			continue
		}
		t.run = 1
		if t.rest == nil && i+1 < len(g.trees) {
			t.run += min(g.trees[i+1].run, mostTrees-1)
		}
	}
	return g
}

// answerOf returns the index of the answer to predicate i of s.
func (b *treeBlockBuilder) answerOf(s *treeBuilder, i int) uint32 {
	if set := s.sets[i]; set >= 0 {
		return b.sets[set].answer
	}
	return b.answers[s.bounds[i]]
}

// mostTrees is the most trees of a call of addTrees: assembly cannot be preempted, so a call must not take long.
const mostTrees = 256

// placeBounds adds the numberColumns of all numerical predicates to the block, one for each feature and columnRule, and
// sets the indexes of their answers in b.answers.
func (b *treeBlockBuilder) placeBounds(g *treeBlock) {
	all := make([]bound, 0, len(b.answers))
	for q := range b.answers {
		all = append(all, q)
	}

	// Bounds of the same column are then next to each other, ascending.
	slices.SortFunc(all, func(x, y bound) int {
		return cmp.Or(x.feature-y.feature, int(x.rule.columnRule())-int(y.rule.columnRule()),
			cmp.Compare(x.value, y.value), int(x.rule)-int(y.rule))
	})

	// Cut one column after the other from the front.
	for len(all) > 0 {
		c := numberColumn{feature: all[0].feature, rule: all[0].rule.columnRule(), first: g.answers}
		var values []float64
		for c.count < len(all) && all[c.count].feature == c.feature && all[c.count].rule.columnRule() == c.rule {
			if all[c.count].rule.left() {
				c.left = append(c.left, uint32(c.count))
			}
			c.bounds = append(c.bounds, exact.Ordered(all[c.count].value))
			values = append(values, all[c.count].value)
			b.answers[all[c.count]] = uint32(c.first + c.count)
			c.count++
		}

		// The binary search needs one less than a power of two.
		for bits.OnesCount(uint(len(c.bounds)+1)) != 1 {
			c.bounds = append(c.bounds, math.MaxUint64)
		}

		c.wide = c.widened(values)
		g.numbers = append(g.numbers, c)
		g.answers += c.count + 1
		all = all[c.count:]
	}
}

// placeSets adds a categoryColumn for each feature with categorical predicates to the block, and sets the indexes of
// the answers in b.sets. Eight sets of a feature share a table.
func (b *treeBlockBuilder) placeSets(g *treeBlock) {
	order := make([]*categorySet, len(b.sets))
	for i := range b.sets {
		order[i] = &b.sets[i]
	}

	// A table is as long as its largest set, so sort by size: small sets then share small tables.
	slices.SortStableFunc(order, func(x, y *categorySet) int { return cmp.Or(x.feature-y.feature, y.size-x.size) })

	for len(order) > 0 {
		c := categoryColumn{feature: order[0].feature}
		for len(order) > 0 && order[0].feature == c.feature {
			group := categoryGroup{table: make([]byte, order[0].size+1), first: g.answers}
			for i := 0; i < 8 && len(order) > 0 && order[0].feature == c.feature; i++ {
				order[0].answer = uint32(g.answers + i)
				order[0].mark(group.table, i)
				order = order[1:]
			}

			c.groups = append(c.groups, group)
			g.answers += 8
		}

		g.categories = append(g.categories, c)
	}
}

// mark sets the given bit in the table's byte of each category in the set.
func (s *categorySet) mark(table []byte, bit int) {
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			table[i*32+bits.TrailingZeros32(w)] |= 1 << bit
		}
	}
}

// setSize is one more than the largest category in a bit set; 0 for an empty set.
func setSize(words []uint32) int {
	for i := len(words) - 1; i >= 0; i-- {
		if words[i] != 0 {
			return i*32 + bits.Len32(words[i])
		}
	}
	return 0
}

// flattens reports whether the predicate of a node can be evaluated for many rows at once: all but sets of categories
// whose tables would be too large.
func (b *treeBlockBuilder) flattens(t *Tree, node int) bool {
	return t.Decision[node]&decisionCategorical == 0 ||
		setSize(t.categories(node)) <= maxCategories && b.tables < maxTables
}
