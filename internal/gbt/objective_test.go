package gbt

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"coppice/internal/exact"
	"coppice/internal/must"
)

// withObjective gives a random trial another objective, labels that it takes, and parameters that it uses.
func (t *trial) withObjective(name string, rng *rand.Rand) *trial {
	t.p.Objective, t.p.ScalePosWeight, t.p.IsUnbalance = name, 1, false
	for r, y := range t.Label {
		switch name {
		case "binary":
			y = float32(int(math.Abs(float64(y))*8) & 1)
		case "cross_entropy":
			y = float32(sigmoid(float64(y)))
		case "poisson":
			y = float32(math.Floor(math.Abs(float64(y)) * 2))
		case "gamma":
			y = float32(math.Abs(float64(y))) + 0.1
		case "tweedie":
			y = max(0, y)
		case "lambdarank", xendcg:
			y = float32(min(max(int(2*y), 0), 4))
			t.Group = append(t.Group, uint64(r/(7+len(t.Features))))
		case softmaxName: // with a class that few rows or none are of
			y = float32(int(math.Abs(float64(y))*4) % 3)
		}
		t.Label[r] = y
	}
	for r := range 4 {
		t.Label[r] = float32(r % 2)
		if name == "gamma" {
			t.Label[r]++
		}
	}
	switch name {
	case softmaxName:
		t.p.NumClass = 3 + rng.IntN(2)
	case "huber":
		t.p.Alpha = 0.1 + rng.ExpFloat64()
	case "quantile":
		t.p.Alpha = 0.02 + float64(0.96*rng.Float64())
	case "poisson":
		t.p.PoissonMaxDeltaStep = 0.1 + rng.Float64()
	case "tweedie":
		t.p.TweedieVariancePower = 1.1 + float64(0.8*rng.Float64())
	case "lambdarank":
		t.p.LambdarankNorm, t.p.TruncationLevel = rng.IntN(2) == 0, 1+rng.IntN(20)
		t.p.Sigmoid, t.p.LabelGain = 0.5+rng.Float64(), "0,1,3,4,8"
	case "regression":
		t.p.RegSqrt = rng.IntN(2) == 0
	}
	return t
}

// ofEachObjective runs a test on random trials of every objective.
func ofEachObjective(t *testing.T, trials int, run func(t *testing.T, trial *trial, rng *rand.Rand)) {
	for i, name := range Objectives() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range uint64(some(trials)) {
				seed := 1000*uint64(i) + n
				rng := rand.New(rand.NewPCG(seed, 5))
				s := tableOfFew
				if n == 1 {
					s = tableOfSome
				}
				run(t, randomTrial(seed, s).withObjective(name, rng), rng)
			}
		})
	}
}

// TestObjectivesAgainstTheReference compares models with those of the slow trainer, byte for byte, with one thread and
// with three.
func TestObjectivesAgainstTheReference(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 10, func(t *testing.T, trial *trial, _ *rand.Rand) {
		want := text(t, newReference(&trial.Data, trial.p).train())
		for _, threads := range []int{1, 3} {
			if got := text(t, mustTrain(t, &trial.Data, trial.p, Options{Threads: threads}).Model); !bytes.Equal(got,
				want) {
				t.Fatalf("%v\nwith %d threads the model is not the reference's: %s", trial, threads,
					firstDifference(got, want))
			}
		}
	})
}

// TestObjectivesKeepTheirInvariants checks every tree of trainings with every objective of one output: it looks at the
// state after each tree, and with several classes other trees have changed it. Those are compared with the reference.
func TestObjectivesKeepTheirInvariants(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 6, func(t *testing.T, trial *trial, _ *rand.Rand) {
		if Classes(trial.p.Objective) {
			return
		}
		trainChecked(t, trial, Options{Threads: 2})
	})
}

// TestEveryObjectiveSameBytes trains every objective: one thread alone, three, killed and resumed,
// and workers among whom the rows are divided in any way make the same model.
func TestEveryObjectiveSameBytes(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 1, func(t *testing.T, first *trial, rng *rand.Rand) {
		for n := range uint64(2) {
			if raceEnabled && n == 0 {
				continue // the second has weights and scattered queries, too
			}
			drawn := randomTrial(first.p.Seed+n, tableOfFew).withObjective(first.p.Objective, rng)
			drawn.p.NumIterations = 4
			if n == 1 {
				drawn.Weight = nil
				for range drawn.Rows {
					w := []float64{1, 0.1, 1e-4, 0}[rng.IntN(4)] * rng.Float64()
					drawn.Weight = append(drawn.Weight, float32(w))
				}
				for r := range 4 {
					drawn.Weight[r] = 1 // rows of both classes
				}
			}
			if n == 1 && Ranks(first.p.Objective) {
				drawn.scattered(rng)
			}
			everyWay(t, drawn, rng)
		}
	})
}

