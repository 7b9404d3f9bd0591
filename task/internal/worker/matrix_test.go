package worker

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// interrupted is a store as seen from a machine that vanishes without notice as soon as it has written so many objects,
// left, whose names contain part. From then on writes fail, and die has been called.
type interrupted struct {
	blob.Store
	part string
	mu   sync.Mutex
	left int
	die  func()
}

// Put writes as long as the machine lives, and lets it vanish after the last object that it may write.
func (s *interrupted) Put(ctx context.Context, name string, cond blob.Generation, r io.Reader) (blob.Attrs, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 {
		return blob.Attrs{}, errGone
	}
	attrs, err := s.Store.Put(ctx, name, cond, r)
	if err == nil && strings.Contains(name, s.part) {
		if s.left--; s.left == 0 {
			s.die()
		}
	}
	return attrs, err
}

// until runs an attempt of task 0 until it has written the nth object, from 1, whose name contains part. Then its
// machine vanishes.
func (w *world) until(t *testing.T, attempt int, part string, nth int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	worker := w.worker(0)
	worker.Attempt = attempt
	worker.Sweeps = &interrupted{Store: w.sweeps, part: part, left: nth, die: cancel}
	if trial, found := strings.CutSuffix(part, "heartbeats/"); found {
		// Heartbeats are written in the background: the trial gets to no rung, and to no end, before.
		vanished := func() { <-ctx.Done() }
		worker.Sweeps = before(before(worker.Sweeps, trial+"rungs/", vanished), trial+"result", vanished)
	}
	if err := worker.Run(ctx); !problem.Is(err, problem.Transient) {
		t.Fatalf("interrupted after writing %s %d times: %v; want a transient error, or it was not interrupted", part,
			nth, err)
	}
}

// write creates an object with the methods that the other programs use.
func (w *world) write(t *testing.T, create func(context.Context, *sweepstore.Sweep) (bool, error)) {
	t.Helper()
	if ok, err := create(t.Context(), sweepstore.New(w.sweeps, w.plan.Sweep)); !ok || err != nil {
		t.Fatalf("prepare: created %t, error %v", ok, err)
	}
}

// comesTo says in words how an attempt of task 0 that returned err ends: "again", "setup" or "ends" for an error, or
// else how many trials are in each state.
func (w *world) comesTo(t *testing.T, err error) string {
	t.Helper()
	switch problem.Of(err) { // as worker.permanent and the exit code have it
	case problem.Transient:
		return "again"
	case problem.Environment:
		return "setup"
	case problem.Damaged, problem.NotFound, problem.Input:
		return "ends"
	}
	if err != nil {
		return err.Error()
	}

	states := map[string]int{}
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	for i := range w.plan.Trials {
		r, damage, err := trials.Result(t.Context(), i)
		switch {
		case err != nil:
			continue // it has none
		case damage != nil:
			states["unreadable"]++
			continue
		case r.Untrained():
			states["untrained"]++
			continue
		}
		states[string(r.Status)]++
	}
	var all []string
	for _, s := range slices.Sorted(maps.Keys(states)) {
		all = append(all, fmt.Sprint(states[s], " ", s))
	}
	return strings.Join(all, ", ")
}

