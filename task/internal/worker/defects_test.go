package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestToldToGoJustAfterTheResult: if the process is told to stop just before or after it has written a result, the
// trial's end is still published and its checkpoints are dropped.
func TestToldToGoJustAfterTheResult(t *testing.T) {
	for when, told := range map[string]func(blob.Store, string, func()) blob.Store{"before": before, "after": after} {
		w := newWorld(t, 1, nil)
		w.put(t, sweep.Names(w.plan.Sweep).Checkpoint(0, 7)+"0", "an old checkpoint") // of another claim, 7
		ctx, cancel := context.WithCancel(t.Context())
		worker := w.worker(0)
		worker.Sweeps, worker.Scores = told(w.sweeps, "result.json", cancel), heedful{&w.published}
		if err := worker.Run(ctx); err != nil && ctx.Err() == nil {
			t.Fatalf("the task ended with %v, expected success unless it was told to stop", err)
		}

		left, _ := w.checkpointsOf(t, 0)
		if r, n := w.result(t, 0), len(w.published.messages); r.Status != sweep.StatusDone || n != 1 || len(left) > 0 {
			t.Errorf("told to go just %s the result is written: %s, %d messages, %d checkpoints left; want done, 1, "+
				"none", when, r.Status, n, len(left))
		}
	}
}

// TestToldToGoWhileClaiming: if the process is told to stop while the answer to its claim is on its way, the claim is
// released all the same. So no task waits for its holder, and it does not count as a death of the trial.
func TestToldToGoWhileClaiming(t *testing.T) {
	w := newWorld(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	worker := w.worker(0)
	told := func(ctx context.Context, call blobtest.Call, name string, err error) error {
		if err == nil && call == blobtest.Put && strings.HasSuffix(name, "claims/0") {
			cancel()
			return ctx.Err()
		}
		return err
	}
	worker.Sweeps = &blobtest.Hooked{Store: w.sweeps, After: told}
	if err := worker.Run(ctx); !problem.Is(err, problem.Transient) {
		t.Fatalf("told to go while claiming: %v; want a transient error", err)
	}
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Release(0, 0)); err != nil {
		t.Errorf("told to go while claiming, and the claim was written: %v; want it released", err)
	}
}

// heedful is a publisher that publishes nothing once the context has ended, as a real client does.
type heedful struct{ to Publisher }

func (h heedful) Publish(ctx context.Context, data []byte, attrs map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.to.Publish(ctx, data, attrs)
}

// TestAStalledListingDispossessesNobody: a task whose listings take as long as the takeover time does not take a trial
// from a holder that writes heartbeats: that it has seen no new one does not mean that there was none. waits are how
// long the first listings take.
func TestAStalledListingDispossessesNobody(t *testing.T) {
	for name, waits := range map[string][]time.Duration{
		"the second": {0, 61 * time.Second}, "the first": {61 * time.Second, 0, 0},
		"all": {50 * time.Second, 61 * time.Second, 70 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			synctest.Test(t, func(t *testing.T) {
				w.claimed(t, 0, 0, 9, 0)
				ctx, stop := context.WithCancel(t.Context())
				var holder sync.WaitGroup
				holder.Go(func() {
					for n := 0; ; n++ {
						w.putJSON(t, sweep.Names(w.plan.Sweep).Heartbeat(0, 0), sweep.Heartbeat{Format: 1, Trees: n})
						if pause(ctx, 1500*time.Millisecond) != nil { // so that two looks may see the same beat
							return
						}
					}
				})
				worker := w.worker(0)
				worker.Sweeps = stalling(w.sweeps, func() time.Duration {
					if len(waits) == 0 {
						return 0
					}
					wait := waits[0]
					waits = waits[1:]
					return wait
				})
				runs(t, worker)
				stop()
				holder.Wait()
				if claims := w.claimsOf(t); len(claims) != 1 {
					t.Errorf("claims %q; want that of the holder, which lives, and no other", claims)
				}
			})
		})
	}
}

// TestABeatAfterTheListingIsSeen: a holder that was silent for the takeover time, and writes a heartbeat between
// another task's listing and its claim, keeps its trial.
func TestABeatAfterTheListingIsSeen(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 0, 0, 9, 0)
		start, back := time.Now(), false
		worker := w.worker(0)
		worker.Sweeps = stalling(w.sweeps, func() time.Duration {
			if time.Since(start) >= time.Minute && !back {
				back = true
				w.put(t, sweep.Names(w.plan.Sweep).Heartbeat(0, 0), "{}")
			}
			return 0
		})
		runs(t, worker)
		if claims := w.claimsOf(t); !back || len(claims) > 1 {
			t.Errorf("the holder came back %t; claims %q, want that of the holder only", back, claims)
		}
	})
}

