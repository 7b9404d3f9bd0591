package table

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// writeFile writes a table into a new temporary folder. Its URI is the name alone.
func writeFile(t testing.TB, name, contents string) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(contents), 0o666))
	return File{URI: name, Path: path, Bytes: int64(len(contents))}
}

// readAll reads a whole table in batches of so many rows, and returns the names of its columns and its cells as texts,
// row by row. A null is "<null>".
func readAll(files []File, form dataset.CSVSpec, rows int) (names []string, cells [][]string, err error) {
	t, err := Open(files, Options{CSV: form, Threads: 2})
	if err != nil {
		return nil, nil, err
	}
	for _, c := range t.Columns() {
		names = append(names, c.Name)
	}
	next := int64(0)
	err = t.Read(context.Background(), names, rows, func(b *Batch) error {
		if b.First != next {
			return errors.New("batches do not follow each other")
		}
		next += int64(b.Rows)
		for i := range b.Rows {
			row := make([]string, len(names))
			for j := range b.Columns {
				row[j] = "<null>"
				if !b.Columns[j].IsNull(i) {
					row[j] = b.Columns[j].TextOf(i)
				}
			}
			cells = append(cells, row)
		}
		return nil
	})
	return names, cells, err
}

// packed returns s compressed with gzip or zstd.
func packed(t *testing.T, how, s string) string {
	t.Helper()
	var b bytes.Buffer
	switch how {
	case "gzip":
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(s))
		must.Do(t, errors.Join(err, w.Close()))
	case "zstd":
		w := must.Get(zstd.NewWriter(&b))(t)
		_, err := w.Write([]byte(s))
		must.Do(t, errors.Join(err, w.Close()))
	}
	return b.String()
}

// TestCSVForms: the same table of three rows is read the same in every form of delimited text, in batches of any size.
func TestCSVForms(t *testing.T) {
	no := false
	want := [][]string{{"1", "x,y", ""}, {"2", `say "hi"`, "ü"}, {"3", "two\nlines", "z"}}
	plain := "a,b,c\n1,\"x,y\",\n2,\"say \"\"hi\"\"\",ü\n3,\"two\nlines\",z\n"
	for name, tc := range map[string]struct {
		file, text string
		csv        dataset.CSVSpec
		names      []string
	}{
		"plain":           {"t.csv", plain, dataset.CSVSpec{}, nil},
		"no end":          {"t.csv", strings.TrimSuffix(plain, "\n"), dataset.CSVSpec{}, nil},
		"byte order mark": {"t.csv", "\ufeff" + plain, dataset.CSVSpec{}, nil},
		"carriage returns": {"t.csv", strings.ReplaceAll(strings.ReplaceAll(plain, "\n", "\r\n"), "two\r\n", "two\n"),
			dataset.CSVSpec{}, nil},
		"empty lines": {"t.csv", strings.ReplaceAll(plain, "\n2", "\n\n\n2"), dataset.CSVSpec{}, nil},
		"semicolons":  {"t.csv", strings.ReplaceAll(plain, "x,y", "x#y"), dataset.CSVSpec{}, nil},
		"gzip":        {"t.csv.gz", packed(t, "gzip", plain), dataset.CSVSpec{}, nil},
		"two gzip members": {"t.csv.gz", packed(t, "gzip", plain[:20]) + packed(t, "gzip", plain[20:]),
			dataset.CSVSpec{}, nil},
		"zstd":              {"t.csv.zst", packed(t, "zstd", plain), dataset.CSVSpec{}, nil},
		"gzip without name": {"t.csv", packed(t, "gzip", plain), dataset.CSVSpec{}, nil},
		"tabs by name": {"t.tsv.gz",
			packed(t, "gzip", "a\tb\tc\n1\tx,y\t\n2\t\"say \"\"hi\"\"\"\tü\n3\t\"two\nlines\"\tz\n"), dataset.CSVSpec{},
			nil},
		"other delimiter": {"t.csv", "a;b;c\n1;x,y;\n2;\"say \"\"hi\"\"\";ü\n3;\"two\nlines\";z\n",
			dataset.CSVSpec{Delimiter: ";"}, nil},
		"wide delimiter": {"t.csv", "a→b→c\n1→x,y→\n2→\"say \"\"hi\"\"\"→ü\n3→\"two\nlines\"→z\n",
			dataset.CSVSpec{Delimiter: "→"}, nil},
		"no header": {"t.csv", plain[6:], dataset.CSVSpec{Header: &no}, []string{"c0", "c1", "c2"}},
		"zeros after gzip": {"t.csv.gz", packed(t, "gzip", plain) + strings.Repeat("\x00", 700), dataset.CSVSpec{},
			nil},
		"zeros in gzip": {"t.csv.gz", packed(t, "gzip", plain[:20]) + "\x00\x00" + packed(t, "gzip", plain[20:]),
			dataset.CSVSpec{}, nil},
		"spaces in header": {"t.csv", strings.Replace(plain, "a,b,c", "a, b,\tc ", 1), dataset.CSVSpec{}, nil},
		"no quotes": {"t.csv", "a→b→c\r\n\r\n1→x,y→\n2→say \"hi\"→ü\n3→two lines→z",
			dataset.CSVSpec{Delimiter: "→", Quote: "none"}, nil},
		"unnamed column": {"t.csv", strings.Replace(plain, "a,", ",", 1), dataset.CSVSpec{},
			[]string{"c0", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := want
			// Two forms cannot hold all characters of the table.
			if name == "semicolons" {
				want = [][]string{{"1", "x#y", ""}, want[1], want[2]}
			}
			if name == "no quotes" {
				want = [][]string{want[0], want[1], {"3", "two lines", "z"}}
			}
			if tc.names == nil {
				tc.names = []string{"a", "b", "c"}
			}
			for _, rows := range []int{1, 2, 100} {
				names, got, err := readAll([]File{writeFile(t, tc.file, tc.text)}, tc.csv, rows)
				if err != nil || !reflect.DeepEqual(names, tc.names) || !reflect.DeepEqual(got, want) {
					t.Errorf("in batches of %d: got columns %q, cells %q, error %v; want columns %q, cells %q", rows,
						names, got, err, tc.names, want)
				}
			}
		})
	}
}

