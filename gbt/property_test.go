package gbt

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// trial is a random table and random parameters; the seed says all about it.
type trial struct {
	*table
	p Params
}

// size is how many rows a trial has, which decides what its histograms are.
type size int

const (
	fewRows  size = iota // every leaf's sums fit one word per bin
	manyRows             // the root and perhaps its children need two
)

func randomTrial(seed uint64, s size) *trial {
	rng := rand.New(rand.NewPCG(seed, 77))
	spec := tableSpec{
		rows: 30 + rng.IntN(3000), numerical: 1 + rng.IntN(8), categorical: rng.IntN(4), bins: 2 + rng.IntN(120),
		weights: rng.IntN(3) == 0, regression: rng.IntN(2) == 0, seed: seed,
	}
	if s == manyRows {
		spec.rows = blockRows + rng.IntN(blockRows+blockRows/2)
	}
	if rng.IntN(2) == 0 {
		spec.missing = []float64{0.001, 0.1, 0.7}[rng.IntN(3)]
	}
	t := &trial{table: randomTable(spec), p: randomParams(rng, spec.regression)}
	t.makeTrainable()
	if rng.IntN(3) == 0 { // a mask of columns
		f := len(t.Features)
		t.p.IgnoreColumn = numbered(rng.Perm(f)[:rng.IntN(f)])
	}
	if s == fewRows && rng.IntN(3) == 0 { // a mask of rows
		for r := range t.Rows {
			if r < 4 || rng.IntN(3) > 0 {
				t.Subset = append(t.Subset, uint32(r))
			}
		}
	}
	return t
}

// rowMajor makes the rows of columns, and columnMajor the columns of rows.
func rowMajor(columns [][]byte) []byte {
	rows := make([]byte, len(columns)*len(columns[0]))
	for f, column := range columns {
		for r, bin := range column {
			rows[r*len(columns)+f] = bin
		}
	}
	return rows
}

func columnMajor(rows []byte, features int) [][]byte {
	columns := make([][]byte, features)
	for f := range columns {
		for r := f; r < len(rows); r += features {
			columns[f] = append(columns[f], rows[r])
		}
	}
	return columns
}

// makeTrainable gives four rows weight and both classes: without them there is nothing to learn.
func (t *trial) makeTrainable() {
	for r := range 4 {
		t.Label[r] = float32(r % 2)
		if t.Weight != nil {
			t.Weight[r] = 1
		}
	}
}

// randomParams departs from the defaults in each parameter one time in two or three, so that most trials have several
// departures at once and some have none.
func randomParams(rng *rand.Rand, regression bool) Params {
	p := Defaults()
	p.Seed, p.NumIterations, p.NumLeaves = rng.Uint64N(1<<53), 1+rng.IntN(4), 2+rng.IntN(40)
	p.LearningRate = 0.05 + rng.Float64()
	p.MinDataInLeaf = []int{0, 1, 5, 20, 100}[rng.IntN(5)]
	some := func(n int, change func()) {
		if rng.IntN(n) == 0 {
			change()
		}
	}
	some(3, func() { p.MaxDepth = 1 + rng.IntN(6) })
	some(3, func() { p.LambdaL1 = rng.ExpFloat64() })
	some(3, func() { p.LambdaL2 = 10 * rng.ExpFloat64() })
	some(4, func() { p.MaxDeltaStep = 0.05 + rng.Float64()/2 })
	some(4, func() { p.MinGainToSplit = rng.ExpFloat64() / 10 })
	some(3, func() { p.MinSumHessian = []float64{0, 1, 8}[rng.IntN(3)] })
	some(3, func() { p.FeatureFraction = 0.2 + 0.8*rng.Float64() })
	some(3, func() { p.FeatureFractionByNode = 0.2 + 0.8*rng.Float64() })
	some(3, func() { p.BaggingFraction, p.BaggingFreq = 0.2+0.8*rng.Float64(), 1+rng.IntN(3) })
	some(3, func() { p.MaxBin = 2 + rng.IntN(60) })
	some(4, func() { p.BoostFromAverage = false })
	some(2, func() { p.MaxCatToOnehot = 1 + rng.IntN(40) })
	some(2, func() { p.MinDataPerGroup = 1 + rng.IntN(200) })
	some(2, func() { p.CatSmooth, p.CatL2 = 20*rng.Float64(), 10*rng.Float64() })
	some(3, func() { p.MaxCatThreshold = 1 + rng.IntN(10) })
	if regression {
		p.Objective = "regression"
		return p
	}
	some(4, func() { p.ScalePosWeight = 0.1 + 5*rng.Float64() })
	if p.ScalePosWeight == 1 {
		some(4, func() { p.IsUnbalance = true })
	}
	return p
}

// String is what a failed trial was about.
func (t *trial) String() string {
	return fmt.Sprintf("%d rows, %d in use, %d features, weights %t, %+v", t.Rows, t.Used(), len(t.Features), t.Weight != nil, t.p)
}

// FuzzReference holds the trainer against the slow one that is easy to believe (reference_test.go). Its input is the seed
// of a random table and random parameters; "go test -run FuzzReference ./gbt" tries the seeds below, "go test -fuzz
// FuzzReference ./gbt" looks for others.
func FuzzReference(f *testing.F) {
	for seed := range uint64(150) {
		f.Add(seed, seed%12 == 11)
	}
	f.Fuzz(func(t *testing.T, seed uint64, many bool) {
		s := fewRows
		if many {
			s = manyRows
		}
		trial := randomTrial(seed, s)
		want := text(t, newReference(&trial.Data, trial.p).train())
		for _, threads := range []int{1, 3} {
			got := text(t, mustTrain(t, &trial.Data, trial.p, Options{Threads: threads}).Model)
			if !bytes.Equal(got, want) {
				t.Fatalf("%v\nwith %d threads the model is not the reference's: %s", trial, threads, firstDifference(got, want))
			}
		}
	})
}

// firstDifference shows where two texts part.
func firstDifference(got, want []byte) string {
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) && !bytes.HasPrefix(a[i], []byte("tree_sizes")) {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(a), len(b))
}

// TestTrialsAreWorthTheirTime makes sure that random trials reach what they are for: trees that split, by both kinds of
// features, and by missing values.
func TestTrialsAreWorthTheirTime(t *testing.T) {
	splits, categorical, missing, deep := 0, 0, 0, 0
	for seed := range uint64(60) {
		trial := randomTrial(seed, fewRows)
		for _, tree := range mustTrain(t, &trial.Data, trial.p, Options{Threads: 1}).Model.Trees {
			splits += len(tree.Feature)
			if len(tree.Feature) > 10 {
				deep++
			}
			for i, d := range tree.Decision {
				if d&decisionCategorical != 0 {
					categorical++
				} else if tree.Threshold[i] == math.MaxFloat64 {
					missing++
				}
			}
		}
	}
	if splits < 500 || categorical < 50 || missing < 2 || deep < 20 {
		t.Errorf("%d splits, %d of them categorical, %d by missing values alone; %d trees with more than ten", splits, categorical, missing, deep)
	}
}
