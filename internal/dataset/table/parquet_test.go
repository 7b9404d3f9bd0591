package table

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
)

// testFile returns a file of testdata/types.
func testFile(t testing.TB, name string) File {
	t.Helper()
	path := filepath.Join("testdata", "types", name)
	info := must.Get(os.Stat(path))(t)
	return File{URI: name, Path: path, Bytes: info.Size()}
}

// sameAs reports whether value i is the one that pyarrow printed as want. A null is "<null>"; times are compared by
// what they mean.
func sameAs(v *dataset.Values, i int, want string) bool {
	if v.IsNull(i) || want == "<null>" {
		return v.IsNull(i) == (want == "<null>")
	}
	switch v.Type {
	case dataset.Float:
		x, err := strconv.ParseFloat(want, 64)
		return err == nil && (v.Float[i] == x && math.Signbit(v.Float[i]) == math.Signbit(x) || x != x &&
			v.Float[i] != v.Float[i])
	case dataset.Time:
		if v.Unit == dataset.Nano {
			return strconv.FormatInt(v.Int[i], 10) == want
		}
		at, err := time.Parse("2006-01-02T15:04:05.999999999Z07:00", strings.Replace(want, " ", "T", 1))
		if err != nil {
			at, err = time.Parse(time.DateOnly, want)
		}
		sec, nsec := v.Unit.Split(v.Int[i])
		return err == nil && at.Equal(time.Unix(sec, nsec))
	}
	return v.TextOf(i) == want
}

// TestParquetTypes: every type, in every encoding, as pyarrow writes them (testdata/types/make.py), is read as pyarrow
// reads it. Reading a nested column is an error that names column and kind.
func TestParquetTypes(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/types/want.json"))(t)
	var want map[string][]string
	must.Do(t, json.Unmarshal(data, &want))
	for _, name := range []string{"types.parquet", "types_v2.parquet", "types_gzip.parquet"} {
		table := must.Get(Open([]File{testFile(t, name)}, Options{Threads: 2}))(t)
		for _, c := range table.Columns() {
			rows := 0
			err := table.Read(context.Background(), []string{c.Name}, 2, func(b *Batch) error {
				v := &b.Columns[0]
				if v.Type != c.Type || v.Unit != c.Unit || v.Len() != b.Rows {
					t.Errorf("%s: %s holds %d values of type %s (%s), want those of its column, %s (%s)", name, c.Name,
						v.Len(), v.Type, v.Unit, c.Type, c.Unit)
				}
				for i := range b.Rows {
					if !sameAs(v, i, want[c.Name][rows]) {
						t.Errorf("%s: %s[%d] is %s, want %s", name, c.Name, rows, v.TextOf(i), want[c.Name][rows])
					}
					rows++
				}
				return nil
			})
			if _, known := want[c.Name]; known {
				if err != nil || rows != 4 {
					t.Errorf("%s: %s has %d rows, want 4: %v", name, c.Name, rows, err)
				}
				continue
			}
			if what := map[string]string{"list": "a list", "struct": "a struct", "map": "a map"}[c.Name]; err == nil ||
				!strings.Contains(err.Error(), fmt.Sprintf("column %q: is nested (%s), which cannot be a feature",
					c.Name, what)) {
				t.Errorf("%s: nested column %s: got error %v; want one that names column and kind", name, c.Name, err)
			}
		}
	}
}