// TestCSVErrorsNameThePlace: text that is not a table is an error that names the file and, as far as there is one, the
// line, and says what is wrong. After the rows of many, an error comes in line 100,002; endless has a quote that is
// never closed.
func TestCSVErrorsNameThePlace(t *testing.T) {
	long(t)
	endless := "a,b\n1,\"" + strings.Repeat("x,y\n", maxRecord/4+200_000)
	many := "a,b\n" + strings.Repeat("1,2\n", 100_000)
	for name, tc := range map[string]struct{ file, text, want string }{
		"empty":           {"t.csv", "", "t.csv: the file is empty"},
		"only empty rows": {"t.csv", "\n\n", "t.csv: the file is empty"},
		"ragged":          {"t.csv", "a,b\n1,2\n3\n", "t.csv:3: 1 field where the first line has 2"},
		"ragged late":     {"t.csv", many + "1,2,3\n", "t.csv:100002: 3 fields where the first line has 2"},
		"joined":          {"t.csv", many + "a,b\n1,2\n", "t.csv:100002: the header again, as in files"},
		"stray quote":     {"t.csv", "a,b\n1,x\"y\n", "t.csv:2: a misplaced quote at character 4"},
		"quote and more": {"t.csv", "a,b\n1,\"x\ny\"z\n",
			"t.csv:3: a misplaced quote at character 2: quote whole fields, and double the quotes in them, or " +
				"turn quoting off (csv: {quote: none} in a dataset.yaml, --quote none of `launcher predict`); the " +
				"row begins in line 2"},
		"open quote":    {"t.csv", "a,b\n1,\"x\n", "a misplaced quote"},
		"endless quote": {"t.csv", endless, "a row of more than 16777216 bytes; is a quote never closed?"},
		"NUL": {"t.csv", "a,b\n1,2\n1,\x00\n",
			"t.csv:3: a NUL byte; this is not a text file, or a damaged one"},
		"all NUL": {"t.csv", strings.Repeat("\x00", 4096), "t.csv:1: a NUL byte"},
		"not UTF-8": {"t.csv", many + "1,caf\xe9\n",
			"t.csv:100002: the byte 0xe9 is not UTF-8 (in Latin-1 it is é); convert the file to UTF-8: iconv -f"},
		"UTF-16": {"t.csv", "\xff\xfea\x00,\x00",
			"t.csv:1: text in UTF-16; convert it to UTF-8: iconv -f UTF-16"},
		"UTF-16 without a mark": {"t.csv", "a\x00,\x00b\x00\n\x00", "t.csv:1: text in UTF-16; convert"},
		"UTF-16, big end first": {"t.csv", "\x00a\x00,\x00b\x00\n", "t.csv:1: text in UTF-16; convert"},
		"name twice":            {"t.csv", "a,b,a\n", `t.csv: column "a": columns 1 and 3 have this name; rename one`},
		"control in name": {"t.csv", "a,b\x01\n",
			`t.csv: column 2: column name "b\x01" holds the control character '\x01'`},
		"cut gzip": {"t.csv.gz", packed(t, "gzip", many)[:300],
			"t.csv.gz: the file cannot be read to its end; it may be truncated: unexpected EOF"},
		"bad gzip": {"t.csv.gz", "\x1f\x8bxyz", "t.csv.gz: not a gzip file, or truncated"},
		"cut zstd": {"t.csv.zst", packed(t, "zstd", many)[:20],
			"t.csv.zst: the file cannot be read to its end; it may be truncated"},
		"bad gzip sum": {"t.csv.gz", packed(t, "gzip", many)[:len(packed(t, "gzip", many))-6] + "xxxxxx",
			"t.csv.gz: the file cannot be read to its end"},
		"cut gzip, quoted": {"t.csv.gz", packed(t, "gzip", "a,b\n1,\""+many)[:300],
			"t.csv.gz: the file cannot be read to its end; it may be truncated: unexpected EOF"},
		"zeros and more": {"t.csv.gz", packed(t, "gzip", many) + "\x00\x00x",
			"t.csv.gz: the file cannot be read to its end"},
		"xz": {"t.csv.xz", "\xfd7zXZ\x00\x00\x04",
			"t.csv.xz: compressed with xz, which is not supported; decompress it, or use gzip or zstd"},
		"bzip2": {"t.csv.bz2", "BZh91AY&SY\x01\x02", "t.csv.bz2: compressed with bzip2, which"},
		"ZIP": {"t.csv", "PK\x03\x04\x14\x00",
			"t.csv: compressed with ZIP, as spreadsheets are, too, which"},
		"only BZh":     {"t.csv", "BZh9,b\n1\n", "t.csv:2: 1 field where the first line has 2"},
		"first of two": {"t.csv", "a,b\n1,2,3\n\x00", "t.csv:2: 3 fields"},
		"not Parquet": {"t.parquet", "a,b\n1,2\n",
			`t.parquet: the name says Parquet, but the file begins with "a,b\n", not PAR1`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := readAll([]File{writeFile(t, tc.file, tc.text)}, dataset.CSVSpec{}, 1000)
			must.SayAs[*InputError](t, "reading "+tc.file, err, tc.want)
		})
	}
}

