package conclude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/ledger"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// at considers the sweep that long after it was planned, with an engine, nil for none.
func (w *world) at(t *testing.T, after time.Duration, engine Jobs) *sweep.Conclusion {
	t.Helper()
	a := w.aggregator()
	a.Jobs, w.now = engine, created.Add(after)
	return must.Get(a.Consider(t.Context(), w.plan.Sweep))(t)
}

// several is an engine with a sweep's jobs, by the last part of their names; the second job of j is j-f1. A job that is
// missing is gone.
type several map[string]engine.JobStatus

func (s several) Status(_ context.Context, job string) (engine.JobStatus, error) {
	j, ok := s[job[strings.LastIndexByte(job, '/')+1:]]
	if !ok {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	return j, nil
}

// TestASweepWithSeveralJobs: a sweep's jobs have ended only if none of them runs and no other may follow. Another may
// follow, for the next type of machine, if the newest has got no machine, until 20 minutes after it was recorded: ten
// of machine.wait, and ten for a submission. With two such types (Fallback) a sweep has three jobs at most: j, j-f1 and
// j-f2. The first is recorded with the plan. A job that the engine does not list is gone, but one that was recorded
// less than ten minutes ago may still come.
func TestASweepWithSeveralJobs(t *testing.T) {
	waiting, running := engine.JobStatus{State: engine.Waiting}, engine.JobStatus{State: engine.Running, Began: true}
	// Of these, the last one alone had machines. gaveUp was cancelled while it waited for them.
	gaveUp, failed, broke := engine.JobStatus{State: engine.Cancelled}, engine.JobStatus{State: engine.Failed},
		engine.JobStatus{State: engine.Failed, Began: true}
	for name, c := range map[string]struct {
		records []time.Duration // of jobs 1, 2 ..., after the plan
		jobs    several
		age     time.Duration // since the plan
		want    engine.Phase  // of the newest job; "" while the sweep continues
	}{
		"the first waits":                     {nil, several{"j": waiting}, time.Hour, ""},
		"the first failed, the next may come": {nil, several{"j": failed}, 19 * time.Minute, ""},
		"the first failed, and nobody came":   {nil, several{"j": failed}, 20 * time.Minute, engine.Failed},
		"the first ran and failed":            {nil, several{"j": broke}, time.Second, engine.Failed},
		"the second is not there yet": {[]time.Duration{time.Hour}, several{"j": gaveUp}, time.Hour +
			9*time.Minute, ""},
		"the second was never submitted": {[]time.Duration{time.Hour}, several{"j": gaveUp}, time.Hour +
			20*time.Minute, engine.Gone},
		"the second runs": {[]time.Duration{time.Hour}, several{"j": gaveUp, "j-f1": running},
			5 * time.Hour, ""},
		"the second runs, the first is gone": {[]time.Duration{time.Hour}, several{"j-f1": running}, 5 * time.Hour,
			""},
		"the second ran": {[]time.Duration{time.Hour}, several{"j": gaveUp, "j-f1": broke},
			time.Hour, engine.Failed},
		"the second failed, a third may come": {[]time.Duration{time.Hour}, several{"j": gaveUp, "j-f1": failed},
			time.Hour + 19*time.Minute, ""},
		"the first ran on too few machines, the second failed": {[]time.Duration{time.Hour},
			several{"j": {State: engine.Cancelled, Began: true}, "j-f1": failed},
			time.Hour + 19*time.Minute, ""},
		"the first lives on beside the second": {[]time.Duration{time.Hour}, several{"j": running, "j-f1": broke},
			time.Hour, ""},
		"all have ended": {[]time.Duration{time.Hour, 2 * time.Hour}, several{"j": gaveUp,
			"j-f1": failed, "j-f2": failed}, 2 * time.Hour, engine.Failed},
	} {
		p := &sweep.Plan{Format: 1, Sweep: "j", Job: "projects/p/locations/l/jobs/j", Created: created,
			Fallback: make([]sweep.Sizing, 2)}
		p.Spec.Machine.Wait = sweep.Duration(10 * time.Minute)
		a := &Aggregator{Sweeps: blob.Memory(), Jobs: c.jobs, Now: func() time.Time { return created.Add(c.age) }}
		for i, at := range c.records {
			r := sweep.JobRecord{Format: 1, Sweep: "j", Number: i + 1, Job: p.JobName(i + 1), At: created.Add(at)}
			must.Get(blobtest.CreateJSON(t.Context(), a.Sweeps, sweep.Names(p.Sweep).JobRecord(i+1), r))(t)
		}
		ended, state, err := (&jobHistory{a: a, plan: p}).haveEnded(t.Context())
		if err != nil || ended != (c.want != "") || ended && state != c.want {
			t.Errorf("%s: the jobs have ended: %t, as %q, error %v; want %q, where empty is not ended", name, ended,
				state, err, c.want)
		}
	}
}

// counted counts the requests to an engine, by job.
type counted struct {
	Jobs
	asked map[string]int
}

func (c counted) Status(ctx context.Context, job string) (engine.JobStatus, error) {
	c.asked[job]++
	return c.Jobs.Status(ctx, job)
}

// TestBatchIsAskedOncePerDecision: considering a sweep with a budget and two jobs asks the engine about each job once,
// although both what was spent and whether the jobs have ended depend on it.
func TestBatchIsAskedOncePerDecision(t *testing.T) {
	w := budgeted(t, 1000, 0.5, 2)
	w.plan.Fallback, w.plan.Spec.Machine.Fallback = make([]sweep.Sizing, 2), make([]sweep.Fallback, 2)
	w.plan.Quote.Fallback = make([]sweep.FallbackPrice, 2)
	id := w.plan.Sweep
	w.write(t, sweep.Names(id).Plan(), w.plan)
	w.write(t, sweep.Names(id).JobRecord(1), sweep.JobRecord{Format: 1, Sweep: id, Number: 1, Job: w.plan.JobName(1),
		At: created.Add(time.Minute)})
	a := w.aggregator()
	asked := counted{several{"night-1": {State: engine.Cancelled}, "night-1-f1": {State: engine.Running, Began: true,
		From: created.Add(2 * time.Minute)}}, map[string]int{}}
	a.Jobs, a.Now = asked, func() time.Time { return created.Add(time.Hour) }
	if c, err := a.Consider(t.Context(), id); err != nil || c != nil {
		t.Fatalf("trials are still open: concluded as %+v (error %v); want no conclusion yet", c, err)
	}
	if want := map[string]int{w.plan.JobName(0): 1, w.plan.JobName(1): 1}; !maps.Equal(asked.asked, want) {
		t.Errorf("asked the engine about %v, want %v", asked.asked, want)
	}
}

// TestADamagedJobRecordIsNoEnd: a damaged record of the second job is an error, and does not make the first job's end
// that of all jobs.
func TestADamagedJobRecordIsNoEnd(t *testing.T) {
	p := &sweep.Plan{Format: 1, Sweep: "j", Job: "projects/p/locations/l/jobs/j", Created: created,
		Fallback: make([]sweep.Sizing, 2)}
	a := &Aggregator{Sweeps: blob.Memory(), Jobs: several{"j": {State: engine.Done}},
		Now: func() time.Time { return created }}
	overwrite(t, a.Sweeps, sweep.Names(p.Sweep).JobRecord(1), `{"format":1,"sweep":"k"}`)
	if _, _, err := (&jobHistory{a: a, plan: p}).haveEnded(t.Context()); !problem.Is(err, problem.Damaged) {
		t.Errorf("with a damaged record of job 1: error %v, want one of kind damaged", err)
	}
}

// TestForeignJobsAreIgnored: objects with the names of jobs that the sweep cannot have, damaged ones, do not keep it
// from being concluded when its own job has failed.
func TestForeignJobsAreIgnored(t *testing.T) {
	w := newWorld(t, options{skip: func(i int) bool { return i > 1 }})
	names := sweep.Names(w.plan.Sweep)
	for _, object := range []string{names.JobRecord(999), names.JobRecord(1), names.Jobs() + "01.json",
		names.Jobs() + "1", names.Jobs() + "1.json/2"} {
		overwrite(t, w.sweeps, object, "{")
	}
	if c := w.at(t, time.Hour, several{"night-1": {State: engine.Failed, Began: true}}); c == nil {
		t.Error("a sweep whose job has failed, beside objects with foreign numbers, goes on; want it concluded")
	}
}

// TestPlansOfOtherBuilds: a sweep that was trained while another build was installed is concluded, although its plan
// has a key and a metric that this build does not know. The metric is left out.
func TestPlansOfOtherBuilds(t *testing.T) {
	w := newWorld(t, options{})
	text, _ := json.Marshal(w.plan)
	text = bytes.Replace(text, []byte(`"trials":[{`), []byte(`"trials":[{"absent":["drop_rate"],`), 1)
	text = bytes.Replace(text, []byte(`"metrics":[`), []byte(`"metrics":["metric_of_tomorrow",`), 1)
	overwrite(t, w.sweeps, sweep.Names(w.plan.Sweep).Plan(), string(text))
	if c := w.mustConclude(t); c.Outcome != sweep.OutcomeWinner {
		t.Errorf("a sweep of another build is concluded as %+v, expected a winner", c)
	} else if len(c.Test) != len(w.plan.Metrics) {
		t.Errorf("on test it has %v; want the metrics that are known, %v", c.Test, w.plan.Metrics)
	}
}

// TestTroubleOfTasks: a sweep that ends with its job gives the reason that a task gave. If the tasks refused the plan,
// since their build is another, and began nothing, the sweep does not end with the job: other tasks can still train it.
func TestTroubleOfTasks(t *testing.T) {
	for _, refused := range []bool{false, true} {
		w := newWorld(t, options{skip: func(int) bool { return true }}) // no trial has a result
		trouble := sweep.Trouble{Format: 1, Sweep: w.plan.Sweep, Task: 3, Text: "no space left on device",
			Refused: refused, At: created}
		must.Do(t, w.aggregator().sweep(w.plan.Sweep).Tell(t.Context(), "j", 3, &trouble))
		c := w.at(t, time.Minute, several{"night-1": {State: engine.Failed, Began: true}})
		if refused != (c == nil) {
			t.Fatalf("the tasks refused the plan: %t; concluded as %+v; want a conclusion unless they did", refused, c)
		}
		if !refused {
			contains(t, c.Reason, "when the job had failed (task 3: no space left on device)")
		}
	}
}

// TestALongTroubleKeepsNoSweepOpen: a sweep of which one trial has no result ends with its job, and its reason has what
// a task told at last. That is as long as a trouble may be, 4,096 bytes, and has a character that terminals obey. The
// registry takes neither for a reason; the version is registered and promoted all the same, with a reason that is cut.
func TestALongTroubleKeepsNoSweepOpen(t *testing.T) {
	w := newWorld(t, options{skip: func(i int) bool { return i == 2 }})
	trouble := sweep.Trouble{Format: 1, Sweep: w.plan.Sweep, Task: 3, Text: "\x1b[2J" + strings.Repeat("x", 4092),
		At: created}
	must.Do(t, w.aggregator().sweep(w.plan.Sweep).Tell(t.Context(), "j", 3, &trouble))
	c := w.at(t, time.Hour, several{"night-1": {State: engine.Failed, Began: true}})
	if c == nil || c.Version != 1 || !c.Gate.Promoted {
		t.Fatalf("concluded as %+v; want version 1, promoted", c)
	}
	v := must.Get(registry.New(w.models).Get(t.Context(), "ctr", "1"))(t)
	if why := v.Info.Why; !strings.Contains(why, "(task 3:  [2Jxxx") || !strings.HasSuffix(why, " ...") {
		t.Errorf("the version's reason is %q; want it with the start of the trouble, and cut", why)
	}
}

// TestAnEndSaysWhichMachinesWereMissing: the reason of a sweep that ends at its time limit names what the engine says
// about missing machines, if all or some tasks had none. If all had one, it does not.
func TestAnEndSaysWhichMachinesWereMissing(t *testing.T) {
	const quota = "Quota 'CPUS_ALL_REGIONS' exceeded"
	for want, job := range map[string]engine.JobStatus{
		"time limit (no machine came: " + quota + ")": {State: engine.Waiting, Lacks: quota},
		"time limit (3 tasks had no machine: " + quota + ")": {State: engine.Running, Began: true,
			Tasks: engine.Tasks{Waiting: 3}, Lacks: quota},
		"time limit; 0 trials are done": {State: engine.Running, Began: true, Lacks: quota},
	} {
		w := newWorld(t, options{leaves: []int{2, 3}, skip: func(int) bool { return true }})
		c := w.at(t, 7*time.Hour, several{"night-1": job})
		if c == nil || c.Outcome != sweep.OutcomeNoWinner {
			t.Fatalf("after its limit the sweep ended with %+v; want no winner", c)
		}
		contains(t, c.Reason, want)
	}
}

// budgeted returns a sweep of four trials, of which the first so many are done, on one machine at 3.60 USD an hour: a
// dollar buys 1,000 seconds. All trials were claimed 30 seconds after the plan, and their tasks are alive. As machines
// take 30 seconds to come (LeadTime), they are charged from the plan on.
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

// TestABudgetEndsASweep: a sweep ends when its machines have cost its budget less the reserve for stopping, and says
// so; without a quorum it has no winner, and without a budget it goes on.
func TestABudgetEndsASweep(t *testing.T) {
	w := budgeted(t, 1, 0.5, 2)
	if c := w.at(t, 890*time.Second, nil); c != nil { // 0.89 spent, 0.10 held in reserve
		t.Fatalf("after 890 s: concluded as %+v, want it to continue", c)
	}
	c := w.at(t, 905*time.Second, nil)
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
	if c := few.at(t, 905*time.Second, nil); c == nil || c.Outcome != sweep.OutcomeNoWinner {
		t.Fatalf("two of four trials are done, and the quorum is three: concluded as %+v, want no winner", c)
	}
	none := budgeted(t, 0, 0.5, 2)
	if c := none.at(t, 5*time.Hour, nil); c != nil {
		t.Errorf("a sweep without a budget: concluded as %+v after five hours, want it to continue", c)
	}
}

// TestABudgetCountsMachinesThatClaimNothing: machines whose tasks have claimed no trial cost money, too, of which
// only the engine knows. Here a budget of $2 buys 1,000 seconds of two machines, of which 100 are the reserve.
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
	// Machines are charged from 70 s on: the job runs since 100 s, after a lead time of 30. So this is 2 x 895 s, or
	// $1.79, and $0.20 in reserve.
	if c, err := at(several{"night-1": running}, 965*time.Second); err != nil || c != nil {
		t.Fatalf("after 965 s: concluded as %+v, error %v; want it to continue", c, err)
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
		t.Errorf("one of two machines waits: concluded as %+v, error %v; want only the other to be charged", c, err)
	}
	waiting := engine.JobStatus{State: engine.Waiting}
	if c, err := at(several{"night-1": waiting}, time.Hour); err != nil || c != nil {
		t.Errorf("a job without machines: concluded as %+v, error %v; want nothing to be charged", c, err)
	}
	if c, err := at(several{"night-1": ended}, time.Hour); err != nil || c == nil || !strings.Contains(c.Reason,
		"when the job had failed") {
		t.Errorf("a job that ended long ago: %+v %v; want it concluded, since the job had failed", c, err)
	}
	if _, err := at(jobs{err: errDied}, time.Hour); !errors.Is(err, errDied) {
		t.Errorf("the engine cannot be asked: got error %v, want its own", err)
	}

	// If the claims alone exceed the budget, the engine is not needed.
	spent := budgeted(t, 1, 0.5, 2)
	if c := spent.at(t, 905*time.Second, jobs{err: errDied}); c == nil || c.Outcome != sweep.OutcomeWinner {
		t.Errorf("an engine that does not answer: %+v; want a winner, since the claims say enough", c)
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
	broken := blobtest.Before(w.sweeps, blobtest.List,
		func(context.Context, string) error { return errors.New("no listing today") })
	if c := a.costOfSweep(t.Context(), &known{plan: w.plan, costs: &ledger.Reader{Store: broken, Plan: w.plan}},
		&sweep.Conclusion{Sweep: w.plan.Sweep}); c != nil {
		t.Errorf("the claims cannot be listed, and the cost is %+v; expected none", c)
	}
	if c := a.costOfSweep(t.Context(), &known{}, &sweep.Conclusion{}); c != nil {
		t.Errorf("there is no plan, and the cost is %+v; expected none", c)
	}
}

// clocked is a store that says of an object that is asked for that it was written at planned, and of those that are
// listed that they were written at latest.
type clocked struct {
	blob.Store
	planned, latest time.Time
}

func (c clocked) Stat(ctx context.Context, name string) (blob.Attrs, error) {
	attrs, err := c.Store.Stat(ctx, name)
	attrs.Updated = c.planned
	return attrs, err
}

// List lists the store's objects, all written at latest.
func (c clocked) List(ctx context.Context, prefix string) iter.Seq2[blob.Attrs, error] {
	return func(yield func(blob.Attrs, error) bool) {
		for attrs, err := range c.Store.List(ctx, prefix) {
			attrs.Updated = c.latest
			if !yield(attrs, err) {
				return
			}
		}
	}
}

// TestWrongClocksEndNoSweep: the launcher's clock is 400 s behind, the aggregator's 400 s ahead, and the limit is ten
// minutes. It is enforced by the clock of the store, which stamped all objects.
func TestWrongClocksEndNoSweep(t *testing.T) {
	const limit, wrong = 10 * time.Minute, 400 * time.Second
	for _, tc := range []struct {
		lasted time.Duration
		ends   bool
	}{{time.Minute, false}, {limit - time.Second, false}, {limit, true}} {
		w := newWorld(t, options{leaves: []int{2, 3, 4}, skip: func(i int) bool { return i == 2 },
			change: func(p *sweep.Plan) {
				p.Spec.Limits.Sweep = sweep.Duration(limit)
				p.Created = created.Add(-wrong)
			}})
		w.sweeps = clocked{w.sweeps, created, created.Add(tc.lasted)}
		if c := w.at(t, tc.lasted+wrong, nil); (c != nil) != tc.ends {
			t.Errorf("considered %s after the plan by the store's clock: %+v, want a conclusion %t", tc.lasted, c,
				tc.ends)
		}
	}
}
