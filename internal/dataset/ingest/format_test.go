package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// column returns a table of 300 rows, divided by semicolons, whose column x has the given texts: one after the other in
// the first rows, and at random after them. Columns y and z are a label and another feature.
func column(texts ...string) string {
	rng := rand.New(rand.NewPCG(7, 7))
	return csvOf("y;x;z", 300, func(i int) string {
		text := texts[rng.IntN(len(texts))]
		if i < len(texts) {
			text = texts[i]
		}
		return fmt.Sprintf("%d;%s;%c", i%2, text, 'a'+rng.IntN(5))
	})
}

// TestYearsOfTwoDigits: a column whose texts are all dates with years of two digits stays one of texts, with a warning
// that shows the first one. Codes with hyphens, versions, and columns with other texts, too, are not told of.
func TestYearsOfTwoDigits(t *testing.T) {
	for first, tc := range map[string]struct {
		other string
		told  bool
	}{
		"01/31/25":       {"02/01/25", true},
		"31.1.25":        {"1.12.24", true},
		"31-Jan-25":      {"01-Feb-25", true},
		"01/31/25 13:05": {"02/01/25 00:00", true},
		"20-30-40":       {"20-30-41", false},
		"1.14.22":        {"1.14.23", true}, // the 14th of January, as far as anybody can tell
		"1.0.22":         {"1.0.23", false},
		"01/31/26":       {"soon", false},
	} {
		s := mustStage(t, "label: y\n", csvOf("y;x;z", 600, func(i int) string {
			return fmt.Sprintf("%d;%s;%d", i%3/2, []string{first, tc.other}[i%2], i%7)
		}))
		told := said(s, "")
		if strings.Contains(told, "years of two digits") != tc.told ||
			tc.told && !strings.Contains(told, strconv.Quote(first)) {
			t.Errorf("%q, and %q: told %q, want a warning with the first text: %t", first, tc.other, told, tc.told)
		}
	}
}

// TestOneOddTextAmongFormats: if a single text, here "unknown" in row 2,000 of 3,000, keeps a column from being read as
// numbers with marks or as dates, a warning names it and says what all values before it are. All other rows have the
// case's text. Words have no format, so an odd one among them is not told.
func TestOneOddTextAmongFormats(t *testing.T) {
	for text, want := range map[string]string{
		"11,9":       `before "unknown" all values are numbers with a decimal comma: the column is read as texts`,
		"30.09.1990": `before "unknown" all values are dates with the day first: the column is read as texts`,
		"red":        "",
	} {
		s := mustStage(t, "label: y\n", csvOf("y;x;z", 3000, func(i int) string {
			if i == 2000 {
				return "0;unknown;1"
			}
			return fmt.Sprintf("%d;%s;%d", i%3/2, text, i%7)
		}))
		if got := said(s, "odd_texts"); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: told %q, expected %q", text, got, want)
		}
	}
}

// TestFormats: numbers with marks, and dates in either order, are read as such if the whole column agrees, and the
// encoder reads them the same way. If a column could be read in two ways, it stays texts, with a warning.
func TestFormats(t *testing.T) {
	for name, want := range map[string]struct {
		texts  []string
		format dataset.Format
		kind   dataset.Kind
		least  float64 // the least value of the column; of dates, in seconds since 1970
		say    string  // part of a warning; "" for any or none
	}{
		// 1,234 may be 1234 or 1.234, so the column's other values have to tell which.
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
		"either":     {[]string{"1,234", "12,345"}, "", "categorical", 0, "or numbers with a decimal comma"},
		"currencies": {[]string{"$4.99", "4.99 €"}, "", "categorical", 0, ""},
		"free":       {[]string{"$4.99", "0"}, "number", "numeric", 0, ""},
		"half %":     {[]string{"12 %", "0.12"}, "", "categorical", 0, ""},
		"ids":        {[]string{"24154600", "623049e6"}, "", "categorical", 0, ""},
		"zips":       {[]string{"01234", "$5"}, "", "categorical", 0, ""},
		"plain":      {[]string{"1.5", "2.25", "-3e-2"}, "", "numeric", -0.03, ""},
		// The least dates of these are 2003-12-31, 23:00 on that day, and 1990-09-30.
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
			if got := said(s, ""); !strings.Contains(got, want.say) {
				t.Errorf("said is %q, expected %q", got, want.say)
			}
			checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{Delimiter: ";"})
		})
	}
}

