package table

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestDelimitersAreSeen: the delimiter is found in the first rows, whatever else the fields hold, with and without
// quotes. A faulty row further down does not change that, and is an error.
func TestDelimitersAreSeen(t *testing.T) {
	for name, tc := range map[string]struct {
		file, text string
		quote      string
		want       string // of the last row
	}{
		"semicolons":             {"t.csv", "a;b;c\n1,5;x;\"p;q\"\n", "", "[1,5 x p;q]"},
		"quoted header":          {"t.csv", "\"a\";\"b\"\n1;2\n", "", "[1 2]"},
		"tabs":                   {"t.csv", "a\tb\n1\t2,3\n", "", "[1 2,3]"},
		"pipes":                  {"t.txt", "a|b\n1|2\n", "", "[1 2]"},
		"pipes, no quotes":       {"t.txt", "a|b\n1|\"2\n", dataset.QuoteNone, `[1 "2]`},
		"commas in .tsv":         {"t.tsv", "a,b\n1,2\n", "", "[1 2]"},
		"commas, lists in cells": {"t.csv", "a,b\n1,x;y;z\n", "", "[1 x;y;z]"},
		"commas in a header":     {"t.csv", "a;b, in EUR;c\n1;2,5;3\n", "", "[1 2,5 3]"},
		"one column":             {"t.csv", "a\n1\n", "", "[1]"},
		"a mark in front":        {"t.csv", "\ufeffa;b\n1;2\n", "", "[1 2]"},
		// The first sniffBytes end within a row, in quotes.
		"long": {"t.csv", "a;b\n" + strings.Repeat("1;\"x\ny\"\n", sniffBytes/8) + "7;8\n", "",
			"[7 8]"},
	} {
		_, cells, err := readAll([]File{writeFile(t, tc.file, tc.text)}, dataset.CSVSpec{Quote: tc.quote}, 1000)
		if got := fmt.Sprint(cells[max(0, len(cells)-1):]); err != nil || got != "["+tc.want+"]" {
			t.Errorf("%s: the last row is %s, %v, expected %s", name, got, err, tc.want)
		}
	}
	_, _, err := readAll([]File{writeFile(t, "t.csv", "a;b;c\n1;2;3\n1;2\n")}, dataset.CSVSpec{}, 10)
	must.Say(t, "a row of semicolons too short", err, "t.csv:3: 2 fields where the first line has 3")
}

// TestJSONL: lines of JSON objects in several files, one of them compressed, are one table by their keys. Numbers stay
// as they are written, and keys that an object lacks are null. Reading a nested column is an error.
func TestJSONL(t *testing.T) {
	first := writeFile(t, "1.jsonl", `{"a": 1, "b": "x\u00e9\n", "deep": {"k": [1, {"}": "]"}]}}`+"\n\n"+
		`{"b":null,"a":-1.50e+3,"c":true}`+"\r\n")
	second := writeFile(t, "2.ndjson.gz", packed(t, "gzip", `{"d": "007"}`))
	_, _, err := readAll([]File{first}, dataset.CSVSpec{}, 10)
	must.Say(t, "reading a nested column", err, `column "deep": is nested (an object in line 1), which cannot`)

	table := must.Get(Open([]File{first, second}, Options{Threads: 2}))(t)
	var got []string
	err = table.Read(t.Context(), []string{"d", "c", "a", "b"}, 1, func(b *Batch) error {
		for i := range b.Rows {
			for j := range b.Columns {
				cell := "-"
				if !b.Columns[j].IsNull(i) {
					cell = b.Columns[j].TextOf(i)
				}
				got = append(got, cell)
			}
		}
		return nil
	})
	const want = `["-" "-" "1" "xé\n" "-" "true" "-1.50e+3" "-" "007" "-" "-" "-"]`
	if s := fmt.Sprintf("%q", got); err != nil || s != want {
		t.Errorf("two files: %s, %v, expected %s", s, err, want)
	}
}

// TestEmpty: files without a row are empty, whatever their columns. A column that cannot be read, here the first one of
// the JSONL, is no hindrance.
func TestEmpty(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	none, some := must.Get(numberFile(rng, 0))(t), must.Get(numberFile(rng, 3))(t)
	for _, c := range []struct {
		name, text string
		empty      bool
	}{
		{"1.csv", "a,b\n", true}, {"2.jsonl", `{"deep": {"k": 1}, "a": 1}`, false},
		{"3.parquet", string(none), true}, {"4.parquet", string(some), false},
	} {
		got := must.Get(Empty(t.Context(), []File{writeFile(t, c.name, c.text)}))(t)
		must.Equal(t, got, c.empty, "%s is empty", c.name)
	}
}