func everyWay(t *testing.T, trial *trial, rng *rand.Rand) {
	t.Helper()
	opt := Options{Threads: 1, Valid: &trial.Data, Eval: noisyRating(3)}
	whole := mustTrain(t, &trial.Data, trial.p, opt)
	want := text(t, whole.Model)
	same := func(how string, got *Result) {
		t.Helper()
		if !bytes.Equal(text(t, got.Model), want) {
			t.Fatalf("%v\n%s train another model: %s", trial, how, firstDifference(text(t, got.Model), want))
		}
	}
	opt.Threads = 3
	same("three threads", mustTrain(t, &trial.Data, trial.p, opt))
	var kept []byte
	var got *Result
	for got == nil {
		kept, got = killed(t, rng, &trial.Data, trial.p, opt, kept)
	}
	same("those that are killed and resumed", got)

	workers := []int{2, 7}
	switch {
	case raceEnabled:
		workers = []int{3}
	case os.Getenv("COPPICE_FULL") != "":
		workers = []int{1, 2, 3, 4, 7}
	}
	for _, workers := range workers {
		how := []string{"equal", "random", "absurd"}[rng.IntN(3)]
		begin := shares(rng, how, trial.Rows, workers)
		opt.Threads = 1 + rng.IntN(2)
		results, errs := trainTogether(t, &trial.Data, trial.p, opt, begin, -1, nil)
		for w, got := range results {
			if errs[w] != nil {
				t.Fatalf("%v\nrows from %v: worker %d: %v", trial, begin, w, errs[w])
			}
			same(fmt.Sprintf("workers with rows from %v", begin), got)
		}
	}
}

// TestModelsOfObjectivesAreReadBack trains, writes, reads and predicts: the same scores, and predictions on the scale
// of the labels.
func TestModelsOfObjectivesAreReadBack(t *testing.T) {
	t.Parallel()
	ofEachObjective(t, 2, func(t *testing.T, trial *trial, _ *rand.Rand) {
		m := mustTrain(t, &trial.Data, trial.p, Options{Threads: 1}).Model
		back := must.Get(ReadModel(bytes.NewReader(text(t, m))))(t)
		scores := make([]float64, trial.Rows*back.Outputs())
		must.Do(t, back.PredictAll(trial.raw, scores, 1))
		trained := append([]float64(nil), scores...)
		back.Transform(scores)
		trial.p.Transform(trained)
		positive := back.Binary() || strings.Contains("cross_entropy poisson gamma tweedie", back.Objective)
		for r, v := range scores {
			if v != trained[r] || math.IsNaN(v) || positive && !(v > 0) {
				t.Fatalf("%v\nrow %d is predicted %v by the model and %v by the parameters", trial, r, v, trained[r])
			}
		}
	})
}

// TestSlopes compares derivatives with differences of the losses that LightGBM's documentation states. h is the second
// derivative where the loss has one; elsewhere it is stated.
func TestSlopes(t *testing.T) {
	p := Defaults()
	p.Alpha, p.PoissonMaxDeltaStep, p.TweedieVariancePower = 0.7, 0.4, 1.6
	for name, tc := range map[string]struct {
		loss func(s, y float64) float64
		h    func(s, y float64) float64 // nil: by differences
		y    []float64
	}{
		"regression": {loss: func(s, y float64) float64 { return (s - y) * (s - y) / 2 }, y: []float64{-3, 0.2, 5}},
		"regression_l1": {loss: func(s, y float64) float64 { return math.Abs(s - y) }, y: []float64{-3, 0.2, 5},
			h: func(_, _ float64) float64 { return 1 }},
		"huber": {loss: func(s, y float64) float64 {
			if x := math.Abs(s - y); x > 0.7 {
				return 0.7 * (x - 0.35)
			}
			return (s - y) * (s - y) / 2
		}, y: []float64{-3, 0.2, 5}, h: func(_, _ float64) float64 { return 1 }},
		"quantile": {loss: func(s, y float64) float64 { return max(0.7*(y-s), 0.3*(s-y)) },
			y: []float64{-3, 0.2, 5}, h: func(_, _ float64) float64 { return 1 }},
		"poisson": {loss: func(s, y float64) float64 { return math.Exp(s) - y*s }, y: []float64{0, 1, 7},
			h: func(s, _ float64) float64 { return math.Exp(s + 0.4) }},
		"gamma": {loss: func(s, y float64) float64 { return s + y*math.Exp(-s) }, y: []float64{0.1, 1, 7}},
		"tweedie": {loss: func(s, y float64) float64 {
			return -y*math.Exp(-0.6*s)/-0.6 + math.Exp(0.4*s)/0.4
		}, y: []float64{0, 1, 7}},
		"cross_entropy": {loss: func(s, y float64) float64 { return math.Log1p(math.Exp(s)) - y*s },
			y: []float64{0, 0.3, 1}},
		"binary": {loss: func(s, y float64) float64 { return math.Log1p(math.Exp(s)) - y*s }, y: []float64{0, 1, 1}},
	} {
		p := p
		p.Objective = name
		d := &Data{Rows: len(tc.y)}
		for _, y := range tc.y {
			d.Label = append(d.Label, float32(y))
		}
		each, err := newObjective(&p, d)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o := each[0]
		for r, label := range d.Label {
			y := float64(label)
			for _, s := range []float64{-2.1, -0.4, 0.61, 1.7} {
				const e = 1e-4
				g, h := gradientOf(o, uint32(r), s)
				wantG := (tc.loss(s+e, y) - tc.loss(s-e, y)) / (2 * e)
				wantH := (tc.loss(s+e, y) - 2*tc.loss(s, y) + tc.loss(s-e, y)) / (e * e)
				if tc.h != nil {
					wantH = tc.h(s, y)
				}
				if math.Abs(g-wantG) > 1e-5*(1+math.Abs(wantG)) || math.Abs(h-wantH) > 1e-5*(1+math.Abs(wantH)) {
					t.Errorf("%s, label %v, score %v: got derivatives %v and %v, want %v and %v", name, y, s, g, h,
						wantG, wantH)
				}
			}
		}
	}
}

