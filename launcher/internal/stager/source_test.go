package stager_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/nights"
	"coppice/internal/problem"
	"coppice/launcher/internal/stager"
)

// days writes a table for each name, in a folder and, with the same names, in a bucket.
func days(t *testing.T, names ...string) (folder string, bucket blob.Store) {
	t.Helper()
	folder, bucket = t.TempDir(), blob.Memory()
	for i, name := range names {
		data := datasettest.Table(datasettest.Options{Rows: 300, Seed: uint64(i)})
		path := filepath.Join(folder, name)
		_, err := bucket.Put(t.Context(), name, blob.Any, bytes.NewReader(data))
		must.Do(t, errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, data, 0o666)))
	}
	return folder, bucket
}

// TestSourcesInAnyOrder: a source of the same files gives the same version, whatever the order and form of its places,
// in a folder and in a bucket.
func TestSourcesInAnyOrder(t *testing.T) {
	folder, bucket := days(t, "e/2026/11/01/a.csv", "e/2026/11/01/b.csv", "e/2026/11/02/a.csv", "e/2026/11/03/a.csv")
	s := &stager.Stager{Scratch: t.TempDir(), Day: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC),
		Bucket: func(context.Context, string) (blob.Store, error) { return bucket, nil }}
	want := ""
	for _, source := range []string{
		"ROOT/e/",
		"[ROOT/e/2026/11/02/, ROOT/e/2026/11/03/a.csv, ROOT/e/2026/11/01]",
		"[ROOT/e/2026/11/*/a.csv, ROOT/e/*/*/*/b.csv, ROOT/e/2026/11/01/a.csv]",
		"\n  files: ROOT/e/{date:2006/01/02}/*.csv\n  last: 3d",
		"\n  files: [\"ROOT/e/{date:2006}/{date:01}/{date:02}/\"]\n  last: 3d",
	} {
		for _, root := range []string{folder, "gs://exports"} {
			got := staged(t, s, spec(t, strings.ReplaceAll(source, "ROOT", root)), stager.Destination{Dir: t.TempDir()})
			if m := got.Manifest; want != "" && m.Version != want || len(m.About.Sources) != 4 {
				t.Errorf("%s in %s: version %s of %d files, expected %s of 4", source, root, m.Version,
					len(m.About.Sources), want)
			}
			want = got.Manifest.Version
		}
	}
}

// TestDaysWithoutAFile: the newest day of a source must be there. An older day may be missing only if the spec allows
// it, and then the comparison with earlier nights has a warning.
func TestDaysWithoutAFile(t *testing.T) {
	folder, _ := days(t, "2026-11-01.csv", "2026-11-03.csv")
	at := func(day int) *stager.Stager {
		return &stager.Stager{Day: time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC)}
	}
	const mapping = "\n  files: ROOT/{date:2006-01-02}.csv\n  last: 3d"
	source := strings.ReplaceAll(mapping, "ROOT", folder)
	for _, tc := range []struct {
		day          int
		source, want string
	}{
		{3, source, "the day 2026-11-02 is missing; if days may be, say `missing: allow` under `source`"},
		{4, source + "\n  missing: allow", "the newest day, 2026-11-04, is not there yet"},
	} {
		_, err := at(tc.day).Stage(t.Context(), spec(t, tc.source), stager.Destination{Dir: t.TempDir()})
		if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("day %d: %v, expected %q", tc.day, err, tc.want)
		}
	}

	got := must.Get(at(3).Stage(t.Context(), spec(t, source+"\n  missing: allow"),
		stager.Destination{Dir: t.TempDir()}))(t)
	var found []nights.Finding
	for _, f := range got.Night.Findings {
		if f.Code == nights.CodeMissingDays {
			found = append(found, f)
		}
	}
	if len(found) != 1 || found[0].Level != nights.Warning || !strings.Contains(found[0].Text, "2026-11-02.csv") {
		t.Errorf("a night with a missing day has the findings %v, expected one about 2026-11-02.csv",
			got.Night.Findings)
	}
}

// TestTheNewestDayIsYesterday: if the caller names no day, the newest day of a source is yesterday in UTC.
func TestTheNewestDayIsYesterday(t *testing.T) {
	folder, _ := days(t, "2026-11-01.csv")
	s := &stager.Stager{Now: func() time.Time { return time.Date(2026, 11, 2, 0, 0, 1, 0, time.UTC) }}
	in := must.Get(s.Find(t.Context(), spec(t, folder+"/{date:2006-01-02}.csv")))(t)
	err := s.WithTable(t.Context(), in, func(files []table.File) error {
		if len(files) != 1 || filepath.Base(files[0].Path) != "2026-11-01.csv" {
			t.Errorf("on the second of November: %v, expected the file of the first", files)
		}
		return nil
	})
	if err != nil {
		t.Errorf("reading the table of yesterday: got error %v, want none", err)
	}
}

