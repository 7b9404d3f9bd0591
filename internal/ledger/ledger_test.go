package ledger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

var began = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// at returns the time so many seconds after the plan was made.
func at(seconds float64) time.Time { return began.Add(time.Duration(seconds * float64(time.Second))) }

// testSweep is a sweep whose objects a test writes as tasks would. Its methods take times in seconds after the plan.
type testSweep struct {
	t       testing.TB
	store   blob.Store
	plan    *sweep.Plan
	results map[int]sweep.Result
}

// size says how many trials a sweep has, and on how many machines with how many tasks each.
type size struct{ trials, vms, perVM int }

// newTestSweep plans a sweep of this size. A machine costs 3.60 USD an hour, so a machine-second costs 0.1 cents; it
// runs for 10 s before its first claim, and a silent task is taken over after 90 s.
func newTestSweep(t testing.TB, z size) *testSweep {
	p := &sweep.Plan{Sweep: "night-1", Created: began, Takeover: sweep.Duration(90 * time.Second),
		Heartbeat: sweep.Duration(10 * time.Second),
		Sizing:    sweep.Sizing{VMs: z.vms, TasksPerVM: z.perVM, Tasks: z.vms * z.perVM},
		Quote: &sweep.Quote{Hourly: 3.6, VMs: z.vms, LeadTime: sweep.Range{Low: 5, Expected: 10, High: 20},
			Reserve: 60}}
	for i := range z.trials {
		p.Trials = append(p.Trials, sweep.Trial{Number: i})
	}
	return &testSweep{t: t, store: blob.Memory(), plan: p, results: map[int]sweep.Result{}}
}

func (w *testSweep) put(name string, v any) {
	w.t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		_, err = w.store.Put(w.t.Context(), name, blob.Any, bytes.NewReader(data))
	}
	must.Do(w.t, err)
}

// attempt names an attempt at a trial, by numbers that all begin at 0.
type attempt struct {
	trial, claim int // the trial, and which claim of it
	task, number int // the task that works on it, and which attempt of this task
}

// claim writes the claim with which an attempt on a host begins.
func (w *testSweep) claim(a attempt, host string, from float64) {
	w.t.Helper()
	w.put(sweep.Names(w.plan.Sweep).Claim(a.trial, a.claim), sweep.Claim{Format: 1, Sweep: w.plan.Sweep,
		Trial: a.trial, Claim: a.claim, Task: a.task, Attempt: a.number, Host: host, At: at(from)})
}

// beat writes a heartbeat of an attempt, of which only the trial and the claim matter.
func (w *testSweep) beat(a attempt, when float64) {
	w.t.Helper()
	w.put(sweep.Names(w.plan.Sweep).Heartbeat(a.trial, a.claim), sweep.Heartbeat{Format: 1, Trees: 7, At: at(when)})
}

// result sets the result of a trial, which the attempt wrote.
func (w *testSweep) result(a attempt, ended float64) {
	w.results[a.trial] = sweep.Result{Sweep: w.plan.Sweep, Trial: a.trial, Claim: a.claim, Task: a.task,
		Attempt: a.number, Status: sweep.StatusDone, TreesGrown: 100, Ended: at(ended)}
}

