package nights_test

import (
	"syscall"
	"testing"

	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/segment"
	"coppice/internal/must"
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
		r := must.Get(staged(b, csv, nightstest.Spec, ingest.Options{Threads: 1, Witness: w}))(b)
		return r
	}
	cpu := func() float64 {
		var u syscall.Rusage
		must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return float64(u.Utime.Nano())
	}
	first := stage(nil)
	before := cpu()
	p := must.Get(nights.Measure(b.Context(), first.Night, first.Manifest, 1, nil))(b)
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