// dribble reads at most n bytes at a time, as decompressors do.
type dribble struct {
	r io.Reader
	n int
}

func (d *dribble) Read(p []byte) (int, error) { return d.r.Read(p[:min(len(p), d.n)]) }

// TestLinesAroundTheBuffer: cleanReader loses nothing at the ends of its buffer, wherever characters and rows lie
// around them, and whatever sizes of reads its own reader and its user choose. The texts shift a long cell of
// three-byte characters over the end of the buffer, byte by byte.
func TestLinesAroundTheBuffer(t *testing.T) {
	long(t)
	for i := range 40 {
		before := "t,x\n" + strings.Repeat("p,1\n", i) + strings.Repeat("q", i%5)
		cell := strings.Repeat("中", (cleanBytes-len(before))/3+i%9-4) + "é"
		text := before + cell + ",2\n" + strings.Repeat("中", cleanBytes/2) + ",3\n"
		for _, piece := range []int{cleanBytes, 100_003, 1 + i%7*10_000} {
			c := &cleanReader{r: &dribble{strings.NewReader(text), piece}, uri: "t.csv", line: 1, limit: maxRecord}
			got, err := io.ReadAll(bufio.NewReaderSize(c, cleanBytes))
			if err != nil || string(got) != text {
				t.Fatalf("text %d, read in pieces of %d: got %d bytes, error %v; want the text of %d bytes", i, piece,
					len(got), err, len(text))
			}
		}
		rows, err := csv.NewReader(bufio.NewReaderSize(&cleanReader{r: strings.NewReader(text), line: 1,
			limit: maxRecord}, cleanBytes)).ReadAll()
		// The rows are the header, i short ones, the one with the long cell, and one more.
		if err != nil || len(rows) != i+3 || !strings.HasSuffix(rows[i+1][0], cell) {
			t.Fatalf("text %d as CSV: got %d rows, error %v; want %d, with the long cell whole", i, len(rows), err, i+3)
		}
	}

	// Single bytes on both sides, and a byte order mark.
	text := "a,中é\n"
	got, err := io.ReadAll(iotest.OneByteReader(&cleanReader{r: iotest.OneByteReader(strings.NewReader("\ufeff" +
		text)), line: 1, limit: maxRecord}))
	if err != nil || string(got) != text {
		t.Errorf("byte by byte: %q %v; want the text without its mark", got, err)
	}
}

