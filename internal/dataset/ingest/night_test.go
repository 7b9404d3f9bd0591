package ingest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/must"
)

// TestTimeOfRows: the time of a night's rows is a column that says when each row happened. A column that is missing in
// most rows, such as when a click came, is that only if the spec names it, even if it is the table's first. If the spec
// names a column without any value, no column is the time.
func TestTimeOfRows(t *testing.T) {
	const rows = 1000
	// Of 100 rows, so many have a time in the column. x has the row's number in all of them.
	timed := map[string]int{"clicked": 2, "seen": 60, "ts": 100, "empty": 0}
	for name, tc := range map[string]struct {
		columns  string
		contract string // of the spec; empty for none
		want     string // empty if no column is the time
	}{
		"after a rare one":         {"clicked,ts", "", "ts"},
		"a rare one alone":         {"clicked", "", ""},
		"in half of the rows":      {"clicked,seen", "", "seen"},
		"before one in every row":  {"seen,ts", "", "ts"},
		"a rare one that is named": {"ts,clicked", "contract: {time: clicked}\n", "clicked"},
		"named, but without times": {"ts,empty", "contract: {time: empty}\n", ""},
		"named numbers":            {"ts,x", "contract: {time: x}\n", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			columns := strings.Split(tc.columns, ",")
			csv := csvOf("y,x,"+strings.TrimSuffix(tc.columns, ",x"), rows, func(i int) string {
				row := fmt.Sprintf("%d,%d", i/7%2, i)
				for _, column := range columns {
					if column == "x" {
						continue
					}
					at := ""
					if i*37%100 < timed[column] { // 37 and 100 have no common divisor
						at = time.Date(2026, 11, 1, 0, i, 0, 0, time.UTC).Format(time.RFC3339)
					}
					row += "," + at
				}
				return row
			})
			night := mustStage(t, "label: y\nencodings: none\nsplit: {by: random, train: 0.8, test: 0.2}\n"+tc.contract,
				csv).report.Night

			if night.TimeColumn != tc.want || len(night.Time) > 0 != (tc.want != "") {
				t.Fatalf("the time of the rows is column %q, of %d rows; want %q", night.TimeColumn, len(night.Time),
					tc.want)
			}
			have := 0
			for _, at := range night.Time {
				if !math.IsNaN(at) {
					have++
				}
			}
			want := timed[tc.want] * rows / 100
			if tc.want == "x" {
				want = rows
			}
			must.Equal(t, have, want, "rows of %d that have a time", rows)
		})
	}
}

// TestBareRowsHaveNoTimes: the same rows with new dates are the same bare rows (Bare) but other whole ones (Prints), so
// that a night can tell that it has last night's rows. That is so for whichever column the spec names as a time, also
// if it drops it as a feature.
func TestBareRowsHaveNoTimes(t *testing.T) {
	for name, spec := range map[string]string{
		"a feature":     "label: y\n",
		"contract.time": "label: y\ndrop: [ts]\ncontract: {time: ts}\n",
		"label.at":      "label: {column: y, at: ts, matures: 1h}\ndrop: [ts]\n",
		"orders":        "label: y\nencodings: {order: {column: ts}}\n",
		"splits":        "label: y\nsplit: {by: time, column: ts, train: 0.8, valid: 0.2}\n",
	} {
		// Both nights have a row an hour, and then one a day later, as of which all others are old enough for label.at.
		nightOf := func(month time.Month) *Night {
			return mustStage(t, spec, csvOf("y,x,ts", 301, func(i int) string {
				at := time.Date(2026, month, 1, i+i/300*24, 0, 0, 0, time.UTC)
				return fmt.Sprintf("%d,%d,%s", i/7%2, i*37%101, at.Format(time.RFC3339))
			})).report.Night
		}
		first, second := nightOf(10), nightOf(11)
		if !slices.Equal(first.Bare, second.Bare) || slices.Equal(first.Prints, second.Prints) {
			t.Errorf("%s: of rows with other dates, bare ones are the same: %t, whole ones: %t; want true and false",
				name, slices.Equal(first.Bare, second.Bare), slices.Equal(first.Prints, second.Prints))
		}
	}
}
