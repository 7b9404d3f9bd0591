package gbt

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// rootBins counts the thresholds at the trees' roots, by the last bin on the left. Trees without a split are skipped.
func rootBins(t *testing.T, m *Model, bounds []float64) map[int]int {
	t.Helper()
	seen := map[int]int{}
	for _, tree := range m.Trees {
		seen[slices.Index(bounds, tree.Threshold[0])]++
	}
	return seen
}

// TestExtraTreesDrawThresholds has one feature, whose best threshold is the same for every tree; a drawn one varies.
func TestExtraTreesDrawThresholds(t *testing.T) {
	long(t)
	const bins = 12
	d := randomTable(tableSpec{rows: 20_000, numerical: 1, bins: bins, seed: 3})
	for r, b := range d.Columns[0] {
		d.Label[r] = 0
		if (int(b) >= bins/2) != (r%10 == 0) {
			d.Label[r] = 1
		}
	}
	p := small()
	p.NumLeaves, p.NumIterations, p.LearningRate = 2, 1100, 1e-4
	if seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds); len(seen) != 1 ||
		seen[bins/2-1] == 0 {
		t.Fatalf("greedy roots are behind bins %v", seen)
	}
	p.ExtraTrees = true
	seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds)
	for b := range bins - 1 {
		if n := seen[b]; math.Abs(float64(n)-100) > 50 {
			t.Errorf("%d of 1100 roots are behind bin %d, expected about 100 behind each: %v", n, b, seen)
		}
	}
	p.MaxBin = 4
	if seen := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds); len(seen) != 3 {
		t.Errorf("with max_bin 4, roots are behind bins %v", seen)
	}
	p.Seed++
	other := rootBins(t, mustTrain(t, &d.Data, p, Options{}).Model, d.Features[0].Bounds)
	if len(other) != 3 {
		t.Errorf("with another seed, roots are behind bins %v", other)
	}
}

// TestExtraTreesDrawCategories: one of a few categories, or one length of the sorted run of many.
func TestExtraTreesDrawCategories(t *testing.T) {
	unraced(t)
	d := randomTable(tableSpec{rows: 20_000, categorical: 1, bins: 2, seed: 4})
	p := small()
	p.NumLeaves, p.NumIterations, p.LearningRate, p.MinDataPerGroup, p.CatSmooth = 2, 300, 1e-4, 1, 1
	for _, onehot := range []int{1, 256} {
		p.MaxCatToOnehot = onehot
		distinct := func() int {
			seen := map[binSet]bool{}
			for _, tree := range mustTrain(t, &d.Data, p, Options{}).Model.Trees {
				seen[tree.left[0]] = true
			}
			return len(seen)
		}
		p.ExtraTrees = false
		greedy := distinct()
		p.ExtraTrees = true
		if drawn := distinct(); greedy > 2 || drawn < 5 {
			t.Errorf("max_cat_to_onehot %d: %d different greedy roots, %d drawn ones", onehot, greedy, drawn)
		}
	}
}

// TestExtraTreesDoNotDependOnTheCrew has leaves so small that goroutines would otherwise prepare them one each, and
// ahead of their turn.
func TestExtraTreesDoNotDependOnTheCrew(t *testing.T) {
	d := randomTable(tableSpec{rows: 30_000, numerical: 6, categorical: 2, bins: 60, missing: 0.1, seed: 6})
	p := small()
	p.ExtraTrees, p.NumLeaves, p.NumIterations = true, 200, 4
	want := text(t, mustTrain(t, &d.Data, p, Options{Threads: 1}).Model)
	for _, threads := range []int{2, 4} {
		if got := text(t, mustTrain(t, &d.Data, p, Options{Threads: threads}).Model); !bytes.Equal(got, want) {
			t.Errorf("%d threads make another model: %s", threads, firstDifference(got, want))
		}
	}
}

// lossOf is a row's loss at a raw score, without terms that do not depend on it.
func lossOf(p *Params, raw, y float64) float64 {
	x := math.Abs(raw - y)
	switch p.Objective {
	case "regression_l1":
		return x
	case "huber":
		if x > p.Alpha {
			return p.Alpha * (x - p.Alpha/2)
		}
		return x * x / 2
	case "quantile":
		return max(p.Alpha*(y-raw), (1-p.Alpha)*(raw-y))
	case "poisson":
		return math.Exp(raw) - y*raw
	case "gamma":
		return y*math.Exp(-raw) + raw
	case "tweedie":
		rho := p.TweedieVariancePower
		return y*math.Exp((1-rho)*raw)/(rho-1) + math.Exp((2-rho)*raw)/(2-rho)
	case "binary", "cross_entropy":
		return max(raw, 0) + math.Log1p(math.Exp(-math.Abs(raw))) - y*raw
	}
	return x * x
}

