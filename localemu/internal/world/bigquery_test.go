//go:build unix

package world

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/cloud/bigquery"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestBigQuery: the stager's adapter looks at a table of the local cloud, and has its files copied into a bucket.
func TestBigQuery(t *testing.T) {
	data := t.TempDir()
	folder := filepath.Join(data, "bigquery", "ads-1", "events", "clicks")
	must.Do(t, os.MkdirAll(folder, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(folder, "a.parquet"), []byte("rows"), 0o644))
	w := must.Get(Start(t.Context(), Options{Data: data, Stderr: io.Discard}))(t)
	defer w.Close()
	c := must.Get(bigquery.New(t.Context(), project, w.rest.Addr()))(t)

	const query = "SELECT * FROM `ads-1.events.clicks`"
	bytes, identity, err := c.Look(t.Context(), query)
	if err != nil || bytes != 4 || identity == "" {
		t.Errorf("looking says %d bytes, identity %q, %v; expected the file's 4", bytes, identity, err)
	}
	must.Do(t, c.Export(t.Context(), "e", query, "gs://coppice-datasets/exports/e/*.parquet"))
	have, err := os.ReadFile(filepath.Join(data, "gcs", "coppice-datasets", "exports", "e", "000000000000.parquet"))
	if err != nil || string(have) != "rows" {
		t.Errorf("the bucket has %q, %v; expected the table's file", have, err)
	}

	for query, kind := range map[string]problem.Kind{"SELECT 1": problem.Input,
		"SELECT * FROM `ads-1.events.none`": problem.NotFound, "SELECT * FROM `../../etc`": problem.Input} {
		if _, _, err := c.Look(t.Context(), query); !problem.Is(err, kind) {
			t.Errorf("%s: %v, expected an error of the kind %v", query, err, kind)
		}
	}
}
