package worker

import (
	"testing"

	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestExtendedSweepTrainsNothingAgain: the plan lists three trials of another sweep, and the trials after them are
// decided from all three.
func TestExtendedSweepTrainsNothingAgain(t *testing.T) {
	const before = 3
	first := newWorld(t, before, open(sweep.MethodGP, narrow))
	if err := first.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	extend := func(p *sweep.Plan) {
		open(sweep.MethodGP, narrow)(p)
		p.Sweep, p.Extends = "night-2", &sweep.Extension{Sweep: first.plan.Sweep}
		p.Job = "projects/p/locations/l/jobs/night-2"
		for i := range before {
			r := first.result(t, i)
			p.Trials[i] = sweep.Trial{Number: i, Source: "gp", Params: r.Params}
			r.Params = nil
			p.Extends.Results = append(p.Extends.Results, *r)
		}
	}
	w := newWorld(t, 8, extend)
	for task := range 2 {
		if err := w.worker(task).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	list, err := trials.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, listed := range list.Trials {
		r, _, err := trials.Result(t.Context(), listed.Number)
		if err != nil {
			t.Fatal(err)
		}
		key := sweep.ConfigurationKey(r.Params)
		if other, twice := seen[key]; twice {
			t.Errorf("trials %d and %d have trained the same configuration", other, listed.Number)
		}
		seen[key] = listed.Number

		d, err := trials.Decision(t.Context(), listed.Number)
		switch {
		case err != nil:
			t.Fatal(err)
		case listed.Number < before:
			if d != nil || len(listed.Claims) > 0 || r.Sweep != first.plan.Sweep || !listed.Ended {
				t.Errorf("trial %d has decision %v, %d claims and a result of %s; want that of %s alone", listed.Number,
					d, len(listed.Claims), r.Sweep, first.plan.Sweep)
			}
			continue
		case d == nil || r.Status != sweep.StatusDone:
			t.Fatalf("trial %d has decision %v and ended %s: %s; want it decided and done", listed.Number, d, r.Status,
				r.Reason)
		}
		for n := range before {
			if s := d.Seen[n]; s.Trial != n || s.Score == nil || *s.Score != first.result(t, n).Score {
				t.Errorf("trial %d was decided knowing %+v of trial %d; want its score in %s", listed.Number, s, n,
					first.plan.Sweep)
			}
		}
	}
}
