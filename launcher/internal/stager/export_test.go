package stager_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/launcher/internal/stager"
)

// warehouse has a table for each query that it knows, as CSV.
type warehouse struct {
	tables   map[string][]byte
	version  string // of all tables
	bucket   blob.Store
	exported []string // queries
	fail     error    // of the next export, after it has written
}

func (w *warehouse) Look(_ context.Context, query string) (int64, string, error) {
	rows, ok := w.tables[query]
	if !ok {
		return 0, "", problem.New(problem.NotFound, "no table for %s", query)
	}
	return int64(len(rows)), query + w.version, nil
}

func (w *warehouse) Export(ctx context.Context, id, query, uri string) error {
	w.exported = append(w.exported, query)
	folder, found := strings.CutSuffix(strings.TrimPrefix(uri, "gs://datasets/"), "*.parquet")
	if !found || !strings.Contains(folder, id) {
		return errors.New("asked to export to " + uri)
	}
	_, err := w.bucket.Put(ctx, folder+"0.csv", blob.Absent, bytes.NewReader(w.tables[query]))
	return errors.Join(err, w.fail)
}

// left are the exports with rows in them.
func (w *warehouse) left(t *testing.T) (left []string) {
	t.Helper()
	for attrs, err := range w.bucket.List(t.Context(), "bigquery-exports/") {
		if err != nil {
			t.Fatal(err)
		}
		if attrs.Size > 0 {
			left = append(left, attrs.Name)
		}
	}
	return left
}

func newWarehouse(queries ...string) (*warehouse, *stager.Stager) {
	w := &warehouse{tables: map[string][]byte{}, bucket: blob.Memory()}
	for i, query := range queries {
		w.tables[query] = datasettest.Table(datasettest.Options{Rows: 300, Seed: uint64(i)})
	}
	return w, &stager.Stager{Day: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Exports: &stager.Exports{
		Store: w.bucket, Bucket: "datasets", Open: func(context.Context) (stager.Warehouse, error) { return w, nil }}}
}

// TestRowsOfAQuery: they are exported once, until a table changes, and make the dataset that the same rows make in
// files. No copy of them stays in the bucket.
func TestRowsOfAQuery(t *testing.T) {
	w, s := newWarehouse("SELECT 0")
	s.Scratch = t.TempDir()
	folder, _ := days(t, "a.csv")
	fromFile := must.Get(s.Stage(t.Context(), spec(t, folder+"/a.csv"), stager.Destination{Dir: t.TempDir()}))(t)

	query := spec(t, "\"SELECT 0;\\n\"")
	for _, dst := range []stager.Destination{{Dir: t.TempDir()}, {Store: w.bucket, URL: "gs://datasets"}} {
		w.exported = nil
		for _, step := range []struct {
			version string
			exports int
		}{{"", 1}, {"", 1}, {" of tomorrow", 2}} {
			w.version = step.version
			staged, err := s.Stage(t.Context(), query, dst)
			if err != nil || staged.Manifest.Version != fromFile.Manifest.Version {
				t.Fatalf("%v, %v; expected version %s, as of files", staged, err, fromFile.Manifest.Version)
			}
			if len(w.exported) != step.exports {
				t.Errorf("exported %q with tables%q, expected %d exports", w.exported, step.version, step.exports)
			}
		}
	}
	if left := w.left(t); len(left) > 0 {
		t.Errorf("%q still have rows", left)
	}

	// Looking at what was staged before changes nothing: the name means what was staged last.
	bucket := stager.Destination{Store: w.bucket, URL: "gs://datasets"}
	otherSplit := spec(t, folder+"/a.csv", "train: 0.7, valid: 0.3", "train: 0.6, valid: 0.4")
	other := must.Get(s.Stage(t.Context(), otherSplit, bucket))(t)
	if in, err := s.Look(t.Context(), query, bucket); err != nil || in.Staged == nil {
		t.Errorf("looking at what was staged: %+v, %v; expected its version", in, err)
	}
	if m, err := stager.Resolve(t.Context(), w.bucket, "clicks"); err != nil || m.Version != other.Manifest.Version {
		t.Errorf("after a look the name means %v, %v; expected %s, the last that was staged", m, err,
			other.Manifest.Version)
	}

	in, err := s.Find(t.Context(), query)
	if err != nil || in.QueryBytes != int64(len(w.tables["SELECT 0"])) || len(w.exported) != 2 {
		t.Errorf("looking says %+v, %v, after exports %q; expected the query's bytes, and no export", in, err,
			w.exported)
	}
}

