package ingest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/strictyaml"
)

var update = flag.Bool("update", false, "write the golden files again")

// parseSpec parses a spec of which the test gives all but name and source.
func parseSpec(t testing.TB, rest string) *dataset.Spec {
	t.Helper()
	return must.Get(dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\n"+rest)))(t)
}

// staged is a dataset that a test has staged and opened. It is closed when the test ends.
type staged struct {
	*dataset.Dataset
	report *Report
	dir    string
}

// tryStage stages files into a temporary folder, opens the dataset and verifies it. The error is that of Stage.
func tryStage(t testing.TB, spec string, files []table.File, o Options) (*staged, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	r, err := Stage(context.Background(), parseSpec(t, spec), files, dir, o)
	if err != nil {
		return nil, err
	}
	d := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { d.Close() })
	must.Do(t, d.Verify(context.Background(), nil))
	return &staged{d, r, dir}, nil
}

// stageFiles stages files, and ends the test if that fails.
func stageFiles(t testing.TB, spec string, files []table.File, o Options) *staged {
	t.Helper()
	return must.Get(tryStage(t, spec, files, o))(t)
}

// mustStage stages a table of CSV, and ends the test if that fails.
func mustStage(t testing.TB, spec, csv string) *staged {
	t.Helper()
	return stageFiles(t, spec, []table.File{writeFile(t, "t.csv", csv)}, Options{})
}

// feature returns the named feature, and ends the test if there is none.
func (s *staged) feature(t testing.TB, name string) *dataset.Feature {
	t.Helper()
	for i := range s.Manifest.Features {
		if s.Manifest.Features[i].Name == name {
			return &s.Manifest.Features[i]
		}
	}
	t.Fatalf("the dataset has no feature %s, want it", name)
	return nil
}

// levels returns the levels of the dataset's statistics, which are closed when the test ends; nil if it has none.
func (s *staged) levels(t testing.TB) *dataset.Levels {
	t.Helper()
	if !slices.ContainsFunc(s.Manifest.Files, func(f dataset.FileInfo) bool { return f.Name == dataset.LevelsFile }) {
		return nil
	}
	l := must.Get(dataset.OpenLevels(filepath.Join(s.dir, dataset.LevelsFile), s.Manifest.Tables))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// sample returns the dataset's sample of raw rows.
func (s *staged) sample(t testing.TB) *dataset.Sample {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(s.dir, dataset.SampleFile)))(t)
	return must.Get(dataset.ReadSample(data))(t)
}

// randomTable returns CSV with columns of all kinds, and with what makes trouble: missing values in three spellings,
// rare and long categories, quotes, ids that look like numbers, and whole numbers that a float64 cannot tell apart.
func randomTable(seed uint64, rows int) string {
	rng := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	b.WriteString("y,num,int,zero,cat,hash,zip,big,when,holes,flag,const,w,user,part\n")
	maybe := func(p float64, s string) string {
		if rng.Float64() < p {
			return []string{"", "NA", "null"}[rng.IntN(3)]
		}
		return s
	}
	for i := range rows {
		num := rng.NormFloat64() * 100
		y := 0
		if num+rng.NormFloat64()*100 > 0 {
			y = 1
		}
		cells := []string{
			maybe(0.02, fmt.Sprint(y)),
			fmt.Sprintf("%.*f", rng.IntN(6), num),
			fmt.Sprint(rng.IntN(2000) - 1000),
			maybe(0.1, []string{"0", "0", "-0.0", "1.5", "-2", "1e-40"}[rng.IntN(6)]),
			maybe(0.05, []string{"Ulm", "Bonn", "Köln", `"a,b"`, `"say ""hi"""`}[min(4, int(rng.ExpFloat64()))]),
			fmt.Sprintf("%08x", rng.Uint32()>>uint(rng.IntN(3)*8)),
			fmt.Sprintf("%05d", rng.IntN(3000)),
			fmt.Sprint(9007199254740990 + rng.IntN(20)),
			maybe(0.01, time.Unix(1499000000+int64(rng.IntN(1e6)), 0).UTC().Format("2006-01-02 15:04:05")),
			maybe(0.97, fmt.Sprint(rng.IntN(50))),
			[]string{"true", "false"}[rng.IntN(2)],
			"7",
			fmt.Sprintf("%.2f", rng.Float64()*3),
			maybe(0.01, fmt.Sprintf("u%d", rng.IntN(rows/3+1))),
			[]string{"train", "train", "valid", "calib", "test"}[i%5],
		}
		b.WriteString(strings.Join(cells, ",") + "\n")
	}
	return b.String()
}

