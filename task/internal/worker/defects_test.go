package worker

import (
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestToldToGoJustAfterTheResult: the trial has ended, so its checkpoints are dropped and its end is published although
// the process has to stop.
func TestToldToGoJustAfterTheResult(t *testing.T) {
	for when, told := range map[string]func(blob.Store, string, func()) blob.Store{"before": before, "after": after} {
		w := newWorld(t, 1, nil)
		w.put(t, sweep.Names(w.plan.Sweep).Checkpoint(0, 7)+"0", "an old checkpoint")
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

// TestToldToGoWhileClaiming: the claim is written but its answer never read, because the process has to stop. The claim
// is released all the same: no task waits for its holder, and it does not count as a death of the trial.
func TestToldToGoWhileClaiming(t *testing.T) {
	w := newWorld(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	worker := w.worker(0)
	worker.Sweeps = puts{w.sweeps, func(ctx context.Context, name string,
		put func() (blob.Attrs, error)) (blob.Attrs, error) {
		a, err := put()
		if err == nil && strings.HasSuffix(name, "claims/0") {
			cancel()
			return blob.Attrs{}, ctx.Err()
		}
		return a, err
	}}
	if err := worker.Run(ctx); !problem.Is(err, problem.Transient) {
		t.Fatalf("told to go while claiming: %v; want a transient error", err)
	}
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Release(0, 0)); err != nil {
		t.Errorf("told to go while claiming, and the claim was written: %v; want it released", err)
	}
}

// heedful publishes nothing once the context has ended, as a real broker client would.
type heedful struct{ to Publisher }

func (h heedful) Publish(ctx context.Context, data []byte, attrs map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return h.to.Publish(ctx, data, attrs)
}

// stalling is a store whose listings of trials are current when made and then take long to arrive.
type stalling struct {
	blob.Store
	wait func() time.Duration
}

func (s stalling) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		var all []blob.Attrs
		for a, err := range s.Store.List(ctx, prefix) {
			if err != nil {
				yield(a, err)
				return
			}
			all = append(all, a)
		}
		if err := pause(ctx, s.wait()); err != nil {
			yield(blob.Attrs{}, err)
			return
		}
		for _, a := range all {
			if !yield(a, nil) {
				return
			}
		}
	}
}

// TestAStalledListingDispossessesNobody: the holder beats. A task whose listings are further apart than the takeover
// time has seen no beat, but must not conclude that there was none.
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
				worker.Sweeps = stalling{w.sweeps, func() time.Duration {
					if len(waits) == 0 {
						return 0
					}
					wait := waits[0]
					waits = waits[1:]
					return wait
				}}
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

// TestABeatAfterTheListingIsSeen: the holder is silent for the takeover time and then beats between the listing and the
// claim.
func TestABeatAfterTheListingIsSeen(t *testing.T) {
	w := newWorld(t, 1, nil)
	synctest.Test(t, func(t *testing.T) {
		w.claimed(t, 0, 0, 9, 0)
		start, back := time.Now(), false
		worker := w.worker(0)
		worker.Sweeps = stalling{w.sweeps, func() time.Duration {
			if time.Since(start) >= time.Minute && !back {
				back = true
				w.put(t, sweep.Names(w.plan.Sweep).Heartbeat(0, 0), "{}")
			}
			return 0
		}}
		runs(t, worker)
		if claims := w.claimsOf(t); !back || len(claims) > 1 {
			t.Errorf("the holder came back %t; claims %q, want that of the holder only", back, claims)
		}
	})
}

// TestAFinishedTrialIsNotTrainedAgain: it ends between the listing and the claim, or while a second task trains it.
func TestAFinishedTrialIsNotTrainedAgain(t *testing.T) {
	for _, when := range []string{"/claims/1", "/heartbeats/1"} {
		w := newWorld(t, 1, slow)
		w.plan.Takeover = sweep.Duration(time.Minute)
		done := sweep.Result{Format: 1, Sweep: "test-1", Trial: 0, Claim: 0, Status: sweep.StatusFailed,
			Reason: "by the holder, which lives"}
		w.claimed(t, 0, 0, 0, 0)
		worker := w.worker(0)
		worker.Attempt = 1 // so that the trial is taken at once
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
