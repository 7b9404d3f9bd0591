package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

func text(values ...string) dataset.Values { return dataset.Values{Type: dataset.Text, Text: values} }

// TestEncoderToleratesTypes: a table may give a column in another type than the table from which the dataset was
// staged. The encoder reads the values as the dataset means them.
func TestEncoderToleratesTypes(t *testing.T) {
	const bin17, binTrue, binDay, other, missing = 0, 1, 2, 3, 4 // bins of c
	features := []dataset.Feature{
		{Name: "n", Kind: dataset.Numeric, Bins: 3, Bounds: []float64{1}, MissingBin: 2, OtherBin: -1},
		{Name: "t", Kind: dataset.Temporal, Bins: 2, Bounds: []float64{1.5e9}, MissingBin: -1, OtherBin: -1},
		{Name: "c", Kind: dataset.Categorical, Bins: 5, Categories: []string{"17", "true", "2017-07-02"},
			MissingBin: missing, OtherBin: other},
		// Without a bin for missing values they are others.
		{Name: "o", Kind: dataset.Categorical, Bins: 2, Categories: []string{"17"}, MissingBin: -1, OtherBin: 1},
	}
	enc := mustEncode(t, &dataset.Encoding{Features: features, Missing: []string{"", "NA", "-999"}}, nil)
	if got := enc.Columns(); !slices.Equal(got, []string{"n", "t", "c", "o"}) {
		t.Errorf("the encoder's columns: got %q, want n, t, c, o", got)
	}

	// Values of each type; where there are nulls, the second value is null. 17349 days after 1970 it is 2017-07-02, and
	// -9990e-1 is -999, which stands for a missing value.
	nan, largest := math.NaN(), math.MaxFloat64
	second := []bool{false, true, false, false}
	values := func(typ dataset.Type, numbers ...int64) dataset.Values {
		return dataset.Values{Type: typ, Int: numbers, Null: second}
	}
	floats := func(numbers ...float64) dataset.Values { return dataset.Values{Type: dataset.Float, Float: numbers} }
	times := func(unit dataset.Unit, numbers ...int64) dataset.Values {
		return dataset.Values{Type: dataset.Time, Unit: unit, Int: numbers, Null: second}
	}
	for name, c := range map[string]struct {
		column string
		in     dataset.Values
		want   []float64
	}{
		"number, texts":        {"n", text(" 1.5", "NA", "0052", "True"), []float64{1.5, nan, 52, 1}},
		"number, marked texts": {"n", text("-999.0", "-9990e-1", "-99.9", "inf"), []float64{nan, nan, -99.9, largest}},
		"number, floats":       {"n", floats(1.5, nan, -999, math.Inf(1)), []float64{1.5, nan, nan, largest}},
		"number, ints":         {"n", values(dataset.Int, 1, 5, -999, 0), []float64{1, nan, nan, 0}},
		"number, truth":        {"n", values(dataset.Bool, 1, 1, 1, 0), []float64{1, nan, 1, 0}},

		"time, texts": {"t", text("2017-07-02", "", "2017-07-02 10:00", "1970-01-01T00:00:01.5Z"),
			[]float64{1498953600, nan, 1498989600, 1.5}},
		"time, markers":      {"t", text("NA", "NA", "NA", "NA"), []float64{nan, nan, nan, nan}},
		"time, milliseconds": {"t", times(dataset.Milli, 1500, 0, -500, 2), []float64{1.5, nan, -0.5, 0.002}},
		"time, days":         {"t", times(dataset.Day, 1, 2, 3, -1), []float64{86400, nan, 259200, -86400}},
		"time, nanoseconds":  {"t", times(dataset.Nano, 1e9, 0, 0, 5e8), []float64{1, nan, 0, 0.5}},

		"category, texts":  {"c", text("17", "NA", "new", "true"), []float64{bin17, missing, other, binTrue}},
		"category, ints":   {"c", values(dataset.Int, 17, 5, 18, -999), []float64{bin17, missing, other, missing}},
		"category, floats": {"c", floats(17, nan, 17.5, -999), []float64{bin17, missing, other, missing}},
		"category, days":   {"c", times(dataset.Day, 17349, 0, 17350, 0), []float64{binDay, missing, other, other}},
		"category, truth":  {"c", values(dataset.Bool, 1, 1, 0, 1), []float64{binTrue, missing, other, binTrue}},

		"without missing, texts": {"o", text("17", "NA", "new", "true"), []float64{0, 1, 1, 1}},
		"without missing, ints":  {"o", values(dataset.Int, 17, 5, 18, -999), []float64{0, 1, 1, 1}},
	} {
		// A batch in which the tested column has the values, and all others have none.
		b := &table.Batch{Rows: len(c.want)}
		for _, column := range append(enc.Columns(), "extra") {
			in := dataset.Values{Type: dataset.Text, Text: make([]string, b.Rows)}
			if column == c.column {
				in = c.in
			}
			b.Names, b.Columns = append(b.Names, column), append(b.Columns, in)
		}
		got, err := enc.Encode(b, nil, nil, 1)
		if err != nil {
			t.Errorf("%s: encoding a batch: got error %v, want none", name, err)
			continue
		}
		at := slices.Index(enc.Columns(), c.column)
		for row, want := range c.want {
			if v := got[row*len(features)+at]; v != want && !(math.IsNaN(v) && math.IsNaN(want)) {
				t.Errorf("%s, column %s, row %d: got %v, want %v", name, c.column, row, v, want)
			}
		}
	}
}

