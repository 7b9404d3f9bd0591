package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestPredictRefusesAFlippedByte: if any byte of a registered model has changed, nothing is scored with it.
func TestPredictRefusesAFlippedByte(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	in, out := w.file("in.csv", string(datasettest.Table(datasettest.Options{Rows: 50}))),
		filepath.Join(w.dir, "out.csv")
	store := w.buckets["registry"]
	for _, file := range []string{"model.txt", "features.json"} {
		name := "registry/ctr/versions/1/" + file
		good, _ := must.Get2(blob.ReadAll(t.Context(), store, name, 1<<20))(t)
		put := func(data []byte) {
			t.Helper()
			must.Get(store.Put(t.Context(), name, blob.Any, bytes.NewReader(data)))(t)
		}
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		put(bad)
		w.refused(sweep.ExitInput, file, "predict", "--model", "ctr", "--in", in, "--out", out)
		put(good)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was scored")
	}
	w.must("predict", "--model", "ctr", "--in", in, "--out", out)
}

// TestPlanRefusesAnAlteredManifest: no sweep is planned on a dataset whose description has changed.
func TestPlanRefusesAnAlteredManifest(t *testing.T) {
	w := newWorld(t)
	w.staged()
	spec := w.file("sweep.yaml",
		"name: night\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: 1\nsearch: {fixed: [{}]}\nmachine: {type: "+
			"n2-highmem-16}\n")
	w.must("sweep", spec, "--dry-run")
	store := w.buckets["datasets"]
	for attrs, err := range store.List(t.Context(), "datasets/clicks/") {
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(attrs.Name) != "manifest.json" {
			continue
		}
		text, _ := must.Get2(blob.ReadAll(t.Context(), store, attrs.Name, 1<<20))(t)
		bad := bytes.Replace(text, []byte(`"missing_bin":-1`), []byte(`"missing_bin":-2`), 1)
		if bytes.Equal(bad, text) {
			bad = bytes.Replace(text, []byte(`"rows":`), []byte(`"rows":1`), 1)
		}
		must.Get(store.Put(t.Context(), attrs.Name, blob.Any, bytes.NewReader(bad)))(t)
	}
	w.refused(sweep.ExitInput, "manifest", "sweep", spec, "--dry-run")
}
