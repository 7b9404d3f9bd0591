package gbt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"coppice/internal/must"
)

// trial is a random table and random parameters, fully determined by the seed.
type trial struct {
	*table
	p Params
}

// size is how many rows a trial has, which decides the kind of its histograms.
type size int

const (
	tableOfFew  size = iota // one goroutine does all the work
	tableOfSome             // several goroutines share the counting and usually the partitioning; one word per bin
	tableOfMany             // the root and perhaps its children need two words per bin
	sizes
)

// randomTrial returns a random table of about this size with random parameters that it can be trained with. A seed
// always gives the same trial.
func randomTrial(seed uint64, s size) *trial {
	rng := rand.New(rand.NewPCG(seed, 77))
	spec := tableSpec{
		rows: 30 + rng.IntN(3000), numerical: 1 + rng.IntN(8), categorical: rng.IntN(4), bins: 2 + rng.IntN(120),
		weights: rng.IntN(3) == 0, regression: rng.IntN(2) == 0, seed: seed,
	}
	switch s {
	case tableOfSome:
		spec.rows = grain + rng.IntN(2*grain)
	case tableOfMany:
		spec.rows = maxPackedRows + rng.IntN(maxPackedRows+maxPackedRows/2)
	}
	if seed%4 == 0 { // similar rows in runs, as in a log
		spec.duplicates = 0.9
		spec.numerical += 6
	}
	if rng.IntN(2) == 0 {
		spec.missing = []float64{0.001, 0.1, 0.7}[rng.IntN(3)]
	}
	t := &trial{table: randomTable(spec), p: randomParams(rng, spec.regression)}
	if rng.IntN(4) == 0 {
		t.Copies = 1 + rng.IntN(3)
	}
	t.makeTrainable()
	if rng.IntN(3) == 0 { // a mask of columns
		f := len(t.Features)
		t.p.IgnoreColumn = numbered(rng.Perm(f)[:rng.IntN(f)])
	}
	if rng.IntN(3) == 0 { // a mask of rows
		for r := range t.Rows {
			if r < 4 || rng.IntN(3) > 0 {
				t.Subset = append(t.Subset, uint32(r))
			}
		}
	}
	return t
}

// rowMajor returns the rows of a table given column by column.
func rowMajor(columns [][]byte) []byte {
	rows := make([]byte, len(columns)*len(columns[0]))
	for f, column := range columns {
		for r, bin := range column {
			rows[r*len(columns)+f] = bin
		}
	}
	return rows
}

// columnMajor returns the columns of a table given row by row.
func columnMajor(rows []byte, features int) [][]byte {
	columns := make([][]byte, features)
	for f := range columns {
		for r := f; r < len(rows); r += features {
			columns[f] = append(columns[f], rows[r])
		}
	}
	return columns
}

// makeTrainable gives four rows weight and both classes: otherwise there would be nothing to learn.
func (t *trial) makeTrainable() {
	for r := range 4 {
		t.Label[r] = float32(r % 2)
		if t.Weight != nil {
			t.Weight[r] = 1
		}
	}
}

// randomParams changes each parameter from its default one time in two or three, so that most trials have several
// changes and some have none. A new parameter draws from a generator of its own, such as rand.NewPCG(p.Seed, 1): then
// trials without it stay as they are, and so do the bytes of their models.
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
	some(3, func() { p.FeatureFraction = 0.2 + float64(0.8*rng.Float64()) })
	some(3, func() { p.FeatureFractionByNode = 0.2 + float64(0.8*rng.Float64()) })
	some(3, func() { p.BaggingFraction, p.BaggingFreq = 0.2+float64(0.8*rng.Float64()), 1+rng.IntN(3) })
	some(3, func() { p.MaxBin = 2 + rng.IntN(60) })
	some(4, func() { p.BoostFromAverage = false })
	some(2, func() { p.MaxCatToOnehot = 1 + rng.IntN(40) })
	some(2, func() { p.MinDataPerGroup = 1 + rng.IntN(200) })
	some(2, func() { p.CatSmooth, p.CatL2 = 20*rng.Float64(), 10*rng.Float64() })
	some(3, func() { p.MaxCatThreshold = 1 + rng.IntN(10) })
	some(5, func() { p.ExtraTrees = true })
	if regression {
		p.Objective = "regression"
		return p
	}
	some(4, func() { p.ScalePosWeight = 0.1 + float64(5*rng.Float64()) })
	if p.ScalePosWeight == 1 {
		some(4, func() { p.IsUnbalance = true })
	}
	return p
}

// String describes a failed trial.
func (t *trial) String() string {
	return fmt.Sprintf("%d rows, %d in use, %d features, weights %t, %+v", t.Rows, t.Used(), len(t.Features),
		t.Weight != nil, t.p)
}

