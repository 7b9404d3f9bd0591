package ingest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/table"
)

// Numbers under missing: stand for a missing value in the written column. A derived hour of 6, Monday or age of 0 days
// is not such a value.
func TestMissingNumbersAreNotThoseOfCalendars(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,ts,born,id,n\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "%s,2026-0%d-%02dT%02d:00:00Z,2026-01-01T00:00:00Z,i%d,%d\n", []string{"n", "p"}[i/3%2], 1+i%3,
			1+i%28, i%24, i%50, i%10)
	}
	s := mustStage(t, "label: {column: y, positive: p}\nmissing: ['', '6', '0', '1']\nderive: {ts: [hour, weekday], "+
		"born: age}\n"+
		"split: {by: time, column: ts, train: 0.8, test: 0.2}\nencodings: {keys: [[id, ts.hour], [id, ts.weekday]]}\n",
		b.String())
	for _, name := range []string{"ts.hour", "ts.weekday", "born.age"} {
		if f := s.feature(t, name); f.Missing != 0 || f.MissingBin >= 0 || f.Range.Min != 0 {
			t.Errorf("%s: %d values are missing, the least is %v; want none, and 0", name, f.Missing, f.Range.Min)
		}
	}
	if f := s.feature(t, "n"); f.Missing != 900 {
		t.Errorf("n: %d values are missing, want the 900 that are 0, 1 or 6", f.Missing)
	}
	checkEncoder(t, s, []table.File{writeFile(t, "again.csv", b.String())}, dataset.CSVSpec{})
}

// A column without any value is a column of missing values, whatever type the table gives it.
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
		switch {
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want ... %s", name, err, tc.want)
		case tc.want == "" && err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case tc.want == "" && (got[0] == got[0] || got[2] == got[2]):
			t.Errorf("%s: the times are %v and %v, want NaN", name, got[0], got[2])
		}
	}
}
