package dataset_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
)

// TestPlaces: what is neither a file nor in a bucket says how to get there.
func TestPlaces(t *testing.T) {
	for place, want := range map[string]string{"a.csv": "", "gs://b/a.csv": "",
		"bigquery://p/ads/clicks": "write it as source: into a dataset.yaml", "s3://b/a.csv": "from gs://; copy it"} {
		err := dataset.CheckPlace(place)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", place, err, want)
		}
	}
}

// TestTablesAndQueries: rows of BigQuery are a place, or what a query selects.
func TestTablesAndQueries(t *testing.T) {
	newest := time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC)
	for source, want := range map[string]string{
		"bigquery://ads-1/events/clicks":              "SELECT * FROM `ads-1.events.clicks`",
		"bigquery://ads-1/events/clicks$20261103":     "SELECT * FROM `ads-1.events.clicks$20261103`",
		"'bigquery://ads-1/events/c_{date:20060102}'": "SELECT * FROM `ads-1.events.c_20261103`",
		"{files: \"SELECT a FROM t WHERE d >= '{date:2006-01-02}'\", last: 1d}": "SELECT a FROM t WHERE d >= " +
			"'2026-11-03'",
		"{files: 'bigquery://p-1/d/c_{date:20060102}', last: 2d}": "SELECT * FROM `p-1.d.c_20261102`|" +
			"SELECT * FROM `p-1.d.c_20261103`",

		"[bigquery://ads-1/e/t, \"\\n with a as (select 1) select * from a;\"]": "SELECT * FROM `ads-1.e.t`|" +
			"\n with a as (select 1) select * from a",
		"\"-- of one day; WITH all columns\\n# ads\\n/* see\\n the wiki */ (SELECT rand FROM t)\"": "-- of one day; " +
			"WITH all columns\n# ads\n/* see\n the wiki */ (SELECT rand FROM t)",
		"bigquery://clicks":           "!use bigquery://PROJECT/DATASET/TABLE",
		"bigquery://ads-1/events/c`x": "!use bigquery://PROJECT/DATASET/TABLE",
		"bq://ads-1/events/clicks":    "!tables are read from files",
		"SELECT rand () AS r":         "!in place of rand",
		"/* daily */ SELECT rand()":   "!in place of rand",
		"WITH t AS (SELECT 1) SELECT * FROM t WHERE d = current_date": "!in place of current_date",
		"{files: SELECT 1, last: 2d}":                                 "!last needs {date:2006-01-02}",
		"\"SELECT '{date:2006}'\"":                                    "!the month as 01",
	} {
		s, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: "+source+"\nlabel: y\n"))
		if wrong, refused := strings.CutPrefix(want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v, expected %q", source, err, wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		var queries []string
		for _, p := range s.Source.Places(newest) {
			queries = append(queries, p.Query)
		}
		if !slices.Equal(queries, strings.Split(want, "|")) || !s.Source.AnyRemote() || s.Source.AnyLocal() {
			t.Errorf("%s: queries %q, expected %q, none of this machine", source, queries, want)
		}
	}
}
