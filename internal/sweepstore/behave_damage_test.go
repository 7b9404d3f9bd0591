package sweepstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// notJSON returns contents that are not an object of any kind, by what is wrong with them.
func notJSON() map[string]string {
	return map[string]string{
		"empty": "", "text": "damaged", "half": `{"format":1,"sweep":"ni`, "null": "null", "a list": "[1]",
		"no format":         `{"sweep":"night-1"}`,
		"of a later format": `{"format":9,"sweep":"night-1","trial":1}`,
	}
}

// damagedPlan: a plan that is not JSON or is of another sweep is damaged, but exists. One of an earlier build, with
// keys that this build does not know, can be read but not trained.
func (t *tester) damagedPlan() {
	object := sweep.Names(t.plan.Sweep).Plan()
	for what, contents := range notJSON() {
		t.put(object, contents)
		_, _, err := t.sweep.Plan(t.ctx)
		t.wantDamaged(what, err, object)
	}

	// Of another sweep, and of earlier builds, which had keys that are gone.
	other := *t.plan
	other.Sweep, other.Job = "night-2", ""
	t.putJSON(object, other)
	_, _, err := t.sweep.Plan(t.ctx)
	t.wantDamaged("of another sweep", err, object)
	for key, old := range map[string]string{
		"extends":   `"extends":{"sweep":"night-0"},"spec":{`,
		"calibrate": `"spec":{"calibrate":{"by":["site"]},`,
	} {
		their := *t.plan
		their.Coppice = "v0.9"
		data := must.Get(json.Marshal(their))(t)
		t.put(object, strings.Replace(string(data), `"spec":{`, old, 1))
		want := fmt.Sprintf("unknown field %q; coppice v0.9 wrote it", key)
		p, _, err := t.sweep.Plan(t.ctx)
		if err != nil || p.Sweep != their.Sweep {
			t.Errorf("a plan with %s: read as %+v (%v), expected that it can be", old, p, err)
		} else if err = p.Trainable(); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), want) {
			t.Errorf("a plan with %s: may be trained? %v; expected %q", old, err, want)
		}
	}
	if has, err := t.sweep.HasPlan(t.ctx); !has || err != nil {
		t.Errorf("a damaged plan: there %t, error %v; want it to be there", has, err)
	}
}

// damagedClaim: a damaged claim still holds its trial: its number is taken, and the next claim has the number after it.
func (t *tester) damagedClaim() {
	object := sweep.Names(t.plan.Sweep).Claim(1, 0)
	for what, contents := range notJSON() {
		t.put(object, contents)
		_, err := t.trials.Claim(t.ctx, 1, 0)
		t.wantDamaged(what, err, object)
	}
	t.put(object, strings.Repeat(" ", 1<<20+1))
	_, err := t.trials.Claim(t.ctx, 1, 0)
	t.wantDamaged("too long", err, object)
	for what, claim := range map[string]sweep.Claim{"another trial's": t.claim(2, 0), "another number's": t.claim(1, 1),
		"another sweep's": {Format: 1, Sweep: "night-2", Trial: 1}} {
		t.putJSON(object, claim)
		_, err := t.trials.Claim(t.ctx, 1, 0)
		t.wantDamaged(what, err, object)
	}

	if trial := t.list()[1]; trial.Free() || trial.Next() != 1 {
		t.Errorf("a trial with a damaged claim is listed as %+v; want it held, and 1 to be the next claim", trial)
	}
	t.created("claim 0 after a damaged one", false)(t.trials.CreateClaim(t.ctx, t.claim(1, 0)))
	t.created("claim 1 after a damaged one", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 1)))
}

// damagedHeartbeat: a heartbeat that cannot be read is still a sign of life: each change of it shows in the listing.
func (t *tester) damagedHeartbeat() {
	t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 0)))
	object := sweep.Names(t.plan.Sweep).Heartbeat(1, 0)
	before := t.list()[1]
	for what, contents := range notJSON() {
		t.put(object, contents)
		_, err := t.trials.Heartbeat(t.ctx, 1, 0)
		t.wantDamaged(what, err, object)
		if now := t.list()[1]; now.Last.Beat == before.Last.Beat {
			t.Errorf("%s: the heartbeat is listed as %d, as before; want it changed", what, now.Last.Beat)
		}
		before = t.list()[1]
	}
}

// damagedResult: a trial whose result is damaged has ended and failed, for every reader, and gets no other result.
func (t *tester) damagedResult() {
	object := sweep.Names(t.plan.Sweep).Result(1)
	contents := notJSON()
	contents["too long"] = strings.Repeat(" ", 16<<20+1)
	for what, data := range contents {
		t.put(object, data)
		t.failedFor(what, object)
	}
	t.putJSON(object, t.result(2))
	t.failedFor("of another trial", object)
	t.putJSON(object, sweep.Result{Format: 1, Sweep: "night-2", Trial: 1, Status: sweep.StatusFailed})
	t.failedFor("of another sweep", object)
	t.created("result after a damaged one", false)(t.trials.CreateResult(t.ctx, t.result(1)))
}

