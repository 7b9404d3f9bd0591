package draft

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestTimesAreNoNumbers: if a table has two columns of times, the reason for a random split is that it is not clear
// which one counts, not that the columns are numbers. A column of numbers that may be times is named with the flag.
func TestTimesAreNoNumbers(t *testing.T) {
	day := &column{times: true, present: 100, lo: 1.7e9, hi: 1.8e9} // as numbers, seconds of 2023 to 2027
	day.Name = "date"
	s := &seen{columns: []*column{day}}
	if why := s.whyAtRandom(Request{}, []string{"ts", "date"}); why != "it is not clear which is the row's time" {
		t.Errorf("of two columns of times: got %q; want that it is not clear which is the row's", why)
	}
	day.times = false
	if why := s.whyAtRandom(Request{}, nil); !strings.Contains(why, "with --time date") {
		t.Errorf("of a column of numbers that may be times: got %q, want --time date in it", why)
	}
}

// TestWhatMayBeTimeOrKey: a table with a year and with persons of several rows, whose names say neither for certain, is
// split at random, and the reason names both with their flags. A year of birth and an id of each row are not named, and
// of a single row without a time that row is the reason.
func TestWhatMayBeTimeOrKey(t *testing.T) {
	for header, want := range map[string]string{
		"id,year,y":       "consider --time year, if later rows are predicted; --key id, if rows with others are",
		"id,birth_year,y": "consider --key id, if rows with others are",
		"row,year,y":      "consider --time year, if later rows are predicted",
		"row,birth,y":     "no time column or repeated ID was found (set --time or --key)",
	} {
		path := written(t, header, 900, func(i int) string { return fmt.Sprintf("%d,%d,%d", i/3, 1990+i%17, i%2) })
		d := must.Get(Make(t.Context(), Request{Sources: []string{path}, Label: "y", Cores: 2, Limit: time.Minute}))(t)
		if said := fmt.Sprint(d.Found); !strings.Contains(said, want) || strings.Contains(said, "--key row") ||
			strings.Contains(said, "--time birth") {
			t.Errorf("%s: found %s, expected %q in it, and neither --key row nor a time of birth", header, said, want)
		}
	}
	path := written(t, "date,y", 900, func(i int) string {
		if i == 0 {
			return ",0"
		}
		return fmt.Sprintf("2026-03-%02d,%d", i%28+1, i%2)
	})
	d := must.Get(Make(t.Context(), Request{Sources: []string{path}, Label: "y", Cores: 2, Limit: time.Minute}))(t)
	if said := fmt.Sprint(d.Found); !strings.Contains(said, "1 row has no time in date: mend it") {
		t.Errorf("found %s, expected the row without a time as the reason", said)
	}
}

// TestColumnsOfAValue: the columns that a metric needs, other than the label, are values of the dataset, and the metric
// stays as it was written.
func TestColumnsOfAValue(t *testing.T) {
	path := written(t, "x,bid,won", 500, func(i int) string { return fmt.Sprintf("%d,%d.5,%d", i%17, i%9, i%3/2) })
	d := must.Get(Make(t.Context(), Request{Sources: []string{path}, Label: "won", Cores: 2, Limit: time.Minute,
		Metric: "value( prediction*2>bid ? label: -bid/9)"}))(t)
	if _, err := dataset.ParseSpec("dataset.yaml", d.Dataset); err != nil ||
		!strings.Contains(string(d.Dataset), "\nvalues: [\"bid\"]\n") {
		t.Errorf("the dataset is %s: %v; want bid among its values", d.Dataset, err)
	}
	if s, err := d.WithTrials(3); err != nil || s.Metric != "value( prediction*2>bid ? label: -bid/9)" {
		t.Errorf("the sweep is %s: %v; want the metric as it was given", d.Sweep, err)
	}
}

