package gbt

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dmitryikh/leaves"

	"coppice/internal/must"
)

func text(t testing.TB, m *Model) []byte {
	t.Helper()
	var b bytes.Buffer
	must.Get(m.WriteTo(&b))(t)
	return b.Bytes()
}

// variants are configurations that together use every parameter.
func variants() map[string]func(*Params) {
	return map[string]func(*Params){
		"plain":      func(*Params) {},
		"regularise": func(p *Params) { p.LambdaL1, p.LambdaL2, p.MinGainToSplit, p.MaxDeltaStep = 0.5, 3, 0.01, 0.3 },
		"depth":      func(p *Params) { p.MaxDepth, p.NumLeaves = 4, 63 },
		"sample": func(p *Params) {
			p.BaggingFraction, p.BaggingFreq, p.FeatureFraction, p.FeatureFractionByNode = 0.6, 2, 0.7, 0.7
		},
		"few features": func(p *Params) { p.FeatureFraction = 0.3 },
		"coarse":       func(p *Params) { p.MaxBin = 15 },
		"small leaves": func(p *Params) { p.MinDataInLeaf, p.NumLeaves, p.MinSumHessian = 1, 200, 0 },
		"one-hot":      func(p *Params) { p.MaxCatToOnehot = 255 },
		"pos weight": func(p *Params) {
			if p.Objective == "binary" {
				p.ScalePosWeight = 3
			}
		},
		"unbalance":   func(p *Params) { p.IsUnbalance = p.Objective == "binary" },
		"from zero":   func(p *Params) { p.BoostFromAverage = false },
		"extra trees": func(p *Params) { p.ExtraTrees = true },
	}
}

func small() Params {
	p := Defaults()
	p.NumIterations, p.NumLeaves, p.Seed = 12, 15, 7
	return p
}

// TestSameBytesForAnyThreads: whatever is trained, the number of threads changes no byte of the model.
func TestSameBytesForAnyThreads(t *testing.T) {
	rows, trees, counts := 150_000, 3, []int{1, 3, 8}
	if raceEnabled { // two blocks instead of three: enough to notice a race
		rows, trees, counts = 80_000, 2, []int{1, 8}
	}
	d := randomTable(tableSpec{rows: rows, numerical: 14, categorical: 4, bins: 100, missing: 0.05, weights: true,
		seed: 1})
	v := randomTable(tableSpec{rows: 40_000, numerical: 14, categorical: 4, bins: 100, missing: 0.05, seed: 1})
	for name, change := range variants() {
		t.Run(name, func(t *testing.T) {
			p := small()
			p.NumIterations = trees
			change(&p)
			var first []byte
			for _, threads := range counts {
				res := mustTrain(t, &d.Data, p, Options{Threads: threads, Valid: &v.Data, Eval: logLoss(v.Label)})
				got := text(t, res.Model)
				if first == nil {
					first = got
				}
				if !bytes.Equal(got, first) {
					t.Fatalf("%d threads make another model", threads)
				}
			}
		})
	}
}

// TestEqualGainsForAnyThreads has so many features that several goroutines score them, and gives each a twin: of equal
// gains the first feature wins.
func TestEqualGainsForAnyThreads(t *testing.T) {
	const features = 80
	counts := []int{2, 3, 5}
	if raceEnabled {
		counts = []int{5}
	}
	for seed := range uint64(5) {
		half := randomTable(tableSpec{rows: 1500, numerical: features / 2, bins: 4 + 7*int(seed), seed: seed})
		d := half.Data
		d.RowMajor = make([]byte, d.Rows*features)
		for f := range features {
			twin := f % (features / 2)
			if f >= features/2 {
				d.Features = append(d.Features, half.Features[twin])
				d.Columns = append(d.Columns, half.Columns[twin])
			}
			for r, bin := range half.Columns[twin] {
				d.RowMajor[r*features+f] = bin
			}
		}
		p := small()
		p.MinDataInLeaf, p.NumLeaves, p.MinSumHessian = 1, 60, 0
		first := mustTrain(t, &d, p, Options{Threads: 1}).Model
		for _, tree := range first.Trees {
			if f := slices.Max(tree.Feature); f >= features/2 {
				t.Fatalf("seed %d: feature %d was preferred to its twin before it", seed, f)
			}
		}
		for _, threads := range counts {
			if !bytes.Equal(text(t, mustTrain(t, &d, p, Options{Threads: threads}).Model), text(t, first)) {
				t.Fatalf("seed %d: %d threads make another model", seed, threads)
			}
		}
	}
}

