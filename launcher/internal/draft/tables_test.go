package draft

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// odd is a column as it is found in the world, and what it has to become.
type odd struct {
	text func(i int) string // the text of row i
	kind dataset.Kind       // "" for no feature at all
	warn string             // code of a warning that has to be there; "" for none
}

// at returns a column of times in a layout of package time, each followed by more.
func at(layout, more string) func(int) string {
	return func(i int) string {
		return time.Date(2024, 1+time.Month(i%12), 1+i%28, i%24, i%60, i%60, 0, time.UTC).Format(layout) + more
	}
}

// among returns a column of numbers with a fraction; one row in every has another text, row 3 first or, of two, row 1.
func among(text string, every int) func(int) string {
	return func(i int) string {
		if i%every == 3%every {
			return text
		}
		return fmt.Sprintf("%d.%d", i, i%10)
	}
}

// each returns a column of some texts in turn.
func each(texts ...string) func(int) string { return func(i int) string { return texts[i%len(texts)] } }

// number returns a column of the rows' numbers in a format of package fmt.
func number(format string) func(int) string {
	return func(i int) string { return fmt.Sprintf(format, i) }
}

// oddColumns are made up after real tables. Each is staged in a table of its own, with a label y and a column z of few
// texts.
var oddColumns = map[string]odd{
	"bigquery":            {at(time.DateTime, " UTC"), dataset.Temporal, ""},
	"bigquery, fractions": {at("2006-01-02 15:04:05.000000", " UTC"), dataset.Temporal, ""},
	"trino":               {at("2006-01-02 15:04:05.000", " Europe/Berlin"), dataset.Temporal, ""},
	"athena":              {at("2006-01-02 15:04:05.000", " GMT"), dataset.Temporal, ""},
	"java":                {at("2006-01-02T15:04:05", "+02:00[Europe/Berlin]"), dataset.Temporal, ""},
	"java, utc":           {at("2006-01-02T15:04:05", "Z[UTC]"), dataset.Temporal, ""},
	"rfc 3339":            {at(time.RFC3339, ""), dataset.Temporal, ""},
	"offset":              {at("2006-01-02 15:04:05", "+0530"), dataset.Temporal, ""},
	"offset of hours":     {at("2006-01-02 15:04:05", "-07"), dataset.Temporal, ""},
	"dates":               {at(time.DateOnly, ""), dataset.Temporal, ""},
	"short dates":         {at("2006-1-2", ""), dataset.Temporal, ""},
	"slashes":             {at("2006/01/02 15:04", ""), dataset.Temporal, ""},
	"slashed dates":       {at("2006/1/2", ""), dataset.Temporal, ""},
	"compact":             {at("20060102T150405", "Z"), dataset.Temporal, ""},
	"compact, offset":     {at("20060102T150405", "+0100"), dataset.Temporal, ""},
	"words":               {at("January 2, 2006", ""), dataset.Temporal, ""},
	"short words":         {at("Jan 2 2006", ""), dataset.Temporal, ""},
	"words and clock":     {at("Jan 2, 2006 3:04 PM", ""), dataset.Temporal, ""},
	"day before month":    {at("2 January 2006", ""), dataset.Temporal, ""},
	"oracle":              {at("02-Jan-2006", ""), dataset.Temporal, ""},
	"mail":                {at(time.RFC1123, ""), dataset.Temporal, ""},
	"apache":              {at("02/Jan/2006:15:04:05 -0700", ""), dataset.Temporal, ""},
	"am and pm":           {at("2006-01-02 3:04:05 PM", ""), dataset.Temporal, ""},
	"spaces around":       {at(" "+time.DateTime, " "), dataset.Temporal, ""},
	"zone with a name":    {at(time.DateTime, " CET"), "", "dropped"},
	"times with gaps": {func(i int) string { return each(at(time.DateTime, "")(i), "NaT")(i) },
		dataset.Temporal, ""},
	"times with a text": {func(i int) string { return each(at(time.DateTime, "")(i), "soon")(i / 299) }, "",
		"odd_texts"},
	`\N`:                   {among(`\N`, 40), dataset.Numeric, ""},
	"#N/A":                 {among("#N/A", 40), dataset.Numeric, ""},
	"?":                    {among("?", 40), dataset.Numeric, ""},
	"-":                    {among("-", 40), dataset.Numeric, ""},
	"<NA>":                 {among("<NA>", 5), dataset.Numeric, ""},
	"n/a":                  {among("n/a", 2), dataset.Numeric, ""},
	"NULL":                 {among("NULL", 40), dataset.Numeric, ""},
	"#DIV/0!":              {among("#DIV/0!", 40), dataset.Numeric, ""},
	"-nan":                 {among("-nan", 40), dataset.Numeric, ""},
	"nothing":              {among("", 7), dataset.Numeric, ""},
	"blanks":               {among("  ", 7), dataset.Numeric, ""},
	"1e400":                {among("1e400", 40), dataset.Numeric, "odd_texts"},
	"inf":                  {among("inf", 40), dataset.Numeric, ""},
	"one row of millions":  {among("3.0M", 299), dataset.Numeric, "format"},
	"one bad row":          {among("3.0 stars", 299), "", "odd_texts"},
	"unknown":              {among("unknown", 40), "", "odd_texts"},
	"often unknown":        {among("unknown", 5), dataset.Categorical, "odd_texts"},
	"TOTAL":                {among("TOTAL", 299), "", "odd_texts"},
	"ids among numbers":    {among("0052", 40), "", "odd_texts"},
	"many texts":           {among("low", 4), dataset.Categorical, ""},
	"empty":                {each(""), "", "all_missing"},
	"all NA":               {each("NA", "null", "?"), "", "all_missing"},
	"constant":             {each("5"), dataset.Numeric, "constant"},
	"exponents":            {number("%d.5e-3"), dataset.Numeric, ""},
	"plus":                 {number("+%d"), dataset.Numeric, "id_like"},
	"fractions of nothing": {number("%d."), dataset.Numeric, "id_like"},
	"sentinel": {func(i int) string { return each(fmt.Sprint(i%40), "-999")(i) }, dataset.Numeric,
		"extreme_code"},
	"zips":            {func(i int) string { return fmt.Sprintf("%05d", i%20) }, dataset.Categorical, ""},
	"hex like":        {each("24154600", "623049e6", "1e3"), dataset.Categorical, ""},
	"beyond 2^53":     {func(i int) string { return fmt.Sprint(1<<53 + 1 + i%9) }, dataset.Categorical, ""},
	"truth":           {each("true", "False", "TRUE"), dataset.Categorical, ""},
	"yes and no":      {each("Y", "N"), dataset.Categorical, ""},
	"strands":         {each("+", "-", "+"), dataset.Categorical, ""},
	"hexadecimal":     {each("0x1F", "0x2A"), dataset.Categorical, ""},
	"underscores":     {each("1_000", "2_000"), dataset.Categorical, ""},
	"versions":        {each("1.2.3", "1.10.0"), dataset.Categorical, ""},
	"addresses":       {each("10.0.0.1", "10.0.0.2"), dataset.Categorical, ""},
	"clock":           {each("10:30", "11:45"), dataset.Categorical, ""},
	"words of months": {each("May", "June"), dataset.Categorical, ""},
	"no day":          {each("2017-02-30", "2017-13-01"), dataset.Categorical, ""},
	"no leap year":    {each("1900-02-29", "2023-02-29"), dataset.Categorical, ""},
	"Umlaute":         {each("Müller", "Köln", "東京"), dataset.Categorical, ""},
	"long texts": {func(i int) string { return strings.Repeat("ab", 600) + fmt.Sprint(i%3) },
		dataset.Categorical, ""},
	"one id each":           {number("u%04dx"), "", "dropped"},
	"quotes":                {each(`say ""no""`, "a, b"), dataset.Categorical, ""},
	"ids in two spellings":  {each("1001", "1001.0", " 1001"), dataset.Numeric, "constant"},
	"thousands":             {each("1,234.50", "999", "12,345,678"), dataset.Numeric, "format"},
	"dollars":               {each("$4.99", "$1,200", "-$3", "0"), dataset.Numeric, "format"},
	"euros":                 {each("4,99 €", "1.200 €"), dataset.Numeric, "format"},
	"two currencies":        {each("$4.99", "4.99 €"), dataset.Categorical, ""},
	"suffixes":              {each("25M", "8.7k", "512"), dataset.Numeric, "format"},
	"percents":              {each("12 %", "7.5%", "?"), dataset.Numeric, "format"},
	"shares and percents":   {each("12 %", "0.12"), dataset.Categorical, ""},
	"decimal comma":         {each("11,9", "1.234,5", "7"), dataset.Numeric, "format"},
	"either mark":           {each("1,234", "12,345"), dataset.Categorical, "format_open"},
	"day first":             {at("02/01/2006", ""), dataset.Temporal, "format"},
	"month first":           {at("1/2/2006 15:04:05", ""), dataset.Temporal, "format"},
	"dotted dates":          {at("02.01.2006", ""), dataset.Temporal, "format"},
	"either order":          {each("10/03/2004", "01/12/2003"), dataset.Categorical, "format_open"},
	"a word of a formula":   {each("=1+1", "@x"), dataset.Categorical, ""},
	"numbers of many words": {each("12 kg", "13 kg"), dataset.Categorical, ""},
}

