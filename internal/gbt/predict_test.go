package gbt

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// forestSpec says what a random model contains.
type forestSpec struct {
	features, trees, leaves int
	bounds                  int     // different thresholds per feature
	categorical             float64 // share of the nodes
	chain                   bool    // each split splits the leaf made last
	plain                   bool    // no missing values, moderate numbers
}

// oddNumbers are thresholds and values at which rules change.
var oddNumbers = []float64{
	0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 1e-35, -1e-35, math.Nextafter(1e-35, 1),
	math.Nextafter(-1e-35, -1),
	math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, math.MaxFloat64, -math.MaxFloat64, 1, -1, 1e-300,
}

// oddCategories are values whose category needs a special rule.
var oddCategories = []float64{0, math.Copysign(0, -1), -0.5, -1, 0.99, 31, 32, 63.5, 64, 1 << 14, 1<<31 - 0.5, 1 << 31,
	1 << 32, 1e300, math.NaN(), math.Inf(1), math.Inf(-1)}

// randomForest returns a model of random trees, whose thresholds are taken from s.bounds values for each feature.
// Unless it is plain, a third of these are odd numbers.
func randomForest(rng *rand.Rand, s forestSpec) *Model {
	m := &Model{Objective: "regression", FeatureNames: make([]string, s.features),
		FeatureInfos: make([]string, s.features)}
	pool := make([][]float64, s.features)
	for f := range pool {
		m.FeatureNames[f], m.FeatureInfos[f] = fmt.Sprintf("f%d", f), "none"
		for len(pool[f]) < s.bounds {
			v := rng.NormFloat64()
			if !s.plain && rng.IntN(3) == 0 {
				v = oddNumbers[rng.IntN(len(oddNumbers))]
			}
			pool[f] = append(pool[f], v)
		}
	}
	for range s.trees {
		m.Trees = append(m.Trees, randomTree(rng, s, pool))
	}
	return m
}

// randomTree splits leaves, drawn at random or always the last one, until there are enough. Nodes are numbered in the
// order of splitting, as in trained trees. One value in fifty is an odd one.
func randomTree(rng *rand.Rand, s forestSpec, pool [][]float64) *Tree {
	t := &Tree{Shrinkage: 1, LeafValue: []float64{rng.NormFloat64()}}
	link := []*int{nil} // for each leaf, its parent's pointer to it; nil for the root
	t.Left, t.Right = make([]int, s.leaves-1), make([]int, s.leaves-1)
	for node := range s.leaves - 1 {
		leaf := rng.IntN(len(link))
		if s.chain {
			leaf = len(link) - 1
		}
		if link[leaf] != nil {
			*link[leaf] = node
		}

		// The node's children are the old leaf and a new one, on either side.
		t.Left[node], t.Right[node] = ^leaf, ^len(link)
		if rng.IntN(2) == 0 {
			t.Left[node], t.Right[node] = t.Right[node], t.Left[node]
		}
		at := [2]*int{&t.Left[node], &t.Right[node]} // the pointers to the old leaf and to the new one
		if *at[0] != ^leaf {
			at[0], at[1] = at[1], at[0]
		}
		link[leaf] = at[0]
		link = append(link, at[1])
		v := rng.NormFloat64()
		if rng.IntN(50) == 0 {
			v = []float64{0, math.Copysign(0, -1), 1e308, -1e308, 5e-324}[rng.IntN(5)]
		}
		t.LeafValue = append(t.LeafValue, v)
		t.randomQuestion(rng, s, pool)
	}
	t.LeafWeight, t.LeafCount = make([]float64, s.leaves), make([]int, s.leaves)
	t.Gain, t.InternalValue, t.InternalWeight = make([]float64, s.leaves-1), make([]float64, s.leaves-1),
		make([]float64, s.leaves-1)
	t.InternalCount = make([]int, s.leaves-1)
	return t
}

