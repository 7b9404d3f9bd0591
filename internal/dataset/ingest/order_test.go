package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/encode"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

// orderedTable returns CSV whose rows have a place in time, in column tick as a number and in column at as a time, but
// are not in that order: 7919 is a prime, so that each place comes once. part puts every third row into test.
func orderedTable(rows int) string {
	return csvOf("y,site,tick,at,part", rows, func(i int) string {
		at := i * 7919 % rows
		return fmt.Sprintf("%d,s%d,%d,2026-01-%02d 00:00:%02d,%s", (i/3)%2, i%50, at, 1+at*28/rows, at%60,
			[]string{"train", "train", "test"}[i%3])
	})
}

// TestOrderByNumbersInText: in CSV, where all columns are texts, a column of numbers can order the rows for statistics.
// Encoding the held-out rows again gives the same bins.
func TestOrderByNumbersInText(t *testing.T) {
	s := mustStage(t, "label: y\nsplit: {by: column, column: part}\n"+
		"encodings: {order: {column: tick}, columns: {site: [rate, count, recency]}}\n", orderedTable(6000))
	if o := s.Manifest.Order; o == nil || o.By != dataset.OrderTime || o.Column != "tick" {
		t.Fatalf("statistics are ordered by %+v, expected by the time in tick", o)
	}
	must.Equal(t, s.feature(t, "site:recency").From.Of[0].Kind, dataset.Numeric, "the order is read as")
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", orderedTable(6000))}, dataset.CSVSpec{})
}

// TestOrderRefuses: a delay is an error if the column that orders the rows holds numbers, whose unit is unknown, and
// recency is one if no time orders them. With a column of times both are accepted.
func TestOrderRefuses(t *testing.T) {
	for rest, want := range map[string]string{
		"encodings: {order: {column: tick, delay: 24h}}\n": `column "tick" holds numbers ` +
			`in an unknown unit`,
		"encodings: {order: {by: random}, columns: {site: [rate, recency]}}\n": "recency needs an order by time, " +
			"and this one is random: give",
		"encodings: {columns: {site: recency}}\n":                                    "recency needs an order by time",
		"encodings: {order: {column: at, delay: 24h}, columns: {site: [recency]}}\n": "",
	} {
		_, err := tryStage(t, "label: y\nsplit: {by: column, column: part}\n"+rest,
			[]table.File{writeFile(t, "t.csv", orderedTable(3000))}, Options{})
		must.SayAs[*strictyaml.Error](t, rest, err, want)
	}
}

// TestSampleKeepsWhatIsLeftOut: a column that staging leaves out by itself stays in the sample, since the model of
// another night may need it. Here that is tick, which grows with the order of the rows. A column that the spec drops is
// not in the sample.
func TestSampleKeepsWhatIsLeftOut(t *testing.T) {
	s := mustStage(t, "label: y\ndrop: [at]\nsplit: {by: column, column: part}\nencodings: {order: {column: "+
		"tick}}\nsample: 100\n",
		orderedTable(6000))
	if got := codes(s); !slices.Contains(got, "dropped tick") {
		t.Fatalf("%q: the test needs a column that was left out", got)
	}
	if got := s.sample(t).Names; !slices.Contains(got, "site") || !slices.Contains(got, "tick") ||
		slices.Contains(got, "at") {
		t.Errorf("the sample has %q; want site and tick, and not at", got)
	}
}

