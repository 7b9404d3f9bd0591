package worker

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// stopping makes trials of 27 trees with very different learning rates, and stops those behind at 3 and 9 trees.
func stopping(rule string) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		p.Spec.Search.Stop = &sweep.Stop{Rule: rule, By: sweep.ByTrees, Eta: 3, MinTrees: 3, Rungs: []int{3, 9}}
		for i := range p.Trials {
			p.Trials[i].Params["num_iterations"], p.Trials[i].Params["early_stopping_round"] = 27.0, 0.0
			p.Trials[i].Params["num_leaves"], p.Trials[i].Params["learning_rate"] = 8.0, 0.3/float64(1+i)
		}
	}
}

// stopped checks that every trial ended as its rungs say, and that each rung's decision can be reproduced from what it
// records. It returns the numbers of stopped and of done trials.
func (w *world) stopped(t *testing.T, calm bool) (stopped, done int) {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	list := must.Get(trials.List(t.Context()))(t)
	for i := range w.plan.Trials {
		r := w.result(t, i)
		last, paused := w.way(t, trials, i)
		reason := ""
		if last != nil {
			reason = last.Reason
		}
		if paused != nil {
			reason = paused.Reason
		}

		switch {
		case last == nil:
			t.Errorf("trial %d has passed no rung", i)
		case paused != nil && !paused.Promoted:
			stopped++
			if r.Status != sweep.StatusStopped || r.Score != last.Score || r.TreesGrown != last.Step ||
				r.Model != nil || !strings.Contains(r.Reason, reason) {
				t.Errorf("trial %d was stopped at %d trees with %v, and its result is %s with %v after %d trees: %q", i,
					last.Step, last.Score, r.Status, r.Score, r.TreesGrown, r.Reason)
			}
			if curves, err := trials.Curves(t.Context(), list.Trials[i]); calm &&
				(err != nil || len(sweep.JoinCurves(curves)) == 0) {
				t.Errorf("trial %d was stopped and has no curve, error %v", i, err)
			}
		default:
			done++
			if r.Status != sweep.StatusDone || r.TreesGrown != 27 {
				t.Errorf("trial %d goes on from %d trees, and its result is %s after %d trees: %s", i, last.Step,
					r.Status, r.TreesGrown, r.Reason)
			}
		}
		if left, _ := w.checkpointsOf(t, i); len(left) > 0 {
			t.Errorf("trial %d has ended and %d checkpoints are left", i, len(left))
		}
	}
	return stopped, done
}

// way follows a trial from rung to rung. Each decision is made again from what it records. It returns the last rung,
// and what became of the trial there if it was paused.
func (w *world) way(t *testing.T, trials *sweepstore.Trials, trial int) (last *sweep.Rung, paused *sweep.Promotion) {
	t.Helper()
	for _, step := range w.plan.Spec.Search.Stop.Rungs {
		rung := must.Get(trials.Rung(t.Context(), trial, step))(t)
		after := must.Get(trials.Promotion(t.Context(), trial, step))(t)
		if rung == nil {
			if after != nil {
				t.Errorf("trial %d did not come to %d trees, and was paused there: %+v", trial, step, after)
			}
			continue
		}
		if last != nil && paused != nil && !paused.Promoted {
			t.Errorf("trial %d comes to %d trees; want it to end at %d", trial, step, last.Step)
		}

		last, paused = rung, after
		v := search.AtRung(w.plan, sweep.Reached{Step: step, Trial: trial, Score: rung.Score}, rung.Seen)
		if (v.Action == search.Wait) != rung.Pause || v.Reason != rung.Reason {
			t.Errorf("trial %d at %d trees: decided again it is %+v; written down is pause %t because %q", trial, step,
				v, rung.Pause, rung.Reason)
		}
		if rung.Pause != (after != nil) {
			t.Errorf("trial %d at %d trees: paused %t, and what became of it is %+v", trial, step, rung.Pause, after)
		}
		if after == nil {
			continue
		}
		if err := replayPromotion(w.plan, after); err != nil {
			t.Errorf("trial %d at %d trees: %v", trial, step, err)
		}
	}
	return last, paused
}

