package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// plan is a sweep with alternatives: Spot in zone a, Spot in zone f, another type, on demand.
func plan() *sweep.Plan {
	yes, no := true, false
	p := &sweep.Plan{Format: 1, Sweep: "nightly-1", Job: "projects/p/locations/l/jobs/nightly-1"}
	p.Spec.Machine = sweep.Machine{Type: "n2-highmem-64", Spot: &yes, VMs: 1, Zones: []string{"us-central1-a"},
		Wait:     sweep.Duration(10 * time.Minute),
		Fallback: []sweep.Fallback{{Zones: []string{"us-central1-f"}}, {Type: "n2d-highmem-64"}, {Spot: &no}}}
	p.Sizing = sweep.Sizing{MachineType: "n2-highmem-64"}
	for i := range p.Spec.Machine.Fallback {
		p.Fallback = append(p.Fallback, sweep.Sizing{MachineType: p.Spec.Machine.Choice(i + 1).Type})
	}
	return p
}

// fakeCloud is an engine whose jobs get machines or not, and a clock that moves four minutes with every look at a job.
// So the ten minutes of plan are over at the third look.
type fakeCloud struct {
	t      *testing.T
	mu     sync.Mutex
	now    time.Time
	jobs   map[string]*engine.JobStatus
	order  []string                    // of creations
	fate   map[string]engine.JobStatus // of jobs, by id; one that is not in it stays Waiting
	store  *blobtest.Hooked
	before func(what string) // called before every call
}

// newCloud returns an engine without jobs; each one that is submitted gets its fate.
func newCloud(t *testing.T, fate map[string]engine.JobStatus) *fakeCloud {
	return &fakeCloud{t: t, now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), jobs: map[string]*engine.JobStatus{},
		fate: fate, store: &blobtest.Hooked{Store: blob.Memory()}}
}

// enter calls c.before and locks the cloud. It returns the function that unlocks it.
func (c *fakeCloud) enter(what string) func() {
	if c.before != nil {
		c.before(what)
	}
	c.mu.Lock()
	return c.mu.Unlock
}

// Submit makes the plan's job, with its fate from the beginning, unless it exists. It notes on what machines in order.
func (c *fakeCloud) Submit(ctx context.Context, p *sweep.Plan) (bool, error) {
	defer c.enter("submit")()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if c.jobs[p.Job] != nil {
		return true, nil
	}
	s := engine.JobStatus{State: engine.Waiting}
	if f, ok := c.fate[p.Job[strings.LastIndexByte(p.Job, '/')+1:]]; ok {
		s = f
	}
	s.Created = c.now
	c.jobs[p.Job] = &s
	// The machines are number 0 of p, since p is the plan as it is for this job (Placed).
	c.order = append(c.order, fmt.Sprintf("%s on %s", p.Job[strings.LastIndexByte(p.Job, '/')+1:], Describe(p, 0)))
	return false, nil
}

// Status returns a job's status, and moves the clock.
func (c *fakeCloud) Status(ctx context.Context, job string) (engine.JobStatus, error) {
	defer c.enter("status")()
	if err := ctx.Err(); err != nil {
		return engine.JobStatus{}, err
	}
	c.now = c.now.Add(4 * time.Minute)
	if s := c.jobs[job]; s != nil {
		return *s, nil
	}
	return engine.JobStatus{State: engine.Gone}, nil
}

// Cancel ends a job at once. One that has ended stays as it is, and one that does not exist is Gone.
func (c *fakeCloud) Cancel(ctx context.Context, job string) (engine.JobStatus, error) {
	defer c.enter("cancel")()
	if err := ctx.Err(); err != nil {
		return engine.JobStatus{}, err
	}
	s := c.jobs[job]
	if s == nil {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	if !s.State.Ended() {
		s.State = engine.Cancelled
	}
	return *s, nil
}

func (c *fakeCloud) Delete(_ context.Context, job string) error {
	defer c.enter("delete")()
	delete(c.jobs, job)
	return nil
}

// clock returns the cloud's time, which the looks at waiting jobs move.
func (c *fakeCloud) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// provisioner returns what submits the jobs of p to this cloud.
func (c *fakeCloud) provisioner(p *sweep.Plan) *Provisioner {
	return &Provisioner{Store: c.store, Jobs: c, Plan: p, Now: c.clock, Every: time.Microsecond}
}

// alive returns the ids of the jobs that have not ended, sorted.
func (c *fakeCloud) alive() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for name, s := range c.jobs {
		if !s.State.Ended() {
			out = append(out, name[strings.LastIndexByte(name, '/')+1:])
		}
	}
	slices.Sort(out)
	return out
}