// TestSpellingsOfOneID: an id is the same id in every spelling and type, as a category and as a level of statistics,
// when it is staged and when it is predicted on.
func TestSpellingsOfOneID(t *testing.T) {
	long(t)
	// The same 50 ids in two columns, one of them near the largest whole number that a float64 holds, in several
	// spellings. flag is true in three spellings, which are one category.
	write := func(spell func(i, id int) string) string {
		return csvOf("y,id,big,flag", 6000, func(i int) string {
			id := encode.Mix(uint64(i)) % 50
			return fmt.Sprintf("%d,%s,%s,%s", id%2, spell(i, 1001+int(id)), spell(i, 1234567890123400+int(id)),
				[]string{"True", "true", " TRUE", "no"}[i%4])
		})
	}
	whole := write(func(_, id int) string { return fmt.Sprint(id) })
	mixed := write(func(i, id int) string { return fmt.Sprintf([]string{"%d", "%d.0", " %d", "+%d", "%d"}[i%5], id) })
	float := write(func(_, id int) string { return fmt.Sprintf("%d.0", id) })

	// Each table gives 50 categories, and the same statistics.
	for name, spec := range map[string]string{
		"categories": "label: y\ncategorical: [id, big]\nencodings: none\nsplit: {by: random, train: 0.8, test: 0.2}\n",
		"levels":     "label: y\ncategorical: [id, big]\nsplit: {by: random, train: 0.8, test: 0.2}\n",
	} {
		t.Run(name, func(t *testing.T) {
			var bins [][]uint8
			for i, rows := range []string{whole, mixed, float} {
				s := mustStage(t, spec, rows)
				for _, feature := range s.Manifest.Features {
					if feature.Kind == dataset.Categorical && feature.Name != "flag" && len(feature.Categories) != 50 {
						t.Errorf("table %d: %s has %d categories, want 50: %q", i, feature.Name,
							len(feature.Categories), feature.Categories)
					}
				}
				// A category has its most frequent spelling in train, or the first by its bytes. Here the three have
				// about as many rows, and it is one of these two.
				if f := s.feature(t, "flag"); !slices.Equal(f.Categories, []string{"True", "no"}) &&
					!slices.Equal(f.Categories, []string{" TRUE", "no"}) {
					t.Errorf("table %d: flag has categories %q, want two", i, f.Categories)
				}
				checkEncoder(t, s, []table.File{writeFile(t, "again.csv", rows)}, dataset.CSVSpec{})
				bins = append(bins, s.Split("test").RowMajor)
			}
			// The bins of categories may differ: equally frequent ones are sorted by how they are written.
			if name == "levels" && (!slices.Equal(bins[0], bins[1]) || !slices.Equal(bins[0], bins[2])) {
				t.Error("the same ids in other spellings have other bins, want the same")
			}
		})
	}

	// What was trained on 1001 predicts on 1001.0, in whatever type.
	s := mustStage(t, "label: y\ncategorical: [id, big]\nencodings: {columns: {id: [categories, rate, count]}}\n",
		whole)
	enc := mustEncode(t, s.Manifest.Encoding(), s.levels(t))
	flags := text("True", "no")
	rows := func(id, big dataset.Values) []float64 {
		t.Helper()
		out := must.Get(enc.Encode(&table.Batch{Names: []string{"id", "big", "flag"},
			Columns: []dataset.Values{id, big, flags},
			Rows:    2}, nil, nil, 1))(t)
		return out
	}
	want := rows(text("1001", "1002"), text("1234567890123401", "1234567890123402")) // written as in training
	for name, got := range map[string][]float64{
		"floats in text": rows(text("1001.0", "1002.000"), text("1234567890123401.0", "+1234567890123402")),
		"floats": rows(dataset.Values{Type: dataset.Float, Float: []float64{1001, 1002}},
			dataset.Values{Type: dataset.Float, Float: []float64{1234567890123401, 1234567890123402}}),
		"whole numbers": rows(dataset.Values{Type: dataset.Int, Int: []int64{1001, 1002}},
			dataset.Values{Type: dataset.Int, Int: []int64{1234567890123401, 1234567890123402}}),
		"spaces": rows(text(" 1001", "1002\t"), text("1234567890123401 ", " 1234567890123402")),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestMissingNumbersAmongCategories: if a number stands for a missing value, it does so in a column of categories, too,
// in any spelling. Every fourth of 3,000 rows has it.
func TestMissingNumbersAmongCategories(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,id\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "%d,%s\n", i/7%2, []string{"a", "b", "-999.0", "c"}[i%4])
	}
	s := mustStage(t, "label: y\nmissing: ['', '-999']\n", b.String())
	if f := s.feature(t, "id"); len(f.Categories) != 3 || f.MissingBin < 0 || f.Missing != 750 {
		t.Errorf("categories %q, missing bin %d of %d values; want a, b and c, and 750 missing values", f.Categories,
			f.MissingBin, f.Missing)
	}
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", b.String())}, dataset.CSVSpec{})
}

