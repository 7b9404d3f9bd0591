package ledger_test

import (
	"testing"
	"time"

	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestMachinesWithoutClaimsAreCounted: two machines of two tasks at 3.60 USD an hour each, 10 s before the first claim.
func TestMachinesWithoutClaimsAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		floor ledger.MinimumUsage
		write func(*world)
		usd   float64 // at 500 s
	}{
		"nothing was ever claimed": {ledger.MinimumUsage{Submitted: at(0), Began: at(100)}, func(*world) {},
			2 * 410 * 0.001},
		"begun at an unknown time": {ledger.MinimumUsage{Submitted: at(50)}, func(*world) {}, 2 * 450 * 0.001},
		"begun just after its making": {ledger.MinimumUsage{Submitted: at(97), Began: at(100)}, func(*world) {},
			2 * 403 * 0.001},
		"it has ended": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Ended: at(200)},
			func(*world) {}, 2 * 110 * 0.001},
		"it ends after now, says Batch": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Ended: at(900)},
			func(*world) {}, 2 * 410 * 0.001},
		"one of two machines claimed": {ledger.MinimumUsage{Submitted: at(0), Began: at(100)}, func(w *world) {
			w.claim(0, 0, 0, 0, "a", 110)
			w.beat(0, 0, 490)
		}, 2 * 410 * 0.001},
		"one of two machines has come": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Waiting: 2},
			func(*world) {}, 410 * 0.001},
		"the second has come late": {ledger.MinimumUsage{Submitted: at(0), Began: at(100)}, func(w *world) {
			w.claim(0, 0, 0, 0, "a", 110)
			w.beat(0, 0, 490)
			w.claim(1, 0, 2, 0, "b", 400)
			w.beat(1, 0, 490)
		}, (410 + 110) * 0.001},
		"claims tell of more": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Ended: at(101)}, func(w *world) {
			w.claim(0, 0, 0, 0, "a", 110)
			w.beat(0, 0, 490)
		}, 400 * 0.001},
		"begun in the future": {ledger.MinimumUsage{Submitted: at(0), Began: at(900)}, func(*world) {}, 0},
	} {
		w := newWorld(t, 4, 2, 2)
		tc.write(w)
		seen := w.read(500)
		l := seen.AtLeast(w.plan, []ledger.MinimumUsage{tc.floor}, at(500))
		if !near(l.Cost, tc.usd) || !near(l.Cost, l.MachineSeconds*0.001) {
			t.Errorf("%s: %v USD, %v machine-seconds, want %v USD", name, l.Cost, l.MachineSeconds, tc.usd)
		}
	}
}

// TestAFloorIsAtItsJobsPrice: a fallback's machines cost what the plan says of them, and there are not more than its
// tasks fill.
func TestAFloorIsAtItsJobsPrice(t *testing.T) {
	w := newWorld(t, 4, 2, 2)
	w.plan.Fallback = []sweep.Sizing{{VMs: 5, TasksPerVM: 2, Tasks: 5}}
	w.plan.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	w.plan.Quote.Fallback = []sweep.FallbackPrice{{Hourly: 36}}
	seen := w.read(500)
	least := []ledger.MinimumUsage{{Job: 0, Submitted: at(0), Began: at(20), Ended: at(30)},
		{Job: 1, Submitted: at(90), Began: at(100)}}
	l := seen.AtLeast(w.plan, least, at(500))
	if want := 2*20*0.001 + 3*410*0.01; !near(l.Cost, want) {
		t.Errorf("%v USD, want %v", l.Cost, want)
	}
	if w.plan.Quote.LeadTime.Expected != (10 * time.Second).Seconds() {
		t.Error("the sums above are of ten seconds before the first claim")
	}
}

// TestAForgedEndStopsWithTheSweep: what claims to live on for a year is cut to when the sweep's tasks had stopped,
// whenever one looks.
func TestAForgedEndStopsWithTheSweep(t *testing.T) {
	w := newWorld(t, 2, 2, 1)
	w.claim(0, 0, 0, 0, "a", 30)
	w.result(0, 0, 0, 0, 1e7)
	w.claim(1, 0, 1, 0, "b", 30)
	w.beat(1, 0, 1e7)
	bill := func(now float64) float64 {
		r := ledger.Reader{Store: w.store, Plan: w.plan, Ended: at(500)}
		l := must.Get(r.Read(t.Context(), w.results, at(now)))(t)
		return l.MachineSeconds
	}
	if got := bill(550); !near(got, 2*530) {
		t.Errorf("just after the end: %v machine-seconds", got)
	}
	for _, now := range []float64{590, 1000, 1e5, 1e6} {
		if got := bill(now); !near(got, 2*570) { // from 20 s to the 90 s of a takeover after the end
			t.Errorf("%v s after the plan: %v machine-seconds", now, got)
		}
	}
	r := ledger.Reader{Store: w.store, Plan: w.plan, Ended: at(500)}
	l, err := r.Read(t.Context(), w.results, at(1e6))
	if err != nil || l.Attempts[0].End != ledger.Finished || l.Attempts[1].End != ledger.Silent {
		t.Errorf("read long after the end: got attempts %+v (error %v); want the first finished and the second silent",
			l.Attempts, err)
	}
}

// TestAJobNobodyWroteDownIsNone: a claim that names a dearer fallback costs what the sweep's own machines do, until the
// fallback's turn.
func TestAJobNobodyWroteDownIsNone(t *testing.T) {
	w := newWorld(t, 4, 1, 2)
	w.plan.Job = "projects/p/locations/l/jobs/night-1"
	w.plan.Fallback = []sweep.Sizing{{VMs: 5, TasksPerVM: 2, Tasks: 5}}
	w.plan.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	w.plan.Quote.Fallback = []sweep.FallbackPrice{{Hourly: 36}}
	id := w.plan.Sweep
	w.put(sweep.Names(id).Claim(0, 0), sweep.Claim{Format: 1, Sweep: id, Job: string(id.JobID(1)), Host: "a",
		At: at(30)})
	w.beat(0, 0, 130)
	r := ledger.Reader{Store: w.store, Plan: w.plan}
	cost := func() float64 {
		l, err := r.Read(t.Context(), w.results, at(500))
		if err != nil || len(l.Jobs) != 1 {
			t.Fatalf("a job that was never recorded: got jobs %v (error %v); want one job", l.Jobs, err)
		}
		return l.Cost
	}
	if got := cost(); !near(got, 110*0.001) {
		t.Errorf("%v USD without a record", got)
	}
	w.put(sweep.Names(id).JobRecord(1), sweep.JobRecord{Format: 1, Sweep: id, Number: 1, Job: w.plan.JobName(1)})
	if got := cost(); !near(got, 110*0.01) {
		t.Errorf("%v USD with a record", got)
	}
}
