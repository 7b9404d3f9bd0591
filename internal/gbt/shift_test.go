package gbt

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

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
