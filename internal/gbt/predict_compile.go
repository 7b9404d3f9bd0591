package gbt

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"coppice/internal/exact"
)

// missingRule says what is missing, and which way it goes.
type missingRule uint8

const (
	nanIsZero     missingRule = iota
	nanGoesRight              // kept: NaN is not <= any bound
	nanGoesLeft               // is <= any bound
	zeroGoesRight             // zero and NaN
	zeroGoesLeft              // zero and NaN
)

// notion is the rule of the column in which a predicate is: what is missing is the same, and goes right.
func (rule missingRule) notion() missingRule {
	if rule.left() {
		return rule - 1
	}
	return rule
}

func (rule missingRule) left() bool { return rule == nanGoesLeft || rule == zeroGoesLeft }

// ruleOf reads what a node's decision says of missing values: which they are, and where they go.
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

// compile converts the model to the form for predicting many rows. It takes about 0.2 µs per node.
//
// A block of trees ends once its predicates fill treeBlockLimit; the next one goes on counting the bytes of tables.
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

// newBatchScratch has room for the answers to so many predicates. With vectors, which take the
// instructions of picking bytes, batches have 64 rows, so few is enough.
func newBatchScratch(answers int) *batchScratch {
	s := &batchScratch{vectors: canPickBytes(), few: make([]uint64, answers)}
	if !s.vectors {
		s.answers = make([]word, answers)
	}
	return s
}

// treeBlockBuilder collects trees and their predicates, and then assigns each predicate its index.
type treeBlockBuilder struct {
	answers map[bound]uint32 // the index of each answer, once known
	sets    []categorySet
	trees   []treeBuilder
	tables  int // bytes over all tree blocks, if no two sets shared a table
}

// bound is a predicate on a number.
type bound struct {
	feature int
	rule    missingRule
	value   float64
}

// categorySet is a predicate on a category.
type categorySet struct {
	feature int
	words   []uint32
	size    int // one more than the largest category
	answer  uint32
}

// treeBuilder is a tree whose predicates have no index yet. The i-th node uses bounds[i], or sets[i] if that is not
// negative: first the flat nodes, then those of deeper.
type treeBuilder struct {
	flatTree
	bounds []bound
	sets   []int
	deeper []int
	values []float64
}

// addTree takes the nodes nearest to the root, as many as fit.
func (b *treeBlockBuilder) addTree(t *Tree) {
	s := treeBuilder{flatTree: flatTree{tree: t}}
	var queue []int // nodes that are placed, but not yet their children
	placed := 0

	// Nodes without room become exits, from which rows walk on.
	reach := func(child int) uint16 {
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
		reach(0)
	}

	// Breadth first, so that the upper levels, which most rows pass, are flat.
	for len(queue) > 0 {
		node := queue[0]
		queue = queue[1:]
		s.nodes = append(s.nodes, flatNode{left: reach(t.Left[node]), right: reach(t.Right[node])})
		b.recordPredicate(&s, node)
	}

	s.number()
	if slices.Max(s.rest) < 0 {
		s.rest = nil
	} else if len(s.nodes) > 0 && t.Leaves() <= maxDeep {
		b.deepen(&s)
	}
	b.trees = append(b.trees, s)
}

// addExit adds an exit, to a leaf or to a node from which the row walks on.
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

// number gives the exits their numbers from left to right, and has an empty node behind the last one.
func (s *treeBuilder) number() {
	n := len(s.nodes)
	exits := func(below []int, child uint16) int { // below a child
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

	values, rest := slices.Clone(s.values), slices.Clone(s.rest)
	first := make([]int, n) // of each node's exits
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
	s.nodes = append(s.nodes, flatNode{left: 2*maxExits - 1, right: 2*maxExits - 1})[:n]
}

// deepen adds the other nodes, unless one has a predicate that cannot be evaluated for a batch.
func (b *treeBlockBuilder) deepen(s *treeBuilder) {
	t := s.tree
	var queue []int
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

		deep[node].next = [2]int32{int32(t.Right[node]), int32(t.Left[node])}
		s.deeper = append(s.deeper, node)
		b.recordPredicate(s, node)
		push(t.Left[node])
		push(t.Right[node])
	}

	s.deep = deep
}

