package bill_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/launcher/internal/bill"
)

var began = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// at is the time so many seconds after the plan.
func at(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }

// world is a sweep on Spot machines of four tasks at 3.60 USD an hour: a task's second costs 0.00025 USD. A machine is
// taken to have started 20 s before its first claim.
type world struct {
	t       testing.TB
	store   blob.Store
	plan    *sweep.Plan
	results map[int]sweep.Result
}

// newWorld writes the plan of a sweep of so many trials on so many machines, without any result.
func newWorld(t testing.TB, trials, vms int) *world {
	spot := true
	p := &sweep.Plan{Sweep: "night-1", Created: began, Takeover: sweep.Duration(90 * time.Second),
		Sizing: sweep.Sizing{MachineType: "n2-highmem-16", VMs: vms, TasksPerVM: 4, Tasks: 4 * vms},
		Quote: &sweep.Quote{Region: "us-central1", Spot: true, Hourly: 3.6, VMs: vms,
			LeadTime: sweep.Range{Expected: 20}, NsPerValue: 2,
			Hours: sweep.Range{Expected: 0.1}, Cost: sweep.Range{Expected: 0.36}}}
	p.Spec.Machine.Spot = &spot
	for i := range trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
	}
	return &world{t: t, store: blob.Memory(), plan: p, results: map[int]sweep.Result{}}
}

// put writes v as JSON, whether the object exists or not.
func (w *world) put(name string, v any) {
	w.t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		_, err = w.store.Put(w.t.Context(), name, blob.Any, bytes.NewReader(data))
	}
	must.Do(w.t, err)
}

// attempt writes the claim of a trial with this number (0 is the trial's first) by a task on a host, at the second
// from, and its last heartbeat, at the second to. Without more, the attempt counts as lost with its machine.
func (w *world) attempt(trial, claim, task int, host string, from, to float64) {
	id := w.plan.Sweep
	w.put(sweep.Names(id).Claim(trial, claim), sweep.Claim{Format: 1, Sweep: id, Trial: trial, Claim: claim, Task: task,
		Attempt: claim, Host: host, At: at(from)})
	w.put(sweep.Names(id).Heartbeat(trial, claim), sweep.Heartbeat{Format: 1, At: at(to), Trees: 50})
}

// done notes the result of the trial: its task ended it under this claim, with status done, at the second ended. u has
// how long it trained and what it resumed, of the 100 trees that each such trial has.
func (w *world) done(trial, claim, task int, ended float64, u sweep.Usage) {
	w.results[trial] = sweep.Result{Sweep: w.plan.Sweep, Trial: trial, Claim: claim, Task: task, Attempt: claim,
		Status: sweep.StatusDone, TreesGrown: 100, Ended: at(ended), Usage: u}
}

// bill reads the ledger at that second, and makes the bill.
func (w *world) bill(now float64) *bill.Bill {
	w.t.Helper()
	l := must.Get((&ledger.Reader{Store: w.store, Plan: w.plan}).Read(w.t.Context(), w.results, at(now)))(w.t)
	return bill.Make(w.plan, &l, w.results)
}