// TestGoesOnAfterATreeWithoutSplit draws features of which few are worth a split.
func TestGoesOnAfterATreeWithoutSplit(t *testing.T) {
	d := randomTable(tableSpec{rows: 3000, numerical: 20, bins: 30, seed: 4})
	for r, bin := range d.Columns[3] { // only feature 3 is informative
		d.Label[r] = float32(bin / 16)
	}
	p := small()
	p.MinGainToSplit, p.FeatureFraction, p.NumIterations = 100, 0.2, 60
	res := mustTrain(t, &d.Data, p, Options{})
	if res.Grown < 5 || res.Grown > 30 || res.Stopped != StopIterations {
		t.Errorf("%d trees of %d rounds, %s", res.Grown, p.NumIterations, res.Stopped)
	}
	for i, tree := range res.Model.Trees {
		if tree.Leaves() < 2 {
			t.Errorf("tree %d has no split", i)
		}
	}
	p.FeatureFraction, p.MinGainToSplit = 1, 1e9
	if res := mustTrain(t, &d.Data, p, Options{}); res.Stopped != StopNoSplit || res.Grown != 1 {
		t.Errorf("%d trees, %s", res.Grown, res.Stopped)
	}
	p.FeatureFraction = 0.2
	if res := mustTrain(t, &d.Data, p, Options{}); res.Stopped != StopNoSplit || res.Grown != 1 {
		t.Errorf("drawn: %d trees, %s", res.Grown, res.Stopped)
	}
}

// TestDivergenceIsAnError: leaves that overflow end the training, instead of a model that predicts infinities.
func TestDivergenceIsAnError(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 3, bins: 10, regression: true, seed: 1})
	p := small()
	p.Objective, p.LearningRate, p.NumIterations = "regression", 50, 300
	if _, err := Train(t.Context(), &d.Data, p, Options{}); !errors.Is(err, errDiverged) {
		t.Errorf("training with a huge learning rate: got %v, expected %v", err, errDiverged)
	}
}

// TestAMetricThatIsNotANumber ends the training: every tree would count as an improvement over it, and patience never
// run out.
func TestAMetricThatIsNotANumber(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 3, bins: 10, seed: 2})
	p := small()
	p.EarlyStoppingRound = 2
	res, err := Train(t.Context(), &d.Data, p,
		Options{Threads: 1, Valid: &d.Data, Eval: func([]float64) (float64, error) { return math.NaN(), nil }})
	if err == nil || !strings.Contains(err.Error(), "evaluate tree 1") {
		t.Errorf("a training whose metric is NaN gave %+v and the error %v; want an error about tree 1", res, err)
	}
}

// TestCancelledWithinATree: the error is the context's, so that a caller knows that it was told to stop.
func TestCancelledWithinATree(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 3, bins: 10, seed: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Train(ctx, &d.Data, small(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled within a tree: got error %v; want context.Canceled", err)
	}
}

// TestBinBeyondTheFeature has a table of one feature, so that no other feature's sums can reveal the bad byte.
func TestBinBeyondTheFeature(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 1, bins: 10, seed: 1})
	d.RowMajor[77], d.Columns[0][77] = 200, 200
	if _, err := Train(t.Context(), &d.Data, small(), Options{}); !errors.Is(err, ErrData) {
		t.Errorf("a bin beyond its feature: got error %v; want ErrData", err)
	}
}

func checkAgainstLeaves(t *testing.T, m *Model, rows *table, want []float64) {
	t.Helper()
	data := text(t, m)
	other := must.Get(leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(data)), false))(t)
	for r := range rows.Rows {
		if got := other.PredictSingle(rows.row(r), 0); got != want[r] {
			t.Fatalf("row %d: leaves predicts %v, we %v", r, got, want[r])
		}
	}
	again := must.Get(ReadModel(bytes.NewReader(data)))(t)
	if !bytes.Equal(text(t, again), data) {
		t.Fatal("a model that is read and written again differs")
	}
	for r := range rows.Rows {
		if got := again.Predict(rows.row(r)); got != want[r] {
			t.Fatalf("row %d: the model read back predicts %v, not %v", r, got, want[r])
		}
	}
}

// TestTreesAddUp checks every tree against the rows that reach its leaves.
func TestTreesAddUp(t *testing.T) {
	d := randomTable(tableSpec{rows: 70_000, numerical: 6, categorical: 2, bins: 60, missing: 0.1, seed: 3})
	for name, change := range variants() {
		t.Run(name, func(t *testing.T) {
			p := small()
			p.NumIterations = 3
			change(&p)
			res := mustTrain(t, &d.Data, p, Options{Threads: 2})
			for i, tree := range res.Model.Trees {
				checkTree(t, tree, d, &p, p.BaggingFreq == 0)
				if tree.Leaves() > p.NumLeaves {
					t.Errorf("tree %d has %d leaves", i, tree.Leaves())
				}
			}
		})
	}
}

