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

// variants returns changes of parameters, by name, that together use most parameters.
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

// small returns parameters for a training that takes a moment: 12 trees of up to 15 leaves.
func small() Params {
	p := Defaults()
	p.NumIterations, p.NumLeaves, p.Seed = 12, 15, 7
	return p
}

// TestSameBytesForAnyThreads: with any of the variants, the number of threads does not change a byte of the model. The
// table has more rows than a histogram word holds (65,536), so that leaves of both kinds occur.
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
					t.Fatalf("%d threads: %s; want the model of %d", threads, firstDifference(got, first), counts[0])
				}
			}
		})
	}
}

// TestEqualGainsForAnyThreads: of equal gains the feature with the lowest number wins, with any number of threads. Each
// of 40 features has a twin with the same bins, 40 numbers later; 80 features are enough for several goroutines to
// score them (minFeatures). Seeds 0 to 4 have features of 4 to 32 bins.
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
				t.Fatalf("seed %d: a node splits by feature %d, want its twin %d", seed, f, f-features/2)
			}
		}
		for _, threads := range counts {
			if !bytes.Equal(text(t, mustTrain(t, &d, p, Options{Threads: threads}).Model), text(t, first)) {
				t.Fatalf("seed %d: %d threads make another model than one, want the same", seed, threads)
			}
		}
	}
}

// TestGoesOnAfterATreeWithoutSplit: if only one feature of 20 is worth a split and a fifth are drawn per tree, rounds
// without that feature add no tree and training continues, so that about a fifth of 60 rounds give one: 12, or by
// chance 5 to 30. If no feature ever is, training ends without a split, with one constant tree, whether features are
// drawn or not.
func TestGoesOnAfterATreeWithoutSplit(t *testing.T) {
	d := randomTable(tableSpec{rows: 3000, numerical: 20, bins: 30, seed: 4})
	for r, bin := range d.Columns[3] { // only feature 3, of 30 bins, is informative: the label is 1 from bin 16 on
		d.Label[r] = float32(bin / 16)
	}
	p := small()
	p.MinGainToSplit, p.FeatureFraction, p.NumIterations = 100, 0.2, 60
	res := mustTrain(t, &d.Data, p, Options{})
	if res.Grown < 5 || res.Grown > 30 || res.Stopped != StopIterations {
		t.Errorf("%d rounds grew %d trees and ended because %q; want 5 to 30 trees and %q", p.NumIterations, res.Grown,
			res.Stopped, StopIterations)
	}
	for i, tree := range res.Model.Trees {
		if tree.Leaves() < 2 {
			t.Errorf("tree %d has no split, want at least one", i)
		}
	}
	p.FeatureFraction, p.MinGainToSplit = 1, 1e9
	if res := mustTrain(t, &d.Data, p, Options{}); res.Stopped != StopNoSplit || res.Grown != 1 {
		t.Errorf("all features: %d trees, %q; want 1 and %q", res.Grown, res.Stopped, StopNoSplit)
	}
	p.FeatureFraction = 0.2
	if res := mustTrain(t, &d.Data, p, Options{}); res.Stopped != StopNoSplit || res.Grown != 1 {
		t.Errorf("drawn features: %d trees, %q; want 1 and %q", res.Grown, res.Stopped, StopNoSplit)
	}
}

// checkAgainstLeaves fails the test unless the Go library leaves reads the model's text and predicts want for the rows,
// to the bit, and the model that ReadModel reads from it does, too, and has the same text.
func checkAgainstLeaves(t *testing.T, m *Model, rows *table, want []float64) {
	t.Helper()
	data := text(t, m)
	other := must.Get(leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewReader(data)), false))(t)
	for r := range rows.Rows {
		if got := other.PredictSingle(rows.row(r), 0); got != want[r] {
			t.Fatalf("row %d: leaves predicts %v, want %v", r, got, want[r])
		}
	}
	again := must.Get(ReadModel(bytes.NewReader(data)))(t)
	if !bytes.Equal(text(t, again), data) {
		t.Fatalf("a model that is read and written again differs: %s; want the same text",
			firstDifference(text(t, again), data))
	}
	for r := range rows.Rows {
		if got := again.Predict(rows.row(r)); got != want[r] {
			t.Fatalf("row %d: the model read back predicts %v, want %v", r, got, want[r])
		}
	}
}

