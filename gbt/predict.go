package gbt

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// Predicting a table goes by batches of rows, one bit of a word for each row. The trees of a model ask few different
// questions: 31,000 nodes over 28 features have some 6,000 different thresholds, because training chose them among at
// most 255 bins. So every question is answered once for all rows of the batch, as a word of answers, and a tree is then nothing
// but ANDs: of the rows that reach a node, those with the answer yes go left. Nothing jumps on the data, and no load
// waits for the one before it, which is what walking down a tree spends its time on. QuickScorer (Lucchese et al., SIGIR
// 2015) asks by feature in the order of thresholds too, but has the leaves of one row in a word where this has the rows.
//
// A forest gives the bits that Model.Predict gives: the same leaf of every tree, and the leaves' values added in the order
// of the trees.

// forest is a model in the form for predicting many rows. It is not changed after it was made.
type forest struct {
	features int
	groves   []grove
}

// grove is some consecutive trees and the questions of their nodes: so few that the answers stay in the cache.
type grove struct {
	numbers    []numberColumn
	categories []categoryColumn
	answers    int // words of answers
	trees      []flatTree
}

// numberColumn is the questions "is it at most bounds[i]?" of one feature under one rule for missing values.
type numberColumn struct {
	feature int
	rule    missingRule
	count   int      // of different bounds
	bounds  []uint64 // their sort keys, ascending, filled up with the largest to one less than a power of two
	first   int      // where the answers begin: count words, and one that is only written
}

// categoryColumn is the questions "is it in the set?" of one feature.
type categoryColumn struct {
	feature int
	groups  []categoryGroup
}

// categoryGroup is up to eight sets: bit i of table[c] says whether the i-th one holds category c. The table's last entry,
// 0, is for all larger categories and for what is none.
type categoryGroup struct {
	table []byte
	first int // where the eight answers begin
}

// flatTree is the upper part of a tree; all of it, if it has no more than maxExits leaves. Rows leave it by an exit.
type flatTree struct {
	nodes  []flatNode // parents before children
	exits  int
	values *[maxExits]float64 // by exit; what lies behind the last one belongs to other trees

	// rest is, by exit, the node from which the row is walked on, or -1 where the exit is a leaf. It is nil when all are.
	rest []int
	tree *Tree
}

// flatNode sends the rows whose answer is yes to left. Places from maxExits on are exits, those below are nodes.
type flatNode struct {
	question    uint32 // where its answer is
	left, right uint16
}

const (
	batchWords = 4
	batchRows  = 64 * batchWords // rows predicted at once

	// fewRows is how many rows are walked down the trees one by one in less time than a batch takes.
	fewRows = 32

	maxExits = 256 // of a flat tree, so that an exit's number is a byte
	exitUnit = 16  // exits are numbered in units of so many

	// groveLimit is the number of questions after which a new grove begins: their answers fill 256 KiB.
	groveLimit = 1 << 13

	// maxCategories and maxTables bound the tables of category sets, of one and of all, in bytes. A table may be eight
	// times as large as the sets it is made from. Nodes that want more are walked.
	maxCategories = 1 << 14
	maxTables     = 1 << 30
)

// missingRule is how missing values are replaced, so that comparing the replacement gives what the node says.
type missingRule uint8

const (
	nanIsZero     missingRule = iota
	nanGoesLeft               // replaced by -Inf, which is at most any bound
	nanGoesRight              // kept: NaN is not at most any bound
	zeroGoesLeft              // zero and NaN
	zeroGoesRight             // zero and NaN
)

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

// compile puts the model into the form for predicting many rows. It takes about 0.1 µs per node.
func (m *Model) compile() *forest {
	f := &forest{features: m.Features()}
	b := &groveBuilder{answers: map[bound]uint32{}}
	for i, t := range m.Trees {
		b.add(t, f.features)
		if len(b.answers)+len(b.sets) >= groveLimit || i == len(m.Trees)-1 {
			f.groves = append(f.groves, b.grove())
			b = &groveBuilder{answers: map[bound]uint32{}, tables: b.tables}
		}
	}
	return f
}

// groveBuilder collects trees and their questions, and then gives each question its place.
type groveBuilder struct {
	answers map[bound]uint32 // where each one is, once known
	sets    []categorySet
	trees   []seedling
	tables  int // bytes, of all groves, if no two sets shared a table
}

// bound is a question about a number.
type bound struct {
	feature int
	rule    missingRule
	value   float64
}

// categorySet is a question about a category.
type categorySet struct {
	feature int
	words   []uint32
	size    int // one more than the largest category
	answer  uint32
}

// seedling is a tree whose questions have no place yet. Node i asks bounds[i], or sets[i] if that is not negative.
type seedling struct {
	flatTree
	bounds []bound
	sets   []int
	values []float64
}

// add takes the nodes nearest to the root, as many as fit.
func (b *groveBuilder) add(t *Tree, features int) {
	s := seedling{flatTree: flatTree{tree: t}}
	var order []int
	reach := func(child int) uint16 {
		if child >= 0 && len(order) < maxExits-1 && b.flattens(t, child) {
			order = append(order, child)
			return uint16(len(order) - 1)
		}
		return maxExits + s.exit(child)
	}
	switch {
	case !t.sound(features): // nothing is known about it: walking does with it what it always did
		s.exit(0)
	case len(t.Feature) == 0:
		s.exit(^0)
	default:
		reach(0)
	}
	for i := 0; i < len(order); i++ {
		node := order[i]
		s.nodes = append(s.nodes, flatNode{left: reach(t.Left[node]), right: reach(t.Right[node])})
		b.ask(&s, node)
	}
	if slices.Max(s.rest) < 0 {
		s.rest = nil
	}
	b.trees = append(b.trees, s)
}

