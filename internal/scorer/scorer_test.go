package scorer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/ingest"
	"coppice/internal/dataset/table"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/scorer"
)

// files are those of a small calibrated model.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 600})
	ds := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { ds.Close() })
	s := ds.Split("train")
	data := datasettest.Data(m, s)
	p := gbt.Defaults()
	p.NumIterations = 3
	trained := must.Get(gbt.Train(t.Context(), data, p, gbt.Options{}))(t)
	raw := must.Get(trained.Model.PredictBinned(data, 1))(t)
	choice := must.Get(calibrate.Choose(raw, s.Label, nil, false))(t)
	var model bytes.Buffer
	must.Get(trained.Model.WriteTo(&model))(t)
	levels := must.Get(os.ReadFile(filepath.Join(dir, dataset.LevelsFile)))(t)
	out := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileLevels: levels}
	for name, v := range map[string]any{scorer.FileFeatures: m.Encoding(), scorer.FileCalibrator: choice.Calibrator} {
		out[name] = must.Get(json.Marshal(v))(t)
	}
	return out
}

// TestAFlippedByteIsRefused alters one byte at a time of what a version holds: no prediction may come of it.
func TestAFlippedByteIsRefused(t *testing.T) {
	good := files(t)
	store := blob.Memory()
	r := registry.New(store)
	v := must.Get(r.Register(t.Context(), "ctr", "night-1", good, registry.Info{At: time.Unix(1, 0), By: "test"}))(t)
	if _, err := scorer.Open(t.Context(), r, v); err != nil {
		t.Fatalf("opened the version before any damage: %v; want no error", err)
	}
	for _, f := range v.Files {
		for _, place := range []int{0, len(good[f.Name]) / 2, len(good[f.Name]) - 1} {
			bad := bytes.Clone(good[f.Name])
			bad[place] ^= 1
			put(t, store, f.Object, bad)
			if _, err := scorer.Open(t.Context(), r, v); !problem.Is(err, problem.Damaged) ||
				!strings.Contains(err.Error(), f.Object) {
				t.Errorf("%s, byte %d changed: %v; want it called damaged, by its object", f.Name, place, err)
			}
		}
		put(t, store, f.Object, good[f.Name])
	}
	if _, err := scorer.Open(t.Context(), r, v); err != nil {
		t.Errorf("put right again: %v", err)
	}
}

func put(t *testing.T, s blob.Store, name string, data []byte) {
	t.Helper()
	must.Get(s.Put(t.Context(), name, blob.Any, bytes.NewReader(data)))(t)
}

// TestPartsThatDoNotFit: a model and an encoding of another number of features make no scorer.
func TestPartsThatDoNotFit(t *testing.T) {
	m := must.Get(gbt.ReadModel(bytes.NewReader(files(t)[scorer.FileModel])))(t)
	if _, err := scorer.New(m, nil, &dataset.Encoding{}, nil); err == nil {
		t.Error("a model with features was given none")
	}
}

// trained is a model of the train split of a staged dataset.
func trained(t *testing.T, ds *dataset.Dataset, change func(p *gbt.Params)) *gbt.Model {
	t.Helper()
	p := gbt.Defaults()
	change(&p)
	result := must.Get(gbt.Train(t.Context(), datasettest.Data(ds.Manifest, ds.Split("train")), p, gbt.Options{}))(t)
	return result.Model
}

// raws are the raw scores of rows with an encoding and its levels, which went through their files.
func raws(t *testing.T, m *gbt.Model, e *dataset.Encoding, levels *dataset.Levels, b *table.Batch) (out []float64,
	size int) {
	t.Helper()
	if levels != nil {
		data := levels.Encode()
		var err error
		if levels, err = dataset.ReadLevels(data, e.Tables); err != nil {
			t.Fatal(err)
		}
		size = len(data)
	}
	s, err := scorer.New(m, nil, e, levels)
	must.Do(t, err)
	if out, _, _, err = s.Batch(b, nil, 1, nil); err != nil {
		t.Fatal(err)
	}
	return out, size
}

