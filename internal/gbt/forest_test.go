package gbt

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"testing"
)

// asForest makes a trial one of boosting: rf.
func (t *trial) asForest() *trial {
	t.p.Boosting = "rf"
	t.p.BaggingFraction, t.p.BaggingFreq, t.p.PosBaggingFraction, t.p.NegBaggingFraction = 0.7, 1, 1, 1
	return t
}

// TestForests: of every objective, a forest is the reference's for any number of threads, the mean of its trees, and
// the same when it is killed and resumed.
func TestForests(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 4, func(t *testing.T, trial *trial, rng *rand.Rand) {
		if findObjective(trial.p.Objective).ranks {
			if err := trial.asForest().p.check(); err == nil {
				t.Error("a forest of orders was accepted")
			}
			return
		}
		trial.asForest().p.NumIterations = 6
		opt := Options{Threads: 2, Shift: 0.25, Valid: &trial.Data, Eval: noisyRating(3)}
		if Classes(trial.p.Objective) {
			opt.Shift = 0 // which is refused
		}
		plain := opt
		plain.Shift, plain.Valid, plain.Eval = 0, nil, nil

		got := mustTrain(t, &trial.Data, trial.p, plain).Model
		want := text(t, newReference(&trial.Data, trial.p).train())
		if !bytes.Equal(text(t, got), want) {
			t.Fatalf("%v\nthe forest is not the reference's: %s", trial, firstDifference(text(t, got), want))
		}

		whole, err := Train(context.Background(), &trial.Data, trial.p, opt)
		if err != nil {
			t.Fatalf("%v: %v", trial, err)
		}
		var kept []byte
		var resumed *Result
		for resumed == nil {
			kept, resumed = killed(t, rng, &trial.Data, trial.p, opt, kept)
		}
		if !bytes.Equal(text(t, resumed.Model), text(t, whole.Model)) ||
			math.Float64bits(resumed.Metric) != math.Float64bits(whole.Metric) {
			t.Fatalf("%v: killed and resumed, another forest", trial)
		}
	})
}

// TestForestIsRatedAsItPredicts: what Eval gets after each tree is the mean of the trees so far, Shift included, and
// early stopping keeps the mean of the best trees.
func TestForestIsRatedAsItPredicts(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 4, bins: 20, seed: 3})
	trial := &trial{table: d, p: small()}
	trial.asForest()
	trial.p.EarlyStoppingRound = 3
	var last []float64
	calls := 0
	res := mustTrain(t, &d.Data, trial.p, Options{Threads: 1, Shift: -1.5, Valid: &d.Data,
		Eval: func(raw []float64) (float64, error) {
			if calls++; calls == 4 {
				last = append(last, raw...)
			}
			return math.Abs(float64(calls - 4)), nil // the fourth is the best
		}})
	if res.Best != 4 || len(res.Model.Trees) != 4 {
		t.Fatalf("got %d of %d trees, want the first 4", res.Best, res.Grown)
	}
	for r, want := range last {
		if got := res.Model.Predict(d.row(r)); math.Abs(got-want) > 1e-12 {
			t.Fatalf("row %d is predicted %v and was rated as %v", r, got, want)
		}
	}
}

func TestForestsRefuse(t *testing.T) {
	d := randomTable(tableSpec{rows: 300, numerical: 2, bins: 9, seed: 4})
	p := small()
	m := mustTrain(t, &d.Data, p, Options{Threads: 1}).Model
	p.Boosting = "rf"
	for name, run := range map[string]func() error{
		"boosting: rf needs trees that differ: bagging_freq of 1 with bagging_fraction below 1, or feature_fraction " +
			"below 1": func() error { _, err := Train(t.Context(), &d.Data, p, Options{Threads: 1}); return err },
		"boosting: a model is continued by gbdt; rf averages trees that do not see it": func() error {
			p := p
			p.FeatureFraction = 0.5
			_, err := Train(t.Context(), &d.Data, p, Options{Threads: 1, Input: onBins(t, m, &d.Data)})
			return err
		},
	} {
		if err := run(); err == nil || err.Error() != name {
			t.Errorf("got error %v, want %s", err, name)
		}
	}
}