// TestExtremes: with labels and weights that span many orders of magnitude a training ends with a finite model that is
// no worse on its own rows than the constant that it begins with, or says what is wrong.
func TestExtremes(t *testing.T) {
	unraced(t)
	t.Parallel()
	labels := map[string]func(y float64, rng *rand.Rand) float64{
		"huge": func(y float64, _ *rand.Rand) float64 { return y * 1e12 },
		"tiny": func(y float64, _ *rand.Rand) float64 { return y * 1e-12 },
		"huge and tiny": func(y float64, rng *rand.Rand) float64 {
			return y * math.Pow(10, float64(24*rng.IntN(2)-12))
		},
		"a heavy tail": func(y float64, rng *rand.Rand) float64 { return y * math.Exp(6*rng.ExpFloat64()) },
		"far from 0":   func(y float64, _ *rand.Rand) float64 { return y + 1e5 },
		"one huge in 200": func(y float64, rng *rand.Rand) float64 {
			return y * max(1, 1e12*float64(1-rng.IntN(200)))
		},
	}
	weights := map[string]func(rng *rand.Rand) float32{
		"none":  func(*rand.Rand) float32 { return 1 },
		"tiny":  func(*rand.Rand) float32 { return 1e-6 },
		"huge":  func(*rand.Rand) float32 { return 1e6 },
		"mixed": func(rng *rand.Rand) float32 { return float32(math.Pow(10, float64(12*rng.IntN(2)-6))) },
	}
	ofEachObjective(t, 3, func(t *testing.T, drawn *trial, _ *rand.Rand) {
		name, seed := drawn.p.Objective, drawn.p.Seed
		if Classes(name) || Ranks(name) { // their labels are whole numbers, and few
			return
		}
		for of, label := range labels {
			for by, weight := range weights {
				rng := rand.New(rand.NewPCG(seed, 3))
				tr := &trial{table: randomTable(tableSpec{rows: 800, numerical: 4, categorical: 1, bins: 20,
					missing: 0.1, regression: true, seed: seed}), p: small()}
				tr.withObjective(name, rng)
				tr.p.RegSqrt, tr.p.NumIterations = false, 20
				for r, y := range tr.Label {
					if name != "binary" {
						tr.Label[r] = float32(label(float64(y), rng))
					}
					if name == "cross_entropy" {
						tr.Label[r] = min(tr.Label[r], 1)
					}
					if by != "none" {
						tr.Weight = append(tr.Weight, weight(rng))
					}
				}
				got, want, err := lossesOf(t, tr)
				if err != nil {
					if !errors.Is(err, ErrData) && !errors.Is(err, errDiverged) {
						t.Errorf("labels %s, weights %s: got error %v, want one about data or divergence", of, by, err)
					}
					continue
				}
				// Without weights, a quantile lies between two labels, as LightGBM's, and not on one of least loss.
				between := name == "quantile" && by == "none" && !math.IsInf(got, 0)
				if !(got <= want+1e-9*math.Abs(want)) && !between {
					t.Errorf("labels %s, weights %s: the model's loss is %v, want at most the constant's, %v", of, by,
						got,
						want)
				}
			}
		}
	})
}

// lossesOf are the weighted sums of the training rows' losses with a model and with the constant that it begins with.
func lossesOf(t *testing.T, tr *trial) (model, constant float64, err error) {
	res, err := Train(t.Context(), &tr.Data, tr.p, Options{Threads: 1})
	if err != nil {
		return 0, 0, err
	}
	each, err := newObjective(&tr.p, &tr.Data)
	if err != nil {
		return 0, 0, err
	}
	begin := each[0].init(true)
	for r, y := range tr.Label {
		w := 1.0
		if tr.Weight != nil {
			w = float64(tr.Weight[r])
		}
		model += w * lossOf(&tr.p, res.Model.Predict(tr.row(r)), float64(y))
		constant += w * lossOf(&tr.p, begin, float64(y))
	}
	return model, constant, nil
}