var (
	running   = engine.JobStatus{State: engine.Running, Began: true}
	exhausted = engine.JobStatus{State: engine.Failed, Lacks: "CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED"}
	broken    = engine.JobStatus{State: engine.Failed, Failure: "task with index 0 failed"}
)

// TestSettle: a job that gets no machines is replaced by the next fallback, and Moved gets the reason. The last job
// waits. A job that has run, or that failed for another reason, is not replaced.
func TestSettle(t *testing.T) {
	all := []string{"nightly-1 on n2-highmem-64, Spot in us-central1-a",
		"nightly-1-f1 on n2-highmem-64, Spot in us-central1-f", "nightly-1-f2 on n2d-highmem-64, Spot in us-central1-a",
		"nightly-1-f3 on n2-highmem-64, on demand in us-central1-a"}
	const waited, lacked = "it was waiting after 10m0s", "RESOURCE_POOL_EXHAUSTED"
	for name, c := range map[string]struct {
		fate    map[string]engine.JobStatus // by job; any other waits without machines
		alive   []string                    // the job that lives in the end, if any
		reasons []string                    // parts of the reasons for which jobs, the first of all, were replaced
	}{
		"machines at once": {map[string]engine.JobStatus{"nightly-1": running}, []string{"nightly-1"}, nil},
		"another zone": {map[string]engine.JobStatus{"nightly-1-f1": running}, []string{"nightly-1-f1"},
			[]string{waited}},
		"failed for want of machines": {map[string]engine.JobStatus{"nightly-1": exhausted, "nightly-1-f1": exhausted,
			"nightly-1-f2": running}, []string{"nightly-1-f2"}, []string{lacked, lacked}},
		"the last one waits": {nil, []string{"nightly-1-f3"}, []string{waited, waited, waited}},
		"broken otherwise":   {map[string]engine.JobStatus{"nightly-1": broken}, nil, nil},
		"it ran, and then failed": {map[string]engine.JobStatus{"nightly-1": {State: engine.Failed, Began: true,
			Lacks: lacked}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCloud(t, c.fate)
			var moved []string
			l := w.provisioner(plan())
			l.Moved = func(_ int, reason string) { moved = append(moved, reason) }
			must.Do(t, l.Settle(t.Context()))
			want := all[:len(c.reasons)+1]
			if !slices.Equal(w.order, want) || !slices.Equal(w.alive(), c.alive) || len(moved) != len(c.reasons) {
				t.Fatalf("ordered %q, alive %q, moved because of %q; want %q, %q and %d moves", w.order, w.alive(),
					moved, want, c.alive, len(c.reasons))
			}
			for i, part := range c.reasons {
				if !strings.Contains(moved[i], part) {
					t.Errorf("move %d is %q; want %q in it", i, moved[i], part)
				}
			}
			look, err := Look(t.Context(), w.store, w, plan())
			if err != nil || len(look.Earlier) != len(moved) || (look.Machines == nil) != look.Finished ||
				!strings.HasSuffix(look.Name, string(plan().Sweep.JobID(len(moved)))) {
				t.Errorf("looked again after %d moves: got %+v (error %v); want as many earlier jobs, the next "+
					"one's name, and its machines unless it has ended", len(moved), look, err)
			}
		})
	}
}

var errCrash = errors.New("crash")