// TestQueriesOfDays: each day has its query, and a day without its table is a day without a file.
func TestQueriesOfDays(t *testing.T) {
	const one, two, three = "SELECT * FROM `p-1.ads.clicks_20261101`", "SELECT * FROM `p-1.ads.clicks_20261102`",
		"SELECT * FROM `p-1.ads.clicks_20261103`"
	const source = "{files: 'bigquery://p-1/ads/clicks_{date:20060102}', last: 3d"
	w, s := newWarehouse(one, two, three)
	staged, err := s.Stage(t.Context(), spec(t, source+"}"), stager.Destination{Dir: t.TempDir()})
	if err != nil || len(w.exported) != 3 || len(staged.Manifest.About.Sources) != 3 {
		t.Fatalf("exported %q, %v; expected three days", w.exported, err)
	}

	delete(w.tables, two)
	if _, err = s.Stage(t.Context(), spec(t, source+"}"), stager.Destination{Dir: t.TempDir()}); err == nil ||
		!strings.Contains(err.Error(), "the day 2026-11-02 is missing") {
		t.Errorf("without the second day: %v", err)
	}
	_, err = s.Stage(t.Context(), spec(t, source+", missing: allow}"), stager.Destination{Dir: t.TempDir()})
	if err != nil {
		t.Errorf("without the second day, which may be missing: %v", err)
	}
}

// TestADayWithoutRows: a query finds its table also on a day that has no rows yet. That is a day without a file, and
// the newest is asked for before the others are paid for.
func TestADayWithoutRows(t *testing.T) {
	const source = "{files: \"SELECT a FROM t WHERE d = '{date:2006-01-02}'\", last: 3d"
	query := func(day string) string { return "SELECT a FROM t WHERE d = '2026-11-0" + day + "'" }
	for _, c := range []struct{ day, missing, want string }{
		{"3", ", missing: allow", "the newest day, 2026-11-03, is not there yet"},
		{"2", "", "the day 2026-11-02 is missing"},
		{"2", ", missing: allow", ""},
	} {
		w, s := newWarehouse(query("1"), query("2"), query("3"))
		rows := w.tables[query(c.day)]
		w.tables[query(c.day)] = rows[:bytes.IndexByte(rows, '\n')+1]
		staged, err := s.Stage(t.Context(), spec(t, source+c.missing+"}"), stager.Destination{Dir: t.TempDir()})
		if c.want != "" {
			if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("no rows on day %s%s: %v, expected %q", c.day, c.missing, err, c.want)
			}
			if c.day == "3" && len(w.exported) != 1 {
				t.Errorf("exported %q, expected the newest day alone", w.exported)
			}
			continue
		}
		if err != nil || len(staged.Manifest.About.Sources) != 2 {
			t.Errorf("no rows on day %s%s: %v, expected the two others", c.day, c.missing, err)
			continue
		}
		missing := func(f nights.Finding) bool { return f.Code == nights.CodeMissingDays }
		if !slices.ContainsFunc(staged.Night.Findings, missing) {
			t.Errorf("no rows on day %s%s: findings %v, expected missing_days", c.day, c.missing, staged.Night.Findings)
		}
	}
}

// TestFailedExport leaves nothing in the bucket, whatever has ended it.
func TestFailedExport(t *testing.T) {
	for _, fault := range []error{errors.New("resources exceeded"), context.Canceled} {
		w, s := newWarehouse("SELECT 0")
		w.fail = fault
		dst := stager.Destination{Dir: t.TempDir()}
		if _, err := s.Stage(t.Context(), spec(t, "SELECT 0"), dst); !errors.Is(err, fault) {
			t.Errorf("%v, expected %v", err, fault)
		}
		if left := w.left(t); len(left) > 0 {
			t.Errorf("after %v %q still have rows", fault, left)
		}
	}

	_, s := newWarehouse()
	s.Exports = nil
	if _, err := s.Find(t.Context(), spec(t, "SELECT 0")); !problem.Is(err, problem.Environment) {
		t.Errorf("without BigQuery: %v, expected an error of the kind %v", err, problem.Environment)
	}
}