const oddRows = 300

// written returns the table of a column, as CSV and as JSONL.
func (o odd) written() (csv, jsonl string) {
	var c, j strings.Builder
	c.WriteString("y,x,z\n")
	for i := range oddRows {
		text, z := o.text(i), string(rune('a'+i%5))
		fmt.Fprintf(&c, "%d,\"%s\",%s\n", i*7%11%2, text, z)
		row, _ := json.Marshal(map[string]any{"x": strings.ReplaceAll(text, `""`, `"`), "y": i * 7 % 11 % 2, "z": z})
		j.Write(append(row, '\n'))
	}
	return c.String(), j.String()
}

// stagedAs stages the table in a file and returns its manifest.
func stagedAs(t *testing.T, spec *dataset.Spec, file table.File) *dataset.Manifest {
	t.Helper()
	r := must.Get(ingest.Stage(context.Background(), spec, []table.File{file}, filepath.Join(t.TempDir(), "d"),
		ingest.Options{Threads: 1}))(t)
	return r.Manifest
}

// encoded returns the model values of a file's rows, as `launcher predict` computes them.
func encoded(t *testing.T, m *dataset.Manifest, file table.File) []byte {
	t.Helper()
	e := must.Get(cell.NewEncoder(m.Encoding(), nil))(t)
	tab := must.Get(table.Open([]table.File{file}, table.Options{Threads: 1}))(t)
	var out bytes.Buffer
	must.Do(t, tab.Read(context.Background(), e.Columns(), 100, func(b *table.Batch) error {
		values, err := e.Encode(b, nil, nil, 1)
		if err == nil {
			err = binary.Write(&out, binary.LittleEndian, values)
		}
		return err
	}))
	return out.Bytes()
}