// TestParquetKinds: each type of Parquet becomes a type that can hold its values. Those that only a text can hold are
// untyped, so that staging may take them for numbers.
func TestParquetKinds(t *testing.T) {
	table := must.Get(Open([]File{testFile(t, "types.parquet")}, Options{}))(t)
	want := map[string]Column{
		"bool": {Type: dataset.Bool}, "uint32": {Type: dataset.Int}, "uint64": {Type: dataset.Text, Untyped: true},
		"half":   {Type: dataset.Float},
		"string": {Type: dataset.Text}, "date32": {Type: dataset.Time, Unit: dataset.Day},
		"date64": {Type: dataset.Time, Unit: dataset.Day}, "us": {Type: dataset.Time, Unit: dataset.Micro},
		"time32": {Type: dataset.Int}, "dec9": {Type: dataset.Float}, "dec18": {Type: dataset.Int},
		"dec38": {Type: dataset.Text, Untyped: true}, "dec38s": {Type: dataset.Float},
	}
	for _, c := range table.Columns() {
		if w, ok := want[c.Name]; ok {
			w.Name = c.Name
			if c != w {
				t.Errorf("%+v, want %+v", c, w)
			}
			delete(want, c.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("the file lacks the columns %v, want all", want)
	}
}

// TestParquetInt96: times of 96 bits are read to the microsecond, before 1970 and in the year 9999, too. The extremes
// of nanoseconds and days are right or an error, never another time.
func TestParquetInt96(t *testing.T) {
	_, cells, err := readAll([]File{testFile(t, "int96.parquet")}, dataset.CSVSpec{}, 3)
	if got := fmt.Sprint(cells); err != nil ||
		got != "[[2017-07-02T12:53:20Z] [<null>] [1969-12-31T23:59:59.999999Z] [1970-01-01T00:00:00Z]]" {
		t.Errorf("times of 96 bits are read as %s, %v, expected those before 1970 and null, too", got, err)
	}
	_, cells, err = readAll([]File{testFile(t, "int96_far.parquet")}, dataset.CSVSpec{}, 3)
	if got := fmt.Sprint(cells[0]); err != nil || !strings.HasPrefix(got, "[9999-12-3") { // make.py wrote 9999-12-31
		t.Errorf("a time of the year 9999 is read as %s, %v; want that year", got, err)
	}

	// A time of 96 bits is nanoseconds within a day and the number of a day, of which 2440588 is 1970-01-01. It becomes
	// microseconds, rounded down. The nanoseconds may be more than a day has.
	for _, tc := range []struct {
		nanos int64
		day   uint32
		want  int64
	}{
		{0, 0, -2440588 * 86400e6}, {math.MaxInt64, 2440588 + 106_000_000, 106_000_000*86400e6 + math.MaxInt64/1000},
		{-1, 2440588, -1}, {-1000, 2440588, -1}, {math.MinInt64, 0, -2440588*86400e6 - math.MaxInt64/1000 - 1},
	} {
		v := binary.LittleEndian.AppendUint64(nil, uint64(tc.nanos))
		v = binary.LittleEndian.AppendUint32(v, tc.day)
		if got, msg := readInt96(v); msg != "" || got != tc.want {
			t.Errorf("%d ns of day %d are %d us %s, expected %d", tc.nanos, tc.day, got, msg, tc.want)
		}
		binary.LittleEndian.PutUint32(v[8:], 1<<31)
		if got, msg := readInt96(v); msg == "" {
			t.Errorf("day 2^31 was read as %d us, expected a message", got)
		}
	}
}

// TestParquetFilesOfDays: pandas may write a column in another type from one day to the next: whole numbers and others,
// a column of nulls, times in another unit, a new column. They are read in a type that holds all of it. A value that
// does not fit that type is an error that names it.
func TestParquetFilesOfDays(t *testing.T) {
	// file writes a Parquet file of two rows.
	type column struct {
		name string
		v    dataset.Values
	}
	file := func(name string, columns ...column) File {
		var out bytes.Buffer
		var cols []Column
		b := &Batch{Rows: 2}
		for _, c := range columns {
			cols = append(cols, Column{Name: c.name, Type: c.v.Type, Unit: c.v.Unit})
			b.Names, b.Columns = append(b.Names, c.name), append(b.Columns, c.v)
		}
		w := must.Get(NewParquetWriter(&out, cols, Snappy))(t)
		must.Do(t, errors.Join(w.Write(b), w.Close()))
		return writeFile(t, name, out.String())
	}
	ints := func(n ...int64) dataset.Values { return dataset.Values{Type: dataset.Int, Int: n} }
	floats := func(x ...float64) dataset.Values { return dataset.Values{Type: dataset.Float, Float: x} }
	texts := func(s ...string) dataset.Values { return dataset.Values{Type: dataset.Text, Text: s} }
	times := func(u dataset.Unit, n ...int64) dataset.Values {
		return dataset.Values{Type: dataset.Time, Unit: u, Int: n}
	}
	bools := func(n ...int64) dataset.Values { return dataset.Values{Type: dataset.Bool, Int: n} }
	none := floats(math.NaN(), math.NaN())
	day, second := times(dataset.Day, 20000, 20001), int64(20000*86400+7)
	for _, c := range []struct {
		name         string
		first, other dataset.Values
		want         []string // of both files, or an error that says what does not fit
	}{
		{"int and float", ints(1, 2), floats(0.5, 3), []string{"1", "2", "0.5", "3"}},
		{"a whole number that no float has", ints(2, 1<<53+1), floats(0.5, 3), []string{"9007199254740993"}},
		{"nulls and texts", none, texts("a", "b"), []string{"<null>", "<null>", "a", "b"}},
		{"texts and nulls", texts("a", "b"), none, []string{"a", "b", "<null>", "<null>"}},
		{"numbers and texts", floats(1, 2), texts("a", "b"), []string{""}},
		{"whole numbers and their texts", ints(1, 2), texts("1", "2"), []string{""}},
		{"0, 1 and true", ints(0, 1), bools(1, 0), []string{"false", "true", "true", "false"}},
		{"false and 1.0", bools(0, 0), floats(1, math.NaN()), []string{"false", "false", "true", "<null>"}},
		{"nulls and true", none, bools(1, 1), []string{"<null>", "<null>", "true", "true"}},
		{"true and 2", bools(1, 0), ints(1, 2), []string{"2"}},
		{"nulls and times", none, times(dataset.Nano, second*1e9, 0), []string{"<null>", "<null>",
			"2024-10-04T00:00:07Z", "1970-01-01T00:00:00Z"}},
		{"ms and ns", times(dataset.Milli, second*1e3, -1), times(dataset.Nano, 1, 2), []string{"2024-10-04T00:00:07Z",
			"1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000000001Z", "1970-01-01T00:00:00.000000002Z"}},
		{"days and us", day, times(dataset.Micro, 5e6, 0), []string{"2024-10-04T00:00:00Z", "2024-10-05T00:00:00Z",
			"1970-01-01T00:00:05Z", "1970-01-01T00:00:00Z"}},
		{"days that no ns has", times(dataset.Day, 2932896, 0), times(dataset.Nano, 1, 2), []string{"9999-12-31"}},
	} {
		files := []File{file("1.parquet", column{"x", c.first}), file("2.parquet", column{"x", c.other},
			column{"new", ints(8, 9)})}
		names, cells, err := readAll(files, dataset.CSVSpec{}, 2)
		if len(c.want) == 1 {
			why := c.want[0]
			if why != "" {
				why = ", where " + why + " does not fit"
			}
			if err == nil || !strings.Contains(err.Error(), `column "x": is`) || !strings.Contains(err.Error(),
				".parquet"+why+"; write all") || strings.Count(err.Error(), "1.parquet") != 1 {
				t.Errorf("%s: got %v %v, expected an error about x in two files%s", c.name, cells, err, why)
			}
			continue
		}
		var got, added []string
		for _, row := range cells {
			got, added = append(got, row[0]), append(added, row[1])
		}
		if err != nil || !slices.Equal(got, c.want) || !slices.Equal(names, []string{"x", "new"}) ||
			!slices.Equal(added, []string{"<null>", "<null>", "8", "9"}) {
			t.Errorf("%s: got %v: %v and %v, error %v; expected %v, and new", c.name, names, got, added, err, c.want)
		}
	}

	// A column that is not in the second file.
	gone := []File{file("1.parquet", column{"x", ints(1, 2)}, column{"y", ints(1, 2)}), file("2.parquet",
		column{"x", ints(1, 2)})}
	const missing = `2.parquet: column "y": missing here`
	_, err := Open(gone, Options{})
	must.Say(t, "a column that is gone", err, missing)

	// The type that does not go with the third file's is that of the second: numbers go with both.
	apart := []File{file("1.parquet", column{"x", ints(1, 2)}), file("2.parquet", column{"x", texts("1", "2")}),
		file("3.parquet", column{"x", bools(0, 1)})}
	_, err = Open(apart, Options{})
	must.Say(t, "a third type", err, `3.parquet: column "x": is bool here and text in 2.parquet;`)
}

// TestTruncatedParquet: a file that is cut off, at the end or anywhere (here every 97 bytes), is an error that says so.
func TestTruncatedParquet(t *testing.T) {
	data := must.Get(os.ReadFile("testdata/types/types.parquet"))(t)
	for n := len(data) - 1; n > 4; n -= 97 {
		_, _, err := readAll([]File{writeFile(t, "t.parquet", string(data[:n]))}, dataset.CSVSpec{}, 3)
		var e *InputError
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "t.parquet: not a complete Parquet file: ") {
			t.Fatalf("the first %d bytes: %v; want that the file is not complete", n, err)
		}
	}
}

// flippedParquet reads all readable columns of a damaged file. The test fails unless that gives rows or an *InputError.
func flippedParquet(t *testing.T, data []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.parquet")
	must.Do(t, os.WriteFile(path, data, 0o666))
	table, err := Open([]File{{URI: "t.parquet", Path: path, Bytes: int64(len(data))}}, Options{Threads: 2})
	var e *InputError
	if err != nil {
		if !errors.As(err, &e) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
		return
	}
	var names []string
	for _, c := range table.Columns() {
		if c.Unreadable == "" {
			names = append(names, c.Name)
		}
	}
	rows, enough := 0, errors.New("enough rows")
	err = table.Read(context.Background(), names, 2, func(b *Batch) error {
		for i := range b.Columns {
			if b.Columns[i].Len() != b.Rows {
				t.Fatalf("%d values of %s in %d rows, want as many", b.Columns[i].Len(), b.Names[i], b.Rows)
			}
		}
		if rows += b.Rows; rows > 1000 {
			return enough
		}
		return nil
	})
	if err != nil && !errors.As(err, &e) && !errors.Is(err, enough) {
		t.Fatalf("untyped error %T: %v", err, err)
	}
}

// TestFlippedParquet: a file with a wrong byte gives rows or an error, and never ends the program.
func TestFlippedParquet(t *testing.T) {
	long(t)
	for _, name := range []string{"types.parquet", "types_v2.parquet"} {
		data := must.Get(os.ReadFile(filepath.Join("testdata", "types", name)))(t)
		for at := 4; at < len(data); at += 151 {
			bad := bytes.Clone(data)
			bad[at] ^= 0xff
			flippedParquet(t, bad)
		}
	}
}

// TestEveryFlippedByte: whatever one byte of a small file is changed to, reading the file takes at most 64 MB: a page
// that claims to be larger is refused before memory is taken for it. Bytes of the footer are left out, as the library
// reads them.
func TestEveryFlippedByte(t *testing.T) {
	long(t)
	var b bytes.Buffer
	w, err := NewParquetWriter(&b, []Column{{Name: "s", Type: dataset.Text}, {Name: "x", Type: dataset.Float}}, Plain)
	must.Do(t, err)
	batch := &Batch{Names: []string{"s", "x"}, Rows: 24,
		Columns: []dataset.Values{{Type: dataset.Text, Null: make([]bool, 24)}, {Type: dataset.Float}}}
	for i := range batch.Rows {
		batch.Columns[0].Text = append(batch.Columns[0].Text, fmt.Sprint("k", i%5))
		batch.Columns[0].Null[i] = i%7 == 3
		batch.Columns[1].Float = append(batch.Columns[1].Float, float64(i%3))
	}
	must.Do(t, errors.Join(w.Write(batch), w.Close()))
	good := b.Bytes()
	tail := len(good) - 8 - int(binary.LittleEndian.Uint32(good[len(good)-8:])) // where the footer begins
	var before, after runtime.MemStats
	for at := 4; at < tail; at++ {
		for _, value := range []byte{good[at] ^ 1, good[at] + 2, good[at] ^ 0x80, 31, 0xff} {
			bad := bytes.Clone(good)
			bad[at] = value
			runtime.ReadMemStats(&before)
			flippedParquet(t, bad)
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 64<<20 {
				t.Errorf("byte %d changed from %#x to %#x: reading took %d MB, want at most 64", at, good[at], value,
					(after.TotalAlloc-before.TotalAlloc)>>20)
			}
		}
	}
}

// FuzzParquet: whatever the bytes of a file, reading it gives rows or an *InputError.
func FuzzParquet(f *testing.F) {
	for _, name := range []string{"types/int96.parquet", "types/types_v2.parquet", "foreign/pyarrow-split-v2.parquet",
		"foreign/pyarrow-delta.parquet", "foreign/duckdb-v2.parquet"} {
		data := must.Get(os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name))))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<16 {
			return
		}
		flippedParquet(t, data)
	})
}