// TestTooFewMachines: a job that has less than half of its machines after the spec's time is replaced by the next,
// which is submitted only after it has ended. A job with half of them continues; so does one with any, if the quota of
// all regions is used up. Here 8 tasks run on 4 machines, two on each. With 5 tasks pending two machines are there, one
// of which has a single task. With 6 there is one, too few; with 7, too, but then the quota is that of all regions.
func TestTooFewMachines(t *testing.T) {
	// want has the job that lives in the end, by the number of tasks that have no machine; nil for the first one.
	for pending, want := range map[int][]string{0: nil, 5: nil, 6: {"nightly-1-f1"}, 7: nil, 8: {"nightly-1-f1"}} {
		few := engine.JobStatus{State: engine.Running, Began: true, Tasks: engine.Tasks{Waiting: pending},
			Lacks: "Quota 'PREEMPTIBLE_CPUS' exceeded"}
		if pending == 7 { // other machines would not come either
			few.Lacks = "Quota 'CPUS_ALL_REGIONS' exceeded"
		}
		w := newCloud(t, map[string]engine.JobStatus{"nightly-1": few, "nightly-1-f1": running})
		p := plan()
		p.Created = w.now
		p.Spec.Limits.Sweep = sweep.Duration(2 * time.Hour)
		p.Sizing = sweep.Sizing{VMs: 4, TasksPerVM: 2, Tasks: 8}

		// The second job must not be submitted while the first lives.
		var moved string
		l := w.provisioner(p)
		l.Moved = func(_ int, reason string) { moved = reason }
		must.Get(l.Submit(t.Context()))(t)
		w.before = func(what string) {
			if alive := w.alive(); what == "submit" && len(w.order) == 1 && len(alive) > 0 && moved != "" {
				t.Errorf("%q live when the next job is submitted, want none", alive)
			}
		}
		must.Do(t, l.Settle(t.Context()))
		w.before = nil
		if want == nil {
			want = []string{"nightly-1"}
		}
		if !slices.Equal(w.alive(), want) {
			t.Errorf("%d of 8 tasks have no machine: %q live, want %q", pending, w.alive(), want)
		}
		if there := (8 - pending + 1) / 2; want[0] != "nightly-1" && there > 0 &&
			moved != fmt.Sprintf("it had %d of 4 machines after 10m0s: %s", there, few.Lacks) {
			t.Errorf("moved because %q; want how many machines it had, and why not more", moved)
		}
	}
}

// TestAPreemptedJobIsLeftAlone: a job that lacks its machine after the spec's time is replaced. After twice that time
// it is not: then it has lost the machine, and the engine brings another.
func TestAPreemptedJobIsLeftAlone(t *testing.T) {
	p := plan()
	p.Spec.Limits.Sweep = sweep.Duration(2 * time.Hour)
	p.Sizing = sweep.Sizing{VMs: 1, TasksPerVM: 1, Tasks: 1}
	lost := engine.JobStatus{State: engine.Running, Began: true, Tasks: engine.Tasks{Waiting: 1},
		Created: time.Unix(1e9, 0)}
	wait := time.Duration(p.Spec.Machine.Wait)
	for after, want := range map[time.Duration]decision{wait: move, 2 * wait: settled} {
		if got, why := decide(p, 0, lost, lost.Created.Add(after)); got != want {
			t.Errorf("%v after it was asked for: %v, %q; want %v", after, got, why, want)
		}
	}
}

// TestWaitingIsTold: while machines are waited for, Waits is called with why they do not come, once for each reason.
// The engine here alternates between two reasons.
func TestWaitingIsTold(t *testing.T) {
	w := newCloud(t, map[string]engine.JobStatus{"nightly-1": {State: engine.Waiting, Lacks: "no room"},
		"nightly-1-f1": running})
	var told []string
	l := w.provisioner(plan())
	l.Waits = func(m *Machines) { told = append(told, m.String()) }
	l.Plan.Spec.Machine.Wait = sweep.Duration(20 * time.Minute) // five looks at the job
	w.before = func(what string) {                              // each time in another zone
		for _, j := range w.jobs {
			if j.State == engine.Waiting && what == "status" {
				j.Lacks = map[bool]string{true: "no room", false: "no quota"}[len(told)%2 == 0]
			}
		}
	}
	if err := l.Settle(t.Context()); err != nil || len(told) != 2 || !strings.Contains(told[0], "no room. From ") {
		t.Errorf("settled with %v, told %q; want once that there is no room, and no quota, and what comes next", err,
			told)
	}
}