// near reports whether two numbers differ by rounding only.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// TestByHand compares a bill with one made by hand. Trial 0 was done in its only attempt. Trial 1 lost its machine in
// its first, of 100 s, and was done in its second, which resumed 50 of its 100 trees. So half of its 120 s of training
// were not repeated, and 100 - 60 s are lost. Each of three machines is paid for from 20 s before its claim.
func TestByHand(t *testing.T) {
	w := newWorld(t, 3, 2)
	w.attempt(0, 0, 0, "a", 30, 230)
	w.done(0, 0, 0, 230, sweep.Usage{TrainSeconds: 190, NsPerValue: 2.5})
	w.attempt(1, 0, 4, "b", 30, 130)
	w.attempt(1, 1, 4, "c", 200, 280)
	w.done(1, 1, 4, 280, sweep.Usage{TrainSeconds: 120, ResumedTrees: 50, NsPerValue: 3.5})
	b := w.bill(1000)
	// Machines: a from 10 to 230 s, b from 10 to 130, c from 180 to 280, so at most two at once (VMs).
	if !near(b.MachineHours*3600, 220+120+100) || !near(b.Cost, 0.44) || b.VMs != 2 {
		t.Errorf("%v machine-seconds, %v USD, %d machines; want 440, .44 USD and 2", b.MachineHours*3600, b.Cost, b.VMs)
	}
	const second = 0.00025 // a task's: 3.60 USD an hour for a machine of four tasks
	if len(b.Trials) != 2 || !near(b.Trials[0].Cost, 200*second) || !near(b.Trials[1].Cost, 180*second) ||
		b.Trials[1].Attempts != 2 {
		t.Errorf("trials of the bill: got %+v; want 200 s and 180 s paid, the second in two attempts", b.Trials)
	}
	if lost := b.Trials[1].LostSeconds; !near(lost, 100-60) || !near(b.LostCost, 40*second) || b.Interrupted != 1 ||
		!near(b.LostSeconds, 40) {
		t.Errorf("lost %v s, %v USD, %d interrupted; want 40 s, %v USD and 1", lost, b.LostCost, b.Interrupted,
			40*second)
	}
	// Each of the three machines was paid for 20 s before its first claim, at 0.001 USD a second: 0.06. The trials that
	// are done took 200 and 180 s, of which 40 were lost.
	if !near(b.LeadCost, 0.06) || !near(b.UsefulCost, 340*second) || !near(b.IdleCost, 0.44-380*second-0.06) {
		t.Errorf("parts of the bill: got %+v; want lead .06, useful 340 s, and the rest idle", b)
	}
	// The median of two is the upper one, and the mean is that of 190 and 120 s.
	if b.NsPerValue != 3.5 || !near(b.MeanTrial, 155) || b.Model != "on Spot" || b.Hourly != 3.6 {
		t.Errorf("means of the bill: got %+v; want 3.5 ns per value, 155 s per trial, 3.60 USD per hour on Spot", b)
	}
	if len(b.Attempts) != 3 || !near(b.Attempts[1].Cost, 100*second) || b.Attempts[1].End != ledger.Lost {
		t.Errorf("attempts of the bill: got %+v; want three, the second 100 s long and lost", b.Attempts)
	}
}

// TestTrialsWithoutAModel: the time of a cancelled trial (200 s), and of one that was given back when the sweep ended
// (100 s), counts as stopped, not as lost with a machine. The mean time of a trial is that of the one that was done.
func TestTrialsWithoutAModel(t *testing.T) {
	w := newWorld(t, 3, 1)
	w.attempt(0, 0, 0, "a", 30, 130)
	w.done(0, 0, 0, 130, sweep.Usage{TrainSeconds: 90, NsPerValue: 2.5})
	w.attempt(1, 0, 1, "a", 30, 230)
	w.done(1, 0, 1, 230, sweep.Usage{})
	r := w.results[1]
	r.Status = sweep.StatusCancelled
	w.results[1] = r
	w.attempt(2, 0, 2, "a", 30, 130)
	w.put(sweep.Names(w.plan.Sweep).Release(2, 0), struct{}{})
	b := w.bill(1000)
	// Useful is trial 0 with 100 s; the others, 200 and 100 s, have no model.
	if second := 0.00025; !near(b.UsefulCost, 100*second) || !near(b.StoppedCost, 300*second) || b.LostCost != 0 ||
		b.Interrupted != 0 || b.MeanTrial != 90 {
		t.Errorf("a cancelled trial and one given back: got %+v; want 100 s useful, 300 s stopped, nothing lost, "+
			"and a mean of 90 s", b)
	}
}

// addFallback gives the sweep, whose first job has Spot machines of four tasks at 3.60 USD an hour, a second one of as
// many machines of another type, at 7.20 USD, with so many tasks on each.
func (w *world) addFallback(machine string, perVM int) {
	p := w.plan
	p.Job = "projects/p/locations/l/jobs/night-1"
	p.Spec.Machine.Type, p.Spec.Machine.Fallback = p.Sizing.MachineType, []sweep.Fallback{{Type: machine}}
	p.Fallback = []sweep.Sizing{{MachineType: machine, VMs: p.Sizing.VMs, TasksPerVM: perVM,
		Tasks: perVM * p.Sizing.VMs}}
	p.Quote.PriceDate, p.Quote.Fallback = "2026-08-20", []sweep.FallbackPrice{{Hourly: 7.2, PriceDate: "2026-08-01"}}
}

