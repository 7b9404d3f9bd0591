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
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// encoded returns c's bytes.
func encoded(t testing.TB, c *Checkpoint) []byte {
	t.Helper()
	return must.Get(c.AppendBinary(nil))(t)
}

// randomSubset returns about two thirds of n rows, the first four of them always.
func randomSubset(rng *rand.Rand, n int) []uint32 {
	rows := []uint32{0, 1, 2, 3}
	for r := 4; r < n; r++ {
		if rng.IntN(3) > 0 {
			rows = append(rows, uint32(r))
		}
	}
	return rows
}

// noisyRating returns an Eval whose metric is a hash of all scores: it changes with every bit of them, and gets better
// and worse at random.
func noisyRating(seed uint64) func([]float64) (float64, error) {
	return func(raw []float64) (float64, error) {
		h := seed
		for _, s := range raw {
			h = mix(h ^ math.Float64bits(s))
		}
		return float64(h>>12) / (1 << 52), nil
	}
}

var errKilled = errors.New("killed")

// killed trains up to a random moment (before a tree, after it, or within it by the end of its context), from the
// checkpoint from unless that is nil. It returns the bytes of the last checkpoint saved, or else from, and the result;
// that is nil unless the training finished before the moment came.
func killed(t testing.TB, rng *rand.Rand, d *Data, p Params, opt Options, from []byte) ([]byte, *Result) {
	t.Helper()
	kept := from
	if from != nil {
		c := must.Get(ReadCheckpoint(from))(t)
		opt.Resume = c
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	// It ends after left rounds: in Checkpoint before a tree (how is 0), by its context within that tree (1), or in
	// OnTree after it (2). A checkpoint is saved before every so many rounds, and when the context has ended.
	left, how, every := rng.IntN(12), rng.IntN(3), 1+rng.IntN(4)
	opt.Checkpoint = func(c *Checkpoint) error {
		if ctx.Err() != nil || c.Rounds()%every == 0 {
			kept = encoded(t, c)
		}
		left--
		if left >= 0 {
			return nil
		}
		switch how {
		case 0:
			return errKilled
		case 1:
			cancel()
		}
		return nil
	}
	opt.OnTree = func(Progress) error {
		if how == 2 && left < 0 {
			return errKilled
		}
		return nil
	}
	opt.Threads = 1 + rng.IntN(3)
	res, err := Train(ctx, d, p, opt)
	if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, context.Canceled) {
		t.Fatalf("a training that was to be interrupted ended with %v, expected no error or the interruption", err)
	}
	return kept, res
}

// checkpointed trains up to a number of trees, one per round, and returns the checkpoint there. The training must have
// more trees.
func checkpointed(t testing.TB, d *Data, p Params, opt Options, trees int) *Checkpoint {
	t.Helper()
	var last *Checkpoint
	opt.Checkpoint = func(c *Checkpoint) error {
		last = c
		if c.Trees() == trees {
			return errKilled
		}
		return nil
	}
	if _, err := Train(t.Context(), d, p, opt); !errors.Is(err, errKilled) {
		t.Fatalf("a training that is interrupted: got error %v; want errKilled", err)
	}
	return last
}

// TestEndWhileResuming: if ctx ends while the scores are recomputed from a checkpoint, which takes minutes on a large
// table, Train returns ctx's error and does not call Options.Checkpoint.
func TestEndWhileResuming(t *testing.T) {
	d := randomTable(tableSpec{rows: 3000, numerical: 3, bins: 30, seed: 5})
	from := checkpointed(t, &d.Data, small(), Options{}, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	res, err := Train(ctx, &d.Data, small(), Options{Resume: from, Checkpoint: func(*Checkpoint) error {
		t.Error("Checkpoint was called before the scores were recomputed, want no call")
		return nil
	}})
	if res != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("resuming with a cancelled context: got %v and error %v, want %v", res, err, context.Canceled)
	}
}

// TestDamagedCheckpointsAreRefused: ReadCheckpoint refuses a checkpoint with one flipped bit, whichever byte it is in,
// one that is cut off anywhere, and one with a byte more. Of each byte one bit is tried, from byte to byte the next.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	d := randomTable(tableSpec{rows: 800, numerical: 2, categorical: 1, bins: 10, seed: 2})
	data := encoded(t, checkpointed(t, &d.Data, small(), Options{}, 2))
	refused := func(what string, at int, bad []byte) {
		if _, err := ReadCheckpoint(bad); err == nil {
			t.Fatalf("a checkpoint with %s at byte %d was read, want an error", what, at)
		}
	}
	for i := range data {
		bad := slices.Clone(data)
		bad[i] ^= 1 << (i % 8)
		refused("a flipped bit", i, bad)
		refused("cut off", i, data[:i])
	}
	refused("a byte more", len(data), append(slices.Clone(data), 0))
}

