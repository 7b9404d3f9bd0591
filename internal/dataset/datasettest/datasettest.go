// Package datasettest makes small datasets for the tests of those who use them: a click table with numbers, categories,
// missing values and a signal that a model can find. Only tests import it.
package datasettest

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
)

// Options say what table is made and how it is staged.
type Options struct {
	Rows  int    // default 4,000
	Split string // the spec's split; default by hash of the user, 60 % train, 15 % valid, 10 % calib, 15 % test
	Label string // the spec's label; default is_click
	Seed  uint64
	Name  string // default clicks

	Encodings string // the spec's encodings; default auto

	Edit func(table []byte) []byte // changes the table before it is staged; nil changes nothing
}

// staged keeps the files of each dataset that this process has staged, by its Options. The tests of a package want the
// same few datasets, and staging takes longer than most of what they test.
var staged struct {
	sync.Mutex
	files map[string]fstest.MapFS
}

// Dir stages a table and returns the folder of the dataset and its manifest. Both are the caller's own and may be
// changed. The folder is removed when the test ends. Equal Options give equal datasets.
func Dir(t testing.TB, o Options) (string, *dataset.Manifest) {
	t.Helper()
	if o.Edit != nil { // a function cannot be part of the key below
		return stage(t, o)
	}

	// Stage the table, unless an earlier test has, and keep the files.
	staged.Lock()
	defer staged.Unlock()
	key := fmt.Sprintf("%+v", o)
	files, ok := staged.files[key]
	if !ok {
		files = fstest.MapFS{}
		dir, _ := stage(t, o)
		each(t, dir, func(name string, data []byte) error {
			files[name] = &fstest.MapFile{Data: data}
			return nil
		})
		if staged.files == nil {
			staged.files = map[string]fstest.MapFS{}
		}
		staged.files[key] = files
	}

	// Give the caller a copy.
	dir := filepath.Join(t.TempDir(), "dataset")
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	m, err := dataset.DecodeManifest(files[dataset.ManifestFile].Data)
	if err != nil {
		t.Fatal(err)
	}
	return dir, m
}

// stage writes a table of clicks, stages it as o says, and returns the folder and its manifest.
func stage(t testing.TB, o Options) (string, *dataset.Manifest) {
	t.Helper()

	if o.Rows == 0 {
		o.Rows = 4000
	}
	if o.Split == "" {
		o.Split = "{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}"
	}
	if o.Label == "" {
		o.Label = "is_click"
	}
	if o.Name == "" {
		o.Name = "clicks"
	}
	if o.Encodings == "" {
		o.Encodings = dataset.EncodingAuto
	}

	// The split is the last line of the spec below: the encodings follow it.
	o.Split += "\nencodings: " + o.Encodings

	folder := t.TempDir()
	source := filepath.Join(folder, "clicks.csv")
	text := Table(o)
	if o.Edit != nil {
		text = o.Edit(text)
	}
	if err := os.WriteFile(source, text, 0o644); err != nil {
		t.Fatal(err)
	}

	// Clicks and revenue tell of each other: the one that is not the label is dropped.
	yaml := fmt.Sprintf("name: %s\nsource: %s\nlabel: %s\ndrop: [revenue]\ncategorical: [campaign_id]\nsplit: %s\n",
		o.Name, source, o.Label, o.Split)
	if o.Label == "revenue" {
		yaml = fmt.Sprintf("name: %s\nsource: %s\nlabel: revenue\ndrop: [is_click]\nsplit: %s\n", o.Name, source,
			o.Split)
	}

	spec, err := dataset.ParseSpec("dataset.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}

	files, err := table.Expand(spec.Source.Files[0])
	if err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(folder, "dataset")
	report, err := ingest.Stage(t.Context(), spec, files, dir, ingest.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return dir, report.Manifest
}

// Table returns the click table of o.Rows rows as CSV: user_id, campaign_id, site, hour, age, price, day, is_click,
// revenue. Rows are in the order of 20 days. revenue is the log odds of a click, with noise. The effects of
// campaign, site, hour, age and price are arbitrary; user_id and day have none.
func Table(o Options) []byte {
	rng := rand.New(rand.NewPCG(o.Seed, 17))
	var b bytes.Buffer
	fmt.Fprintln(&b, "user_id,campaign_id,site,hour,age,price,day,is_click,revenue")

	for r := range o.Rows {
		// A user has three rows on average.
		user, campaign, site, hour := rng.IntN(o.Rows/3+2), rng.IntN(12), rng.IntN(40), rng.IntN(24)

		// z is the log odds of a click; a row in five has no age.
		age := ""
		z := -1.2 + 0.8*math.Sin(float64(campaign*7)) + 0.5*math.Cos(float64(site*3)) + 0.3*math.Sin(float64(hour)/4)
		if rng.IntN(5) > 0 {
			years := 18 + rng.IntN(50)
			age = fmt.Sprint(years)
			z += float64(years-40) / 40
		}

		price := math.Exp(rng.NormFloat64())
		z -= 0.3 * price

		click := 0
		if rng.Float64() < 1/(1+math.Exp(-z)) {
			click = 1
		}

		fmt.Fprintf(&b, "u%d,%d,site%d,%d,%s,%.4f,2026-11-%02d,%d,%.3f\n", user, 4000+campaign, site, hour, age, price,
			1+r*20/o.Rows, click, z+rng.NormFloat64()/2)
	}

	return b.Bytes()
}

// Data returns all rows of a split for the trainer, in the split's own memory. It has no weights, groups or copies.
func Data(m *dataset.Manifest, s *dataset.Split) *gbt.Data {
	d := &gbt.Data{Rows: s.Rows, RowMajor: s.RowMajor, Columns: s.Columns, Label: s.Label}
	for i := range m.Features {
		f := &m.Features[i]
		d.Features = append(d.Features,
			gbt.Feature{Name: f.Name, Bins: f.Bins, Categorical: f.Kind == dataset.Categorical,
				Bounds: f.Bounds, Missing: f.MissingBin})
	}
	return d
}

// Levels maps the levels of a dataset until the test ends; nil if it has none.
func Levels(t testing.TB, d *dataset.Dataset) *dataset.Levels {
	t.Helper()
	if !slices.ContainsFunc(d.Manifest.Files, func(f dataset.FileInfo) bool { return f.Name == dataset.LevelsFile }) {
		return nil
	}
	l, err := dataset.OpenLevels(filepath.Join(d.Dir(), dataset.LevelsFile), d.Manifest.Tables)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Encoder returns an encoder of raw rows for models of the dataset.
func Encoder(t testing.TB, d *dataset.Dataset) *cell.Encoder {
	t.Helper()
	e, err := cell.NewEncoder(d.Manifest.Encoding(), Levels(t, d))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Upload copies the dataset in dir into store, to where tasks look for it.
func Upload(t testing.TB, store blob.Store, dir string, m *dataset.Manifest) {
	t.Helper()
	each(t, dir, func(name string, data []byte) error {
		_, err := store.Put(t.Context(), "datasets/"+m.Name+"/"+m.Version+"/"+name, blob.Any, bytes.NewReader(data))
		return err
	})
}

// each calls do for each file below dir, with its slash-separated name in dir and its contents.
func each(t testing.TB, dir string, do func(name string, data []byte) error) {
	t.Helper()
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return do(name, data)
	})
	if err != nil {
		t.Fatal(err)
	}
}