// TestCategoriesMeetTypedValues: a number or a truth value finds the category that means the same, however the table of
// the dataset wrote it. If several categories mean the same number, a text finds the one that is written like it, and
// otherwise the first (2.00 finds 2, not 2.0). A number is written as in the shortest text: 1 finds 1, not 1.0. 007 is
// an id and no number, so the number 7 is among the others.
//
// The wanted values are, row by row, the bins of t and n: the indices of categories, or the bin of others, 2 of t and 6
// of n, which is also that of missing values.
func TestCategoriesMeetTypedValues(t *testing.T) {
	enc := mustEncode(t, &dataset.Encoding{Features: []dataset.Feature{
		{Name: "t", Kind: dataset.Categorical, Bins: 3, Categories: []string{"True", "FALSE"}, MissingBin: -1,
			OtherBin: 2},
		{Name: "n", Kind: dataset.Categorical, Bins: 7, Categories: []string{"2", "1.0", "1", "0.50", "007", "2.0"},
			MissingBin: -1, OtherBin: 6},
	}, Missing: []string{""}}, nil)
	// Both are values of five rows.
	truths, ints := dataset.Values{Type: dataset.Bool, Int: []int64{1, 0, 1, 0, 1}},
		dataset.Values{Type: dataset.Int, Int: []int64{1, 2, 7, 0, 1}}
	for name, tc := range map[string]struct {
		t, n dataset.Values
		want []float64
	}{
		"typed": {truths, ints, []float64{0, 2, 1, 0, 0, 6, 1, 6, 0, 2}},
		"floats": {truths, dataset.Values{Type: dataset.Float, Float: []float64{1, 2, 7, 0.5, 1e300}},
			[]float64{0, 2, 1, 0, 0, 6, 1, 3, 0, 6}},
		"texts": {text("True", "true", "FALSE", "False", ""), text("1.0", "1", "007", "0.5", "2.00"),
			[]float64{0, 1, 0, 2, 1, 4, 1, 3, 2, 0}},
	} {
		got, err := enc.Encode(&table.Batch{Names: []string{"t", "n"}, Columns: []dataset.Values{tc.t, tc.n}, Rows: 5},
			nil, nil, 1)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: encoding five rows: got %v, error %v; want %v", name, got, err, tc.want)
		}
	}
}

