package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// batch is a Batch whose tasks leave as soon as their sweep is cancelled.
type batch struct {
	*jobs
	plan  *sweep.Plan
	ended map[string]engine.Phase // state of the jobs that have ended; "" while they run
}

func (b *batch) Submit(_ context.Context, p *sweep.Plan) (existed bool, err error) {
	b.plan = p
	if _, existed = b.ended[p.Job]; !existed {
		b.ended[p.Job] = ""
	}
	return existed, nil
}

func (b *batch) Status(ctx context.Context, job string) (engine.JobStatus, error) {
	state, there := b.ended[job]
	if !there {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	cancelled, err := sweepstore.New(b.sweeps, b.plan.Sweep).Cancelled(ctx)
	if err != nil {
		return engine.JobStatus{}, err
	}
	if state == "" && cancelled {
		b.ended[job], state = engine.Done, engine.Done
	}
	if state == "" {
		return engine.JobStatus{State: engine.Running, Began: true}, nil
	}
	return engine.JobStatus{State: state, Began: true}, nil
}

func (b *batch) Cancel(ctx context.Context, job string) (engine.JobStatus, error) {
	if state, there := b.ended[job]; there && state == "" {
		b.ended[job] = engine.Cancelled
	}
	return b.Status(ctx, job)
}

func (b *batch) Delete(_ context.Context, job string) error {
	delete(b.ended, job)
	return nil
}

// switching is a store that lets another program run before an operation of the given number.
type switching struct {
	blob.Store
	left  int
	other func()
}

func (s *switching) step() {
	if s.left--; s.left == 0 {
		s.other()
	}
}

func (s *switching) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	s.step()
	return s.Store.Stat(ctx, name)
}

func (s *switching) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	s.step()
	return s.Store.Open(ctx, name, r)
}

func (s *switching) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	s.step()
	return s.Store.Put(ctx, name, g, r)
}

func (s *switching) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	s.step()
	return s.Store.List(ctx, prefix)
}

// TestTwoPeopleAtOnce lets one of cancel and sweep run at every point of the other, and of itself, on a sweep that runs.
// Whoever cancels succeeds, and no job lives then; a command that starts it attaches, or is told that it was cancelled.
func TestTwoPeopleAtOnce(t *testing.T) {
	start := newWorld(t)
	start.staged()
	file := start.file("sweep.yaml", sweepYAML)
	commands := map[string][]string{"cancel": {"cancel", "x"}, "sweep": {"sweep", file, "--id", "x", "--no-wait"}}
	for first := range commands {
		for second := range commands {
			for at, done := 1, false; !done; at++ {
				w := newWorld(t)
				w.buckets["datasets"] = start.buckets["datasets"]
				cloud := &batch{jobs: w.jobs, ended: map[string]engine.Phase{}}
				w.runner = cloud
				w.must(commands["sweep"]...)
				command := func(name string) (code int, text string) {
					code, out, errOut := w.run(commands[name]...)
					return code, out + errOut
				}

				whole := w.buckets["sweeps"]
				var codes [2]int
				var texts [2]string
				done = true
				w.buckets["sweeps"] = &switching{Store: whole, left: at, other: func() {
					done = false
					w.buckets["sweeps"] = whole
					codes[1], texts[1] = command(second)
				}}
				codes[0], texts[0] = command(first)
				w.buckets["sweeps"] = whole
				if done {
					break // the first has ended before
				}

				what := fmt.Sprintf("%s with %s at its operation %d: exit codes %d", first, second, at, codes)
				for i, name := range []string{first, second} {
					if codes[i] != 0 && (name == "cancel" || codes[i] != sweep.ExitConflict ||
						!strings.Contains(texts[i], "sweep x was cancelled")) {
						t.Errorf("%s; expected success, or for sweep that it was cancelled\n%s", what, texts[i])
					}
				}
				want := "runs"
				if first == "cancel" || second == "cancel" {
					want = "cancelled"
				}
				if got := w.stateOf(t, cloud); got != want {
					t.Errorf("%s: the sweep is %s, expected %s", what, got, want)
				}
			}
		}
	}
}

// stateOf is what has become of the sweep x.
func (w *world) stateOf(t *testing.T, cloud *batch) string {
	t.Helper()
	cancelled := must.Get(sweepstore.New(w.buckets["sweeps"], "x").Cancelled(t.Context()))(t)
	alive := 0
	for name := range cloud.ended {
		status := must.Get(cloud.Status(t.Context(), name))(t)
		if !status.State.Ended() {
			alive++
		}
	}
	switch {
	case cancelled && alive == 0:
		return "cancelled"
	case !cancelled && alive == 1:
		return "runs"
	}
	return fmt.Sprintf("lost: cancelled %t, with %d jobs", cancelled, alive)
}

// TestCancelledTasksLeaveByThemselves: tasks alone may drop what they have saved, so their job is not cancelled while
// they do.
func TestCancelledTasksLeaveByThemselves(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.runner = &batch{jobs: w.jobs, ended: map[string]engine.Phase{}}
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	if out := w.must("cancel", "x"); !strings.Contains(out, "sweep x is cancelled (job done)") {
		t.Errorf("cancelled a sweep whose tasks leave: got %q; want that its job ended by itself", out)
	}
}
