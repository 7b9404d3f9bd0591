package gbt

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/problem"
)

// grownByLightGBM holds the rows of testdata/lightgbm that make_grown.py continues on, and its results.
func grownByLightGBM(t *testing.T) (all, rest *table, want map[string][]float64) {
	t.Helper()
	all = wholeNumbers(t, readCSV(t, "rows.csv", ','))
	for i := range all.Features {
		all.Features[i].Name = "Column_" + all.Features[i].Name[1:] // as LightGBM names them
		all.Features[i].Max = float64(all.Features[i].Bins - 1)
	}
	rest = &table{Data: all.Data}
	for r := 700; r < all.Rows; r++ {
		rest.Subset = append(rest.Subset, uint32(r))
	}

	text := readCSV(t, "grown.csv", ';')
	want = map[string][]float64{}
	for column, name := range text[0] {
		for _, row := range text[1:] {
			want[name] = append(want[name], number(t, row[column]))
		}
	}
	return all, rest, want
}

func readModel(t *testing.T, name string) *Model {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "lightgbm", name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadModel(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func onBins(t testing.TB, m *Model, d *Data) *InputModel {
	t.Helper()
	in, err := m.OnBins(d.Features, nil, func(int) []int { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestOnBinsWithoutCodes: a table whose categories have the model's numbers needs no codes.
func TestOnBinsWithoutCodes(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, categorical: 3, bins: 10, seed: 4})
	res := mustTrain(t, &d.Data, small(), Options{Threads: 1})
	in, err := res.Model.OnBins(d.Features, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := in.PredictBinned(&d.Data, 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := res.Model.PredictBinned(&d.Data, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Error("a model of three categories, translated to its own table without codes, predicts other scores than " +
			"before")
	}
}

// farthest is the largest difference between two lists of scores.
func farthest(a, b []float64) (distance float64, row int) {
	for r := range a {
		if d := math.Abs(a[r] - b[r]); !(d <= distance) {
			distance, row = d, r
		}
	}
	return distance, row
}

// TestLightGBMContinues continues a LightGBM model like its init_model.
func TestLightGBMContinues(t *testing.T) {
	all, rest, want := grownByLightGBM(t)
	in := onBins(t, readModel(t, "old.txt"), &all.Data)
	got, err := in.PredictBinned(&all.Data, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d, r := farthest(got, want["old"]); d > 1e-12 {
		t.Fatalf("row %d: the model on bins predicts %v, LightGBM's predicts %v", r, got[r], want["old"][r])
	}
	if in.Cuts == 0 || in.Moved != in.Cuts {
		t.Errorf("%d of %d thresholds were moved; LightGBM's lie between values, so all are", in.Moved, in.Cuts)
	}

	p := Defaults()
	p.Objective, p.NumIterations, p.NumLeaves, p.LearningRate = "regression", 8, 12, 0.3
	p.MinDataInLeaf, p.MinSumHessian, p.MaxCatToOnehot, p.MinDataPerGroup = 10, 0, 1, 20
	res := mustTrain(t, &rest.Data, p, Options{Input: in})
	if len(res.Model.Trees) != 14 || res.Grown != 8 || res.Best != 14 {
		t.Errorf("%d trees, %d grown, best %d; expected 14, 8 and 14", len(res.Model.Trees), res.Grown, res.Best)
	}
	if got, err = res.Model.PredictBinned(&all.Data, 1); err != nil {
		t.Fatal(err)
	}
	if d, r := farthest(got, want["continued"]); d > 1e-5 {
		t.Errorf("row %d is predicted %v, LightGBM says %v", r, got[r], want["continued"][r])
	}
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
			read, err := ReadModel(bytes.NewReader(text(t, mustTrain(t, &d.Data, half, Options{}).Model)))
			if err != nil {
				t.Fatal(err)
			}
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
		c, err := ReadCheckpoint(state)
		if err != nil {
			t.Fatal(err)
		}
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

// TestOnBins has a table with other bins, more features and in another order: the translated model predicts for the
// table's bins what the original predicts for raw values.
func TestOnBins(t *testing.T) {
	old := randomTable(tableSpec{rows: 3000, numerical: 6, categorical: 1, bins: 50, missing: 0.1, seed: 2})
	m := mustTrain(t, &old.Data, small(), Options{}).Model
	coarse := randomTable(tableSpec{rows: 2000, numerical: 8, categorical: 0, bins: 21, missing: 0.1, seed: 3})
	cat := slices.Clone(old.Features[6:])
	for i := range coarse.Features {
		f := &coarse.Features[i]
		for b := range f.Bounds {
			f.Bounds[b] = f.Bounds[b] * 50 / 21
		}
		f.Max *= 50. / 21
	}
	coarse.Features = append(cat, coarse.Features...)
	column := make([]byte, coarse.Rows)
	for r := range column {
		column[r] = byte(r % cat[0].Bins)
	}
	coarse.Columns = append([][]byte{column}, coarse.Columns...)
	coarse.RowMajor = rowMajor(coarse.Columns)
	in := onBins(t, m, &coarse.Data)
	if in.Moved == 0 || in.Moved > in.Cuts {
		t.Errorf("%d of %d thresholds were moved", in.Moved, in.Cuts)
	}
	got, err := in.PredictBinned(&coarse.Data, 2)
	if err != nil {
		t.Fatal(err)
	}
	for r := range coarse.Rows {
		row := []float64{float64(column[r])}
		for i := range 8 {
			f := &coarse.Features[i+1]
			switch bin := int(coarse.Columns[i+1][r]); {
			case bin == f.Missing:
				row = append(row, math.NaN())
			case bin < len(f.Bounds):
				row = append(row, f.Bounds[bin])
			default:
				row = append(row, f.Max)
			}
		}
		if want := in.Predict(row); want != got[r] {
			t.Fatalf("row %d: %v from bins, %v from values", r, got[r], want)
		}
	}

	// With the same bins no threshold moves, and the model's text is unchanged.
	same := onBins(t, m, &old.Data)
	if same.Moved != 0 || !bytes.Equal(text(t, same.Model), text(t, m)) {
		t.Errorf("on its own bins %d of %d thresholds were moved", same.Moved, same.Cuts)
	}

	// Category codes may differ: what was category c is now c+1.
	shifted := make([]int, cat[0].Bins)
	for b := range shifted {
		shifted[b] = (b + len(shifted) - 1) % len(shifted)
	}
	turned, err := m.OnBins(old.Features, nil, func(int) []int { return shifted })
	if err != nil {
		t.Fatal(err)
	}
	for r := range 200 {
		row := slices.Clone(old.row(r))
		want := m.Predict(row)
		row[6] = float64((int(row[6]) + 1) % len(shifted))
		if got := turned.Predict(row); got != want {
			t.Fatalf("row %d: %v with other codes, %v with its own", r, got, want)
		}
	}
}

func TestInputRefused(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 2, categorical: 1, bins: 20, seed: 2})
	m := mustTrain(t, &d.Data, small(), Options{}).Model
	for name, tc := range map[string]struct {
		change func(*Model, []Feature)
		want   string
	}{
		"renamed": {func(_ *Model, f []Feature) { f[0].Name = "other" },
			`it splits by "numa", which the dataset does not have`},
		"category": {func(_ *Model, f []Feature) {
			f[0] = Feature{Name: "numa", Bins: 3, Categorical: true,
				Missing: -1}
		}, `"numa" is a number to it and a category in the dataset`},
		"zero": {func(m *Model, _ []Feature) {
			first := *m.Trees[0]
			first.Decision = slices.Clone(first.Decision)
			for i := range first.Decision {
				if first.Decision[i]&decisionCategorical == 0 {
					first.Decision[i] = missingZero
				}
			}
			m.Trees = append([]*Tree{&first}, m.Trees[1:]...)
		}, "zero_as_missing"},
	} {
		features, changed := slices.Clone(d.Features), m.truncated(len(m.Trees))
		tc.change(changed, features)
		if _, err := changed.OnBins(features, nil, func(int) []int { return nil }); !problem.Is(err, problem.Input) ||
			!strings.Contains(err.Error(), tc.want) {
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
