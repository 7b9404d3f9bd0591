package encode

import (
	"context"
	"math/rand/v2"
	"sort"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// BenchmarkStatistics makes the statistics of 1,000,000 rows: three id columns of 1,000,000, 100,000 and 10,000 levels,
// and pairs of them with smaller columns.
func BenchmarkStatistics(b *testing.B) {
	const rows = 4_000_000
	sizes := []int{200_000, 50_000, 5_000, 200, 24}
	rng := rand.New(rand.NewPCG(1, 2))
	r := LabelledRows{Label: make([]float32, rows)}
	for _, n := range sizes {
		part := make([]uint64, rows)
		for i := range part {
			u := rng.Float64()
			part[i] = Range(int(float64(n) * u * u * u))
		}
		r.Parts = append(r.Parts, part)
	}
	for i := range r.Label {
		r.Label[i] = float32(rng.IntN(20) / 19)
	}
	var keys []Key
	for _, parts := range [][]int{{0}, {1}, {2}, {0, 3}, {0, 4}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}, {1, 2},
		{2, 3, 4}} {
		keys = append(keys, Key{Parts: parts, BackOff: -1, Strength: 1, Rate: true, Count: true})
	}
	for b.Loop() {
		m := NewMaker(Config{Parts: len(sizes), Splits: 1, Rows: []int{rows}, Levels: 8 << 20, Dir: b.TempDir(),
			Memory:  64 << 20,
			Threads: 1, Sample: 50_000,
			Order: dataset.Ordering{By: dataset.OrderRandom, Copies: 1}, Keys: keys,
			Bounds: func(values []float64) []float64 {
				sort.Float64s(values)
				var out []float64
				for i := 1; i < 255; i++ {
					if x := values[i*len(values)/255]; len(out) == 0 || x > out[len(out)-1] {
						out = append(out, x)
					}
				}
				return out
			},
			Assign: func(bounds []float64) func([]float64, []uint8, uint8) {
				return func(values []float64, bins []uint8, _ uint8) {
					for i, x := range values {
						bins[i] = uint8(sort.SearchFloat64s(bounds, x))
					}
				}
			}})
		for first := 0; first < rows; first += 50_000 {
			part := LabelledRows{First: first, Label: r.Label[first : first+50_000]}
			for _, p := range r.Parts {
				part.Parts = append(part.Parts, p[first:first+50_000])
			}
			must.Do(b, m.Add(part))
		}
		must.Do(b, m.Run(context.Background(), nil, func(int, int, [][]uint8) error { return nil }))
		_ = m.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows/float64(len(keys)), "ns/row/key")
}