// moved is the model with other thresholds: those at which a level changes sides are the ones that Compact could get
// wrong.
func moved(t *testing.T, m *gbt.Model, e *dataset.Encoding, rng *rand.Rand) *gbt.Model {
	t.Helper()
	var text bytes.Buffer
	must.Get(m.WriteTo(&text))(t)
	out := must.Get(gbt.ReadModel(&text))(t)
	for _, tree := range out.Trees {
		for i, f := range tree.Feature {
			if d := e.Features[f].From; d != nil && d.Table >= 0 {
				table := &e.Tables[d.Table]
				unseen, clicked := table.Rate(0, 0, table.Prior), table.Rate(1, 1, table.Prior)
				tree.Threshold[i] = []float64{0, 1, 2, unseen, clicked, tree.Threshold[i] * 0.9}[rng.IntN(6)]
			}
		}
	}
	return out
}

// Levels that a model cannot tell from unseen ones go, and no prediction changes for it, by a single bit.
func TestCompactPredictsTheSame(t *testing.T) {
	rng, partly := rand.New(rand.NewPCG(9, 9)), 0
	for name, encodings := range map[string]string{
		"found":    "auto",
		"counts":   "{columns: {user_id: [rate, count], site: [count]}}",
		"back off": "{columns: {user_id: rate, site: rate}, keys: [[user_id, site]], back_off: {user_id: site}}",
		"recency":  "{columns: {user_id: [rate, count, recency], site: [recency]}, order: {column: day}}",
	} {
		ds, levels := stage(t, encodings)
		b, e := clicks(2000), ds.Manifest.Encoding()
		e.Formats = dataset.Formats{"no input": dataset.DayFirst}
		same := func(what string, m *gbt.Model) (before, after int) {
			small, kept := scorer.Compact(m, e, levels)
			want, before := raws(t, m, e, levels, b)
			got, after := raws(t, m, small, kept, b)
			if !sameBits(got, want) || after > before || len(small.Formats) != 1 || &small.Tables[0] == &e.Tables[0] {
				t.Errorf("%s, %s: %d bytes of levels became %d; the same bits: %v", name, what, before, after,
					sameBits(got, want))
			}
			return before, after
		}
		for _, trees := range []int{1, 3, 10, 40} {
			m := trained(t, ds, func(p *gbt.Params) { p.NumIterations, p.NumLeaves = trees, 4+trees })
			before, after := same(fmt.Sprint(trees, " trees"), m)
			t.Logf("%s, %d trees: %d bytes of levels became %d", name, trees, before, after)
			for range 10 {
				if before, after = same("moved", moved(t, m, e, rng)); after > 0 && after < before {
					partly++
				}
			}
		}

		// A model that asks for no statistic needs no levels, and its encoding, which still has the tables, predicts
		// without.
		m := trained(t, ds, func(p *gbt.Params) { p.NumIterations, p.MinGainToSplit = 2, 1e9 })
		if _, after := same("no splits", m); after != 0 {
			t.Errorf("%s: a model without splits keeps %d bytes of levels", name, after)
		}
	}
	if partly < 20 {
		t.Errorf("of 160 models, %d need some of their levels and not all; the others say little", partly)
	}
}

// stage makes a dataset of clicks with such encodings, open with its levels until the test ends.
func stage(t *testing.T, encodings string) (*dataset.Dataset, *dataset.Levels) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "clicks.csv")
	must.Do(t, os.WriteFile(source, datasettest.Table(datasettest.Options{Rows: 3000}), 0o600))
	spec := must.Get(dataset.ParseSpec("dataset.yaml",
		fmt.Appendf(nil, "name: clicks\nsource: %s\nlabel: is_click\ndrop: [revenue]\n"+
			"categorical: [campaign_id]\nsplit: {by: hash, key: hour, train: 0.8, test: 0.2}\nencodings: %s\n", source,
			encodings)))(t)
	sources := must.Get(table.Expand(spec.Source.Files[0]))(t)
	dir := filepath.Join(t.TempDir(), "dataset")
	must.Get(ingest.Stage(t.Context(), spec, sources, dir, ingest.Options{}))(t)
	ds := must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { ds.Close() })
	return ds, datasettest.Levels(t, ds)
}

