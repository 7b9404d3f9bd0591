//go:build unix

package serve_test

import (
	"fmt"
	"syscall"
	"testing"

	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/launcher/internal/serve"
)

// large is the model of docs/serving.md: 500 trees of 63 leaves over 10 ids and 30 numbers, of which staging makes 98
// features.
var large = shape{ids: 10, numbers: 30, rows: 20_000, trees: 500, leaves: 63}

// computed is how long this process has computed so far, in nanoseconds; unlike time, it does not depend on what else
// the machine does.
func computed() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it cannot fail with these arguments
	return float64(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkScore scores requests of so many rows in one process: encoding, trees and calibration.
func BenchmarkScore(b *testing.B) {
	reg, _ := newRegistry()
	v := register(b, reg, "one", large.trained(b, 1))
	m, err := serve.Load(b.Context(), reg, v, b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer m.Retire()
	part := large
	part.rows = 4096
	files, err := table.Expand(part.write(b, 2))
	if err != nil {
		b.Fatal(err)
	}
	t, err := table.Open(files, table.Options{Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 10, 50, 256, 4096} {
		b.Run(fmt.Sprint("rows=", n), func(b *testing.B) {
			first := true
			err := t.Read(b.Context(), m.Scorer.Columns(), n, func(batch *table.Batch) error {
				if !first {
					return nil
				}
				first = false
				var values []float64
				var in cell.Inputs
				b.ReportAllocs()
				begun := computed()
				for b.Loop() {
					if _, err := m.Score(batch, &values, &in); err != nil {
						return err
					}
				}
				b.ReportMetric((computed()-begun)/float64(b.N), "cpu-ns/op")
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}