// TestJSONLErrorsNameThePlace: a line that is not an object is an error that names the line, and key and character
// where there are such.
func TestJSONLErrorsNameThePlace(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"a":2}`:                         `t.jsonl:1: column "a": the object has this key twice`,
		`{"a":1,"\u0061":2}`:                    `t.jsonl:1: column "a": the object has this key twice`,
		"{\"a\":1}\n[1]":                        "t.jsonl:2: the line begins a list; write one object per line",
		"{\n\"a\":1}":                           "t.jsonl:1: character 2: it ends where a text in quotes belongs; an",
		`{"a":1} {"a":2}`:                       `"{\"a\":2}" follows the object; write one object per line`,
		`{"a":1,}`:                              "where a text in quotes belongs",
		`{"a" 1}`:                               "where a colon belongs",
		" \t" + `{"a":01}`:                      `column "a": character 8: "01}", where a value belongs`,
		`{"a":01}`:                              `column "a": character 6: "01}", where a value belongs`,
		`{"a":NaN}`:                             "where a value belongs",
		`{"a":'x'}`:                             "where a value belongs",
		`{"a":"x`:                               "it ends where the end of a text belongs; an object must be on",
		`{"a":"\ud800"}`:                        "has half of a surrogate pair",
		`{"a":"\u0000"}`:                        "has a NUL",
		"{\"a\":\"\x01\"}":                      "the control character",
		`{"a":[1,}}`:                            `column "a": character 6: "[1,}}", where a value belongs`,
		`{"a":` + strings.Repeat("[", 65) + `}`: "nested more than 64 deep",
		"a,b\n1,2\n":                            `t.jsonl:1: the line begins with "a,b", where each line is a JSON`,
		"{}\n":                                  "t.jsonl: the file has no objects with keys",
		`{"a":"` + strings.Repeat("x", maxRecord+1<<20): "a row of more than 16777216 bytes",
	} {
		_, _, err := readAll([]File{writeFile(t, "t.jsonl", text)}, dataset.CSVSpec{}, 10)
		must.SayAs[*InputError](t, fmt.Sprintf("%.40s", text), err, want)
	}
}

// FuzzJSONL: whatever the bytes of a file, reading it ends with rows or with an *InputError.
func FuzzJSONL(f *testing.F) {
	f.Add([]byte(`{"a": 1, "b": "x\u00e9\n", "deep": {"k": [1, {"}": "]"}]}}` + "\n{}"))
	f.Add([]byte(`{"a":"\ud83d\ude00","b":null}` + "\r\n\n{\"b\":-1e-7}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "t.jsonl")
		must.Do(t, os.WriteFile(path, data, 0o666))
		_, _, err := readAll([]File{{URI: "t.jsonl", Path: path, Bytes: int64(len(data))}}, dataset.CSVSpec{}, 3)
		if err != nil && !errors.As(err, new(*InputError)) {
			t.Fatalf("untyped error %T: %v", err, err)
		}
	})
}