// read returns the ledger at a time, with a new Reader.
func (w *testSweep) read(now float64) ledger.Ledger {
	w.t.Helper()
	return must.Get((&ledger.Reader{Store: w.store, Plan: w.plan}).Read(w.t.Context(), w.results, at(now)))(w.t)
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// TestNothingYet checks that a sweep without a claim has no attempts and has cost nothing.
func TestNothingYet(t *testing.T) {
	l := newTestSweep(t, size{trials: 3, vms: 2, perVM: 2}).read(100)
	if l.MachineSeconds != 0 || len(l.Attempts) != 0 {
		t.Errorf("a sweep without a claim: got %+v; want no attempts and no machine time", l)
	}
}

// TestMachinesAreCounted checks machine-seconds: a machine runs from 10 s before the first claim on its host to the
// last sign of life there, and several tasks on it count once. The sweep has two machines of two tasks each, which is
// the most that is ever counted at once. A second costs 0.001 USD.
func TestMachinesAreCounted(t *testing.T) {
	for name, tc := range map[string]struct {
		write   func(*testSweep)
		seconds float64 // of machines
		lead    float64 // of these, before machines' first claims
		at      float64 // when the ledger is read
	}{
		// From 20 s, 10 s before the first claim, to the last result at 130 s. It is read at 500 s.
		"one machine": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.result(attempt{}, 130)
		}, 110, 10, 500},
		"two tasks of a machine": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.result(attempt{}, 130)
			w.claim(attempt{trial: 1, task: 1}, "a", 40)
			w.result(attempt{trial: 1, task: 1}, 100)
		}, 110, 10, 500},
		"two machines": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.result(attempt{}, 130)
			w.claim(attempt{trial: 1, task: 1}, "b", 40)
			w.result(attempt{trial: 1, task: 1}, 100)
		}, 110 + 70, 20, 500}, // b runs from 30 s to 100 s
		// A machine waits between two trials of its task, and is paid for.
		"a pause": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.result(attempt{}, 60)
			w.claim(attempt{trial: 1}, "a", 100)
			w.result(attempt{trial: 1}, 130)
		}, 110, 10, 500},
		// Its last beat is 80 s old, less than the takeover time, so it runs until now: from 20 s to 190 s.
		"still running, seen a while ago": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.beat(attempt{}, 110)
		}, 170, 10, 190},
		// Its last beat is 900 s old: from 20 s to 100 s.
		"silent": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.beat(attempt{}, 100)
		}, 80, 10, 1000},
		// The hosts of both machines have one name, but one machine could not hold four tasks: two machines for 110 s.
		// As the host is one, only one lead is counted.
		"hosts of one name": {func(w *testSweep) {
			for task := range 4 {
				w.claim(attempt{trial: task, task: task}, "localhost", 30)
				w.result(attempt{trial: task, task: task}, 130)
			}
		}, 220, 10, 500},
		// Every task has a host name of its own; there are not more machines than planned, two, for 110 s each.
		"tasks with names of their own": {func(w *testSweep) {
			for task := range 4 {
				w.claim(attempt{trial: task, task: task}, fmt.Sprint("container-", task), 30)
				w.result(attempt{trial: task, task: task}, 130)
			}
		}, 220, 20, 500},
		// The first machine is lost at 100 s; the next attempt of its task begins on another at 160 s.
		"a preemption": {func(w *testSweep) {
			w.claim(attempt{}, "a", 30)
			w.beat(attempt{}, 100)
			w.claim(attempt{claim: 1, number: 1}, "b", 160)
			w.result(attempt{claim: 1, number: 1}, 260)
		}, 80 + 110, 20, 500}, // from 20 s to 100 s, and from 150 s to 260 s
		// Times that cannot be, eleven days off, are taken for the plan's, 0 s, or for now, 500 s: a from 0 s to 500 s,
		// and b from 10 s before its claim at 500 s.
		"times before and after the sweep": {func(w *testSweep) {
			w.claim(attempt{}, "a", -1e6)
			w.beat(attempt{}, 1e6)
			w.claim(attempt{trial: 1, task: 1}, "b", 1e6)
			w.result(attempt{trial: 1, task: 1}, -1e6)
		}, 500 + 10, 10, 500},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestSweep(t, size{trials: 5, vms: 2, perVM: 2})
			tc.write(w)
			l := w.read(tc.at)
			if !near(l.MachineSeconds, tc.seconds) || !near(l.LeadSeconds, tc.lead) || !near(l.Cost, tc.seconds*0.001) {
				t.Errorf("%v machine-seconds (%v before claims), %v USD; want %v, %v and %v\n%+v", l.MachineSeconds,
					l.LeadSeconds, l.Cost, tc.seconds, tc.lead, tc.seconds*0.001, l)
			}
		})
	}
}