// TestFormatsAreSaid: the spec can keep a column texts whose values look like numbers, and can say the order of day and
// month if the values do not tell. A format that the values do not have, or of a column that is not there, is an error.
func TestFormatsAreSaid(t *testing.T) {
	const csv = "csv: {delimiter: ;}\n"
	s := mustStage(t, "label: y\ncategorical: [x]\n"+csv, column("$4", "$5", "$6"))
	must.Equal(t, s.feature(t, "x").Kind, dataset.Categorical, "x, listed under categorical")
	// Each split gets one of the two dates, train the earlier one. With the month first, that is January 12, 2003; with
	// the day first, it would be December 1.
	dates := column("10/03/2004", "01/12/2003")
	split := "label: y\nsplit: {by: time, column: x, train: 0.6, valid: 0.4}\n" + csv
	s = mustStage(t, split+"format: {x: mdy}\n", dates)
	january := float64(time.Date(2003, 1, 12, 0, 0, 0, 0, time.UTC).Unix())
	must.Equal(t, s.Manifest.Split.Until["train"], january, "where train ends with dates whose order the spec says")
	for spec, want := range map[string]string{
		split:                                   "say dmy or mdy under format:",
		"label: y\nformat: {q: dmy}\n" + csv:    `column "q" is not in`,
		"label: y\nformat: {x: number}\n" + csv: `"10/03/2004" cannot be read in the column's format, number`,
	} {
		if _, err := tryStage(t, spec, []table.File{writeFile(t, "t.csv", dates)}, Options{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected ... %s ...", spec, err, want)
		}
	}
}

// TestFormatsOfJSON: in JSON, a number has a decimal point even if the column's texts have a decimal comma; a text in
// quotes is read as the column's texts. That holds for a batch of either, and of both.
func TestFormatsOfJSON(t *testing.T) {
	s := mustStage(t, "label: y\ncsv: {delimiter: ;}\n", column("11,9", "1.234,5"))
	encoder := must.Get(cell.NewEncoder(s.Manifest.Encoding(), nil))(t)
	for _, tc := range []struct {
		cells []string // of x
		want  []float64
	}{
		{[]string{`1.234`}, []float64{1.234}}, {[]string{`"1.234"`}, []float64{1234}},
		{[]string{`1.234`, `"2,5"`}, []float64{1.234, 2.5}},
	} {
		lines := `{"z":"a"}` + "\n" // the column z has to be in the table
		for _, cell := range tc.cells {
			lines += `{"x":` + cell + "}\n"
		}
		tab := must.Get(table.Open([]table.File{writeFile(t, "t.jsonl", lines)}, table.Options{Threads: 1}))(t)
		must.Do(t, tab.Read(context.Background(), encoder.Columns(), 9, func(b *table.Batch) error {
			values, err := encoder.Encode(b, nil, nil, 1)
			for i, want := range tc.want {
				// Each row has x and z, and the cells begin in the second row.
				if got := values[2*(i+1)]; err == nil && got != want {
					t.Errorf("%s of %q is read as %v, expected %v", tc.cells[i], tc.cells, got, want)
				}
			}
			return err
		}))
	}
}

// TestFormatsOfLabels: a label of amounts, $1,200, is read as numbers, as a feature is.
func TestFormatsOfLabels(t *testing.T) {
	// What the table calls x is named y here, and is the label.
	text := strings.ReplaceAll(column("$4.99", "$1,200", "$3"), "y;x", "w;y")
	s := mustStage(t, "label: {column: y, kind: regression}\ncsv: {delimiter: ;}\n", text)
	if y := s.Split(dataset.TrainSplit).Label; y[0] != 4.99 || y[1] != 1200 {
		t.Errorf("the labels are %v, want 4.99 and 1200 first", y[:3])
	}
}

// TestCommas: in a file that commas divide, "6,484" in quotes is 6484 and not 6.484, and a warning says so. In files
// that semicolons divide it could be either.
func TestCommas(t *testing.T) {
	text := strings.ReplaceAll(column(`"6,484"`, "7", "120"), ";", ",")
	s := mustStage(t, "label: y\n", text)
	if f := s.feature(t, "x"); f.Kind != dataset.Numeric || f.Range.Max != 6484 ||
		!strings.Contains(said(s, ""), `"6,484" are read as numbers, this one as 6484;`) {
		t.Errorf("x is %s up to %+v, with the warnings %q; want it numeric up to 6484, and said so", f.Kind, f.Range,
			said(s, ""))
	}
}

// TestFormatsOfLaterRows: all rows decide about a column's format, not only the first maxHead. In later rows, column x
// has a day 13, so that its dates must begin with the day; n has a text that is no number, so that it gets no format;
// and late has a thousands separator.
func TestFormatsOfLaterRows(t *testing.T) {
	b := csvOf("y,x,n,late,plain", 2*maxHead, func(i int) string {
		n, day, late := "5M", 1, "1.5"
		if i > maxHead+1000 {
			n, day, late = "M", 13, `"1,234.5"`
		}
		return fmt.Sprintf("%d,%02d/01/2004,%s,%s,7", i%2, day, n, late)
	})
	tab := must.Get(table.Open([]table.File{writeFile(t, "t.csv", b)}, table.Options{Threads: 2}))(t)
	r, err := Recognise(context.Background(), &dataset.Spec{}, tab, "", cell.NewMarkers(dataset.DefaultMissing()))
	if err != nil || r.Formats["x"] != dataset.DayFirst || r.Formats["late"] != dataset.AsNumber ||
		len(r.Formats) != 2 {
		t.Errorf("formats are %v, error %v; expected x: dmy and late: number", r.Formats, err)
	}
}

// TestNewValuesInTheSecondPassNameTheColumn: if a column has more values in the second pass than in the first, because
// the table has changed in between, the error names the file and the column.
func TestNewValuesInTheSecondPassNameTheColumn(t *testing.T) {
	rows := func() string {
		return csvOf("y,site,zip", 8000, func(i int) string {
			h := encode.Mix(uint64(i))
			return fmt.Sprintf("%d,s%02d,z%02d", h>>63, h%50, h>>8%40)
		})
	}
	file := writeFile(t, "t.csv", rows())
	spec := parseSpec(t, "label: y\nencodings: {keys: [[site, zip]]}\n")

	// The learner is called between the passes. It rewrites the file: half of the rows get new sites.
	learner := func(_ context.Context, l *encode.TrainingSet) ([]float64, error) {
		text := strings.Replace(rows(), ",s", ",S", 4000)
		return make([]float64, len(l.Label)), os.WriteFile(file.Path, []byte(text), 0o644)
	}
	_, err := Stage(t.Context(), spec, []table.File{file}, filepath.Join(t.TempDir(), "d"),
		Options{Threads: 2, Learner: learner})
	var at *table.InputError
	if !errors.As(err, &at) || at.File != file.URI || at.Column != "site" ||
		!strings.Contains(at.Msg, "the column had 50 values before and has more now; stage it again") {
		t.Errorf("got %v, want an error about column site of %s", err, file.URI)
	}
}

// TestOrderNamesTheRowThatIsWrong: in the column that orders statistics, a value that is neither a time nor a number,
// or not what those before it are, is an error that names its row. As long as all values could be times or numbers,
// there is none. Each case lists the column's values.
func TestOrderNamesTheRowThatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ values, want string }{
		"text among numbers": {"17 18.5 19 soon 21",
			`t.csv:5: column "at": the row has no place in the order of the statistics: its time is "soon", not a ` +
				`finite number as the values before it are`},
		"text among times": {"2026-01-01 2026-01-02 soon 2026-01-03",
			`t.csv:4: column "at": the row has no place in the order of the statistics: its time is "soon", not a ` +
				`time as the values before it are`},
		"number among times": {"2026-01-01 17 2026-01-02",
			`t.csv:3: column "at": the row has no place in the order of the statistics: its time is "17", not a ` +
				`time as`},
		"text first": {"soon 17 18",
			`t.csv:2: column "at": the row has no place in the order of the statistics: its time is "soon", neither ` +
				`a time`},
		"missing": {"17 NA 18",
			`t.csv:3: column "at": the row has no place in the order of the statistics: its time is missing`},
		"infinite": {"17 inf 18",
			`t.csv:3: column "at": the row has no place in the order of the statistics: its time is "inf", not a ` +
				`finite number`},
		"numbers, all of them": {strings.Repeat("17 18.5 -3 ", 400), ""},
		"times, all of them":   {strings.Repeat("2026-01-01 2026-01-02T10:00:00Z ", 600), ""},
	} {
		var b strings.Builder
		b.WriteString("y,at,id\n")
		for i, value := range strings.Fields(tc.values) {
			b.WriteString([]string{"0,", "1,"}[i%2] + value + ",i" + value + "\n")
		}
		_, err := tryStage(t, "label: y\nencodings: {order: {column: at}}\n",
			[]table.File{writeFile(t, "t.csv", b.String())}, Options{})
		must.Say(t, name, err, tc.want)
	}
}

