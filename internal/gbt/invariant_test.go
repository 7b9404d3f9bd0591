package gbt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"coppice/internal/must"
)

// watch is what the checker records of a training run before a tree is grown.
type watch struct {
	*booster
	table *table
	score []float64 // of every row, before the tree
	node  []wide    // of the tree: the exact sums of every internal node
	leaf  []wide    // and of every leaf
}

// trainChecked is Train with the checker after every tree; it also returns the number of trees.
func trainChecked(t *testing.T, trial *trial, opt Options) int {
	t.Helper()
	b := must.Get(newBooster(context.Background(), &trial.Data, trial.p, opt, testPool(t, opt.Threads)))(t)
	for b.stopped == "" {
		w := &watch{booster: b, table: trial.table, score: slices.Clone(b.raw)}
		trees := len(b.trees)
		must.Do(t, b.growRound(t.Context()))
		if len(b.trees) == trees {
			if !slices.Equal(b.raw, w.score) {
				t.Fatalf("%v\nround %d has no tree and changes scores, want them unchanged", trial, b.Round)
			}
			continue
		}
		if err := w.check(b.trees[trees]); err != nil {
			t.Fatalf("%v\ntree %d of round %d: %v", trial, trees, b.Round, err)
		}
	}
	return len(b.trees)
}

// check recomputes from the rows everything that the tree claims.
func (w *watch) check(t *Tree) error {
	for _, step := range []func(*Tree) error{w.checkShape, w.checkRows, w.checkGradients, w.checkSums, w.checkNodes,
		w.checkScores, w.checkMemory} {
		if err := step(t); err != nil {
			return err
		}
	}
	return nil
}

// checkShape returns an error unless the tree has nodes and leaves that belong together, as many leaves as the grower,
// and only features and depths that are allowed.
func (w *watch) checkShape(t *Tree) error {
	if err := t.check(len(w.data.Features)); err != nil {
		return err
	}
	if n := t.Leaves(); n < 2 || n > w.p.NumLeaves || n != len(t.Feature)+1 || n != len(w.grow.leaves) {
		return fmt.Errorf("%d leaves, %d nodes, %d leaves of the grower; num_leaves %d", n, len(t.Feature),
			len(w.grow.leaves), w.p.NumLeaves)
	}
	depth := make([]int, len(t.Feature))
	allowed := treeFeatures(&w.p, w.Round-1, splittingFeatures(&w.p, w.data.Features))
	for node, f := range t.Feature {
		if !slices.Contains(allowed, f) {
			return fmt.Errorf("node %d splits feature %d, allowed are %v", node, f, allowed)
		}
		if w.p.MaxDepth > 0 && depth[node] >= w.p.MaxDepth {
			return fmt.Errorf("node %d is at depth %d", node, depth[node])
		}
		for _, child := range []int{t.Left[node], t.Right[node]} {
			if child >= 0 {
				depth[child] = depth[node] + 1
			}
		}
	}
	return nil
}

// checkRows makes sure that the leaves divide the bag, each with its rows in ascending order, and that every row is in
// the leaf to which the tree sends it, by its bins and by its raw values.
func (w *watch) checkRows(t *Tree) error {
	out, used := w.grow.order[w.bag:], usedRows(w.data)
	places := map[*uint32]int{} // by place in the grower's order and spare, the leaf that has it
	all := slices.Clone(out)
	for i, l := range w.grow.leaves {
		if len(l.rows) < 1 || len(l.spare) != len(l.rows) {
			return fmt.Errorf("leaf %d has %d rows, and room for %d", i, len(l.rows), len(l.spare))
		}
		all = append(all, l.rows...)
		for _, piece := range [][]uint32{l.rows, l.spare} {
			for at := range piece {
				if other, taken := places[&piece[at]]; taken {
					return fmt.Errorf("leaves %d and %d share a place", other, i)
				}
				places[&piece[at]] = i
			}
		}
	}
	slices.Sort(all)
	if !slices.Equal(all, used) || !slices.IsSorted(out) {
		return fmt.Errorf("the leaves' rows and those left out are not the %d rows in use; those left out ascend: %t",
			len(used), slices.IsSorted(out))
	}
	for i := range w.grow.leaves {
		l := &w.grow.leaves[i]
		rows := l.rows
		if !slices.IsSorted(rows) {
			return fmt.Errorf("leaf %d's rows do not ascend", i)
		}
		for _, r := range rows {
			if got := leafOf(t, w.data.Columns, r); got != i {
				return fmt.Errorf("row %d lies in leaf %d; its bins lead to leaf %d", r, i, got)
			}
			if got := t.predict(w.table.row(int(r))); got != t.LeafValue[i] {
				return fmt.Errorf("row %d lies in leaf %d of value %v; its raw values are predicted %v", r, i,
					t.LeafValue[i], got)
			}
		}
	}
	return nil
}