// TestPartitions: folders NAME=VALUE below the fixed part of a source are columns. Folders above are not, and a column
// of the file itself wins over a folder of that name, here hour. A folder whose value is not text, or a column with two
// values, is an error.
func TestPartitions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "team=ads")
	for name, text := range map[string]string{
		"day=2026-11-01/hour=07/b.csv":                         "y,hour\n1,5\n",
		"day=2026-11-01/hour=__HIVE_DEFAULT_PARTITION__/c.csv": "y,hour\n0,6\n",
		"day=2026-11-02/hour=a%2Fb/a.csv":                      "y,hour\n1,7\n",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o777),
			os.WriteFile(path, []byte(text), 0o666)))
	}
	for pattern, want := range map[string]string{
		".":                  "[y hour day] [[1 5 2026-11-01] [0 6 2026-11-01] [1 7 2026-11-02]]",
		"day=*/*/*.csv":      "[y hour day] [[1 5 2026-11-01] [0 6 2026-11-01] [1 7 2026-11-02]]",
		"day=2026-11-01":     "[y hour] [[1 5] [0 6]]",
		"day=2026-11-0?":     "[y hour day] [[1 5 2026-11-01] [0 6 2026-11-01] [1 7 2026-11-02]]",
		"day=2026-11-02/*/*": "[y hour] [[1 7]]",
	} {
		files := must.Get(Expand(filepath.Join(dir, pattern)))(t)
		names, cells, err := readAll(files, dataset.CSVSpec{}, 2)
		if got := fmt.Sprint(names, cells); err != nil || got != want {
			t.Errorf("%s: %s, %v, expected %s", pattern, got, err, want)
		}
	}

	parts, err := Partitions("gs://b/", "gs://b/hour=__HIVE_DEFAULT_PARTITION__/k=a%2Fb/=x/plain/k2=1=2/f.csv")
	const want = `["hour"=null "k"="a/b" "k2"="1=2"]`
	if got := fmt.Sprint(parts); err != nil || got != want {
		t.Errorf("partitions: %s, %v, expected %s", got, err, want)
	}
	for what, name := range map[string]string{"a column with two values": "gs://b/k=1/k=2/f.csv",
		"a value with a NUL": "gs://b/k=%00/f.csv", "a value that is not UTF-8": "gs://b/k=%ff/f.csv"} {
		if parts, err := Partitions("gs://b/", name); !problem.Is(err, problem.Input) {
			t.Errorf("%s: %v, %v, expected an error of the kind input", what, parts, err)
		}
	}
}

// TestPlacesThatOverlap: if two places name the same file, it is read once, with the columns of the place that gives it
// more, in whatever order the places are listed.
func TestPlacesThatOverlap(t *testing.T) {
	bare, given := File{URI: "d/k=1/a.csv"}, File{URI: "d/k=1/a.csv", Partitions: []Partition{{Name: "k", Value: "1"}}}
	for _, files := range [][]File{{bare, given}, {given, bare}} {
		if got := Sorted(files); len(got) != 1 || len(got[0].Partitions) != 1 {
			t.Errorf("a file of two places: %v, expected it once, with column k", got)
		}
	}
}

// TestPartitionsOfObjects: in a file of JSON objects that lack a key, the folder's value counts, even if another file
// has the key. If the key is nested in one file, it cannot be read in any.
func TestPartitionsOfObjects(t *testing.T) {
	first, second := writeFile(t, "1.jsonl", `{"y": 1}`), writeFile(t, "2.jsonl", `{"k": "own", "y": 2}`)
	first.Partitions = []Partition{{Name: "k", Value: "v"}}
	second.Partitions = []Partition{{Name: "k", Value: "w"}}
	names, cells, err := readAll([]File{first, second}, dataset.CSVSpec{}, 2)
	if got := fmt.Sprint(names, cells); err != nil || got != "[y k] [[1 v] [2 own]]" {
		t.Errorf("two files: %s, %v, expected v of the folder and then own of the object", got, err)
	}

	second = writeFile(t, "3.jsonl", `{"k": [1], "y": 2}`)
	_, _, err = readAll([]File{first, second}, dataset.CSVSpec{}, 2)
	must.Say(t, "a key that is a list in another file", err, "nested (a list in line 1)")
}

// TestPartitionsWithoutValue: rows in a folder without a value are null, in every batch of the file, and only in that
// file. The third file has the column itself.
func TestPartitionsWithoutValue(t *testing.T) {
	first, second := writeFile(t, "1.csv", "y\n1\n2\n3\n"), writeFile(t, "2.csv", "y\n4\n")
	first.Partitions = []Partition{{Name: "k", Null: true, Value: hiveNull}}
	second.Partitions = []Partition{{Name: "k", Value: "v"}}
	third := writeFile(t, "3.csv", "k,y\nw,5\n")
	names, cells, err := readAll([]File{first, second, third}, dataset.CSVSpec{}, 2)
	const want = "[y k] [[1 <null>] [2 <null>] [3 <null>] [4 v] [5 w]]"
	if got := fmt.Sprint(names, cells); err != nil || got != want {
		t.Errorf("three files: %s, %v, expected %s", got, err, want)
	}
}