// randomSpecs are specs for randomTable, which together use all parts of staging.
var randomSpecs = map[string]string{
	"hash": "label: y\nweight: w\ngroup: user\ndrop: [part]\nsplit: {by: hash, key: user, train: 0.6, valid: 0.2, " +
		"calib: 0.1, test: 0.1}\nsample: 100\nsample_rows_for_bins: 700\n",
	"time": "label: y\ndrop: [part, user]\nweight: w\nmax_bin: 16\nsplit: {by: time, column: int, train: 0.5, " +
		"valid: 0.3, test: 0.2}\nsample: 100000\n",
	"column": "label: y\ngroup: user\ncategorical: [int, num]\nnumeric: [zip, flag]\nsplit: {by: column, column: " +
		"part}\nsample: 50\n",
	"derived": "label: y\nweight: w\ndrop: [user]\nderive: {when: [hour, weekday]}\nsplit: {by: column, column: " +
		"part}\nsample: 300\n" +
		"encodings: {columns: {hash: [rate, levels], cat: [rate, count, categories], zip: [count], num: none}, " +
		"keys: [[cat, zip], [num~, flag, when.hour], [hash, int~]], order: {copies: 3}, back_off: {hash: cat}}\n",
	"by time": "label: y\ndrop: [part, user]\nsplit: {by: time, column: int, train: 0.5, valid: 0.3, test: " +
		"0.2}\nsample: 300\n" +
		"encodings: {columns: {zip: [rate, recency], cat: [recency, categories], hash: levels}, keys: [[cat, " +
		"flag]], back_off: none}\n",
	"thinned": "label: y\nweight: w\ndrop: [part]\nsplit: {by: hash, key: user, train: 0.6, valid: 0.2, test: 0.2}\n" +
		"sample: {rows: 100, negatives: 0.3}\n",
	"none": "label: {column: num, kind: regression}\ndrop: [part, user]\nmissing: [\"\", NA, \"null\", \"7\"]\n",
}

// TestKinds: with encodings off, each column gets the kind that its values suggest, and says why. Ids of digits keep
// all their digits, zeros at the beginning (zip) as well as those beyond a float64 (big, whose numbers are near 2^53).
// Columns w, user and holes are not looked at: each is like one that is. part is dropped, and y is the label.
func TestKinds(t *testing.T) {
	s := mustStage(t, "label: y\ndrop: [part]\nencodings: none\n", randomTable(1, 3000))
	for name, want := range map[string]struct {
		kind dataset.Kind
		why  dataset.Why
	}{
		"num": {dataset.Numeric, dataset.WhyNumbers}, "int": {dataset.Numeric, dataset.WhyNumbers},
		"zero": {dataset.Numeric, dataset.WhyNumbers},
		"cat":  {dataset.Categorical, dataset.WhyText}, "hash": {dataset.Categorical, dataset.WhyText},
		"zip": {dataset.Categorical, dataset.WhyDigits},
		"big": {dataset.Categorical, dataset.WhyBig}, "when": {dataset.Temporal, dataset.WhyTimes},
		"flag": {dataset.Categorical, dataset.WhyText}, "const": {dataset.Numeric, dataset.WhyNumbers},
	} {
		if f := s.feature(t, name); f.Kind != want.kind || f.Why != want.why {
			t.Errorf("%s is %s (%s), want %s (%s)", name, f.Kind, f.Why, want.kind, want.why)
		}
	}
	if f := s.feature(t, "big"); !slices.Contains(f.Categories, "9007199254740993") {
		t.Errorf("big's categories: got %q, want 9007199254740993 among them, with all its digits", f.Categories)
	}
	if f := s.feature(t, "zip"); len(f.Categories) == 0 || len(f.Categories[0]) != 5 {
		t.Errorf("zip's categories: got %q, want five digits each, with their zeros", f.Categories)
	}
}

