package cli

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/provision"
)

// batch is a Batch whose tasks leave as soon as their sweep is paused or cancelled.
type batch struct {
	*jobs
	plan  *sweep.Plan
	ended map[string]string // state of the jobs that have ended; "" while they run
}

func (b *batch) Submit(_ context.Context, p *sweep.Plan) (existed bool, err error) {
	b.plan = p
	if _, existed = b.ended[p.Job]; !existed {
		b.ended[p.Job] = ""
	}
	return existed, nil
}

func (b *batch) Status(ctx context.Context, job string) (provision.JobStatus, error) {
	state, there := b.ended[job]
	if !there {
		return provision.JobStatus{State: "NOT_FOUND", Finished: true}, nil
	}
	s := sweepstore.New(b.sweeps, b.plan.Sweep)
	turn := b.plan.Turn(b.plan.JobNumber(job[strings.LastIndexByte(job, '/')+1:]))
	halted, err := s.HasHalt(ctx, turn+1)
	if err != nil {
		return provision.JobStatus{}, err
	}
	cancelled, err := s.Cancelled(ctx)
	if err != nil {
		return provision.JobStatus{}, err
	}
	if state == "" && (halted || cancelled) {
		b.ended[job], state = "SUCCEEDED", "SUCCEEDED"
	}
	if state == "" {
		return provision.JobStatus{State: "RUNNING", Began: true}, nil
	}
	return provision.JobStatus{State: state, Finished: true, Began: true}, nil
}

func (b *batch) Cancel(ctx context.Context, job string) (provision.JobStatus, error) {
	if state, there := b.ended[job]; there && state == "" {
		b.ended[job] = "CANCELLED"
	}
	return b.Status(ctx, job)
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

// TestTwoPeopleAtOnce lets one of pause, resume and cancel run at every point of another, on a sweep that runs and on
// one that is paused. Whoever wins: one of the two commands succeeds, and the sweep is as that one left it; the other
// is told why not, if it does not succeed. A sweep that runs has a job with tasks, one that was cancelled has none, and
// one that is paused can be resumed.
func TestTwoPeopleAtOnce(t *testing.T) {
	start := newWorld(t)
	start.staged()
	file := start.file("sweep.yaml", sweepYAML)
	for _, before := range [][]string{{}, {"pause"}} {
		for _, first := range []string{"pause", "resume", "cancel"} {
			for _, second := range []string{"pause", "resume", "cancel"} {
				for at, done := 1, false; !done; at++ {
					w := newWorld(t)
					w.buckets["datasets"] = start.buckets["datasets"]
					cloud := &batch{jobs: w.jobs, ended: map[string]string{}}
					w.runner = cloud
					w.must("sweep", file, "--id", "x", "--no-wait")
					for _, command := range before {
						w.must(command, "x")
					}
					command := func(name string) (code int, text string) {
						args := []string{name, "x"}
						if name == "resume" {
							args = append(args, "--no-wait")
						}
						code, out, errOut := w.run(args...)
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

					what := fmt.Sprintf("after %q, %s with %s at its operation %d: exit codes %d", before, first,
						second,
						at, codes)
					won := w.stateOf(t, cloud)
					for i, name := range []string{first, second} {
						if codes[i] != 0 && codes[i] != sweep.ExitConflict {
							t.Errorf("%s; want success or a conflict\n%s", what, texts[i])
						}
						if codes[i] != 0 && !strings.Contains(texts[i], "sweep x") {
							t.Errorf("%s: %s is told %q; want what has become of the sweep", what, name, texts[i])
						}
					}
					succeeded := func(name string) bool {
						return codes[0] == 0 && first == name || codes[1] == 0 && second == name
					}
					by := map[string]string{"runs": "resume", "paused": "pause", "cancelled": "cancel"}[won]
					same := won == "runs" && len(before) == 0 || won == "paused" && len(before) > 0
					nothing := len(before) == 0 && first == "resume" && second == "resume"
					if !succeeded(by) && !same || !succeeded(first) && !succeeded(second) && !nothing {
						t.Errorf("%s: the sweep is %s, and no %s has succeeded\n%s\n%s", what, won, by, texts[0],
							texts[1])
					}
					if won == "paused" {
						w.must("resume", "x", "--no-wait")
						if again := w.stateOf(t, cloud); again != "runs" {
							t.Errorf("%s; resumed afterwards, the sweep is %s", what, again)
						}
					}
				}
			}
		}
	}
}

// stateOf is what has become of the sweep x.
func (w *world) stateOf(t *testing.T, cloud *batch) string {
	t.Helper()
	s := sweepstore.New(w.buckets["sweeps"], "x")
	cancelled, err := s.Cancelled(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	course, err := s.Course(t.Context(), w.plan("x"))
	if err != nil {
		t.Fatal(err)
	}
	alive := 0
	for name := range cloud.ended {
		status, err := cloud.Status(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !status.Finished {
			alive++
		}
	}
	_, halted := course.Halted()
	switch {
	case alive > 0 && (cancelled || halted) || alive > 1:
		return fmt.Sprintf("cancelled %t, paused %t, with %d jobs", cancelled, halted, alive)
	case cancelled:
		return "cancelled"
	case halted:
		return "paused"
	case alive == 0:
		return "lost: neither paused nor cancelled, without a job"
	}
	return "runs"
}

// TestCancelledTasksLeaveByThemselves: tasks alone may drop what they have saved, so their job is not cancelled while
// they do.
func TestCancelledTasksLeaveByThemselves(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.runner = &batch{jobs: w.jobs, ended: map[string]string{}}
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	if out := w.must("cancel", "x"); !strings.Contains(out, "sweep x is cancelled (job SUCCEEDED)") {
		t.Errorf("cancelled a sweep whose tasks leave: got %q; want that its job ended by itself", out)
	}
}
