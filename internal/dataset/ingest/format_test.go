package ingest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// column writes a table of 300 rows with the column x, whose texts are drawn from some, each of which comes.
func column(texts ...string) string {
	rng := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	b.WriteString("y;x;z\n")
	for i := range 300 {
		text := texts[rng.IntN(len(texts))]
		if i < len(texts) {
			text = texts[i]
		}
		fmt.Fprintf(&b, "%d;%s;%c\n", i%2, text, 'a'+rng.IntN(5))
	}
	return b.String()
}

// Numbers with marks and dates in either order are read as such if the whole column agrees, and the same by predict.
func TestFormats(t *testing.T) {
	for name, want := range map[string]struct {
		texts  []string
		format dataset.Format
		kind   dataset.Kind
		least  float64 // of the column
		say    string
	}{
		"thousands":  {[]string{"1,234.50", "999", "12,345,678"}, "number", "numeric", 999, "are read as numbers"},
		"dollars":    {[]string{"$4.99", "$1,200", "-$3", ""}, "number", "numeric", -3, "are read as numbers"},
		"euros":      {[]string{"4,99 €", "1.200 €"}, "decimal_comma", "numeric", 4.99, "with a decimal comma"},
		"suffixes":   {[]string{"25M", "8.7k", "512", "?"}, "number", "numeric", 512, ""},
		"percent":    {[]string{"12 %", "7.5%", "-1 %"}, "number", "numeric", -1, ""},
		"comma":      {[]string{"11,9", "1.234,5", "7"}, "decimal_comma", "numeric", 7, ""},
		"spaces":     {[]string{"12 345", "7,5"}, "decimal_comma", "numeric", 7.5, ""},
		"addresses":  {[]string{"192.168.100.101", "192.168.100.102"}, "", "categorical", 0, ""},
		"telephones": {[]string{"612 345 678", "612 345 679"}, "", "categorical", 0, ""},
		"short":      {[]string{"1,234", "999", "12,345"}, "", "categorical", 0, "or numbers with a decimal comma"},
		"one comma": {[]string{"4,5", "1.234"}, "decimal_comma", "numeric", 4.5,
			`such as "4,5" are read as numbers with a decimal comma, this one as 4.5;`},
		"either":      {[]string{"1,234", "12,345"}, "", "categorical", 0, "or numbers with a decimal comma"},
		"currencies":  {[]string{"$4.99", "4.99 €"}, "", "categorical", 0, ""},
		"free":        {[]string{"$4.99", "0"}, "number", "numeric", 0, ""},
		"half %":      {[]string{"12 %", "0.12"}, "", "categorical", 0, ""},
		"ids":         {[]string{"24154600", "623049e6"}, "", "categorical", 0, ""},
		"zips":        {[]string{"01234", "$5"}, "", "categorical", 0, ""},
		"plain":       {[]string{"1.5", "2.25", "-3e-2"}, "", "numeric", -0.03, ""},
		"dmy":         {[]string{"10/03/2004", "31/12/2003"}, "dmy", "time", 1072828800, "dates with the day first"},
		"mdy":         {[]string{"10/03/2004 0:00:00", "12/31/2003 11:00 PM"}, "mdy", "time", 1072911600, ""},
		"dots":        {[]string{"30.09.1990", "01.02.1991"}, "dmy", "time", 654652800, ""},
		"either date": {[]string{"10/03/2004", "01/12/2003"}, "", "categorical", 0, "say dmy or mdy under format:"},
		"both orders": {[]string{"31/12/2003", "12/31/2003"}, "", "categorical", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := column(want.texts...)
			s := mustStage(t, "label: y\ncsv: {delimiter: ;}\n", text)
			f, format := s.feature(t, "x"), s.Manifest.Formats["x"]
			if f.Kind != want.kind || format != want.format || f.Range != nil && f.Range.Min != want.least {
				t.Errorf("x is %s in format %q, with %+v; expected %s in %q from %v", f.Kind, format, f.Range,
					want.kind, want.format, want.least)
			}
			said := ""
			for _, w := range s.Manifest.About.Warnings {
				said += w.Text
			}
			if !strings.Contains(said, want.say) {
				t.Errorf("said is %q, expected %q", said, want.say)
			}
			checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{Delimiter: ";"})
		})
	}
}

