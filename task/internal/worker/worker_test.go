package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/problem"
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

func TestSameModelsHoweverManyTasks(t *testing.T) {
	alone := newWorld(t, 7, nil)
	if err := alone.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	together := newWorld(t, 7, func(p *sweep.Plan) { p.Sizing.ThreadsPerTask = 3 })
	var wg sync.WaitGroup
	for task := range 3 {
		wg.Go(func() {
			if err := together.worker(task).Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, b := alone.models(t), together.models(t)
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("trial %d differs between one task and three", i)
		}
	}
	if n := len(together.published.messages); n != 7 {
		t.Errorf("%d messages for 7 trials", n)
	}
	for i, m := range together.published.messages {
		want := map[string]string{"sweep": "test-1", "trial": fmt.Sprint(m.Trial),
			"traceparent": m.Sweep.TraceParent("trial", fmt.Sprint(m.Trial))}
		if !maps.Equal(together.published.attrs[i], want) {
			t.Errorf("attributes %v, want %v", together.published.attrs[i], want)
		}
	}
	for i := range 7 {
		if _, err := together.sweeps.Stat(t.Context(), "sweeps/test-1/trials/"+fmt.Sprintf("%04d", i)+
			"/claims/1"); !errors.Is(err, blob.ErrNotExist) {
			t.Errorf("trial %d was claimed twice: %v", i, err)
		}
	}
}

func TestResultSaysWhatTheModelDoes(t *testing.T) {
	w := newWorld(t, 1, nil)
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := w.result(t, 0)
	if r.Score != r.Metrics["auc"] || len(r.Metrics) != 3 || !(r.Score > 0.55) || r.Trees < 1 ||
		r.TreesGrown < r.Trees || r.Usage.TrainSeconds <= 0 {
		t.Errorf("a finished trial: got %+v; want its AUC of over .55 as score, three metrics, trees and time", r)
	}
	text, _, err := blob.ReadAll(t.Context(), w.sweeps, r.Model.Name, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	m, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil || len(m.Trees) != r.Trees {
		t.Fatalf("the model has %d trees, %v, expected the %d that its result states", len(m.Trees), err, r.Trees)
	}
	data, _, err := blob.ReadAll(t.Context(), w.sweeps, r.Scores.Test.Name, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := sweep.DecodeScores(data)
	if err != nil || len(scores) == 0 {
		t.Fatalf("%d scores of test, %v, expected some", len(scores), err)
	}
}

func TestABadCandidateIsAResult(t *testing.T) {
	w := newWorld(t, 3, func(p *sweep.Plan) { p.Trials[1].Params["num_leaves"] = "many" })
	w.published.err = errors.New("no broker") // and messages may be lost
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.result(t, 1); r.Status != sweep.StatusFailed || !strings.Contains(r.Reason, "num_leaves") {
		t.Errorf("a wrong num_leaves: the trial is %s: %s; want it failed, with num_leaves as the reason", r.Status,
			r.Reason)
	}
	for _, i := range []int{0, 2} {
		if r := w.result(t, i); r.Status != sweep.StatusDone {
			t.Errorf("trial %d: %s", i, r.Status)
		}
	}
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

func TestTakesOverFromTheDead(t *testing.T) {
	w := newWorld(t, 2, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 1, 0, 9, 0)
		start := time.Now()
		if err := w.worker(0).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited < time.Minute || waited > 63*time.Second {
			t.Errorf("taken over after %s", waited)
		}
		if r := w.result(t, 1); r.Claim != 1 || r.Status != sweep.StatusDone {
			t.Errorf("taken over from a dead task: got %+v; want it done by claim 1", r)
		}
	})
}

func TestLeavesTheLivingAlone(t *testing.T) {
	w := newWorld(t, 2, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 1, 0, 9, 0)
		ctx, stop := context.WithCancel(t.Context())
		var other sync.WaitGroup
		other.Go(func() { // the other task's heartbeat
			for i := 0; pause(ctx, 700*time.Millisecond) == nil; i++ {
				if _, err := w.sweeps.Put(ctx, sweep.Names(w.plan.Sweep).Heartbeat(1, 0), blob.Any,
					strings.NewReader(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
		if err := w.worker(0).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		other.Wait()
		if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Claim(1, 1)); !errors.Is(err,
			blob.ErrNotExist) {
			t.Error("a trial was taken from a living task")
		}
	})
}

func TestTakesUpItsOwnEarlierTrial(t *testing.T) {
	w := newWorld(t, 2, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 1, 0, 4, 0)
		again := w.worker(4)
		again.Attempt = 1
		start := time.Now()
		if err := again.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited > 2*time.Second {
			t.Errorf("waited %s for itself", waited)
		}
		if r := w.result(t, 1); r.Claim != 1 || r.Attempt != 1 {
			t.Errorf("its own trial of an earlier attempt: got %+v; want claim 1 of attempt 1", r)
		}
	})
}

// hooked calls a function once, before the first Put of a name that contains part.
type hooked struct {
	blob.Store
	part string
	once sync.Once
	do   func()
}

func (h *hooked) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if strings.Contains(name, h.part) {
		h.once.Do(h.do)
	}
	return h.Store.Put(ctx, name, cond, r)
}

func TestTheFirstResultWins(t *testing.T) {
	w := newWorld(t, 1, nil)
	first := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Claim: 1, Status: sweep.StatusFailed, Reason: "mine"}
	worker := w.worker(0)
	worker.Sweeps = &hooked{Store: w.sweeps, part: "result.json", do: func() {
		if ok, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(0), first); !ok ||
			err != nil {
			t.Errorf("stored the object: created %t, error %v", ok, err)
		}
	}}
	if err := worker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.result(t, 0); r.Reason != "mine" || len(w.published.messages) != 0 {
		t.Errorf("a later result replaced or announced itself: %+v, %d messages", r, len(w.published.messages))
	}
}