// TestOrderByTheColumnOfASplit: the column that says the split of each row, here 1, 2 or 3, may order the statistics as
// well, by time, and encoding the rows again gives the bins that were staged.
func TestOrderByTheColumnOfASplit(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,day,id\n")
	for i := range 3000 {
		b.WriteString([]string{"0,", "1,"}[i/7%2] + []string{"1", "2", "3"}[i%3] + ",i" +
			[]string{"a", "b", "c", "d", "e"}[i%5] + "\n")
	}
	s := mustStage(t, "label: y\nsplit: {by: column, column: day, train: ['1', '2'], test: '3'}\n"+
		"encodings: {order: {by: time, column: day}, columns: {id: [rate, count]}}\n", b.String())
	if o := s.Manifest.Order; o == nil || o.Column != "day" || o.By != dataset.OrderTime {
		t.Errorf("ordered by %+v, want by time, column day", o)
	}
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", b.String())}, dataset.CSVSpec{})
}

// TestOddTexts: a few odd texts among numbers are missing values if they are what programs write for missing values.
// A number beyond the range and an infinity leave it numeric, with a warning. Any other odd text, also digits that are
// likely an id (0052), makes the column one of texts, with a warning that names it. Every 40th of 1,000 rows has the
// odd text, so that 97.5 % are numbers.
func TestOddTexts(t *testing.T) {
	for text, want := range map[string]struct {
		numeric bool   // else texts, nearly all of which are unique: no feature
		warning string // that there is one with these words; none if empty
	}{
		`\N`:     {true, ""},
		"#N/A":   {true, ""},
		"?":      {true, ""},
		"-":      {true, ""},
		"NaT":    {true, ""},
		"-nan":   {true, ""},
		"-1e400": {true, `"-1e400" is beyond the largest number, 1.8e308: such values are missing`},
		"-Inf":   {true, "infinite values count as the largest or the least number, ±1.8e308; if they stand"},
		"n.a.": {false,
			`97.5 % of the values are numbers, all others are "n.a.": the column is read as texts`},
		"2x, x": {false,
			`97.5 % of the values are numbers, all others are "2x, x": the column is read as texts`},
		"0052": {false, `97.5 % of the values are numbers, all others are "0052"`},
	} {
		csv := csvOf("y,x1,z", 1000, func(i int) string {
			x := fmt.Sprintf("%d.5", i)
			if i%40 == 7 {
				x = text
			}
			return fmt.Sprintf("%d,\"%s\",%c", i%2, x, 'a'+i%3)
		})
		s := mustStage(t, "label: y\n", csv)
		var warnings []string
		for _, w := range s.Manifest.About.Warnings {
			if w.Column == "x1" && w.Code != WarnIDLike {
				warnings = append(warnings, w.Text)
			}
		}
		got := strings.Join(warnings, "\n")
		if !strings.Contains(got, want.warning) || want.warning == "" && got != "" {
			t.Errorf("1000 rows, every 40th %q: got warnings %q, want %q", text, warnings, want.warning)
		}
		at := slices.Index(s.names(), "x1")
		if numeric := at >= 0 && s.Manifest.Features[at].Kind == dataset.Numeric; numeric != want.numeric {
			t.Errorf("1000 rows, every 40th %q: x1 is a numeric feature: %t, want %t", text, numeric, want.numeric)
		}
	}
}

