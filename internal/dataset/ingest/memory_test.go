package ingest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestLessGarbageOverlapping: while any of several wide tables is in work, the garbage collector runs more often; after
// the last one, it runs as before.
func TestLessGarbageOverlapping(t *testing.T) {
	// percent returns the value of GOGC that is in force. While wide tables are in work it is 25 (otherPercent).
	percent := func() int {
		now := debug.SetGCPercent(50)
		debug.SetGCPercent(now)
		return now
	}
	before := percent()
	first := LessGarbage(1000) // a table of 1,000 columns is wide; what is returned ends its work
	second := LessGarbage(1000)
	first()
	between := percent()
	second()
	if after := percent(); between != 25 || after != before {
		t.Errorf("between %d, after %d; want 25, then %d", between, after, before)
		debug.SetGCPercent(before)
	}
}

// bigTable writes a table of a label and 9 numbers, as CSV or Parquet by the suffix of path, without holding it in
// memory. Both formats hold the same numbers.
func bigTable(t testing.TB, path string, rows int) table.File {
	t.Helper()
	f := must.Get(os.Create(path))(t)
	w := bufio.NewWriter(f)
	columns := []table.Column{{Name: "y", Type: dataset.Int}}
	for i := range 9 {
		columns = append(columns, table.Column{Name: "x" + strconv.Itoa(i), Type: dataset.Float})
	}
	var write func(*table.Batch) error
	var end func() error
	if filepath.Ext(path) == ".parquet" {
		p := must.Get(table.NewParquetWriter(w, columns, table.Plain))(t)
		write, end = p.Write, p.Close
	} else {
		c := must.Get(table.NewCSVWriter(w, columns, ','))(t)
		write, end = c.Write, func() error { return nil }
	}
	b := &table.Batch{}
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
				h := encode.Mix(state)
				if j == 0 {
					v.Int = append(v.Int, int64(h&1))
				} else {
					v.Float = append(v.Float, float64(h%1e6)/64)
				}
			}
		}
		must.Do(t, write(b))
	}
	must.Do(t, errors.Join(end(), w.Flush(), f.Close()))
	info := must.Get(os.Stat(path))(t)
	return table.File{URI: filepath.Base(path), Path: path, Bytes: info.Size()}
}

// live returns how many bytes of the heap are in use after a garbage collection.
func live() int64 {
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// allocated returns how many bytes fn allocates in all, including those that it frees.
func allocated(fn func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestLongRecordsDoNotStay: sampled cells are copied, so that they do not keep their long records alive, and a batch of
// long records has few rows. The table has 72 MB of texts that are dropped; at most 48 MB may be live.
func TestLongRecordsDoNotStay(t *testing.T) {
	long(t)
	html := strings.Repeat("<p>", 10_000)
	var b strings.Builder
	b.WriteString("y,x,html\n")
	for i := range 2400 {
		fmt.Fprintf(&b, "%d,%d,%s\n", i%2, i, html)
	}
	file := writeFile(t, "t.csv", b.String())
	b.Reset()
	before, most := live(), int64(0)
	must.Get(tryStage(t, "label: y\ndrop: [html]\n", []table.File{file},
		Options{Threads: 1, Progress: func(Progress) {
			most = max(most, live()-before)
		}}))(t)
	if most > 48<<20 {
		t.Errorf("%d MB live for a table of %d MB, want at most 48", most>>20, file.Bytes>>20)
	}
}

// repeatedText returns a Parquet file in which each row has one of two texts of the given length.
func repeatedText(t *testing.T, rows, length int) table.File {
	t.Helper()
	var out bytes.Buffer
	w := must.Get(table.NewParquetWriter(&out, []table.Column{{Name: "y", Type: dataset.Int},
		{Name: "s", Type: dataset.Text}}, table.Snappy))(t)
	batch := &table.Batch{Names: []string{"y", "s"}, Rows: rows, Columns: []dataset.Values{{Type: dataset.Int},
		{Type: dataset.Text}}}
	texts := []string{strings.Repeat("a", length), strings.Repeat("b", length)}
	for i := range rows {
		batch.Columns[0].Int = append(batch.Columns[0].Int, int64(i%2))
		batch.Columns[1].Text = append(batch.Columns[1].Text, texts[i/2%2])
	}
	must.Do(t, errors.Join(w.Write(batch), w.Close()))
	return writeFile(t, "t.parquet", out.String())
}

// TestDictionariesAreNotMultiplied: a small file can give a long text of its dictionary to every row and so mean
// gigabytes. Staging must not make a copy for each row: 3,000 rows of 100,000 bytes mean 300 MB, and 100 MB may be
// allocated.
func TestDictionariesAreNotMultiplied(t *testing.T) {
	long(t)
	file := repeatedText(t, 3000, 100_000)
	n := allocated(func() {
		if _, err := tryStage(t, "label: y\nsample: 100\n", []table.File{file}, Options{Threads: 2}); err != nil {
			t.Errorf("staging two texts of 100,000 bytes: got error %v, want none", err)
		}
	})
	if n > 100<<20 {
		t.Errorf("staging allocated %d MB for a file of %d bytes that means 300 MB, want at most 100", n>>20,
			file.Bytes)
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
				must.Get(Stage(context.Background(), spec, []table.File{file}, dir, Options{Threads: 1}))(b)
				must.Do(b, os.RemoveAll(dir))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(200_000*9), "ns/value")
		})
	}
}

