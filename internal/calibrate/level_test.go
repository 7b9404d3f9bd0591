package calibrate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"coppice/internal/calibrate"
)

// TestLevel: whatever the calibrator, its predictions of the rows add up to their labels, and nothing but the level has
// changed: log odds have moved by one constant. The result can be stored.
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
	newRaw, newLabel, newWeight := rows(4000, 0.7)
	for _, m := range calibrate.Methods() {
		judged := fit(t, m, raw, label, weight)
		c, err := judged.Level(newRaw, newLabel, newWeight)
		if err != nil {
			t.Fatal(err)
		}
		sum, want := 0.0, 0.0
		for i, z := range newRaw {
			sum, want = sum+float64(newWeight[i])*c.Predict(z), want+float64(newWeight[i]*newLabel[i])
		}
		if !(math.Abs(sum/want-1) < 2e-3) { // between an isotonic one's knots probabilities are linear, not log odds
			t.Errorf("%s: predictions add up to %v, labels to %v", m, sum, want)
		}
		by := logit(c.Predict(0)) - logit(judged.Predict(0))
		for _, z := range []float64{-0.5, 0.5, 1} {
			if d := logit(c.Predict(z)) - logit(judged.Predict(z)); math.Abs(d-by) > 0.02 {
				t.Errorf("%s: the log odds at %v moved by %v, at 0 by %v", m, z, d, by)
			}
		}
		text, err := c.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := calibrate.Decode(text); err != nil {
			t.Errorf("%s: its text is refused: %v", m, err)
		}
	}
	if _, err := fit(t, calibrate.None, raw, label, nil).Level(raw[:2], []float32{1, 1}, nil); err == nil {
		t.Error("rows of one class: no error")
	}
}
