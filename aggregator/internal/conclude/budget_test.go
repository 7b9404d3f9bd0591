package conclude

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// budgeted is a sweep of four trials, two of them done, on one machine at 3.60 USD an hour: a dollar buys 1,000
// seconds. Its tasks claimed trials from the start, and two of them are alive.
func budgeted(t *testing.T, budget, quorum float64, done int) *world {
	t.Helper()
	w := newWorld(t, options{leaves: []int{2, 3, 4, 5}, skip: func(i int) bool { return i >= done },
		change: func(p *sweep.Plan) {
			p.Spec.Budget, p.Spec.Limits.Quorum = budget, quorum
			p.Sizing = sweep.Sizing{VMs: 1, TasksPerVM: 4, Tasks: 4}
			p.Quote = &sweep.Quote{Hourly: 3.6, VMs: 1, LeadTime: sweep.Range{Expected: 30}, Reserve: 100}
		}})
	id := w.plan.Sweep
	for trial := range 4 {
		w.write(t, sweep.Names(id).Claim(trial, 0), sweep.Claim{Format: 1, Sweep: id, Trial: trial, Task: trial,
			Host: "vm", At: created.Add(30 * time.Second)})
		w.write(t, sweep.Names(id).Heartbeat(trial, 0), sweep.Heartbeat{Format: 1, At: created.Add(24 * time.Hour)})
	}
	return w
}

// at considers the sweep that long after it was planned.
func (w *world) at(t *testing.T, after time.Duration) *sweep.Conclusion {
	t.Helper()
	w.now = created.Add(after)
	c := must.Get(w.aggregator().Consider(t.Context(), w.plan.Sweep))(t)
	return c
}

func TestABudgetEndsASweep(t *testing.T) {
	w := budgeted(t, 1, 0.5, 2)
	if c := w.at(t, 890*time.Second); c != nil { // 0.89 spent, 0.10 held in reserve
		t.Fatalf("stopped too early: %+v", c)
	}
	c := w.at(t, 905*time.Second)
	if c == nil || c.Outcome != sweep.OutcomeWinner || c.Done != 2 || c.Version != 1 {
		t.Fatalf("after 905 s the sweep ended as %+v; want version 1, from two trials that are done", c)
	}
	contains(t, c.Reason,
		"2 of 4 trials had not ended when $0.91 of the budget of $1 were spent and $0.10 reserved for stopping")
	if c.Cost == nil || math.Abs(c.Cost.USD-0.905) > 1e-9 || math.Abs(c.Cost.MachineHours-905./3600) > 1e-9 ||
		len(c.Cost.Unpriced) > 0 {
		t.Errorf("concluded when 0.905 USD were spent, with the cost %+v; expected 0.905 USD for 905 s of one machine",
			c.Cost)
	}

	few := budgeted(t, 1, 0.75, 2)
	if c := few.at(t, 905*time.Second); c == nil || c.Outcome != sweep.OutcomeNoWinner {
		t.Fatalf("without a quorum: %+v", c)
	}
	none := budgeted(t, 0, 0.5, 2)
	if c := none.at(t, 5*time.Hour); c != nil {
		t.Errorf("a sweep without a budget was stopped: %+v", c)
	}
}

// TestABudgetCountsMachinesThatClaimNothing: only Batch knows of tasks that fail before their first claim, or wait for
// memory.
func TestABudgetCountsMachinesThatClaimNothing(t *testing.T) {
	running := engine.JobStatus{State: engine.Running, Began: true, From: created.Add(100 * time.Second)}
	ended := running
	ended.State, ended.To = engine.Failed, created.Add(200*time.Second)
	at := func(j Jobs, after time.Duration) (*sweep.Conclusion, error) {
		w := newWorld(t, options{leaves: []int{2, 3}, skip: func(int) bool { return true },
			change: func(p *sweep.Plan) {
				p.Spec.Budget, p.Sizing = 2, sweep.Sizing{VMs: 2, TasksPerVM: 1, Tasks: 2}
				p.Quote = &sweep.Quote{Hourly: 3.6, VMs: 2, LeadTime: sweep.Range{Expected: 30}, Reserve: 100}
			}})
		a := w.aggregator()
		a.Jobs, a.Now = j, func() time.Time { return created.Add(after) }
		return a.Consider(t.Context(), w.plan.Sweep)
	}
	// 2 x 895 s, 0.20 held in reserve
	if c, err := at(several{"night-1": running}, 965*time.Second); err != nil || c != nil {
		t.Fatalf("stopped too early: %+v %v", c, err)
	}
	c, err := at(several{"night-1": running}, 975*time.Second)
	if err != nil || c == nil || c.Outcome != sweep.OutcomeNoWinner {
		t.Fatalf("after 975 s with the job still running: got %+v, %v; want an end without a winner", c, err)
	}
	contains(t, c.Reason,
		"2 of 2 trials had not ended when $1.81 of the budget of $2 were spent and $0.20 reserved for stopping")
	half := running
	half.Tasks.Waiting = 1
	if c, err := at(several{"night-1": half}, 1800*time.Second); err != nil || c != nil { // 1,730 s of one machine
		t.Errorf("one of two machines is charged as both: %+v %v", c, err)
	}
	waiting := engine.JobStatus{State: engine.Waiting}
	if c, err := at(several{"night-1": waiting}, time.Hour); err != nil || c != nil {
		t.Errorf("a job without machines: %+v %v", c, err)
	}
	if c, err := at(several{"night-1": ended}, time.Hour); err != nil || c == nil || !strings.Contains(c.Reason,
		"when the job had failed") {
		t.Errorf("a job that ended long ago: %+v %v", c, err)
	}
	if _, err := at(jobs{err: errDied}, time.Hour); !errors.Is(err, errDied) {
		t.Errorf("Batch cannot be asked: %v", err)
	}
	spent := budgeted(t, 1, 0.5, 2)
	a := spent.aggregator()
	a.Jobs, a.Now = jobs{err: errDied}, func() time.Time { return created.Add(905 * time.Second) }
	if c, err := a.Consider(t.Context(), spent.plan.Sweep); err != nil || c == nil || c.Outcome != sweep.OutcomeWinner {
		t.Errorf("the claims say enough: %+v %v", c, err)
	}
}

