package worker

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// continuing is a sweep of two trials that continue a model of the same dataset.
func continuing(t *testing.T, change func(*sweep.Plan)) (w *world, from *gbt.Model) {
	t.Helper()
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 1500})
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	p := gbt.Defaults()
	p.NumIterations, p.NumLeaves = 6, 5
	auc := must.Get(metric.Lookup("auc"))(t)
	o := must.Get(fit.NewTable(ds).Train(t.Context(), fit.Request{Params: p, Metric: auc, Threads: 1}))(t)
	var text bytes.Buffer
	must.Get(o.Model.WriteTo(&text))(t)
	manifest := must.Get(os.ReadFile(filepath.Join(dir, dataset.ManifestFile)))(t)

	w = &world{datasets: blob.Memory(), sweeps: blob.Memory(), scratch: t.TempDir(), plan: newPlan(m, 2)}
	datasettest.Upload(t, w.datasets, dir, m)
	s := sweepstore.New(w.sweeps, w.plan.Sweep)
	in := &sweep.Input{Model: "ctr", Version: 1, Trees: 6}
	in.Text = must.Get(s.CreateInput(t.Context(), text.Bytes()))(t)
	in.Dataset = must.Get(s.CreateInput(t.Context(), manifest))(t)
	w.plan.Input = in
	if change != nil {
		change(w.plan)
	}
	must.Get(blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Plan(), w.plan))(t)
	return w, o.Model
}

func TestTrialsContinueAModel(t *testing.T) {
	w, from := continuing(t, func(p *sweep.Plan) {
		for i := range p.Trials {
			p.Trials[i].Params["early_stopping_round"] = 0.0
		}
	})
	w.run(t, 0)
	for i := range w.plan.Trials {
		r := w.result(t, i)
		if r.Status != sweep.StatusDone || r.Trees != 14 {
			t.Fatalf("trial %d is %s (%s) with %d trees, expected 14", i, r.Status, r.Reason, r.Trees)
		}
		text, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, r.Model.Name, 1<<24))(t)
		m := must.Get(gbt.ReadModel(bytes.NewReader(text)))(t)
		for n, tree := range from.Trees {
			if !slices.Equal(tree.Threshold, m.Trees[n].Threshold) ||
				!slices.Equal(tree.LeafValue, m.Trees[n].LeafValue) {
				t.Errorf("trial %d: tree %d of the model that it continues has changed", i, n)
			}
		}
		if !strings.Contains(string(text), "[input_model: sha256:"+w.plan.Input.Text.SHA256+"]") {
			t.Errorf("the model of trial %d does not say what it continues", i)
		}
	}
}

// TestContinuedTrialsSurvive: machines vanish during a sweep that continues a model, and the models are the same bytes.
func TestContinuedTrialsSurvive(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	calm, _ := continuing(t, long)
	counting := &mortal{Store: calm.sweeps, left: math.MaxInt}
	worker := calm.worker(0)
	worker.Sweeps = counting
	runs(t, worker)
	want, operations := calm.models(t), math.MaxInt-counting.left

	w, _ := continuing(t, long)
	for attempt := 0; ; attempt++ {
		ctx, die := context.WithCancel(t.Context())
		worker := w.worker(0)
		worker.Attempt, worker.Nonce = attempt, strings.Repeat("n", attempt+1)
		worker.Sweeps = &mortal{Store: w.sweeps, left: operations/5 + attempt*operations/10, die: die}
		err := worker.Run(ctx)
		die()
		if err == nil {
			break
		}
		if attempt == 40 {
			t.Fatalf("the sweep does not end: %v", err)
		}
	}
	for i, model := range w.models(t) {
		if model != want[i] {
			t.Errorf("trial %d has another model after its machine has vanished", i)
		}
	}
}

// TestContinuedSweepWithoutItsModel: a missing model is permanent, so the task is not retried.
func TestContinuedSweepWithoutItsModel(t *testing.T) {
	w, _ := continuing(t, func(p *sweep.Plan) { p.Input.Text.Name += "0" })
	err := w.worker(0).Run(t.Context())
	if err == nil || problem.Is(err, problem.Transient) || !strings.Contains(err.Error(), "input model") {
		t.Errorf("got %v, expected an error about the input model that no other attempt may cure", err)
	}
}