// TestKindsOfMixedCells: columns whose cells are not all of one form get the kind that loses nothing. The table has a
// column of 50 rows for each case. The spec says that only empty cells are missing, so nan is a text among texts. Among
// numbers it is no number, and missing all the same. Infinities count as the largest numbers that a float64 has.
func TestKindsOfMixedCells(t *testing.T) {
	// allButLast gives 49 rows one cell and the last row another; inTurn gives rows the cells in turn.
	allButLast := func(most, last string) func(row int) string {
		return func(row int) string { return []string{most, last}[row/49] }
	}
	inTurn := func(cells ...string) func(row int) string {
		return func(row int) string { return cells[row%len(cells)] }
	}
	cases := []struct {
		name    string
		cell    func(row int) string
		kind    dataset.Kind
		why     dataset.Why
		missing int64
	}{
		{"ids, and one like a float", allButLast("24154600", "623049e6"), dataset.Categorical, dataset.WhyDigits, 0},
		{"days, and a number", allButLast("2017-01-01", "5"), dataset.Categorical, dataset.WhyText, 0},
		{"numbers and nan", inTurn("1", "nan"), dataset.Numeric, dataset.WhyNumbers, 25}, // every second of 50 rows
		{"texts and nan", inTurn("x", "nan"), dataset.Categorical, dataset.WhyText, 0},
		{"infinities", inTurn("inf", "-inf", "1e+308"), dataset.Numeric, dataset.WhyNumbers, 0},
		{"nothing and nan", inTurn("", "NaN"), "", "", 0}, // no kind: a column without any value is no feature
	}
	header, rows := "y", ""
	for i := range cases {
		header += fmt.Sprintf(",c%d", i)
	}
	for row := range 50 {
		rows += fmt.Sprint(row % 2)
		for _, c := range cases {
			rows += "," + c.cell(row)
		}
		rows += "\n"
	}

	s := mustStage(t, "label: y\nmissing: [\"\"]\n", header+"\n"+rows)
	for i, c := range cases {
		name := fmt.Sprintf("c%d", i)
		if c.kind == "" {
			if slices.ContainsFunc(s.Manifest.Features, func(f dataset.Feature) bool { return f.Name == name }) {
				t.Errorf("%s: the column is a feature; want none, since it has no value", c.name)
			}
			continue
		}
		f := s.feature(t, name)
		if f.Kind != c.kind || f.Why != c.why || f.Missing != c.missing {
			t.Errorf("%s: got %s (%s), %d missing; want %s (%s), %d missing", c.name, f.Kind, f.Why, f.Missing, c.kind,
				c.why, c.missing)
		}
		if r := f.Range; c.name == "infinities" && (r == nil || r.Min != -math.MaxFloat64 || r.Max != math.MaxFloat64) {
			t.Errorf("the range of infinities: got %v, want ±MaxFloat64", r)
		}
	}
}

