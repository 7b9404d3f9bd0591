package worker

import (
	"strings"
	"sync"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// ended checks that every trial has ended, trained or because the sweep had enough, and that the decision can be
// reproduced. It returns how many were trained.
func (w *world) enough(t *testing.T) (trained int, e *sweep.Enough) {
	t.Helper()
	e, err := sweepstore.New(w.sweeps, w.plan.Sweep).Enough(t.Context())
	if err != nil || e == nil {
		t.Fatalf("why the sweep has enough: got %v, error %v", e, err)
	}
	if err := search.ReplayEnough(w.plan, e); err != nil {
		t.Errorf("made the decision again: %v", err)
	}
	for i := range w.plan.Trials {
		switch r := w.result(t, i); {
		case r.Status == sweep.StatusDone:
			trained++
		case !r.Untrained() || !strings.Contains(r.Reason, e.Reason):
			t.Errorf("trial %d ended %s: %s; want it done, or not trained with the reason %q", i, r.State(), r.Reason,
				e.Reason)
		}
	}
	return trained, e
}

// TestATargetEndsASweep: one task, trials in the plan's order.
func TestATargetEndsASweep(t *testing.T) {
	w := newWorld(t, 6, func(p *sweep.Plan) {
		p.Spec.Limits.Target = new(0.0) // any trial reaches it
	})
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, e := w.enough(t); n != 1 || e.Rule != sweep.RuleTarget || e.Trial != 1 || len(e.Seen) != 1 {
		t.Errorf("%d trials were trained, ended by %+v; want one, and trial 1 to be the first that is not", n, e)
	}
}

// TestPatienceEndsASweepThatLearns: three tasks at once; running trials run to their end.
func TestPatienceEndsASweepThatLearns(t *testing.T) {
	const tasks, patience = 3, 2
	w := newWorld(t, 12, func(p *sweep.Plan) {
		open(sweep.MethodGP, map[string]sweep.Distribution{"seed": {Int: []int64{1, 1000}}})(p) // nothing is better
		p.Trials = p.Trials[:9]
		p.Spec.Limits.Patience = &sweep.Patience{Trials: patience}
	})
	var all sync.WaitGroup
	for task := range tasks {
		all.Go(func() {
			if err := w.worker(task).Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, e := w.enough(t); n < patience+1 || n > patience+1+tasks-1 || e.Rule != sweep.RulePatience {
		t.Errorf("%d trials were trained, ended by %+v; want %d and those that ran then, at most %d", n, e, patience+1,
			tasks-1)
	}
}

// TestAnEndByRuleThatCannotBeRead still ends the sweep: no more trials are started.
func TestAnEndByRuleThatCannotBeRead(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) {
		p.Spec.Limits.Target = new(2.0)
	})
	if _, err := w.sweeps.Put(t.Context(), sweep.Names(w.plan.Sweep).Enough(), blob.Any,
		strings.NewReader("{")); err != nil {
		t.Fatal(err)
	}
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if r := w.result(t, i); !r.Untrained() || !strings.Contains(r.Reason, "cannot be read") {
			t.Errorf("trial %d ended %s: %s; want it not trained", i, r.State(), r.Reason)
		}
	}
}