// slow makes a trial that ends only when interrupted.
func slow(p *sweep.Plan) {
	p.Trials[0].Params["num_iterations"], p.Trials[0].Params["early_stopping_round"] = 1e6, 0.0
	p.Heartbeat = sweep.Duration(time.Millisecond)
}

func TestCancelStopsTraining(t *testing.T) {
	w := newWorld(t, 2, slow)
	worker := w.worker(0)
	worker.Sweeps = &hooked{Store: w.sweeps, part: "heartbeats", do: func() {
		if _, err := blob.Create(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Cancel(), []byte("{}")); err != nil {
			t.Error(err)
		}
	}}
	if err := worker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.result(t, 0); r.Status != sweep.StatusCancelled {
		t.Errorf("cancelled while training: got %+v; want it cancelled", r)
	}
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Claim(1, 0)); !errors.Is(err, blob.ErrNotExist) {
		t.Error("a trial was begun after the sweep was cancelled")
	}
}

func TestSupersededGivesUp(t *testing.T) {
	w := newWorld(t, 1, slow)
	done := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Claim: 1, Status: sweep.StatusFailed,
		Reason: "by the other task"}
	worker := w.worker(0)
	worker.Sweeps = &hooked{Store: w.sweeps, part: "heartbeats", do: func() {
		w.claimed(t, 0, 1, 7, 0)
		if _, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(0), done); err != nil {
			t.Error(err)
		}
	}}
	if err := worker.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := w.result(t, 0); r.Reason != done.Reason {
		t.Errorf("superseded: got %+v; want the result of the other task kept", r)
	}
}

func TestInterruptionIsTransientAndLeavesNoResult(t *testing.T) {
	w := newWorld(t, 1, slow)
	ctx, stop := context.WithCancel(t.Context())
	worker := w.worker(0)
	worker.Sweeps = &hooked{Store: w.sweeps, part: "heartbeats", do: stop}
	err := worker.Run(ctx)
	if !problem.Is(err, problem.Transient) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Result(0)); !errors.Is(err, blob.ErrNotExist) {
		t.Error("an interrupted trial has a result")
	}
}

// broken fails every operation on names that contain part.
type broken struct {
	blob.Store
	part string
}

var errBroken = errors.New("storage is out of reach")

func (b broken) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	if strings.Contains(name, b.part) {
		return blob.Attrs{}, errBroken
	}
	return b.Store.Put(ctx, name, cond, r)
}

