package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/calibrate"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/compare"
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
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
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
	if _, err := w.buckets[bucket].Put(w.t.Context(), object, -1, strings.NewReader(text)); err != nil {
		w.t.Fatal(err)
	}
}

// version trains and registers one version, as the aggregator does.
func (g *grown) version(i, trees int) registry.Version { return g.continued(i, trees, nil) }

// continued is version, but trials start from a model if in is not nil.
func (g *grown) continued(i, trees int, in *sweep.Input) registry.Version {
	g.t.Helper()
	ds, err := dataset.Open(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	defer ds.Close()

	p := gbt.Defaults()
	p.NumIterations = trees
	by := "log_loss"
	if n := len(g.manifest.Label.Classes); n > 0 {
		p.Objective, p.NumClass, by = "multiclass", n, "multi_logloss"
	}
	m, err := metric.Lookup(by)
	if err != nil {
		g.t.Fatal(err)
	}
	table, valid := fit.NewTable(ds), sweep.Rows{Split: "valid"}
	q := fit.Request{Params: p, Metric: m, Valid: &valid, Threads: 1}
	if in != nil {
		q.Input, q.Refit = g.input(ds.Manifest, in), in.Mode == sweep.RefitMode
	}
	q.OnTree = func(t gbt.Progress) error {
		if t.Tree == g.limit {
			return gbt.ErrLimit
		}
		return nil
	}
	res, err := table.Train(g.t.Context(), q)
	if err != nil {
		g.t.Fatal(err)
	}
	plan := sweep.Plan{Format: 1, Input: in, Sweep: sweep.ID("night-" + strconv.Itoa(i)), Coppice: "v1",
		Spec:    sweep.Spec{Model: "ctr", Objective: p.Objective, Metric: by, Seed: 7},
		Dataset: sweep.DatasetRef{Name: g.manifest.Name, Version: g.manifest.Version},
		Holdout: sweep.Holdout{Valid: valid, Calib: sweep.Rows{Split: "test", Folds: []uint8{0, 1, 2, 3}},
			Test: sweep.Rows{Split: "test", Folds: []uint8{4, 5, 6, 7, 8, 9}}},
		Sizing: sweep.Sizing{ThreadsPerTask: 1}, Heartbeat: sweep.Duration(30 * time.Second),
		Takeover: sweep.Duration(5 * time.Minute), Trials: []sweep.Trial{{Params: p.Map()}}}

	var model bytes.Buffer
	if _, err := res.Model.WriteTo(&model); err != nil {
		g.t.Fatal(err)
	}
	levels := datasettest.Levels(g.t, ds)
	encoding, kept := scorer.Compact(res.Model, g.manifest.Encoding(), levels)
	manifest, err := os.ReadFile(filepath.Join(g.dir, dataset.ManifestFile))
	if err != nil {
		g.t.Fatal(err)
	}
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
	v, err := registry.New(g.buckets["registry"]).Register(g.t.Context(), "ctr", string(plan.Sweep), files,
		registry.Info{At: g.now, By: "aggregator",
			Labels: map[string]string{"sweep": string(plan.Sweep), "trial": "0", "dataset": g.manifest.Name + "@" +
				g.manifest.Version}})
	if err != nil {
		g.t.Fatal(err)
	}
	return v
}

func (g *grown) calibrated(table *fit.Table, m *gbt.Model, plan sweep.Plan) *calibrate.Calibrator {
	g.t.Helper()
	calib, err := table.Select(plan.Holdout.Calib)
	if err != nil {
		g.t.Fatal(err)
	}
	raw, err := m.PredictBinned(&calib.Data, 1)
	if err != nil {
		g.t.Fatal(err)
	}
	choice, err := calibrate.Choose(raw, calib.Label, nil, plan.Spec.Seed)
	if err != nil {
		g.t.Fatal(err)
	}
	return choice.Calibrator
}

// compared runs the command and reads its JSON.
func (g *grown) compared(args ...string) (c compare.Scores) {
	g.t.Helper()
	if err := json.Unmarshal([]byte(g.must(append([]string{"registry", "compare", "--json"}, args...)...)),
		&c); err != nil {
		g.t.Fatal(err)
	}
	return c
}

func TestCompareVersions(t *testing.T) {
	w := newWorld(t)
	g := w.grow(1, 60, 60)

	// On the dataset's sample: only the plan's test rows, which calibration has not seen.
	c := g.compared("ctr@1", "ctr@2")
	ds, err := dataset.Open(g.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ds.Close()
	want := len(sweep.Rows{Split: "test", Folds: []uint8{4, 5, 6, 7, 8, 9}}.Select(ds.Split("test").Fold))
	if l := c.All[0]; l.Metric != "log_loss" || l.Rows != want || l.Gain <= 0 || l.Low >= l.Gain || l.High <= l.Gain ||
		math.Abs(l.A-l.B-l.Gain) > 1e-12 {
		t.Errorf("on the sample: %+v, want a gain within its interval on %d rows", l, want)
	}

	// On a file: the same numbers as from predicting it with each version and computing the metrics.
	text := datasettest.Table(datasettest.Options{Rows: 900, Seed: 5})
	in := w.file("today.csv", string(text))
	c = g.compared("ctr@1", "ctr@2", "--on", in, "--by", "campaign_id", "--metric", "auc")
	label, preds := labelsOf(t, w, in), [2][]float64{w.predicted("ctr@1", in), w.predicted("ctr@2", in)}
	auc, err := metric.Lookup("auc")
	if err != nil {
		t.Fatal(err)
	}
	x, err := auc.Compare(metric.Input{Label: label, Pred: preds[1]}, preds[0], metric.Confidence{Level: 0.95})
	if l := c.All[0]; err != nil || l.A != x.Old || l.B != x.New || l.Low != x.Low || l.High != x.High ||
		l.Rows != 900 {
		t.Errorf("on a file: %+v, want what predict and metric say: %+v, %v", l, x, err)
	}
	rows := 0
	for _, l := range c.By {
		rows += l.Rows
	}
	if len(c.By) != 12 || rows != 900 || c.By[0].Rows < c.By[11].Rows {
		t.Errorf("by campaign: %d lines of %d rows, want 12 of 900, the most frequent first", len(c.By), rows)
	}

	if l := g.compared("ctr@2", "ctr@3").All[0]; l.Says != "the same predictions" || l.Gain != 0 {
		t.Errorf("twins: %+v", l)
	}
	if out := w.must("registry", "compare", "ctr@2", "ctr@1", "--on",
		w.file("many.csv", string(datasettest.Table(datasettest.Options{Rows: 20_000, Seed: 6})))); !strings.Contains(out, "B is worse") || !strings.Contains(out, "95 % interval") {
		t.Errorf("got\n%s", out)
	}
	w.refused(sweep.ExitInput, `no column "nobody"`, "registry", "compare", "ctr@1", "ctr@2", "--on", in, "--by",
		"nobody")
	w.refused(sweep.ExitInput, "is_click", "registry", "compare", "ctr@1", "ctr@2", "--on",
		w.file("bare.csv", "user_id,campaign_id,site,hour,age,price,day\nu1,1,s,2,3,4,2026-11-01\n"))
	w.refused(sweep.ExitNotFound, "not staged", "registry", "compare", "ctr@1", "ctr@2", "--on", "other")
	w.refused(sweep.ExitUsage, "--confidence", "registry", "compare", "ctr@1", "ctr@2", "--confidence", "95")
}

func labelsOf(t *testing.T, _ *world, in string) (label []float32) {
	t.Helper()
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		y, err := strconv.ParseFloat(strings.Split(line, ",")[7], 32)
		if err != nil {
			t.Fatal(err)
		}
		label = append(label, float32(y))
	}
	return label
}

// predicted returns the predictions for a file, through launcher predict.
func (w *world) predicted(model, in string) (out []float64) {
	w.t.Helper()
	path := filepath.Join(w.dir, "predicted.csv")
	w.must("predict", "--model", model, "--in", in, "--out", path)
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		p, err := strconv.ParseFloat(line, 64)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestCompareClasses: two versions that predict which site a row is of, on a file: the numbers are those of predict's
// table, for all classes and for each against the others, and the rows of a column's values add up.
func TestCompareClasses(t *testing.T) {
	w := newWorld(t)
	g := w.growBy("{column: site, kind: classes}", 1, 30)
	classes := g.manifest.Label.Classes
	in := w.file("today.csv", string(datasettest.Table(datasettest.Options{Rows: 400, Seed: 5})))
	c := g.compared("ctr@1", "ctr@2", "--on", in, "--by", "campaign_id")

	var x metric.Input
	var old []float64
	for i, version := range []string{"ctr@1", "ctr@2"} {
		rows, names := w.predictedClasses(version, in, g.manifest.Label.Column)
		for r, row := range rows {
			if i == 0 {
				x.Label = append(x.Label, float32(slices.Index(classes, names[r])))
				old = append(old, row...)
			} else {
				x.Pred = append(x.Pred, row...)
			}
		}
	}
	for i, name := range []string{"multi_logloss", "multi_error"} {
		m, err := metric.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.Compare(x, old, metric.Confidence{Level: 0.95})
		if l := c.All[i]; err != nil || l.Metric != name || l.A != want.Old || l.B != want.New || l.Low != want.Low {
			t.Errorf("got %+v, want %s as of predict's table: %+v, %v", l, name, want, err)
		}
	}
	if len(c.All) != 2 || len(c.Classes) != len(classes) {
		t.Fatalf("got %d and %d lines, want 2, and log_loss of each of %q", len(c.All), len(c.Classes), classes)
	}
	logLoss, err := metric.Lookup("log_loss")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for k, l := range c.Classes {
		one := metric.Input{}
		for i, label := range x.Label {
			one.Label = append(one.Label, map[bool]float32{true: 1}[int(label) == k])
			one.Pred = append(one.Pred, x.Pred[i*len(classes)+k])
		}
		want, err := logLoss.Eval(one)
		if rows += l.Rows; err != nil || l.By != classes[k] || l.Metric != "log_loss" || l.B != want {
			t.Errorf("class %s: got %+v, want log_loss %v of B (%v)", classes[k], l, want, err)
		}
	}
	by := 0
	for _, l := range c.By {
		if by += l.Rows; l.Metric != "multi_logloss" {
			t.Errorf("by campaign: got %+v, want multi_logloss", l)
		}
	}
	if rows != 400 || by != 400 {
		t.Errorf("got %d rows of all classes and %d of all campaigns, want 400 of both", rows, by)
	}
	if of := g.compared("ctr@1", "ctr@2", "--metric", "auc"); len(of.All) != 1 || len(of.Classes) != len(classes) ||
		of.Classes[0].Metric != "auc" {
		t.Errorf("by auc on the sample: got %+v, want multi_logloss and the auc of each class", of)
	}
	w.refused(sweep.ExitUsage, "rmse is of regression, and the label has", "registry", "compare", "ctr@1", "ctr@2",
		"--metric", "rmse")
}

// predictedClasses returns each row's probabilities, by launcher predict, and its value of a column.
func (w *world) predictedClasses(model, in, column string) (rows [][]float64, values []string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "predicted.csv")
	w.must("predict", "--model", model, "--in", in, "--out", path, "--keep", column)
	text, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	header := strings.Split(lines[0], ",")
	for _, line := range lines[1:] {
		var row []float64
		for i, cell := range strings.Split(line, ",") {
			if header[i] == column {
				values = append(values, cell)
			} else if strings.HasPrefix(header[i], "prediction:") {
				p, err := strconv.ParseFloat(cell, 64)
				if err != nil {
					w.t.Fatal(err)
				}
				row = append(row, p)
			}
		}
		rows = append(rows, row)
	}
	return rows, values
}
