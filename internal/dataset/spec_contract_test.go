package dataset_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestContractExpects checks the days of contract.expect, whether a contract counts as declared, and that entries which
// make no sense are refused with their line.
func TestContractExpects(t *testing.T) {
	spec := func(expect string) (*dataset.Spec, error) {
		return dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: y\n"+expect))
	}
	s := must.Get(spec("contract:\n  expect:\n" +
		"    - {from: 2026-11-27, to: 2026-11-30, findings: [rows], why: Black Friday}\n"))(t)

	// The days at both ends belong to the range, the whole day: 23:00 of each is asked about.
	e := s.Contract.Expect[0]
	for day, want := range map[string]bool{"2026-11-26": false, "2026-11-27": true, "2026-11-30": true,
		"2026-12-01": false} {
		at := must.Get(time.Parse(time.DateOnly, day))(t)
		must.Equal(t, e.Holds(at.Add(23*time.Hour)), want, "%s is in the range of days", day)
	}

	// The key alone declares a contract.
	if !s.Contract.Declared {
		t.Error("a spec with contract: is not Declared; want it so")
	}
	if s, err := spec(""); err != nil || s.Contract.Declared {
		t.Errorf("a spec without contract: error %v, or it is Declared; want neither", err)
	}
	if s, err := spec("contract: auto\n"); err != nil || !s.Contract.Declared {
		t.Errorf("contract: auto: error %v, or it is not Declared; want it Declared", err)
	}

	// Entries that make no sense. They are in line 6: three lines of the spec come before contract:.
	for entry, says := range map[string]string{
		"{from: 27.11.2026, findings: [rows], why: a}":                 "is not a day",
		"{findings: [rows], why: a}":                                   "is not a day",
		"{from: 2026-11-27, to: 2026-11-26, findings: [rows], why: a}": "is before",
		"{from: 2026-11-27, findings: [rows]}":                         "and why",
		"{from: 2026-11-27, why: a}":                                   "give the findings",
		"{from: 2026-11-27, findings: [Rows], why: a}":                 "is not a finding",
		"{from: 2026-11-27, findings: [rows], why: a, until: b}":       "until",
	} {
		if _, err := spec("contract:\n  expect:\n    - " + entry + "\n"); err == nil || !strings.Contains(err.Error(),
			says) ||
			!strings.Contains(err.Error(), "d.yaml:6") {
			t.Errorf("%s: %v; want an error in line 6 that says %q", entry, err, says)
		}
	}
}

// TestMaturityOfLabels checks which column has the rows' times and which delay follows, for labels that become final
// late, and that contradictions in the spec are refused. Each case is a label and the rest of a spec. Then come the
// column and the delay that follow, and the part of the error, which is empty if there must be none.
func TestMaturityOfLabels(t *testing.T) {
	byTime := "split: {by: time, column: ts, train: 0.8, valid: 0.2}\n"
	for name, tc := range map[string]struct {
		label, rest, at string
		delay           time.Duration
		want            string
	}{
		"a bare name":       {"y", byTime, "", 0, ""},
		"the split's time":  {"{column: y, matures: 24h}", byTime, "ts", 24 * time.Hour, ""},
		"a time of its own": {"{column: y, matures: 24h, at: seen}", byTime, "seen", 0, ""},
		"a longer delay": {"{column: y, matures: 24h}", byTime + "encodings: {order: {delay: 48h}}\n", "ts",
			48 * time.Hour, ""},
		"a shorter delay": {"{column: y, matures: 24h}", byTime + "encodings: {order: {delay: 1h}}\n", "", 0,
			"statistics would see labels that were not yet known"},
		"no time":            {"{column: y, matures: 24h}", "", "", 0, "at is missing"},
		"nothing":            {"{column: y, matures: 0s, at: ts}", "", "", 0, "matures is 0s"},
		"before it was":      {"{column: y, matures: -1h, at: ts}", "", "", 0, "matures is -1h"},
		"no duration":        {"{column: y, matures: 1d, at: ts}", "", "", 0, "is not a duration such as 24h"},
		"at without matures": {"{column: y, at: ts}", "", "", 0, "it has no effect without matures"},
		"as_of without matures": {"{column: y, as_of: 2026-11-20T03:00:00Z}", "", "", 0,
			"it has no effect without matures"},
		"the label itself": {"{column: y, matures: 24h, at: y}", "", "", 0, "cannot be the rows' time"},
		"a time without a zone": {"{column: y, matures: 24h, at: ts, as_of: 2026-11-20}", "", "", 0,
			"use a time with a zone"},
		"a time with a zone": {"{column: y, matures: 24h, at: ts, as_of: 2026-11-20T03:00:00+01:00}", "", "ts", 0, ""},
	} {
		s, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: t.csv\nlabel: "+tc.label+"\n"+tc.rest))
		switch {
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)), tc.want == "" && err != nil:
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		case tc.want == "" && (s.Label.At != tc.at || time.Duration(s.Encodings.Order.Delay) != tc.delay ||
			s.Label.Column != "y"):
			t.Errorf("%s: at %q with a delay of %v; want %q and %v", name, s.Label.At,
				time.Duration(s.Encodings.Order.Delay), tc.at, tc.delay)
		}
	}
}