// TestAFinalTrainingKeepsItsMachines has a final training by several of four machines, of which one claims the trial.
// The others, which write nothing after their last trials, are paid for until its end: as many as the spec wants, those
// first that lived longest.
func TestAFinalTrainingKeepsItsMachines(t *testing.T) {
	// The machine-seconds of hosts a, b, c and d. The first three run from 0 s to the ends of their trials at 110, 130
	// and 150 s, or to that of the final training at 240 s. d runs the final training, from 150 s.
	for machines, want := range map[int]float64{
		0: 110 + 130 + 150 + 90,
		1: 110 + 130 + 150 + 90, 2: 110 + 130 + 240 + 90, 3: 110 + 240 + 240 + 90, 4: 240 + 240 + 240 + 90,
	} {
		w := newTestSweep(t, size{trials: 4, vms: 4, perVM: 1})
		w.plan.Trials[3].Refit = true
		w.plan.Spec.Final = &sweep.Final{Rows: sweep.FinalAll, Machines: machines}
		for trial, host := range []string{"a", "b", "c"} {
			end := 110 + 20*float64(trial)
			w.claim(attempt{trial: trial, task: trial}, host, 10)
			w.result(attempt{trial: trial, task: trial}, end)
		}
		w.claim(attempt{trial: 3, task: 3}, "d", 160)
		w.result(attempt{trial: 3, task: 3}, 240)
		must.Equal(t, w.read(300).MachineSeconds, want, "machine-seconds of a final training of %d machines", machines)
	}
}

// TestMachinesThatCannotHelpLeave has a final training for two machines that one finished alone. The other is paid for
// while it tried to join and while it was idle, for 90 s each, and not until the end at 1,000 s.
func TestMachinesThatCannotHelpLeave(t *testing.T) {
	// By the number of machines that the result says took part. Host a runs from 0 s. If b finished alone, a leaves at
	// 160 s, when b begins, plus 2 * 90 s, which is 340 s; else at the end, 1,000 s. b runs from 150 s, for 850 s.
	for took, want := range map[int]float64{1: 340 + 850, 2: 1000 + 850} {
		w := newTestSweep(t, size{trials: 2, vms: 2, perVM: 1})
		w.plan.Trials[1].Refit = true
		w.plan.Spec.Final = &sweep.Final{Rows: sweep.FinalAll, Machines: 2}
		w.claim(attempt{}, "a", 10)
		w.result(attempt{}, 110)
		w.claim(attempt{trial: 1, task: 1}, "b", 160)
		w.result(attempt{trial: 1, task: 1}, 1000)
		final := w.results[1]
		final.Usage.Machines = took
		w.results[1] = final
		must.Equal(t, w.read(1100).MachineSeconds, want, "machine-seconds of two machines, of which %d finished", took)
	}
}

// TestHowAttemptsEnd checks each way in which an attempt can end, and how long it took.
func TestHowAttemptsEnd(t *testing.T) {
	w := newTestSweep(t, size{trials: 6, vms: 1, perVM: 4})

	// Trial 0 is finished, and trial 1 released.
	w.claim(attempt{}, "a", 10)
	w.result(attempt{}, 50)
	w.claim(attempt{trial: 1, task: 1}, "a", 10)
	w.put(sweep.Names(w.plan.Sweep).Release(1, 0), struct{}{})

	// Trial 2 is taken over, by an attempt that was alive 50 s ago. The task of trial 3 has been silent since its
	// claim.
	w.claim(attempt{trial: 2, task: 2}, "a", 10)
	w.beat(attempt{trial: 2}, 40)
	w.claim(attempt{trial: 2, claim: 1}, "a", 140)
	w.beat(attempt{trial: 2, claim: 1}, 250)
	w.claim(attempt{trial: 3, task: 3}, "a", 10)

	// Trial 4's task 1 died 10 s after its claim, and task 0 gave the trial up: the result has the dead claim's number,
	// 0, but another task and attempt, so the claim is lost and not finished.
	w.claim(attempt{trial: 4, task: 1, number: 1}, "a", 60)
	w.beat(attempt{trial: 4}, 70)
	w.result(attempt{trial: 4}, 200)

	// Trial 5 waited at a rung, at 9 trees, was resumed and released.
	w.claim(attempt{trial: 5, task: 2}, "a", 10)
	w.beat(attempt{trial: 5}, 20)
	w.put(sweep.Names(w.plan.Sweep).Pause(5, 9), struct{}{})
	w.put(sweep.Names(w.plan.Sweep).Release(5, 0), struct{}{})
	w.claim(attempt{trial: 5, claim: 1, task: 2}, "a", 30)
	w.put(sweep.Names(w.plan.Sweep).Release(5, 1), struct{}{})

	// Each attempt: trial/claim, end, seconds. They last from the claim until the last beat or the result, and a
	// running one until now, 300 s. So trial 2's first claim lasts from 10 s to 40 s, and its second one from 140 s to
	// 300 s.
	l := w.read(300)
	var got []string
	for _, a := range l.Attempts {
		got = append(got, fmt.Sprintf("%d/%d %s %.0f", a.Trial, a.Claim, a.End, a.Seconds()))
	}
	want := []string{"0/0 finished 40", "1/0 released 0", "2/0 lost 30", "2/1 running 160", "3/0 silent 0",
		"4/0 lost 10", "5/0 paused 10", "5/1 released 0"}
	must.Equal(t, fmt.Sprintf("%q", got), fmt.Sprintf("%q", want), "attempts")
}