// TestMachinesOfAJob: the text for people (the key) says how many machines a job has. If some are missing, it says
// since when, why, and what happens next: another job, the end of the sweep, or training with those that there are.
func TestMachinesOfAJob(t *testing.T) {
	p := plan()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	// The sweep may take two hours from 03:00 on, and protocol.ClocksApart, an hour, is added: it ends about 06:00.
	p.Created, p.Spec.Limits.Sweep = at, sweep.Duration(2*time.Hour)
	for i := range p.Fallback {
		p.Fallback[i].VMs, p.Fallback[i].TasksPerVM, p.Fallback[i].Tasks = 4, 2, 8
	}
	p.Sizing = sweep.Sizing{VMs: 4, TasksPerVM: 2, Tasks: 8}
	quota := "Quota 'CPUS_ALL_REGIONS' exceeded. Limit: 12.0 globally (CODE_GCE_QUOTA_EXCEEDED)"
	for want, c := range map[string]struct {
		job int
		s   engine.JobStatus
	}{
		"0 of 4, asked for 2026-11-21 03:00 UTC: no reason is given yet. From 2026-11-21 03:10 UTC on, the " +
			"launcher replaces them by n2-highmem-64, Spot in us-central1-f": {0, engine.JobStatus{
			State: engine.Waiting}},
		"0 of 4, asked for 2026-11-21 03:00 UTC: " + quota + "; `launcher doctor SWEEP.yaml` says what to ask for. " +
			"They are still asked for; without any, the sweep ends about 2026-11-21 06:00 UTC": {3,
			engine.JobStatus{State: engine.Waiting, Lacks: quota}},
		"1 of 4, asked for 2026-11-21 03:00 UTC: no room. They are still asked for; those that are there train " +
			"meanwhile": {3,
			engine.JobStatus{State: engine.Running, Began: true, Tasks: engine.Tasks{Running: 2, Waiting: 6},
				Lacks: "no room"}},
		"1 of 4, asked for 2026-11-21 03:00 UTC: no room. From 2026-11-21 03:10 UTC to 2026-11-21 03:20 UTC, and not " +
			"later, the launcher replaces them by n2-highmem-64, Spot in us-central1-f": {0,
			engine.JobStatus{State: engine.Running, Began: true, Tasks: engine.Tasks{Running: 2, Waiting: 6},
				Lacks: "no room"}},
		"4 of 4": {0, engine.JobStatus{State: engine.Running, Began: true, Lacks: quota}},
	} {
		c.s.Created = at
		must.Equal(t, describeMachines(p, c.job, c.s).String(), want, "machines")
	}
	want := `"machines":{"running":0,"planned":2,"since":"2026-11-21T03:00:00Z","why":"no room","next":"On"}`
	if text := must.Get(json.Marshal(SweepJob{Machines: &Machines{Planned: 2, Since: at, Why: "no room",
		Next: "On"}}))(t); !strings.Contains(string(text), want) {
		t.Errorf("status --json has %s, want %s in it", text, want)
	}
}

// TestASweepEndsWithAllItsJobs: Look reports that the sweep's job has finished only if the abandoned job before it has,
// too.
func TestASweepEndsWithAllItsJobs(t *testing.T) {
	c, p := newCloud(t, map[string]engine.JobStatus{"nightly-1-f1": running}), plan()
	must.Do(t, c.provisioner(p).Settle(t.Context()))
	for _, states := range [][2]engine.Phase{{engine.Cancelled, engine.Running}, {engine.Running, engine.Done},
		{engine.Cancelled, engine.Done}} {
		c.jobs[p.JobName(0)].State, c.jobs[p.JobName(1)].State = states[0], states[1]
		s := must.Get(Look(t.Context(), c.store, c, p))(t)
		if want := states[0].Ended() && states[1].Ended(); s.Finished != want || len(s.Earlier) != 1 ||
			s.Name != p.JobName(1) {
			t.Errorf("with jobs that are %v: %+v, want the second, and it finished: %t", states, s, want)
		}
	}
}