// TestUnseenMissingValues: for a row of missing values, numbers and a category, a model trained without any predicts
// what the library leaves predicts from its file.
func TestUnseenMissingValues(t *testing.T) {
	d := randomTable(tableSpec{rows: 5000, numerical: 3, categorical: 1, bins: 20, seed: 7}) // no missing anywhere
	m := mustTrain(t, &d.Data, small(), Options{}).Model
	row := &table{Data: Data{Rows: 1, Features: d.Features}, raw: slices.Repeat([]float64{math.NaN()}, 4)}
	checkAgainstLeaves(t, m, row, []float64{m.Predict(row.raw)}) // NaN would not equal leaves' prediction
}

// TestConstantModel: a table whose only feature is constant gives a model of one tree without a split. It predicts the
// share of positive rows, can be written and read, and predicts binned rows.
func TestConstantModel(t *testing.T) {
	d := &Data{Rows: 100, RowMajor: make([]byte, 100), Columns: [][]byte{make([]byte, 100)},
		Label:    make([]float32, 100),
		Features: []Feature{{Name: "x", Bins: 1, Missing: -1}}}
	for r := range 25 {
		d.Label[r] = 1
	}
	res := mustTrain(t, d, small(), Options{})
	if res.Stopped != StopNoSplit || len(res.Model.Trees) != 1 {
		t.Fatalf("a constant feature: got %+v; want one tree, and no split as the reason to stop", res)
	}
	if p := Probability(res.Model.Predict([]float64{3})); math.Abs(p-0.25) > 1e-12 {
		t.Errorf("the constant model predicts %v, want 0.25, the share of positive rows", p)
	}
	if _, err := ReadModel(bytes.NewReader(text(t, res.Model))); err != nil {
		t.Errorf("reading the constant model: got error %v, want none", err)
	}
	if _, err := res.Model.PredictBinned(d, 1); err != nil {
		t.Errorf("predicting binned rows with the constant model: got error %v, want none", err)
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
		"copies below 0":   func(d *table) { d.Copies = -1 },
		"copies over rows": func(d *table) { d.Copies = d.Rows + 1 },
		"bounds unsorted":  func(d *table) { d.Features[0].Bounds[1] = -9 },
		"bounds too few":   func(d *table) { d.Features[0].Bounds = d.Features[0].Bounds[1:] },
		"missing not last": func(d *table) { d.Features[0].Missing = 1 },
		"subset unsorted":  func(d *table) { d.Subset = []uint32{4, 2} },
		"subset beyond":    func(d *table) { d.Subset = []uint32{4, 200} }, // of rows 0 to 199
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

// TestTrainingEndsWithAnError: a training ends with the error of its context, whether it was cancelled before the first
// tree or during it, or of OnTree. Leaves that overflow end it, instead of a model that predicts infinities. So does a
// metric of NaN, over which every later tree would count as an improvement, so that early stopping would never stop.
// Early stopping without held-out rows is refused.
func TestTrainingEndsWithAnError(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 3, bins: 10, seed: 1})
	own := errors.New("enough")
	for name, tc := range map[string]struct {
		change func(p *Params, o *Options, cancel func())
		is     error // nil: any that says so
		says   string
	}{
		"cancelled before": {func(_ *Params, _ *Options, cancel func()) { cancel() }, context.Canceled, ""},
		"cancelled after tree 3": {func(_ *Params, o *Options, cancel func()) {
			o.OnTree = func(p Progress) error {
				if p.Tree == 3 {
					cancel()
				}
				return nil
			}
		}, context.Canceled, ""},
		"OnTree": {func(_ *Params, o *Options, _ func()) {
			o.OnTree = func(Progress) error { return own }
		}, own, ""},
		"a huge learning rate": {func(p *Params, _ *Options, _ func()) {
			p.Objective, p.LearningRate, p.NumIterations = "regression", 50, 300
		}, errDiverged, ""},
		"a metric of NaN": {func(p *Params, o *Options, _ func()) {
			p.EarlyStoppingRound, o.Valid = 2, &d.Data
			o.Eval = func([]float64) (float64, error) { return math.NaN(), nil }
		}, nil, "evaluate tree 1"},
		"nothing to stop by": {func(p *Params, _ *Options, _ func()) { p.EarlyStoppingRound = 3 }, nil,
			"early_stopping_round"},
	} {
		t.Run(name, func(t *testing.T) {
			p, o := small(), Options{Threads: 1}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tc.change(&p, &o, cancel)
			res, err := Train(ctx, &d.Data, p, o)
			if err == nil || tc.is != nil && !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("trained: got %+v and error %v, want %v or an error that says %q", res, err, tc.is, tc.says)
			}
		})
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
