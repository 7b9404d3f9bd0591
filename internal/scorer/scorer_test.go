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

// files returns the files of a version with a small calibrated model, by name: those that a scorer needs.
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

// TestAFlippedByteIsRefused: if a bit of any file of a version is flipped, at its begin, middle or end, Open returns an
// error of kind Damaged that names the object.
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
		t.Errorf("opened the version after the damage was undone: %v; want no error", err)
	}
}

// put replaces an object of the store.
func put(t *testing.T, s blob.Store, name string, data []byte) {
	t.Helper()
	must.Get(s.Put(t.Context(), name, blob.Any, bytes.NewReader(data)))(t)
}

// TestErrorsNameTheJudgedFiles: if the judged model of a version or its encoding cannot be read, or they do not belong
// together, the error of OpenJudged names that file, and not the one of the model that the version predicts with.
func TestErrorsNameTheJudgedFiles(t *testing.T) {
	judged := func(parts map[string][]byte) map[string][]byte {
		parts[scorer.FileJudgedModel] = parts[scorer.FileModel]
		parts[scorer.FileJudgedFeatures] = parts[scorer.FileFeatures]
		parts[scorer.FileJudgedCalibrator] = parts[scorer.FileCalibrator]
		parts[scorer.FileJudgedLevels] = parts[scorer.FileLevels]
		return parts
	}
	for name, tc := range map[string]struct {
		damage func(parts map[string][]byte)
		says   string
	}{
		"a model that is none": {func(parts map[string][]byte) {
			parts[scorer.FileJudgedModel] = []byte("nothing that can be read")
		}, scorer.FileJudgedModel + ": "},
		"an encoding that is none": {func(parts map[string][]byte) {
			parts[scorer.FileJudgedFeatures] = []byte("nothing that can be read")
		}, scorer.FileJudgedFeatures + ": "},
		// hour is feature 1 of the model. The replacement does not touch the model, which still has that name.
		"a feature of another name": {func(parts map[string][]byte) {
			parts[scorer.FileJudgedFeatures] = bytes.Replace(parts[scorer.FileFeatures], []byte(`"hour"`),
				[]byte(`"minute"`), 1)
		}, `judged.txt: feature 1 is "hour"; that of judged-features.json would be "minute"`},
		"no calibrator": {func(parts map[string][]byte) {
			delete(parts, scorer.FileJudgedCalibrator)
		}, scorer.FileJudgedCalibrator + " is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			parts := judged(files(t))
			tc.damage(parts)
			r := registry.New(blob.Memory())
			v := must.Get(r.Register(t.Context(), "ctr", "night-1", parts,
				registry.Info{At: time.Unix(1, 0), By: "test"}))(t)
			_, err := scorer.OpenJudged(t.Context(), r, v)
			if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got error %v, want one of kind Damaged that says %q", err, tc.says)
			}
		})
	}
}

// TestPartsThatDoNotFit: New refuses a model and an encoding with different numbers of features.
func TestPartsThatDoNotFit(t *testing.T) {
	m := must.Get(gbt.ReadModel(bytes.NewReader(files(t)[scorer.FileModel])))(t)
	if _, err := scorer.New(m, nil, &dataset.Encoding{}, nil); err == nil {
		t.Error("New accepted a model with features and an encoding with none, want an error")
	}
}

// trained trains a model on the train split of a dataset, with parameters that change may set.
func trained(t *testing.T, ds *dataset.Dataset, change func(p *gbt.Params)) *gbt.Model {
	t.Helper()
	p := gbt.Defaults()
	change(&p)
	result := must.Get(gbt.Train(t.Context(), datasettest.Data(ds.Manifest, ds.Split("train")), p, gbt.Options{}))(t)
	return result.Model
}

// raws returns the raw scores of the rows of a batch, and the bytes of the levels' file. The levels are written and
// read again first.
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

// moved returns a copy of the model with random thresholds for statistics, most of them exactly at the statistics of an
// unseen level or of one with few rows: there a level changes sides, which Compact could get wrong.
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