// TestEncoderErrors: a batch that cannot be encoded is an error that names the file, the line or row, and the column. A
// batch without rows is none.
func TestEncoderErrors(t *testing.T) {
	enc := mustEncode(t, &dataset.Encoding{Features: []dataset.Feature{
		{Name: "n", Kind: dataset.Numeric, Bins: 1, MissingBin: -1, OtherBin: -1},
		{Name: "t", Kind: dataset.Temporal, Bins: 1, MissingBin: -1, OtherBin: -1},
	}}, nil)
	times := text("2017-01-01", "2017-01-01")
	for want, b := range map[string]*table.Batch{
		`x.csv: column "t": the column is missing, but the model needs it`: {Names: []string{"n"},
			Columns: []dataset.Values{text("1", "2")}, Rows: 2},
		`x.csv:8: column "n": "two" is not a number`: {Names: []string{"n", "t"},
			Columns: []dataset.Values{text("1", "two"), times}, Rows: 2, Lines: []int{5, 8}},
		`x.csv: row 2: column "t": "soon" is not a time`: {Names: []string{"n", "t"},
			Columns: []dataset.Values{text("1", "2"), text("2017-01-01", "soon")}, Rows: 2},
		`column "t": the column holds values of type float`: {Names: []string{"n", "t"},
			Columns: []dataset.Values{text("1", "2"), {Type: dataset.Float, Float: []float64{1, 2}}}, Rows: 2},
		`column "t": the column holds values of type int`: {Names: []string{"n", "t"},
			Columns: []dataset.Values{text("1", "2"), {Type: dataset.Int, Int: []int64{1, 2}}}, Rows: 2},
		`column "n": the column holds values of type time where the dataset has numbers`: {Names: []string{"n", "t"},
			Columns: []dataset.Values{{Type: dataset.Time, Unit: dataset.Milli, Int: []int64{1, 2}}, times}, Rows: 2},
		`column "n": 3 values in 2 rows`: {Names: []string{"n", "t"},
			Columns: []dataset.Values{text("1", "2", "3"), times}, Rows: 2},
	} {
		b.File = "x.csv"
		_, err := enc.Encode(b, nil, nil, 1)
		must.SayAs[*table.InputError](t, "encoding the batch", err, want)
	}
	if out, err := enc.Encode(&table.Batch{Names: []string{"n", "t"}, Columns: []dataset.Values{{Type: dataset.Text},
		{Type: dataset.Text}}}, nil, nil, 1); err != nil || len(out) != 0 {
		t.Errorf("encoding a batch without rows: got %v, error %v; expected no values", out, err)
	}
	_, err := enc.EncodeSample(&dataset.Sample{Row: []uint32{0, 1}, Names: []string{"n", "t"},
		Columns: []dataset.Values{text("1", "x"), times}})
	if err == nil || err.Error() != `sample.arrow: row 2: column "n": "x" is not a number` {
		t.Errorf("text in a numeric column: got error %v; want one that names file, row, column and value", err)
	}
}