// TestSeveralFiles: several files are one table, in which columns belong together by name, whatever their order. A
// column that a later file adds is null in the files before; a column that a later file lacks is an error. Reading
// stops with the error of the callback or of the context.
func TestSeveralFiles(t *testing.T) {
	first := writeFile(t, "1.csv", "a,b\n1,x\n2,y\n")
	names, cells, err := readAll([]File{first, writeFile(t, "2.csv", "b,a\nz,3\n")}, dataset.CSVSpec{}, 10)
	if want := [][]string{{"1", "x"}, {"2", "y"}, {"3", "z"}}; err != nil ||
		!reflect.DeepEqual(names, []string{"a", "b"}) || !reflect.DeepEqual(cells, want) {
		t.Errorf("several files: got columns %q, cells %q (error %v); want %q in columns a and b", names, cells, err,
			want)
	}
	names, cells, err = readAll([]File{first, writeFile(t, "2.csv", "c,b,a\n5,z,3\n")}, dataset.CSVSpec{}, 10)
	if want := [][]string{{"1", "x", "<null>"}, {"2", "y", "<null>"}, {"3", "z", "5"}}; err != nil ||
		!slices.Equal(names, []string{"a", "b", "c"}) || !reflect.DeepEqual(cells, want) {
		t.Errorf("a column that is new: got columns %q, cells %q (error %v); want %q", names, cells, err, want)
	}

	// Files that do not fit the first one.
	for text, want := range map[string]string{
		"a,bb\n1,2\n":  `2.csv: column "b": missing here, but present in 1.csv (the columns are: a, bb)`,
		"a,b,a\n1,2\n": `2.csv: column "a": columns 1 and 3 have this name; rename one`,
	} {
		_, _, err := readAll([]File{first, writeFile(t, "2.csv", text)}, dataset.CSVSpec{}, 10)
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}

	// Columns that are not there: up to ten are named, with those that were probably meant.
	table := must.Get(Open([]File{first}, Options{}))(t)
	many := strings.Fields("a x1 B x2 x3 x4 x5 x6 x7 x8 x9 x10 x11")
	for want, names := range map[string][]string{
		`1.csv: column "c": no such column (the columns are: a, b)`: {"c"},
		`1.csv: 12 columns are missing: "x1", "B" (did you mean "b"?), "x2", "x3", "x4", "x5", "x6", "x7", "x8", ` +
			`"x9" and 2 more (the columns are: a, b)`: many,
	} {
		if err = table.Read(context.Background(), names, 10, nil); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("columns %q:\ngot  %v\nwant %s", names, err, want)
		}
	}

	// Reading stops.
	stop := errors.New("enough")
	if err := table.Read(context.Background(), []string{"a"}, 1, func(*Batch) error { return stop }); !errors.Is(err,
		stop) {
		t.Errorf("the reader's callback fails: got error %v; want that of the callback", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := table.Read(ctx, []string{"a"}, 1, func(*Batch) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("reading after a cancellation: got error %v; want context.Canceled", err)
	}
}

// TestFormatsOfFilesWithMoreColumns: if a later file adds a column, the texts of columns with a format are read in all
// files, and the new column is null in the files before.
func TestFormatsOfFilesWithMoreColumns(t *testing.T) {
	table := must.Get(Open([]File{writeFile(t, "1.csv", "a;b\n1,5;x\n"), writeFile(t, "2.csv", "a;b;c\n2,5;y;3,5\n")},
		Options{}))(t)
	table.ReadAs(dataset.Formats{"a": dataset.DecimalComma, "c": dataset.DecimalComma},
		func(b *Batch, column int, _ dataset.Format) (dataset.Values, error) {
			v := &b.Columns[column]
			out := dataset.Values{Type: dataset.Float, Null: v.Null}
			for _, text := range v.Text { // an empty text is no number, and null
				x, _ := strconv.ParseFloat(strings.Replace(text, ",", ".", 1), 64)
				out.Float = append(out.Float, x)
			}
			return out, nil
		})
	var got []string
	err := table.Read(t.Context(), []string{"a", "b", "c"}, 10, func(b *Batch) error {
		for j := range b.Columns {
			if v := &b.Columns[j]; v.Len() == 0 || v.IsNull(0) {
				got = append(got, "-")
			} else {
				got = append(got, v.TextOf(0))
			}
		}
		return nil
	})
	if want := "[1.5 x - 2.5 y 3.5]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("two files: got %v, error %v; want %s", got, err, want)
	}
}