// some is how many of n repetitions are tried: a third, and all in `make test FULL=1`. Under the race detector it is a
// tenth: goroutines do the same in each.
func some(n int) int {
	if raceEnabled {
		return (n + 9) / 10
	}
	if os.Getenv("COPPICE_FULL") == "" {
		return (n + 2) / 3
	}
	return n
}

// trials adds seeds of random trials to a fuzz test: of every dozen, one with many rows and three with some. "go test"
// runs these seeds; "go test -run - -fuzz NAME ./internal/gbt" looks for others. A failure prints its seed and size,
// and the fuzzer keeps them under testdata/fuzz.
func trials(f *testing.F, n int) {
	for i := range max(12, uint64(some(n))) {
		s := tableOfFew
		switch i % 12 {
		case 11:
			s = tableOfMany
		case 2, 5, 8:
			s = tableOfSome
		}
		f.Add(i, uint8(s))
	}
}

// FuzzReference: with one thread and with three, the trainer gives the model of the slow but simple one in
// reference_test.go, byte for byte, on random tables with random parameters.
func FuzzReference(f *testing.F) {
	long(f)
	trials(f, 120)
	f.Fuzz(func(t *testing.T, seed uint64, s uint8) {
		trial := randomTrial(seed, size(s)%sizes)
		want := text(t, newReference(&trial.Data, trial.p).train())
		for _, threads := range []int{1, 3} {
			if got := trial.train(t, Options{Threads: threads}); !bytes.Equal(got, want) {
				t.Fatalf("%v\nwith %d threads the model is not the reference's: %s", trial, threads,
					firstDifference(got, want))
			}
		}
	})
}

// FuzzInvariants: the state of a random training is what it must be (invariant_test.go), recomputed from the rows after
// every tree and, in one tree, after every split.
func FuzzInvariants(f *testing.F) {
	long(f)
	trials(f, 120)
	f.Fuzz(func(t *testing.T, seed uint64, s uint8) {
		trial := randomTrial(seed, size(s)%sizes)
		trainChecked(t, trial, Options{Threads: 1 + int(seed%3)})
		b := must.Get(newBooster(context.Background(), &trial.Data, trial.p, Options{}, testPool(t, 1+int(seed%2))))(t)
		if _, _, err := growChecked(b); err != nil {
			t.Fatalf("grew a tree for %v: error %v", trial, err)
		}
	})
}

// FuzzRepeatable: a random training gives the same model with more threads, beside other trainings on the same table,
// if the rows are made from the columns or the columns from the rows, and after rows that are not in use have changed.
// It does not write to the table.
func FuzzRepeatable(f *testing.F) {
	trials(f, 60)
	f.Fuzz(func(t *testing.T, seed uint64, s uint8) {
		trial := randomTrial(seed, size(s)%sizes)
		opt := Options{Threads: 1}
		if seed%5 < 3 { // with held-out rows, and early stopping on them
			opt.Valid, opt.Eval = &trial.Data, func(raw []float64) (float64, error) { return raw[0], nil }
			trial.p.EarlyStoppingRound = 1 + int(seed%3)
		}
		table := trial.fingerprint()
		want := trial.train(t, opt)
		same := func(how string, got []byte) {
			t.Helper()
			if !bytes.Equal(got, want) {
				t.Fatalf("%v\n%s the model is another: %s", trial, how, firstDifference(got, want))
			}
		}
		for _, threads := range []int{2, 3, 8} {
			opt.Threads = threads
			same(fmt.Sprintf("with %d threads", threads), trial.train(t, opt))
		}
		opt.Threads = 2
		for _, got := range trial.trainBeside(t, opt) {
			same("with another candidate beside it", got)
		}
		if trial.fingerprint() != table {
			t.Fatalf("%v\ntraining has written to the table, want it unchanged", trial)
		}
		rows, columns := trial.RowMajor, trial.Columns
		trial.RowMajor = rowMajor(columns)
		same("from a table in columns", trial.train(t, opt))
		trial.RowMajor, trial.Columns = rows, columnMajor(rows, len(columns))
		same("from a table in rows", trial.train(t, opt))
		if trial.Subset != nil {
			trial.spoilUnused(seed)
			same("after other rows have changed", trial.train(t, opt))
		}
	})
}

// train is the text of the trial's model.
func (t *trial) train(tb testing.TB, opt Options) []byte {
	tb.Helper()
	return text(tb, mustTrain(tb, &t.Data, t.p, opt).Model)
}