// TestParquetAndCSVEncodeAlike: the same rows in Parquet and in CSV give the same bins, labels and folds, and the
// encoder of one reads the other. Several goroutines may use one encoder.
func TestParquetAndCSVEncodeAlike(t *testing.T) {
	columns := []table.Column{{Name: "y", Type: dataset.Int}, {Name: "f", Type: dataset.Float},
		{Name: "i", Type: dataset.Int}, {Name: "s", Type: dataset.Text},
		{Name: "at", Type: dataset.Time, Unit: dataset.Milli}}
	b := &table.Batch{Names: []string{"y", "f", "i", "s", "at"}, Columns: make([]dataset.Values, 5), Rows: 3000}
	for i, c := range columns {
		v := &b.Columns[i]
		v.Type, v.Unit = c.Type, c.Unit
		for r := range b.Rows {
			n := r * r % 977
			switch c.Name {
			case "y":
				v.Int = append(v.Int, int64(n%2))
			case "f":
				v.Float = append(v.Float, float64(n)/7)
			case "i":
				v.Int = append(v.Int, int64(n%40))
			case "s":
				v.Text = append(v.Text, fmt.Sprintf("s%d", n%9))
			default:
				v.Int = append(v.Int, int64(n)*1001)
			}
			v.Null = append(v.Null, i > 0 && (r+i)%11 == 0) // each column but the label, in other rows
		}
	}

	// Write them in both formats, and stage both.
	var pq, csv bytes.Buffer
	w := must.Get(table.NewParquetWriter(&pq, columns, table.Zstd))(t)
	c := must.Get(table.NewCSVWriter(&csv, columns, ','))(t)
	must.Do(t, errors.Join(w.Write(b), w.Close(), c.Write(b)))
	const spec = "label: y\ncategorical: [i]\nsplit: {by: hash, key: f, train: 0.5, valid: 0.5}\n"
	parquetFile, csvFile := writeFile(t, "t.parquet", pq.String()), writeFile(t, "t.csv", csv.String())
	ps := stageFiles(t, spec, []table.File{parquetFile}, Options{})
	cs := stageFiles(t, spec, []table.File{csvFile}, Options{})
	for i := range ps.Splits {
		if !bytes.Equal(ps.Splits[i].RowMajor, cs.Splits[i].RowMajor) ||
			!slices.Equal(ps.Splits[i].Label, cs.Splits[i].Label) ||
			!slices.Equal(ps.Splits[i].Fold, cs.Splits[i].Fold) {
			t.Errorf("%s has other rows from Parquet than from CSV, want the same", ps.Splits[i].Name)
		}
	}
	checkEncoder(t, ps, []table.File{csvFile}, dataset.CSVSpec{})

	// Share an encoder; the race detector watches.
	var wg sync.WaitGroup
	enc := mustEncode(t, ps.Manifest.Encoding(), ps.levels(t))
	for range 4 {
		wg.Go(func() {
			if _, err := enc.EncodeSample(cs.sample(t)); err != nil {
				t.Errorf("encoding the sample at the same time as others: got error %v, want none", err)
			}
		})
	}
	wg.Wait()
}

// TestEncodeAnotherSample: yesterday's model encodes today's sample, in which column zip is a number instead of a text,
// and a city is new. The wanted values are zip and city of the first three rows, as indices of yesterday's categories.
// New and missing values have the index after the last category.
func TestEncodeAnotherSample(t *testing.T) {
	old := mustStage(t, "label: y\n", "y,zip,city\n"+strings.Repeat("0,01234,Ulm\n1,5,Bonn\n0,77,Ulm\n", 10))
	now := mustStage(t, "label: y\n", "y,zip,city\n"+strings.Repeat("0,77,Köln\n1,5,\n0,6,Ulm\n", 10))
	if old.feature(t, "zip").Kind != dataset.Categorical || now.feature(t, "zip").Kind != dataset.Numeric {
		t.Fatalf("zip is %s, then %s; the test needs it categorical, then numeric", old.feature(t, "zip").Kind,
			now.feature(t, "zip").Kind)
	}
	// The categories are 01234, 5 and 77, of ten rows each, and Ulm and Bonn, as Ulm is the more frequent.
	data := must.Get(json.Marshal(old.Manifest.Encoding()))(t)
	e := must.Get(dataset.DecodeEncoding(data))(t)
	got := must.Get(mustEncode(t, e, old.levels(t)).EncodeSample(now.sample(t)))(t)
	if want := []float64{2, 2, 1, 2, 3, 0}; !slices.Equal(got[:6], want) {
		t.Errorf("encoding the sample: got %v, want %v; yesterday's zips are %q, its cities %q", got[:6], want,
			old.feature(t, "zip").Categories, old.feature(t, "city").Categories)
	}
}