// writerColumns returns a column of each type that can be written.
func writerColumns() []Column {
	return []Column{
		{Name: "text", Type: dataset.Text}, {Name: "float", Type: dataset.Float}, {Name: "int", Type: dataset.Int},
		{Name: "bool", Type: dataset.Bool},
		{Name: "day", Type: dataset.Time, Unit: dataset.Day}, {Name: "ms", Type: dataset.Time, Unit: dataset.Milli},
		{Name: "us", Type: dataset.Time, Unit: dataset.Micro}, {Name: "ns", Type: dataset.Time, Unit: dataset.Nano},
	}
}

// writerBatch returns so many rows of writerColumns, from row number first on, with nulls.
func writerBatch(first, rows int) *Batch {
	b := &Batch{Rows: rows}
	for k, c := range writerColumns() {
		v := dataset.Values{Type: c.Type, Unit: c.Unit}
		for i := first; i < first+rows; i++ {
			v.Null = append(v.Null, (i+k)%5 == 0)
			n := int64(i * (k + 3) % 1000)
			switch c.Type {
			case dataset.Text:
				v.Text = append(v.Text, fmt.Sprintf("t\"%d,\n", n))
			case dataset.Float:
				v.Float = append(v.Float, float64(n)/8)
			case dataset.Bool:
				v.Int = append(v.Int, n%2)
			default:
				v.Int = append(v.Int, n-500)
			}
		}
		b.Names, b.Columns = append(b.Names, c.Name), append(b.Columns, v)
	}
	return b
}