// checkTree routes all rows and checks counts, bounds, and that parents are the sums of their children.
func checkTree(t *testing.T, tree *Tree, d *table, p *Params, whole bool) {
	t.Helper()
	must.Do(t, tree.check(len(d.Features)))
	rows := make([]uint32, d.Rows)
	rowSet{n: d.Rows}.copy(rows, 0)
	tree.route(d.Columns, rows, make([]uint32, d.Rows), func(leaf int, rows []uint32) {
		if whole && len(rows) != tree.LeafCount[leaf] {
			t.Fatalf("leaf %d says %d rows, %d reach it", leaf, tree.LeafCount[leaf], len(rows))
		}
		if tree.LeafCount[leaf] < 1 {
			t.Fatalf("leaf %d has no row", leaf)
		}
		if p.MaxDeltaStep > 0 && math.Abs(tree.LeafValue[leaf]) > 0.5+p.MaxDeltaStep*p.LearningRate+math.Log(20) {
			t.Fatalf("leaf %d has the value %v", leaf, tree.LeafValue[leaf])
		}
	})
	sum := func(child int) (int, float64) {
		if child < 0 {
			return tree.LeafCount[^child], tree.LeafWeight[^child]
		}
		return tree.InternalCount[child], tree.InternalWeight[child]
	}
	depth := make([]int, len(tree.Feature))
	for node := range tree.Feature {
		ln, lh := sum(tree.Left[node])
		rn, rh := sum(tree.Right[node])
		if ln+rn != tree.InternalCount[node] || math.Abs(lh+rh-tree.InternalWeight[node]) > 1e-9*(lh+rh) {
			t.Fatalf("node %d is not the sum of its children", node)
		}
		if lh < p.MinSumHessian*0.999 || rh < p.MinSumHessian*0.999 {
			t.Fatalf("node %d has a child with hessian %v, %v", node, lh, rh)
		}
		if !(tree.Gain[node] > 0) {
			t.Fatalf("node %d has gain %v", node, tree.Gain[node])
		}
		for _, child := range []int{tree.Left[node], tree.Right[node]} {
			if child >= 0 {
				depth[child] = depth[node] + 1
			}
		}
		if p.MaxDepth > 0 && depth[node] >= p.MaxDepth {
			t.Fatalf("node %d is at depth %d", node, depth[node])
		}
	}
}

// TestWeightTwoIsARowTwice: rows of weight 2 make about the model of each row twice.
func TestWeightTwoIsARowTwice(t *testing.T) {
	d := randomTable(tableSpec{rows: 4000, numerical: 5, bins: 20, seed: 5})
	twice := &table{Data: Data{Rows: 2 * d.Rows, Features: d.Features}}
	for range 2 {
		twice.Label = append(twice.Label, d.Label...)
		twice.RowMajor = append(twice.RowMajor, d.RowMajor...)
	}
	for _, c := range d.Columns {
		twice.Columns = append(twice.Columns, slices.Concat(c, c))
	}
	p := small()
	p.MinDataInLeaf, p.NumIterations = 0, 8
	p.MinSumHessian = 5
	once := d.Data
	once.Weight = slices.Repeat([]float32{2}, d.Rows)
	a, b := mustTrain(t, &once, p, Options{}), mustTrain(t, &twice.Data, p, Options{})
	// The two round differently, so the models agree as far as 16-bit gradients do.
	for r := range d.Rows {
		x, y := a.Model.Predict(d.row(r)), b.Model.Predict(d.row(r))
		if math.Abs(x-y) > 0.05 {
			t.Fatalf("row %d: %v with weight 2, %v with the row twice", r, x, y)
		}
	}
}

// TestMissingInCategoricalAndUnseenMissing: where train had no missing value, one in prediction goes where another
// reader of the file, package leaves, sends it.
func TestMissingInCategoricalAndUnseenMissing(t *testing.T) {
	d := randomTable(tableSpec{rows: 5000, numerical: 3, categorical: 1, bins: 20, seed: 7}) // no missing anywhere
	p := small()
	res := mustTrain(t, &d.Data, p, Options{})
	x := slices.Clone(d.row(0))
	for i := range x {
		x[i] = math.NaN()
	}
	got := res.Model.Predict(x)
	other := must.Get(leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(text(t, res.Model))), false))(t)
	if want := other.PredictSingle(x, 0); got != want || math.IsNaN(got) {
		t.Errorf("a row of missing values: %v, leaves says %v", got, want)
	}
}