// TestExpand: a folder or a pattern gives the tables in it and below, sorted by name: b.csv before b/i.csv, which a
// walk through the folders finds first. Hidden and unfinished files are skipped, as are files that do not look like
// tables, unless they are named. No file is an error of kind NotFound.
func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.csv", "a.csv.gz", "c.parquet", "_SUCCESS.csv", ".hidden.csv", "README.md",
		"x[1].csv", "b/i.csv", "day/k=1/d.jsonl", "day/_temporary/e.csv", "day/f.txt", "day/.g/h.csv"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("a\n1\n"), 0o666))
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "sub.csv"), 0o777))
	for pattern, want := range map[string]string{
		"":                  "a.csv.gz b.csv i.csv c.parquet d.jsonl x[1].csv",
		"d*":                "d.jsonl",
		"day/_temp*/../k=1": "d.jsonl",
		"*.csv":             "b.csv x[1].csv",
		"?.csv*":            "a.csv.gz b.csv",
		"x[1].csv":          "x[1].csv",
		"README.md":         "README.md",
		"_SUCCESS.csv":      "_SUCCESS.csv",
	} {
		files, err := Expand(filepath.Join(dir, pattern))
		var got []string
		for _, f := range files {
			got = append(got, filepath.Base(f.URI))
			must.Equal(t, f.Bytes, 4, "%s: bytes", f.URI)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %q %v, want %s", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{"none.csv", "*.tsv", "sub.csv", "[", "*.md/x"} {
		_, err := Expand(filepath.Join(dir, pattern))
		if !problem.Is(err, problem.NotFound) {
			t.Errorf("%q: %v, want an error of the kind not found", pattern, err)
		}
	}
}

// TestUnquotedTextErrors: without quoting, every line is a row. An error names the right line although empty lines are
// skipped, and a row that is too long is an error.
func TestUnquotedTextErrors(t *testing.T) {
	long(t)
	for text, want := range map[string]string{
		"a,b\n\n1,\"2\n3\n":                          "t.csv:4: 1 field where the first line has 2",
		"a,b\n1," + strings.Repeat("x", maxRecord*2): "a row of more than 16777216 bytes",
		"a,b\n1,\xff\n":                              "t.csv:2: the byte 0xff is not UTF-8",
	} {
		_, _, err := readAll([]File{writeFile(t, "t.csv", text)}, dataset.CSVSpec{Quote: dataset.QuoteNone}, 100)
		must.SayAs[*InputError](t, fmt.Sprintf("%.40q without quotes", text), err, want)
	}
}

// FuzzCSV: whatever the bytes of a file, reading it ends with rows of valid text or with an *InputError.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,\"x,y\"\n2,\n"))
	f.Add([]byte("\ufeffa\tb\r\n1\t2\r\n"))
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xffKLN\xe1\x02\x00\x9f\x11\x9c\xa8\x04\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "t.csv")
		must.Do(t, os.WriteFile(path, data, 0o666))
		_, cells, err := readAll([]File{{URI: "t.csv", Path: path, Bytes: int64(len(data))}}, dataset.CSVSpec{}, 3)
		var e *InputError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
		for _, row := range cells {
			for _, cell := range row {
				if strings.ContainsRune(cell, 0) || !utf8.ValidString(cell) {
					t.Fatalf("got the cell %q, want UTF-8 without NUL", cell)
				}
			}
		}
	})
}