// TestParquetWriterRoundTrip: what was written with each codec is read back the same, in types and values, from more
// than one row group.
func TestParquetWriterRoundTrip(t *testing.T) {
	long(t)
	for _, codec := range []Codec{Snappy, Zstd, Plain} {
		var buf bytes.Buffer
		w := must.Get(NewParquetWriter(&buf, writerColumns(), codec))(t)
		const rows = groupRows + 1000 // two row groups
		for first := 0; first < rows; first += 50_000 {
			must.Do(t, w.Write(writerBatch(first, min(50_000, rows-first))))
		}
		must.Do(t, w.Close())
		table := must.Get(Open([]File{writeFile(t, "t.parquet", buf.String())}, Options{Threads: 2}))(t)
		names := make([]string, 0, 8)
		for i, c := range table.Columns() {
			must.Equal(t, c, writerColumns()[i], "%s: read", codec)
			names = append(names, c.Name)
		}
		next := 0
		err := table.Read(context.Background(), names, 7000, func(b *Batch) error {
			want := writerBatch(next, b.Rows)
			for j := range b.Columns {
				for i := range b.Rows {
					g, w := &b.Columns[j], &want.Columns[j]
					if g.IsNull(i) != w.IsNull(i) || !g.IsNull(i) && g.TextOf(i) != w.TextOf(i) {
						return fmt.Errorf("row %d of %s is %s, null: %t; want %s, null: %t", next+i, b.Names[j],
							g.TextOf(i), g.IsNull(i), w.TextOf(i), w.IsNull(i))
					}
				}
			}
			next += b.Rows
			return nil
		})
		if err != nil || next != rows {
			t.Errorf("%s: read %d rows, error %v; want the %d that were written", codec, next, err, rows)
		}
	}
}

