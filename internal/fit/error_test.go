package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// TestStandardErrorOfSomeRows: a fraction of the rows gives about the error of all, with a formula and by resampling,
// weighted or not.
func TestStandardErrorOfSomeRows(t *testing.T) {
	const rows = 40_000
	rng := rand.New(rand.NewPCG(1, 2))
	in := metric.Input{}
	for range rows {
		p := rng.Float64() * 0.4
		y := float32(0)
		if rng.Float64() < p {
			y = 1
		}
		in.Label, in.Pred, in.Weight = append(in.Label, y), append(in.Pred, p), append(in.Weight, 1+rng.Float32())
	}

	for _, name := range []string{"auc", "log_loss", "average_precision"} {
		m := must.Get(metric.Lookup(name))(t)
		for weighted, in := range map[bool]metric.Input{true: in, false: {Label: in.Label, Pred: in.Pred}} {
			whole, some := standardError(m, in, 3, rows), standardError(m, in, 3, rows/7)
			if !(math.Abs(some/whole-1) < 0.3) {
				t.Errorf("%s, weighted %t: the standard error is %.4g from all rows and %.4g from a seventh of "+
					"them; want them within 30 %%", name, weighted, whole, some)
			}
		}
	}

	m := must.Get(metric.Lookup("auc"))(t)
	if se := standardError(m, metric.Input{Label: []float32{0, 0}, Pred: []float64{1, 2}}, 3, rows); !math.IsNaN(se) {
		t.Errorf("without positives the standard error of auc is %v; want NaN", se)
	}
}