// TestTextsThatHoldNumbers: feet and inches among inches, as in a form that people fill in, are named, although they
// are more than a few; and so is a column whose numbers have a unit or a sign that is not read. Codes are not.
func TestTextsThatHoldNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		text func(i int) string // of row i of 1,000
		want string             // part of a warning, and of the only one; none if empty
	}{
		"heights": {func(i int) string {
			if i%13 == 5 {
				return fmt.Sprintf("5'%d", i%11)
			}
			return fmt.Sprint(60 + i%17)
		}, "92.3 % of the values are numbers, all others are"},
		"kg":  {func(i int) string { return fmt.Sprintf("%d.%d kg", i, i%10) }, "hold numbers that are not read"},
		"USD": {func(i int) string { return fmt.Sprintf("USD 1,%03d.50", i) }, "hold numbers that are not read"},
		"losses": {func(i int) string { return fmt.Sprintf([]string{"1,%03d.25", "(1,%03d.25)", "%d.25"}[i%3], i) },
			`such as "(1,`},
		"codes": {func(i int) string { return fmt.Sprintf("AB %d", i) }, ""},
		"seats": {func(i int) string { return fmt.Sprintf("%d.%d%c", i, i%7, 'A'+i%6) }, ""},
	} {
		csv := csvOf("y,x1,z", 1000, func(i int) string { return fmt.Sprintf("%d,\"%s\",%c", i%2, c.text(i), 'a'+i%3) })
		said := ""
		for _, w := range mustStage(t, "label: y\n", csv).Manifest.About.Warnings {
			if w.Column == "x1" && w.Code == WarnOdd {
				said += w.Text
			}
		}
		if !strings.Contains(said, c.want) || c.want == "" && said != "" {
			t.Errorf("%s: got the warning %q, want %q in it", name, said, c.want)
		}
	}
}

