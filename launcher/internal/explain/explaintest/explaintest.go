// Package explaintest has a small model that tests explain rows by.
package explaintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/stager"
)

// Clicks registers a version of the model ctr, trained on a table in which a high "ad price" and the site "b" are
// clicked.
func Clicks(tb testing.TB, reg *registry.Registry) registry.Version { return version(tb, reg, "click") }

// Sites registers one that predicts which of three sites it was, from the same table.
func Sites(tb testing.TB, reg *registry.Registry) registry.Version {
	return version(tb, reg, "{column: site, kind: classes}")
}

func version(tb testing.TB, reg *registry.Registry, label string) registry.Version {
	tb.Helper()
	var text strings.Builder
	text.WriteString("click,ad price,site\n")
	for i := range 2000 {
		price, site := i%10, string("abc"[i/7%3])
		fmt.Fprintf(&text, "%d,%d,%s\n", map[bool]int{true: 1}[price > 6 || site == "b" && i%2 == 0], price, site)
	}
	file := filepath.Join(tb.TempDir(), "clicks.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		tb.Fatal(err)
	}
	spec, err := dataset.ParseSpec("d.yaml", []byte("name: t\nsource: "+file+
		"\nlabel: "+label+"\nsplit: {by: random, train: 0.8, test: 0.2}\ncontract: none\n"))
	if err != nil {
		tb.Fatal(err)
	}
	staged, err := (&stager.Stager{}).Stage(tb.Context(), spec, stager.Destination{Dir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	ds, err := dataset.Open(staged.Place)
	if err != nil {
		tb.Fatal(err)
	}
	defer ds.Close()
	train := ds.Split("train")
	data := &gbt.Data{Rows: train.Rows, RowMajor: train.RowMajor, Columns: train.Columns, Label: train.Label}
	for _, f := range ds.Manifest.Features {
		data.Features = append(data.Features, gbt.Feature{Name: f.Name, Bins: f.Bins,
			Categorical: f.Kind == dataset.Categorical, Bounds: f.Bounds, Missing: f.MissingBin})
	}
	p := gbt.Defaults()
	p.Objective, p.NumIterations, p.NumLeaves, p.MinDataInLeaf = "binary", 20, 5, 5
	if n := len(ds.Manifest.Label.Classes); n > 0 {
		p.Objective, p.NumClass = "multiclass", n
	}
	done, err := gbt.Train(tb.Context(), data, p, gbt.Options{Threads: 1})
	if err != nil {
		tb.Fatal(err)
	}
	var model bytes.Buffer
	if _, err := done.Model.WriteTo(&model); err != nil {
		tb.Fatal(err)
	}
	features, err := json.Marshal(ds.Manifest.Encoding())
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileFeatures: features}
	if p.NumClass == 1 {
		files[scorer.FileCalibrator] = []byte(`{"format":1,"method":"none"}`)
	}
	if levels, err := os.ReadFile(filepath.Join(staged.Place, dataset.LevelsFile)); err == nil {
		files[scorer.FileLevels] = levels
	}
	v, err := reg.Register(tb.Context(), "ctr", "night-1", files, registry.Info{By: "test", At: time.Unix(1e9, 0)})
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
