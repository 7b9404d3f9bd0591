package gbt

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Predicting a table goes by batches of rows, one bit of a word for each row. The trees of a model ask few different
// predicates: 31,000 nodes over 28 features have some 6,000 different thresholds, because training chose them among at
// most 255 bins. So every predicate is answered once for all rows of the batch, as a word of answers, and a
// tree is then nothing but ANDs: of the rows that reach a node, those with the answer yes go left. Nothing jumps on the
// data, and no load waits for the one before it, which is what walking down a tree spends its time on. QuickScorer
// (Lucchese et al., SIGIR 2015) asks by feature in the order of thresholds too, but has the leaves of one row in a word
// where this has the rows.
//
// The ANDs of a tree take time by its number of nodes, not by its depth. So trees are flat near the root only, and where a
// tree has more than maxExits leaves its rows walk on from there, by answers they already have.
//
// A forest gives the bits that Model.Predict gives: the same leaf of every tree, and the leaves' values added in the order
// of the trees.

// forest is a model in the form for predicting many rows. It is not changed after it was made.
type forest struct {
	features   int
	treeBlocks []treeBlock
}

// treeBlock is some consecutive trees and the predicates of their nodes: so few that the answers stay in the cache.
type treeBlock struct {
	numbers    []numberColumn
	categories []categoryColumn
	answers    int // words of answers
	trees      []flatTree
}

// numberColumn is the predicates "is it at most bounds[i]?" of one feature under one rule for missing values.
type numberColumn struct {
	feature int
	rule    missingRule
	count   int      // of different bounds
	bounds  []uint64 // their sort keys, ascending, filled up with the largest to one less than a power of two
	first   int      // where the answers begin: count words, and one that is only written
}

// categoryColumn is the predicates "is it in the set?" of one feature.
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

	// rest is, by exit, the node from which the row goes on, or -1 where the exit is a leaf. It is nil when all are.
	rest []int32
	deep []deepNode // by node of tree, where rest leads to; nil when tree itself is to be walked
	tree *Tree
}

// flatNode sends the rows whose answer is yes to left. Places from maxExits on are exits, those below are nodes.
type flatNode struct {
	predicate   uint32 // where its answer is
	left, right uint16
}

// deepNode sends a row to next[1] if the answer is yes, to next[0] if it is no. Negative is a leaf, as in Tree.
type deepNode struct {
	predicate uint32
	next      [2]int32
}

const (
	batchWords = 4
	batchRows  = 64 * batchWords // rows predicted at once

	// fewRows is how many rows are walked down the trees one by one in less time than a batch takes.
	fewRows = 32

	maxExits = 256 // of a flat tree, so that an exit's number is a byte
	exitUnit = 16  // exits are numbered in units of so many

	// maxDeep is the number of leaves up to which all predicates of a tree are answered for a batch. Of larger trees, a
	// batch visits too small a part.
	maxDeep = 1 << 12

	// treeBlockLimit is the number of predicates after which a new tree block begins: their answers fill 256 KiB.
	treeBlockLimit = 1 << 13

	// maxCategories and maxTables bound the tables of category sets, of one and of all, in bytes. A table may be eight
	// times as large as the sets it is made from. Nodes that want more are walked.
	maxCategories = 1 << 14
	maxTables     = 1 << 30
)

// batching is a model's form for many rows, and when to make it.
type batching struct {
	asked  atomic.Int64 // rows that calls with many rows asked for
	once   sync.Once
	forest *forest
}

// compileAfter is the number of rows that take about as long, one by one, as making a forest of the trees: who only ever
// wants fewer does not pay for it, who wants more pays at most twice.
const compileAfter = 512

// pays says whether n more rows make the forest worth its making.
func (b *batching) pays(n int) bool { return b.asked.Add(int64(n)) >= compileAfter }

// batches is the model as a forest, made by the first caller.
func (m *Model) batches() *forest {
	m.batching.once.Do(func() { m.batching.forest = m.compile() })
	return m.batching.forest
}

// together is how many batches go through a tree block before the next one does.
const together = 16

// predict writes the raw scores of the rows in x to out. Trees go by in tree blocks: a tree block for some thousand rows, then the
// next, so that neither rows nor answers nor trees leave the cache.
func (f *forest) predict(x, out []float64, pool *pool) {
	const piece = together * batchRows
	batches := (len(out) + batchRows - 1) / batchRows

	pool.parallel(batches, together, func(_, lo, hi int) {
		s := &batchScratch{}
		for i := range f.treeBlocks {
			s.answers = slices.Grow(s.answers, f.treeBlocks[i].answers)
		}

		hiRow := min(hi*batchRows, len(out))
		for from := lo * batchRows; from < hiRow; from += piece {
			part := out[from:min(from+piece, hiRow)]
			clear(part)
			for i := range f.treeBlocks {
				f.treeBlocks[i].add(s, x[from*f.features:][:len(part)*f.features], part, f.features)
			}
		}
	})
}

// add adds the values of the tree block's trees to the rows' sums.
func (g *treeBlock) add(s *batchScratch, x, sums []float64, features int) {
	s.answers = s.answers[:g.answers]
	for len(sums) > 0 {
		n := min(len(sums), batchRows)
		batch := x[:n*features]
		copy(s.sums[:], sums[:n])
		s.answer(g, batch, features)

		for i := range g.trees {
			t := &g.trees[i]
			s.route(t)
			s.add(t)
			switch {
			case t.rest == nil:
			case t.deep != nil:
				s.addDeep(t)
			default:
				s.addWalked(t, batch, n, features)
			}
		}

		copy(sums, s.sums[:n])
		sums = sums[n:]
		x = x[n*features:]
	}
}
