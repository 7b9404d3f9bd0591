//go:build unix

package serve_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/launcher/internal/serve"
)

// large is the model of docs/serving.md: 500 trees of 63 leaves over 10 ids and 30 numbers, of which staging makes 98
// features.
var large = shape{ids: 10, numbers: 30, rows: 20_000, trees: 500, leaves: 63}

var largeOnce struct {
	sync.Once
	files map[string][]byte
}

// largeFiles trains the large model once.
func largeFiles(b *testing.B) map[string][]byte {
	largeOnce.Do(func() { largeOnce.files = large.trained(b, 1) })
	return largeOnce.files
}

// computed is the processor time of this process so far, in nanoseconds. Unlike the clock's time, it hardly depends on
// what else the machine does.
func computed() float64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // it cannot fail with these arguments
	return float64(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkScore scores requests of so many rows in one process: encoding, trees and calibration.
func BenchmarkScore(b *testing.B) {
	reg, _ := newRegistry()
	v := register(b, reg, "one", largeFiles(b))
	m := must.Get(serve.Load(b.Context(), reg, v, b.TempDir()))(b)
	defer m.Retire()
	part := large
	part.rows = 4096
	files := must.Get(table.Expand(part.write(b, 2)))(b)
	t := must.Get(table.Open(files, table.Options{Threads: 1}))(b)
	for _, n := range []int{1, 10, 50, 256, 4096} {
		b.Run(fmt.Sprint("rows=", n), func(b *testing.B) {
			first := true
			must.Do(b, t.Read(b.Context(), m.Scorer.Columns(), n, func(batch *table.Batch) error {
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
			}))
		})
	}
}

// BenchmarkRequest answers requests of so many rows in JSON, without a network.
func BenchmarkRequest(b *testing.B) {
	reg, store := newRegistry()
	register(b, reg, "one", largeFiles(b))
	promote(b, reg, 1)
	s := start(b, store, func(c *serve.Config) { c.Poll = time.Hour })
	handler := s.Handler()
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint("rows=", n), func(b *testing.B) {
			body := large.request(n)
			b.ReportAllocs()
			begun := computed()
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/predict", bytes.NewReader(body)))
				if w.Code != http.StatusOK {
					b.Fatalf("got status %d, %s; want 200", w.Code, w.Body)
				}
			}
			b.ReportMetric((computed()-begun)/float64(b.N), "cpu-ns/op")
		})
	}
}

// request is a JSON request of so many rows, with the blanks that Python's json writes.
func (s shape) request(rows int) []byte {
	rng := rand.New(rand.NewPCG(5, 5))
	names := s.names()
	out := []byte(`{"instances": [`)
	for r := range rows {
		_, cells := s.row(rng)
		for i, cell := range cells {
			sep := ", "
			switch {
			case i == 0 && r == 0:
				sep = "{"
			case i == 0:
				sep = ", {"
			}
			quote := ""
			if i < s.ids {
				quote = `"`
			}
			out = fmt.Appendf(out, `%s"%s": %s%s%s`, sep, names[i], quote, cell, quote)
		}
		out = append(out, '}')
	}
	return append(out, "]}"...)
}