// TestTables: an odd column becomes the same, in the same bits, on every way into Coppice: staged and fitted, from CSV
// and from JSONL, when it is predicted on and, with COPPICE_PYTHON, when Python reads it. Without COPPICE_PYTHON and
// COPPICE_FULL it tries every eighth column.
func TestTables(t *testing.T) {
	names := slices.Sorted(maps.Keys(oddColumns))
	if len(names) < 60 {
		t.Fatalf("%d tables, expected at least 60", len(names))
	}
	python, kept := os.Getenv("COPPICE_PYTHON"), t.TempDir()
	for i, name := range names {
		if python == "" && os.Getenv("COPPICE_FULL") == "" && i%8 != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			o, folder := oddColumns[name], filepath.Join(kept, fmt.Sprint(i))
			csv, jsonl := o.written()
			must.Do(t, os.Mkdir(folder, 0o755))
			files := map[string]table.File{}
			for suffix, text := range map[string]string{"csv": csv, "jsonl": jsonl} {
				path := filepath.Join(folder, "t."+suffix)
				must.Do(t, os.WriteFile(path, []byte(text), 0o644))
				files[suffix] = table.File{URI: path, Path: path, Bytes: int64(len(text))}
			}

			// What the column becomes, and that JSONL gives the same.
			spec := specOf(t, "label: y\nencodings: none\n")
			m := stagedAs(t, spec, files["csv"])
			o.check(t, stagedAs(t, specOf(t, "label: y\n"), files["csv"]))
			same(t, "JSONL", m.Features, stagedAs(t, spec, files["jsonl"]).Features)

			// What fit drafts makes the same features as a spec by hand with the same split and kind of label.
			d := must.Get(Make(context.Background(), Request{Label: "y", Trials: 1,
				Sources: []string{files["csv"].Path},
				Parts:   splitRandom}))(t)
			fitted := must.Get(dataset.ParseSpec("dataset.yaml", d.Dataset))(t)
			// split is the line of the draft that says how the rows are split.
			split := "split" + strings.SplitN(strings.SplitN(string(d.Dataset), "\nsplit", 2)[1], "\n", 2)[0] + "\n"
			own := stagedAs(t, specOf(t, "label: {column: y, kind: regression}\n"+split), files["csv"])
			if strings.Contains(string(d.Dataset), "label: \"y\"") {
				own = stagedAs(t, specOf(t, "label: y\n"+split), files["csv"])
			}
			same(t, "fit", own.Features, stagedAs(t, fitted, files["csv"]).Features)

			// Predicting reads the same values from both; they are kept for Python.
			values := encoded(t, m, files["csv"])
			if !bytes.Equal(values, encoded(t, m, files["jsonl"])) {
				t.Error("predict reads other values from JSONL than from CSV, want the same")
			}
			features := must.Get(json.Marshal(m.Encoding()))(t)
			for file, data := range map[string][]byte{"features.json": features, "values": values} {
				must.Do(t, os.WriteFile(filepath.Join(folder, file), data, 0o644))
			}
		})
	}
	if python == "" {
		t.Log("Python's door was not tried: COPPICE_PYTHON names a Python with pyarrow (make tables)")
		return
	}
	if out, err := exec.Command(python, "../../../python/tests/tables.py", kept).CombinedOutput(); err != nil {
		t.Errorf("Python reads other values: %v\n%s", err, out)
	}
}