// endless is a bucket whose list of objects does not end.
type endless struct{ blob.Store }

func (endless) List(context.Context, string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for i := 0; yield(blob.Attrs{Name: fmt.Sprintf("e/%d.csv", i), Size: 1}, nil); i++ {
		}
	}
}

// TestASourceOfTooManyFiles: a source with more files than a table can have is an error as soon as so many are listed.
func TestASourceOfTooManyFiles(t *testing.T) {
	s := &stager.Stager{Scratch: t.TempDir(),
		Bucket: func(context.Context, string) (blob.Store, error) { return endless{blob.Memory()}, nil }}
	_, err := s.Stage(t.Context(), spec(t, "gs://exports/e/"), stager.Destination{Dir: t.TempDir()})
	if !problem.Is(err, problem.Input) || !strings.Contains(err.Error(), "more than 100000 files") {
		t.Errorf("staging a bucket without an end: %v, expected an error of the kind input", err)
	}
}

// TestSourceSpecs: each mistake under source: is an error that names its place in the spec, or says what to write.
func TestSourceSpecs(t *testing.T) {
	var many []string
	for i := range 10 {
		many = append(many, fmt.Sprintf("\"%d/{date:20060102}\"", i))
	}
	for source, want := range map[string]string{
		"[]":                           "d.yaml:2:9: source has 0 places",
		"[a, a]":                       "d.yaml:2:13: a is listed twice",
		"{last: 3d}":                   "source has 0 places",
		"\n  files: a.csv\n  last: 3d": "last needs {date:2006-01-02} in every place",
		"\n  files: a/{date:2006-01}\n  last: 3d": "{date:...} needs the year as 2006, the month as 01 and the day",
		"a/{date}/*.csv": "write a day as {date:2006-01-02}",
		"\n  files: a/{date:20060102}\n  last: 3":                      "d.yaml:4:9",
		"\n  files: a/{date:20060102}\n  last: 0d":                     `"0d" is not a number of days from 1d to 1100d`,
		"\n  files: a/{date:20060102}\n  last: 24h":                    `"24h" is not a number of days from 1d to`,
		"\n  files: a/{date:20060102}\n  missing: allow":               "the newest day is never optional",
		"\n  files: a/{date:20060102}\n  last: 3d\n  missing: ok":      `missing "ok": use allow`,
		"\n  files: [" + strings.Join(many, ", ") + "]\n  last: 1100d": "10 places of 1100 days are 11000 listings",
		"\n  file: a.csv": `did you mean "files"?`,
		`""`:              "d.yaml:2:9",
	} {
		_, err := dataset.ParseSpec("d.yaml", []byte("name: a\nsource: "+source+"\nlabel: y\n"))
		must.Say(t, fmt.Sprintf("source: %s", source), err, want)
	}
}

// warehouse is a stager.Warehouse with a table, as CSV, for each query that it knows.
type warehouse struct {
	tables   map[string][]byte
	version  string     // of all tables; another one means that their rows have changed
	bucket   blob.Store // where exports go
	exported []string   // queries, in the order of their exports
	fail     error      // what an export returns after it has written
}

// Look returns the bytes of a query's table, and an identity that changes with w.version.
func (w *warehouse) Look(_ context.Context, query string) (int64, string, error) {
	rows, ok := w.tables[query]
	if !ok {
		return 0, "", problem.New(problem.NotFound, "no table for %s", query)
	}
	return int64(len(rows)), query + w.version, nil
}

// Export writes a query's table into the folder that uri names, which must be in the bucket and hold the id.
func (w *warehouse) Export(ctx context.Context, id, query, uri string) error {
	w.exported = append(w.exported, query)
	folder, found := strings.CutSuffix(strings.TrimPrefix(uri, "gs://datasets/"), "*.parquet")
	if !found || !strings.Contains(folder, id) {
		return errors.New("asked to export to " + uri)
	}
	_, err := w.bucket.Put(ctx, folder+"0.csv", blob.Absent, bytes.NewReader(w.tables[query]))
	return errors.Join(err, w.fail)
}