// TestHoursOfATimeAlone: a table whose only other column is the rows' time, by which they are split, has the features
// that are derived from it.
func TestHoursOfATimeAlone(t *testing.T) {
	s := mustStage(t, "label: y\nsplit: {by: time, column: t, train: 0.5, valid: 0.5}\nderive: {t: [hour]}\n",
		csvOf("y,t", 200, func(i int) string { return fmt.Sprintf("%d,2026-11-20 %02d:%02d", i%3/2, i/10, i%10) }))
	if f := s.Manifest.Features; len(f) != 1 || f[0].Name != "t.hour" {
		t.Errorf("the features are %v; expected t.hour alone", f)
	}
}

// TestMinusIsALabel: "-" is a missing value in a column of numbers, but a value among the labels "+" and "-".
func TestMinusIsALabel(t *testing.T) {
	for _, keys := range []string{"", ", negative: \"-\""} {
		s := mustStage(t, "label: {column: y, positive: \"+\""+keys+"}\n",
			"y,x\n"+strings.Repeat("+,1\n-,-\n-,3\n", 40))
		if rows, kind := s.Manifest.Splits[0].Rows, s.feature(t, "x").Kind; rows != 120 || kind != dataset.Numeric {
			t.Errorf("with %q: %d rows, and x is %s; want 120, and x numeric", keys, rows, kind)
		}
	}
}

