package contract_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/contract"
	"coppice/dataset"
	"coppice/dataset/ingest"
)

// TestFreshnessOfLabelsThatComeLate: a table is as fresh as its newest row, and has as many rows as have final labels.
func TestFreshnessOfLabelsThatComeLate(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "t.csv")
	var b strings.Builder
	b.WriteString("y,x,ts\n")
	begin := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := range 1000 {
		fmt.Fprintf(&b, "%d,%d,%s\n", i%2, i%17, begin.Add(time.Duration(i)*time.Hour).Format(time.RFC3339))
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	spec, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: "+file+"\nlabel: {column: y, matures: 48h, at: ts}\n"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := ingest.Expand(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ingest.Stage(t.Context(), spec, files, filepath.Join(dir, "d"), ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}

	p := contract.Measure(r.Night, r.Manifest)
	if newest := begin.Add(999 * time.Hour); p.Rows != 952 || p.TimeColumn != "ts" || !p.Newest.Equal(newest) || !p.Oldest.Equal(begin) {
		t.Errorf("profile of %d rows by %q, from %s to %s; want 952 by ts up to %s", p.Rows, p.TimeColumn, p.Oldest, p.Newest, newest)
	}
}
