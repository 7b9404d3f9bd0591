package ingest

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"

	"coppice/dataset"
)

// bigTable writes rows of 10 columns with a generator, as CSV or Parquet, and never holds them.
func bigTable(t testing.TB, path string, rows int) File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	columns := []Column{{Name: "y", Type: dataset.Int}}
	for i := range 9 {
		columns = append(columns, Column{Name: "x" + strconv.Itoa(i), Type: dataset.Float})
	}
	var write func(*Batch) error
	var end func() error
	if filepath.Ext(path) == ".parquet" {
		p, err := NewParquetWriter(w, columns, Plain)
		if err != nil {
			t.Fatal(err)
		}
		write, end = p.Write, p.Close
	} else {
		c, err := NewCSVWriter(w, columns, ',')
		if err != nil {
			t.Fatal(err)
		}
		write, end = c.Write, func() error { return nil }
	}
	b := &Batch{}
	for _, c := range columns {
		b.Names = append(b.Names, c.Name)
		b.Columns = append(b.Columns, dataset.Values{Type: c.Type})
	}
	state := uint64(1)
	for from := 0; from < rows; from += b.Rows {
		b.Rows = min(5000, rows-from)
		for j := range b.Columns {
			v := &b.Columns[j]
			v.Int, v.Float = v.Int[:0], v.Float[:0]
			for range b.Rows {
				state++
				h := mix(state)
				if j == 0 {
					v.Int = append(v.Int, int64(h&1))
				} else {
					v.Float = append(v.Float, float64(h%1e6)/64)
				}
			}
		}
		if err := write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(end(), w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return File{URI: filepath.Base(path), Path: path, Bytes: info.Size()}
}

// live is how many bytes a collection finds to be in use.
func live() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Memory depends on columns, batches and samples, not on rows. The smaller table has several batches and row groups too.
func TestMemoryDoesNotGrowWithRows(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("SKIPPED: large tables under the race detector or in short mode")
	}
	for ext, rows := range map[string]int{".csv": 150_000, ".parquet": 280_000} {
		peak := func(rows int) (int64, int64) {
			file := bigTable(t, filepath.Join(t.TempDir(), "t"+ext), rows)
			before, most := live(), int64(0)
			_, err := tryStage(t, "label: y\nsample_rows_for_bins: 2000\nsample: 1000\nsplit: {by: hash, key: x0, train: 0.8, test: 0.2}\n", []File{file}, Options{Threads: 2, Progress: func(Progress) {
				most = max(most, live()-before)
			}})
			if err != nil {
				t.Fatal(err)
			}
			return most, file.Bytes
		}
		small, bytes := peak(rows)
		large, moreBytes := peak(5 * rows / 2)
		t.Logf("%s: %d MB live for %d MB of table, %d MB live for %d MB", ext, small>>20, bytes>>20, large>>20, moreBytes>>20)
		if large > small+small/2+4<<20 {
			t.Errorf("%s: %d bytes for 2.5 times the rows, %d before", ext, large, small)
		}
	}
}

// BenchmarkStage stages 200,000 rows of 9 numeric features, from each format.
func BenchmarkStage(b *testing.B) {
	for _, ext := range []string{".csv", ".parquet"} {
		b.Run(ext[1:], func(b *testing.B) {
			file := bigTable(b, filepath.Join(b.TempDir(), "t"+ext), 200_000)
			spec := parseSpec(b, "label: y\n")
			b.SetBytes(file.Bytes)
			for i := 0; b.Loop(); i++ {
				dir := filepath.Join(b.TempDir(), strconv.Itoa(i))
				if _, err := Stage(context.Background(), spec, []File{file}, dir, Options{Threads: 1}); err != nil {
					b.Fatal(err)
				}
				if err := os.RemoveAll(dir); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(200_000*9), "ns/value")
		})
	}
}
