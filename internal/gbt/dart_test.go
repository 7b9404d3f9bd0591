package gbt

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// asDART makes a trial one of boosting: dart that drops trees in most iterations.
func (t *trial) asDART(rng *rand.Rand) *trial {
	t.p.Boosting, t.p.NumIterations = "dart", 9
	t.p.DropRate, t.p.SkipDrop, t.p.MaxDrop = 0.3+float64(0.7*rng.Float64()), []float64{0, 0.3}[rng.IntN(2)],
		[]int{-1, 0, 2, 50}[rng.IntN(4)]
	t.p.UniformDrop, t.p.XGBoostDARTMode = rng.IntN(2) == 0, rng.IntN(2) == 0
	return t
}

// sameScores fails if scores are not those of a model's trees, added up in any order.
func sameScores(t *testing.T, what string, m *Model, d *Data, rated []float64) {
	t.Helper()
	want, err := m.PredictBinned(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range rated {
		if math.Float64bits(got) != math.Float64bits(want[i]) {
			t.Fatalf("%s: score %d was rated as %v, the model has %v", what, i, got, want[i])
		}
	}
}

// TestDARTAgainstTheReference: of every objective, a model is the reference's for any number of threads, its held-out
// scores are those of the finished model to the last bit, and it is the same when it is killed and resumed.
func TestDARTAgainstTheReference(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 5, func(t *testing.T, trial *trial, rng *rand.Rand) {
		trial.asDART(rng)
		want := text(t, newReference(&trial.Data, trial.p).train())
		for _, threads := range []int{1, 3} {
			got := mustTrain(t, &trial.Data, trial.p, Options{Threads: threads}).Model
			if !bytes.Equal(text(t, got), want) {
				t.Fatalf("%v\nwith %d threads the model is not the reference's: %s", trial, threads,
					firstDifference(text(t, got), want))
			}
		}

		var rated []float64
		rating := noisyRating(3)
		opt := Options{Threads: 2, Shift: 0.1, Valid: &trial.Data, Eval: func(raw []float64) (float64, error) {
			rated = append(rated[:0], raw...)
			return rating(raw)
		}}
		if Classes(trial.p.Objective) {
			opt.Shift = 0 // which is refused
		}
		whole := mustTrain(t, &trial.Data, trial.p, opt)
		if len(rated) > 0 {
			sameScores(t, trial.String(), whole.Model, &trial.Data, rated)
			if last, _ := rating(rated); whole.Metric != last {
				t.Fatalf("%v: the metric is %v, want the last model's, %v", trial, whole.Metric, last)
			}
		}
		var kept []byte
		var resumed *Result
		for resumed == nil {
			kept, resumed = killed(t, rng, &trial.Data, trial.p, opt, kept)
		}
		if !bytes.Equal(text(t, resumed.Model), text(t, whole.Model)) ||
			math.Float64bits(resumed.Metric) != math.Float64bits(whole.Metric) {
			t.Fatalf("%v: killed and resumed, another model", trial)
		}
	})
}

// TestDARTKeepsItsBestIteration: with early stopping, the model is that of the best iteration, before later ones
// dropped its trees.
func TestDARTKeepsItsBestIteration(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 4, bins: 20, seed: 3})
	trial := &trial{table: d, p: small()}
	trial.p.Boosting, trial.p.SkipDrop, trial.p.DropRate, trial.p.EarlyStoppingRound = "dart", 0, 1, 3
	var best []float64
	calls := 0
	res := mustTrain(t, &d.Data, trial.p, Options{Threads: 1, Shift: -1.5, Valid: &d.Data,
		Eval: func(raw []float64) (float64, error) {
			if calls++; calls == 4 {
				best = append(best, raw...)
			}
			return math.Abs(float64(calls - 4)), nil // the fourth is the best
		}})
	if res.Best != 4 || len(res.Model.Trees) != 4 || res.Grown != 7 {
		t.Fatalf("got %d of %d trees, want the first 4 of 7", res.Best, res.Grown)
	}
	sameScores(t, "the best iteration", res.Model, &d.Data, best)
}

// TestDARTDropsByWeight: trees that have been dropped often are dropped less, unless uniform_drop is on, and in the
// mean as many as drop_rate says.
func TestDARTDropsByWeight(t *testing.T) {
	p := Defaults()
	p.Boosting, p.SkipDrop, p.DropRate, p.MaxDrop, p.LearningRate = "dart", 0.25, 0.2, 0, 0.1
	for _, p.UniformDrop = range []bool{true, false} {
		small, large, all := 0, 0, 0
		const n, draws = 40, 3000
		for seed := range uint64(draws) {
			p.Seed = seed
			d := &dart{p: &p, unit: 1}
			for i := range n {
				d.factor = append(d.factor, []float64{0.25, 0.75}[i%2])
			}
			d.drop()
			for _, i := range d.dropped {
				if all++; i%2 == 0 {
					small++
				} else {
					large++
				}
			}
		}
		want := 3.0 // as their weights
		if p.UniformDrop {
			want = 1
		}
		mean, ratio := float64(all)/(n*draws), float64(large)/float64(small)
		if math.Abs(mean-0.15) > 0.005 || math.Abs(ratio-want) > 0.15*want {
			t.Errorf("uniform_drop %t: %v of all trees are dropped, want .75 times .2; of large ones %v times as many "+
				"as of small ones, want %v", p.UniformDrop, mean, ratio, want)
		}
	}
}

func TestDARTRefuses(t *testing.T) {
	for want, m := range map[string]map[string]any{
		"drop_rate: has no effect without boosting: dart":         {"drop_rate": 0.3},
		"uniform_drop: has no effect without boosting: dart":      {"uniform_drop": true, "boosting": "gbdt"},
		"xgboost_dart_mode: has no effect without boosting: dart": {"xgboost_dart_mode": true},
		"skip_drop: 1.5 is outside [0, 1]":                        {"skip_drop": 1.5, "boosting": "dart"},
	} {
		if _, err := ParseParams(m); err == nil || err.Error() != want {
			t.Errorf("%v: got error %v, want %s", m, err, want)
		}
	}

	d := randomTable(tableSpec{rows: 300, numerical: 2, bins: 9, seed: 4})
	p := small()
	m := mustTrain(t, &d.Data, p, Options{Threads: 1}).Model
	p.Boosting = "dart"
	if _, err := Train(t.Context(), &d.Data, p, Options{Threads: 1, Input: onBins(t, m, &d.Data)}); err == nil ||
		err.Error() != "boosting: a model is continued by gbdt; dart would leave its trees as they are" {
		t.Errorf("a model is continued: got error %v, want a refusal", err)
	}
	p.Objective, p.LearningRate, p.NumIterations = "regression", 90, 40
	if _, err := Train(t.Context(), &d.Data, p, Options{Threads: 1}); !errors.Is(err, errDiverged) {
		t.Errorf("scores grow without end: got error %v, want one that says that the training diverges", err)
	}
}
