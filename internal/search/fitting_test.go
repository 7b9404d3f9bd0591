package search

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/diff/fd"

	"coppice/internal/sweep"
)

// TestFittingGradient compares the gradient with differences, on rows of two searches.
func TestFittingGradient(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	columns := []column{{0, true}, {1, false}, {3, true}}
	var k known
	for i := range 12 {
		k.rows = append(k.rows, []float64{rng.Float64(), float64(i%3 - 1), rng.Float64()})
		k.ages = append(k.ages, i%3)
		k.z = append(k.z, rng.NormFloat64())
		k.doubt = append(k.doubt, float64(i%2))
	}
	f := newFitting(columns, k, 4)
	if len(f.squares) != 3 || len(f.prior) != 6 {
		t.Fatalf("%d length scales and %d parameters, expected 3 and 6", len(f.squares), len(f.prior))
	}

	for range 5 {
		x := f.start()
		for i := range x {
			x[i] += 0.5 * rng.NormFloat64()
		}
		want := fd.Gradient(nil, f.loss, x, &fd.Settings{Formula: fd.Central})
		got := make([]float64, len(x))
		f.gradient(got, x)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-4*(1+math.Abs(want[i])) {
				t.Errorf("parameter %d: gradient %g, by differences %g", i, got[i], want[i])
			}
		}
	}
}

// TestLogImprovement compares with the plain formula where that can be computed; a higher expectation must give a
// higher value.
func TestLogImprovement(t *testing.T) {
	if got, want := math.Exp(logImprovement(0.3, 2)),
		2*(math.Exp(-0.01125)/math.Sqrt(2*math.Pi)+0.15*0.5596177); math.Abs(got-want) > 1e-6 {
		t.Errorf("%g, expected %g", got, want)
	}
	last := math.Inf(-1)
	for mean := -200.0; mean < 5; mean += 0.01 {
		gain := logImprovement(mean, 1)
		if !(gain > last) {
			t.Fatalf("at %g: %g, not above %g", mean, gain, last)
		}
		last = gain
	}
}

// TestWarped keeps the order and equal values equal, whatever the outliers.
func TestWarped(t *testing.T) {
	in := []float64{-1e300, 0.5, 0.6, 0.6, 0.61, 0.62, math.SmallestNonzeroFloat64, 0.9}
	out := warpScores(in)
	for i := range in {
		for j := range in {
			if in[i] < in[j] && !(out[i] < out[j]) || in[i] == in[j] && out[i] != out[j] {
				t.Errorf("%g and %g became %g and %g", in[i], in[j], out[i], out[j])
			}
		}
		if !sweep.Finite(out[i]) || math.Abs(out[i]) > 5 {
			t.Errorf("%g became %g", in[i], out[i])
		}
	}
	for _, v := range warpScores([]float64{3, 3, 3}) {
		if v != 0 {
			t.Errorf("equal values became %g", v)
		}
	}
}