// TestFilesWithoutEndAreRefusedAtOnce: a file of 100 GB that cannot be a table is an error as soon as its first
// megabytes are hashed. The files are sparse: a beginning, then zero bytes, of which the first is named (bytes count
// from 1). A line without an end is noticed at the end of a part.
func TestFilesWithoutEndAreRefusedAtOnce(t *testing.T) {
	const size = 100 << 30 // hashed in parts of hashPart, 16,777,216 bytes
	line := strings.Repeat("x", 2*hashPart)
	for name, tc := range map[string]struct{ begins, want string }{
		"a hole":                 {"", "byte 1 is NUL"},
		"a hole after two rows":  {"y,a\n1,2\n", "byte 9 is NUL"},
		"a row without an end":   {line, "bytes 1 to 16777216 hold no end of a line, and a row has at most 16777216"},
		"a second row without":   {"y,a\n" + line, "bytes 16777217 to 33554432 hold no end of a line"},
		"a hole in another part": {strings.Repeat("1,2\n", hashPart/2), "byte 33554433 is NUL"},
	} {
		path := filepath.Join(t.TempDir(), "t.csv")
		must.Do(t, errors.Join(os.WriteFile(path, []byte(tc.begins), 0o666), os.Truncate(path, size)))
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second) // hashing all of it takes longer
		_, err := Fingerprint(ctx, parseSpec(t, "label: y\n"), []table.File{{URI: "t.csv", Path: path, Bytes: size}})
		stop()
		must.SayAs[*table.InputError](t, name, err, tc.want)
	}
}

// TestATableWithoutFeatures: if every column is left out, of a table of long texts or of ids that do not repeat, the
// error says so about the table.
func TestATableWithoutFeatures(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,note\n")
	for i := range 400 {
		b.WriteString([]string{"0,", "1,"}[i%2] + strings.Repeat("x", 2000+i) + "\n")
	}
	_, err := Stage(t.Context(), parseSpec(t, "label: y\n"), []table.File{writeFile(t, "a.csv", b.String())},
		filepath.Join(t.TempDir(), "out"), Options{})
	must.Say(t, "staging a column of long texts", err, "no column is left to be a feature")

	// An id of which nine of ten values are unique. The learner must not be asked about a table without features.
	b.Reset()
	b.WriteString("y,thing_id\n")
	r := rand.New(rand.NewPCG(2, 1))
	for range 6000 {
		fmt.Fprintf(&b, "%d,t%d\n", r.IntN(2), r.IntN(60_000))
	}
	learner := func(context.Context, *encode.TrainingSet) ([]float64, error) {
		return nil, errors.New("there is nothing to learn from")
	}
	_, err = Stage(t.Context(), parseSpec(t, "label: y\n"), []table.File{writeFile(t, "b.csv", b.String())},
		filepath.Join(t.TempDir(), "out"), Options{Learner: learner})
	must.Say(t, "staging an id alone", err, "no column is left to be a feature")
}

// TestColumnsThatAreNoMeasurements: the index of a pandas.DataFrame, here the column row, is not a feature unless the
// spec names it, and a hint says so. A column that a folder gives is a feature.
func TestColumnsThatAreNoMeasurements(t *testing.T) {
	// The file has the columns y, a and row; its folder gives shop.
	path := filepath.Join("..", "table", "testdata", "pandas", "named.parquet")
	files := []table.File{{URI: path, Path: path, Partitions: []table.Partition{{Name: "shop", Value: "ulm"}}}}
	for spec, want := range map[string]string{"label: y\n": "a shop", "label: y\nnumeric: [row]\n": "row a shop"} {
		s := stageFiles(t, spec, files, Options{})
		told := slices.Contains(hinted(s, HintIndex), "row")
		if got := strings.Join(s.names(), " "); !sameWords(got, want) || told != (spec == "label: y\n") {
			t.Errorf("%q: features %s, said that the index is left out: %v; expected %s", spec, got, told, want)
		}
	}
}

// TestTheDayOfTheSourceIsNoFeature: the day in a source's folder dt={date:...} is the same for all rows of a night, and
// is not there when rows are scored. So it is a feature only if the spec names it.
func TestTheDayOfTheSourceIsNoFeature(t *testing.T) {
	path := filepath.Join("..", "table", "testdata", "pandas", "named.parquet")
	files := []table.File{{URI: path, Path: path, Partitions: []table.Partition{{Name: "dt", Value: "2026-11-28"},
		{Name: "shop", Value: "ulm"}}}}
	for rest, want := range map[string]string{"": "a shop", "encodings: {order: {column: dt}}\n": "a dt shop",
		"categorical: [dt]\n": "a dt shop"} {
		spec := must.Get(dataset.ParseSpec("d.yaml",
			[]byte("name: t\nsource: in/dt={date:2006-01-02}/\nlabel: y\n"+rest)))(t)
		r := must.Get(Stage(t.Context(), spec, files, filepath.Join(t.TempDir(), "out"), Options{}))(t)
		var names []string
		for _, f := range r.Manifest.Features {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); !sameWords(got, want) {
			t.Errorf("%q: features %s, expected %s", rest, got, want)
		}
	}
}

// sameWords reports whether two texts have the same words, in any order.
func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