func TestStorageFailuresAreTransient(t *testing.T) {
	for _, part := range []string{"claims", "model.txt", "test.scores", "result.json"} {
		w := newWorld(t, 1, nil)
		worker := w.worker(0)
		worker.Sweeps = broken{w.sweeps, part}
		if err := worker.Run(t.Context()); !problem.Is(err, problem.Transient) || !errors.Is(err, errBroken) {
			t.Errorf("the store fails at %s: the worker ended with %v; want a transient error that wraps errBroken",
				part, err)
		}
	}
	w := newWorld(t, 1, nil) // a heartbeat that cannot be written is no reason to stop
	worker := w.worker(0)
	worker.Sweeps = broken{w.sweeps, "heartbeats"}
	if err := worker.Run(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDamagedDatasetIsPermanent(t *testing.T) {
	w := newWorld(t, 1, nil)
	name := sweep.DatasetDir(w.plan.Dataset.Name, w.plan.Dataset.Version) + "train/rows.arrow"
	data, _, err := blob.ReadAll(t.Context(), w.datasets, name, 1<<26)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if _, err := w.datasets.Put(t.Context(), name, blob.Any, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	err = w.worker(0).Run(t.Context())
	var corrupt *dataset.CorruptError
	if !errors.As(err, &corrupt) || problem.Is(err, problem.Transient) {
		t.Errorf("got %v", err)
	}
	missing := newWorld(t, 1, func(p *sweep.Plan) { p.Dataset.Version = "0000000000000000" })
	if err := missing.worker(0).Run(t.Context()); !errors.Is(err, blob.ErrNotExist) ||
		problem.Is(err, problem.Transient) {
		t.Errorf("a dataset that is not there: %v", err)
	}
}

func TestWaitsForMemory(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 100 })
	synctest.Test(t, func(t *testing.T) {
		worker := w.worker(0)
		free := []int64{10, 50, 99, 100}
		worker.Available = func() int64 {
			f := free[0]
			if len(free) > 1 {
				free = free[1:]
			}
			return f
		}
		start := time.Now()
		if err := worker.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestWaitingForMemoryEndsWithTheSweep(t *testing.T) {
	for name, object := range map[string]func(sweep.Names) string{"cancelled": sweep.Names.Cancel,
		"concluded": sweep.Names.Ending} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 100 })
			synctest.Test(t, func(t *testing.T) {
				worker := w.worker(0)
				worker.Available = func() int64 { return 99 }
				time.AfterFunc(time.Hour, func() {
					if _, err := blob.Create(t.Context(), w.sweeps, object(sweep.Names(w.plan.Sweep)),
						[]byte("{}")); err != nil {
						t.Error(err)
					}
				})
				if err := worker.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestAnEndedSweepTrainsNothing: machines that start after the aggregator has concluded cost as little as possible.
func TestAnEndedSweepTrainsNothing(t *testing.T) {
	w := newWorld(t, 2, nil)
	if _, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Ending(),
		sweep.Ending{Format: 1, Sweep: w.plan.Sweep}); err != nil {
		t.Fatal(err)
	}
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Trials()) {
		t.Errorf("the sweep has %q (%v), want nothing of a trial", attrs.Name, err)
	}
}

// TestADeadlyTrialIsGivenUp: no further task dies of it.
func TestADeadlyTrialIsGivenUp(t *testing.T) {
	w := newWorld(t, 2, nil)
	synctest.Test(t, func(t *testing.T) {
		for claim := range sweep.MaxClaims {
			w.claimed(t, 1, claim, 9, claim)
		}
		if err := w.worker(0).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := w.result(t, 1); r.Status != sweep.StatusFailed ||
			!strings.Contains(r.Reason, "5 tasks died while training it") {
			t.Errorf("five tasks died of it: got %+v; want the trial failed, with that reason", r)
		}
		if r := w.result(t, 0); r.Status != sweep.StatusDone {
			t.Errorf("the other trial: got %+v; want it done", r)
		}
	})
}

// TestReleasedClaimsDoNotCount: a trial that was interrupted often is claimed at once, and still trained.
func TestReleasedClaimsDoNotCount(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		for claim := range 2 * sweep.MaxClaims {
			w.claimed(t, 0, claim, 9, claim)
			if _, err := blob.Create(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Release(0, claim),
				[]byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		if err := w.worker(0).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := w.result(t, 0); r.Status != sweep.StatusDone || r.Claim != 2*sweep.MaxClaims ||
			time.Since(start) > 10*time.Second {
			t.Errorf("after %s: %+v", time.Since(start), r)
		}
	})
}

// TestAliveWhileUploading has a bucket that takes minutes for a file.
func TestAliveWhileUploading(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		store := w.sweeps
		first := w.worker(0)
		var second sync.WaitGroup
		first.Sweeps = slowUpload{store, "calib.scores", func() error {
			second.Go(func() {
				if err := w.worker(1).Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
			return pause(t.Context(), 5*time.Minute)
		}}
		if err := first.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		second.Wait()
		if r := w.result(t, 0); r.Claim != 0 {
			t.Errorf("the trial was taken over: %+v", r)
		}
	})
}

// slowUpload is a store in which one file takes long to write.
type slowUpload struct {
	blob.Store
	file string
	wait func() error
}

func (s slowUpload) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	if strings.HasSuffix(name, s.file) {
		if err := s.wait(); err != nil {
			return blob.Attrs{}, err
		}
	}
	return s.Store.Put(ctx, name, g, r)
}

func TestMessageNamesTheResult(t *testing.T) {
	w := newWorld(t, 2, nil)
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var trials []int
	for _, m := range w.published.messages {
		trials = append(trials, m.Trial)
		r := w.result(t, m.Trial)
		if m.Score != r.Score || m.Status != r.Status {
			data, _ := json.Marshal(m)
			t.Errorf("message %s, result %+v", data, r)
		}
	}
	slices.Sort(trials)
	if !slices.Equal(trials, []int{0, 1}) {
		t.Errorf("messages about %v", trials)
	}
}
