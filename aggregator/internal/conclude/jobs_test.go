package conclude

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// several are a sweep's jobs by the number at the end of their names; a missing one does not exist.
type several map[string]engine.JobStatus

func (s several) Status(_ context.Context, job string) (engine.JobStatus, error) {
	j, ok := s[job[strings.LastIndexByte(job, '/')+1:]]
	if !ok {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	return j, nil
}

// TestASweepWithSeveralJobs: the first job's end is not the sweep's while other jobs run or may follow.
func TestASweepWithSeveralJobs(t *testing.T) {
	waiting, running := engine.JobStatus{State: engine.Waiting}, engine.JobStatus{State: engine.Running, Began: true}
	given, failed, broke := engine.JobStatus{State: engine.Cancelled}, engine.JobStatus{State: engine.Failed},
		engine.JobStatus{State: engine.Failed, Began: true}
	for name, c := range map[string]struct {
		records []time.Duration // of jobs 1, 2 ..., after the plan
		jobs    several
		age     time.Duration
		want    engine.Phase // "" while the sweep continues
	}{
		"the first waits":                     {nil, several{"j": waiting}, time.Hour, ""},
		"the first failed, the next may come": {nil, several{"j": failed}, 19 * time.Minute, ""},
		"the first failed, and nobody came":   {nil, several{"j": failed}, 20 * time.Minute, engine.Failed},
		"the first ran and failed":            {nil, several{"j": broke}, time.Second, engine.Failed},
		"the second is not there yet": {[]time.Duration{time.Hour}, several{"j": given}, time.Hour +
			9*time.Minute, ""},
		"the second was never submitted": {[]time.Duration{time.Hour}, several{"j": given}, time.Hour +
			20*time.Minute, engine.Gone},
		"the second runs": {[]time.Duration{time.Hour}, several{"j": given, "j-f1": running},
			5 * time.Hour, ""},
		"the second runs, the first is gone": {[]time.Duration{time.Hour}, several{"j-f1": running}, 5 * time.Hour,
			""},
		"the second ran": {[]time.Duration{time.Hour}, several{"j": given, "j-f1": broke},
			time.Hour, engine.Failed},
		"the second failed, a third may come": {[]time.Duration{time.Hour}, several{"j": given, "j-f1": failed},
			time.Hour + 19*time.Minute, ""},
		"the first ran on too few machines, the second failed": {[]time.Duration{time.Hour},
			several{"j": {State: engine.Cancelled, Began: true}, "j-f1": failed},
			time.Hour + 19*time.Minute, ""},
		"the first lives on beside the second": {[]time.Duration{time.Hour}, several{"j": running, "j-f1": broke},
			time.Hour, ""},
		"all have ended": {[]time.Duration{time.Hour, 2 * time.Hour}, several{"j": given,
			"j-f1": failed, "j-f2": failed}, 2 * time.Hour, engine.Failed},
	} {
		p := &sweep.Plan{Format: 1, Sweep: "j", Job: "projects/p/locations/l/jobs/j", Created: created,
			Fallback: make([]sweep.Sizing, 2)}
		p.Spec.Machine.Wait = sweep.Duration(10 * time.Minute)
		a := &Aggregator{Sweeps: blob.Memory(), Jobs: c.jobs, Now: func() time.Time { return created.Add(c.age) }}
		for i, at := range c.records {
			r := sweep.JobRecord{Format: 1, Sweep: "j", Number: i + 1, Job: p.JobName(i + 1), At: created.Add(at)}
			must.Get(blobtest.CreateJSON(t.Context(), a.Sweeps, sweep.Names(p.Sweep).JobRecord(i+1),
				r))(t)
		}
		ended, state, err := (&jobHistory{a: a, plan: p}).haveEnded(t.Context())
		if err != nil || ended != (c.want != "") || ended && state != c.want {
			t.Errorf("%s: the jobs have ended: %t, as %q, error %v; want %q, where empty is not ended", name, ended,
				state, err,
				c.want)
		}
	}
}

// counted counts the requests to Batch.
type counted struct {
	Jobs
	asked map[string]int
}

func (c counted) Status(ctx context.Context, job string) (engine.JobStatus, error) {
	c.asked[job]++
	return c.Jobs.Status(ctx, job)
}

// TestBatchIsAskedOncePerDecision: spending and the jobs' end are judged by the same reading, including for a sweep
// with a budget and several jobs.
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
		t.Errorf("asked %v, want %v", asked.asked, want)
	}
}

