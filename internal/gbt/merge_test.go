package gbt

import (
	"bufio"
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dmitryikh/leaves"

	"coppice/internal/must"
)

// TestMerge merges models of a table with numbers, categories and missing values. The merged text predicts the mean of
// their scores, by leaves, by Predict and on bins, and reads and merges to the same bytes.
func TestMerge(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 4, categorical: 2, bins: 20, missing: 0.1, seed: 3})
	var models []*Model
	var scores [][]float64
	for i, more := range []map[string]any{{"num_leaves": 31.0}, {"num_leaves": 4.0, "learning_rate": 0.3},
		{"feature_fraction": 0.5, "max_cat_to_onehot": 1.0}} {
		more["num_iterations"] = 5.0 + float64(i)
		p := must.Get(ParseParams(more))(t)
		m := mustTrain(t, &d.Data, p, Options{}).Model
		raw := must.Get(m.PredictBinned(&d.Data, 1))(t)
		models, scores = append(models, m), append(scores, raw)
	}
	text := func(models []*Model) string {
		m := must.Get(Merge(models))(t)
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	merged := text(models)

	// Models read from their files merge to the same text.
	var again []*Model
	for _, m := range models {
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		m := must.Get(ReadModel(&b))(t)
		again = append(again, m)
	}
	if text(again) != merged {
		t.Error("models read from files merge to another text than the same models before they were written")
	}

	m, err := ReadModel(bytes.NewBufferString(merged))
	if err != nil {
		t.Fatalf("reading the merged text: %v", err)
	}
	if len(m.Trees) != 5+6+7 {
		t.Errorf("the merged model has %d trees, expected the 18 of its members", len(m.Trees))
	}
	other, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewBufferString(merged)), false)
	if err != nil {
		t.Fatalf("leaves reading the merged text: %v", err)
	}
	binned := must.Get(Merge(models))(t)
	raw := must.Get(binned.PredictBinned(&d.Data, 1))(t)
	for r := range d.Rows {
		want := 0.0
		for _, raw := range scores {
			want += raw[r] / 3
		}
		for name, got := range map[string]float64{"leaves": other.PredictSingle(d.row(r), 0),
			"Predict":       m.Predict(d.row(r)),
			"PredictBinned": raw[r]} {
			if !(math.Abs(got-want) < 1e-12) {
				t.Fatalf("row %d: %s gives %v, the mean of the members' scores is %v", r, name, got, want)
			}
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 3, bins: 10, seed: 4})
	m := mustTrain(t, &d.Data, Defaults(), Options{}).Model
	other := func(edit func(*Model)) []*Model {
		o := m.truncated(len(m.Trees))
		edit(o)
		return []*Model{m, o}
	}
	for name, models := range map[string][]*Model{
		"nothing":           nil,
		"another objective": other(func(m *Model) { m.Objective = "regression" }),
		"other features":    other(func(m *Model) { m.FeatureNames = []string{"a", "b", "c"} }),
		"other ranges":      other(func(m *Model) { m.FeatureInfos = []string{"none", "none", "none"} }),
	} {
		if got, err := Merge(models); err == nil {
			t.Errorf("%s: merged to a model of %d trees, expected an error", name, len(got.Trees))
		}
	}
}

// TestShiftMovesEveryScore compares a model with a shift to the same one without: all scores differ by the shift, the
// scores passed to Eval equal the model's to the bit, and the trees are otherwise the same.
func TestShiftMovesEveryScore(t *testing.T) {
	const shift = -2.75
	d := randomTable(tableSpec{rows: 4000, numerical: 4, categorical: 2, bins: 30, missing: 0.1, seed: 3})
	v := randomTable(tableSpec{rows: 1000, numerical: 4, categorical: 2, bins: 30, missing: 0.1, seed: 3})
	p := small()
	p.BaggingFraction, p.BaggingFreq = 0.7, 1
	var last []float64
	opt := Options{Shift: shift, Valid: &v.Data, Eval: func(raw []float64) (float64, error) {
		last = slices.Clone(raw)
		return 0, nil
	}}
	plain, shifted := mustTrain(t, &d.Data, p, Options{}).Model, mustTrain(t, &d.Data, p, opt).Model
	binned, err := shifted.PredictBinned(&v.Data, 2)
	if err != nil || !slices.Equal(binned, last) {
		t.Errorf("Eval got other scores than the model's (%v)", err)
	}
	raw := make([]float64, v.Rows)
	for r := range raw {
		raw[r] = shifted.Predict(v.row(r))
		if raw[r] != last[r] || math.Abs(raw[r]-plain.Predict(v.row(r))-shift) > 1e-12 {
			t.Fatalf("row %d: %v, rated as %v, without a shift %v", r, raw[r], last[r], plain.Predict(v.row(r)))
		}
	}
	checkAgainstLeaves(t, shifted, v, raw)
	for i, tree := range shifted.Trees {
		if i > 0 && !bytes.Equal(tree.text(i), plain.Trees[i].text(i)) {
			t.Fatalf("tree %d is another one", i)
		}
	}
	if got, want := shifted.Trees[0].InternalValue[0], plain.Trees[0].InternalValue[0]+shift; got != want {
		t.Errorf("the first root has the value %v, expected %v", got, want)
	}
}

// TestShiftRightsDownSampling trains on a tenth of the negative rows and predicts the rate of all.
func TestShiftRightsDownSampling(t *testing.T) {
	all := randomTable(tableSpec{rows: 40_000, numerical: 5, categorical: 1, bins: 30, seed: 5})
	rng := rand.New(rand.NewPCG(5, 5))
	few := all.Data
	for r, y := range all.Label {
		if y == 1 || rng.Float64() < 0.1 {
			few.Subset = append(few.Subset, uint32(r))
		}
	}
	p := small()
	loss := logLoss(all.Label)
	wrong := mustTrain(t, &few, p, Options{Valid: &all.Data, Eval: loss})
	right := mustTrain(t, &few, p, Options{Valid: &all.Data, Eval: loss, Shift: math.Log(0.1)})
	predicted, positive := 0.0, 0.0
	for r := range all.Rows {
		predicted += Probability(right.Model.Predict(all.row(r)))
		positive += float64(all.Label[r])
	}
	if math.Abs(predicted/positive-1) > 0.05 {
		t.Errorf("%.0f positive rows are predicted, there are %.0f", predicted, positive)
	}
	if !(right.Metric < wrong.Metric-0.1) {
		t.Errorf("log loss of all rows: %v with the shift, %v without", right.Metric, wrong.Metric)
	}
}

func TestShiftOfAConstantModel(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 2, bins: 10, seed: 4})
	p := small()
	p.MinGainToSplit = 1e9
	plain, shifted := mustTrain(t, &d.Data, p, Options{}).Model, mustTrain(t, &d.Data, p, Options{Shift: 3}).Model
	if got, want := shifted.Predict(d.row(0)), plain.Predict(d.row(0))+3; got != want {
		t.Errorf("predicts %v, expected %v", got, want)
	}
	for _, bad := range []float64{math.NaN(), inf, -inf} {
		var pe *ParamError
		if _, err := Train(t.Context(), &d.Data, p, Options{Shift: bad}); !errors.As(err, &pe) || pe.Name != "shift" {
			t.Errorf("shift %v: got error %v; want one about shift", bad, err)
		}
	}
}