// TestCompactPredictsTheSame: with the encoding and levels that Compact returns, a model predicts the same bits, and
// the levels are no more than before. It holds for several kinds of statistics and for models with 1 to 40 trees,
// trained and with moved thresholds. At least 20 of the moved models must need some of their levels but not all.
// Compact keeps what else the encoding says (Formats), and does not share tables with it.
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
				t.Errorf("%s, %s: %d bytes of levels became %d, with %d formats, the same bits: %t; want no more "+
					"bytes, 1 format, the same bits, and tables of its own", name, what, before, after,
					len(small.Formats), sameBits(got, want))
			}
			return before, after
		}
		for _, trees := range []int{1, 3, 10, 40} { // with 5 to 44 leaves each
			m := trained(t, ds, func(p *gbt.Params) { p.NumIterations, p.NumLeaves = trees, 4+trees })
			before, after := same(fmt.Sprint(trees, " trees"), m)
			t.Logf("%s, %d trees: %d bytes of levels became %d", name, trees, before, after)
			for range 10 {
				before, after = same("moved", moved(t, m, e, rng))
				if after > 0 && after < before {
					partly++
				}
			}
		}

		// A model without splits needs no levels. Its encoding, which still has the tables, predicts without them.
		m := trained(t, ds, func(p *gbt.Params) { p.NumIterations, p.MinGainToSplit = 2, 1e9 })
		if _, after := same("no splits", m); after != 0 {
			t.Errorf("%s: a model without splits keeps %d bytes of levels, want none", name, after)
		}
	}
	if partly < 20 { // of 4 encodings, 4 sizes of models and 10 moved models of each
		t.Errorf("of 160 models, %d need some of their levels and not all, want at least 20", partly)
	}
}

// stage stages a dataset of clicks with these encodings, and returns it with its levels. It is closed when the test
// ends.
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
	good     []byte // the contents of the file of levels
	dir      string // the folder of the cache, which does not exist yet
}

// newCached registers a version in memory.
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

// open opens the version with the cache, predicts 200 rows and closes it. It returns the raw scores.
func (c *cached) open(t *testing.T) ([]float64, error) {
	s, err := scorer.OpenMapped(t.Context(), c.registry, c.version, c.dir)
	if err != nil {
		return nil, err
	}
	raw, _, _, err := s.Batch(clicks(200), nil, 1, nil)
	return raw, errors.Join(err, s.Close())
}

// file is the path of the cached levels.
func (c *cached) file() string { return filepath.Join(c.dir, c.levels.SHA256+".arrow") }

// clicks returns rows like those of datasettest's table, some with users and sites that the table does not have.
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

// sameBits reports whether two lists have the same numbers, bit for bit.
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

// TestOpenMappedUsesItsCache: levels that were fetched once are in the cache, and the version predicts the same from
// there even if the registry has lost them.
func TestOpenMappedUsesItsCache(t *testing.T) {
	c := newCached(t)
	plain := must.Get(scorer.Open(t.Context(), c.registry, c.version))(t)
	want, _, _, err := plain.Batch(clicks(200), nil, 1, nil)
	must.Do(t, err)
	if got, err := c.open(t); err != nil || !sameBits(got, want) {
		t.Fatalf("the first time: %v; want the same bits as without a cache", err)
	}
	if kept, err := os.ReadFile(c.file()); err != nil || !bytes.Equal(kept, c.good) {
		t.Fatalf("the cache holds other levels than the version (error %v), want the same", err)
	}

	put(t, c.store, c.levels.Object, []byte("lost"))
	if got, err := c.open(t); err != nil || !sameBits(got, want) {
		t.Errorf("from the cache: %v; want the same bits", err)
	}
	if _, err := scorer.Open(t.Context(), c.registry, c.version); !problem.Is(err, problem.Damaged) {
		t.Errorf("without the cache: got %v, want an error of kind Damaged", err)
	}
}