// TestSettleSurvivesACrashAnywhere interrupts Settle before its first, second, third ... step, a call of the engine or
// a written object, and lets another launcher continue. After each crash the same jobs are ordered as without one, and
// the same one lives.
func TestSettleSurvivesACrashAnywhere(t *testing.T) {
	calm := newCloud(t, map[string]engine.JobStatus{"nightly-1-f2": running})
	must.Do(t, calm.provisioner(plan()).Settle(t.Context()))
	for at := 1; ; at++ {
		w := newCloud(t, calm.fate)
		ctx, crash := context.WithCancelCause(t.Context())
		steps := 0
		step := func(string) {
			if steps++; steps == at {
				crash(errCrash)
			}
		}
		w.before = step
		w.store = blobtest.Before(w.store, blobtest.Put, func(context.Context, string) error {
			step("put")
			return ctx.Err()
		})
		err := w.provisioner(plan()).Settle(ctx)
		if err == nil {
			if at < 10 {
				t.Fatalf("it ended after %d steps, want at least 10", at)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("an interrupted search for machines: got error %v; want context.Canceled", err)
		}
		w.before, w.store.Before = nil, nil
		if err := w.provisioner(plan()).Settle(t.Context()); err != nil {
			t.Fatalf("settling after a crash before step %d: %v, want no error", at, err)
		}
		if !slices.Equal(w.order, calm.order) || !slices.Equal(w.alive(), calm.alive()) {
			t.Errorf("after a crash before step %d: ordered %q, alive %q; want the same as without a "+
				"crash", at, w.order, w.alive())
		}
	}
}

// TestManyLaunchersSettleAlike: three launchers that settle the same sweep at once order each job once, and leave only
// the third, which has machines.
func TestManyLaunchersSettleAlike(t *testing.T) {
	for range 20 {
		w := newCloud(t, map[string]engine.JobStatus{"nightly-1-f2": running})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if err := w.provisioner(plan()).Settle(t.Context()); err != nil {
					t.Errorf("one of three launchers: got error %v, want none", err)
				}
			})
		}
		all.Wait()
		if !slices.Equal(w.alive(), []string{"nightly-1-f2"}) || len(w.order) != 3 {
			t.Errorf("ordered %q, alive %q; want three orders, of which the last lives", w.order, w.alive())
		}
	}
}

// TestCancelledMeanwhile: if the sweep is cancelled before any step of Settle, also just before the next job is
// submitted, no job lives when Settle returns.
func TestCancelledMeanwhile(t *testing.T) {
	for at := 1; ; at++ {
		w := newCloud(t, map[string]engine.JobStatus{"nightly-1-f2": running})
		steps := 0
		w.before = func(string) {
			if steps++; steps != at {
				return
			}
			w.before = nil
			if _, err := w.store.Store.Put(t.Context(), sweep.Names(plan().Sweep).Cancel(), blob.Any,
				strings.NewReader("{}")); err != nil {
				t.Errorf("writing the object that cancels: %v, want no error", err)
			}
			if _, err := Cancel(t.Context(), w.store, w, plan()); err != nil {
				t.Errorf("cancelling: %v, want no error", err)
			}
		}
		must.Do(t, w.provisioner(plan()).Settle(t.Context()))
		if w.before != nil { // it ended before that step
			if at < 10 {
				t.Fatalf("it ended after %d steps, want at least 10", at)
			}
			return
		}
		if alive := w.alive(); len(alive) != 0 {
			t.Errorf("cancelled before step %d: the jobs %q live, want none", at, alive)
		}
	}
}

