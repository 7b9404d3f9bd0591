package ingest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
)

// TestLike: a dataset made like another has its columns as they were read, its bounds and its keys, whatever tonight's
// table would make Coppice choose; of what only tonight's has, no feature is made.
func TestLike(t *testing.T) {
	options := datasettest.Options{Rows: 6000,
		Encodings: "{columns: {site: [rate, count], campaign_id: levels}, keys: [[site, age~]], budget: 0}"}
	_, old := datasettest.Dir(t, options)

	options.Rows, options.Seed, options.Like, options.Encodings = 2000, 1, old, "auto"
	options.Edit = func(text []byte) []byte { // hours that would be categories, and a column more
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		for i, line := range lines {
			lines[i] = line + map[bool]string{true: ",fresh", false: ",1"}[i == 0]
			if columns := strings.Split(lines[i], ","); columns[3] == "7" {
				columns[3] = "007"
				lines[i] = strings.Join(columns, ",")
			}
		}
		return []byte(strings.Join(lines, "\n") + "\n")
	}
	dir, m := datasettest.Dir(t, options)

	if m.Like != old.Name+"@"+old.Version {
		t.Errorf("it is like %q, want the other dataset's name and version", m.Like)
	}
	names := func(m *dataset.Manifest) (out []string) {
		for i := range m.Features {
			out = append(out, m.Features[i].Name)
		}
		return out
	}
	if got, want := names(m), names(old); !slices.Equal(got, want) {
		t.Fatalf("features %q, want %q", got, want)
	}
	for i := range m.Features {
		is, was := &m.Features[i], &old.Features[i]
		if is.Kind != was.Kind || is.Kind == dataset.Numeric && !slices.Equal(is.Bounds, was.Bounds) {
			t.Errorf("%s is %s with bounds %v, want %s with %v", is.Name, is.Kind, is.Bounds, was.Kind, was.Bounds)
		}
	}
	if !slices.EqualFunc(m.Tables, old.Tables, func(a, b dataset.LevelTable) bool {
		return a.SameStatistics(&b) && a.Strength == b.Strength && a.BackOff == b.BackOff
	}) {
		t.Errorf("tables %+v, want those of %+v", m.Tables, old.Tables)
	}
	for code, says := range map[string]string{ingest.WarnDropped: "which this one is made like, does not use it",
		ingest.WarnScale: "counts are on another scale"} {
		if !slices.ContainsFunc(m.About.Warnings, func(w dataset.Warning) bool {
			return w.Code == code && strings.Contains(w.Text, says)
		}) {
			t.Errorf("no warning %s with %q: %+v", code, says, m.About.Warnings)
		}
	}
	if ds, err := dataset.Open(dir); err != nil {
		t.Error(err)
	} else {
		ds.Close()
	}
}

// TestLikeRefuses a table without a column that the other dataset has statistics of.
func TestLikeRefuses(t *testing.T) {
	_, old := datasettest.Dir(t,
		datasettest.Options{Rows: 3000, Encodings: "{columns: {site: [rate, count]}, budget: 0}"})
	spec := must.Get(dataset.ParseSpec("dataset.yaml",
		[]byte("name: t\nsource: t.csv\nlabel: is_click\nencodings: {like: ctr@champion}\n")))(t)
	path := filepath.Join(t.TempDir(), "t.csv")
	table500 := string(datasettest.Table(datasettest.Options{Rows: 500}))
	must.Do(t, os.WriteFile(path, []byte(strings.Replace(table500, ",site,", ",place,", 1)), 0o600))
	_, err := ingest.Stage(t.Context(), spec, []table.File{{Path: path, URI: path}}, filepath.Join(t.TempDir(), "d"),
		ingest.Options{Like: old})
	if err == nil || !strings.Contains(err.Error(), `column "site" is not in the table`) ||
		!strings.Contains(err.Error(), "dataset.yaml:4") {
		t.Errorf("Stage without the column: %v, want which column is missing, and where the spec asks for it", err)
	}
}