// TestOpenMappedNoticesDamage: a cached file that differs from the registered one is fetched anew. If the registry's is
// damaged, too, opening the version is an error of kind Damaged.
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
			t.Errorf("%s: the cache still holds other levels (error %v), want the version's", name, err)
		}

		write()
		put(t, c.store, c.levels.Object, flipped(7))
		if _, err := c.open(t); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s, with a registry that is damaged, too: %v; want an error of kind Damaged", name, err)
		}
		put(t, c.store, c.levels.Object, c.good)
	}
}

// TestOpenMappedAtOnce: eight scorers that are opened at once with an empty cache all predict the same, and one file is
// in the cache afterwards.
func TestOpenMappedAtOnce(t *testing.T) {
	c := newCached(t)
	all := make([][]float64, 8)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = c.open(t); err != nil {
				t.Errorf("scorer %d, opened at once with others: got error %v, want none", i, err)
			}
		})
	}
	wg.Wait()
	for i := range all {
		if !sameBits(all[i], all[0]) {
			t.Errorf("scorer %d predicts otherwise than the first, want the same bits", i)
		}
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 1 ||
		entries[0].Name() != filepath.Base(c.file()) {
		t.Errorf("the cache holds %v (%v), want one file", entries, err)
	}
}

// TestOpenMappedWithoutACache: if the cache cannot be written, as in a read-only home, the version predicts the same
// from memory. Its folder is tried below a file, below a device, and as one without the right to write.
func TestOpenMappedWithoutACache(t *testing.T) {
	c := newCached(t)
	want := must.Get(c.open(t))(t)
	blocked := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(blocked, nil, 0o600))
	locked := filepath.Join(t.TempDir(), "locked") // which root may write to all the same
	must.Do(t, os.Mkdir(locked, 0o500))
	for _, c.dir = range []string{filepath.Join(blocked, "levels"), "/dev/null/levels", locked} {
		if got, err := c.open(t); err != nil || !sameBits(got, want) {
			t.Errorf("with the cache %s: error %v, the same bits: %t; want no error and the same bits", c.dir, err,
				sameBits(got, want))
		}
	}
}

// TestOpenMappedSweepsItsCache: opening a version removes files of the cache that were not used for a month, and the
// oldest ones beyond 4 GiB; other files stay. Using a file sets its time.
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
	// Beside the version's own small file, recent and older have 3 GiB; beyond would make it 5, and small fits again.
	// Three were not used for a month: of those notes.txt stays, since its name is not that of a file of the cache.
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
		t.Errorf("using a file of 20 days ago did not set its time (error %v), want it to be today's", err)
	}
}

// TestReferencesOfOtherTypes: a reference is refused if the labels, or what else Encode adds to a sample, have another
// type than Encode writes. Otherwise they would be read as none, for rows that there are.
func TestReferencesOfOtherTypes(t *testing.T) {
	floats := dataset.Values{Type: dataset.Float, Float: []float64{0, 1}}
	ints := dataset.Values{Type: dataset.Int, Int: []int64{0, 1}}
	for name, tc := range map[string]struct {
		column string // beside the label
		label  dataset.Values
		values dataset.Values
		want   string // of the error; empty for none
	}{
		"as written":        {"__weight", floats, floats, ""},
		"groups as written": {"__group", floats, ints, ""},
		"labels of ints":    {"__weight", ints, floats, "column __label is of type int, not float"},
		"weights of ints":   {"__weight", floats, ints, "column __weight is of type int, not float"},
		"values of ints":    {"__value_bid", floats, ints, "column __value_bid is of type int, not float"},
		"groups of floats":  {"__group", floats, floats, "column __group is of type float, not int"},
	} {
		sample := &dataset.Sample{Split: "test", Row: []uint32{0, 1}, Names: []string{"__label", tc.column},
			Columns: []dataset.Values{tc.label, tc.values}}
		_, err := scorer.DecodeReference(must.Get(sample.Encode())(t))
		must.Say(t, name, err, tc.want)
	}
}