// randomQuestion appends a random node: a feature with a threshold from its pool, or with a random set of categories.
// Half of a set's words are empty; in the others each category is in it with probability a quarter. One set in a
// hundred is as long as a table may be, or a word longer.
func (t *Tree) randomQuestion(rng *rand.Rand, s forestSpec, pool [][]float64) {
	f := rng.IntN(s.features)
	t.Feature = append(t.Feature, f)
	if rng.Float64() < s.categorical {
		if t.CatBoundaries == nil {
			t.CatBoundaries = []int{0}
		}
		words := 1 + rng.IntN(4)
		if rng.IntN(100) == 0 {
			words = maxCategories/32 + rng.IntN(2)
		}
		for range words {
			t.CatThreshold = append(t.CatThreshold, rng.Uint32()&rng.Uint32()*uint32(rng.IntN(2)))
		}
		if words > 4 {
			t.CatThreshold[len(t.CatThreshold)-1] |= 1 << 31 // so that the last word counts
		}
		t.CatBoundaries = append(t.CatBoundaries, len(t.CatThreshold))
		t.Threshold = append(t.Threshold, float64(len(t.CatBoundaries)-2))
		t.Decision = append(t.Decision, decisionCategorical|uint8(rng.IntN(8)<<1))
		return
	}
	t.Threshold = append(t.Threshold, pool[f][rng.IntN(len(pool[f]))])
	decision := uint8(rng.IntN(8) << 1) // where missing values go, and any of the kinds of them, also the unused one
	if s.plain {
		decision = decisionDefaultLeft
	}
	t.Decision = append(t.Decision, decision)
}

// randomRows returns rows of random values: some of any size, some near the model's thresholds, some that may be
// categories, and odd ones. With plain all are from the normal distribution.
func randomRows(rng *rand.Rand, m *Model, rows int, plain bool) []float64 {
	var near []float64
	for _, t := range m.Trees[:min(len(m.Trees), 20)] {
		near = append(near, t.Threshold[:min(len(t.Threshold), 200)]...)
	}
	x := make([]float64, rows*m.Features())
	for i := range x {
		x[i] = rng.NormFloat64()
		if plain {
			continue
		}
		switch k := rng.IntN(10); {
		case k == 0:
			x[i] = math.NaN()
		case k == 1:
			x[i] = oddNumbers[rng.IntN(len(oddNumbers))]
		case k == 2:
			x[i] = oddCategories[rng.IntN(len(oddCategories))]
		case k < 6:
			x[i] = float64(rng.IntN(140))
		case k < 9 && len(near) > 0:
			x[i] = near[rng.IntN(len(near))]
			if rng.IntN(2) == 0 {
				x[i] = math.Nextafter(x[i], math.Inf(rng.IntN(2)*2-1))
			}
		}
	}
	return x
}

// checkPredictAll fails the test unless the rows in x get the bits of Predict, which walks down every tree, both from
// PredictAll, which may predict them in batches, and from batches only.
func checkPredictAll(t *testing.T, m *Model, x []float64, rows, threads int) {
	t.Helper()
	chosen, batches := slices.Repeat([]float64{math.NaN()}, rows), slices.Repeat([]float64{math.NaN()}, rows)
	must.Do(t, m.PredictAll(x, chosen, threads))
	m.batches().predict(x, batches, testPool(t, threads))
	for r := range rows {
		row := x[r*m.Features() : (r+1)*m.Features()]
		want := math.Float64bits(m.Predict(row))
		if a, b := math.Float64bits(chosen[r]), math.Float64bits(batches[r]); a != want || b != want {
			t.Fatalf("%d rows, %d threads: row %d, %v, is predicted %v (%x), in batches %v (%x), one by one %v (%x)",
				rows, threads, r, row, chosen[r], a, batches[r], b, math.Float64frombits(want), want)
		}
	}
}