// left returns the names of exported objects that still have rows.
func (w *warehouse) left(t *testing.T) (left []string) {
	t.Helper()
	for attrs, err := range w.bucket.List(t.Context(), "bigquery-exports/") {
		must.Do(t, err)
		if attrs.Size > 0 {
			left = append(left, attrs.Name)
		}
	}
	return left
}

// newWarehouse returns a warehouse that has a table for each of the queries, and a stager that uses it.
func newWarehouse(queries ...string) (*warehouse, *stager.Stager) {
	w := &warehouse{tables: map[string][]byte{}, bucket: blob.Memory()}
	for i, query := range queries {
		w.tables[query] = datasettest.Table(datasettest.Options{Rows: 300, Seed: uint64(i)})
	}
	return w, &stager.Stager{Day: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC), Exports: &stager.Exports{
		Store: w.bucket, Bucket: "datasets", Open: func(context.Context) (stager.Warehouse, error) { return w, nil }}}
}

// TestRowsOfAQuery: the rows of a query are exported once, and again only after its tables have changed. They make the
// same version as the same rows in a file. Afterwards the bucket holds no copy of them. Find and Look export nothing,
// and Look does not change which version is the latest.
func TestRowsOfAQuery(t *testing.T) {
	w, s := newWarehouse("SELECT 0")
	s.Scratch = t.TempDir()
	folder, _ := days(t, "a.csv")
	fromFile := must.Get(s.Stage(t.Context(), spec(t, folder+"/a.csv"), stager.Destination{Dir: t.TempDir()}))(t)

	// Stage three times, first into a folder and then into a bucket. The first time exports, the second finds the
	// version, and the third exports again, since the tables have changed: two exports in all. A final semicolon of the
	// query does not matter.
	query := spec(t, "\"SELECT 0;\\n\"")
	for _, dst := range []stager.Destination{{Dir: t.TempDir()}, {Store: w.bucket, URL: "gs://datasets"}} {
		w.exported = nil
		for _, step := range []struct {
			version string
			exports int // so far
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
		t.Errorf("after the exports: %q still have rows, want none", left)
	}

	// Stage another version, then look at the first: the name still means the other one.
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

// TestQueriesOfDays: in a source of days, each day has its query. A day without a table is like a day without a file.
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
		t.Errorf("without the second day: got error %v, want one that the day 2026-11-02 is missing", err)
	}
	_, err = s.Stage(t.Context(), spec(t, source+", missing: allow}"), stager.Destination{Dir: t.TempDir()})
	if err != nil {
		t.Errorf("without the second day, which may be missing: got error %v, want none", err)
	}
}

// TestADayWithoutRows: a query can also have no rows for a day, which is like a day without a file. The newest day is
// exported first, so that the others are not paid for if it has none.
func TestADayWithoutRows(t *testing.T) {
	const source = "{files: \"SELECT a FROM t WHERE d = '{date:2006-01-02}'\", last: 3d"
	query := func(day string) string { return "SELECT a FROM t WHERE d = '2026-11-0" + day + "'" }
	for _, c := range []struct{ day, missing, want string }{ // want is part of the error; "" if there is none
		{"3", ", missing: allow", "the newest day, 2026-11-03, is not there yet"},
		{"2", "", "the day 2026-11-02 is missing"},
		{"2", ", missing: allow", ""},
	} {
		w, s := newWarehouse(query("1"), query("2"), query("3"))
		rows := w.tables[query(c.day)]
		w.tables[query(c.day)] = rows[:bytes.IndexByte(rows, '\n')+1] // the header alone
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

// TestFailedExport: an export that fails, or is cancelled, leaves no rows in the bucket. Without BigQuery, a query is
// an error of kind Environment.
func TestFailedExport(t *testing.T) {
	for _, fault := range []error{errors.New("resources exceeded"), context.Canceled} {
		w, s := newWarehouse("SELECT 0")
		w.fail = fault
		dst := stager.Destination{Dir: t.TempDir()}
		if _, err := s.Stage(t.Context(), spec(t, "SELECT 0"), dst); !errors.Is(err, fault) {
			t.Errorf("an export that fails: got error %v, want %v", err, fault)
		}
		if left := w.left(t); len(left) > 0 {
			t.Errorf("after an export that failed with %v: %q still have rows, want none", fault, left)
		}
	}

	_, s := newWarehouse()
	s.Exports = nil
	if _, err := s.Find(t.Context(), spec(t, "SELECT 0")); !problem.Is(err, problem.Environment) {
		t.Errorf("without BigQuery: %v, expected an error of the kind %v", err, problem.Environment)
	}
}