// checkGradients recomputes every gradient; rounding may move it by one unit. If the bag is small, only its rows are
// checked: the gradients of the other rows are those of an earlier tree.
func (w *watch) checkGradients(*Tree) error {
	pack := w.grow.splitScorer.pack
	rows := usedRows(w.data)
	if !fillsAll(w.bag, w.data.Rows) {
		rows = w.grow.order[:w.bag]
	}
	for _, r := range rows {
		g, h := gradientOf(w.obj, r, w.score[r])
		gs, hs := pack.sums(pack.word(w.gh[r]))
		gErr, hErr := math.Abs(float64(gs)-g/pack.g1), math.Abs(float64(hs)-h/pack.h1)
		if !(gErr < 1.001 && hErr < 1.001) {
			return fmt.Errorf("row %d: gradient and hessian %v, %v are packed as %d, %d of units %v, %v", r, g,
				h, gs, hs, pack.g1, pack.h1)
		}
	}
	return nil
}

// checkSums adds up the rows of every leaf and every subtree, in whole units, and compares with the sums of the grower
// and the tree.
func (w *watch) checkSums(t *Tree) error {
	pack := w.grow.splitScorer.pack
	w.node, w.leaf = make([]wide, len(t.Feature)), make([]wide, t.Leaves())
	for i := range w.grow.leaves {
		l := &w.grow.leaves[i]
		for _, r := range l.rows {
			g, h := pack.sums(pack.word(w.gh[r]))
			w.leaf[i] = w.leaf[i].and(wide{g, h})
		}
		s := w.leaf[i]
		if (l.sums != sums{float64(s.g), float64(s.h)}) || t.LeafWeight[i] != float64(s.h)*pack.h1 ||
			t.LeafCount[i] != len(l.rows) {
			return fmt.Errorf("leaf %d has %d rows and sums %v; the grower says %v, the tree %d rows and %v", i,
				len(l.rows), s, l.sums, t.LeafCount[i], t.LeafWeight[i])
		}
	}
	for node := len(t.Feature) - 1; node >= 0; node-- { // children come after their parent
		count := 0
		for _, child := range []int{t.Left[node], t.Right[node]} {
			s, n := w.sums(t, child)
			w.node[node] = w.node[node].and(s)
			count += n
		}
		if count != t.InternalCount[node] || float64(w.node[node].h)*pack.h1 != t.InternalWeight[node] {
			return fmt.Errorf("node %d says %d rows and %v; its children have %d and %v", node, t.InternalCount[node],
				t.InternalWeight[node], count, w.node[node])
		}
	}
	if t.InternalCount[0] != w.bag {
		return fmt.Errorf("the root says %d rows, the bag has %d", t.InternalCount[0], w.bag)
	}
	return nil
}

// sums are a child's exact sums and rows.
func (w *watch) sums(t *Tree, child int) (wide, int) {
	if child < 0 {
		return w.leaf[^child], t.LeafCount[^child]
	}
	return w.node[child], t.InternalCount[child]
}

// best is the output for rows with these sums, in units of the loss and by the formulas of the paper.
func (w *watch) best(s wide, l2 float64) (value float64) {
	pack := w.grow.splitScorer.pack
	h := float64(s.h)*pack.h1 + l2
	if h <= 0 {
		return 0
	}
	value = -w.soft(s) / h
	if w.p.MaxDeltaStep > 0 {
		value = min(max(value, -w.p.MaxDeltaStep), w.p.MaxDeltaStep)
	}
	return value
}

// soft is the sum of gradients, moved towards 0 by lambda_l1 but not beyond.
func (w *watch) soft(s wide) float64 {
	g := float64(s.g) * w.grow.splitScorer.pack.g1
	return math.Copysign(max(math.Abs(g)-w.p.LambdaL1, 0), g)
}

// taken is the gain of rows that get this value.
func (w *watch) taken(s wide, l2, value float64) float64 {
	h := float64(s.h)*w.grow.splitScorer.pack.h1 + l2
	return -(2*w.soft(s)*value + h*value*value)
}

// near reports whether a and b agree within 1e-9 of their sizes and of scale, that of the numbers they were made from.
func near(a, b, scale float64) bool { return math.Abs(a-b) <= 1e-9*(math.Abs(a)+math.Abs(b)+scale) }