// failedFor checks that every method that reads results takes trial 1 for failed, because its result, the object, is
// damaged. what says how it is damaged.
func (t *tester) failedFor(what, object string) {
	t.Helper()
	r, damage, err := t.trials.Result(t.ctx, 1)
	if err != nil {
		t.Fatalf("%s: error %v, want a failed result", what, err)
	}
	t.wantDamaged(what, damage, object)
	if r.Sweep != t.plan.Sweep || r.Trial != 1 || r.Status != sweep.StatusFailed ||
		!strings.HasPrefix(r.Reason, "its result cannot be read: ") {
		t.Errorf("%s: read %+v, want a failed result that says why", what, r)
	}

	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	known, told := map[int]sweep.Result{}, 0
	t.must("results", t.trials.Results(t.ctx, l, known, func(trial int, why error) {
		told++
		t.equal(what+": told of trial", trial, 1)
		t.wantDamaged(what, why, object)
	}))
	if !l.Trials[1].Ended || len(known) != 1 || known[1].Status != sweep.StatusFailed || told != 1 {
		t.Errorf("%s: listed %+v, results %+v, told %d times; want one failed result", what, l.Trials[1], known, told)
	}
	if board := sweep.MakeBoard(t.plan, []sweep.Result{known[1]}); board.Failed != 1 {
		t.Errorf("%s: the board counts %d failed trials, want 1", what, board.Failed)
	}
}

// damagedCurve: a claim whose curve is damaged adds nothing to the trial's curves, and that of the other claim stays.
func (t *tester) damagedCurve() {
	for claim := range 2 {
		t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, claim)))
	}
	t.created("curve", true)(t.trials.CreateCurve(t.ctx, t.curve(0, 1)))

	object := sweep.Names(t.plan.Sweep).Curve(1, 1)
	contents := notJSON()
	contents["too long"] = strings.Repeat(" ", 64<<10+1)
	contents["another claim's"] = t.text(sweep.Names(t.plan.Sweep).Curve(1, 0))

	for what, data := range contents {
		t.put(object, data)
		_, err := t.trials.Curve(t.ctx, 1, 1)
		t.wantDamaged(what, err, object)

		all, err := t.trials.Curves(t.ctx, t.list()[1])
		t.must("curves", err)
		if len(all) != 1 || all[0].Claim != 0 {
			t.Errorf("%s: curves %+v, want that of claim 0 only", what, all)
		}
	}
}

// damagedEnd: an ending, a conclusion or a record of a job that is damaged cannot be read, but is known to exist.
func (t *tester) damagedEnd() {
	id := t.plan.Sweep
	for what, contents := range notJSON() {
		t.put(sweep.Names(id).Ending(), contents)
		_, err := t.sweep.Ending(t.ctx, len(t.plan.Trials))
		t.wantDamaged(what, err, sweep.Names(id).Ending())
		t.put(sweep.Names(id).Conclusion(), contents)
		_, err = t.sweep.Conclusion(t.ctx)
		t.wantDamaged(what, err, sweep.Names(id).Conclusion())
		t.put(sweep.Names(id).JobRecord(1), contents)
		_, err = t.sweep.Job(t.ctx, t.plan, 1)
		t.wantDamaged(what, err, sweep.Names(id).JobRecord(1))
	}
	t.putJSON(sweep.Names(id).Ending(), sweep.Ending{Format: 1, Sweep: "night-2"})
	_, err := t.sweep.Ending(t.ctx, len(t.plan.Trials))
	t.wantDamaged("of another sweep", err, sweep.Names(id).Ending())
	t.putJSON(sweep.Names(id).Conclusion(), sweep.Conclusion{Format: 1, Sweep: "night-2",
		Outcome: sweep.OutcomeCancelled})
	_, err = t.sweep.Conclusion(t.ctx)
	t.wantDamaged("of another sweep", err, sweep.Names(id).Conclusion())

	if has, err := t.sweep.HasEnding(t.ctx); !has || err != nil {
		t.Errorf("a damaged ending: there %t, error %v; want it to be there", has, err)
	}
	if has, err := t.sweep.HasJob(t.ctx, 1); !has || err != nil {
		t.Errorf("a damaged job record: there %t, error %v; want it to be there", has, err)
	}
}

// contentsDoNotMatter: a cancellation and a release are what their names say, whatever their contents.
func (t *tester) contentsDoNotMatter() {
	t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 0)))
	for what, contents := range notJSON() {
		t.put(sweep.Names(t.plan.Sweep).Cancel(), contents)
		if cancelled, err := t.sweep.Cancelled(t.ctx); !cancelled || err != nil {
			t.Errorf("%s: cancelled %t, error %v; want it cancelled, whatever the object holds", what, cancelled, err)
		}
		t.put(sweep.Names(t.plan.Sweep).Release(1, 0), contents)
		if trial := t.list()[1]; !trial.Free() {
			t.Errorf("%s: a released trial is listed as %+v; want it free", what, trial)
		}
	}
}

// cancelled: with a context that has ended, every method returns the context's error, and none takes that for a damaged
// or missing object.
func (t *tester) cancelled() {
	t.created("plan", true)(t.sweep.CreatePlan(t.ctx, *t.plan))
	t.created("result", true)(t.trials.CreateResult(t.ctx, t.result(1)))
	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()

	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, context.Canceled) || problem.Is(err, problem.Damaged) || errors.Is(err, blob.ErrNotExist) {
			t.Errorf("%s with an ended context: error %v, want the context's", what, err)
		}
	}
	_, _, err = t.sweep.Plan(ctx)
	check("plan", err)
	_, err = t.sweep.Conclusion(ctx)
	check("conclusion", err)
	_, err = t.trials.List(ctx)
	check("list", err)
	_, _, err = t.trials.Result(ctx, 1)
	check("result", err)
	check("results", t.trials.Results(ctx, l, map[int]sweep.Result{}, nil))
	_, err = t.trials.CreateClaim(ctx, t.claim(0, 0))
	check("claim", err)
	_, err = t.sweep.Cancelled(ctx)
	check("cancelled", err)
}
