package conclude

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestAPausedSweepWaits: neither its jobs' end nor its time limit ends a sweep that is paused. When it goes on, both do
// as if it had not been paused.
func TestAPausedSweepWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		// its limit is six hours
		w := newWorld(t, options{skip: func(i int) bool { return i > 1 },
			change: func(p *sweep.Plan) { p.Created = begun }})
		store := sweepstore.New(w.sweeps, w.plan.Sweep)
		gone := JobState{Name: "SUCCEEDED", Ended: true, Began: true}
		jobs := several{"night-1": {Name: "RUNNING", Began: true}}
		a := w.aggregator()
		a.Jobs, a.Now = jobs, time.Now
		still := func(what string) {
			t.Helper()
			if c, err := a.Consider(t.Context(), w.plan.Sweep); c != nil || err != nil {
				t.Fatalf("a sweep %s: concluded as %+v, error %v; want it to continue", what, c, err)
			}
		}

		still("that has just begun")
		<-time.After(4 * time.Hour) // by the bubble's clock
		still("of four hours")
		if _, err := store.CreateHalt(t.Context(), 1, time.Now()); err != nil {
			t.Fatal(err)
		}
		jobs["night-1"] = gone
		still("whose tasks have left")
		<-time.After(30 * 24 * time.Hour) // by the bubble's clock
		still("that has been paused for thirty days")

		r := sweep.JobRecord{Format: 1, Sweep: "night-1", Number: 1, Job: w.plan.JobName(1),
			Reason: "the sweep was paused", At: time.Now()}
		if _, err := store.CreateJob(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		still("whose next job is recorded, and not yet submitted")
		jobs["night-1-f1"] = JobState{Name: "RUNNING", Began: true}
		<-time.After(time.Hour) // by the bubble's clock
		still("that has run for five hours in all")

		late := newWorld(t, options{into: w, sweep: "night-2", skip: func(i int) bool { return i > 1 },
			change: func(p *sweep.Plan) { p.Created = time.Now() }})
		jobs["night-2"] = gone
		c, err := a.Consider(t.Context(), late.plan.Sweep)
		if err != nil || c == nil {
			t.Fatalf("a sweep whose tasks have left and that was not paused: concluded as %+v, error %v; want it "+
				"concluded", c, err)
		}

		<-time.After(time.Hour + time.Minute) // by the bubble's clock
		c, err = a.Consider(t.Context(), w.plan.Sweep)
		if err != nil || c == nil || c.Outcome != sweep.OutcomeWinner {
			t.Fatalf("a sweep that has run for six hours in all: concluded as %+v, error %v; want its winner", c, err)
		}
		contains(t, c.Reason, "1 of 3 trials had not ended after 6h0m0s, the sweep's time limit")
	})
}

// TestTheJobAfterAPauseEndsTheSweep: like the first one, with a fallback after it.
func TestTheJobAfterAPauseEndsTheSweep(t *testing.T) {
	began, given := JobState{Name: "FAILED", Ended: true, Began: true}, JobState{Name: "CANCELLED", Ended: true}
	for name, tc := range map[string]struct {
		jobs several
		want string
	}{
		"it runs":            {several{"night-1": began, "night-1-f2": {Name: "RUNNING", Began: true}}, ""},
		"it had no machines": {several{"night-1": began, "night-1-f2": given}, ""}, // the fallback may come
		"it ended": {several{"night-1": began, "night-1-f2": began},
			"1 of 3 trials had not ended when the Batch job was FAILED"},
		"the first one still trains": {several{"night-1": {Name: "RUNNING", Began: true}, "night-1-f2": began}, ""},
		// whoever resumed it is to try again, until the limit
		"Batch does not know it": {several{"night-1": began}, ""},
	} {
		w := newWorld(t, options{skip: func(i int) bool { return i > 1 }, change: func(p *sweep.Plan) {
			p.Fallback, p.Spec.Machine.Fallback = make([]sweep.Sizing, 1), make([]sweep.Fallback, 1)
			p.Spec.Machine.Wait = sweep.Duration(2 * time.Hour)
		}})
		store := sweepstore.New(w.sweeps, w.plan.Sweep)
		if _, err := store.CreateHalt(t.Context(), 1, created); err != nil {
			t.Fatal(err)
		}
		r := sweep.JobRecord{Format: 1, Sweep: "night-1", Number: 2, Job: w.plan.JobName(2),
			Reason: "the sweep was paused", At: w.now.Add(-time.Hour)}
		if _, err := store.CreateJob(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		a := w.aggregator()
		a.Jobs = tc.jobs
		c, err := a.Consider(t.Context(), w.plan.Sweep)
		switch {
		case err != nil:
			t.Errorf("%s: %v; want no error", name, err)
		case tc.want == "" && c != nil:
			t.Errorf("%s: concluded: %s; want it to continue", name, c.Reason)
		case tc.want != "" && c == nil:
			t.Errorf("%s: it continues; want it concluded: %s", name, tc.want)
		case tc.want != "":
			contains(t, c.Reason, tc.want)
		}
	}
}

// TestForeignJobsAndPausesAreIgnored: numbers that no job and no pause of the sweep can have, readable or not.
func TestForeignJobsAndPausesAreIgnored(t *testing.T) {
	w := newWorld(t, options{skip: func(i int) bool { return i > 1 }})
	names := sweep.Names(w.plan.Sweep)
	for _, object := range []string{names.JobRecord(999), names.Halt(999), names.Halt(0), names.Jobs() + "01.json",
		names.Halts() + "1", names.Halts() + "1.json/2"} {
		if _, err := w.sweeps.Put(t.Context(), object, blob.Any, strings.NewReader("{")); err != nil {
			t.Fatal(err)
		}
	}
	a := w.aggregator()
	a.Jobs = several{"night-1": {Name: "FAILED", Ended: true, Began: true}}
	if c, err := a.Consider(t.Context(), w.plan.Sweep); err != nil || c == nil {
		t.Errorf("a sweep whose job has failed, beside objects with foreign numbers: %+v, error %v; want it concluded",
			c, err)
	}
}