// TestAFinishedTrialIsNotTrainedAgain: a trial whose result is written by its first holder is not trained to its end by
// a second one, whether the result comes between the second one's listing and claim, or while it trains. The first
// result stays. (The trial would never end by itself.)
func TestAFinishedTrialIsNotTrainedAgain(t *testing.T) {
	for _, when := range []string{"/claims/1", "/heartbeats/1"} {
		w := newWorld(t, 1, slow)
		done := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Claim: 0, Status: sweep.StatusFailed,
			Reason: "by the holder, which lives"}
		w.claimed(t, 0, 0, 0, 0)
		worker := w.worker(0)
		worker.Attempt = 1 // its own attempt 0 has claimed the trial, so that it is taken at once
		worker.Sweeps = before(w.sweeps, when, func() {
			w.putJSON(t, sweep.Names(w.plan.Sweep).Result(0), done)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := worker.Run(ctx)
		cancel()
		if err != nil {
			t.Errorf("it ended at %s: the task ended with %v; want it to notice and go on", when, err)
		}
		if r := w.result(t, 0); r.Reason != done.Reason || len(w.published.messages) != 0 {
			t.Errorf("it ended at %s: %+v, %d messages; want the holder's result and none", when, r,
				len(w.published.messages))
		}
	}
}

// claimsOf returns the names of all claims in the sweep.
func (w *world) claimsOf(t *testing.T) (claims []string) {
	t.Helper()
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Trials()) {
		must.Do(t, err)
		if strings.Contains(attrs.Name, "/claims/") {
			claims = append(claims, attrs.Name)
		}
	}
	return claims
}

// TestLostAnswersCostNothing: if three in ten answers to writes are lost, and the storage client repeats the writes, a
// task still recognises its own claims and results. Nothing is claimed twice or waited for, every trial's end is
// published once, and the models are those of a sweep without losses.
func TestLostAnswersCostNothing(t *testing.T) {
	want := calmModels(t, 7, nil)
	for seed := range uint64(3) {
		w := newWorld(t, 7, nil)
		synctest.Test(t, func(t *testing.T) {
			lossy := blobtest.NewLossy(w.sweeps, seed, 0.3)
			lossy.Repeats = true
			worker, start := w.worker(0), time.Now()
			worker.Sweeps = lossy
			if err := worker.Run(t.Context()); err != nil {
				t.Fatalf("seed %d: the task ended with %v, want no error", seed, err)
			}

			if claims := w.claimsOf(t); len(claims) != 7 || len(w.published.messages) != 7 ||
				time.Since(start) >= time.Minute {
				t.Errorf("seed %d, %d answers lost: claims %q and %d messages after %s; want 7 of each and no waiting",
					seed, lossy.Lost(), claims, len(w.published.messages), time.Since(start))
			}
			if got := w.models(t); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("seed %d: other models than without losses, want the same", seed)
			}
		})
	}
}

// TestWriteIDs: each create-only object has a write id of its own. A plan's write id does not change its fingerprint.
func TestWriteIDs(t *testing.T) {
	w := newWorld(t, 2, nil)
	w.run(t, 0)
	seen := map[string]string{}
	names := sweep.Names(w.plan.Sweep)
	for _, name := range []string{names.Claim(0, 0), names.Claim(1, 0), names.Result(0), names.Result(1)} {
		var o sweep.Written
		must.Get(blob.ReadJSON(t.Context(), w.sweeps, name, &o))(t)
		if before, twice := seen[o.WriteID]; o.WriteID == "" || twice {
			t.Errorf("%s has the write id %q, as %q has; want one of its own", name, o.WriteID, before)
		}
		seen[o.WriteID] = name
	}
	other := *w.plan
	other.WriteID = "x"
	if other.Fingerprint() != w.plan.Fingerprint() {
		t.Error("with another write id the plan has another fingerprint, want the same")
	}
}

// cancelled marks the sweep as cancelled.
func (w *world) cancelled(t *testing.T) {
	t.Helper()
	w.write(t, func(ctx context.Context, s *sweepstore.Sweep) (bool, error) { return s.Cancel(ctx, time.Now()) })
}