// TestCheckpointOfAnotherRun: a checkpoint of other parameters, rows or options is refused, with the first difference.
// One of the same run is not, even if the number of threads differs.
func TestCheckpointOfAnotherRun(t *testing.T) {
	rows := tableSpec{rows: 900, numerical: 3, bins: 12, weights: true, seed: 5}
	fresh := func() (*table, Params, Options) {
		p := small()
		p.EarlyStoppingRound = 5
		v := randomTable(rows)
		return randomTable(rows), p, Options{Valid: &v.Data, Eval: noisyRating(1), Identity: "clicks@1, rated by auc"}
	}
	d, p, opt := fresh()
	c := checkpointed(t, &d.Data, p, opt, 2)
	for name, tc := range map[string]struct {
		change func(*table, *Params, *Options)
		says   string
	}{
		"parameter": {func(_ *table, p *Params, _ *Options) { p.LearningRate = 0.2 },
			"[learning_rate: 0.1], this one's [learning_rate: 0.2]"},
		"identity": {func(_ *table, _ *Params, o *Options) { o.Identity = "clicks@2, rated by auc" },
			`of "clicks@1, rated by auc", this one of "clicks@2, rated by auc"`},
		"label":      {func(d *table, _ *Params, _ *Options) { d.Label[800] = 1 - d.Label[800] }, "labels"},
		"weight":     {func(d *table, _ *Params, _ *Options) { d.Weight[800]++ }, "weights"},
		"no weights": {func(d *table, _ *Params, _ *Options) { d.Weight = nil }, "weights"},
		"groups":     {func(d *table, _ *Params, _ *Options) { d.Group = make([]uint64, d.Rows) }, "groups"},
		// Both layouts of the table have row 25 of the last of three features: 77 is 25*3 + 2.
		"a bin": {func(d *table, _ *Params, _ *Options) { d.RowMajor[77] ^= 1; d.Columns[2][25] ^= 1 }, "rows"},
		"subset": {func(d *table, _ *Params, _ *Options) {
			d.Subset = randomSubset(rand.New(rand.NewPCG(1, 1)),
				d.Rows)
		}, "of 900 rows"},
		"bound":     {func(d *table, _ *Params, _ *Options) { d.Features[1].Bounds[3] += 1e-9 }, "bins"},
		"name":      {func(d *table, _ *Params, _ *Options) { d.Features[1].Name = "other" }, "features"},
		"held-out":  {func(_ *table, _ *Params, o *Options) { o.Valid.Label[3] = 1 - o.Valid.Label[3] }, "held-out"},
		"shift":     {func(_ *table, _ *Params, o *Options) { o.Shift = 0.5 }, "parameters"},
		"copies":    {func(d *table, _ *Params, _ *Options) { d.Copies = 2 }, "copies"},
		"direction": {func(_ *table, _ *Params, o *Options) { o.Maximize = true }, "direction"},
	} {
		d, p, opt := fresh()
		tc.change(d, &p, &opt)
		opt.Resume = c
		var other *MismatchError
		if _, err := Train(t.Context(), &d.Data, p, opt); !errors.As(err, &other) ||
			!strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got error %v; want a checkpoint of another run, and %q", name, err, tc.says)
		}
	}

	// The same run again, with three threads.
	d, p, opt = fresh()
	opt.Resume, opt.Threads = c, 3
	mustTrain(t, &d.Data, p, opt)
}

// golden is a checkpoint made of literals, so that its bytes depend only on the format.
func golden() *Checkpoint {
	c := &Checkpoint{elapsed: 90 * time.Second,
		progress: progress{Bias: -1.5, Round: 3, RoundsWithoutSplit: 1, Best: 1, BestIn: 2, BestMetric: 0.25},
		run: run{Identity: "golden", Params: []string{"[num_leaves: 2]"}, Features: 2, Rows: 10, Used: 9, Bins: "00",
			Target: "01", Valid: "02", Maximize: true},
		model: &Model{Objective: "binary sigmoid:1", FeatureNames: []string{"a", "b"},
			FeatureInfos: []string{"[0:1]", "0:1:2"}}}
	c.model.Trees = []*Tree{{Shrinkage: 0.1, Feature: []int{1}, Threshold: []float64{0},
		Decision: []uint8{decisionCategorical | missingNaN}, Left: []int{-1}, Right: []int{-2},
		Gain: []float64{7}, LeafValue: []float64{-1.25, -1.75}, LeafWeight: []float64{1, 2}, LeafCount: []int{4, 5},
		InternalValue:  []float64{-1.5},
		InternalWeight: []float64{3}, InternalCount: []int{9}, CatBoundaries: []int{0, 1}, CatThreshold: []uint32{5},
		left: []binSet{{5}}}}
	return c
}