// TestValues: the columns under values: are stored with the labels of every split, as they are in the table, whether
// they are also features, have another role or are dropped. A dataset without values has the format that it always had.
func TestValues(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("user,x,bid,price,sales\n")
	for i := range 400 {
		fmt.Fprintf(&csv, "u%d,%d,%d.5,%d,%d\n", i%50, i%7, i%11, -i, i%3)
	}
	// bid is a feature, sales the label, and price is dropped. price is minus the row's number, by which the row is
	// found below.
	const spec = "label: {column: sales, above: 1}\ndrop: [price]\nencodings: none\n" +
		"split: {by: hash, key: user, train: 0.6, valid: 0.2, test: 0.2}\n"
	with, without := mustStage(t, spec+"values: [bid, price, sales]\n", csv.String()), mustStage(t, spec, csv.String())
	if with.Manifest.Format != dataset.FormatValues || without.Manifest.Format != dataset.FormatVersion ||
		len(with.Manifest.Features) != len(without.Manifest.Features) {
		t.Errorf("with and without values: got formats %d and %d, want %d and %d; got %d and %d features, want as many",
			with.Manifest.Format, without.Manifest.Format, dataset.FormatValues, dataset.FormatVersion,
			len(with.Manifest.Features), len(without.Manifest.Features))
	}

	// Each split has the values of its rows, and so has what is read from the bytes of its file.
	d := with.Dataset
	must.Do(t, d.Verify(t.Context(), nil))
	rows := 0
	for _, s := range d.Splits {
		rows += s.Rows
		data := must.Get(os.ReadFile(filepath.Join(with.dir, filepath.FromSlash(dataset.TargetsFile(s.Name)))))(t)
		fetched := must.Get(dataset.ReadTargets(data))(t)
		picked := fetched.Pick([]uint32{uint32(s.Rows - 1)})
		for name, v := range s.Values {
			if len(v) != s.Rows || len(fetched.Values[name]) != s.Rows || picked.Values[name][0] != v[s.Rows-1] {
				t.Fatalf("%s of %s has %d values, its file %d, want %d; the last row picked has %v, want %v", name,
					s.Name, len(v), len(fetched.Values[name]), s.Rows, picked.Values[name], v[len(v)-1])
			}
		}
		for r, price := range s.Values["price"] {
			i := int(-price)
			want := [3]float32{float32(i%11) + 0.5, float32(-i), float32(i % 3)}
			got := [3]float32{fetched.Values["bid"][r], price, s.Values["sales"][r]}
			if got != want || (s.Label[r] == 1) != (i%3 > 1) {
				t.Fatalf("row %d of %s has the values %v, label %v; expected %v", r, s.Name, got, s.Label[r], want)
			}
		}
	}
	must.Equal(t, rows, 400, "number of rows that have values")

	// Lists of values that are not possible: label and log mean something else in the expression of a metric, a name
	// with a blank and a number are no names there, and each column may be listed once.
	for _, names := range []string{"[label]", "[bid price]", "[log]", "[bid, bid]", "[2]"} {
		_, err := dataset.ParseSpec("dataset.yaml", []byte("name: d\nsource: t.csv\nlabel: y\nvalues: "+names+"\n"))
		must.Say(t, fmt.Sprintf("values: %s", names), err, "dataset.yaml:4:")
	}
}

// monthTable returns CSV with columns of a few numbers, times and digits, and site, a column of ids.
func monthTable(rows int) string {
	rng := rand.New(rand.NewPCG(3, 5))
	return csvOf("y,month,share,day,site,zip", rows, func(_ int) string {
		return fmt.Sprintf("%d,%d,%.1f,2026-01-%02d,s%d,%05d",
			rng.IntN(2), 1+rng.IntN(12), rng.Float64(), 1+rng.IntN(9), rng.IntN(50), rng.IntN(90))
	})
}

// TestCategoriesOfNumbers: a column of numbers or times is categorical if the spec asks for categories or levels,
// besides statistics or alone. A column that is categorical anyway keeps its own reason.
func TestCategoriesOfNumbers(t *testing.T) {
	text := monthTable(3000)
	s := mustStage(t, "label: y\nsplit: {by: hash, key: site, train: 0.8, test: 0.2}\n"+
		"encodings: {columns: {month: categories, share: [rate, categories], day: levels, zip: categories}}\n", text)
	for name, one := range map[string]string{"month": "7", "share": "0.5", "day": "2026-01-05"} {
		f := s.feature(t, name)
		if f.Kind != dataset.Categorical || f.Why != dataset.WhyForced || !slices.Contains(f.Categories, one) {
			t.Errorf("%s is %s (%s) with categories %q, want it categorical (%s) with %s among them", name, f.Kind,
				f.Why, f.Categories, dataset.WhyForced, one)
		}
	}
	if f := s.feature(t, "zip"); f.Why != dataset.WhyDigits {
		t.Errorf("zip is %s because of %s, want what the table says: %s", f.Kind, f.Why, dataset.WhyDigits)
	}
	s.feature(t, "share:rate")
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", text)}, dataset.CSVSpec{})
}