// TestFewRowsAreWalked: PredictAll compiles the model only when calls of at least fewRows rows have had compileAfter
// rows together: for a single small call, compiling would take longer than the call. Calls of fewer rows do not count,
// however many there are.
func TestFewRowsAreWalked(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	m := randomForest(rng, forestSpec{features: 2, trees: 2, leaves: 9, bounds: 9})
	ask := func(rows int) {
		must.Do(t, m.PredictAll(make([]float64, 2*rows), make([]float64, rows), 1))
	}
	for range compileAfter {
		ask(fewRows - 1)
	}
	ask(compileAfter - fewRows)
	if m.batching.forest != nil {
		t.Errorf("the model was compiled after %d rows in larger calls, want it not to be", compileAfter-fewRows)
	}
	ask(fewRows)
	if m.batching.forest == nil {
		t.Errorf("the model was not compiled after %d rows in larger calls, want it to be", compileAfter)
	}
}

// TestPredictAllIsPredict: PredictAll gives the bits of Predict, row by row, for models with every kind of node and for
// values such as NaN, infinities, zeros and numbers that are no categories. Numbers of leaves and rows are those at
// which another way begins: units of 16 exits, machine words of 64 rows, and the constants of predict.go.
func TestPredictAllIsPredict(t *testing.T) {
	long(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for name, s := range map[string]forestSpec{
		"numerical":                {features: 5, trees: 30, leaves: 31, bounds: 20},
		"one leaf":                 {features: 2, trees: 3, leaves: 1, bounds: 1},
		"one split":                {features: 1, trees: 40, leaves: 2, bounds: 3, categorical: 0.3},
		"15 leaves":                {features: 3, trees: 10, leaves: 15, bounds: 9, categorical: 0.1},
		"16 leaves":                {features: 3, trees: 10, leaves: 16, bounds: 9, categorical: 0.1},
		"17 leaves":                {features: 3, trees: 10, leaves: 17, bounds: 9, categorical: 0.1},
		"mixed":                    {features: 12, trees: 30, leaves: 63, bounds: 50, categorical: 0.4},
		"categorical":              {features: 4, trees: 30, leaves: 40, bounds: 1, categorical: 1},
		"as many leaves as exits":  {features: 9, trees: 8, leaves: maxExits, bounds: 200, categorical: 0.2},
		"one leaf more":            {features: 9, trees: 8, leaves: maxExits + 1, bounds: 200, categorical: 0.2},
		"many leaves":              {features: 9, trees: 5, leaves: 3000, bounds: 200, categorical: 0.02},
		"many leaves, wide sets":   {features: 9, trees: 5, leaves: 3000, bounds: 200, categorical: 0.5},
		"as many as are deep":      {features: 9, trees: 3, leaves: maxDeep, bounds: 200},
		"too many":                 {features: 9, trees: 3, leaves: maxDeep + 1, bounds: 200},
		"chain":                    {features: 3, trees: 5, leaves: 2000, bounds: 500, categorical: 0.1, chain: true},
		"more than one tree block": {features: 50, trees: 450, leaves: 250, bounds: 4000, categorical: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			m := randomForest(rng, s)
			for i, tree := range m.Trees {
				if err := tree.check(s.features); err != nil {
					t.Fatalf("tree %d: %v", i, err)
				}
			}
			for _, rows := range []int{0, 1, fewRows, 63, 64, 65, batchRows, batchRows + 64, batchRows + fewRows - 1,
				2*batchRows + 200, 5000} {
				checkPredictAll(t, m, randomRows(rng, m, rows, false), rows, 1+rng.IntN(4))
			}
		})
	}
}