// TestFaultsOfEveryObject: what a task does about an object with which something is wrong for good is what the table of
// internal/sweep/WIRE.md says. A row is a kind of objects, in a sweep whose machine vanished as soon as there was one.
// The columns are the faults: a checksum that never matches, no permission to read, an error of the store, a lost
// second half, and no such object. The next attempt of the task
//
//	ends    fails for good, since no retry would help: the job has failed
//	setup   fails for good, since a permission is missing
//	again   is to be tried again by Batch
//
// or returns without an error, with so many trials in each state.
func TestFaultsOfEveryObject(t *testing.T) {
	t.Parallel()

	// Ways to begin: a sweep of two trials, the same after its task has written an object, another plan after that, and
	// one with an object of another program.
	base := func(t *testing.T) *world { return newWorld(t, 2, quick) }
	after := func(part string, nth int) func(t *testing.T) *world {
		return func(t *testing.T) *world {
			w := base(t)
			w.until(t, 0, part, nth)
			return w
		}
	}
	of := func(trials int, change func(*sweep.Plan), part string, nth int) func(t *testing.T) *world {
		return func(t *testing.T) *world {
			w := newWorld(t, trials, change)
			w.until(t, 0, part, nth)
			return w
		}
	}
	with := func(create func(context.Context, *sweepstore.Sweep) (bool, error)) func(t *testing.T) *world {
		return func(t *testing.T) *world {
			w := base(t)
			w.write(t, create)
			return w
		}
	}
	learns := func(p *sweep.Plan) {
		open(sweep.MethodGP, narrow)(p)
		p.Trials = p.Trials[:3]
	}
	halves := stopping(sweep.StopHalving)
	all := func(want string) [5]string { return [5]string{want, want, want, want, want} }

	for _, row := range []struct {
		kind  string
		match string
		begin func(t *testing.T) *world
		want  [5]string // of blobtest.Faults
	}{
		{"plan", "plans/", base, [5]string{"ends", "setup", "again", "ends", "ends"}},
		{"cancellation", "cancel.json", with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.Cancel(ctx, time.Now())
		}), [5]string{"", "setup", "again", "", "2 done"}},
		{"ending", "ending.json", with(func(ctx context.Context, s *sweepstore.Sweep) (bool, error) {
			return s.CreateEnding(ctx, sweep.Ending{Format: 1, Sweep: "test-1", At: time.Now()})
		}), [5]string{"", "setup", "again", "", "2 done"}},
		{"claim", "claims/0", after("claims/0", 1), all("2 done")},
		{"heartbeat", "heartbeats/0", after("heartbeats/0", 1), all("2 done")},
		{"checkpoint", "checkpoints/", after("checkpoints/", 1), all("2 done")},
		{"release", "releases/", func(t *testing.T) *world {
			w := after("checkpoints/", 1)(t)
			must.Do(t, sweepstore.NewTrials(w.sweeps, w.plan).Release(t.Context(), 0, 0))
			return w
		}, all("2 done")},
		{"curve", "curves/", after("curves/", 1), all("2 done")},
		{"result", "result.json", after("result.json", 1), [5]string{"1 done, 1 unreadable", "1 done", "1 done",
			"1 done, 1 unreadable", "2 done"}},
		{"model of a trial", "model.txt", after("result.json", 1), all("2 done")},
		{"decision", "decision.json", of(3, learns, "decision.json", 1), [5]string{"2 done, 1 failed", "setup", "again",
			"2 done, 1 failed", "3 done"}},
		{"configuration", "configurations/", of(3, learns, "configurations/", 1),
			[5]string{"3 done", "setup", "again", "3 done", "3 done"}},
		{"model continued", "model.txt", of(10, population, "decision.json", 6),
			[5]string{"5 done, 5 failed", "setup", "again", "5 done, 5 failed", "5 done, 5 failed"}},
		{"rung", "rungs/", of(3, halves, "rungs/", 2), [5]string{"1 done, 2 stopped", "setup", "again",
			"1 done, 2 stopped", "1 done, 2 stopped"}},
		{"pause", "pauses/", of(3, halves, "pauses/", 1), all("1 done, 2 stopped")},
		{"promotion", "promotions/", of(3, halves, "promotions/", 1), [5]string{"1 done, 2 stopped", "setup", "again",
			"1 done, 2 stopped", "1 done, 2 stopped"}},
		{"manifest", "manifest.json", base, [5]string{"ends", "setup", "again", "ends", "ends"}},
		{"dataset", "train/", base, [5]string{"ends", "setup", "again", "ends", "ends"}},
	} {
		t.Run(row.kind, func(t *testing.T) {
			t.Parallel()
			begin := row.begin(t)
			for i, fault := range blobtest.Faults {
				synctest.Test(t, func(t *testing.T) {
					// Both buckets have the fault in every object of the kind; one has such objects.
					w := &world{datasets: begin.datasets, sweeps: begin.sweeps, scratch: t.TempDir(), plan: begin.plan}
					struck := 0
					for _, s := range []*blob.Store{&w.datasets, &w.sweeps} {
						bad := must.Get(blobtest.NewFaulty(t.Context(), *s, fault, func(name string) bool {
							return strings.Contains(name, row.match)
						}))(t)
						*s, struck = bad, struck+bad.Struck()
					}
					if struck == 0 {
						t.Fatalf("%s: there is no such object", row.kind)
					}
					worker := w.worker(0)
					worker.Attempt = 1
					err := worker.Run(t.Context())
					if got := w.comesTo(t, err); got != row.want[i] {
						t.Errorf("%s, %s: %q (error %v); want %q", row.kind, fault, got, err, row.want[i])
					}
				})
			}
		})
	}
}

// quick makes trials of four trees, the first of which is saved at once.
func quick(p *sweep.Plan) {
	for i := range p.Trials {
		p.Trials[i].Params["num_iterations"] = 4.0
	}
}