// trialOnEachJob writes a trial done in the sweep's first job, whose machine lived 120 s with its start, and one done
// in its fallback, whose machine lived 220 s.
func (w *world) trialOnEachJob() {
	id := w.plan.Sweep
	w.attempt(0, 0, 0, "a", 30, 130)
	w.done(0, 0, 0, 130, sweep.Usage{TrainSeconds: 90})
	w.put(sweep.Names(id).JobRecord(1), sweep.JobRecord{Format: 1, Sweep: id, Number: 1, Job: w.plan.JobName(1)})
	w.put(sweep.Names(id).Claim(1, 0), sweep.Claim{Format: 1, Sweep: id, Trial: 1, Job: string(id.JobID(1)), Host: "b",
		At: at(500)})
	w.done(1, 0, 0, 700, sweep.Usage{TrainSeconds: 190})
}

// TestAFallbackHasAPriceOfItsOwn: a first job on Spot with four tasks a machine, at 3.60 USD an hour, and a fallback on
// demand with two, at 7.20, are each billed at their own price. The bill's own machine and price are the fallback's,
// the last in use.
func TestAFallbackHasAPriceOfItsOwn(t *testing.T) {
	w := newWorld(t, 2, 1)
	w.addFallback("n2-highmem-8", 2)
	w.plan.Spec.Machine.Fallback[0].Spot = new(bool)
	w.trialOnEachJob()
	b := w.bill(1000)
	// 120 s at 0.1 cents, then 220 s at 0.2 cents; a task's second costs 0.025 and 0.1 cents.
	if !near(b.Cost, 0.12+0.44) || !near(b.LeadCost, 0.02+0.04) || !near(b.Trials[0].Cost, 0.025) ||
		!near(b.Trials[1].Cost, 0.2) {
		t.Errorf("a job on Spot and one on demand: got %+v; want each at its own price", b)
	}
	if len(b.Jobs) != 2 || b.Jobs[0].Model != "on Spot" || b.Jobs[1].Machine != "n2-highmem-8" ||
		b.Jobs[0].PriceDate != "2026-08-20" || b.Jobs[1].PriceDate != "2026-08-01" {
		t.Errorf("got the jobs %+v; want one on Spot and one on n2-highmem-8 on demand, each with the date of its "+
			"prices", b.Jobs)
	}
	if b.Machine != "n2-highmem-8" || b.Model != "on demand" || b.Hourly != 7.2 {
		t.Errorf("the bill is of %s %s at %v USD; want the fallback's n2-highmem-8 on demand at 7.20", b.Machine,
			b.Model, b.Hourly)
	}
}

// TestEveryJobHasItsOwnMachines: the bill has the machines of each job that were alive at once, and that job's type and
// price. Three hosts claim trials of the first job, one claims a trial of its fallback, 370 s later. The bill's own
// number of machines is that of the largest job, three.
func TestEveryJobHasItsOwnMachines(t *testing.T) {
	w := newWorld(t, 4, 3)
	w.addFallback("n2-highmem-32", 4)

	// The first job: trial i on a host of its own, by the first of its four tasks, all at once.
	id := w.plan.Sweep
	for i, host := range []string{"a", "b", "c"} {
		w.attempt(i, 0, 4*i, host, 30, 130)
	}

	// The fallback, job 1: trial 3 on host d.
	w.put(sweep.Names(id).JobRecord(1), sweep.JobRecord{Format: 1, Sweep: id, Number: 1, Job: w.plan.JobName(1)})
	w.put(sweep.Names(id).Claim(3, 0), sweep.Claim{Format: 1, Sweep: id, Trial: 3, Job: string(id.JobID(1)), Host: "d",
		At: at(500)})
	w.done(3, 0, 0, 700, sweep.Usage{TrainSeconds: 190})

	b := w.bill(1000)
	want := []bill.Job{{Machine: "n2-highmem-16", VMs: 3, Model: "on Spot", Hourly: 3.6, PriceDate: "2026-08-20"},
		{Number: 1, Machine: "n2-highmem-32", VMs: 1, Model: "on Spot", Hourly: 7.2, PriceDate: "2026-08-01"}}
	if !slices.Equal(b.Jobs, want) || b.VMs != 3 {
		t.Errorf("%d machines, jobs\n%+v\nwant 3 and\n%+v", b.VMs, b.Jobs, want)
	}
}