// TestGuessesOfColumns: what draft guesses about columns is said, with what it means and how to undo it. What
// contradicts itself, or cannot be guessed, is an error. The table's columns a and b are times, d is a date whose order
// of day and month is open, and userId looks like a key; a and b are left out unless the case sets times. asText makes
// d a text, so that its order is no error.
func TestGuessesOfColumns(t *testing.T) {
	const header = "a,b,Age,userId,ga_id,d,price,y"
	row := func(i int) string {
		return fmt.Sprintf("2024-10-%02d 00:00:00 UTC,2025/01/%d,%d,%d,%d.25,%02d/01/2004,\"%d,5\",%d", i%28+1,
			i%28+1, 18+i%60, i%40, i%40, i%12+1, i%90, i%2)
	}
	users := func(i int) string { return strings.Join(strings.Split(row(i), ",")[2:], ",") }
	asText := Request{Categorical: []string{"d"}}
	for name, tc := range map[string]struct {
		ask        Request
		times      bool
		want, fail string
	}{
		"two times": {times: true, want: "a, b: by which are the rows split? Name it with --time"},
		"no time": {times: true, ask: Request{Time: "Age"},
			fail: "numbers from 18 to 77, which are no times"},
		"open order": {
			fail: `"01/01/2004" are dates with the day first or dates with the month first, which no value tells`},
		"open order of --time": {ask: Request{Time: "d"}, fail: "say dmy or mdy under format: (--format d=dmy)"},
		"order":                {ask: Request{DateFormat: "dmy"}, want: "format: {\"d\":\"dmy\"}\n"},
		"time of an order":     {ask: Request{DateFormat: "mdy"}, want: "by time (d)"},
		"no order":             {ask: Request{DateFormat: "ymd"}, fail: "use dmy, as in 31.12.2026"},
		"key": {ask: asText,
			want: "and it is no feature, which is right if later rows have others; --split random"},
		"no key":              {ask: Request{Parts: "random"}, want: "at random, as asked for"},
		"no key, by its kind": {ask: Request{Categorical: []string{"userId,d"}}, want: "at random, since"},
		"ids with points":     {ask: Request{Parts: "random"}, want: "ga_id: integers named like IDs"},
		"random and a key":    {ask: Request{Parts: "random", Key: "userId"}, fail: "rows are split by one of them"},
		"key and categorical": {ask: Request{Key: "userId", Categorical: []string{"userId"}},
			fail: "--key userId: the column is then no feature; leave it out of --categorical"},
		"drop and categorical": {ask: Request{Parts: "random", Drop: []string{"Age"}, Categorical: []string{"Age"}},
			fail: "--drop Age: leave the column out of --categorical"},
		"missing and formats": {ask: Request{Parts: "random", Missing: []string{"-999"},
			Format: []string{"price=decimal_comma"}},
			want: "\"-\", \"-999\"]\nformat: {\"price\":\"decimal_comma\"}\n"},
		"no format":      {ask: Request{Format: []string{"price"}}, fail: "write COLUMN=FORMAT"},
		"no such column": {ask: Request{Format: []string{"prize=mdy"}}, fail: "--format"},
		"no such format": {ask: Request{Format: []string{"price=euro"}}, fail: "use number, decimal_comma"},
	} {
		t.Run(name, func(t *testing.T) {
			head, rows := header[4:], users // without a and b, the two columns of times
			if tc.times {
				head, rows = header, row
			}
			tc.ask.Label, tc.ask.Trials = "y", 2
			tc.ask.Sources = []string{written(t, head, 1500, rows)}
			d, err := Make(context.Background(), tc.ask)
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("got %v, expected ... %s ...", err, tc.fail)
				}
				return
			}
			must.Do(t, err)
			if said := fmt.Sprint(d.Found) + string(d.Dataset); !strings.Contains(said, tc.want) {
				t.Errorf("said is %s\nexpected ... %s ...", said, tc.want)
			}
		})
	}
}

// TestListsOfCategories: of a table whose columns are numbers by their type, as in Parquet, a list of categories with a
// comma gives the same sweep as one flag for each. It begins with the configuration for ids, since 50 and 40 values are
// more than manyLevels.
func TestListsOfCategories(t *testing.T) {
	const rows = 2000
	path, b := filepath.Join(t.TempDir(), "t.parquet"), &table.Batch{Rows: rows}
	var columns []table.Column
	for _, c := range []struct {
		name   string
		values int
	}{{"a", 50}, {"b", 40}, {"y", 2}} {
		v := dataset.Values{Type: dataset.Int, Null: make([]bool, rows), Int: make([]int64, rows)}
		for r := range rows {
			v.Int[r] = int64(r % c.values)
		}
		columns = append(columns, table.Column{Name: c.name, Type: dataset.Int})
		b.Names, b.Columns = append(b.Names, c.name), append(b.Columns, v)
	}
	file := must.Get(os.Create(path))(t)
	defer file.Close()
	w := must.Get(table.NewParquetWriter(file, columns, table.Snappy))(t)
	must.Do(t, w.Write(b))
	must.Do(t, w.Close())

	sweepOf := func(categorical ...string) string {
		d := must.Get(Make(t.Context(), Request{Sources: []string{path}, Label: "y", Categorical: categorical,
			Limit: time.Minute, Cores: 2}))(t)
		return string(d.Sweep)
	}
	list, each := sweepOf("a,b"), sweepOf("a", "b")
	if list != each || !strings.Contains(each, "fixed:\n    - "+ofIDs) {
		t.Errorf("--categorical a,b gives the sweep\n%s\nand one flag for each\n%s\nwant the same, with %s first", list,
			each, ofIDs)
	}
}