// TestCategoriesRefused: categories of a column that the spec also lists under numeric:, and of a number derived from a
// time, are errors that say why.
func TestCategoriesRefused(t *testing.T) {
	for rest, want := range map[string]string{
		"numeric: [month]\nencodings: {columns: {month: categories}}\n": `column "month" is listed ` + `under numeric`,
		"derive: {day: [weekday]}\nencodings: {columns: {day.weekday: categories}}\n": `"day.weekday" is a number ` +
			`derived from a time`,
	} {
		_, err := tryStage(t, "label: y\n"+rest, []table.File{writeFile(t, "t.csv", monthTable(100))}, Options{})
		must.Say(t, rest, err, want)
	}
}

// TestMissingNumbersAreNotThoseOfCalendars: a number under missing: stands for a missing value in columns of the table.
// In derived columns it does not: an hour of 6, a Monday, which is 0, and an age of 0 days are values. The labels are
// letters, since 0 and 1 would be missing labels.
func TestMissingNumbersAreNotThoseOfCalendars(t *testing.T) {
	b := csvOf("y,ts,born,id,n", 3000, func(i int) string {
		return fmt.Sprintf("%s,2026-0%d-%02dT%02d:00:00Z,2026-01-01T00:00:00Z,i%d,%d", []string{"n", "p"}[i/3%2], 1+i%3,
			1+i%28, i%24, i%50, i%10)
	})
	s := mustStage(t, "label: {column: y, positive: p}\nmissing: ['', '6', '0', '1']\nderive: {ts: [hour, weekday], "+
		"born: age}\n"+
		"split: {by: time, column: ts, train: 0.8, test: 0.2}\nencodings: {keys: [[id, ts.hour], [id, ts.weekday]]}\n",
		b)
	for _, name := range []string{"ts.hour", "ts.weekday", "born.age"} {
		if f := s.feature(t, name); f.Missing != 0 || f.MissingBin >= 0 || f.Range.Min != 0 {
			t.Errorf("%s: %d values are missing, the least is %v; want none, and 0", name, f.Missing, f.Range.Min)
		}
	}
	must.Equal(t, s.feature(t, "n").Missing, 900, "n: missing values, which are 0, 1 or 6")
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", b)}, dataset.CSVSpec{})
}

// TestTimesWithoutAnyValue: a column without any value is all missing, whatever type the table gives it, even where the
// dataset has times. One value of a wrong type is an error.
func TestTimesWithoutAnyValue(t *testing.T) {
	enc := mustEncode(t, &dataset.Encoding{Missing: []string{"", "-999"}, Features: []dataset.Feature{
		{Name: "t", Kind: dataset.Temporal, Bins: 2, Bounds: []float64{1.5e9}, MissingBin: -1, OtherBin: -1},
		{Name: "n", Kind: dataset.Numeric, Bins: 2, Bounds: []float64{1}, MissingBin: -1, OtherBin: -1},
	}}, nil)
	numbers := dataset.Values{Type: dataset.Float, Float: []float64{1, 2}}
	nan, all := math.NaN(), []bool{true, true}
	for name, tc := range map[string]struct {
		t, n dataset.Values
		want string
	}{
		"floats":        {dataset.Values{Type: dataset.Float, Float: []float64{nan, nan}, Null: all}, numbers, ""},
		"NaN":           {dataset.Values{Type: dataset.Float, Float: []float64{nan, nan}}, numbers, ""},
		"whole numbers": {dataset.Values{Type: dataset.Int, Int: []int64{0, 0}, Null: all}, numbers, ""},
		"truth":         {dataset.Values{Type: dataset.Bool, Int: []int64{0, 0}, Null: all}, numbers, ""},
		"times": {text("", ""), dataset.Values{Type: dataset.Time, Unit: dataset.Milli, Int: []int64{0, 0},
			Null: all}, ""},
		"one number": {dataset.Values{Type: dataset.Float, Float: []float64{nan, 3}}, numbers,
			"the column holds values of type float where the dataset has times"},
		"a whole number": {dataset.Values{Type: dataset.Int, Int: []int64{0, 3}, Null: []bool{true, false}}, numbers,
			"of type int where the dataset has times"},
	} {
		got, err := enc.Encode(&table.Batch{Names: []string{"t", "n"}, Columns: []dataset.Values{tc.t, tc.n}, Rows: 2},
			nil, nil, 1)
		must.Say(t, name, err, tc.want)
		if err == nil && (got[0] == got[0] || got[2] == got[2]) { // t of both rows, each of which has t and n
			t.Errorf("%s: the times are %v and %v, want NaN", name, got[0], got[2])
		}
	}
}