// TestCheckpointFormat: a checkpoint is written with the bytes of testdata/checkpoint/want.txt. A difference means that
// the format has changed; then it needs another number in its first line, so that old checkpoints are refused.
func TestCheckpointFormat(t *testing.T) {
	want := must.Get(os.ReadFile(filepath.Join("testdata", "checkpoint", "want.txt")))(t)
	data := encoded(t, golden())
	got := fmt.Sprintf("%s%x\n", data[:len(data)-sha256.Size], data[len(data)-sha256.Size:])
	if got != string(want) {
		t.Errorf("the golden checkpoint is written differently from testdata/checkpoint/want.txt; got\n%s", got)
	}
}

// FuzzReadCheckpoint: any data is refused or gives a checkpoint that is the same after writing and reading it. Resuming
// from it never panics, whatever its trees are. With sealed, the data gets a right first line and checksum first, so
// that the checks behind these are reached.
func FuzzReadCheckpoint(f *testing.F) {
	d := randomTable(tableSpec{rows: 300, numerical: 2, categorical: 1, bins: 6, seed: 2})
	p := small()
	p.NumIterations = 4
	from := Options{Threads: 1}
	begun := checkpointed(f, &d.Data, p, from, 2)
	r := begun.run
	f.Add(encoded(f, begun), true)
	f.Add(encoded(f, golden()), false)
	f.Add([]byte(checkpointMagic), false)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		if sealed { // a body not protected by the checksum has to be checked by itself
			data = seal(data)
		}
		c, err := ReadCheckpoint(data)
		if err != nil {
			return
		}
		again, err := ReadCheckpoint(encoded(t, c))
		if err != nil || !bytes.Equal(encoded(t, again), encoded(t, c)) {
			t.Fatalf("a checkpoint that was accepted, written and read is another one (%v), want the same", err)
		}
		// Resuming from it stays within the trees and the table, whatever they contain.
		if len(c.model.Trees) == 0 || c.model.Features() == len(d.Features) {
			opt := from
			c.run, opt.Resume = r, c
			_, _ = Train(context.Background(), &d.Data, p, opt)
		}
	})
}

// seal puts the right first line and checksum around a body.
func seal(data []byte) []byte {
	body := data[min(len(data), len(checkpointMagic)):max(min(len(data), len(checkpointMagic)), len(data)-sha256.Size)]
	out := append([]byte(checkpointMagic), body...)
	sum := sha256.Sum256(out)
	return append(out, sum[:]...)
}

