package conclude

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// created is when all plans were written.
var created = time.Date(2026, 11, 20, 3, 0, 0, 0, time.UTC)

// world is a sweep whose trials have been trained, with its three buckets in memory.
type world struct {
	datasets, sweeps, models blob.Store
	plan                     *sweep.Plan
	ds                       *dataset.Dataset
	now                      time.Time // what its aggregators take for the time
}

// options are how a world differs from the usual one: sweep night-1 of three trials on a click table of 3,000 rows.
type options struct {
	sweep      sweep.ID
	table      datasettest.Options
	regression bool
	carve      bool                                   // carve calib and test out of valid
	leaves     []int                                  // of each trial, in turn; usually trial 2 wins, before 0 and 1
	trees      int                                    // of each trial, at least 12
	change     func(*sweep.Plan)                      // changes the plan before it is written
	skip       func(int) bool                         // says which trials are not trained
	into       *world                                 // whose stores are used, for a later night
	store      func(*sweep.Result, map[string][]byte) // edits each trial's result and files, by name
}

// newWorld stages the table, writes the plan and trains the trials, except those to skip.
func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{datasets: blob.Memory(), sweeps: blob.Memory(), models: blob.Memory(), now: created.Add(time.Hour)}
	if o.into != nil {
		w.datasets, w.sweeps, w.models = o.into.datasets, o.into.sweeps, o.into.models
	}
	if o.table.Rows == 0 {
		o.table.Rows = 3000
	}
	if o.regression {
		o.table.Label = "revenue"
	}
	if o.carve {
		o.table.Split = "{by: hash, key: user_id, train: 0.6, valid: 0.4}"
	}
	dir, m := datasettest.Dir(t, o.table)
	datasettest.Upload(t, w.datasets, dir, m)
	w.ds = must.Get(dataset.Open(dir))(t)
	t.Cleanup(func() { w.ds.Close() })
	w.plan = o.plan(m)
	if ok, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Plan(), w.plan); !ok ||
		err != nil {
		t.Fatalf("stored the plan: created %t, error %v", ok, err)
	}
	for i := range w.plan.Trials {
		if o.skip == nil || !o.skip(i) {
			w.train(t, i, o.store)
		}
	}
	return w
}

// plan returns the plan of a sweep on the dataset with that manifest.
func (o options) plan(m *dataset.Manifest) *sweep.Plan {
	if o.sweep == "" {
		o.sweep = "night-1"
	}
	if o.leaves == nil {
		o.leaves = []int{2, 15, 6}
	}
	p := &sweep.Plan{Format: 1, Sweep: o.sweep, Created: created, Job: "projects/p/locations/l/jobs/" + string(o.sweep),
		Maximize: true,
		Metrics:  []string{"log_loss", "auc", "average_precision", "brier", "ece"},
		Dataset:  sweep.DatasetRef{Name: m.Name, Version: m.Version},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test"}},
		Heartbeat: sweep.Duration(time.Second), Takeover: sweep.Duration(time.Minute),
	}
	p.Spec = sweep.Spec{Name: "night", Model: "ctr", Objective: "binary", Metric: "auc", Seed: 5,
		Limits: sweep.Limits{Trial: sweep.Duration(time.Hour), Sweep: sweep.Duration(6 * time.Hour), Quorum: 0.5},
		Gate:   &sweep.Gate{Metric: "log_loss", Against: "champion"}}
	if o.regression {
		p.Spec.Objective, p.Spec.Metric, p.Spec.Gate.Metric, p.Maximize, p.Metrics = "regression", "rmse", "mae", false,
			[]string{"rmse", "mae", "r2"}
	}
	if o.carve {
		p.Holdout = sweep.Holdout{Valid: sweep.Rows{Split: "valid", Folds: []uint8{0, 1, 2, 3, 4}},
			Calib: sweep.Rows{Split: "valid", Folds: []uint8{5, 6, 7}}, Test: sweep.Rows{Split: "valid",
				Folds: []uint8{8, 9}}}
	}
	for i, leaves := range o.leaves {
		params := gbt.Defaults()
		params.Objective, params.NumIterations, params.NumLeaves = p.Spec.Objective, max(o.trees, 12), leaves
		p.Trials = append(p.Trials, sweep.Trial{Number: i, Source: "fixed", Params: params.Map()})
	}
	if o.change != nil {
		o.change(p)
	}
	return p
}

// data converts the rows of a part to the trainer's input.
func (w *world) data(part sweep.Rows) *gbt.Data {
	s := w.ds.Split(part.Split)
	d := &gbt.Data{Rows: s.Rows, RowMajor: s.RowMajor, Columns: s.Columns, Label: s.Label, Subset: part.Select(s.Fold)}
	for i := range w.ds.Manifest.Features {
		f := &w.ds.Manifest.Features[i]
		d.Features = append(d.Features, gbt.Feature{Name: f.Name, Bins: f.Bins,
			Categorical: f.Kind == dataset.Categorical, Bounds: f.Bounds, Missing: f.MissingBin})
	}
	return d
}