// TestStageIsDeterministic: the same input gives the same bytes in every file, whatever the number of threads. A table
// in one file gives the same version as in several, one of which has a single row. Only the version is compared then,
// since the manifest names the files. Usually one thread is compared with five, and under COPPICE_FULL with one again
// and with two as well. Under -short three of the specs are tried.
func TestStageIsDeterministic(t *testing.T) {
	rows := randomTable(2, 5000)
	lines := strings.SplitAfter(rows, "\n")
	one := []table.File{writeFile(t, "t.csv", rows)}
	three := []table.File{writeFile(t, "1.csv", strings.Join(lines[:1000], "")),
		writeFile(t, "2.csv", lines[0]+strings.Join(lines[1000:1001], "")),
		writeFile(t, "3.csv", lines[0]+strings.Join(lines[1001:], ""))}
	threadCounts := []int{1, 2, 5}
	if testing.Short() || os.Getenv("COPPICE_FULL") == "" {
		threadCounts = threadCounts[2:]
	}
	for name, spec := range randomSpecs {
		if testing.Short() && name != "hash" && name != "derived" && name != "thinned" {
			continue // these three run all parts of staging
		}
		t.Run(name, func(t *testing.T) {
			want := stageFiles(t, spec, one, Options{Threads: 1})
			for _, threads := range threadCounts {
				got := stageFiles(t, spec, one, Options{Threads: threads})
				sameFolder(t, want.dir, got.dir)
			}
			got := stageFiles(t, spec, three, Options{Threads: 2})
			must.Equal(t, got.Manifest.Version, want.Manifest.Version, "the version of three files, as of one")
		})
	}
}

// sameFolder fails the test unless folder b has all files of folder a, with the same bytes. Folder a has at least the
// five files of any dataset: the manifest, the sample, and of train the columns, the rows and the labels.
func sameFolder(t *testing.T, a, b string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(a, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		n++
		rel, _ := filepath.Rel(a, path)
		x, err1 := os.ReadFile(path)
		y, err2 := os.ReadFile(filepath.Join(b, rel))
		if !bytes.Equal(x, y) {
			t.Errorf("%s has other bytes in %s than in %s, want the same", rel, b, a)
		}
		return errors.Join(err1, err2)
	})
	if err != nil || n < 5 {
		t.Errorf("comparing two folders: got %d files, error %v; expected at least 5 files", n, err)
	}
}

// TestNumericTokensInText: if missing: lists a number, every spelling of it is missing in a column of numbers, and
// every usual spelling of it as an id is missing in a column of categories. Rows with a label of that number are left
// out.
func TestNumericTokensInText(t *testing.T) {
	// Of each six rows, the fifth has the number as its label. Of the other five, three have it in x, and two in c.
	rows := "y,x,c\n"
	for i := range 60 {
		rows += []string{"0,-999,a\n", "1,-999.0,-999.0\n", "0,1.5,-999\n", "1,-9990e-1,a\n", "-999.00,3,a\n",
			"1,7,b\n"}[i%6]
	}
	s := mustStage(t, "label: y\nmissing: ['', '-999']\n", rows)
	if x := s.feature(t, "x"); x.Kind != dataset.Numeric || x.Missing != 30 || x.Range.Min != 1.5 ||
		s.Split("train").Columns[0][1] != uint8(x.MissingBin) {
		t.Errorf("column x: got %+v; want it numeric, with 30 missing values, 1.5 as minimum, and a missing value "+
			"in row 1, which has -999.0", x)
	}
	if c := s.feature(t, "c"); c.Kind != dataset.Categorical || c.Missing != 20 ||
		slices.Contains(c.Categories, "-999.0") {
		t.Errorf("column c: got %+v; want it categorical, with 20 missing values, and -999.0 not among its categories",
			c)
	}
	// The label -999.00 is in every sixth of 60 rows.
	if m := s.Manifest; m.LeftOut != 10 || m.About.LeftOut["-999.00"] != 10 || len(m.About.LeftOut) != 1 {
		t.Errorf("rows without a label: got %d left out, by text %v; want 10, all with -999.00", m.LeftOut,
			m.About.LeftOut)
	}
}

