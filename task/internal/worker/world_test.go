package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// world is a sweep that is planned and staged in memory.
type world struct {
	datasets, sweeps blob.Store
	scratch          string
	manifest         *dataset.Manifest
	plan             *sweep.Plan
	published        published
}

type published struct {
	mu       sync.Mutex
	messages []sweep.ScoreMessage
	attrs    []map[string]string
	err      error
}

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
	if _, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Plan(), w.plan); err != nil {
		t.Fatal(err)
	}
	return w
}

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

func (w *world) worker(task int) *Worker {
	return &Worker{Datasets: w.datasets, Sweeps: w.sweeps, Scores: &w.published,
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
		Sweep: w.plan.Sweep, Task: task, Scratch: w.scratch, Host: "test", Nonce: fmt.Sprint("nonce-", task),
		Available: func() int64 { return -1 }}
}

func (w *world) result(t *testing.T, trial int) *sweep.Result {
	t.Helper()
	data, _, err := blob.ReadAll(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(trial), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	r, err := sweep.DecodeResult(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// models returns, by trial, the model's bytes and the scores of both parts.
func (w *world) models(t *testing.T) map[int]string {
	t.Helper()
	out := map[int]string{}
	for i := range w.plan.Trials {
		r := w.result(t, i)
		if r.Status != sweep.StatusDone {
			t.Fatalf("trial %d: %s: %s", i, r.Status, r.Reason)
		}
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

// claimed writes another task's claim on a trial.
func (w *world) claimed(t *testing.T, trial, claim, task, attempt int) {
	t.Helper()
	c := sweep.Claim{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Claim: claim, Task: task, Attempt: attempt}
	if ok, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Claim(trial, claim), c); !ok ||
		err != nil {
		t.Fatalf("stored the object: created %t, error %v", ok, err)
	}
}

// slow makes a trial that ends only when interrupted.
func slow(p *sweep.Plan) {
	p.Trials[0].Params["num_iterations"], p.Trials[0].Params["early_stopping_round"] = 1e6, 0.0
	p.Heartbeat = sweep.Duration(time.Millisecond)
}
