package gbt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

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

// TestContinuedIsWhatItWouldHaveBeen stops trainings, writes and reads their models, and continues them: the trees are
// those of an uninterrupted training, however it draws rows and features.
func TestContinuedIsWhatItWouldHaveBeen(t *testing.T) {
	long(t)
	for _, regression := range []bool{false, true} {
		d := randomTable(tableSpec{rows: 4000, numerical: 6, categorical: 2, bins: 40, missing: 0.1, weights: true,
			regression: regression, seed: 5})
		for name, change := range variants() {
			p := small()
			if regression {
				p.Objective = "regression"
			}
			change(&p)
			whole := mustTrain(t, &d.Data, p, Options{}).Model

			half := p
			half.NumIterations = 5
			read := must.Get(ReadModel(bytes.NewReader(text(t, mustTrain(t, &d.Data, half, Options{}).Model))))(t)
			p.NumIterations -= 5
			got := mustTrain(t, &d.Data, p, Options{Threads: 2, Input: onBins(t, read, &d.Data)}).Model
			if withoutParams(t, got) != withoutParams(t, whole) {
				t.Errorf("%s, regression %t: a continued model has other trees than one that never stopped", name,
					regression)
			}
		}
	}
}

// TestContinuedFromCheckpoint interrupts a continued training at every tree.
func TestContinuedFromCheckpoint(t *testing.T) {
	old := randomTable(tableSpec{rows: 2000, numerical: 5, categorical: 2, bins: 30, missing: 0.1, seed: 1})
	d := randomTable(tableSpec{rows: 3000, numerical: 5, categorical: 2, bins: 30, missing: 0.1, seed: 1})
	v := randomTable(tableSpec{rows: 900, numerical: 5, categorical: 2, bins: 30, missing: 0.1, seed: 1})
	d.Subset = nil
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
			t.Fatalf("resumed after %d trees, it ends with another model or score", i)
		}
	}

	// Without the input model, or with another one, it is a different run.
	for _, other := range []*InputModel{nil, onBins(t, want.Model, &d.Data)} {
		opt.Input = other
		var mismatch *MismatchError
		if _, err := Train(t.Context(), &d.Data, p, opt); !errors.As(err, &mismatch) {
			t.Errorf("resumed from another input model: %v", err)
		}
	}
}

func TestInputRefused(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 2, categorical: 1, bins: 20, seed: 2})
	m := mustTrain(t, &d.Data, small(), Options{}).Model
	for name, tc := range map[string]struct {
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

	in := onBins(t, m, &d.Data)
	p := small()
	p.Objective = "regression"
	if _, err := Train(t.Context(), &d.Data, p, Options{Input: in}); !problem.Is(err, problem.Input) ||
		!strings.Contains(err.Error(), "its objective") {
		t.Errorf("continued with another objective: %v", err)
	}
}