// A guess can be undone, and what the values do not tell can be said.
func TestFormatsAreSaid(t *testing.T) {
	const csv = "csv: {delimiter: ;}\n"
	s := mustStage(t, "label: y\ncategorical: [x]\n"+csv, column("$4", "$5", "$6"))
	if f := s.feature(t, "x"); f.Kind != dataset.Categorical {
		t.Errorf("x is %s in spite of categorical", f.Kind)
	}
	dates := column("10/03/2004", "01/12/2003")
	split := "label: y\nsplit: {by: time, column: x, train: 0.6, valid: 0.4}\n" + csv
	s = mustStage(t, split+"format: {x: mdy}\n", dates)
	if s.Manifest.Splits[0].Rows == 0 {
		t.Error("no rows in train")
	}
	for spec, want := range map[string]string{
		split:                             "say dmy or mdy under format:",
		"label: y\nformat: {q: dmy}\n":    `column "q" is not in`,
		"label: y\nformat: {x: number}\n": `"10/03/2004" cannot be read in the column's format, number`,
	} {
		if !strings.Contains(spec, "csv") {
			spec += csv
		}
		if _, err := tryStage(t, spec, []table.File{writeFile(t, "t.csv", dates)}, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected ... %s ...", spec, err, want)
		}
	}
}

// Numbers of JSON have a point whatever the column's texts have.
func TestFormatsOfJSON(t *testing.T) {
	s := mustStage(t, "label: y\ncsv: {delimiter: ;}\n", column("11,9", "1.234,5"))
	encoder := must.Get(cell.NewEncoder(s.Manifest.Encoding(), nil))(t)
	for text, want := range map[string]float64{`1.234`: 1.234, `"1.234"`: 1234, `1.234}` + "\n" + `{"x":"2,5"`: 1.234} {
		tab := must.Get(table.Open([]table.File{writeFile(t, "t.jsonl", `{"z":"a"}`+"\n"+`{"x":`+text+"}\n")},
			table.Options{Threads: 1}))(t)
		must.Do(t, tab.Read(context.Background(), encoder.Columns(), 9, func(b *table.Batch) error {
			values, err := encoder.Encode(b, nil, nil, 1)
			if err == nil && values[2] != want {
				t.Errorf("%s is read as %v, expected %v", text, values[2], want)
			}
			return err
		}))
	}
}

func TestFormatsOfLabels(t *testing.T) {
	text := strings.ReplaceAll(column("$4.99", "$1,200", "$3"), "y;x", "w;y")
	s := mustStage(t, "label: {column: y, kind: regression}\ncsv: {delimiter: ;}\n", text)
	if y := s.Split(dataset.TrainSplit).Label; y[0] != 4.99 || y[1] != 1200 {
		t.Errorf("labels are %v", y[:3])
	}
}

// TestCommas: where a semicolon does not divide the columns, 6,484 beside 7 is a whole number, and its value is said.
func TestCommas(t *testing.T) {
	text := strings.ReplaceAll(column(`"6,484"`, "7", "120"), ";", ",")
	s := mustStage(t, "label: y\n", text)
	var said []string
	for _, w := range s.Manifest.About.Warnings {
		said = append(said, w.Text)
	}
	if f := s.feature(t, "x"); f.Kind != dataset.Numeric || f.Range.Max != 6484 ||
		!strings.Contains(fmt.Sprint(said), `"6,484" are read as numbers, this one as 6484;`) {
		t.Errorf("x is %s up to %+v, said is %q", f.Kind, f.Range, said)
	}
}

// What all rows tell counts, not what the first ones do.
func TestFormatsOfLaterRows(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,x,n,late,plain\n")
	for i := range 2 * maxHead {
		n, day, late := "5M", 1, "1.5"
		if i > maxHead+1000 {
			n, day, late = "M", 13, `"1,234.5"`
		}
		fmt.Fprintf(&b, "%d,%02d/01/2004,%s,%s,7\n", i%2, day, n, late)
	}
	tab := must.Get(table.Open([]table.File{writeFile(t, "t.csv", b.String())}, table.Options{Threads: 2}))(t)
	r, err := Recognise(context.Background(), &dataset.Spec{}, tab, "", cell.NewMarkers(dataset.DefaultMissing()))
	if err != nil || r.Formats["x"] != dataset.DayFirst || r.Formats["late"] != dataset.AsNumber ||
		len(r.Formats) != 2 {
		t.Errorf("formats are %v, error %v; expected x: dmy and late: number", r.Formats, err)
	}
}