// TestPlaces checks that places which are neither files nor in a bucket of Google's are refused, with what to do
// instead: tables, and queries, whatever their text holds.
func TestPlaces(t *testing.T) {
	for place, want := range map[string]string{"a.csv": "", "gs://b/a.csv": "",
		"bigquery://p/ads/clicks": "write it as source: into a dataset.yaml", "s3://b/a.csv": "from gs://; copy it",
		"SELECT a FROM t":                     "write it as source: into a dataset.yaml",
		"SELECT a FROM t WHERE a = 'gs://b/'": "write it as source: into a dataset.yaml"} {
		err := dataset.CheckPlace(place)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", place, err, want)
		}
	}
}

// TestTablesAndQueries checks the queries that select rows of BigQuery, for tables and queries as sources. Those of
// several places or days are joined with | in the table below, and a want that begins with ! is part of an error. The
// day is 2026-11-03. A source of queries alone is remote, and nothing of it is on this machine.
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
			must.Say(t, source, err, wrong)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v; want no error", source, err)
			continue
		}
		var queries []string
		for _, p := range s.Source.Places(newest) {
			queries = append(queries, p.Query)
		}
		if !slices.Equal(queries, strings.Split(want, "|")) || !s.Source.AnyRemote() || s.Source.AnyLocal() {
			t.Errorf("%s: queries %q, a remote place %t, a local one %t; want %q, true and false", source, queries,
				s.Source.AnyRemote(), s.Source.AnyLocal(), want)
		}
	}
}

// TestOpenMissesLevels checks that a dataset whose levels are missing or cut off is refused when it is opened, not when
// a model of it is to predict.
func TestOpenMissesLevels(t *testing.T) {
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 600})
	if len(m.Tables) == 0 {
		t.Fatal("the dataset has no tables of levels, and the test needs some")
	}
	levels := filepath.Join(dir, dataset.LevelsFile)
	for name, damage := range map[string]func() error{
		"cut off": func() error { return os.Truncate(levels, 100) },
		"missing": func() error { return os.Remove(levels) },
	} {
		good := must.Get(os.ReadFile(levels))(t)
		must.Do(t, damage())
		d, err := dataset.Open(dir)
		if !problem.Is(err, problem.Damaged) || !strings.HasPrefix(err.Error(), dataset.LevelsFile) {
			t.Errorf("%s: got %v, want damage to %s", name, err, dataset.LevelsFile)
		}
		if err == nil {
			d.Close()
		}
		must.Do(t, os.WriteFile(levels, good, 0o600))
	}
}