// TestStageErrorsNameThePlace: a table or a spec that cannot be staged is an error that says what is wrong and, where
// it is in one place, names that: file, line and column, or the line of the spec. Nothing is left behind.
//
// Line 3 of a spec (d.yaml) is the first line that a case gives, after those of name and source. Line 1 of a table
// (t.csv) is its header.
func TestStageErrorsNameThePlace(t *testing.T) {
	long(t)
	const abc = "a,b,y\n1,x,0\n2,y,1\n3,z,0\n"
	withLabels := func(values ...any) string { // a table with these labels, from line 2 on
		s := "a,y\n"
		for i, v := range values {
			s += fmt.Sprintf("%d,%v\n", i, v)
		}
		return s
	}
	withIDs := func(columns int) string { // a table of so many columns of ids, with 50 levels each on 200 rows
		s := ""
		for i := range columns {
			s += fmt.Sprintf("c%d,", i)
		}
		s += "y\n"
		for row := range 200 {
			s += strings.Repeat(fmt.Sprintf("v%d,", row%50), columns) + fmt.Sprintln(row/50%2)
		}
		return s
	}
	for name, tc := range map[string]struct{ spec, csv, want string }{
		"no label column": {"label: yy\n", abc, `d.yaml:3:8: column "yy" is not in t.csv (did you mean "y"?)`},
		"wrong delimiter": {"label: y\ncsv: {delimiter: \"|\"}\n", "a;b;y\n1;2;0\n",
			`the table's only column is "a;b;y"; is csv.delimiter right?`},
		"no dropped column": {"label: y\ndrop: [a, q]\n", abc, `d.yaml:4:11: column "q" is not in t.csv`},
		"no forced column":  {"label: y\nnumeric: [q]\n", abc, `d.yaml:4:11: column "q" is not in t.csv`},
		"forced and dropped": {"label: y\ndrop: [b]\nnumeric: [b]\n", abc,
			`d.yaml:5:11: column "b" is dropped, or splits the rows`},
		"no key column": {"label: y\nsplit: {by: hash, key: q, train: 1}\n", abc,
			`d.yaml:4:24: column "q" is not in t.csv`},
		"too many columns of ids": {"label: y\n", withIDs(dataset.MaxTables + 1),
			"4097 columns of ids and combinations of them have statistics; 4096 at most"},
		"a time alone": {"label: y\nsplit: {by: time, column: t, train: 0.5, valid: 0.5}\n", "y,t\n0,2026-11-20\n",
			"is left to be a feature; `derive: {\"t\": [hour, weekday]}` makes some of the row's time"},
		"nothing left":  {"label: y\ndrop: [a, b]\n", abc, "no column of t.csv is left to be a feature"},
		"empty":         {"label: y\n", "", "t.csv: the file is empty"},
		"only a header": {"label: y\n", "a,y\n", "t.csv: the table has no rows"},
		"no labels":     {"label: y\n", "a,y\n1,\n2,NA\n", "t.csv: the label is missing in every row"},
		"no positive label, negatives left out": {"label: y\nsample: {rows: 100, negatives: 0.000001}\n",
			withLabels(0, 0, 0), "t.csv: no row is left: all final labels are negative"},
		"ragged": {"label: y\n", abc + "4,5\n", "t.csv:5: 2 fields where the first line has 3"},
		"text label": {"label: y\n", withLabels("yes", "no", "no", "yes", "no"),
			"d.yaml:3:8: label column \"y\" holds text (\"no\", \"yes\"): name the positive value, such as `label: " +
				"{column: y, positive: \"yes\"}`"},
		"three values": {"label: y\n", withLabels(0, 1, 2, 1),
			"d.yaml:3:8: label column \"y\" holds 0, 1, 2, which is neither 0 and 1 nor a regression: use `label: " +
				"{column: y, positive: \"2\"}`, `{column: y, above: 0}`, `{column: y, kind: regression}` or " +
				"`{column: y, kind: classes}`"},
		"two other values": {"label: y\n", withLabels(1, 2), "holds 1, 2, which is neither 0 and 1"},
		"one value": {"label: y\n", withLabels(1, 1, 1),
			"has the same value in every row: there is nothing to predict"},
		"one number, but for its last digits": {"label: {column: y, kind: regression}\n",
			withLabels(1e12, 1e12+5, 1e12+9), "the same value in every row, as 32-bit floats, which keep seven digits"},
		"one text": {"label: y\n", withLabels("a", "a"), "has the same value in every row"},
		"never positive": {"label: {column: y, positive: maybe}\n", withLabels("yes", "no"),
			`label column "y" never is "maybe"; it holds "no", "yes"`},
		"always positive": {"label: {column: y, positive: yes}\n", withLabels("yes", "yes"), "makes every row 1"},
		"never above":     {"label: {column: y, above: 15}\n", withLabels(1, 2), "makes every row 0"},
		"third value": {"label: {column: y, positive: yes, negative: no}\n", withLabels("yes", "no", "maybe"),
			`t.csv:4: column "y": the label is "maybe", neither positive ("yes") nor negative ("no")`},
		"above text": {"label: {column: y, above: 15}\n", withLabels(1, 20, "x"),
			`t.csv:4: column "y": the label is "x", not a number`},
		"regression text": {"label: {column: y, kind: regression}\n", withLabels(1, 20, "x"),
			`t.csv:4: column "y": the label is "x", not a number`},
		"regression constant": {"label: {column: y, kind: regression}\n", withLabels(5, 5),
			"has the same value in every row"},
		"too large": {"label: {column: y, kind: regression}\n", withLabels(5, 1e300),
			"does not fit a 32-bit float: correct it, or leave such rows out"},
		"infinite": {"label: {column: y, above: 15}\n", withLabels(1, 20, "-Infinity"),
			`t.csv:4: column "y": the label "-Infinity" does not fit a 32-bit float`},
		"missing value": {"label: y\nvalues: [a]\n", "a,b,y\n1,1,0\n,1,1\n",
			`t.csv:3: column "a": the value is missing; it must be a number in every row, as values: lists the ` +
				"column; fill it, or leave the row out"},
		"text value": {"label: y\nvalues: [a]\n", "a,b,y\n-1,1,0\nx,1,1\n", `t.csv:3: column "a": the value is x`},
		"unknown value": {"label: y\nvalues: [aa]\n", "a,b,y\n1,1,0\n2,1,1\n",
			`column "aa" is not in `},
		"negative weight": {"label: y\nweight: a\n", "a,b,y\n1,1,0\n-2,1,1\n",
			`t.csv:3: column "a": the weight is -2; it must be a number from 0 up`},
		"missing weight": {"label: y\nweight: a\n", "a,b,y\n1,1,0\n,1,1\n",
			`t.csv:3: column "a": the weight is missing`},
		"weights of 0 in test": {"label: y\nweight: a\nsplit: {by: column, column: part}\n",
			"a,b,y,part\n1,1,0,train\n1,2,1,train\n0,3,0,calib\n0,1,0,test\n0,1,1,test\n",
			`d.yaml:4:9: column "a" is 0 in all 2 rows of test, so that none of them counts`},
		"text weight": {"label: y\nweight: a\n", "a,b,y\n1,1,0\nx,1,1\n",
			`t.csv:3: column "a": the weight is x`},
		"label too large": {"label: {column: y, kind: regression}\n", "a,y\n1,1\n2,-1e999\n",
			`t.csv:3: column "y": the label is "-1e999", not a number`},
		"infinite weight": {"label: y\nweight: a\n", "a,b,y\n1,1,0\ninf,1,1\n",
			`t.csv:3: column "a": the weight is inf`},
		"forced number": {"label: y\nnumeric: [b]\n", abc,
			`t.csv:2: column "b": "x" is not a number, though the spec lists the column under`},
		"unknown split": {"label: y\nsplit: {by: column, column: b, train: [x, y]}\n", abc,
			`t.csv:4: column "b": "z" is not a split; known are x, y. To keep the rows of one value together: ` +
				"--key b, or"},
		"missing split": {"label: y\nsplit: {by: column, column: b, train: [x, y]}\n", "a,b,y\n1,x,0\n1,,1\n",
			`t.csv:3: column "b": the row belongs to no split: the value is missing`},
		"time is text": {"label: y\nsplit: {by: time, column: b, train: 0.5, test: 0.5}\n", abc,
			`t.csv:2: column "b": "x" is neither a time`},
		"time and number": {"label: y\nsplit: {by: time, column: b, train: 0.5, test: 0.5}\n",
			"a,b,y\n1,2017-01-01,0\n1,5,1\n", `t.csv:3: column "b": "5" is neither a time`},
		"missing time": {"label: y\nsplit: {by: time, column: b, train: 0.5, test: 0.5}\n",
			"a,b,y\n1,2017-01-01,0\n1,,1\n", `t.csv:3: column "b": the row belongs to no split: the time is missing`},
		"few times": {"label: y\nsplit: {by: time, column: b, train: 0.5, test: 0.5}\n",
			"a,b,y\n1,2017-01-01,0\n1,2017-01-01,1\n", `column "b" has 1 distinct times, too few for 2 splits`},
		"empty split": {"label: y\nsplit: {by: hash, key: b, train: 0.999999, test: 0.000001}\n", abc,
			"the split leaves test without any row"},
		"listed, no row": {"label: y\nsplit: {by: column, column: b, train: [x, y, z], valid: [2020, 2021]}\n",
			abc, `d.yaml:4:57: no row has a value of valid in column "b": 2020, 2021`},
		"one class in train": {"label: y\nsplit: {by: column, column: b}\n", "a,b,y\n1,train,0\n1,train,0\n1,test,1\n",
			"d.yaml:4:9: all 2 rows of train have the label 0: there is nothing to learn"},
		// The first row has lines 2 and 3, as a break within quotes does not end a row.
		"quoted line breaks": {"label: {column: y, above: 1}\n", "a,y\n\"x\ny\",2\nz,q\n",
			`t.csv:4: column "y": the label is "q"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Stage(context.Background(), parseSpec(t, tc.spec), []table.File{writeFile(t, "t.csv", tc.csv)},
				filepath.Join(dir, "d"), Options{})
			var bad *table.InputError
			var spec *strictyaml.Error
			if !errors.As(err, &bad) && !errors.As(err, &spec) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v (%T)\nwant ... %s ...", err, err, tc.want)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("after the error: got %v left behind, want nothing", left)
			}
		})
	}
}

// TestStageLeavesNothingBehind: staging that is cancelled, in any phase but the search, leaves nothing in its folder.
// In the last phase it may succeed all the same. There is no search without a learner, which this test has not.
func TestStageLeavesNothingBehind(t *testing.T) {
	file := writeFile(t, "t.csv", randomTable(3, 20_000))
	spec := parseSpec(t, randomSpecs["hash"])
	threadCounts := []int{3, 1}
	if testing.Short() {
		threadCounts = threadCounts[:1]
	}
	for _, phase := range []Phase{PhaseSurvey, PhaseWrite, PhaseEncode, PhaseChecksum} {
		for _, threads := range threadCounts {
			parent := t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			reached := false
			_, err := Stage(ctx, spec, []table.File{file}, filepath.Join(parent, "d"),
				Options{Threads: threads, Progress: func(p Progress) {
					if p.Phase == phase {
						reached = true
						cancel()
					}
				}})
			cancel()
			left, _ := os.ReadDir(parent)
			if !reached || !errors.Is(err, context.Canceled) && phase != PhaseChecksum || err != nil && len(left) != 0 {
				t.Errorf("cancelled in %s with %d threads (reached: %t): got error %v, left behind %v; want "+
					"context.Canceled and nothing", phase, threads, reached, err, left)
			}
		}
	}
}

// TestStageTarget: a dataset is made in a folder that is new or empty. A folder that holds something, and a file, are a
// conflict. A dataset that is there stays whole.
func TestStageTarget(t *testing.T) {
	file := writeFile(t, "t.csv", randomTable(4, 500))
	parent := t.TempDir()
	stage := func(dir, spec string) (*Report, error) {
		return Stage(context.Background(), parseSpec(t, spec), []table.File{file}, dir, Options{})
	}
	dir := filepath.Join(parent, "deep", "er", "d")
	first := must.Get(stage(dir, randomSpecs["hash"]))(t)
	// A folder with a dataset, a file (the table), and a folder with a file.
	for _, taken := range []string{dir, file.Path, filepath.Dir(file.Path)} {
		if _, err := stage(taken, randomSpecs["column"]); !problem.Is(err, problem.Conflict) {
			t.Errorf("staging into %s, which is taken: %v, want a conflict", taken, err)
		}
	}
	if m, err := dataset.Check(context.Background(), dir, nil); err != nil || m.Version != first.Manifest.Version {
		t.Errorf("the dataset that was there: got %+v, error %v; want it whole, of version %s", m, err,
			first.Manifest.Version)
	}
	empty := filepath.Join(parent, "empty")
	must.Do(t, os.Mkdir(empty, 0o777))
	if _, err := stage(empty, randomSpecs["hash"]); err != nil {
		t.Errorf("staging into an empty folder: got error %v, want none", err)
	}
}

// TestEmptyColumnIsLeftOut: a column without any value is not a feature, whether encodings are off or not; all others
// are.
func TestEmptyColumnIsLeftOut(t *testing.T) {
	csv := "a,empty,b,c,y\n" + strings.Repeat("1,,u,3,0\n2,,v,4,1\n", 50)
	// Encodings are on in the second case. b, a column of texts, is dropped there, so that no features are made of it
	// besides the columns.
	for rest, want := range map[string]string{"encodings: none\n": "a b c", "drop: [b]\n": "a c"} {
		must.Equal(t, strings.Join(mustStage(t, "label: y\n"+rest, csv).names(), " "), want, "%q: features", rest)
	}
}

// TestGoldenStage: a small dataset with a bit of everything has the same bytes as testdata/golden/want. A change of how
// tables become bins changes them, and has to increase binningRevision. The flag -update writes the files again.
func TestGoldenStage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	spec := must.Get(os.ReadFile("testdata/golden/dataset.yaml"))(t)
	s := must.Get(dataset.ParseSpec("dataset.yaml", spec))(t)
	source := filepath.Join("testdata", "golden", "table.csv")
	if *update {
		must.Do(t, os.WriteFile(source, []byte(randomTable(20261121, 400)), 0o666))
	}
	files := must.Get(table.Expand(source))(t)
	must.Get(Stage(context.Background(), s, files, dir, Options{}))(t)
	want := filepath.Join("testdata", "golden", "want")
	if *update {
		must.Do(t, errors.Join(os.RemoveAll(want), os.CopyFS(want, os.DirFS(dir))))
	}
	sameFolder(t, want, dir)
}

// long skips a test under -short, which the race detector runs with: it would take a minute there, and show nothing
// that shorter tests do not.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it is long: run it without -short")
	}
}

// csvOf returns a table of a header and so many rows; row gives each without the end of the line.
func csvOf(header string, rows int, row func(i int) string) string {
	text := []string{header}
	for i := range rows {
		text = append(text, row(i))
	}
	return strings.Join(text, "\n") + "\n"
}

// writeFile writes a table into a new temporary folder.
func writeFile(t testing.TB, name, contents string) table.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(contents), 0o666))
	return table.File{URI: name, Path: path, Bytes: int64(len(contents))}
}
