package gbt

import (
	"sync"
	"sync/atomic"
)

// A table is predicted in batches of rows. The predicate of a node is what it asks of a row, such as "feature 3 is at
// most 0.5"; its answer for a batch is a word with a bit for each row, 1 for yes. The trees of a model use few distinct
// predicates: 31,000 nodes over 28 features have some 6,000 distinct thresholds, because training chose them among at
// most 255 bins. So every predicate is evaluated once for all rows of a batch, and a tree becomes a series of ANDs: of
// the rows that reach a node, those with the answer yes go left. There is no branch on the data and no chain of
// dependent loads, which dominate the cost of walking down a tree. QuickScorer (Lucchese et al., SIGIR 2015) also
// evaluates predicates by feature in the order of thresholds, but a word has a bit for each leaf of one row there.
//
// The cost of a tree's ANDs grows with its number of nodes, not its depth. So only the part near the root is flat, that
// is, handled with ANDs. If a tree has more than maxExits leaves, its rows are walked on one by one from there, using
// the answers that are already known.
//
// A forest gives the same bits as Model.Predict: the same leaf of every tree, and leaf values added in the order of the
// trees.

// forest is a model in the form for predicting many rows. It is immutable.
type forest struct {
	features   int
	treeBlocks []treeBlock
	scratch    sync.Pool // of *batchScratch, large enough for every block
}

// treeBlock is consecutive trees and the predicates of their nodes, few enough for the answers to stay in the cache.
type treeBlock struct {
	numbers    []numberColumn
	categories []categoryColumn
	answers    int // number of answers
	trees      []flatTree
}

// numberColumn holds the predicates "value <= bounds[i]" of one feature, for one rule of which values are missing.
type numberColumn struct {
	feature int
	rule    missingRule
	count   int       // number of predicates; two may have the same bound and send missing values different ways
	left    []uint32  // the predicates that send missing values left; all others send them right
	bounds  []uint64  // exact.Ordered of the bounds, ascending, padded with the largest to one less than a power of two
	wide    []float64 // the bounds in the layout for vectors (widened); nil without
	first   int       // index of the first of count answers, behind which there is one that is written but not used
}

// categoryColumn holds the predicates "value in set" of one feature.
type categoryColumn struct {
	feature int
	groups  []categoryGroup
}

// categoryGroup is up to eight category sets of a feature: bit i of table[c] says whether set i contains category c.
// The table's last entry, 0, is for all larger categories and for invalid values.
type categoryGroup struct {
	table []byte
	first int // index of the first of eight answers
}

// flatTree is the upper part of a tree, or all of it if it has at most maxExits leaves. Rows leave it through an exit.
type flatTree struct {
	nodes  []flatNode         // parents before children
	exits  int                // number of exits, which are numbered from left to right
	values *[maxExits]float64 // by exit, what it adds; entries after the last exit belong to other trees
	run    int                // how many trees addTrees adds in one call, from this one on; 0 if it cannot add this one

	// rest has, by exit, the node of tree from which rows are walked on, or -1 if the exit is a leaf. It is nil if all
	// exits are leaves.
	rest []int32
	deep []deepNode // by node of tree, those below the exits; nil if rows have to be walked on in tree itself
	tree *Tree
}

// flatNode sends the rows whose answer is yes to left. Destinations below maxExits are nodes, those from maxExits on
// exits.
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

// batching holds a model's compiled form, and decides when to compile it.
type batching struct {
	asked  atomic.Int64 // rows requested by large calls so far
	once   sync.Once
	forest *forest
}

// compileAfter is the number of rows after which a model is compiled. Predicting as many one by one takes about as long
// as compiling, so the total cost is never more than about twice what it could be.
const compileAfter = 512

// pays counts n more rows, and reports whether compiling pays by now.
func (b *batching) pays(n int) bool { return b.asked.Add(int64(n)) >= compileAfter }

// batches returns the compiled model; the first caller compiles it.
func (m *Model) batches() *forest {
	m.batching.once.Do(func() { m.batching.forest = m.compile() })
	return m.batching.forest
}

// together is how many batches go through a tree block before they go through the next one.
const together = 16

// predict writes the raw scores of the rows in x, [rows x features], to out, [rows]. Some thousand rows go through a
// block of trees before they go through the next one, so that rows, answers and trees stay in the cache.
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

// addValues adds the values of the block's trees to sums, [rows], for the rows in x, [rows x features]. s is memory.
func (g *treeBlock) addValues(s *batchScratch, x, sums []float64, features int) {
	if !s.vectors { // with vectors, s.few has the answers
		s.answers = s.answers[:g.answers]
	}
	for len(sums) > 0 {
		// The next n rows, and how many machine words of each answer they fill: one, or all.
		n := min(len(sums), batchRows)
		s.words = batchWords
		if n <= 64 || s.vectors {
			n, s.words = min(n, 64), 1
		}
		batch := x[:n*features]
		copy(s.sums[:], sums[:n])
		s.answerPredicates(g, batch, features)

		// Add the flat part of each tree, or of several at once, and then what is below the exits of the last one.
		for i := 0; i < len(g.trees); i++ {
			if s.words == 1 {
				i += s.addFew(g.trees[i:], n) - 1 // it returns how many it has added; i is now the last of them
			} else {
				s.routeRows(&g.trees[i])
				s.addExits(&g.trees[i])
			}
			t := &g.trees[i]
			switch {
			case t.rest == nil: // all exits are leaves
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