// checkNodes checks every node's split against its rules and gain, and every value against its sums.
func (w *watch) checkNodes(t *Tree) error {
	bias := 0.0
	if len(w.trees) == 1 { // the first tree's values contain the initial constant
		bias = w.Bias
	}
	rate := w.p.LearningRate
	if v := w.best(w.node[0], w.p.LambdaL2); !near(t.InternalValue[0], v*rate+bias, 1e-6) {
		return fmt.Errorf("the root has the value %v, expected %v", t.InternalValue[0], v*rate+bias)
	}
	for node := range t.Feature {
		values, gain, scale := w.children(t, node)
		for i, child := range []int{t.Left[node], t.Right[node]} {
			var said float64
			if child < 0 {
				said = t.LeafValue[^child]
			} else {
				said = t.InternalValue[child]
			}
			if child < 0 && findObjective(w.p.Objective).renews {
				continue // a quantile of its rows, which TestObjectivesAgainstTheReference checks
			}
			v := values[i]
			if child < 0 && w.p.Objective == "gamma" && v*rate+bias < said && said < bias {
				continue // raised to its best value, which that test checks, too
			}
			if !near(said, v*rate+bias, 1e-6) {
				return fmt.Errorf("child %d of node %d has the value %v, expected %v", child, node, said, v*rate+bias)
			}
			if w.p.MaxDeltaStep > 0 && math.Abs(said-bias) > w.p.MaxDeltaStep*rate+1e-9 {
				return fmt.Errorf("child %d of node %d has the value %v, beyond max_delta_step", child, node, said)
			}
		}
		if !(t.Gain[node] > 0) || !near(t.Gain[node], gain, scale) {
			return fmt.Errorf("node %d has the gain %v, expected %v", node, t.Gain[node], gain)
		}
		if err := w.checkSizes(t, node); err != nil {
			return err
		}
	}
	return nil
}

// children returns the values of a node's children; gain is the split's reduction of the loss, a difference of numbers
// of magnitude scale.
func (w *watch) children(t *Tree, node int) (values [2]float64, gain, scale float64) {
	feature, s := &w.data.Features[t.Feature[node]], w.node[node]
	l2 := w.p.LambdaL2
	unsplit := w.taken(s, l2, w.best(s, l2))
	gain, scale = -unsplit-w.p.MinGainToSplit, math.Abs(unsplit)
	if feature.Categorical && feature.Bins > w.p.MaxCatToOnehot {
		l2 += w.p.CatL2
	}
	for i, child := range []int{t.Left[node], t.Right[node]} {
		s, _ := w.sums(t, child)
		values[i] = w.best(s, l2)
		more := w.taken(s, l2, values[i])
		gain, scale = gain+more, scale+math.Abs(more)
	}
	return values, gain, scale
}

// checkSizes makes sure that a node's children are large enough. Rows are estimated from the hessian, as in LightGBM.
func (w *watch) checkSizes(t *Tree, node int) error {
	perH := float64(t.InternalCount[node]) / float64(w.node[node].h)
	copies := float64(max(w.data.Copies, 1))
	for _, child := range []int{t.Left[node], t.Right[node]} {
		s, _ := w.sums(t, child)
		h := float64(s.h) * w.grow.splitScorer.pack.h1
		if s.h < 1 || float64(s.h)*perH+0.5 < copies*float64(w.p.MinDataInLeaf)*(1-1e-9) ||
			h < copies*w.p.MinSumHessian*(1-1e-9) {
			return fmt.Errorf("child %d of node %d has sums %v, about %v rows", child, node, s, float64(s.h)*perH)
		}
	}
	return nil
}

// checkScores makes sure that every row in use, in the bag or not, got its leaf's value, and that no other row changed.
func (w *watch) checkScores(t *Tree) error {
	want := slices.Clone(w.score)
	for _, r := range usedRows(w.data) {
		v := t.LeafValue[leafOf(t, w.data.Columns, r)]
		if len(w.trees) == 1 { // the bias was added to the tree after the scores
			if l := leafOf(t, w.data.Columns, r); !near(w.raw[r]-w.score[r], v-w.Bias, 1) {
				return fmt.Errorf("row %d of leaf %d went from %v to %v, the leaf's value is %v", r, l, w.score[r],
					w.raw[r], v-w.Bias)
			}
			want[r] = w.raw[r]
			continue
		}
		want[r] += v
	}
	for r := range want {
		if want[r] != w.raw[r] {
			return fmt.Errorf("row %d went from %v to %v, expected %v", r, w.score[r], w.raw[r], want[r])
		}
	}
	return nil
}