// TestDamage writes claims and heartbeats that are damaged or name another sweep or trial. They must cost nothing, and
// the claims must be counted as unreadable.
func TestDamage(t *testing.T) {
	w := newTestSweep(t, size{trials: 6, vms: 1, perVM: 4})
	w.claim(attempt{}, "a", 10)
	w.result(attempt{}, 50)
	before := w.read(300)

	// Four claims: of another sweep, a text, of another trial, and too large. Two heartbeats: a list, and without a
	// claim.
	other := sweep.Claim{Format: 1, Sweep: "other", Trial: 1, At: at(1)}
	w.put(sweep.Names(w.plan.Sweep).Claim(1, 0), other)
	w.put(sweep.Names(w.plan.Sweep).Claim(2, 0), "x")
	w.put(sweep.Names(w.plan.Sweep).Claim(3, 7), sweep.Claim{Format: 1, Sweep: w.plan.Sweep, Trial: 4, Claim: 7})
	w.put(sweep.Names(w.plan.Sweep).Heartbeat(0, 0), []int{1})
	w.put(sweep.Names(w.plan.Sweep).Heartbeat(5, 0), sweep.Heartbeat{Format: 1, At: at(200)})
	must.Get(w.store.Put(t.Context(), sweep.Names(w.plan.Sweep).Claim(4, 0), blob.Any,
		bytes.NewReader(make([]byte, 2<<20))))(t)
	after := w.read(300)
	if after.Unreadable != 4 || after.MachineSeconds != before.MachineSeconds || len(after.Attempts) != 1 {
		t.Errorf("with damaged objects: got %+v; want 4 unreadable claims, 1 attempt and %v machine-seconds as before",
			after, before.MachineSeconds)
	}
}

// TestReadsOnlyWhatHasChanged counts the objects that a Reader opens: only those that are new or were written again.
func TestReadsOnlyWhatHasChanged(t *testing.T) {
	w := newTestSweep(t, size{trials: 3, vms: 1, perVM: 4})
	var opened atomic.Int64
	store := blobtest.Before(w.store, blobtest.Open, func(context.Context, string) error {
		opened.Add(1)
		return nil
	})
	r := &ledger.Reader{Store: store, Plan: w.plan}
	// look reads, and checks how many objects that opened.
	look := func(after string, want int64) {
		t.Helper()
		opened.Store(0)
		if _, err := r.Read(t.Context(), w.results, at(100)); err != nil {
			t.Fatalf("reading after %s: %v", after, err)
		}
		must.Equal(t, opened.Load(), want, "objects opened by reading after %s", after)
	}

	w.claim(attempt{}, "a", 10)
	w.beat(attempt{}, 20)
	look("a claim and its beat", 2)
	look("nothing", 0)
	w.beat(attempt{}, 30)
	w.claim(attempt{trial: 1, task: 1}, "a", 10)
	look("another beat and another claim", 2)
	look("nothing", 0)
}

// TestAFailedReadIsRepeated fails to open objects once, and expects the next Read to open them again.
func TestAFailedReadIsRepeated(t *testing.T) {
	w := newTestSweep(t, size{trials: 3, vms: 1, perVM: 4})
	away, opened := errors.New("away"), atomic.Int64{}
	store := blobtest.Before(w.store, blobtest.Open, func(context.Context, string) error {
		opened.Add(1)
		return away
	})
	r := &ledger.Reader{Store: store, Plan: w.plan}
	w.claim(attempt{}, "a", 10)
	w.beat(attempt{}, 20)
	if _, err := r.Read(t.Context(), w.results, at(100)); !errors.Is(err, away) {
		t.Errorf("reading from a store that fails: got error %v, want %v", err, away)
	}

	away = nil
	opened.Store(0)
	must.Get(r.Read(t.Context(), w.results, at(100)))(t)
	must.Equal(t, opened.Load(), 2, "objects opened by reading again: the claim and its heartbeat")
}

