package calibrate_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"coppice/internal/calibrate"
	"coppice/internal/must"
)

// BenchmarkChoose is what concluding a sweep costs: a tenth of 130 million rows, none equal, 2 % positive.
func BenchmarkChoose(b *testing.B) {
	const n = 13_000_000
	r := rand.New(rand.NewPCG(1, 1))
	raw, label := make([]float64, n), make([]float32, n)
	for i := range raw {
		raw[i] = -4 + 1.2*r.NormFloat64()
		if r.Float64() < 1/(1+math.Exp(0.5-0.9*raw[i])) {
			label[i] = 1
		}
	}
	{
		b.Run("choose", func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for b.Loop() {
				c := must.Get(calibrate.Choose(raw, label, nil, false))(b)
				b.Logf("%s: %s", c.Calibrator, c.Reason)
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/n, "B/row")
		})
	}
	c := must.Get(calibrate.Fit(calibrate.Platt, raw[:1_000_000], label[:1_000_000], nil))(b)
	b.Run("predict", func(b *testing.B) {
		out := make([]float64, 0, 1_000_000)
		for b.Loop() {
			out = c.PredictAll(out[:0], raw[:1_000_000])
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e6, "ns/row")
	})
}
