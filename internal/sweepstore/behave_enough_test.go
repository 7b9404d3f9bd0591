package sweepstore_test

import (
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// endedByRule: why a sweep starts no more trials is created once, from results in the order in which they came.
func (t *tester) endedByRule() {
	none, err := t.sweep.Enough(t.ctx)
	if none != nil || err != nil {
		t.Errorf("before it is there: read %v, error %v; want neither", none, err)
	}
	e := sweep.Enough{Format: 1, Sweep: t.plan.Sweep, Rule: sweep.RuleTarget, Reason: "trial 1 has it", Trial: 2,
		Seen: []sweep.Seen{{Trial: 1, Status: sweep.StatusDone, Score: new(0.5)}}, At: at}
	t.created("end by rule", true)(t.sweep.CreateEnough(t.ctx, e))
	other := e
	other.Reason = "another"
	t.created("another end by rule", false)(t.sweep.CreateEnough(t.ctx, other))
	read, err := t.sweep.Enough(t.ctx)
	t.must("end by rule", err)
	t.equal("end by rule", *read, e)

	for _, text := range []string{"{", `{"format": 99}`, `{"format": 1, "sweep": "other", "rule": "target"}`,
		`{"format": 1, "sweep": "night-1", "rule": "mood"}`} {
		t.put(sweep.Names(t.plan.Sweep).Enough(), text)
		if e, err := t.sweep.Enough(t.ctx); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: read %+v, error %v; want a *DamagedError", text, e, err)
		}
	}

	for trial, r := range map[int]sweep.Result{1: {Status: sweep.StatusStopped, Score: 0.4, TreesGrown: 3},
		0: {Status: sweep.StatusFailed}} {
		r.Format, r.Sweep, r.Trial = 1, t.plan.Sweep, trial
		t.created("result", true)(t.trials.CreateResult(t.ctx, r))
	}
	list, err := t.trials.List(t.ctx)
	t.must("list", err)
	finished, err := t.trials.Finished(t.ctx, list, map[int]sweep.Result{})
	t.must("finished", err)
	t.equal("finished", finished, []sweep.Seen{{Trial: 1, Status: sweep.StatusStopped, Score: new(0.4)}})
}