// cached is a registered version with levels, and a folder to map them from.
type cached struct {
	store    blob.Store
	registry *registry.Registry
	version  registry.Version
	levels   registry.File
	good     []byte // the levels
	dir      string // of the cache; not there yet
}

func newCached(t *testing.T) *cached {
	t.Helper()
	parts, store := files(t), blob.Memory()
	c := &cached{store: store, registry: registry.New(store), good: parts[scorer.FileLevels],
		dir: filepath.Join(t.TempDir(), "levels", "here")}
	var err error
	if c.version, err = c.registry.Register(t.Context(), "ctr", "night-1", parts,
		registry.Info{At: time.Unix(1, 0), By: "test"}); err != nil {
		t.Fatal(err)
	}
	c.levels, _ = c.version.File(scorer.FileLevels)
	return c
}

// open opens the version with the cache, and predicts a few rows.
func (c *cached) open(t *testing.T) ([]float64, error) {
	s, err := scorer.OpenMapped(t.Context(), c.registry, c.version, c.dir)
	if err != nil {
		return nil, err
	}
	raw, _, _, err := s.Batch(clicks(200), nil, 1, nil)
	return raw, errors.Join(err, s.Close())
}

func (c *cached) file() string { return filepath.Join(c.dir, c.levels.SHA256+".arrow") }

// clicks are rows of the table of datasettest, some with users and sites that it does not have.
func clicks(rows int) *table.Batch {
	rng := rand.New(rand.NewPCG(3, 3))
	b := &table.Batch{Names: []string{"user_id", "campaign_id", "site", "hour", "age", "price", "day"}, Rows: rows}
	b.Columns = make([]dataset.Values, len(b.Names))
	for i := range b.Columns {
		b.Columns[i].Type = dataset.Text
	}
	for range rows {
		for i, text := range []string{fmt.Sprint("u", rng.IntN(300)), fmt.Sprint(4000 + rng.IntN(14)),
			fmt.Sprint("site", rng.IntN(50)), fmt.Sprint(rng.IntN(24)),
			[]string{"", "19", "55"}[rng.IntN(3)], fmt.Sprint(rng.Float64() * 3),
			fmt.Sprintf("2026-11-%02d", 1+rng.IntN(30))} {
			b.Columns[i].Text = append(b.Columns[i].Text, text)
		}
	}
	return b
}

func sameBits(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) {
			return false
		}
	}
	return true
}

// What was fetched once is not fetched again: the registry may have lost it.
func TestOpenMappedUsesItsCache(t *testing.T) {
	c := newCached(t)
	plain := must.Get(scorer.Open(t.Context(), c.registry, c.version))(t)
	want, _, _, err := plain.Batch(clicks(200), nil, 1, nil)
	must.Do(t, err)
	if got, err := c.open(t); err != nil || !sameBits(got, want) {
		t.Fatalf("the first time: %v; want the same bits as without a cache", err)
	}
	if kept, err := os.ReadFile(c.file()); err != nil || !bytes.Equal(kept, c.good) {
		t.Fatalf("the cache holds something else than the version (%v)", err)
	}

	put(t, c.store, c.levels.Object, []byte("lost"))
	if got, err := c.open(t); err != nil || !sameBits(got, want) {
		t.Errorf("from the cache: %v; want the same bits", err)
	}
	if _, err := scorer.Open(t.Context(), c.registry, c.version); !problem.Is(err, problem.Damaged) {
		t.Errorf("without the cache: got %v, want an UnfitError", err)
	}
}