// TestAnEndedSweepWaitsForNothing: Settle cancels the job of an ended sweep if it waits for machines, which would be
// paid for only to find nothing to do. A job that runs is left to end by itself.
func TestAnEndedSweepWaitsForNothing(t *testing.T) {
	for state, want := range map[engine.Phase]int{engine.Waiting: 0, engine.Running: 1} {
		w, p := newCloud(t, nil), plan()
		w.jobs[p.Job] = &engine.JobStatus{State: state, Created: w.now}
		must.Get(sweepstore.New(w.store, p.Sweep).CreateEnding(t.Context(), sweep.Ending{
			Format: 1, Sweep: p.Sweep, Early: "at its limit", At: w.now}))(t)
		must.Do(t, w.provisioner(p).Settle(t.Context()))
		if alive := w.alive(); len(alive) != want {
			t.Errorf("the sweep has ended, its job was %s: %q live, want %d", state, alive, want)
		}
	}
}

// TestDamagedRecord: the record of a job that is no JSON, or of another sweep, number or job, is an error of kind
// Damaged.
func TestDamagedRecord(t *testing.T) {
	w := newCloud(t, nil)
	for _, text := range []string{"", "{}", `{"format":1,"sweep":"nightly-1","number":2,"job":"x"}`,
		`{"format":1,"sweep":"nightly-1","number":1,"job":"projects/p/locations/l/jobs/other"}`} {
		must.Get(w.store.Put(t.Context(), sweep.Names(plan().Sweep).JobRecord(1), blob.Any, strings.NewReader(text)))(t)
		if err := w.provisioner(plan()).Settle(t.Context()); !problem.Is(err, problem.Damaged) {
			t.Errorf("settled with the record %q: error %v, expected one about the record", text, err)
		}
	}
}

// TestAJobThatTrainsMayFinish: Leave waits for a job with machines to end by itself, even if it was abandoned and got
// its machines after all. The current job, which has none, is not waited for.
func TestAJobThatTrainsMayFinish(t *testing.T) {
	w := newCloud(t, nil)
	l := w.provisioner(plan())
	first := &engine.JobStatus{State: engine.Running, Began: true}
	w.jobs["projects/p/locations/l/jobs/nightly-1"] = first
	must.Do(t, l.record(t.Context(), 1, "no machines"))
	looks := 0
	w.before = func(string) {
		if looks++; looks == 5 {
			first.State = engine.Done
		}
	}
	if err := l.Leave(t.Context(), time.Hour); err != nil || first.State != engine.Done {
		t.Errorf("left with error %v, the job that trained is %s; want it to have ended by itself", err, first.State)
	}
}

// TestARefusedPlanIsStartedAgain: a failed job is deleted and started again if its programs refused the plan as one of
// another version. It is not if it failed otherwise, or if a trial was begun.
func TestARefusedPlanIsStartedAgain(t *testing.T) {
	p := plan()
	p.Trials = []sweep.Trial{{}}
	for _, tc := range []struct {
		refused, begun bool
		orders         int
	}{{true, false, 2}, {false, false, 1}, {true, true, 1}} {
		w := newCloud(t, map[string]engine.JobStatus{"nightly-1": broken})
		l := w.provisioner(p)
		err := sweepstore.New(w.store, p.Sweep).Tell(t.Context(), "nightly-1", 0, &sweep.Trouble{Format: 1,
			Sweep: p.Sweep, Text: "coppice v2 wrote it", Refused: tc.refused, At: w.now})
		if err == nil && tc.begun {
			_, err = sweepstore.NewTrials(w.store, p).CreateClaim(t.Context(), sweep.Claim{Format: 1, Sweep: p.Sweep})
		}
		for range 2 { // the first call starts the job, which fails (newCloud); the second meets it
			if err == nil {
				_, err = l.Submit(t.Context())
			}
		}
		if err != nil || len(w.order) != tc.orders {
			t.Errorf("%+v: started %q, error %v; want %d starts and no error", tc, w.order, err, tc.orders)
		}
	}
}