// TestTimesInTexts: texts that are times in usual ways of writing are read as times. a, b, c and d have one way each. a
// splits the rows by time, which would fail if it were not read as one, and is no feature then.
func TestTimesInTexts(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,a,b,c,d\n")
	for i := range 200 {
		fmt.Fprintf(&b, "%d,2024-10-%02d 00:17:05 UTC,2024/10/%d 12:00,\"June %d, 2018\",20241020T%02d0000Z\n", i%2,
			i%28+1, i%28+1, i%28+1, i%24)
	}
	s := mustStage(t, "label: y\nsplit: {by: time, column: a, train: 0.7, valid: 0.3}\n", b.String())
	for _, name := range []string{"b", "c", "d"} {
		must.Equal(t, s.feature(t, name).Kind, dataset.Temporal, "%s", name)
	}
}

// TestOddLabels: a number far from all other labels, and a value that only one row has, get a warning.
func TestOddLabels(t *testing.T) {
	for _, tc := range []struct {
		spec  string
		label func(i int) string // of row i of 297
		want  string             // part of a warning
	}{
		// Every third row has -999. The others have 1 to 98, without the multiples of 3.
		{"label: {column: y, kind: regression}\n", func(i int) string {
			if i%3 == 0 {
				return "-999"
			}
			return fmt.Sprint(i % 99)
		}, "99 of 297 sampled labels are -999, and all others 1 to 98"},
		// The last row is the odd one.
		{"label: {column: y, kind: classes}\n", func(i int) string {
			if i == 296 {
				return "TOTAL"
			}
			return []string{"a", "b"}[i%2]
		}, `one row alone has "TOTAL"`},
		{"label: y\n", func(i int) string { return fmt.Sprint(i / 296) }, `one row alone has "1"`},
	} {
		csv := csvOf("y,x", 297, func(i int) string { return fmt.Sprintf("%s,%d", tc.label(i), i%7) })
		if got := said(mustStage(t, tc.spec, csv), ""); !strings.Contains(got, tc.want) {
			t.Errorf("%s: got the warnings %s, want ... %s ...", tc.spec, got, tc.want)
		}
	}
}

// TestLabelsInOtherSpellings: a label equals positive: if both are the same number, however each is written. Ids longer
// than a float64 holds are compared as texts. Each case has the labels of a third and of two thirds of the rows, and
// the text under positive:, which means the latter.
func TestLabelsInOtherSpellings(t *testing.T) {
	for _, c := range [][3]string{{"1.0", "2.0", "2"}, {"01", "02", "2"}, {"1e3", "2e3", "2000"}, {"1", "2", "2.0"},
		{"12345678901234567891", "12345678901234567890", "12345678901234567890"}} {
		csv := csvOf("y,x", 300, func(i int) string { return fmt.Sprintf("%s,%d", c[min(1, i%3)], i) })
		s := mustStage(t, fmt.Sprintf("label: {column: y, positive: %q}\n", c[2]), csv)
		rows := float32(0)
		for _, split := range s.Splits {
			for _, y := range split.Label {
				rows += y
			}
		}
		must.Equal(t, rows, 200, "of %s and %s, rows of 300 with the label %s", c[0], c[1], c[2])
	}
}