// TestTrialsBehindAreStopped: one task trains the best trials first, so that later ones are behind.
func TestTrialsBehindAreStopped(t *testing.T) {
	for _, rule := range sweep.StopRules() {
		t.Run(rule, func(t *testing.T) {
			w := newWorld(t, 9, stopping(rule))
			w.run(t, 0)
			stopped, done := w.stopped(t, true)
			t.Logf("%d stopped, %d done", stopped, done)
			if stopped < 2 || done < 1 {
				t.Errorf("%d trials were stopped and %d are done; want some of both", stopped, done)
			}
		})
	}
}

// TestAModelDoesNotDependOnRungs: nor on samples. A trial that continues has the same bytes as without.
func TestAModelDoesNotDependOnRungs(t *testing.T) {
	for name, compared := range map[string]func(*sweep.Plan){"rungs": stopping(sweep.StopASHA), "samples": bySamples} {
		with, without := newWorld(t, 1, compared), newWorld(t, 1, func(p *sweep.Plan) {
			compared(p)
			p.Spec.Search.Stop = nil
		})
		with.run(t, 0)
		without.run(t, 0)
		if a, b := with.model(t, 0), without.model(t, 0); !bytes.Equal(a, b) {
			t.Errorf("a model of %d bytes with %s, of %d without; want the same", len(a), name, len(b))
		}
	}
}

// TestStoppingOverAFoulStore: lost answers, stalls and takeovers, at rungs and by samples.
func TestStoppingOverAFoulStore(t *testing.T) {
	for name, change := range map[string]func(*sweep.Plan){sweep.StopASHA: stopping(sweep.StopASHA),
		sweep.StopHalving: stopping(sweep.StopHalving), "samples": bySamples} {
		total := 0
		for seed := range some(4, 2) {
			w := newWorld(t, 9, change)
			synctest.Test(t, func(t *testing.T) { w.foul(t, seed) })
			stopped, done := w.stopped(t, false) // curves are best effort
			t.Logf("%s, seed %d: %d stopped, %d done", name, seed, stopped, done)
			total += stopped
		}
		if total == 0 {
			t.Errorf("%s: no trial was stopped in any sweep; want some, or nothing was tested", name)
		}
	}
}

// evicted is a store whose machine is told to stop while it writes a rung: its writer learns neither whether the write
// succeeded nor can ask.
type evicted struct {
	blob.Store
	written bool   // the object exists
	tell    func() // sends the machine its notice
	gone    bool
}

func (e *evicted) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	if !strings.Contains(name, "/rungs/") {
		return e.Store.Put(ctx, name, g, r)
	}
	var err error
	if e.written {
		_, err = e.Store.Put(ctx, name, g, r)
	}
	if err == nil {
		e.gone = true
		e.tell()
		err = context.Canceled
	}
	return blob.Attrs{}, err
}

func (e *evicted) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	if e.gone && strings.Contains(name, "/rungs/") {
		return blob.Attrs{}, context.Canceled
	}
	return e.Store.Stat(ctx, name)
}

func (e *evicted) Open(ctx context.Context, name string, r blob.Range) (io.ReadCloser, blob.Attrs, error) {
	if e.gone && strings.Contains(name, "/rungs/") {
		return nil, blob.Attrs{}, context.Canceled
	}
	return e.Store.Open(ctx, name, r)
}

// TestARungIsNotSkipped: a trial whose holder had to stop at a rung reaches it again, and follows the recorded
// decision.
func TestARungIsNotSkipped(t *testing.T) {
	w := newWorld(t, 9, stopping(sweep.StopASHA))
	evictions := 0
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		worker := w.worker(0)
		worker.Attempt, worker.Nonce = attempt, strings.Repeat("n", attempt+1)
		worker.Sweeps = &evicted{Store: w.sweeps, written: attempt%2 == 0, tell: func() { evictions++; cancel() }}
		err := worker.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		if attempt == 50 {
			t.Fatalf("after 50 attempts the sweep has not ended: %v", err)
		}
	}
	if evictions < 9 {
		t.Errorf("%d holders had to go at a rung; want one for every trial at least", evictions)
	}
	if stopped, _ := w.stopped(t, false); stopped == 0 {
		t.Error("no trial was stopped; want some, or nothing was tested")
	}
}