// TestQuantiles compares the selection with sorting, on values with many ties, of both signs and of any size, in more
// sets than are counted at once.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	kinds := []func(i int) float64{
		func(int) float64 { return rng.NormFloat64() },
		func(int) float64 { return float64(rng.IntN(3)) },
		func(i int) float64 { return float64(i) },
		func(int) float64 { return float64(rng.IntN(3)-1) * 1e-300 },
		func(int) float64 { return math.Copysign(math.Exp(100*rng.NormFloat64()), rng.NormFloat64()) },
	}
	for _, level := range []float64{0.01, 0.5, rng.Float64()} {
		var sets [][]residual
		var size []int
		var want []float64
		for i := range mostWords/byteValues + 10 {
			values := make([]float64, 1+rng.IntN(150))
			all := make([]residual, len(values))
			for r := range values {
				values[r] = kinds[i%len(kinds)](r)
				all[r] = residual{keyOf(values[r]), 1}
			}
			sets, size = append(sets, all), append(size, len(all))
			want = append(want, sortedQuantile(values, nil, level))
		}
		for i, got := range (*link)(nil).between(sets, size, level, poolOf(1)) {
			if got != want[i] {
				t.Fatalf("the quantile %v of set %d of %d values: got %v, want %v", level, i, size[i], got, want[i])
			}
		}
	}
}

func TestObjectivesRefuseLabels(t *testing.T) {
	for _, tc := range []struct {
		objective string
		labels    []float32
		want      string
	}{
		{"poisson", []float32{1, -1, 2}, "label -1 in row 1; objective poisson takes labels of 0 or more"},
		{"tweedie", []float32{1, 2, -0.5}, "label -0.5 in row 2; objective tweedie takes labels of 0 or more"},
		{"gamma", []float32{1, 0, 2}, "label 0 in row 1; objective gamma takes labels above 0"},
		{"cross_entropy", []float32{0, 1, 1.5}, "label 1.5 in row 2; objective cross_entropy takes labels from 0 to 1"},
		{"quantile", []float32{3, 3, 3}, errOneClass.Error()},
		{"multiclass", []float32{0, 3, 1}, "label 3 in row 1; objective multiclass with 3 classes takes whole " +
			"numbers from 0 to 2"},
		{"multiclass", []float32{2, 2, 2}, errOneClass.Error()},
	} {
		p := Defaults()
		p.Objective = tc.objective
		if Classes(p.Objective) {
			p.NumClass = 3
		}
		_, err := newObjective(&p, &Data{Rows: len(tc.labels), Label: tc.labels})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s of %v: got error %v, want %q", tc.objective, tc.labels, err, tc.want)
		}
	}
}

// TestStartIgnoresClassWeights: boosting starts from the share of positive rows whatever scale_pos_weight and
// is_unbalance say; what LightGBM 4.7 starts from was read off a model with a learning rate of 1e-9.
func TestStartIgnoresClassWeights(t *testing.T) {
	d := &Data{Rows: 4, Label: []float32{1, 0, 0, 0}, Weight: []float32{2, 1, 1, 2}}
	for _, change := range []func(*Params){func(*Params) {}, func(p *Params) { p.ScalePosWeight = 3 },
		func(p *Params) { p.IsUnbalance = true }} {
		p := Defaults()
		change(&p)
		each := must.Get(newObjective(&p, d))(t)
		if got, want := each[0].init(true), exact.Log(0.5); got != want {
			t.Errorf("%+v: boosting starts from %v, want %v", p, got, want)
		}
	}
}
