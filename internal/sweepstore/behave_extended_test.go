package sweepstore_test

import (
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// extended: trials of the sweep that a plan extends have ended, as the plan says, and no object in the new sweep's
// folder is theirs.
func (t *tester) extended() {
	score := sweep.Result{Format: 1, Sweep: "night-0", Trial: 0, Status: sweep.StatusStopped,
		Reason: "at 3 trees: rank 2 of 2", Score: 0.25, TreesGrown: 3, Metrics: map[string]float64{}}
	t.plan.Extends = &sweep.Extension{Sweep: "night-0", Results: []sweep.Result{score},
		Reached: []sweep.Reached{{Step: 3, Trial: 0, Score: 0.25}}}
	t.plan.Trials[0].Params = sweep.Params{"num_leaves": 7.0}
	names := sweep.Names(t.plan.Sweep)
	t.put(names.Result(0), "not theirs")
	t.put(names.Claim(0, 0), "not theirs")

	list := t.list()
	if !list[0].Ended || len(list[0].Claims) > 0 || list[1].Ended {
		t.Errorf("trials 0 and 1 are listed as %+v and %+v; want the first to have ended without a claim, and the "+
			"second not", list[0], list[1])
	}
	if ended, err := t.trials.HasResult(t.ctx, 0); !ended || err != nil {
		t.Errorf("HasResult(0): got %t, %v; want true", ended, err)
	}
	r, damage, err := t.trials.Result(t.ctx, 0)
	if err != nil || damage != nil {
		t.Fatalf("Result(0): got damage %v, error %v; want none", damage, err)
	}
	score.Params = t.plan.Trials[0].Params
	t.equal("the result of trial 0", *r, score)

	whole, err := t.trials.List(t.ctx)
	if err != nil {
		t.Fatal(err)
	}
	rungs, seen := map[sweepstore.RungKey]sweep.Reached{}, map[int]sweep.Seen{}
	if err := t.trials.GatherRungs(t.ctx, whole, 1, 3, 3, rungs); err != nil {
		t.Fatal(err)
	}
	if err := t.trials.Gather(t.ctx, whole, 1, seen); err != nil {
		t.Fatal(err)
	}
	t.equal("rungs", rungs, map[sweepstore.RungKey]sweep.Reached{{Step: 3, Trial: 0}: {Step: 3, Score: 0.25}})
	if s := seen[0]; s.Status != sweep.StatusStopped || s.Score == nil || *s.Score != 0.25 {
		t.Errorf("gathered of trial 0: %+v; want it stopped with 0.25", s)
	}
}