// TestSampleIsRaw: the sample holds values as the table has them, with blanks and leading zeros, from the last split,
// and its rows are spread evenly over the split.
func TestSampleIsRaw(t *testing.T) {
	long(t)
	csv := csvOf("y,x,s,part", 30_000, func(i int) string {
		return fmt.Sprintf("%d,%07.2f,\" t %d\",%s", i%2, float64(i%500), i%3, []string{"train", "calib", "test"}[i%3])
	})
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\nsample: 2000\n", csv)
	sample := s.sample(t)
	if sample.Split != "test" || len(sample.Row) != 2000 || !slices.Equal(sample.Names, []string{"s", "x"}) {
		t.Fatalf("the sample is of %s, %d rows, %q; want 2,000 of test, with s and "+
			"x", sample.Split, len(sample.Row), sample.Names)
	}
	var tenths [10]int // of the 10,000 rows of test
	for i, row := range sample.Row {
		tenths[row/1000]++
		source := int(row)*3 + 2 // every third row of the table is test
		if got, want := sample.Column("x").Text[i], fmt.Sprintf("%07.2f", float64(source%500)); got != want {
			t.Fatalf("row %d: %q, want %q", row, got, want)
		}
		if got := sample.Column("s").Text[i]; got != " t 2" {
			t.Fatalf("row %d: %q, want the text as it was", row, got)
		}
	}
	for i, n := range tenths { // 200 expected, standard deviation 12
		if n < 150 || n > 250 {
			t.Errorf("%d rows from tenth %d, want 150 to 250", n, i)
		}
	}
}

// TestFingerprint: a fingerprint depends on the contents of files, on their order and format, and on what the spec
// means. It does not depend on where files are, or on whether the spec writes out a default. A long file is hashed in
// parts, whose order counts.
func TestFingerprint(t *testing.T) {
	ctx := context.Background()
	rows := randomTable(9, 50)
	a, b := writeFile(t, "a.csv", rows), writeFile(t, "b.csv", rows)
	spec := parseSpec(t, "label: y\n")
	want, err := Fingerprint(ctx, spec, []table.File{a})
	if err != nil || len(want) != 32 {
		t.Fatalf("fingerprint of one file: got %q, error %v; expected 32 digits", want, err)
	}

	// What must not change it.
	moved := *spec
	moved.Source = dataset.SourceSpec{Files: []string{"gs://elsewhere/*.csv"}}
	for name, same := range map[string]func() (string, error){
		"again":         func() (string, error) { return Fingerprint(ctx, spec, []table.File{a}) },
		"another place": func() (string, error) { return Fingerprint(ctx, &moved, []table.File{b}) },
		"explicit default": func() (string, error) {
			return Fingerprint(ctx, parseSpec(t, "label: y\nmax_bin: 255\n"), []table.File{a})
		},
	} {
		must.Equal(t, must.Get(same())(t), want, "%s", name)
	}

	// What must change it.
	remote := a
	remote.Checksum, remote.Path = "crc32c:abc", "/nowhere" // with a checksum the file is not read
	for name, other := range map[string]func() (string, error){
		"other spec": func() (string, error) {
			return Fingerprint(ctx, parseSpec(t, "label: y\nmax_bin: 254\n"), []table.File{a})
		},
		"other split": func() (string, error) {
			return Fingerprint(ctx, parseSpec(t, "label: y\nsplit: {by: hash, key: user, train: 1}\n"), []table.File{a})
		},
		"other contents": func() (string, error) {
			return Fingerprint(ctx, spec, []table.File{writeFile(t, "a.csv", strings.Replace(rows, "Ulm", "Alm", 1))})
		},
		"two files": func() (string, error) { return Fingerprint(ctx, spec, []table.File{a, b}) },
		"other suffix": func() (string,
			error) {
			return Fingerprint(ctx, spec, []table.File{writeFile(t, "a.tsv", rows)})
		},
		"given checksum": func() (string, error) { return Fingerprint(ctx, spec, []table.File{remote}) },
	} {
		if got, err := other(); err != nil || got == want {
			t.Errorf("%s: got the fingerprint %s, error %v; expected one other than %s", name, got, err, want)
		}
	}

	// Without a checksum the file is read, so it has to exist.
	remote.Checksum = ""
	if _, err := Fingerprint(ctx, spec, []table.File{remote}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the fingerprint of an absent file: got error %v; want os.ErrNotExist", err)
	}

	// Files of newlines, a little longer than one part, with one x at a position.
	long := func(at int) string {
		data := bytes.Repeat([]byte{'\n'}, hashPart+100)
		data[at] = 'x'
		return must.Get(Fingerprint(ctx, spec, []table.File{writeFile(t, "a.csv", string(data))}))(t)
	}
	again := long(5) // in the first part; hashPart+5 is the same place of the second
	if again != long(5) || again == long(6) || long(hashPart) == long(hashPart+1) || again == long(hashPart+5) {
		t.Error("fingerprints of a long file: want the same for the same contents, and others if one byte of the " +
			"first part or of the second is elsewhere")
	}

	// A cancelled context.
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Fingerprint(ctx, spec, []table.File{a}); !errors.Is(err, context.Canceled) {
		t.Errorf("the fingerprint after a cancellation: got error %v; want context.Canceled", err)
	}
	// A cancelled fingerprint removes nothing, as cancelled staging does.
	if _, err := os.Stat(filepath.Dir(a.Path)); err != nil {
		t.Errorf("the folder of the table after a cancellation: got error %v, want it there", err)
	}
}