// trainBeside trains the trial twice at once, with a third training beside them on the same table.
func (t *trial) trainBeside(tb testing.TB, opt Options) [2][]byte {
	tb.Helper()
	models := make([]*Model, 3)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range models {
		p := t.p
		if i == 2 {
			p.NumLeaves, p.MaxBin, p.FeatureFraction, p.Seed = 2+p.NumLeaves/2, 5, 0.5, p.Seed+1
		}
		wg.Go(func() {
			res, err := Train(tb.Context(), &t.Data, p, opt)
			if err != nil {
				errs[i] = err
				return
			}
			models[i] = res.Model
		})
	}
	wg.Wait()
	must.Do(tb, errors.Join(errs...))
	return [2][]byte{text(tb, models[0]), text(tb, models[1])}
}

// fingerprint hashes all that the trainer borrows, except groups, which random trials do not have.
func (t *trial) fingerprint() (sum [sha256.Size]byte) {
	h := sha256.New()
	h.Write(t.RowMajor)
	for _, c := range t.Columns {
		h.Write(c)
	}
	fmt.Fprint(h, t.Features, t.Label, t.Weight, t.Subset)
	h.Sum(sum[:0])
	return sum
}

// spoilUnused gives rows outside the mask other bins, even invalid ones, labels and weights.
func (t *trial) spoilUnused(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 3))
	used := make([]bool, t.Rows)
	for _, r := range t.Subset {
		used[r] = true
	}
	for r := range used {
		if used[r] {
			continue
		}
		for f := range t.Columns {
			t.Columns[f][r] = byte(rng.IntN(256))
		}
		t.Label[r] = float32(rng.NormFloat64() * 1e6)
		if t.Weight != nil {
			t.Weight[r] = float32(rng.ExpFloat64() * 1e6)
		}
	}
	t.RowMajor = rowMajor(t.Columns)
}

