package worker

import (
	"context"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestToldToGoJustAfterTheResult: the trial has ended, so its checkpoints are dropped and its end is published although
// the process has to stop.
func TestToldToGoJustAfterTheResult(t *testing.T) {
	for _, before := range []bool{true, false} {
		w := newWorld(t, 1, nil)
		saved := sweep.Names(w.plan.Sweep).Checkpoint(0, 7) + "0"
		if _, err := w.sweeps.Put(t.Context(), saved, blob.Any, strings.NewReader("an old checkpoint")); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		worker := w.worker(0)
		if before { // the result is written
			worker.Sweeps = &hooked{Store: w.sweeps, part: "result.json", do: cancel}
		} else {
			worker.Sweeps = written{w.sweeps, "result.json", cancel}
		}
		worker.Scores = heedful{&w.published}
		if err := worker.Run(ctx); err != nil && ctx.Err() == nil {
			t.Fatalf("the task ended with %v, expected success unless it was told to stop", err)
		}

		if r := w.result(t, 0); r.Status != sweep.StatusDone {
			t.Errorf("told to go just before the result is written %t: %s, want done", before, r.Status)
		}
		if n := len(w.published.messages); n != 1 {
			t.Errorf("told to go just before the result is written %t: %d messages, want 1", before, n)
		}
		if trees, _ := w.checkpointsOf(t, 0); len(trees) != 0 {
			t.Errorf("told to go just before the result is written %t: %d checkpoints are left, want none", before,
				len(trees))
		}
	}
}

// cutOff writes the first object whose name ends in a suffix, and cancels its writer before the answer arrives.
type cutOff struct {
	blob.Store
	suffix string
	cancel context.CancelFunc
}

func (s cutOff) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	attrs, err := s.Store.Put(ctx, name, g, r)
	if err == nil && strings.HasSuffix(name, s.suffix) {
		s.cancel()
		return blob.Attrs{}, ctx.Err()
	}
	return attrs, err
}

// TestToldToGoWhileClaiming: the claim is written but its answer never read, because the process has to stop. The claim
// is released all the same: no task waits for its holder, and it does not count as a death of the trial.
func TestToldToGoWhileClaiming(t *testing.T) {
	w := newWorld(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	worker := w.worker(0)
	worker.Sweeps = cutOff{w.sweeps, "claims/0", cancel}
	if err := worker.Run(ctx); !problem.Is(err, problem.Transient) {
		t.Fatalf("told to go while claiming: %v; want a transient error", err)
	}
	if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Release(0, 0)); err != nil {
		t.Errorf("told to go while claiming, and the claim was written: %v; want it released", err)
	}
}

// written calls a function when an object whose name ends in a suffix has been written.
type written struct {
	blob.Store
	suffix string
	do     func()
}

func (s written) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	attrs, err := s.Store.Put(ctx, name, g, r)
	if err == nil && strings.HasSuffix(name, s.suffix) {
		s.do()
	}
	return attrs, err
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
						h := sweep.Heartbeat{Format: 1, Trees: n}
						if _, err := blobtest.CreateJSON(ctx, beating{w.sweeps},
							sweep.Names(w.plan.Sweep).Heartbeat(0, 0), h); err != nil && ctx.Err() == nil {
							t.Errorf("wrote the heartbeat: error %v, expected none unless the test is over",
								err)
						}
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
				if err := worker.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				stop()
				holder.Wait()
				if claims := w.claimsOf(t); len(claims) != 1 {
					t.Errorf("claims %q; want that of the holder, which lives, and no other", claims)
				}
			})
		})
	}
}

// beating is a store that overwrites what other writers create.
type beating struct{ blob.Store }

func (b beating) Put(ctx context.Context, name string, _ blob.Generation, r io.Reader) (blob.Attrs, error) {
	return b.Store.Put(ctx, name, blob.Any, r)
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
				if _, err := w.sweeps.Put(t.Context(), sweep.Names(w.plan.Sweep).Heartbeat(0, 0), blob.Any,
					strings.NewReader("{}")); err != nil {
					t.Error(err)
				}
			}
			return 0
		}}
		if err := worker.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
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
		worker.Sweeps = &hooked{Store: w.sweeps, part: when, do: func() {
			if _, err := blobtest.CreateJSON(t.Context(), w.sweeps, sweep.Names(w.plan.Sweep).Result(0),
				done); err != nil {
				t.Error(err)
			}
		}}
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