// long skips a test under -short, which the race detector runs with: it would see nothing that shorter tests do not
// show.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: run it without -short")
	}
}

// TestAWrongDelimiter: if the spec's delimiter is not the file's, an error about quotes or fields says that first. If
// the file's delimiter is the spec's, the error stays as it is.
func TestAWrongDelimiter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	header := false
	for text, want := range map[string]string{
		"1;\"a, b\";2\n3;\"c\";4\n": `t.csv:1: the file looks divided by ';', but the delimiter is said to be ',': a ` +
			`misplaced quote at character 3`,
		"1;a, b;2\n3;c;4\n": `t.csv:2: the file looks divided by ';', but the delimiter is said to be ',': 1 field ` +
			`where the first line has 2`,
		"1,\"a\"b,2\n": "t.csv:1: a misplaced quote at character 5",
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		o := Options{CSV: dataset.CSVSpec{Delimiter: ",", Header: &header}}
		table, err := Open([]File{{URI: path, Path: path, Bytes: int64(len(text))}}, o)
		if err == nil {
			err = table.Read(t.Context(), []string{"c0"}, 10, func(*Batch) error { return nil })
		}
		must.Say(t, fmt.Sprintf("%q with the delimiter ','", text), err, want)
	}
}

// checkLines fails the test unless lineRecords gives the same records, lines, positions and errors as csv.Reader, up to
// the first error. The small buffer makes lines longer than it. read is the number of records; quoted says whether a
// quote was met.
func checkLines(t *testing.T, text string, comma rune, fields int) (read int, quoted bool) {
	t.Helper()
	want := csv.NewReader(strings.NewReader(text))
	want.Comma, want.FieldsPerRecord = comma, fields
	got := &lineRecords{r: bufio.NewReaderSize(strings.NewReader(text), 16), comma: comma, quoted: true, fields: fields}
	for {
		a, errA := got.Read()
		b, errB := want.Read()
		if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() || !slices.Equal(a, b) {
			t.Fatalf("%q divided by %q: got %q, %v in record %d, want %q, %v", text, comma, a, errA, read, b, errB)
		}
		if errA != nil {
			if !errors.Is(errA, io.EOF) {
				read++
			}
			return read, got.rest != nil // lineRecords hands over to a csv.Reader at the first quote
		}
		lineA, _ := got.FieldPos(0)
		lineB, _ := want.FieldPos(0)
		if lineA != lineB || got.InputOffset() != want.InputOffset() {
			t.Fatalf("%q divided by %q: record %d is in line %d and ends at %d, want %d and %d", text, comma, read,
				lineA, got.InputOffset(), lineB, want.InputOffset())
		}
		read++
	}
}