// specOf parses a spec of which text is all but name and source.
func specOf(t *testing.T, text string) *dataset.Spec {
	t.Helper()
	return must.Get(dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\n"+text)))(t)
}

// same fails the test if door, a way to stage a table, gives other features than staging it does.
func same(t *testing.T, door string, want, got []dataset.Feature) {
	t.Helper()
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(got)
	if !bytes.Equal(a, b) {
		t.Errorf("%s makes the features\n%s\nwant, as stage makes\n%s", door, b, a)
	}
}

// check compares what the column became, and its warnings, with what is wanted. A column that has become statistics is
// categorical.
func (o odd) check(t *testing.T, m *dataset.Manifest) {
	t.Helper()
	kind := dataset.Kind("")
	for _, f := range m.Features {
		if f.Name == "x" {
			kind = f.Kind
		} else if strings.HasPrefix(f.Name, "x:") && kind == "" {
			kind = dataset.Categorical // its statistics
		}
	}
	var warned []string
	for _, w := range m.About.Warnings {
		if w.Column == "x" {
			warned = append(warned, w.Code)
		}
	}
	if kind != o.kind || o.warn != "" && !slices.Contains(warned, o.warn) {
		t.Errorf("the column is %q, with warnings %q; expected %q, %q", kind, warned, o.kind, o.warn)
	}
}