// TestAJobWithoutAPrice: if one of two jobs has no price, the bill has the cost of the other, names the one without,
// and marks its trial and attempt. The first job costs 0.12 USD and the second 0.44, as in the test of a fallback's
// price.
func TestAJobWithoutAPrice(t *testing.T) {
	for unpriced := range 2 {
		w := newWorld(t, 2, 1)
		w.addFallback("n2-highmem-8", 2)
		price, want := &w.plan.Quote.Hourly, 0.44
		if unpriced == 1 {
			price, want = &w.plan.Quote.Fallback[0].Hourly, 0.12
		}
		*price = 0
		w.trialOnEachJob()
		b := w.bill(1000)
		jobs, all := b.Unpriced()
		if !near(b.Cost, want) || len(jobs) != 1 || jobs[0] != unpriced || all {
			t.Errorf("job %d has no price: %v USD, no price for %v, all %t; want %v USD, and that job alone", unpriced,
				b.Cost, jobs, all, want)
		}
		for trial := range 2 {
			if b.Trials[trial].Unpriced != (trial == unpriced) || b.Attempts[trial].Unpriced != (trial == unpriced) {
				t.Errorf("job %d has no price: got %+v; want its trial alone to say so", unpriced, b.Trials[trial])
			}
		}
	}
}

// TestWithoutAPrice: a sweep that was planned without a price has machine-hours and no cost. Without a quote nothing is
// known of the time before a claim, so the hours are the attempt's 200 s. A sweep without attempts has neither, and its
// mean is 0 rather than NaN.
func TestWithoutAPrice(t *testing.T) {
	w := newWorld(t, 1, 1)
	w.plan.Quote = nil
	w.attempt(0, 0, 0, "a", 30, 230)
	w.done(0, 0, 0, 230, sweep.Usage{TrainSeconds: 190})
	b := w.bill(1000)
	if b.Cost != 0 || b.Hourly != 0 || !near(b.MachineHours*3600, 200) || b.Trials[0].Seconds != 200 {
		t.Errorf("without a price: got %+v; want hours, and no cost", b)
	}
	empty := newWorld(t, 1, 1).bill(5)
	if empty.Cost != 0 || len(empty.Trials) != 0 || math.IsNaN(empty.MeanTrial) {
		t.Errorf("a sweep without attempts: got %+v; want no cost, no trials, and a mean that is a number", empty)
	}
}

// TestPartsMakeTheWhole: in bills of 200 random sweeps no part of the cost is negative, and the parts add up to the
// cost. Made again, each bill is the same to the last digit. Some attempts overlap, as those of tasks that were taken
// for dead, so that more seconds are used than paid for.
func TestPartsMakeTheWhole(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, 1+r.IntN(10), 1+r.IntN(3))
		for trial := range w.plan.Trials {
			when, claims := r.Float64()*300, 1+r.IntN(4)
			for claim := range claims {
				to := when + r.Float64()*400
				w.attempt(trial, claim, r.IntN(w.plan.Sizing.Tasks), fmt.Sprint("h", r.IntN(5)), when, to)
				when = when + r.Float64()*500 // some come back from the dead
			}
			if r.IntN(3) > 0 {
				w.done(trial, claims-1, 0, when, sweep.Usage{TrainSeconds: r.Float64() * 500,
					ResumedTrees: r.IntN(100)})
			}
		}
		b := w.bill(1500)
		if again := w.bill(1500); !reflect.DeepEqual(again, b) {
			t.Fatalf("seed %d: made again, the bill is\n%+v\nwant it unchanged:\n%+v", seed, again, b)
		}
		sum := b.UsefulCost + b.StoppedCost + b.LostCost + b.LeadCost + b.IdleCost
		if math.Abs(sum-b.Cost) > 1e-9 {
			t.Fatalf("seed %d: the parts add up to %v of %v USD; want all\n%+v", seed, sum, b.Cost, b)
		}
		for name, v := range map[string]float64{"useful": b.UsefulCost, "stopped": b.StoppedCost, "lost": b.LostCost,
			"lead": b.LeadCost, "idle": b.IdleCost} {
			if v < -1e-12 || math.IsNaN(v) {
				t.Fatalf("seed %d: %s is %v; want 0 or more", seed, name, v)
			}
		}
	}
}
