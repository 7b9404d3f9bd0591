package gbt

import (
	"sync"
	"sync/atomic"
)

// A table is predicted in batches of rows, with one bit of a word per row. The trees of a model use few distinct
// predicates: 31,000 nodes over 28 features have some 6,000 distinct thresholds, because training chose them among at
// most 255 bins. So every predicate is evaluated once for all rows of the batch, as a word of answers, and a tree
// becomes a series of ANDs: of the rows that reach a node, those with the answer yes go left. There is no branch on the
// data and no chain of dependent loads, which dominate the cost of walking down a tree. QuickScorer (Lucchese et al.,
// SIGIR 2015) also evaluates by feature in the order of thresholds, but holds the leaves of one row in a word instead
// of the rows.
//
// The cost of a tree's ANDs grows with its number of nodes, not its depth. So only the part near the root is flat: if a
// tree has more than maxExits leaves, its rows walk on from there, using the answers they already have.
//
// A forest gives the same bits as Model.Predict: the same leaf of every tree, and the leaf values added in the order of
// the trees.

// forest is a model in the form for predicting many rows. It is immutable.
type forest struct {
	features   int
	treeBlocks []treeBlock
	scratch    sync.Pool // of *batchScratch
}

// treeBlock is consecutive trees and the predicates of their nodes, few enough for the answers to stay in the cache.
type treeBlock struct {
	numbers    []numberColumn
	categories []categoryColumn
	answers    int // number of answers, in words
	trees      []flatTree
}

// numberColumn holds the predicates "value <= bounds[i]" of one feature, for one notion of what is missing.
type numberColumn struct {
	feature int
	rule    missingRule
	count   int       // of predicates; two may have one bound and send missing values different ways
	left    []uint32  // the predicates that send missing values left, those of the others go right
	bounds  []uint64  // their sort keys, ascending, padded with the largest to one less than a power of two
	wide    []float64 // the bounds for vectors; nil without
	first   int       // index of the first answer: count words, and one that is only written
}

// categoryColumn holds the predicates "value in set" of one feature.
type categoryColumn struct {
	feature int
	groups  []categoryGroup
}

// categoryGroup is up to eight sets: bit i of table[c] says whether the i-th contains category c. The table's last
// entry, 0, is for all larger categories and for invalid values.
type categoryGroup struct {
	table []byte
	first int // index of the first of eight answers
}

// flatTree is the upper part of a tree, or all of it if it has at most maxExits leaves. Rows leave it through an exit.
type flatTree struct {
	nodes  []flatNode         // parents before children
	exits  int                // numbered from left to right
	values *[maxExits]float64 // by exit; entries after the last exit belong to other trees
	run    int                // trees that addTrees adds in one call, from this one on; 0 if it cannot

	// rest gives, by exit, the node from which the row walks on, or -1 if the exit is a leaf. It is nil if all exits
	// are leaves.
	rest []int32
	deep []deepNode // the nodes below rest; nil if the tree itself has to be walked
	tree *Tree
}

// flatNode sends the rows whose answer is yes to left. Destinations from maxExits on are exits, smaller ones nodes.
type flatNode struct {
	predicate   uint32 // index of its answer
	left, right uint16
	before      uint8 // exits on its left
}

// deepNode sends a row to next[1] if the answer is yes, to next[0] if it is no. A negative destination is a leaf, as in
// Tree.
type deepNode struct {
	predicate uint32
	next      [2]int32
}

const (
	batchWords = 4
	batchRows  = 64 * batchWords // rows predicted at once; 64 with vectors, which have a routine for one machine word

	// fewRows is how many rows can be walked down the trees one by one in less time than a batch takes. A batch of up
	// to 64 rows takes a quarter of the time of a full one.
	fewRows = 6

	maxExits = 256 // of a flat tree, so that an exit number fits a byte
	exitUnit = 16  // the number of exits is rounded up to a multiple of this

	// maxDeep is the number of leaves up to which all predicates of a tree are evaluated for a batch. Of a larger tree,
	// a batch visits too small a part.
	maxDeep = 1 << 12

	// treeBlockLimit is the number of predicates after which a new tree block begins: their answers take 2 MiB, or
	// 512 KiB for up to 64 rows. Every block searches all features again, which costs more than a larger cache: a model
	// of 13,000 predicates took 200 µs for 50 rows in two blocks and 139 in one, one of 98,000 2,400 in twelve and 960
	// in two.
	treeBlockLimit = 1 << 16

	// maxCategories and maxTables bound the tables of category sets, of one and of all, in bytes. A table may be eight
	// times as large as the sets it is made from. Nodes beyond that are walked.
	maxCategories = 1 << 14
	maxTables     = 1 << 30
)

// batching holds a model's form for many rows, and decides when to make it.
type batching struct {
	asked  atomic.Int64 // rows requested by large calls so far
	once   sync.Once
	forest *forest
}

// compileAfter is the number of rows whose prediction one by one takes about as long as compiling: below it, compiling
// is avoided; above it, the total cost is at most doubled.
const compileAfter = 512

// pays reports whether compiling pays with n more rows.
func (b *batching) pays(n int) bool { return b.asked.Add(int64(n)) >= compileAfter }

// batches returns the compiled model; the first caller compiles it.
func (m *Model) batches() *forest {
	m.batching.once.Do(func() { m.batching.forest = m.compile() })
	return m.batching.forest
}

// together is how many batches pass a tree block before the next one.
const together = 16

// predict writes the raw scores of the rows in x to out. Each tree block processes some thousand rows before the next
// block, so that rows, answers and trees stay in the cache.
func (f *forest) predict(x, out []float64, pool *pool) {
	const piece = together * batchRows
	batches := (len(out) + batchRows - 1) / batchRows

	pool.parallel(batches, together, func(_, lo, hi int) {
		s := f.scratch.Get().(*batchScratch)
		defer f.scratch.Put(s)

		hiRow := min(hi*batchRows, len(out))
		for from := lo * batchRows; from < hiRow; from += piece {
			part := out[from:min(from+piece, hiRow)]
			clear(part)
			for i := range f.treeBlocks {
				f.treeBlocks[i].addValues(s, x[from*f.features:][:len(part)*f.features], part, f.features)
			}
		}
	})
}

// addValues adds the values of the tree block's trees to the rows' sums.
func (g *treeBlock) addValues(s *batchScratch, x, sums []float64, features int) {
	if !s.vectors {
		s.answers = s.answers[:g.answers]
	}
	for len(sums) > 0 {
		n := min(len(sums), batchRows)
		if s.words = batchWords; n <= 64 || s.vectors {
			n, s.words = min(n, 64), 1
		}
		batch := x[:n*features]
		copy(s.sums[:], sums[:n])
		s.answerPredicates(g, batch, features)

		for i := 0; i < len(g.trees); i++ {
			if s.words == 1 {
				i += s.addFew(g.trees[i:], n) - 1
			} else {
				s.routeRows(&g.trees[i])
				s.addExits(&g.trees[i])
			}
			t := &g.trees[i]
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