// A cached file that is not what was registered is fetched anew; where that cannot be done, nothing is predicted with
// it.
func TestOpenMappedNoticesDamage(t *testing.T) {
	c := newCached(t)
	want := must.Get(c.open(t))(t)
	flipped := func(place int) []byte {
		bad := bytes.Clone(c.good)
		bad[place] ^= 1
		return bad
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "cut off": c.good[:len(c.good)-1], "longer": append(bytes.Clone(c.good), 0),
		"first byte": flipped(0), "some byte": flipped(len(c.good) / 2), "last byte": flipped(len(c.good) - 1),
	} {
		write := func() {
			must.Do(t, os.WriteFile(c.file(), bad, 0o600))
		}
		write()
		if got, err := c.open(t); err != nil || !sameBits(got, want) {
			t.Errorf("%s, fetched anew: %v; want the same bits", name, err)
		}
		if kept, err := os.ReadFile(c.file()); err != nil || !bytes.Equal(kept, c.good) {
			t.Errorf("%s: the cache was not put right (%v)", name, err)
		}

		write()
		put(t, c.store, c.levels.Object, flipped(7))
		if _, err := c.open(t); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s, with a registry that is damaged, too: %v; want that kind of error", name, err)
		}
		put(t, c.store, c.levels.Object, c.good)
	}
}

// Several may find the cache empty at once, and all of them predict; one file is left.
func TestOpenMappedAtOnce(t *testing.T) {
	c := newCached(t)
	all := make([][]float64, 8)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = c.open(t); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range all {
		if !sameBits(all[i], all[0]) {
			t.Errorf("scorer %d predicts otherwise than the first", i)
		}
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 1 ||
		entries[0].Name() != filepath.Base(c.file()) {
		t.Errorf("the cache holds %v (%v), want one file", entries, err)
	}
}

// Where the cache cannot be written, as with a home that is read-only, the version predicts from memory.
func TestOpenMappedWithoutACache(t *testing.T) {
	c := newCached(t)
	want := must.Get(c.open(t))(t)
	blocked := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(blocked, nil, 0o600))
	locked := filepath.Join(t.TempDir(), "locked") // which root may write to all the same
	must.Do(t, os.Mkdir(locked, 0o500))
	for _, c.dir = range []string{filepath.Join(blocked, "levels"), "/dev/null/levels", locked} {
		if got, err := c.open(t); err != nil || !sameBits(got, want) {
			t.Errorf("%s: %v, or other predictions", c.dir, err)
		}
	}
}

// The cache is swept whenever it is used: of what was not used for a month, and of the oldest beyond four GiB.
func TestOpenMappedSweepsItsCache(t *testing.T) {
	c := newCached(t)
	must.Do(t, os.MkdirAll(c.dir, 0o700))
	add := func(name string, age time.Duration, bytes int64) {
		path := filepath.Join(c.dir, name)
		must.Do(t, os.WriteFile(path, nil, 0o600))
		if err := os.Truncate(path, bytes); err != nil { // without taking the disk
			t.Fatal(err)
		}
		then := time.Now().Add(-age)
		must.Do(t, os.Chtimes(path, then, then))
	}
	const day = 24 * time.Hour
	add("recent.arrow", day, 1<<30)
	add("older.arrow", 2*day, 2<<30)
	add("beyond.arrow", 3*day, 2<<30)
	add("small.arrow", 4*day, 1<<10)
	add("ancient.arrow", 31*day, 1)
	add(".left.arrow123", 31*day, 1)
	add("notes.txt", 31*day, 1)
	for range 2 { // the first fetches, the second finds
		must.Get(c.open(t))(t)
		var names []string
		entries := must.Get(os.ReadDir(c.dir))(t)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := []string{filepath.Base(c.file()), "notes.txt", "older.arrow", "recent.arrow", "small.arrow"}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Errorf("the cache holds %v, want %v", names, want)
		}
	}

	old := time.Now().Add(-20 * day)
	must.Do(t, os.Chtimes(c.file(), old, old))
	must.Get(c.open(t))(t)
	if info, err := os.Stat(c.file()); err != nil || time.Since(info.ModTime()) > day {
		t.Errorf("what is used does not become young (%v)", err)
	}
}