// firstDifference shows where two model texts diverge, by line. Lines with the sizes of trees follow from others, and
// are left out.
func firstDifference(got, want []byte) string {
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) && !bytes.HasPrefix(a[i], []byte("tree_sizes")) {
			return fmt.Sprintf("line %d\n got %s\nwant %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(a), len(b))
}

// newer has, for what only some trials use, how to make a trial do without it.
func newer() map[string]func(*trial) {
	return map[string]func(*trial){
		"extra_trees": func(t *trial) { t.p.ExtraTrees = false },
		"copies":      func(t *trial) { t.Copies = 0 },
	}
}

// TestTrialsAreWorthTheirTime: the random trainings of these tests reach what they are for: trees with splits, by both
// kinds of features and by missing values, and parameters (newer) that change models.
func TestTrialsAreWorthTheirTime(t *testing.T) {
	long(t)
	splits, categorical, missing, deep := 0, 0, 0, 0
	changed := map[string]int{}
	for seed := range uint64(100) {
		trial := randomTrial(seed, tableOfFew)
		model := mustTrain(t, &trial.Data, trial.p, Options{Threads: 1}).Model
		for name, off := range newer() {
			without := *trial
			without.table = &table{Data: trial.Data, raw: trial.raw}
			off(&without)
			other := mustTrain(t, &without.Data, without.p, Options{Threads: 1}).Model
			if !slices.EqualFunc(model.Trees, other.Trees,
				func(a, b *Tree) bool { return bytes.Equal(a.formatTree(0), b.formatTree(0)) }) {
				changed[name]++
			}
		}
		for _, tree := range model.Trees {
			splits += len(tree.Feature)
			if len(tree.Feature) > 10 {
				deep++
			}
			for i, d := range tree.Decision {
				if d&decisionCategorical != 0 {
					categorical++
				} else if tree.Threshold[i] == math.MaxFloat64 { // all present values go left
					missing++
				}
			}
		}
	}
	if splits < 500 || categorical < 50 || missing < 2 || deep < 20 {
		t.Errorf("%d splits, %d of them categorical, %d by missing values alone; %d trees with more than ten; want at "+
			"least 500, 50, 2 and 20", splits, categorical, missing, deep)
	}
	for name := range newer() {
		if changed[name] < 3 {
			t.Errorf("%s changed %d models of 100, want at least 3", name, changed[name])
		}
	}
}

// table is a random table with the raw values behind its bins.
type table struct {
	Data
	raw []float64 // row-major model values; NaN where missing
}

// tableSpec says what a random table contains.
type tableSpec struct {
	rows, numerical, categorical int
	bins                         int // of each numerical feature, without the missing one
	missing                      float64
	duplicates                   float64 // probability that a row repeats the bins of the previous one
	// Strength of an interaction of the first two features, which then have no effect by themselves; 0: no interaction.
	together   float64
	weights    bool
	regression bool
	seed       uint64
}

// randomTable returns a table as the spec says, with labels that depend on its features.
func randomTable(s tableSpec) *table {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	t := &table{Data: Data{Rows: s.rows}}
	f := s.numerical + s.categorical
	for i := range f {
		t.Features = append(t.Features, randomFeature(rng, s, i))
		t.Columns = append(t.Columns, make([]byte, s.rows))
	}
	t.RowMajor = make([]byte, s.rows*f)
	t.raw = make([]float64, s.rows*f)
	t.Label = make([]float32, s.rows)
	if s.weights {
		t.Weight = make([]float32, s.rows)
	}
	repeats := rand.New(rand.NewPCG(s.seed, 2)) // of its own, so that the other draws stay as they are
	effects := make([]float64, f)               // of the row's cells
	for r := range s.rows {
		signal := 0.0
		repeat := r > 0 && repeats.Float64() < s.duplicates
		for i := range f {
			bin, raw, effect := randomCell(rng, &t.Features[i], s.missing)
			if repeat {
				bin, raw, effect = t.Columns[i][r-1], t.raw[(r-1)*f+i], effects[i]
			}
			effects[i] = effect
			t.Columns[i][r], t.RowMajor[r*f+i], t.raw[r*f+i] = bin, bin, raw
			if i%3 != 1 { // a third of the features is noise
				signal += effect
			}
		}
		signal += float64(float64(t.Columns[0][r]%7)*0.2) - 0.6 // by the bin modulo 7, of mean 0
		if s.together > 0 {
			// Take out what the first feature adds. The row's signal is higher if one of the first two features is in
			// the lower half of its bins and the other is not.
			half := byte(s.bins / 2)
			signal -= effects[0] + float64(float64(t.Columns[0][r]%7)*0.2) - 0.6
			signal += s.together
			if (t.Columns[0][r] < half) == (t.Columns[1][r] < half) {
				signal -= 2 * s.together
			}
		}
		t.Label[r] = float32(signal + rng.NormFloat64())
		if !s.regression {
			t.Label[r] = 0
			if rng.Float64() < Probability(signal) {
				t.Label[r] = 1
			}
		}
		if s.weights {
			t.Weight[r] = float32(rng.IntN(4)) / 2
		}
	}
	return t
}

// randomFeature returns the description of feature i of such a table: first come the numerical ones.
func randomFeature(rng *rand.Rand, s tableSpec, i int) Feature {
	if i >= s.numerical {
		return Feature{Name: "cat " + string(rune('a'+i)), Bins: 3 + rng.IntN(60), Categorical: true, Missing: -1}
	}
	feature := Feature{Name: "num" + string(rune('a'+i)), Bins: s.bins, Missing: -1, Min: 0, Max: float64(s.bins)}
	for b := 1; b < s.bins; b++ {
		feature.Bounds = append(feature.Bounds, float64(b)-0.5+float64(rng.Float64()*0.4))
	}
	if s.missing > 0 {
		feature.Missing = feature.Bins
		feature.Bins++
	}
	return feature
}

// randomCell returns a bin, a raw value in it, and its contribution to the label's log odds. Its conversions, like
// those above, prevent fused operations: the tables are the same on every processor.
func randomCell(rng *rand.Rand, f *Feature, missing float64) (bin byte, raw, effect float64) {
	if f.Categorical {
		b := min(int(rng.ExpFloat64()*float64(f.Bins)/4), f.Bins-1)
		return byte(b), float64(b), float64(math.Sin(float64(b*b)) * 0.7)
	}
	if rng.Float64() < missing {
		return byte(f.Missing), math.NaN(), 0.5
	}
	b := rng.IntN(f.valueBins())
	return byte(b), float64(b), float64(0.8 * math.Sin(6*float64(b)/float64(f.valueBins())))
}

// row returns one row's raw values.
func (t *table) row(r int) []float64 { return t.raw[r*len(t.Features):][:len(t.Features)] }

// logLoss is the mean loss of raw scores, computed here so that the trainer's tests need no other package.
func logLoss(label []float32) func(raw []float64) (float64, error) {
	return func(raw []float64) (float64, error) {
		sum := 0.0
		for i, s := range raw {
			p := Probability(s)
			if label[i] == 0 {
				p = 1 - p
			}
			sum -= math.Log(max(p, 1e-15))
		}
		return sum / float64(len(raw)), nil
	}
}

// gradientOf returns the exact gradient and hessian of a row with a raw score.
func gradientOf(o objective, r uint32, raw float64) (g, h float64) {
	gs, hs := []float64{raw}, []float64{0}
	o.gradients([]uint32{r}, gs, hs)
	return gs[0], hs[0]
}

func mustTrain(t testing.TB, d *Data, p Params, opt Options) *Result {
	t.Helper()
	return must.Get(Train(t.Context(), d, p, opt))(t)
}