// checkMemory makes sure that every histogram was freed exactly once, and that there are no more than PrivateBytes
// says.
func (w *watch) checkMemory(*Tree) error {
	c := w.grow.histograms
	seen := map[*int64]bool{}
	for _, h := range c.freePacked {
		if seen[&h[0]] {
			return errors.New("a histogram was given back twice")
		}
		seen[&h[0]] = true
	}
	most := w.p.NumLeaves
	if w.pool.size > 1 {
		most += leavesEach * w.pool.size
	}
	if len(seen) > most {
		return fmt.Errorf("%d histograms of words, at most %d for %d leaves", len(seen), most, w.p.NumLeaves)
	}
	return nil
}

// checkHistograms recounts every histogram that a leaf has, for all features in use, and makes sure that no two share
// memory.
func checkHistograms(g *grower) error {
	owner := map[any]int{}
	for i, l := range knownLeaves(g) {
		if l.hist.packed == nil && l.hist.wide == nil {
			continue
		}
		var memory any
		if l.hist.packed != nil {
			memory = &l.hist.packed[0]
		} else {
			memory = &l.hist.wide[0]
		}
		if other, taken := owner[memory]; taken {
			return fmt.Errorf("leaves %d and %d share a histogram", other, i)
		}
		owner[memory] = i
		if err := sameAsNaive(l.hist, g.data, l.rows, g.histograms); err != nil {
			return fmt.Errorf("leaf %d of %d rows: %w", i, len(l.rows), err)
		}
	}
	return nil
}

// knownLeaves returns the tree's leaves, replacing a prepared leaf by its children.
func knownLeaves(g *grower) []*leaf {
	var all []*leaf
	for i := range g.leaves {
		if c := g.leaves[i].children; c != nil {
			all = append(all, &c.left, &c.right)
			continue
		}
		all = append(all, &g.leaves[i])
	}
	return all
}

// growChecked is the loop of grow with a recount after every split. Since the larger child's histogram is the parent's
// less the smaller one's, this checks parent = left + right at every node. early counts the leaves that were prepared
// ahead. A recount reads all rows in this goroutine alone, so under the race detector there is one after every eighth
// split.
func growChecked(b *booster) (splits, early int, err error) {
	g := b.grow
	b.drawRows(0)
	pack := b.obj.prepare(0, b.raw, g.order, b.pool)
	b.obj.fill(b.gh, b.raw, rowSet{n: len(b.gh)}, 0, len(b.gh), newKey(b.p.Seed, forRounding, 0))
	g.number, g.tree, g.splitScorer = 0, &Tree{}, newSplitScorer(g.p, pack)
	g.features = treeFeatures(&b.p, 0, g.usableFeatures)
	if len(g.features) == 0 {
		return 0, 0, nil
	}
	g.histograms.begin(g.features, b.gh, pack)
	if err := g.growRoot(b.bag); err != nil {
		return 0, 0, err
	}
	for {
		if !raceEnabled || splits%8 == 0 {
			if err := checkHistograms(g); err != nil {
				return splits, early, fmt.Errorf("after %d splits: %w", splits, err)
			}
		}
		i := g.mostGain()
		if i < 0 || len(g.leaves) == b.p.NumLeaves {
			return splits, early, nil
		}
		if g.leaves[i].children == nil {
			if err := g.prepare(&g.leaves[i]); err != nil {
				return splits, early, err
			}
		} else {
			early++
		}
		g.applySplit(i)
		splits++
	}
}

// TestSmallLeavesGetTheirChildrenEarly: with several threads, children of small leaves are prepared before it is known
// whether the leaf is split. At least ten leaves that are split had theirs early, and some leaves had them in vain.
// With one thread, or if every node draws its features, none are prepared early.
func TestSmallLeavesGetTheirChildrenEarly(t *testing.T) {
	d := randomTable(tableSpec{rows: 30_000, numerical: 8, categorical: 2, bins: 90, seed: 21})
	p := Defaults()
	p.NumLeaves = 64
	for _, tc := range []struct {
		threads int
		byNode  float64
		want    bool
	}{{1, 1, false}, {2, 1, true}, {5, 1, true}, {2, 0.5, false}} {
		p.FeatureFractionByNode = tc.byNode
		b := must.Get(newBooster(t.Context(), &d.Data, p, Options{}, testPool(t, tc.threads)))(t)
		_, early := must.Get2(growChecked(b))(t)
		vain := 0
		for i := range b.grow.leaves {
			if b.grow.leaves[i].children != nil {
				vain++
			}
		}
		if got := early >= 10 && vain > 0; got != tc.want || !tc.want && early+vain > 0 {
			t.Errorf("%d threads, a share of %v of the features per node: %d leaves got their children early, %d in "+
				"vain; want 10 or more and some: %t, else none", tc.threads, tc.byNode, early, vain, tc.want)
		}
	}
}