// TestTreeBlocksAreSeveral: compiling a model with many predicates gives several blocks of trees. A block ends with the
// tree that fills it, so it is larger than the limit by less than that tree, and surely not twice as large. How many
// exits a tree has, and whether rows are walked on below them and in which way, depends on its number of leaves.
func TestTreeBlocksAreSeveral(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	f := randomForest(rng, forestSpec{features: 50, trees: 450, leaves: 250, bounds: 4000, categorical: 0.1}).compile()
	trees := 0
	for _, g := range f.treeBlocks {
		trees += len(g.trees)
		if len(g.trees) == 0 || g.answers > 2*treeBlockLimit {
			t.Errorf("a tree block of %d trees and %d answers, want some trees and at most %d answers", len(g.trees),
				g.answers, 2*treeBlockLimit)
		}
	}
	if len(f.treeBlocks) < 2 || trees != 450 {
		t.Errorf("%d trees in %d tree blocks, want 450 in two or more", trees, len(f.treeBlocks))
	}
	for leaves, exits := range map[int]int{1: 1, 2: 2, maxExits: maxExits, maxExits + 1: maxExits, maxDeep: maxExits,
		maxDeep + 1: maxExits} {
		flat := randomForest(rng, forestSpec{features: 2, trees: 1, leaves: leaves,
			bounds: 9}).compile().treeBlocks[0].trees[0]
		if flat.exits != exits || (flat.rest != nil) != (leaves > maxExits) ||
			(flat.deep != nil) != (leaves > maxExits && leaves <= maxDeep) {
			t.Errorf("a tree of %d leaves has %d exits, rest %t, deep nodes %t; want %d, %t, %t", leaves, flat.exits,
				flat.rest != nil, flat.deep != nil, exits, leaves > maxExits, leaves > maxExits && leaves <= maxDeep)
		}
	}
}

// TestPredictAllOnHugeTrees: PredictAll gives the bits of Predict for trees of the most leaves that num_leaves allows,
// one whose leaves are split at random and a chain.
func TestPredictAllOnHugeTrees(t *testing.T) {
	unraced(t)
	for _, chain := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(3, 4))
		m := randomForest(rng, forestSpec{features: 4, trees: 2, leaves: 131_072, bounds: 5000, chain: chain})
		checkPredictAll(t, m, randomRows(rng, m, fewRows, false), fewRows, 1)
	}
}

// TestPredictAllWithoutFeatures: a model without features, whose trees are constants, predicts their sum for every row,
// in batches as row by row.
func TestPredictAllWithoutFeatures(t *testing.T) {
	none := &Model{Trees: []*Tree{constantTree(2.5), constantTree(1)}}
	checkPredictAll(t, none, nil, 2*batchRows, 1)
}

// TestCategoryTablesAreBounded: once a model's category tables are full, nodes with further category sets are not flat.
// There is room for one more byte at first, which the first tree takes.
func TestCategoryTablesAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	tree := randomForest(rng, forestSpec{features: 2, trees: 1, leaves: 9, bounds: 1, categorical: 1}).Trees[0]
	b := &treeBlockBuilder{answers: map[bound]uint32{}, tables: maxTables - 1}
	b.addTree(tree)
	b.addTree(tree)
	if first, second := &b.trees[0], &b.trees[1]; len(first.nodes) < 1 || len(second.nodes) != 0 || second.rest == nil {
		t.Errorf("%d nodes of the first tree and %d of the second are flat, want some and none", len(first.nodes),
			len(second.nodes))
	}
}

