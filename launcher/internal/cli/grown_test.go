package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// grown are versions of a staged dataset as sweeps create them, but without the report.
type grown struct {
	*world
	manifest *dataset.Manifest
	dir      string
	limit    int // trees at which trainings reach their limit; 0 for none
}

// grow stages a dataset and registers a version of it for each number of trees.
func (w *world) grow(trees ...int) *grown {
	w.t.Helper()
	return w.growBy("is_click", trees...)
}

// growBy is grow with a label.
func (w *world) growBy(label string, trees ...int) *grown {
	w.t.Helper()
	o := datasettest.Options{Rows: 3000, Split: "{by: hash, key: user_id, train: 0.6, valid: 0.1, test: 0.3}",
		Label: label}
	dir, m := datasettest.Dir(w.t, o)
	g := &grown{world: w, manifest: m, dir: dir}
	for _, name := range append(names(m.Files), dataset.ManifestFile) {
		text := must.Get(os.ReadFile(filepath.Join(dir, name)))(w.t)
		w.put("datasets", sweep.DatasetDir(m.Name, m.Version)+name, string(text))
	}
	w.put("datasets", sweep.DatasetLatest(m.Name), `{"format":1,"version":"`+m.Version+`"}`)
	for i, n := range trees {
		g.version(i, n)
	}
	return g
}

func names(files []dataset.FileInfo) (out []string) {
	for _, f := range files {
		out = append(out, f.Name)
	}
	return out
}

func (w *world) put(bucket, object, text string) {
	w.t.Helper()
	must.Get(w.buckets[bucket].Put(w.t.Context(), object, -1, strings.NewReader(text)))(w.t)
}

// version trains and registers one version, as the aggregator does.
func (g *grown) version(i, trees int) registry.Version {
	g.t.Helper()
	ds := must.Get(dataset.Open(g.dir))(g.t)
	defer ds.Close()

	p := gbt.Defaults()
	p.NumIterations = trees
	by := "log_loss"
	if n := len(g.manifest.Label.Classes); n > 0 {
		p.Objective, p.NumClass, by = "multiclass", n, "multi_logloss"
	}
	m := must.Get(metric.Lookup(by))(g.t)
	table, valid := fit.NewTable(ds), sweep.Rows{Split: "valid"}
	q := fit.Request{Params: p, Metric: m, Valid: &valid, Threads: 1}
	q.OnTree = func(t gbt.Progress) error {
		if t.Tree == g.limit {
			return gbt.ErrLimit
		}
		return nil
	}
	res := must.Get(table.Train(g.t.Context(), q))(g.t)
	plan := sweep.Plan{Format: 1, Sweep: sweep.ID("night-" + strconv.Itoa(i)), Coppice: "v1",
		Spec:    sweep.Spec{Model: "ctr", Objective: p.Objective, Metric: by, Seed: 7},
		Dataset: sweep.DatasetRef{Name: g.manifest.Name, Version: g.manifest.Version},
		Holdout: sweep.Holdout{Valid: valid, Calib: sweep.Rows{Split: "test", Folds: []uint8{0, 1, 2, 3}},
			Test: sweep.Rows{Split: "test", Folds: []uint8{4, 5, 6, 7, 8, 9}}},
		Sizing: sweep.Sizing{ThreadsPerTask: 1}, Heartbeat: sweep.Duration(30 * time.Second),
		Takeover: sweep.Duration(5 * time.Minute), Trials: []sweep.Trial{{Params: p.Map()}}}

	var model bytes.Buffer
	must.Get(res.Model.WriteTo(&model))(g.t)
	levels := datasettest.Levels(g.t, ds)
	encoding, kept := scorer.Compact(res.Model, g.manifest.Encoding(), levels)
	manifest := must.Get(os.ReadFile(filepath.Join(g.dir, dataset.ManifestFile)))(g.t)
	files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileDataset: manifest}
	if kept != nil {
		files[scorer.FileLevels] = kept.Encode()
	}
	made := map[string]any{scorer.FileFeatures: encoding, scorer.FilePlan: plan,
		scorer.FileResult: sweep.Result{Format: 1, Sweep: plan.Sweep, Status: sweep.StatusDone, Params: p.Map(),
			TreesGrown: res.Grown, AtLimit: g.limit > 0}}
	if p.NumClass == 1 {
		made[scorer.FileCalibrator] = g.calibrated(table, res.Model, plan)
	}
	for name, v := range made {
		text, err := json.MarshalIndent(v, "", "  ")
		if name == scorer.FileCalibrator {
			text, err = json.Marshal(v)
		}
		if err != nil {
			g.t.Fatal(err)
		}
		files[name] = append(text, '\n')
	}
	v := must.Get(registry.New(g.buckets["registry"]).Register(g.t.Context(), "ctr", string(plan.Sweep), files,
		registry.Info{At: g.now, By: "aggregator",
			Labels: map[string]string{"sweep": string(plan.Sweep), "trial": "0", "dataset": g.manifest.Name + "@" +
				g.manifest.Version}}))(g.t)
	return v
}

func (g *grown) calibrated(table *fit.Table, m *gbt.Model, plan sweep.Plan) *calibrate.Calibrator {
	g.t.Helper()
	calib := must.Get(table.Select(plan.Holdout.Calib))(g.t)
	raw := must.Get(m.PredictBinned(&calib.Data, 1))(g.t)
	choice := must.Get(calibrate.Choose(raw, calib.Label, nil, false))(g.t)
	return choice.Calibrator
}