// TestConstantModel: a table from which nothing can be learnt makes one tree without a split, which predicts the rate
// and can be written and read.
func TestConstantModel(t *testing.T) {
	d := &Data{Rows: 100, RowMajor: make([]byte, 100), Columns: [][]byte{make([]byte, 100)},
		Label:    make([]float32, 100),
		Features: []Feature{{Name: "x", Bins: 1, Missing: -1}}}
	for r := range 25 {
		d.Label[r] = 1
	}
	res := mustTrain(t, d, small(), Options{})
	if res.Stopped != StopNoSplit || len(res.Model.Trees) != 1 {
		t.Fatalf("a constant label: got %+v; want one tree, and no split as the reason to stop", res)
	}
	if p := Probability(res.Model.Predict([]float64{3})); math.Abs(p-0.25) > 1e-12 {
		t.Errorf("predicts %v, the rate is 0.25", p)
	}
	if _, err := ReadModel(bytes.NewReader(text(t, res.Model))); err != nil {
		t.Error(err)
	}
	if _, err := res.Model.PredictBinned(d, 1); err != nil {
		t.Error(err)
	}
}

// TestBadData: whatever a table's bins, labels, weights or subset have wrong is an ErrData, and no panic.
func TestBadData(t *testing.T) {
	good := func() *table { return randomTable(tableSpec{rows: 200, numerical: 2, bins: 5, seed: 8}) }
	for name, spoil := range map[string]func(*table){
		"no rows":          func(d *table) { d.Rows = 0 },
		"short column":     func(d *table) { d.Columns[1] = d.Columns[1][1:] },
		"short rows":       func(d *table) { d.RowMajor = d.RowMajor[1:] },
		"label NaN":        func(d *table) { d.Label[3] = float32(math.NaN()) },
		"label 2":          func(d *table) { d.Label[3] = 2 },
		"one class":        func(d *table) { clear(d.Label) },
		"weight negative":  func(d *table) { d.Weight = make([]float32, d.Rows); d.Weight[1] = -1 },
		"bin beyond":       func(d *table) { d.RowMajor[7] = 200 },
		"bounds unsorted":  func(d *table) { d.Features[0].Bounds[1] = -9 },
		"bounds too few":   func(d *table) { d.Features[0].Bounds = d.Features[0].Bounds[1:] },
		"missing not last": func(d *table) { d.Features[0].Missing = 1 },
		"subset unsorted":  func(d *table) { d.Subset = []uint32{4, 2} },
		"subset beyond":    func(d *table) { d.Subset = []uint32{4, 200} },
		"subset empty":     func(d *table) { d.Subset = []uint32{} },
	} {
		t.Run(name, func(t *testing.T) {
			d := good()
			spoil(d)
			if _, err := Train(t.Context(), &d.Data, small(), Options{}); !errors.Is(err, ErrData) {
				t.Errorf("got error %v, want an ErrData", err)
			}
		})
	}
}

// TestTrainingStopsWhenTold: a training ends with the error of its context or of OnTree; early stopping without rows to
// stop by is refused.
func TestTrainingStopsWhenTold(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 3, bins: 10, seed: 9})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Train(ctx, &d.Data, small(), Options{OnTree: func(p Progress) error {
		if p.Tree == 3 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancelling: got error %v, want %v", err, context.Canceled)
	}
	own := errors.New("enough")
	if _, err := Train(t.Context(), &d.Data, small(),
		Options{OnTree: func(Progress) error { return own }}); !errors.Is(err, own) {
		t.Errorf("after an error from OnTree: got error %v, want that one", err)
	}
	p := small()
	p.EarlyStoppingRound = 3
	if _, err := Train(t.Context(), &d.Data, p, Options{}); err == nil {
		t.Error("early stopping without held-out rows was accepted")
	}
}

// unraced skips a test under the race detector: its length is one goroutine's, and what several do in it, shorter tests
// do, too. Without the detector it runs under -short as well, so that `make portable` has it.
func unraced(t *testing.T) {
	t.Helper()
	if raceEnabled {
		t.Skip("it is one goroutine's work: run it without -race")
	}
}

// long skips a test under -short, as `make race` runs it: under the race detector it takes a minute and covers no more
// than shorter tests.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: run it without -short")
	}
}
