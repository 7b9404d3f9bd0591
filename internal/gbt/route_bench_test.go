package gbt

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkReplay measures the cost of resuming: scores of half a million rows from ten trees, also as a share of the
// time in which one goroutine grew them.
func BenchmarkReplay(b *testing.B) {
	d := randomTable(tableSpec{rows: 500_000, numerical: 28, bins: 255, seed: 1})
	for _, leaves := range []int{31, 63, 96, 127, 255} {
		b.Run(fmt.Sprintf("%d leaves", leaves), func(b *testing.B) {
			p := Defaults()
			p.NumIterations, p.NumLeaves = 10, leaves
			grown := mustTrain(b, &d.Data, p, Options{Threads: 1})
			trees := grown.Model.Trees
			score := make([]float64, d.Rows)
			for b.Loop() {
				_ = replay(context.Background(), trees, &d.Data, score, 0, newWalks(poolOf(1)))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*d.Rows*len(trees)), "ns/row/tree")
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/grown.Took.Seconds(), "%of-growing")
		})
	}
}
