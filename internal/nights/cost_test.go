package nights_test

import (
	"syscall"
	"testing"

	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/segment"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// BenchmarkStaging measures what counting all rows for the checks adds to staging, in CPU time, since a machine may be
// busy with other things.
func BenchmarkStaging(b *testing.B) {
	const rows = 300_000
	stream := nightstest.Stream{Seed: 3, Rows: rows}
	csv := stream.Night(1).CSV()
	stage := func(w segment.Scorer) *ingest.Report {
		r, err := staged(b, csv, nightstest.Spec, ingest.Options{Threads: 1, Witness: w})
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	cpu := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano())
	}
	first := stage(nil)
	before := cpu()
	p, err := nights.Measure(b.Context(), first.Night, first.Manifest, 1, nil)
	if err != nil {
		b.Fatal(err)
	}
	measured := cpu() - before
	for name, w := range map[string]segment.Scorer{"alone": nil, "counted": nights.NewWitness([]*nights.Profile{p},
		false)} {
		b.Run(name, func(b *testing.B) {
			before := cpu()
			for b.Loop() {
				stage(w)
			}
			b.ReportMetric((cpu()-before)/float64(b.N)/rows, "cpu-ns/row")
			b.ReportMetric(measured/1e6, "measure-cpu-ms")
		})
	}
}
