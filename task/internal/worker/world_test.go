package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// world is a planned sweep and its staged dataset, in buckets in memory, with the messages that tasks have published.
type world struct {
	datasets, sweeps blob.Store
	scratch          string
	manifest         *dataset.Manifest
	plan             *sweep.Plan
	published        published
}

// published is a publisher that keeps what it is given. Every call returns err.
type published struct {
	mu       sync.Mutex
	messages []sweep.ScoreMessage
	attrs    []map[string]string
	err      error
}

// Publish keeps a message, which has to be one that can be decoded.
func (p *published) Publish(_ context.Context, data []byte, attrs map[string]string) error {
	m, err := sweep.DecodeScoreMessage(data)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages, p.attrs = append(p.messages, *m), append(p.attrs, attrs)
	return p.err
}

// newWorld plans n trials on a small table. change, which may be nil, edits the plan before it is written.
func newWorld(t *testing.T, trials int, change func(*sweep.Plan)) *world {
	t.Helper()
	return newWorldOn(t, datasettest.Options{Rows: 1500}, trials, change)
}

// newWorldOn is newWorld on a table of the caller's choice.
func newWorldOn(t *testing.T, o datasettest.Options, trials int, change func(*sweep.Plan)) *world {
	t.Helper()
	w := &world{datasets: blob.Memory(), sweeps: blob.Memory(), scratch: t.TempDir()}
	dir, m := datasettest.Dir(t, o)
	w.manifest = m
	datasettest.Upload(t, w.datasets, dir, m)
	w.plan = newPlan(m, trials)
	if change != nil {
		change(w.plan)
	}
	must.Get(blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Plan(), w.plan))(t)
	return w
}

// newPlan returns a plan of listed trials for three tasks: trial i has 8 trees at most with 4+i leaves, and stops
// early.
func newPlan(m *dataset.Manifest, trials int) *sweep.Plan {
	p := &sweep.Plan{Format: 1, Sweep: "test-1", Maximize: true, Metrics: []string{"log_loss", "auc", "precision@5%"},
		Dataset: sweep.DatasetRef{Name: m.Name, Version: m.Version},
		Holdout: sweep.Holdout{Valid: sweep.Rows{Split: "valid"}, Calib: sweep.Rows{Split: "calib"},
			Test: sweep.Rows{Split: "test", Folds: []uint8{0, 1, 2, 3, 4, 5}}},
		Sizing:    sweep.Sizing{Tasks: 3, ThreadsPerTask: 1},
		Heartbeat: sweep.Duration(time.Second), Takeover: sweep.Duration(time.Minute),
	}
	p.Spec = sweep.Spec{Name: "test", Model: "ctr", Objective: "binary", Metric: "auc",
		Limits: sweep.Limits{Trial: sweep.Duration(time.Hour)}}
	for i := range trials {
		params := gbt.Defaults()
		params.NumIterations, params.NumLeaves, params.EarlyStoppingRound, params.Seed = 8, 4+i, 5, 3
		p.Trials = append(p.Trials, sweep.Trial{Number: i, Source: "fixed", Params: params.Map()})
	}
	return p
}

// worker returns a task of the sweep in its first attempt, on the one machine of this world.
func (w *world) worker(task int) *Worker {
	return &Worker{Datasets: w.datasets, Sweeps: w.sweeps, Scores: &w.published,
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		Sweep: w.plan.Sweep, Task: task, Scratch: w.scratch, Host: "test", Nonce: fmt.Sprint("nonce-", task),
		Available: func() int64 { return -1 }}
}

// run runs one task to its end.
func (w *world) run(t *testing.T, task int) {
	t.Helper()
	runs(t, w.worker(task))
}

// runs runs a worker, which has to end without an error.
func runs(t *testing.T, worker *Worker) {
	t.Helper()
	must.Do(t, worker.Run(t.Context()))
}

// tasks runs so many tasks at once until all have ended, which has to be without an error.
func (w *world) tasks(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	for task := range n {
		all.Go(func() {
			if err := w.worker(task).Run(t.Context()); err != nil {
				t.Errorf("task %d of %d: %v", task, n, err)
			}
		})
	}
	all.Wait()
}