// mustEncode returns the encoder of an encoding. levels are those of its statistics, nil if it has none.
func mustEncode(t *testing.T, e *dataset.Encoding, levels *dataset.Levels) *cell.Encoder {
	t.Helper()
	enc, err := cell.NewEncoder(e, levels)
	if err != nil {
		t.Fatalf("make an encoder of %d features: %v", len(e.Features), err)
	}
	return enc
}

// TestLevelsMeetTypedValues: an id has the same level in every type and spelling, and a missing value is missing in
// every spelling. All forms in a case mean the same values.
func TestLevelsMeetTypedValues(t *testing.T) {
	for name, tc := range map[string]struct {
		missing []string
		values  map[string]dataset.Values
	}{
		"ids": {[]string{""}, map[string]dataset.Values{
			"text": text(" 1001", "7", "0.5", ""), "written as floats": text("1001.0", "7.", ".50", ""),
			"float": {Type: dataset.Float, Float: []float64{1001, 7, 0.5, math.NaN()}}}},
		"truth": {[]string{""}, map[string]dataset.Values{
			"text": text("True", "false", "true", "FALSE"), "bool": {Type: dataset.Bool, Int: []int64{1, 0, 1, 0}}}},
		"a token": {[]string{"1002.0"}, map[string]dataset.Values{
			"text": text("1002", "7"), "float": {Type: dataset.Float, Float: []float64{1002, 7}},
			"int": {Type: dataset.Int, Int: []int64{1002, 7}}, "written as floats": text("1002.0", "7.0")}},
	} {
		var want []uint64
		for form, v := range tc.values {
			got := make([]uint64, v.Len())
			r := cell.NewPartReader(dataset.Part{Column: "c", Kind: dataset.Categorical}, cell.NewMarkers(tc.missing))
			if err := r.Hashes(&v, got); err != nil {
				t.Fatalf("%s, %s: hashing the values: got error %v, expected none", name, form, err)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s gives %x, another form %x", name, form, got, want)
			}
		}
	}
}