// TestDeclaredTexts: if a table declares a column as texts, its numbers are categories. If they have fractions, as in a
// column that pandas wrote with \N for missing values, a warning says how to read them as numbers. Whole numbers may be
// ids, and get none.
func TestDeclaredTexts(t *testing.T) {
	for name, c := range map[string]struct {
		most string // 41 of 81 texts; the others are whole numbers
		hint bool
	}{
		"fractions":     {"0.5", true},
		"whole numbers": {"7", false},
		"a word":        {"x", false},
	} {
		texts := []string{c.most}
		for i := range 40 {
			texts = append(texts, c.most, fmt.Sprint(i))
		}
		s := newColumnSurvey(feature{column: table.Column{Name: "bid", Type: dataset.Text}}, &cell.Markers{})
		s.observe(&table.Batch{}, &dataset.Values{Type: dataset.Text, Text: texts}, nil)
		kind, _, err := s.kind()
		if err != nil {
			t.Fatalf("%s: the kind of column bid: got error %v, want none", name, err)
		}
		var warnings []string
		s.warnOfOdd(func(_, format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) })
		hint := strings.Contains(fmt.Sprint(warnings), "--format bid=number")
		if kind != dataset.Categorical || hint != c.hint {
			t.Errorf("%s, 81 declared texts: got kind %s, warnings %q; want categorical, and a hint of --format: %t",
				name, kind, warnings, c.hint)
		}
	}
}

// TestLabels: labels become numbers as their kind says, and rows without one are left out. Many different numbers are a
// regression without being asked for.
//
// The table's labels are 0, 1, a missing value, a number and nan, in turn: of 40 rows, 16 have none. The specs have no
// split, so all other rows are train.
func TestLabels(t *testing.T) {
	rows := "a,y\n"
	for i := range 40 {
		rows += fmt.Sprintf("%d,%s\n", i, []string{"0", "1", "NA", "2.5", "nan"}[i%5])
	}
	binary := strings.ReplaceAll(rows, "2.5", "1.0")
	for name, tc := range map[string]struct {
		spec, csv string
		kind      dataset.LabelKind
		want      [3]float32 // of rows 0, 1 and 3
	}{
		"bare":     {"label: y\n", binary, dataset.Binary, [3]float32{0, 1, 1}},
		"positive": {"label: {column: y, positive: 2.5}\n", rows, dataset.Binary, [3]float32{0, 0, 1}},
		"both": {"label: {column: y, positive: 1, negative: 0}\n", strings.ReplaceAll(rows, "2.5", "0"),
			dataset.Binary, [3]float32{0, 1, 0}},
		"above":      {"label: {column: y, above: 1}\n", rows, dataset.Binary, [3]float32{0, 0, 1}},
		"regression": {"label: {column: y, kind: regression}\n", rows, dataset.Regression, [3]float32{0, 1, 2.5}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustStage(t, tc.spec, tc.csv)
			l := s.Split("train").Label
			if s.Manifest.Label.Kind != tc.kind || [3]float32{l[0], l[1], l[2]} != tc.want ||
				s.Manifest.LeftOut != 16 || len(l) != 24 {
				t.Errorf("got %s labels %v, %d left out; want %s labels that begin with %v, 24 in all, 16 left out",
					s.Manifest.Label.Kind, l, s.Manifest.LeftOut, tc.kind, tc.want)
			}
			mean := (tc.want[0] + tc.want[1] + tc.want[2]) / 3 // each of the three comes eight times
			if got := s.Manifest.Splits[0].LabelMean; math.Abs(got-float64(mean)) > 1e-7 {
				t.Errorf("mean %v, want %v", got, mean)
			}
		})
	}

	// Without being asked for, many different numbers are a regression.
	many := "a,y\n"
	for i := range 50 {
		many += fmt.Sprintf("1,%d\n", i)
	}
	must.Equal(t, mustStage(t, "label: y\n", many).Manifest.Label.Kind, dataset.Regression, "a label of 50 numbers")
}