// TestWritersRefuse: what cannot be written is an error: an unknown codec, a quote as delimiter, a batch without one of
// the columns, and a day that does not fit. An error of the caller's writer is returned as it is.
func TestWritersRefuse(t *testing.T) {
	if _, err := NewParquetWriter(&bytes.Buffer{}, writerColumns(), "lzo"); err == nil {
		t.Error("the codec lzo is taken, want an error")
	}
	if _, err := NewCSVWriter(&bytes.Buffer{}, writerColumns(), '"'); err == nil {
		t.Error("a quote is taken as a delimiter, want an error")
	}
	w := must.Get(NewParquetWriter(&bytes.Buffer{}, writerColumns(), Snappy))(t)
	c := must.Get(NewCSVWriter(&bytes.Buffer{}, writerColumns(), ','))(t)
	b := writerBatch(0, 3)
	b.Names[2] = "other"
	var e *InputError
	for _, err := range []error{w.Write(b), c.Write(b)} {
		if !errors.As(err, &e) || e.Column != "int" {
			t.Errorf("a batch with another column in its place: got error %v; want one about column int", err)
		}
	}
	b = writerBatch(0, 3)
	b.Columns[4].Int[1], b.Columns[4].Null = math.MaxInt64, nil
	err := w.Write(b)
	must.Say(t, "a date out of range", err, "does not fit a Parquet date")

	// A writer that fails.
	full := errors.New("disk full")
	w, err = NewParquetWriter(failingWriter{full}, writerColumns(), Snappy)
	if err == nil {
		err = errors.Join(w.Write(writerBatch(0, 3)), w.Close())
	}
	if !errors.Is(err, full) {
		t.Errorf("writing to a full disk: got error %v; want the disk's", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCSVWriterRoundTrip: what was written as delimited text is read back the same, whatever characters it has. So are
// empty texts in a table of one column, although empty lines are skipped.
func TestCSVWriterRoundTrip(t *testing.T) {
	var buf bytes.Buffer
	w := must.Get(NewCSVWriter(&buf, writerColumns(), ';'))(t)
	want := writerBatch(0, 5000)
	must.Do(t, w.Write(want))
	_, cells, err := readAll([]File{writeFile(t, "t.csv", buf.String())}, dataset.CSVSpec{Delimiter: ";"}, 700)
	if err != nil || len(cells) != want.Rows {
		t.Fatalf("%d rows are read back, %v, expected the %d written", len(cells), err, want.Rows)
	}
	for i, row := range cells {
		for j := range row {
			text := want.Columns[j].TextOf(i)
			if want.Columns[j].IsNull(i) {
				text = ""
			}
			if row[j] != text {
				t.Fatalf("row %d, column %d: %q, want %q", i, j, row[j], text)
			}
		}
	}
	buf.Reset()
	one := []Column{{Name: "only", Type: dataset.Text}}
	w = must.Get(NewCSVWriter(&buf, one, ','))(t)
	must.Do(t, w.Write(&Batch{Names: []string{"only"},
		Columns: []dataset.Values{{Type: dataset.Text, Text: []string{"a", "", "b"}}}, Rows: 3}))
	if _, cells, err := readAll([]File{writeFile(t, "t.csv", buf.String())}, dataset.CSVSpec{}, 9); err != nil ||
		fmt.Sprint(cells) != "[[a] [] [b]]" {
		t.Errorf("one column is read back as %v, %v, expected a, nothing and b", cells, err)
	}
}

// TestParquetColumnsShareABuffer: columns share the memory for packed pages. When each kept its own, that was half of
// the memory of staging.
func TestParquetColumnsShareABuffer(t *testing.T) {
	long(t)
	const columns, rows = 32, 1 << 16 // pages of half a megabyte
	rng := rand.New(rand.NewPCG(7, 1))
	b := &Batch{Rows: rows}
	var cols []Column
	for i := range columns {
		c := Column{Name: fmt.Sprint("x", i), Type: dataset.Float}
		v := dataset.Values{Type: dataset.Float, Float: make([]float64, rows)}
		for j := range v.Float {
			v.Float[j] = rng.Float64()
		}
		cols, b.Names, b.Columns = append(cols, c), append(b.Names, c.Name), append(b.Columns, v)
	}
	var out bytes.Buffer
	w := must.Get(NewParquetWriter(&out, cols, Snappy))(t)
	must.Do(t, errors.Join(w.Write(b), w.Close()))
	table := must.Get(Open([]File{writeFile(t, "wide.parquet", out.String())}, Options{}))(t)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := table.Read(t.Context(), b.Names, 1024, func(*Batch) error { return nil })
	runtime.ReadMemStats(&after)
	took := (after.TotalAlloc - before.TotalAlloc) / columns
	// A page, its dictionary and a part of each batch are 1.2 MB; another packed page would be half a megabyte more.
	if err != nil || took > 1_500_000 {
		t.Errorf("a column with pages of half a megabyte took %d bytes, error %v; want up to 1,500,000", took, err)
	}
}