// TestMatches: Matches takes the same objects for a source's as Expand takes files. A name that is given is taken,
// hidden or not; a glob and a folder give no hidden ones.
func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "a/b.csv", true}, {"a", "a/b.csv", true}, {"a/", "a/k=1/b.parquet", true}, {"a", "ab/b.csv", false},
		{"a", "a/readme.md", false}, {"a/*", "a/readme.md", true}, {"a/*", "a/k=1/b.csv", true},
		{"a/*.csv", "a/k=1/b.csv", false}, {"a/*/b.csv", "a/k=1/b.csv", true}, {"a", "a/_temporary/b.csv", false},
		{"a/_b.csv", "a/_b.csv", true}, {"a/*", "a/_b.csv", false}, {"a/*", "a/_temporary/b.csv", false},
		{"a/x[1].csv", "a/x[1].csv", true}, {"a", "a/", false}, {"[", "a.csv", false},
	} {
		must.Equal(t, Matches(tc.pattern, tc.name), tc.want, "pattern %q and object %q", tc.pattern, tc.name)
	}
}

// TestPipesAndLinksInFolders: a pipe is an error, whether it is named, matches a glob or is in a folder. A link to a
// folder is an error if it is in a folder that is searched.
func TestPipesAndLinksInFolders(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, errors.Join(syscall.Mkfifo(filepath.Join(dir, "p.csv"), 0o600),
		os.Symlink(t.TempDir(), filepath.Join(dir, "q.csv"))))
	for pattern, want := range map[string]string{"p.csv": "a pipe or a device", "p*": "a pipe or a device",
		"": "a pipe or a device"} {
		_, err := Expand(filepath.Join(dir, pattern))
		must.Say(t, fmt.Sprintf("%q", pattern), err, want)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "p.csv")))
	want := "a link to a folder, which is not followed"
	_, err := Expand(dir)
	must.Say(t, "a folder with a link to a folder", err, want)
}

// TestIndexOfPandas: the column in which pandas wrote its row labels is known by pandas' own metadata. A range of
// numbers is not written as a column.
func TestIndexOfPandas(t *testing.T) {
	for name, want := range map[string]string{"unnamed": "[__index_level_0__]", "named": "[row]", "range": "[]"} {
		path := filepath.Join("testdata", "pandas", name+".parquet")
		table := must.Get(Open([]File{{URI: path, Path: path}}, Options{}))(t)
		index := []string{}
		for _, c := range table.Columns() {
			if c.Index {
				index = append(index, c.Name)
			}
		}
		must.Equal(t, fmt.Sprint(index), want, "%s: the index", name)
	}
}

// sharedData returns the folder of real tables, which the project may not pass on: COPPICE_DATA, or ../shared/data next
// to the repository. It skips the test if there is none.
func sharedData(t testing.TB) string {
	t.Helper()
	if data := os.Getenv("COPPICE_DATA"); data != "" {
		return data
	}
	data := must.Get(filepath.Abs("../../../../shared/data"))(t)
	if _, err := os.Stat(data); err != nil {
		t.Skipf("SKIPPED: the real tables are not there; set COPPICE_DATA to their folder: %v", err)
	}
	return data
}

// oracle is what an independent reader found in one column of a file, as texts.
type oracle struct {
	file, name, physical  string
	rows, nulls, distinct int
	min, max, sum         string
}

var (
	oracleFile   = regexp.MustCompile(`^## (\S+) rows (\d+) by `)
	oracleColumn = regexp.MustCompile(`^   (\S+) (\S+) nulls (\d+) nan (\d+) distinct (\d+)(?: min (.*?) max ` +
		`(.*?)(?: sum (\S+))?)?\s*$`)
)

// readOracle reads the columns of all files from the oracle's report.
func readOracle(t *testing.T, path string) []oracle {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	defer f.Close()
	var all []oracle
	var now oracle
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if m := oracleFile.FindStringSubmatch(line); m != nil {
			now = oracle{file: m[1]}
			now.rows, _ = strconv.Atoi(m[2])
			continue
		}
		m := oracleColumn.FindStringSubmatch(line)
		if m == nil {
			if strings.TrimSpace(line) != "" {
				t.Fatalf("a line of the oracle that the test does not understand: %q", line)
			}
			continue
		}
		c := now
		c.name, c.physical, c.min, c.max, c.sum = m[1], m[2], m[6], m[7], m[8]
		c.nulls, _ = strconv.Atoi(m[3])
		c.distinct, _ = strconv.Atoi(m[5])
		all = append(all, c)
	}
	return all
}

// found is what our reader found in one column.
type found struct {
	nulls    int
	texts    map[string]bool
	floats   map[float64]bool
	ints     map[int64]bool
	sum      float64
	intSum   big.Int
	typ      dataset.Type
	rows     int
	smallest string
	greatest string
}