// TestLineRecords: lineRecords agrees with csv.Reader on random texts, half of which have no quotes. Enough of the
// texts must have several rows for that to mean something.
func TestLineRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 3))
	pieces := []string{"a", "bc", "é", ",", ",", "\t", "中", "\n", "\n", "\r\n", "\r", "\"", "\"\"", "x,y\n",
		"\"q,\n\",z\n", "1,2\n", "3,4\r\n"}
	read, whole := 0, 0
	for range 20_000 {
		var text strings.Builder
		of := pieces
		if rng.IntN(2) == 0 {
			of = slices.DeleteFunc(slices.Clone(pieces), func(s string) bool { return strings.Contains(s, `"`) })
		}
		for range rng.IntN(12) {
			text.WriteString(of[rng.IntN(len(of))])
		}
		n, quoted := checkLines(t, text.String(), []rune{',', '\t', '中'}[rng.IntN(3)], rng.IntN(3))
		read += n
		if !quoted && n > 1 {
			whole++
		}
	}
	if read < 20_000 || whole < 2_000 {
		t.Errorf("%d records were read, and %d texts without a quote; want 20,000 and 2,000", read, whole)
	}
}

// FuzzLineRecords: lineRecords agrees with csv.Reader on any text.
func FuzzLineRecords(f *testing.F) {
	f.Add("a,b\n1,\"2\n\n3\",4\r\n\r\n5,6", 0)
	f.Add("a\n\"b", 1)
	f.Fuzz(func(t *testing.T, text string, fields int) { checkLines(t, text, ',', fields) })
}

// TestPlaces: the text of an InputError begins with as much of the place as is known: the file, its line or else its
// row, and the column. Rows of a request have no file.
func TestPlaces(t *testing.T) {
	for want, e := range map[string]InputError{
		`a.csv:3: column "x": bad`: {File: "a.csv", Line: 3, Row: 2, Column: "x", Msg: "bad"},
		`a.parquet: row 2: bad`:    {File: "a.parquet", Row: 2, Msg: "bad"},
		`row 2: column "x": bad`:   {Row: 2, Column: "x", Msg: "bad"}, // of a request
		`column "x": bad`:          {Column: "x", Msg: "bad"},
		`a.csv: bad`:               {File: "a.csv", Msg: "bad"},
	} {
		if e.Error() != want {
			t.Errorf("got %s, want %s", e.Error(), want)
		}
	}
}

// TestOtherFormats: a file in a known format that is not read, and a file beside a table that holds part of it, are
// errors that name the format or the file. Some tables of CSV look similar and are read.
func TestOtherFormats(t *testing.T) {
	const plain = "y,x\n1,2\n"
	for name, tc := range map[string]struct {
		text   string
		beside string // suffix of a second file beside it; empty for none
		want   string // in the error; empty if the file is read
	}{
		"t.feather":   {"ARROW1\x00\x00....", "", "Arrow IPC"},
		"old.feather": {"FEA1........", "", "Arrow IPC"},
		"rank.train":  {"0 1:0.5 7:1\n1 2:3\n", "", "svmlight"},
		"queries.txt": {"2 qid:1 1:0.5\n", "", "svmlight"},
		"one.txt":     {"-1 7:1e-3 # x\n", "", "svmlight"},
		"end.txt":     {"+1 7:1.5 9:2", "", "svmlight"},
		"a.csv":       {plain, ".query", "a.csv.query lies beside it"},
		"b.csv":       {plain, ".weight", "b.csv.weight lies"},
		"plain.csv":   {plain, "", ""},
		"times.csv":   {"y 10:03,x\n1,2\n", "", ""},
		"days.csv":    {"10 2:30,foo\n11 2:31,bar\n", "", ""},
		"noon.csv":    {"10 2:30 PM,foo\n", "", ""},
	} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(tc.text), 0o644))
		if tc.beside != "" {
			must.Do(t, os.WriteFile(path+tc.beside, []byte(tc.text), 0o644))
		}
		_, err := Open([]File{{URI: path, Path: path, Bytes: int64(len(tc.text))}}, Options{})
		must.Say(t, "opening "+name, err, tc.want)
	}
}
