package scorer_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
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
		t.Fatalf("unharmed: %v", err)
	}
	for _, f := range v.Files {
		for _, place := range []int{0, len(good[f.Name]) / 2, len(good[f.Name]) - 1} {
			bad := bytes.Clone(good[f.Name])
			bad[place] ^= 1
			put(t, store, f.Object, bad)
			if _, err := scorer.Open(t.Context(), r, v); !problem.Is(err, problem.Damaged) ||
				!strings.Contains(err.Error(), f.Object) {
				t.Errorf("%s, byte %d: %v", f.Name, place, err)
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

func TestPartsThatDoNotFit(t *testing.T) {
	m := must.Get(gbt.ReadModel(bytes.NewReader(files(t)[scorer.FileModel])))(t)
	if _, err := scorer.New(m, nil, &dataset.Encoding{}, nil); err == nil {
		t.Error("a model with features was given none")
	}
}
