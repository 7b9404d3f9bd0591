package metric

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestMetricsOfClasses compares with sums written out, and the interval with the rows' own deviation.
func TestMetricsOfClasses(t *testing.T) {
	in := Input{Label: []float32{0, 2, 1, 1}, Weight: []float32{1, 2, 1, 4},
		Pred: []float64{.7, .2, .1, .1, .3, .6, .4, .4, .2, 0, 0, 1}}
	for name, want := range map[string]float64{
		"multi_logloss": -(math.Log(.7) + 2*math.Log(.6) + math.Log(.4) + 4*math.Log(1e-15)) / 8,
		"multi_error":   5. / 8, // the third row's class is as likely as another
	} {
		m := must.Get(Lookup(name))(t)
		if got, err := m.Eval(in); err != nil || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
		worse := append([]float64(nil), in.Pred...)
		worse[0], worse[2] = .1, .7
		c, err := m.Compare(in, worse, Confidence{})
		if err != nil || !(c.Gain > 0) || c.Method != Analytic {
			t.Errorf("%s: compared with worse predictions, got %+v and %v, want a gain", name, c, err)
		}
	}

	rng := rand.New(rand.NewPCG(1, 1))
	var big Input
	for range 5000 {
		p := 0.2 + 0.6*rng.Float64()
		big.Pred = append(big.Pred, p, (1-p)/2, (1-p)/2)
		big.Label = append(big.Label, float32(min(rng.IntN(4), 2)))
	}
	m, _ := Lookup("multi_error")
	i, err := m.Interval(big, Confidence{})
	if want := math.Sqrt(i.Value * (1 - i.Value) / 5000); err != nil || math.Abs(i.Error/want-1) > 1e-3 {
		t.Errorf("standard error %v, %v, want %v", i.Error, err, want)
	}
}

func TestMetricsOfClassesRefuse(t *testing.T) {
	m := must.Get(Lookup("multi_logloss"))(t)
	for want, in := range map[string]Input{
		"there are no rows":       {},
		"one for each of several": {Label: []float32{0, 1}, Pred: []float64{.5, .5}},
		"2 is none of 2 classes":  {Label: []float32{0, 2}, Pred: []float64{.5, .5, .5, .5}},
		"is not a probability":    {Label: []float32{0}, Pred: []float64{.5, math.NaN()}},
		"all weights are 0":       {Label: []float32{0}, Pred: []float64{.5, .5}, Weight: []float32{0}},
		"finite weights":          {Label: []float32{0}, Pred: []float64{.5, .5}, Weight: []float32{-1}},
		"1 weights for 2 labels":  {Label: []float32{0, 1}, Pred: []float64{.5, .5, .5, .5}, Weight: []float32{1}},
		"0.5 is none of 2":        {Label: []float32{0.5}, Pred: []float64{.5, .5}},
		"for 3 predictions":       {Label: []float32{0, 1}, Pred: []float64{.5, .5, .5}},
	} {
		if _, err := m.Eval(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got error %v, want %q", in, err, want)
		}
	}
}