// TestABudgetIsOneEnding kills the aggregator between any two writes while it concludes at the budget: the conclusion
// is the same, although more results have come and more money was spent meanwhile.
func TestABudgetIsOneEnding(t *testing.T) {
	calm := budgeted(t, 1, 0.25, 2)
	want := calm.at(t, 905*time.Second)
	for k := int64(1); k <= 2; k++ { // the ending, the conclusion
		w := budgeted(t, 1, 0.25, 2)
		w.now = created.Add(905 * time.Second)
		a := w.aggregator()
		a.Sweeps = dying{w.sweeps, new(atomic.Int64), k, true}
		if _, err := a.Consider(t.Context(), w.plan.Sweep); !errors.Is(err, errDied) {
			t.Fatalf("write %d: %v", k, err)
		}
		w.train(t, 2, nil) // too late to count
		got := w.at(t, 3*time.Hour)
		if got == nil || got.Trial != want.Trial || got.Done != want.Done || got.Reason != want.Reason ||
			!maps.Equal(got.Test, want.Test) {
			t.Fatalf("after write %d:\n%+v\nwant\n%+v", k, got, want)
		}
	}
}

// TestMoreBudgetNeverEarlier considers one sweep with growing budgets: with a larger one, it is stopped later or not at
// all.
func TestMoreBudgetNeverEarlier(t *testing.T) {
	before := time.Duration(0)
	for _, budget := range []float64{0.11, 0.3, 0.9, 1, 1.5, 4} {
		w := budgeted(t, budget, 0.25, 1)
		stopped := 3 * time.Hour
		for after := time.Duration(0); after < 3*time.Hour; after += 2 * time.Minute {
			if c := w.at(t, after); c != nil {
				stopped = after
				break
			}
		}
		if stopped < before {
			t.Errorf("%v USD: stopped after %s, with less after %s", budget, stopped, before)
		}
		spent := stopped.Seconds() / 1000
		if stopped == 3*time.Hour || spent < budget-0.1-0.12 || spent > budget+0.12-0.1+0.01 {
			t.Errorf("%v USD: stopped after %s", budget, stopped)
		}
		before = stopped
	}
}

// TestACostThatCannotBeRead: without prices the conclusion has only the machines' hours, and if the claims cannot be
// listed it has no cost.
func TestACostThatCannotBeRead(t *testing.T) {
	w := newWorld(t, options{})
	w.write(t, sweep.Names(w.plan.Sweep).Claim(0, 0), sweep.Claim{Format: 1, Sweep: w.plan.Sweep, Host: "vm",
		At: created})
	if c := w.mustConclude(t); c.Cost == nil || c.Cost.USD != 0 || len(c.Cost.Unpriced) != 1 {
		t.Errorf("a sweep whose price nobody knows is concluded with the cost %+v, expected none for job 0", c.Cost)
	}

	w = newWorld(t, options{})
	a := w.aggregator()
	if c := a.cost(t.Context(), &known{plan: w.plan, costs: &ledger.Reader{Store: broken{w.sweeps}, Plan: w.plan}},
		&sweep.Conclusion{Sweep: w.plan.Sweep}); c != nil {
		t.Errorf("the claims cannot be listed, and the cost is %+v; expected none", c)
	}
	if c := a.cost(t.Context(), &known{}, &sweep.Conclusion{}); c != nil {
		t.Errorf("there is no plan, and the cost is %+v; expected none", c)
	}
}

// broken is a store whose listings fail.
type broken struct{ blob.Store }

func (broken) List(context.Context, string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) { yield(blob.Attrs{}, errors.New("no listing today")) }
}