// randomSweep makes a sweep with random trials that are claimed, lost and taken over, on up to four hosts.
func randomSweep(t testing.TB, seed uint64) *testSweep {
	r := rand.New(rand.NewPCG(seed, 7))
	w := newTestSweep(t, size{trials: 1 + r.IntN(12), vms: 1 + r.IntN(3), perVM: 1 + r.IntN(3)})
	for trial := range w.plan.Trials {
		when, task := r.Float64()*500, r.IntN(w.plan.Sizing.Tasks)
		claims := 1 + r.IntN(3)
		for claim := range claims {
			a := attempt{trial: trial, claim: claim, task: task, number: claim}
			w.claim(a, fmt.Sprint("host-", r.IntN(4)), when)
			when += r.Float64() * 300
			w.beat(a, when)
			when += r.Float64() * 50
		}
		if r.IntN(4) > 0 {
			w.result(attempt{trial: trial, claim: claims - 1, task: task, number: claims - 1}, when)
		}
	}
	return w
}

// TestCostNeverFalls reads random sweeps every 50 s, with what has been written by then. The cost may fall only by what
// a dead task was taken for alive. The machine time is never more than that of all machines for the whole time, of
// which the lead is a part, and there are never more machines at once than planned.
func TestCostNeverFalls(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	for seed := range uint64(20) {
		w, before := randomSweep(t, seed), 0.0 // before is the highest cost so far
		for now := 0.0; now <= 2000; now += 50 {
			seen := w.until(now) // with the objects that were written by then
			l := seen.read(now)
			cost := l.Cost

			// A task that has died was taken for alive at the last look, for the takeover time at most.
			if forgiven := 90 * 0.001 * float64(w.plan.Sizing.VMs); cost < before-forgiven-1e-9 {
				t.Fatalf("seed %d: %v USD at %v s; want at least %v, as before, less %v for a takeover", seed, cost,
					now, before, forgiven)
			}
			before = max(before, cost)
			if most := now * float64(w.plan.Sizing.VMs); l.MachineSeconds > most+1e-6 ||
				l.LeadSeconds > l.MachineSeconds+1e-6 || l.Machines > w.plan.Sizing.VMs {
				t.Fatalf("seed %d: %+v at %v s; want at most %v machine-seconds, no more of them as lead, and %d "+
					"machines", seed, l, now, most, w.plan.Sizing.VMs)
			}
		}
	}
}

// until returns a copy of the sweep with only the objects and results that were written by a time.
func (w *testSweep) until(now float64) *testSweep {
	out := &testSweep{t: w.t, store: blob.Memory(), plan: w.plan, results: map[int]sweep.Result{}}
	for attrs, err := range w.store.List(w.t.Context(), "") {
		must.Do(w.t, err)
		data, _ := must.Get2(blob.ReadAll(w.t.Context(), w.store, attrs.Name, 1<<20))(w.t)
		var when struct {
			At time.Time `json:"at"`
		}
		must.Do(w.t, json.Unmarshal(data, &when))
		if !when.At.After(at(now)) {
			must.Get(out.store.Put(w.t.Context(), attrs.Name, blob.Any, bytes.NewReader(data)))(w.t)
		}
	}
	for trial, r := range w.results {
		if !r.Ended.After(at(now)) {
			out.results[trial] = r
		}
	}
	return out
}

// TestMoreBudgetNeverFewerTrials stops random sweeps as soon as their cost exceeds a budget, looking every ten seconds.
// A larger budget must never leave fewer finished trials.
func TestMoreBudgetNeverFewerTrials(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	for seed := range uint64(8) {
		w := randomSweep(t, seed)
		before := -1
		for _, budget := range []float64{0.05, 0.1, 0.2, 0.3, 0.5, 1, 3} {
			done := len(w.results) // all, unless the budget stops the sweep
			for now := 0.0; now <= 1500; now += 10 {
				seen := w.until(now) // with the objects and results that were written by then
				if l := seen.read(now); l.Exceeds(w.plan, budget) {
					done = len(seen.results)
					break
				}
			}
			if done < before {
				t.Fatalf("seed %d: %d trials for %v USD; want at least the %d trials of a smaller budget", seed, done,
					budget, before)
			}
			before = done
		}
	}
}