// recordPredicate records the predicate of a node of s.tree.
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

	q := bound{t.Feature[node], ruleOf(t.Decision[node]), t.Threshold[node]} // -0 and 0 are the same key
	b.answers[q] = 0
	s.bounds = append(s.bounds, q)
	s.sets = append(s.sets, -1)
}

// treeBlock places the predicates and finishes the trees.
func (b *treeBlockBuilder) treeBlock() treeBlock {
	var g treeBlock
	b.placeBounds(&g)
	b.placeSets(&g)

	total := 0
	for i := range b.trees {
		total += len(b.trees[i].values)
	}

	// One array of leaf values for all trees, padded for reads beyond the last tree's values.
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
	for i := len(g.trees) - 1; i >= 0; i-- {
		t := &g.trees[i]
		if len(t.nodes) == 0 {
			continue
		}
		if t.run = 1; t.rest == nil && i+1 < len(g.trees) {
			t.run += min(g.trees[i+1].run, mostTrees-1)
		}
	}
	return g
}

// answerOf returns the index of the answer to the i-th predicate of s.
func (b *treeBlockBuilder) answerOf(s *treeBuilder, i int) uint32 {
	if set := s.sets[i]; set >= 0 {
		return b.sets[set].answer
	}
	return b.answers[s.bounds[i]]
}

// mostTrees bounds how long a routine takes that cannot be preempted.
const mostTrees = 256

// placeBounds makes one column for each feature and notion of what is missing.
func (b *treeBlockBuilder) placeBounds(g *treeBlock) {
	all := make([]bound, 0, len(b.answers))
	for q := range b.answers {
		all = append(all, q)
	}

	// All bounds of a feature are answered together.
	slices.SortFunc(all, func(x, y bound) int {
		return cmp.Or(x.feature-y.feature, int(x.rule.notion())-int(y.rule.notion()), cmp.Compare(x.value, y.value),
			int(x.rule)-int(y.rule))
	})

	for len(all) > 0 {
		c := numberColumn{feature: all[0].feature, rule: all[0].rule.notion(), first: g.answers}
		var values []float64
		for c.count < len(all) && all[c.count].feature == c.feature && all[c.count].rule.notion() == c.rule {
			if all[c.count].rule.left() {
				c.left = append(c.left, uint32(c.count))
			}
			c.bounds = append(c.bounds, exact.Ordered(all[c.count].value))
			values = append(values, all[c.count].value)
			b.answers[all[c.count]] = uint32(c.first + c.count)
			c.count++
		}

		// Binary search: pad to one less than a power of two.
		for bits.OnesCount(uint(len(c.bounds)+1)) != 1 {
			c.bounds = append(c.bounds, math.MaxUint64)
		}

		c.wide = c.widened(values)
		g.numbers = append(g.numbers, c)
		g.answers += c.count + 1
		all = all[c.count:]
	}
}

// placeSets groups the sets of one feature by eight, sorted by size so that the tables stay small.
func (b *treeBlockBuilder) placeSets(g *treeBlock) {
	order := make([]*categorySet, len(b.sets))
	for i := range b.sets {
		order[i] = &b.sets[i]
	}

	// Eight sets share a table, one bit each; sorted by size, small sets get small tables.
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

// mark sets the given bit for each category in the set.
func (s *categorySet) mark(table []byte, bit int) {
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			table[i*32+bits.TrailingZeros32(w)] |= 1 << bit
		}
	}
}

// setSize is one more than the largest category of a bit set.
func setSize(words []uint32) int {
	for i := len(words) - 1; i >= 0; i-- {
		if words[i] != 0 {
			return i*32 + bits.Len32(words[i])
		}
	}
	return 0
}

// flattens reports whether the predicate of a node can be evaluated for many rows at once.
func (b *treeBlockBuilder) flattens(t *Tree, node int) bool {
	return t.Decision[node]&decisionCategorical == 0 ||
		setSize(t.categories(node)) <= maxCategories && b.tables < maxTables
}