// train does a task's work for one trial: it trains a model, and writes its files and its result, both after edit,
// which may be nil.
func (w *world) train(t testing.TB, trial int, edit func(*sweep.Result, map[string][]byte)) {
	t.Helper()
	params := must.Get(gbt.ParseParams(w.plan.Trials[trial].Params))(t)
	res := must.Get(gbt.Train(t.Context(), w.data(sweep.Rows{Split: "train"}), params, gbt.Options{}))(t)
	scores := func(part sweep.Rows) []float64 {
		return must.Get(res.Model.PredictBinned(w.data(part), 1))(t)
	}
	var text bytes.Buffer
	must.Get(res.Model.WriteTo(&text))(t)
	files := map[string][]byte{"model.txt": text.Bytes(),
		"calib.scores": sweep.EncodeScores(scores(w.plan.Holdout.Calib)),
		"test.scores":  sweep.EncodeScores(scores(w.plan.Holdout.Test))}
	r := &sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Status: sweep.StatusDone,
		Params: w.plan.Trials[trial].Params, Trees: len(res.Model.Trees), Metrics: map[string]float64{}}
	valid := scores(w.plan.Holdout.Valid)
	res.Model.Transform(valid)
	s := w.ds.Split(w.plan.Holdout.Valid.Split)
	label := s.Label
	if rows := w.plan.Holdout.Valid.Select(s.Fold); rows != nil {
		label = dataset.Pick(s.Label, rows)
	}
	for _, name := range append(w.plan.Metrics, w.plan.Spec.Metric) {
		m := must.Get(metric.Lookup(name))(t)
		r.Metrics[name] = must.Get(m.Eval(metric.Input{Label: label, Pred: valid, Values: s.Values}))(t)
	}
	r.Score = r.Metrics[w.plan.Spec.Metric]
	if edit != nil {
		edit(r, files)
	}
	objects := map[string]*sweep.Object{}
	for name, data := range files {
		sum := sha256.Sum256(data)
		objects[name] = &sweep.Object{Name: sweep.Names(r.Sweep).Attempt(trial, 0) + name, Bytes: int64(len(data)),
			SHA256: hex.EncodeToString(sum[:])}
		must.Get(w.sweeps.Put(t.Context(), objects[name].Name, blob.Any, bytes.NewReader(data)))(t)
	}
	if r.Status == sweep.StatusDone {
		r.Model, r.Scores = objects["model.txt"], &sweep.Scored{Calib: *objects["calib.scores"],
			Test: *objects["test.scores"]}
	}
	if ok, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(r.Sweep).Result(trial), r); !ok || err != nil {
		t.Fatalf("stored the result of trial %d: created %t, error %v", trial, ok, err)
	}
}

// write writes an object of the sweep as JSON.
func (w *world) write(t testing.TB, name string, v any) {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	must.Get(w.sweeps.Put(t.Context(), name, blob.Any, bytes.NewReader(data)))(t)
}

// aggregator returns a new aggregator of the world's buckets, without jobs, contract or notifications.
func (w *world) aggregator() *Aggregator {
	return &Aggregator{Datasets: w.datasets, Sweeps: w.sweeps, Registry: registry.New(w.models),
		Now: func() time.Time { return w.now }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// mustConclude returns the conclusion at which a new aggregator arrives; the sweep must be over.
func (w *world) mustConclude(t testing.TB) *sweep.Conclusion {
	t.Helper()
	c, err := w.aggregator().Consider(t.Context(), w.plan.Sweep)
	if err != nil || c == nil {
		t.Fatalf("the sweep was considered: got %v, %v; want a conclusion", c, err)
	}
	return c
}

// championIs checks which version of ctr is the champion, and returns the alias.
func (w *world) championIs(t testing.TB, want int) registry.Alias {
	t.Helper()
	now, err := registry.New(w.models).Alias(t.Context(), "ctr", registry.Champion)
	if err != nil || now.Version != want {
		t.Errorf("the champion is version %d (%v), want %d", now.Version, err, want)
	}
	return now
}

// filesOf reads all files of a version.
func filesOf(t testing.TB, r *registry.Registry, v registry.Version) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, f := range v.Files {
		files[f.Name] = must.Get(r.ReadFile(t.Context(), v, f.Name))(t)
	}
	return files
}

// state returns the contents of every object of a store whose name begins with prefix, by name.
func state(t testing.TB, s blob.Store, prefix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for attrs, err := range s.List(t.Context(), prefix) {
		must.Do(t, err)
		data, _ := must.Get2(blob.ReadAll(t.Context(), s, attrs.Name, 1<<26))(t)
		out[attrs.Name] = string(data)
	}
	return out
}

// dying returns a store as seen by a process that dies at its k-th Put: that call and all later ones fail with errDied.
// landed says whether the k-th Put still reaches the store. puts counts the calls, also over several such stores of one
// process.
func dying(s blob.Store, puts *atomic.Int64, k int64, landed bool) blob.Store {
	return &blobtest.Hooked{Store: s,
		Before: func(_ context.Context, call blobtest.Call, _ string) error {
			dead := call == blobtest.Open && puts.Load() >= k
			if call == blobtest.Put {
				n := puts.Add(1)
				dead = n > k || n == k && !landed
			}
			if dead {
				return errDied
			}
			return nil
		},
		After: func(_ context.Context, call blobtest.Call, _ string, err error) error {
			if call == blobtest.Put && err == nil && puts.Load() >= k {
				return errDied
			}
			return err
		}}
}

type deathError string

func (e deathError) Error() string { return string(e) }

const errDied = deathError("the process died")

// contains checks that a text has each of these parts.
func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want it to say %q", text, part)
		}
	}
}

// clicks are the options of a click table with so many rows, drawn from a seed.
func clicks(rows int, seed uint64) datasettest.Options {
	return datasettest.Options{Rows: rows, Seed: seed}
}

// decodeReference decodes the rows that a version keeps.
func decodeReference(data []byte) (*reference, error) {
	r, err := scorer.DecodeReference(data)
	if err != nil {
		return nil, err
	}
	return &reference{sample: r.Sample, targets: r.Targets}, nil
}