// TestPredictAllAtOnce: several goroutines may predict with one model at once, and get the bits of predicting row by
// row.
func TestPredictAllAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	const features = 6
	m := randomForest(rng, forestSpec{features: features, trees: 20, leaves: 31, bounds: 30, categorical: 0.2})
	x := randomRows(rng, m, 3*batchRows, false)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rows := (i%3 + 1) * batchRows
			out := make([]float64, rows)
			if err := m.PredictAll(x[:rows*features], out, 2); err != nil {
				t.Errorf("predicting %d rows beside others: got error %v, want none", rows, err)
			}
			for r := range out {
				want := m.Predict(x[r*features:][:features])
				if math.Float64bits(out[r]) != math.Float64bits(want) {
					t.Errorf("row %d of %d: %v, want %v", r, rows, out[r], want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestTranspose: bit 8a+b of word i and bit 8a+i of word b change places, for all a.
func TestTranspose(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	var w, before [8]uint64
	for i := range w {
		w[i] = rng.Uint64()
	}
	before = w
	transpose(&w)
	for i := range 8 {
		for bit := range 64 {
			if w[i]>>bit&1 != before[bit%8]>>(bit/8*8+i)&1 {
				t.Fatalf("bit %d of word %d is not bit %d of word %d before", bit, i, bit/8*8+i, bit%8)
			}
		}
	}
}

// FuzzPredictAll: PredictAll gives the bits of Predict for random trees and random values.
func FuzzPredictAll(f *testing.F) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, s := range []forestSpec{
		{features: 2, trees: 2, leaves: 4, bounds: 3, categorical: 0.5},
		{features: 1, trees: 1, leaves: 300, bounds: 40},
		{features: 3, trees: 2, leaves: 1, bounds: 1},
	} {
		f.Add(text(f, randomForest(rng, s)), uint64(1))
	}
	f.Add(tinyModel(f), uint64(2))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		m, err := ReadModel(bytes.NewReader(data))
		if err != nil {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		if m.Features() > 1000 {
			return // the rows alone would fill the memory
		}
		checkPredictAll(t, m, randomRows(rng, m, fewRows, false), fewRows, 1)
	})
}

// BenchmarkPredict predicts numerical rows with 500 trees of 63 leaves over 28 features with 255 bins each. An
// operation is one row.
func BenchmarkPredict(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	const rows = 50_000
	m := randomForest(rng, forestSpec{features: 28, trees: 500, leaves: 63, bounds: 254, plain: true})
	x := randomRows(rng, m, rows, true)
	out := make([]float64, rows)
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("table/threads=%d", threads), func(b *testing.B) {
			done := 0
			for b.Loop() {
				must.Do(b, m.PredictAll(x, out, threads))
				done += rows
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/row")
		})
	}
	b.Run("compile", func(b *testing.B) {
		for b.Loop() {
			m.compile()
		}
	})
	b.Run("row", func(b *testing.B) {
		r := 0
		for b.Loop() {
			out[r] = m.Predict(x[r*28:][:28])
			r = (r + 1) % rows
		}
	})
}

// TestPredictAllOfManyBounds: PredictAll gives the bits of Predict for a feature with as many thresholds as a node of
// the vector search has (8), a group of nodes (64) or all that it can hold (511), and a few less or more. The values
// are each threshold and the numbers on both sides of it.
func TestPredictAllOfManyBounds(t *testing.T) {
	unraced(t)
	for _, n := range []int{1, 7, 8, 9, 63, 64, 65, 448, 511, 512, 600, 1100} {
		m := &Model{Objective: "regression", FeatureNames: []string{"x"}}
		x := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
		for i := range n {
			bound := float64(i*i) - 1000
			m.Trees = append(m.Trees, &Tree{Feature: []int{0}, Threshold: []float64{bound},
				Decision: []uint8{missingNaN},
				Left:     []int{^0}, Right: []int{^1}, LeafValue: []float64{1 / float64(i+3), 0}})
			x = append(x, math.Nextafter(bound, -1e9), bound, math.Nextafter(bound, 1e9))
		}
		for len(x) < compileAfter {
			x = append(x, x...)
		}
		got := make([]float64, len(x))
		must.Do(t, m.PredictAll(x, got, 1))
		for i, v := range x {
			if want := m.Predict(x[i : i+1]); math.Float64bits(got[i]) != math.Float64bits(want) {
				t.Fatalf("%d bounds: got %v for %v, want %v", n, got[i], v, want)
			}
		}
	}
}

// TestLightGBMContributions: Contributions gives what LightGBM's predict(pred_contrib=True) has given for a model of
// testdata/lightgbm.
func TestLightGBMContributions(t *testing.T) {
	want := readCSV(t, "contrib.csv", ',')
	rows := readCSV(t, "rows.csv", ',')[:len(want)]
	m := readModel(t, "old_binary.txt")
	f := m.Features()
	var x []float64
	for _, row := range rows {
		for i := range f {
			x = append(x, number(t, row[i]))
		}
	}
	got := make([]float64, len(rows)*(f+1))
	must.Do(t, m.Contributions(x, got, 2))
	for r, row := range want {
		for i := range f + 1 {
			if w, g := number(t, row[i]), got[r*(f+1)+i]; math.Abs(w-g) > 1e-12 {
				t.Errorf("row %d, feature %d: got %v, want LightGBM's %v", r, i, g, w)
			}
		}
	}
}

