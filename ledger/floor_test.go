package ledger_test

import (
	"testing"
	"time"

	"coppice/ledger"
	"coppice/sweep"
)

// TestMachinesWithoutClaimsAreCounted: two machines of two tasks at 3.60 USD an hour each, 10 s before the first claim.
func TestMachinesWithoutClaimsAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		floor ledger.Floor
		write func(*world)
		usd   float64 // at 500 s
	}{
		"nothing was ever claimed":      {ledger.Floor{Submitted: at(0), Began: at(100)}, func(*world) {}, 2 * 410 * 0.001},
		"begun at an unknown time":      {ledger.Floor{Submitted: at(50)}, func(*world) {}, 2 * 450 * 0.001},
		"begun just after its making":   {ledger.Floor{Submitted: at(97), Began: at(100)}, func(*world) {}, 2 * 403 * 0.001},
		"it has ended":                  {ledger.Floor{Submitted: at(0), Began: at(100), Ended: at(200)}, func(*world) {}, 2 * 110 * 0.001},
		"it ends after now, says Batch": {ledger.Floor{Submitted: at(0), Began: at(100), Ended: at(900)}, func(*world) {}, 2 * 410 * 0.001},
		"one of two machines claimed": {ledger.Floor{Submitted: at(0), Began: at(100)}, func(w *world) {
			w.claim(0, 0, 0, 0, "a", 110)
			w.beat(0, 0, 490)
		}, 2 * 410 * 0.001},
		"claims tell of more": {ledger.Floor{Submitted: at(0), Began: at(100), Ended: at(101)}, func(w *world) {
			w.claim(0, 0, 0, 0, "a", 110)
			w.beat(0, 0, 490)
		}, 400 * 0.001},
		"begun in the future": {ledger.Floor{Submitted: at(0), Began: at(900)}, func(*world) {}, 0},
	} {
		w := newWorld(t, 4, 2, 2)
		tc.write(w)
		seen := w.read(500)
		l := seen.AtLeast(w.plan, []ledger.Floor{tc.floor}, at(500))
		if !near(l.Cost, tc.usd) || !near(l.Cost, l.MachineSeconds*0.001) {
			t.Errorf("%s: %v USD, %v machine-seconds, want %v USD", name, l.Cost, l.MachineSeconds, tc.usd)
		}
	}
}

// TestAFloorIsAtItsJobsPrice: a fallback's machines cost what the plan says of them, and there are not more than its tasks fill.
func TestAFloorIsAtItsJobsPrice(t *testing.T) {
	w := newWorld(t, 4, 2, 2)
	w.plan.Fallback = []sweep.Sizing{{VMs: 5, TasksPerVM: 2, Tasks: 5}}
	w.plan.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	w.plan.Quote.Fallback = []sweep.FallbackPrice{{Hourly: 36}}
	seen := w.read(500)
	floors := []ledger.Floor{{Job: 0, Submitted: at(0), Began: at(20), Ended: at(30)}, {Job: 1, Submitted: at(90), Began: at(100)}}
	l := seen.AtLeast(w.plan, floors, at(500))
	if want := 2*20*0.001 + 3*410*0.01; !near(l.Cost, want) {
		t.Errorf("%v USD, want %v", l.Cost, want)
	}
	if w.plan.Quote.LeadTime.Expected != (10 * time.Second).Seconds() {
		t.Error("the sums above are of ten seconds before the first claim")
	}
}