// TestOrderDoesNotMatter reads a random sweep several times, with claims in the random order of a map, and expects the
// same ledger.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(20) {
		w := randomSweep(t, seed)
		want := must.Get(json.Marshal(w.read(900)))(t)
		for range 3 {
			if got, err := json.Marshal(w.read(900)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("seed %d: read again\n%s\nwant\n%s", seed, got, want)
			}
		}
	}
}

// TestMachinesWithoutClaimsAreCounted checks AtLeast for a job of two machines, at 500 s: machines cost from 10 s
// before their first task or claim until the job's end or now, even if they never claimed a trial. A first task at 100
// s thus costs from 90 s on, 410 s for each machine, but nothing before the job's submission.
func TestMachinesWithoutClaimsAreCounted(t *testing.T) {
	usual := ledger.MinimumUsage{Submitted: at(0), Began: at(100)}
	for name, tc := range map[string]struct {
		floor ledger.MinimumUsage
		write func(*testSweep)
		usd   float64 // at 500 s
	}{
		"nothing was ever claimed": {usual, func(*testSweep) {}, 2 * 410 * 0.001},
		// It counts from its submission at 50 s.
		"begun at an unknown time": {ledger.MinimumUsage{Submitted: at(50)}, func(*testSweep) {}, 2 * 450 * 0.001},
		// 10 s before it began would be before its submission, so it counts from that, 97 s.
		"begun 3 s after its submission": {ledger.MinimumUsage{Submitted: at(97), Began: at(100)}, func(*testSweep) {},
			2 * 403 * 0.001},
		// From 90 s to 200 s.
		"it has ended": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Ended: at(200)},
			func(*testSweep) {}, 2 * 110 * 0.001},
		"its end is in the future": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Ended: at(900)},
			func(*testSweep) {}, 2 * 410 * 0.001},
		"one of two machines claimed": {usual, func(w *testSweep) {
			w.claim(attempt{}, "a", 110)
			w.beat(attempt{}, 490)
		}, 2 * 410 * 0.001},
		// Two tasks wait, which is one machine of two tasks.
		"one of two machines has come": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Waiting: 2},
			func(*testSweep) {}, 410 * 0.001},
		// The second counts from 10 s before its claim at 400 s to now, 500 s.
		"the second has come late": {usual, func(w *testSweep) {
			w.claim(attempt{}, "a", 110)
			w.beat(attempt{}, 490)
			w.claim(attempt{trial: 1, task: 2}, "b", 400)
			w.beat(attempt{trial: 1}, 490)
		}, (410 + 110) * 0.001},
		// Batch says that the job ended at 101 s, but its machine was still alive at 490 s, 10 s ago: it runs from 100
		// s to now. By Batch, two machines from 90 s to 101 s would be less.
		"claims tell of more": {ledger.MinimumUsage{Submitted: at(0), Began: at(100), Ended: at(101)},
			func(w *testSweep) {
				w.claim(attempt{}, "a", 110)
				w.beat(attempt{}, 490)
			}, 400 * 0.001},
		"begun in the future": {ledger.MinimumUsage{Submitted: at(0), Began: at(900)}, func(*testSweep) {}, 0},
	} {
		w := newTestSweep(t, size{trials: 4, vms: 2, perVM: 2})
		tc.write(w)
		seen := w.read(500)
		l := seen.AtLeast(w.plan, []ledger.MinimumUsage{tc.floor}, at(500))
		if !near(l.Cost, tc.usd) || !near(l.Cost, l.MachineSeconds*0.001) {
			t.Errorf("%s: %v USD, %v machine-seconds; want %v USD, and 0.001 for each second", name, l.Cost,
				l.MachineSeconds, tc.usd)
		}
	}
}

