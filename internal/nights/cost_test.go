package nights_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/segment"
	"coppice/internal/dataset/table"
	"coppice/internal/nights"
	"coppice/internal/nights/nightstest"
)

// BenchmarkStaging measures what counting all rows for the checks adds to staging, in CPU time, since a machine may be
// busy with other things.
func BenchmarkStaging(b *testing.B) {
	const rows = 300_000
	dir := b.TempDir()
	file := filepath.Join(dir, "night.csv")
	stream := nightstest.Stream{Seed: 3, Rows: rows}
	if err := os.WriteFile(file, stream.Night(1).CSV(), 0o600); err != nil {
		b.Fatal(err)
	}
	spec, err := dataset.ParseSpec("dataset.yaml", nightstest.Spec(file))
	if err != nil {
		b.Fatal(err)
	}
	files, err := table.Expand(file)
	if err != nil {
		b.Fatal(err)
	}
	stage := func(w segment.Scorer) *ingest.Report {
		r, err := ingest.Stage(b.Context(), spec, files, filepath.Join(b.TempDir(), "d"),
			ingest.Options{Threads: 1, Witness: w})
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
