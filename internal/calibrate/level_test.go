package calibrate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"coppice/internal/calibrate"
	"coppice/internal/must"
)

// TestLevel: whatever the calibrator, where all stretches of the rows ask for it, its predictions add up to their
// labels, and nothing but the level has changed: log odds have moved by one constant. The result can be stored.
func TestLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 1))
	rows := func(n int, shift float64) (raw []float64, label, weight []float32) {
		for range n {
			z := r.NormFloat64()
			raw, label, weight = append(raw, z), append(label, 0), append(weight, float32(r.IntN(3)))
			if r.Float64() < 1/(1+math.Exp(-2*z-shift)) {
				label[len(label)-1] = 1
			}
		}
		return raw, label, weight
	}
	logit := func(p float64) float64 { return math.Log(p) - math.Log1p(-p) }
	raw, label, weight := rows(4000, -1)
	newRaw, newLabel, newWeight := rows(40_000, 0.7)
	for _, m := range calibrate.Methods() {
		judged := fit(t, m, raw, label, weight)
		c := must.Get(judged.Level(newRaw, newLabel, newWeight, true))(t)
		sum, want := 0.0, 0.0
		for i, z := range newRaw {
			sum, want = sum+float64(newWeight[i])*c.Predict(z), want+float64(newWeight[i]*newLabel[i])
		}
		if !(math.Abs(sum/want-1) < 2e-3) {
			t.Errorf("%s: predictions add up to %v, labels to %v", m, sum, want)
		}
		by := logit(c.Predict(0)) - logit(judged.Predict(0))
		for _, z := range []float64{-0.5, 0.5, 1} {
			if d := logit(c.Predict(z)) - logit(judged.Predict(z)); math.Abs(d-by) > 0.02 {
				t.Errorf("%s: the log odds at %v moved by %v, at 0 by %v", m, z, d, by)
			}
		}
		text := must.Get(c.MarshalJSON())(t)
		if _, err := calibrate.Decode(text); err != nil {
			t.Errorf("%s: its text is refused: %v", m, err)
		}
	}
	if _, err := fit(t, calibrate.None, raw, label, nil).Level(raw[:2], []float32{1, 1}, nil, true); err == nil {
		t.Error("rows of one class: no error")
	}
}

// TestDaysHaveLuck: rows of twenty days, each with luck of its own, on scores that are right on average. By rows taken
// one by one that luck is beyond chance; in order of time it mostly is not, neither for a judged model nor for a final
// one, and both stay where they are. Where all days ask for the same, both move, the final model half of the way.
func TestDaysHaveLuck(t *testing.T) {
	const seeds, days, each = 40, 20, 1000
	draw := func(seed uint64, luck, shift float64) (raw []float64, label []float32) {
		r := rand.New(rand.NewPCG(seed, 3))
		for range days {
			today := shift + luck*r.NormFloat64()
			for range each {
				z := r.NormFloat64() - 1
				raw, label = append(raw, z), append(label, 0)
				if r.Float64() < 1/(1+math.Exp(-z-today)) {
					label[len(label)-1] = 1
				}
			}
		}
		return raw, label
	}
	moved := func(c *calibrate.Calibrator) float64 {
		p := c.Predict(-1)
		return math.Abs(math.Log(p) - math.Log1p(-p) + 1)
	}
	var one, choice, final int
	for seed := range uint64(seeds) {
		raw, label := draw(seed, .5, 0)
		for byTime, n := range map[bool]*int{false: &one, true: &choice} {
			c := must.Get(calibrate.Choose(raw, label, nil, byTime))(t)
			if moved(c.Calibrator) > .02 {
				*n++
			}
		}
		none := fit(t, calibrate.None, raw, label, nil)
		c := must.Get(none.Level(raw, label, nil, false))(t)
		if moved(c) > .02 {
			final++
		}

		raw, label = draw(seed, .1, .5)
		chosen := must.Get(calibrate.Choose(raw, label, nil, true))(t)
		c = must.Get(none.Level(raw, label, nil, false))(t)
		if m := moved(chosen.Calibrator); m < .3 || m > .7 {
			t.Errorf("seed %d, judged: moved by %.3f where all days ask for .5", seed, m)
		}
		if m := moved(c); m < .15 || m > .35 {
			t.Errorf("seed %d, final: moved by %.3f where all days ask for .5, of which half lasts", seed, m)
		}
	}
	if one < seeds/2 || choice > seeds/4 || final > seeds/4 {
		t.Errorf("of %d seeds %d moved taken row by row, %d in order of time, %d final models", seeds, one, choice,
			final)
	}
}