// TestACancelledSweepLeavesNothing: when the tasks of a cancelled sweep have left, no checkpoint is left. Those of a
// trial whose machine vanished are dropped by the next task, and those of a task that is told to go by itself.
func TestACancelledSweepLeavesNothing(t *testing.T) {
	for name, run := range map[string]func(w *world) error{
		"its machine vanished before": func(w *world) error {
			w.until(t, 0, "checkpoints/", 1)
			if left, _ := w.checkpointsOf(t, 0); len(left) == 0 {
				t.Fatal("the machine that vanished has left no checkpoint, so nothing is tested")
			}
			w.cancelled(t)
			next := w.worker(1)
			return next.Run(t.Context())
		},
		"told to go": func(w *world) error {
			ctx, cancel := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Sweeps = before(w.sweeps, "checkpoints/", func() {
				w.cancelled(t)
				cancel()
			})
			err := worker.Run(ctx)
			if !problem.Is(err, problem.Transient) {
				return errors.Join(err, errors.New("want a transient error: it was told to go"))
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, long)
			must.Do(t, run(w))
			for trial := range w.plan.Trials {
				if left, _ := w.checkpointsOf(t, trial); len(left) > 0 {
					t.Errorf("the sweep was cancelled and its tasks have left: trial %d has %d checkpoints; want none",
						trial, len(left))
				}
			}
		})
	}
}

// TestDeadlines: the steps of a task after SIGTERM take less time, in sum, than passes until the process is killed.
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

// Put gives the signal at the first write of a name that contains d.signal, then hangs on names that contain d.hangs,
// and notes the order of the writes that are done after the signal, without heartbeats.
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

// TestToldToGo: whenever a task is told to go, and whatever writes hang from then on, it returns in the time that its
// deadlines give it. It releases its claim before it writes the curve, or writes the result of a model that was trained
// by then. In each case the signal comes with the first write of one kind, and writes of a kind may hang after it.
func TestToldToGo(t *testing.T) {
	// In the bubble only waiting takes time. atOnce allows for short pauses, such as that between two heartbeats.
	// allSteps is when a task ends in which every step meets its deadline.
	const atOnce = 100 * time.Millisecond
	const allSteps = workFor + lookFor + releaseFor + curveFor + atOnce
	for name, tc := range map[string]struct {
		signal, hangs  string
		within         time.Duration
		released, done bool
	}{
		"while it trains":                        {"/checkpoints/", "", atOnce, true, false},
		"while it trains, saving hangs":          {"/checkpoints/", "/checkpoints/", workFor + atOnce, true, false},
		"while it trains, releasing hangs":       {"/checkpoints/", "/releases/", allSteps, false, false},
		"while it trains, everything hangs":      {"/checkpoints/", "/", allSteps, false, false},
		"when it has trained":                    {"/curves/", "", atOnce, false, true},
		"when it has trained, the curve hangs":   {"/curves/", "/curves/", curveFor + atOnce, false, true},
		"when it has trained, its files hang":    {"/curves/", "model.txt", workFor + atOnce, true, false},
		"when it has trained, its result hangs":  {"/curves/", "result.json", workFor + lookFor + atOnce, true, false},
		"while it uploads":                       {"model.txt", "", atOnce, false, true},
		"while it writes the result":             {"result.json", "", atOnce, false, true},
		"while it claims, everything hangs then": {"/claims/", "/", allSteps, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			synctest.Test(t, func(t *testing.T) {
				// Run the task until it returns, and see how long that took after the signal.
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

				// What it has written by then.
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

// TestDamageThatHeals: a trial whose copy of the dataset was found damaged before a checkpoint is trained again,
// although the copy is whole when the trial ends, as after a single bad read of a page: the training saw wrong data.
// The trial is done in the end, and has not failed.
func TestDamageThatHeals(t *testing.T) {
	for range 50 { // on a busy machine a trial may end before its second checkpoint finds the damage
		if damagedAndHealed(t) {
			return
		}
	}
	t.Error("no trial of fifty saw a copy that was damaged and healed")
}

// damagedAndHealed trains a trial whose copy is damaged while its first checkpoint is written, and whole again once the
// next save has found the damage. It reports whether that came about.
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

// stalling is a store whose listings of trials are current when made and then take long to arrive.
func stalling(s blob.Store, wait func() time.Duration) blob.Store {
	return &blobtest.Hooked{Store: s, After: func(ctx context.Context, call blobtest.Call, _ string, err error) error {
		if call == blobtest.List && err == nil {
			return pause(ctx, wait())
		}
		return err
	}}
}
