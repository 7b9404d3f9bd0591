package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	"coppice/internal/gbt"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

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