// TestFinalStatistics: for the final training, held-out rows have the statistics of all rows before them, from
// whichever split, in the bins of train's statistics. The final table counts every row. The bins of all splits are as
// without final statistics.
//
// The spec asks for the rate and the count of a site and nothing else: with budget 0 no further keys are searched for,
// and with delay 0 a row's label counts at once for all later rows.
func TestFinalStatistics(t *testing.T) {
	// The table: its rows are written split by split, but tick orders them.
	const rows, sites = 4000, 40
	var csv strings.Builder
	csv.WriteString("y,site,x,tick,part\n")
	type row struct{ y, site, tick int }
	var held []row // of valid, then of test
	all := make([]row, rows)
	for _, part := range []string{"train", "valid", "test"} {
		for i := range rows {
			// Each site comes once in 40 rows.
			r := row{y: (i*31/7 + i%5) % 2, site: i * 7919 % sites, tick: i}
			in := "train" // the first three fifths; valid and test have a fifth each
			if i >= 3200 {
				in = "test"
			} else if i >= 2400 {
				in = "valid"
			}
			if in != part {
				continue
			}
			all[i] = r
			fmt.Fprintf(&csv, "%d,s%d,%d,%d,%s\n", r.y, r.site, i%9, r.tick, part)
			if part != "train" {
				held = append(held, r)
			}
		}
	}
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\nencodings: {final: true, budget: 0, "+
		"order: {column: tick, delay: 0}, columns: {site: [rate, count]}}\n", csv.String())

	m := s.Manifest
	statistics := m.Statistics()
	if len(s.Final) != 2 || len(statistics) != 2 || len(s.Final[0]) != len(held) || len(m.FinalTables) != 1 {
		t.Fatalf("%d final columns of %d statistics; expected 2 of %d rows", len(s.Final), len(statistics), len(held))
	}

	// The final table has the mean label of all rows, and all sites.
	prior := 0.0
	for _, r := range all {
		prior += float64(r.y) / rows
	}
	table := m.FinalTables[0]
	if math.Abs(table.Prior-prior) > 1e-9 || table.Levels != sites {
		t.Errorf("the final table has a prior of %v and %d levels, expected %v and %d", table.Prior, table.Levels,
			prior, sites)
	}

	// Compute the statistics of each held-out row from the rows before it, and find their bins. The wanted count is
	// that of all rows, extrapolated from the rows before, so a neighbouring bin is right, too.
	for i, r := range held {
		n, sum := 0.0, 0.0
		for _, before := range all[:r.tick] {
			if before.site == r.site {
				n, sum = n+1, sum+float64(before.y)
			}
		}
		for k, want := range []float64{table.Rate(sum, n, prior), math.NaN()} {
			f := &m.Features[statistics[k]]
			if f.From.What == dataset.DeriveCount { // the expected count of all rows
				want = n * rows / float64(r.tick)
			}
			bin := 0
			for bin < len(f.Bounds) && f.Bounds[bin] < want {
				bin++
			}
			if got := int(s.Final[k][i]); got < bin-1 || got > bin+1 || f.From.What == dataset.DeriveRate &&
				got != bin {
				t.Fatalf("%s of held-out row %d, site %d: bin %d, expected %d for %v", f.Name, i, r.site, got, bin,
					want)
			}
		}
	}

	// Without final statistics there are no such files, and all else is the same.
	again := mustStage(t, "label: y\nsplit: {by: column, column: part}\nencodings: {budget: 0, final: false, "+
		"order: {column: tick, delay: 0}, columns: {site: [rate, count]}}\n", csv.String())
	if again.Final != nil || again.Manifest.FinalTables != nil {
		t.Errorf("without final: got %d final columns and %d tables, want none", len(again.Final),
			len(again.Manifest.FinalTables))
	}
	for i := range s.Splits {
		if !bytes.Equal(s.Splits[i].RowMajor, again.Splits[i].RowMajor) {
			t.Errorf("split %s has other bins with final statistics than without, want the same", s.Splits[i].Name)
		}
	}
	if names := func(m *dataset.Manifest) (out []string) {
		for _, f := range m.Files {
			out = append(out, f.Name)
		}
		return out
	}; slices.Contains(names(again.Manifest), dataset.FinalLevelsFile) || !slices.Contains(names(m),
		dataset.FinalLevelsFile) {
		t.Errorf("files without final: %q, with it: %q; want %s with it only", names(again.Manifest), names(m),
			dataset.FinalLevelsFile)
	}
}