// TestAFloorIsAtItsJobsPrice checks AtLeast for a fallback job: its machines cost the fallback's price, 36 USD an hour,
// and there are as many as its five tasks need, three of two tasks each, though five are allowed.
func TestAFloorIsAtItsJobsPrice(t *testing.T) {
	w := newTestSweep(t, size{trials: 4, vms: 2, perVM: 2})
	w.plan.Fallback = []sweep.Sizing{{VMs: 5, TasksPerVM: 2, Tasks: 5}}
	w.plan.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	w.plan.Quote.Fallback = []sweep.FallbackPrice{{Hourly: 36}}
	seen := w.read(500)
	least := []ledger.MinimumUsage{{Job: 0, Submitted: at(0), Began: at(20), Ended: at(30)},
		{Job: 1, Submitted: at(90), Began: at(100)}}
	l := seen.AtLeast(w.plan, least, at(500))
	// The first job's two machines run from 10 s to 30 s, and the fallback's three from 90 s to 500 s at 0.01 USD a
	// second.
	if want := 2*20*0.001 + 3*410*0.01; !near(l.Cost, want) {
		t.Errorf("a job and a fallback: %v USD, want %v", l.Cost, want)
	}
	must.Equal(t, w.plan.Quote.LeadTime.Expected, (10 * time.Second).Seconds(), "seconds of the lead time")
}

// TestAForgedEndStopsWithTheSweep has a result and a heartbeat that claim a time of 1e7 s, almost four months after the
// plan. Their machines must count only until now, or until a takeover (90 s) after the sweep's end. The attempt with
// the result is finished all the same, and the other one silent.
func TestAForgedEndStopsWithTheSweep(t *testing.T) {
	w := newTestSweep(t, size{trials: 2, vms: 2, perVM: 1})
	w.claim(attempt{}, "a", 30)
	w.result(attempt{}, 1e7)
	w.claim(attempt{trial: 1, task: 1}, "b", 30)
	w.beat(attempt{trial: 1}, 1e7)
	bill := func(now float64) float64 {
		r := ledger.Reader{Store: w.store, Plan: w.plan, Ended: at(500)}
		l := must.Get(r.Read(t.Context(), w.results, at(now)))(t)
		return l.MachineSeconds
	}
	if got := bill(550); !near(got, 2*530) { // two machines from 20 s, 10 s before their claims, until now, 550 s
		t.Errorf("50 s after the end: %v machine-seconds, want 1,060", got)
	}
	for _, now := range []float64{590, 1000, 1e5, 1e6} {
		if got := bill(now); !near(got, 2*570) { // from 20 s to 590 s: a takeover, 90 s, after the end at 500 s
			t.Errorf("%v s after the plan: %v machine-seconds, want 1,140", now, got)
		}
	}
	r := ledger.Reader{Store: w.store, Plan: w.plan, Ended: at(500)}
	l, err := r.Read(t.Context(), w.results, at(1e6))
	if err != nil || l.Attempts[0].End != ledger.Finished || l.Attempts[1].End != ledger.Silent {
		t.Errorf("read long after the end: got attempts %+v (error %v); want the first finished and the second silent",
			l.Attempts, err)
	}
}

// TestAJobNobodyWroteDownIsNone has a claim that names a fallback job, which is ten times as dear, 0.01 USD a second.
// Its machine, which runs from 20 s to 130 s, must cost what the sweep's own machines do until that job has been
// recorded.
func TestAJobNobodyWroteDownIsNone(t *testing.T) {
	w := newTestSweep(t, size{trials: 4, vms: 1, perVM: 2})
	w.plan.Job = "projects/p/locations/l/jobs/night-1"
	w.plan.Fallback = []sweep.Sizing{{VMs: 5, TasksPerVM: 2, Tasks: 5}}
	w.plan.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-64"}}
	w.plan.Quote.Fallback = []sweep.FallbackPrice{{Hourly: 36}}
	id := w.plan.Sweep
	w.put(sweep.Names(id).Claim(0, 0), sweep.Claim{Format: 1, Sweep: id, Job: string(id.JobID(1)), Host: "a",
		At: at(30)})
	w.beat(attempt{}, 130)
	r := ledger.Reader{Store: w.store, Plan: w.plan}
	cost := func() float64 {
		l, err := r.Read(t.Context(), w.results, at(500))
		if err != nil || len(l.Jobs) != 1 {
			t.Fatalf("a job that was never recorded: got jobs %v (error %v); want one job", l.Jobs, err)
		}
		return l.Cost
	}
	if got := cost(); !near(got, 110*0.001) {
		t.Errorf("%v USD without a record, want 0.11", got)
	}
	w.put(sweep.Names(id).JobRecord(1), sweep.JobRecord{Format: 1, Sweep: id, Number: 1, Job: w.plan.JobName(1)})
	if got := cost(); !near(got, 110*0.01) {
		t.Errorf("%v USD with a record, want 1.10", got)
	}
}
