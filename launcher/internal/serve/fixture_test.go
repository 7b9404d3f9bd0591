package serve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/stager"
)

// shape is the table of clicks that a model is trained on: ids i0 ..., numbers n0 ..., and the label.
type shape struct {
	ids, numbers, rows, trees, leaves int
	classes                           []string // nil for a label of 0 and 1
}

// write makes the table as CSV; the same seed makes the same rows. Ids are texts, some of them seen once.
func (s shape) write(tb testing.TB, seed uint64) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "clicks.csv")
	f := must.Get(os.Create(path))(tb)
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprintln(w, "click,"+strings.Join(s.names(), ","))
	rng := rand.New(rand.NewPCG(seed, 1))
	for range s.rows {
		label, cells := s.row(rng)
		class := fmt.Sprint(label)
		if len(s.classes) > 0 {
			class = `"` + strings.ReplaceAll(s.classes[label*(1+rng.IntN(len(s.classes)-1))], `"`, `""`) + `"`
		}
		fmt.Fprintf(w, "%s,%s\n", class, strings.Join(cells, ","))
	}
	must.Do(tb, w.Flush())
	return path
}

func (s shape) names() []string {
	var names []string
	for i := range s.ids {
		names = append(names, fmt.Sprintf("i%d", i))
	}
	for i := range s.numbers {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return names
}

func (s shape) row(rng *rand.Rand) (label int, cells []string) {
	score := -1.0
	for i := range s.ids {
		id := int(rng.ExpFloat64() * float64(20+200*i))
		cells = append(cells, fmt.Sprintf("id%d", id))
		score += float64(id%7-3) / 6
	}
	for i := range s.numbers {
		x := rng.NormFloat64()
		cells = append(cells, fmt.Sprintf("%.4f", x))
		score += x / float64(2+i)
	}
	if rng.Float64() < 1/(1+1/max(1e-9, score*score)) && score > 0 {
		label = 1
	}
	return label, cells
}

// trained are the files of a version that was trained on the table.
func (s shape) trained(tb testing.TB, seed uint64) map[string][]byte {
	tb.Helper()
	label, p := "click", gbt.Defaults()
	if k := len(s.classes); k > 0 {
		label, p.Objective, p.NumClass = "{column: click, kind: classes}", "multiclass", k
	}
	spec := must.Get(dataset.ParseSpec("d.yaml", []byte("name: t\nsource: "+s.write(tb, seed)+
		"\nlabel: "+label+"\nsplit: {by: random, train: 0.8, test: 0.2}\ncontract: none\n")))(tb)
	staged := must.Get((&stager.Stager{}).Stage(tb.Context(), spec, stager.Destination{Dir: tb.TempDir()}))(tb)
	ds := must.Get(dataset.Open(staged.Place))(tb)
	defer ds.Close()
	p.NumIterations, p.NumLeaves, p.MinDataInLeaf = s.trees, s.leaves, 5
	p.Seed = seed
	done := must.Get(gbt.Train(tb.Context(), datasettest.Data(ds.Manifest, ds.Split("train")), p,
		gbt.Options{Threads: 2}))(tb)
	var model bytes.Buffer
	must.Get(done.Model.WriteTo(&model))(tb)
	features := must.Get(json.Marshal(ds.Manifest.Encoding()))(tb)
	files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileFeatures: features}
	if len(s.classes) == 0 {
		files[scorer.FileCalibrator] = []byte(`{"format":1,"method":"none"}`)
	}
	if levels, err := os.ReadFile(filepath.Join(staged.Place, dataset.LevelsFile)); err == nil {
		files[scorer.FileLevels] = levels
	}
	return files
}

func register(tb testing.TB, r *registry.Registry, key string, files map[string][]byte) registry.Version {
	tb.Helper()
	v := must.Get(r.Register(tb.Context(), "ctr", key, files, registry.Info{At: time.Unix(1e9, 0), By: "test"}))(tb)
	return v
}

func newRegistry() (*registry.Registry, blob.Store) {
	store := blob.Memory()
	return registry.New(store), store
}