// TestCutAtAnyTree: a training that is ended at any tree gives a model of the first trees of the whole training, with
// early stopping up to the best of these, which the library leaves reads and predicts with, too. It is ended in three
// ways: by ErrLimit from OnTree, by a deadline that passes before the next tree, and by one that has passed when it is
// resumed. If it is ended before the first tree, there is no model but ErrLimit.
func TestCutAtAnyTree(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 5, categorical: 2, bins: 40, missing: 0.1, seed: 9})
	v := randomTable(tableSpec{rows: 700, numerical: 5, categorical: 2, bins: 40, missing: 0.1, seed: 9})
	for name, change := range map[string]func(*Params){
		"all trees":      func(*Params) {},
		"early stopping": func(p *Params) { p.EarlyStoppingRound = 3 },
		"sampled":        func(p *Params) { p.BaggingFraction, p.BaggingFreq, p.FeatureFraction = 0.5, 1, 0.4 },
	} {
		p := small()
		p.NumIterations = 9
		change(&p)
		var best []int
		var saved [][]byte
		opt := Options{Threads: 2, Valid: &v.Data, Eval: noisyRating(4), Shift: -0.7}
		opt.OnTree = func(g Progress) error {
			best = append(best, g.Best)
			return nil
		}
		opt.Checkpoint = func(c *Checkpoint) error {
			saved = append(saved, encoded(t, c))
			return nil
		}
		whole := mustTrain(t, &d.Data, p, opt)
		check := func(how string, k int, got *Result, err error) {
			t.Helper()
			want := k
			if p.EarlyStoppingRound > 0 {
				want = best[k-1] // the trees up to the best one, as OnTree was told after tree k
			}
			if err != nil || got.Stopped != StopLimit || got.Grown != k || len(got.Model.Trees) != want {
				t.Fatalf("%s: ended %s at tree %d: %+v, %v; expected the first %d of %d trees", name, how, k, got, err,
					want, k)
			}
			for i, tree := range got.Model.Trees {
				if !slices.Equal(tree.LeafValue, whole.Model.Trees[i].LeafValue) {
					t.Errorf("%s: ended %s at tree %d: tree %d differs from that of the whole training, want the "+
						"same", name, how, k, i)
				}
			}
			raw := make([]float64, v.Rows)
			must.Do(t, got.Model.PredictAll(v.raw, raw, 1))
			checkAgainstLeaves(t, got.Model, v, raw)
		}

		// End it at each tree but the last, in each of the three ways.
		for k := 1; k < len(best); k++ {
			cut := opt
			cut.Checkpoint = nil
			cut.OnTree = func(g Progress) error {
				if g.Tree == k {
					return ErrLimit
				}
				return nil
			}
			told, err := Train(t.Context(), &d.Data, p, cut)
			check("by ErrLimit", k, told, err)

			synctest.Test(t, func(t *testing.T) {
				// The deadline passes while OnTree waits after tree k. The pool has one goroutine: several would poll,
				// and the bubble's time stand still.
				cut.Threads, cut.Deadline = 1, time.Now().Add(time.Duration(k)*time.Minute-time.Second)
				cut.OnTree = func(Progress) error {
					<-time.After(time.Minute) // a tree takes a minute of the bubble's time
					return nil
				}
				got, err := Train(t.Context(), &d.Data, p, cut)
				check("at a deadline", k, got, err)
				if !bytes.Equal(text(t, got.Model), text(t, told.Model)) {
					t.Errorf("%s: ended at tree %d by ErrLimit and at a deadline, the models differ, "+
						"want the same", name, k)
				}
			})

			// Checkpoints come before each tree, so saved[k] has the first k trees.
			cut.OnTree, cut.Deadline = nil, time.Unix(0, 0)
			if cut.Resume, err = ReadCheckpoint(saved[k]); err != nil {
				t.Fatal(err)
			}
			got, err := Train(t.Context(), &d.Data, p, cut)
			check("when it was resumed", k, got, err)
			if !bytes.Equal(text(t, got.Model), text(t, told.Model)) {
				t.Errorf("%s: resumed at tree %d after its deadline, another model, want the same", name, k)
			}
		}

		opt.Deadline = time.Unix(0, 0)
		if got, err := Train(t.Context(), &d.Data, p, opt); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: ended before its first tree: %+v, %v; expected ErrLimit", name, got, err)
		}
	}
}

// readModel reads a model of testdata/lightgbm.
func readModel(t *testing.T, name string) *Model {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", "lightgbm", name)))(t)
	return must.Get(ReadModel(bytes.NewReader(data)))(t)
}

func onBins(t testing.TB, m *Model, d *Data) *InputModel {
	t.Helper()
	return must.Get(m.OnBins(d.Features))(t)
}

// withoutParams returns a model's text up to its parameters, which mention that it was continued.
func withoutParams(t *testing.T, m *Model) string {
	t.Helper()
	trees, _, _ := strings.Cut(string(text(t, m)), "\nparameters:\n")
	return trees
}

// TestContinuedIsWhatItWouldHaveBeen: a model of five rounds that is written, read and continued by seven gets the
// trees of an uninterrupted training of twelve, as small has, with all variants of parameters.
func TestContinuedIsWhatItWouldHaveBeen(t *testing.T) {
	long(t)
	spec := tableSpec{rows: 4000, numerical: 6, categorical: 2, bins: 40, missing: 0.1, weights: true, seed: 5}
	numbers := spec
	numbers.regression = true
	for objective, d := range map[string]*table{"binary": randomTable(spec), "regression": randomTable(numbers),
		softmaxName: ofClasses(spec, 3)} {
		for name, change := range variants() {
			p := small()
			p.Objective = objective
			if Classes(objective) {
				p.NumClass = 3
			}
			change(&p)
			whole := mustTrain(t, &d.Data, p, Options{})

			half := p
			half.NumIterations = 5
			read := must.Get(ReadModel(bytes.NewReader(text(t, mustTrain(t, &d.Data, half, Options{}).Model))))(t)
			p.NumIterations -= 5
			got := mustTrain(t, &d.Data, p, Options{Threads: 2, Input: onBins(t, read, &d.Data)})
			if withoutParams(t, got.Model) != withoutParams(t, whole.Model) || got.Grown != 7 || got.Best != 12 {
				t.Errorf("%s, %s: a continued model of %d rounds and %d more, with the trees of an uninterrupted one: "+
					"%t; want 12, 7 and true", objective, name, got.Best, got.Grown,
					withoutParams(t, got.Model) == withoutParams(t, whole.Model))
			}
		}
	}
}