// exit numbers a way out, to a leaf or to a node from which the row is walked on.
func (s *seedling) exit(child int) uint16 {
	value := 0.0
	if child < 0 {
		value = s.tree.LeafValue[^child]
	}
	s.values = append(s.values, value)
	s.rest = append(s.rest, max(child, -1))
	s.exits++
	return uint16(s.exits - 1)
}

// ask notes the question of a node of s.tree.
func (b *groveBuilder) ask(s *seedling, node int) {
	t := s.tree
	if t.Decision[node]&decisionCategorical != 0 {
		words := t.categories(node)
		b.sets = append(b.sets, categorySet{feature: t.Feature[node], words: words, size: setSize(words)})
		b.tables += setSize(words) + 1
		s.bounds, s.sets = append(s.bounds, bound{}), append(s.sets, len(b.sets)-1)
		return
	}
	q := bound{t.Feature[node], ruleOf(t.Decision[node]), t.Threshold[node]} // -0 and 0 are the same key
	b.answers[q] = 0
	s.bounds, s.sets = append(s.bounds, q), append(s.sets, -1)
}

// grove places the questions and finishes the trees.
func (b *groveBuilder) grove() grove {
	var g grove
	b.placeBounds(&g)
	b.placeSets(&g)
	total := 0
	for i := range b.trees {
		total += len(b.trees[i].values)
	}
	values := make([]float64, total+maxExits)
	at := 0
	for i := range b.trees {
		s := &b.trees[i]
		for n := range s.nodes {
			if set := s.sets[n]; set >= 0 {
				s.nodes[n].question = b.sets[set].answer
			} else {
				s.nodes[n].question = b.answers[s.bounds[n]]
			}
		}
		s.flatTree.values = (*[maxExits]float64)(values[at:])
		at += copy(values[at:], s.values)
		g.trees = append(g.trees, s.flatTree)
	}
	return g
}

// placeBounds makes one column of each feature and rule.
func (b *groveBuilder) placeBounds(g *grove) {
	all := make([]bound, 0, len(b.answers))
	for q := range b.answers {
		all = append(all, q)
	}
	slices.SortFunc(all, func(x, y bound) int {
		return cmp.Or(x.feature-y.feature, int(x.rule)-int(y.rule), cmp.Compare(x.value, y.value))
	})
	for len(all) > 0 {
		c := numberColumn{feature: all[0].feature, rule: all[0].rule, first: g.answers}
		for c.count < len(all) && all[c.count].feature == c.feature && all[c.count].rule == c.rule {
			c.bounds = append(c.bounds, sortKey(all[c.count].value))
			b.answers[all[c.count]] = uint32(c.first + c.count)
			c.count++
		}
		for bits.OnesCount(uint(len(c.bounds)+1)) != 1 {
			c.bounds = append(c.bounds, math.MaxUint64)
		}
		g.numbers = append(g.numbers, c)
		g.answers += c.count + 1
		all = all[c.count:]
	}
}

// placeSets puts the sets of one feature into groups of eight, large ones with large ones, so that the tables stay small.
func (b *groveBuilder) placeSets(g *grove) {
	order := make([]*categorySet, len(b.sets))
	for i := range b.sets {
		order[i] = &b.sets[i]
	}
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

// mark sets the bit of each category of the set.
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

// flattens says whether the question of a node can be answered for many rows at once.
func (b *groveBuilder) flattens(t *Tree, node int) bool {
	if t.Decision[node]&decisionCategorical != 0 {
		return setSize(t.categories(node)) <= maxCategories && b.tables < maxTables
	}
	return !math.IsNaN(t.Threshold[node])
}

// sound says whether the tree's arrays belong together. Those of trees that were trained or read do.
func (t *Tree) sound(features int) bool {
	n := len(t.Feature)
	return len(t.Threshold) == n && len(t.Decision) == n && len(t.Left) == n && len(t.Right) == n &&
		len(t.LeafValue) > 0 && t.check(features) == nil
}

// flatOnce is the form of a model for many rows, made when it is first needed.
type flatOnce struct {
	once   sync.Once
	forest *forest
}

// predict writes the raw scores of the rows in x to out. Trees go by in groves: a grove for some thousand rows, then the
// next, so that neither rows nor answers nor trees leave the cache.
func (f *forest) predict(x, out []float64, threads int) {
	const piece = 16 * batchRows
	batches := (len(out) + batchRows - 1) / batchRows
	parallel(threads, batches, 4, func(_, lo, hi int) {
		s := &batchScratch{}
		for i := range f.groves {
			s.answers = slices.Grow(s.answers, f.groves[i].answers)
		}
		hiRow := min(hi*batchRows, len(out))
		for from := lo * batchRows; from < hiRow; from += piece {
			part := out[from:min(from+piece, hiRow)]
			clear(part)
			for i := range f.groves {
				f.groves[i].add(s, x[from*f.features:][:len(part)*f.features], part, f.features)
			}
		}
	})
}

// add adds the values of the grove's trees to the rows' sums.
func (g *grove) add(s *batchScratch, x, sums []float64, features int) {
	s.answers = s.answers[:g.answers]
	for len(sums) > 0 {
		n := min(len(sums), batchRows)
		batch := x[:n*features]
		copy(s.sums[:], sums[:n])
		s.answer(g, batch, features)
		for i := range g.trees {
			t := &g.trees[i]
			s.route(t)
			if t.rest == nil {
				s.add(t)
			} else {
				s.addRest(t, batch, n, features)
			}
		}
		copy(sums, s.sums[:n])
		sums, x = sums[n:], x[n*features:]
	}
}
