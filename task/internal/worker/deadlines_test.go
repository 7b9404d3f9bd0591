package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestDeadlines adds up the steps of a task after SIGTERM, which must end before the process is killed.
func TestDeadlines(t *testing.T) {
	sum := time.Duration(0)
	for _, step := range []time.Duration{workFor, lookFor, releaseFor, curveFor, measureFor} {
		sum += step
	}
	if sum >= killedAfter {
		t.Errorf("the steps after SIGTERM take up to %s; want less than %s, when the process is killed", sum,
			killedAfter)
	}
}

// dying is a store whose machine gets the stop signal with the first write to a name that contains signal. From then on
// writes to names that contain hangs are not answered.
type dying struct {
	blob.Store
	signal, hangs string
	told          atomic.Bool
	stop          context.CancelFunc
	at            time.Time
	mu            sync.Mutex
	order         []string // of what was written after the signal
}

func (d *dying) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	if !d.told.Load() && strings.Contains(name, d.signal) {
		d.at = time.Now()
		d.told.Store(true)
		d.stop()
	}
	if d.told.Load() && d.hangs != "" && strings.Contains(name, d.hangs) {
		<-ctx.Done()
		return blob.Attrs{}, ctx.Err()
	}
	a, err := d.Store.Put(ctx, name, g, r)
	if err == nil && d.told.Load() && !strings.Contains(name, "/heartbeats/") {
		d.mu.Lock()
		d.order = append(d.order, name)
		d.mu.Unlock()
	}
	return a, err
}

// TestToldToGo: whatever hangs after the signal, the task returns before it is killed. The claim is released, and
// before the curve is written; a model that was trained by then is kept.
func TestToldToGo(t *testing.T) {
	const quick, slow = 100 * time.Millisecond, workFor + lookFor + releaseFor + curveFor + 100*time.Millisecond
	for name, tc := range map[string]struct {
		signal, hangs  string
		within         time.Duration
		released, done bool
	}{
		"while it trains":                        {"/checkpoints/", "", quick, true, false},
		"while it trains, saving hangs":          {"/checkpoints/", "/checkpoints/", workFor + quick, true, false},
		"while it trains, releasing hangs":       {"/checkpoints/", "/releases/", slow, false, false},
		"while it trains, everything hangs":      {"/checkpoints/", "/", slow, false, false},
		"when it has trained":                    {"/curves/", "", quick, false, true},
		"when it has trained, the curve hangs":   {"/curves/", "/curves/", curveFor + quick, false, true},
		"when it has trained, its files hang":    {"/curves/", "model.txt", workFor + quick, true, false},
		"when it has trained, its result hangs":  {"/curves/", "result.json", workFor + lookFor + quick, true, false},
		"while it uploads":                       {"model.txt", "", quick, false, true},
		"while it writes the result":             {"result.json", "", quick, false, true},
		"while it claims, everything hangs then": {"/claims/", "/", slow, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				store := &dying{Store: w.sweeps, signal: tc.signal, hangs: tc.hangs, stop: cancel}
				worker := w.worker(0)
				worker.Sweeps = store
				err := worker.Run(ctx)
				took := time.Since(store.at)

				if !problem.Is(err, problem.Transient) && !(tc.done && err == nil) || !store.told.Load() ||
					took > tc.within {
					t.Errorf("told to go (%t), the task ended after %s with %v; want a transient error within %s",
						store.told.Load(), took, err, tc.within)
				}

				names := sweep.Names(w.plan.Sweep)
				for object, want := range map[string]bool{names.Release(0, 0): tc.released, names.Result(0): tc.done} {
					if _, err := w.sweeps.Stat(t.Context(), object); (err == nil) != want {
						t.Errorf("%s: %v; want it to be there: %t", object, err, want)
					}
				}
				if release, curve := indexOf(store.order, "/releases/"),
					indexOf(store.order, "/curves/"); tc.signal == "/checkpoints/" && tc.released && curve < release {
					t.Errorf("after the signal the task wrote %q; want the release before the curve", store.order)
				}
			})
		})
	}
}

// indexOf returns the index of the first name that contains part; -1 if there is none.
func indexOf(names []string, part string) int {
	for i, name := range names {
		if strings.Contains(name, part) {
			return i
		}
	}
	return -1
}

// reacting is a log that calls do with the first message that contains part.
type reacting struct {
	slog.Handler
	part string
	do   func()
	once sync.Once
}

func (r *reacting) Handle(ctx context.Context, record slog.Record) error {
	if strings.Contains(record.Message, r.part) {
		r.once.Do(r.do)
	}
	return r.Handler.Handle(ctx, record)
}

func (r *reacting) WithAttrs([]slog.Attr) slog.Handler { return r }

// TestDamageThatHeals: damage found before a checkpoint is gone when the trial has ended, as after a single bad read of
// a page. The training saw wrong data nevertheless: it is repeated, and does not count as a failure of its
// configuration.
func TestDamageThatHeals(t *testing.T) {
	for range 50 { // on a busy machine a trial may end before its second checkpoint finds the damage
		if damagedAndHealed(t) {
			return
		}
	}
	t.Error("no trial of fifty saw a copy that was damaged and healed")
}

// damagedAndHealed trains a trial whose copy is damaged after a checkpoint, and healed when the next one has found it.
func damagedAndHealed(t *testing.T) (healed bool) {
	w := newWorld(t, 1, long)
	path := func() string {
		return filepath.Join(w.scratch, "datasets", w.plan.Dataset.Name, w.plan.Dataset.Version,
			filepath.FromSlash(dataset.TargetsFile(dataset.TestSplit)))
	}
	var whole []byte
	worker := w.worker(0)
	worker.Sweeps = before(w.sweeps, "/checkpoints/0/0", func() {
		var err error
		if whole, err = os.ReadFile(path()); err == nil {
			err = w.overwrite(0xff, dataset.TargetsFile(dataset.TestSplit))
		}
		if err != nil {
			t.Error(err)
		}
	})
	worker.Log = slog.New(&reacting{Handler: slog.NewTextHandler(io.Discard, nil), part: "could not save a checkpoint",
		do: func() {
			healed = true
			f, err := os.OpenFile(path(), os.O_RDWR, 0)
			if err == nil {
				_, err = io.Copy(f, bytes.NewReader(whole))
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Error(err)
			}
		}})
	runs(t, worker)
	if r := w.result(t, 0); healed && r.Status != sweep.StatusDone {
		t.Errorf("a copy was damaged and healed while trial 0 trained: it is %s: %s; want it done", r.Status, r.Reason)
	}
	return healed
}