// calmModels returns the models of a sweep that nothing disturbs, by trial, for comparison.
func calmModels(t *testing.T, trials int, change func(*sweep.Plan)) map[int]string {
	t.Helper()
	w := newWorld(t, trials, change)
	w.run(t, 0)
	return w.models(t)
}

// withFinal adds the final training to a plan.
func withFinal(p *sweep.Plan) {
	p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
	p.Trials = append(p.Trials, sweep.Trial{Number: len(p.Trials), Source: sweep.SourceFinal, Refit: true})
}

// put writes an object.
func (w *world) put(t *testing.T, name, text string) {
	t.Helper()
	if _, err := w.sweeps.Put(context.WithoutCancel(t.Context()), name, blob.Any, strings.NewReader(text)); err != nil {
		t.Error(err)
	}
}

func (w *world) putJSON(t *testing.T, name string, v any) {
	t.Helper()
	data := must.Get(json.Marshal(v))(t)
	w.put(t, name, string(data))
}

// result reads the result of a trial, which has to have one.
func (w *world) result(t *testing.T, trial int) *sweep.Result {
	t.Helper()
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(trial), 1<<20))(t)
	return must.Get(sweep.DecodeResult(data))(t)
}

// done reads the result of a trial, which has to be done.
func (w *world) done(t *testing.T, trial int) *sweep.Result {
	t.Helper()
	r := w.result(t, trial)
	if r.Status != sweep.StatusDone {
		t.Fatalf("trial %d ended %s: %s; want it done", trial, r.Status, r.Reason)
	}
	return r
}

// models returns the files of every trial as text, by trial: the model, and its scores on the calibration and test
// rows. All trials have to be done.
func (w *world) models(t *testing.T) map[int]string {
	t.Helper()
	out := map[int]string{}
	for i := range w.plan.Trials {
		r := w.done(t, i)
		for _, o := range []sweep.Object{*r.Model, r.Scores.Calib, r.Scores.Test} {
			data, _, err := blob.ReadAll(t.Context(), w.sweeps, o.Name, 1<<24)
			if err != nil || int64(len(data)) != o.Bytes {
				t.Fatalf("trial %d: %s has %d bytes, %v, expected the %d that its result states", i, o.Name, len(data),
					err, o.Bytes)
			}
			out[i] += string(data)
		}
	}
	return out
}

// claimed writes a claim of a trial by any task and attempt.
func (w *world) claimed(t *testing.T, trial, claim, task, attempt int) {
	t.Helper()
	c := sweep.Claim{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Claim: claim, Task: task, Attempt: attempt}
	w.putJSON(t, sweep.Names(w.plan.Sweep).Claim(trial, claim), c)
}

// before returns a store that calls act once, before the first write of a name that contains part.
func before(s blob.Store, part string, act func()) blob.Store {
	var once sync.Once
	return instead(s, part, func(context.Context) error {
		once.Do(act)
		return nil
	})
}

// after returns a store that calls act whenever an object whose name contains part has been written.
func after(s blob.Store, part string, act func()) blob.Store {
	return &blobtest.Hooked{Store: s, After: func(_ context.Context, call blobtest.Call, name string, err error) error {
		if err == nil && call == blobtest.Put && strings.Contains(name, part) {
			act()
		}
		return err
	}}
}

// broken returns a store that fails every write of a name that contains part with errBroken.
func broken(s blob.Store, part string) blob.Store {
	return instead(s, part, func(context.Context) error { return errBroken })
}

// instead returns a store that asks answer before every write of a name that contains part. If that is an error the
// write fails with it; otherwise it is done.
func instead(s blob.Store, part string, answer func(context.Context) error) blob.Store {
	return blobtest.Before(s, blobtest.Put, func(ctx context.Context, name string) error {
		if strings.Contains(name, part) {
			return answer(ctx)
		}
		return nil
	})
}

// slow makes the first trial one that ends only when it is interrupted.
func slow(p *sweep.Plan) {
	p.Trials[0].Params["num_iterations"], p.Trials[0].Params["early_stopping_round"] = 1e6, 0.0
	p.Heartbeat = sweep.Duration(time.Millisecond)
}