func TestADamagedJobRecordIsNoEnd(t *testing.T) {
	p := &sweep.Plan{Format: 1, Sweep: "j", Job: "projects/p/locations/l/jobs/j", Created: created,
		Fallback: make([]sweep.Sizing, 2)}
	a := &Aggregator{Sweeps: blob.Memory(), Jobs: several{"j": {State: engine.Done}},
		Now: func() time.Time { return created }}
	must.Get(a.Sweeps.Put(t.Context(), sweep.Names(p.Sweep).JobRecord(1), blob.Any,
		strings.NewReader(`{"format":1,"sweep":"k"}`)))(t)
	if _, _, err := (&jobHistory{a: a, plan: p}).haveEnded(t.Context()); !problem.Is(err, problem.Damaged) {
		t.Errorf("(&jobHistory{a: a, plan: p}).ended(): got %v; want one of kind damaged", err)
	}
}

// TestForeignJobsAreIgnored: numbers that no job of the sweep can have, readable or not.
func TestForeignJobsAreIgnored(t *testing.T) {
	w := newWorld(t, options{skip: func(i int) bool { return i > 1 }})
	names := sweep.Names(w.plan.Sweep)
	for _, object := range []string{names.JobRecord(999), names.JobRecord(1), names.Jobs() + "01.json",
		names.Jobs() + "1", names.Jobs() + "1.json/2"} {
		must.Get(w.sweeps.Put(t.Context(), object, blob.Any, strings.NewReader("{")))(t)
	}
	a := w.aggregator()
	a.Jobs = several{"night-1": {State: engine.Failed, Began: true}}
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c == nil {
		t.Errorf("a sweep whose job has failed, beside objects with foreign numbers: %+v, error %v; want it concluded",
			c, err)
	}
}

// TestPlansOfOtherBuilds: a sweep that was trained while another build was installed is concluded.
func TestPlansOfOtherBuilds(t *testing.T) {
	w := newWorld(t, options{})
	text, _ := json.Marshal(w.plan)
	text = bytes.Replace(text, []byte(`"trials":[{`), []byte(`"trials":[{"absent":["drop_rate"],`), 1)
	overwrite(t, w.sweeps, sweep.Names(w.plan.Sweep).Plan(), string(text))
	if c := w.mustConclude(t); c.Outcome != sweep.OutcomeWinner {
		t.Errorf("a sweep of another build is concluded as %+v, expected a winner", c)
	}
}

// TestTroubleOfTasks: a sweep that ends with its job says what its tasks said. One whose tasks are of another build
// than its plan, and have begun nothing, does not end with it: another job goes on.
func TestTroubleOfTasks(t *testing.T) {
	for _, refused := range []bool{false, true} {
		w := newWorld(t, options{skip: func(i int) bool { return i < 50 }})
		trouble := sweep.Trouble{Format: 1, Sweep: w.plan.Sweep, Task: 3, Text: "no space left on device",
			Refused: refused, At: created}
		must.Do(t, w.aggregator().sweep(w.plan.Sweep).Tell(t.Context(), "j", 3, &trouble))
		a := w.aggregator()
		a.Jobs = several{"night-1": {State: engine.Failed, Began: true}}
		a.Now = func() time.Time { return created.Add(time.Minute) }
		c, err := a.Consider(t.Context(), w.plan.Sweep)
		if err != nil || refused != (c == nil) {
			t.Fatalf("the tasks refused the plan: %t; concluded as %+v (%v)", refused, c, err)
		}
		if !refused {
			contains(t, c.Reason, "when the job had failed (task 3: no space left on device)")
		}
	}
}

// TestAnEndSaysWhichMachinesWereMissing: it is what people are told of such a night.
func TestAnEndSaysWhichMachinesWereMissing(t *testing.T) {
	const quota = "Quota 'CPUS_ALL_REGIONS' exceeded"
	for want, job := range map[string]engine.JobStatus{
		"time limit (no machine came: " + quota + ")": {State: engine.Waiting, Lacks: quota},
		"time limit (3 tasks had no machine: " + quota + ")": {State: engine.Running, Began: true,
			Tasks: engine.Tasks{Waiting: 3}, Lacks: quota},
		"time limit; 0 trials are done": {State: engine.Running, Began: true, Lacks: quota},
	} {
		w := newWorld(t, options{leaves: []int{2, 3}, skip: func(int) bool { return true }})
		a := w.aggregator()
		a.Jobs, a.Now = several{"night-1": job}, func() time.Time { return created.Add(7 * time.Hour) }
		c, err := a.Consider(t.Context(), w.plan.Sweep)
		if err != nil || c == nil || c.Outcome != sweep.OutcomeNoWinner {
			t.Fatalf("after its limit the sweep ended with %+v, %v; want no winner", c, err)
		}
		contains(t, c.Reason, want)
	}
}
