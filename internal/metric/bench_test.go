package metric

import (
	"math"
	"math/rand/v2"
	"testing"

	"coppice/internal/must"
)

// clicks are rows as a click model sees them: 2 % positive, predictions log-normal around that.
func clicks(n int, seed uint64) Input {
	r := rand.New(rand.NewPCG(seed, 1))
	in := Input{Label: make([]float32, n), Weight: make([]float32, n), Pred: make([]float64, n)}
	for i := range n {
		raw := -4 + 1.2*r.NormFloat64()
		in.Pred[i] = 1 / (1 + math.Exp(-raw))
		if r.Float64() < in.Pred[i] {
			in.Label[i] = 1
		}
		in.Weight[i] = 0.5 + r.Float32()
	}
	return in
}

func BenchmarkMillionRows(b *testing.B) {
	const n = 1_000_000
	weighted := clicks(n, 1)
	plain := weighted
	plain.Weight = nil
	for _, name := range []string{"auc", "average_precision", "log_loss", "ece", "precision@1%", "brier", "accuracy"} {
		m := must.Get(Lookup(name))(b)
		for label, in := range map[string]Input{"plain": plain, "weighted": weighted} {
			b.Run(name+"/"+label, func(b *testing.B) {
				var e Evaluator
				b.ReportAllocs()
				for b.Loop() {
					e.Reset(in)
					must.Get(e.Eval(m))(b)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
			})
		}
	}
}
