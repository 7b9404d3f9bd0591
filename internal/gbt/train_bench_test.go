//go:build unix

package gbt

import (
	"math/rand/v2"
	"syscall"
	"testing"
)

// BenchmarkTrain measures the processor time of whole trainings with one thread, of each objective and of tables of
// other shapes.
func BenchmarkTrain(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 9))
	dense := func(rows, columns int) *table {
		return randomTable(tableSpec{rows: rows, numerical: columns, bins: 255, regression: true, seed: 1})
	}
	for _, tc := range []struct {
		name, objective string
		rows, columns   int
		table           func(rows, columns int) *table
	}{
		{"dense", "binary", 300_000, 28, dense},
		{"wide", "binary", 20_000, 400, dense},
		{"categories", "binary", 200_000, 14, func(rows, columns int) *table {
			return randomTable(tableSpec{rows: rows, numerical: columns / 2, categorical: columns - columns/2,
				bins: 200, missing: 0.3, regression: true, duplicates: 0.3, seed: 1})
		}},
		{"bagged", "binary", 100_000, 28, dense},
		{"zeros", "binary", 100_000, 100, func(rows, columns int) *table {
			return randomTable(tableSpec{rows: rows, numerical: columns, bins: 100, missing: 0.9, together: 1,
				regression: true, seed: 1})
		}},
		{"regression", "regression", 100_000, 28, dense},
		{"cross_entropy", "cross_entropy", 100_000, 28, dense},
		{"poisson", "poisson", 100_000, 28, dense},
		{"gamma", "gamma", 100_000, 28, dense},
		{"tweedie", "tweedie", 100_000, 28, dense},
		{"softmax", softmaxName, 50_000, 28, dense},
		{"lambdarank", "lambdarank", 100_000, 28, dense},
		{"xendcg", xendcg, 100_000, 28, dense},
	} {
		b.Run(tc.name, func(b *testing.B) {
			d := tc.table(tc.rows, tc.columns)
			p := Defaults()
			p.Objective, p.NumIterations, p.NumLeaves, p.LearningRate = tc.objective, 20, 31, 0.1
			if tc.name == "bagged" {
				p.BaggingFraction, p.BaggingFreq, p.FeatureFraction = 0.7, 1, 0.7
			}
			if Classes(p.Objective) {
				p.NumClass, p.NumIterations = 7, 5
			}
			if Ranks(p.Objective) {
				d.Group = make([]uint64, d.Rows)
			}
			for r, y := range d.Label {
				switch p.Objective {
				case softmaxName:
					d.Label[r] = min(max(float32(int(2*y+3.5)), 0), 6)
				case "lambdarank", xendcg:
					d.Group[r], d.Label[r] = uint64(r/120), min(max(float32(int(y+1)), 0), 4)
				case "gamma", "poisson", "tweedie":
					d.Label[r] = max(y*y, 0.01)
				case "cross_entropy":
					d.Label[r] = rng.Float32()
				case "binary":
					d.Label[r] = min(max(float32(int(y+1)), 0), 1)
				}
			}
			trees, start := 0, processorTime()
			for b.Loop() {
				trees += len(mustTrain(b, &d.Data, p, Options{Threads: 1}).Model.Trees)
			}
			b.ReportMetric(float64(processorTime()-start)/float64(trees*d.Rows), "cpu-ns/row/tree")
		})
	}
}

// processorTime is this process's, in nanoseconds.
func processorTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano()
}