// add adds a batch's values.
func (f *found) add(v *dataset.Values) {
	f.typ = v.Type
	for i := range v.Len() {
		f.rows++
		if v.IsNull(i) {
			f.nulls++
			continue
		}
		switch v.Type {
		case dataset.Text:
			if len(f.texts) == 0 || v.Text[i] < f.smallest {
				f.smallest = v.Text[i]
			}
			if len(f.texts) == 0 || v.Text[i] > f.greatest {
				f.greatest = v.Text[i]
			}
			f.texts[v.Text[i]] = true
		case dataset.Float:
			f.floats[v.Float[i]] = true
			f.sum += v.Float[i]
		default:
			f.ints[v.Int[i]] = true
			f.intSum.Add(&f.intSum, big.NewInt(v.Int[i]))
		}
	}
}

// check returns an error that says what was found if that is not what the oracle found.
func (f *found) check(o oracle) error {
	if f.rows != o.rows || f.nulls != o.nulls || len(f.texts)+len(f.floats)+len(f.ints) != o.distinct {
		return fmt.Errorf("rows %d, nulls %d, distinct %d", f.rows, f.nulls, len(f.texts)+len(f.floats)+len(f.ints))
	}
	if o.distinct == 0 {
		return nil
	}
	switch f.typ {
	case dataset.Text:
		for got, want := range map[string]string{f.smallest: o.min, f.greatest: o.max} {
			want = strings.TrimSuffix(strings.TrimPrefix(want, "b'"), "'")
			if !strings.HasPrefix(got, want) {
				return fmt.Errorf("%q where the oracle has %q", got, want)
			}
		}
	case dataset.Float:
		lo, hi := math.Inf(1), math.Inf(-1)
		for x := range f.floats {
			lo, hi = min(lo, x), max(hi, x)
		}
		wantLo, _ := strconv.ParseFloat(o.min, 64)
		wantHi, _ := strconv.ParseFloat(o.max, 64)
		sum, _ := strconv.ParseFloat(o.sum, 64)
		if lo != wantLo || hi != wantHi || math.Abs(f.sum-sum) > 1e-9*math.Abs(sum)+1e-9 {
			return fmt.Errorf("%v to %v, sum %v", lo, hi, f.sum)
		}
	default:
		lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
		for x := range f.ints {
			lo, hi = min(lo, x), max(hi, x)
		}
		if o.physical == "INT96" { // the oracle has nanoseconds
			lo, hi = lo*1000, hi*1000
		}
		if fmt.Sprint(lo) != o.min || fmt.Sprint(hi) != o.max || o.sum != "" && f.intSum.String() != o.sum &&
			o.physical != "INT96" {
			return fmt.Errorf("%d to %d, sum %s", lo, hi, &f.intSum)
		}
	}
	return nil
}

// TestParquetAgreesWithTheOracle: on every column of every real file, this package and an independent reader agree
// about the numbers of rows, nulls and distinct values, the least and the greatest value, and the sum.
func TestParquetAgreesWithTheOracle(t *testing.T) {
	folder := filepath.Join(sharedData(t), "parquet")
	columns := readOracle(t, filepath.Join(folder, "ORACLE.txt"))
	if len(columns) < 80 {
		t.Fatalf("only %d columns in the oracle, want at least 80", len(columns))
	}
	byFile := map[string][]oracle{}
	for _, c := range columns {
		byFile[c.file] = append(byFile[c.file], c)
	}
	files := must.Get(Expand(folder))(t)
	must.Equal(t, len(byFile), len(files), "files that the oracle knows, of %d", len(files))
	for _, f := range files {
		for _, rows := range []int{1000, 1 << 16} {
			whole := must.Get(Open([]File{f}, Options{Threads: 2}))(t)
			var names []string
			got := map[string]*found{}
			for _, c := range whole.Columns() {
				names = append(names, c.Name)
				got[c.Name] = &found{texts: map[string]bool{}, floats: map[float64]bool{}, ints: map[int64]bool{}}
			}
			must.Do(t, whole.Read(context.Background(), names, rows, func(b *Batch) error {
				for i := range b.Columns {
					got[b.Names[i]].add(&b.Columns[i])
				}
				return nil
			}))
			for _, o := range byFile[filepath.Base(f.Path)] {
				if got[o.name] == nil {
					t.Errorf("%s has no column %s, which the oracle has", o.file, o.name)
				} else if err := got[o.name].check(o); err != nil {
					t.Errorf("%s, %s: %v; the oracle has %+v", o.file, o.name, err, o)
				}
			}
		}
	}
}