// shapByHand is what the feature numbered wanted adds to a tree's score, averaged over all orders in which features
// become known. At a node whose feature is unknown, both ways count, in proportion to their training rows. Of all n!
// orders, s! (n-s-1)! have a given set of s features before this one.
func shapByHand(t *Tree, x []float64, features, wanted int) float64 {
	var value func(node int, known []bool) float64
	value = func(node int, known []bool) float64 {
		if node < 0 {
			return t.LeafValue[^node]
		}
		if known[t.Feature[node]] {
			if t.goesLeft(node, x[t.Feature[node]]) {
				return value(t.Left[node], known)
			}
			return value(t.Right[node], known)
		}
		left, right := t.rowsBelow(t.Left[node]), t.rowsBelow(t.Right[node])
		return (left*value(t.Left[node], known) + right*value(t.Right[node], known)) / (left + right)
	}
	factorial := func(n int) float64 { return math.Gamma(float64(n) + 1) }

	sum := 0.0
	for set := range 1 << features {
		if set>>wanted&1 == 1 {
			continue
		}
		known, size := make([]bool, features), 0
		for f := range known {
			known[f] = set>>f&1 == 1
			if known[f] {
				size++
			}
		}
		before := value(0, known) // the tree's score with this set known; then with the feature, too
		known[wanted] = true
		sum += factorial(size) * factorial(features-size-1) / factorial(features) * (value(0, known) - before)
	}
	return sum
}

// TestContributions: Contributions gives the numbers of the definition (shapByHand), on rows with missing values and
// categories and on deep trees with repeated features, for any number of threads. They add up to the raw score. A wrong
// number of values is refused, and so is a model that lacks counts of rows.
func TestContributions(t *testing.T) {
	d := randomTable(tableSpec{rows: 2500, numerical: 4, categorical: 2, bins: 30, missing: 0.2, seed: 6})
	p := small()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = 3, 40, 3
	m := mustTrain(t, &d.Data, p, Options{}).Model
	const f, rows = 6, 40 // the table's 4 + 2 features, and of its rows the first 40, as shapByHand is slow
	out := make([]float64, rows*(f+1))
	must.Do(t, m.Contributions(d.raw[:rows*f], out, 1))
	for r := range rows {
		got, sum := out[r*(f+1):(r+1)*(f+1)], 0.0
		for i := range f {
			want := 0.0
			for _, tree := range m.Trees {
				want += shapByHand(tree, d.row(r), f, i)
			}
			if math.Abs(got[i]-want) > 1e-10 {
				t.Errorf("row %d, feature %d: got %v, want %v by definition", r, i, got[i], want)
			}
		}
		for _, v := range got {
			sum += v
		}
		if raw := m.Predict(d.row(r)); math.Abs(sum-raw) > 1e-10 {
			t.Errorf("row %d: contributions add up to %v, want the raw score %v", r, sum, raw)
		}
	}

	again := make([]float64, len(out))
	if err := m.Contributions(d.raw[:rows*f], again, 3); err != nil || !slices.Equal(again, out) {
		t.Errorf("three threads: error %v, the same numbers: %t; want no error and the same", err,
			slices.Equal(again, out))
	}
	if err := m.Contributions(d.raw[:5], out, 1); !errors.Is(err, ErrData) {
		t.Errorf("five values for rows of six features: got error %v, want an ErrData", err)
	}

	// A model file may have counts for leaves but not for nodes. The first leaf or node without one is named; no line
	// is, since the file is not at hand any more.
	leaves, nodes := m.Trees[0].LeafCount, m.Trees[0].InternalCount
	for name, counts := range map[string][2][]int{"leaf 0": {make([]int, len(leaves)), nodes},
		"node 0": {leaves, make([]int, len(nodes))}} {
		m.Trees[0].LeafCount, m.Trees[0].InternalCount = counts[0], counts[1]
		err := m.Contributions(d.raw[:rows*f], out, 1)
		if want := "tree 0: the model has no count of rows for " + name; !problem.Is(err, problem.Input) ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("a model without the count of %s: got %v, want an error of kind Input that begins with %q", name,
				err, want)
		}
	}
}