// TestContinuedFromCheckpoint: a training that continues a model and is resumed ends with the same model and metric,
// whichever of its trees the checkpoint was before. With another input model, or without one, the checkpoint is of
// another run.
func TestContinuedFromCheckpoint(t *testing.T) {
	old := randomTable(tableSpec{rows: 2000, numerical: 5, categorical: 2, bins: 30, missing: 0.1, seed: 1})
	d := randomTable(tableSpec{rows: 3000, numerical: 5, categorical: 2, bins: 30, missing: 0.1, seed: 1})
	v := randomTable(tableSpec{rows: 900, numerical: 5, categorical: 2, bins: 30, missing: 0.1, seed: 1})
	p := small()
	p.EarlyStoppingRound, p.BaggingFraction, p.BaggingFreq = 4, 0.5, 1
	in := onBins(t, mustTrain(t, &old.Data, small(), Options{}).Model, &d.Data)
	opt := Options{Threads: 2, Input: in, Valid: &v.Data, Eval: logLoss(v.Label), Shift: -1.5}
	want := mustTrain(t, &d.Data, p, opt)

	var states [][]byte
	opt.Checkpoint = func(c *Checkpoint) error { states = append(states, encoded(t, c)); return nil }
	mustTrain(t, &d.Data, p, opt)
	opt.Checkpoint = nil
	for i, state := range states {
		c := must.Get(ReadCheckpoint(state))(t)
		opt.Resume = c
		got := mustTrain(t, &d.Data, p, opt)
		if !bytes.Equal(text(t, got.Model), text(t, want.Model)) || got.Metric != want.Metric {
			t.Fatalf("resumed after %d trees, it ends with another model or the metric %v, want the same and %v", i,
				got.Metric, want.Metric)
		}
	}

	// Without the input model, or with another one, it is a different run.
	for _, other := range []*InputModel{nil, onBins(t, want.Model, &d.Data)} {
		opt.Input = other
		var mismatch *MismatchError
		if _, err := Train(t.Context(), &d.Data, p, opt); !errors.As(err, &mismatch) {
			t.Errorf("resumed with another input model: got error %v, want a *MismatchError", err)
		}
	}
}

// TestInputRefused: a model of a table with other columns or bins, or with another objective, cannot be continued, and
// the error says what differs.
func TestInputRefused(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 2, categorical: 1, bins: 20, seed: 2})
	m := mustTrain(t, &d.Data, small(), Options{}).Model
	for name, tc := range map[string]struct { // each changes the first feature, which randomTable calls numa
		change func([]Feature)
		want   string
	}{
		"renamed": {func(f []Feature) { f[0].Name = "other" }, "it was trained on another table"},
		"category": {func(f []Feature) { f[0] = Feature{Name: "numa", Bins: 3, Categorical: true, Missing: -1} },
			`it has another kind of feature "numa" than the table`},
		"bins": {func(f []Feature) {
			f[0].Bounds = slices.Clone(f[0].Bounds)
			for b := range f[0].Bounds {
				f[0].Bounds[b] += 0.25
			}
		}, `it splits "numa" within a bin of the table`},
	} {
		features := slices.Clone(d.Features)
		tc.change(features)
		if _, err := m.OnBins(features); !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, expected %q", name, err, tc.want)
		}
	}

	// A column that has missing values only, and so no bin of values.
	split := &Model{Objective: "regression", FeatureNames: []string{"a"}, Trees: []*Tree{{Feature: []int{0},
		Threshold: []float64{math.MaxFloat64}, Decision: []uint8{missingNaN}, Left: []int{^0}, Right: []int{^1},
		Gain: []float64{1}, LeafValue: []float64{1, 2}}}}
	if _, err := split.OnBins([]Feature{{Name: "a", Bins: 1, Missing: 0}}); !problem.Is(err, problem.Input) {
		t.Errorf("a split of a column without values: got %v, want an error of kind Input", err)
	}

	in := onBins(t, m, &d.Data)
	p := small()
	p.Objective = "regression"
	if _, err := Train(t.Context(), &d.Data, p, Options{Input: in}); !problem.Is(err, problem.Input) ||
		!strings.Contains(err.Error(), "its objective") {
		t.Errorf("continued with another objective: got error %v, want one of kind Input about its objective", err)
	}
}
