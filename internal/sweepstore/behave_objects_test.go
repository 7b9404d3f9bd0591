package sweepstore_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// sweeps: the objects of a whole sweep are created, found and read back as they were written, and sweeps are listed by
// their plans.
func (t *tester) sweeps() {
	if has, err := t.sweep.HasPlan(t.ctx); has || err != nil {
		t.Fatalf("before there is a plan: has one %t, error %v; want neither", has, err)
	}
	t.created("plan", true)(t.sweep.CreatePlan(t.ctx, *t.plan))
	t.created("ending", true)(t.sweep.CreateEnding(t.ctx, sweep.Ending{Format: 1, Sweep: t.plan.Sweep,
		Trials: []int{0, 2}, At: at}))
	t.created("conclusion", true)(t.sweep.CreateConclusion(t.ctx, sweep.Conclusion{Format: 1, Sweep: t.plan.Sweep,
		Outcome: sweep.OutcomeNoWinner, Reason: "none", At: at}))
	t.created("job", true)(t.sweep.CreateJob(t.ctx, sweep.JobRecord{Format: 1, Sweep: t.plan.Sweep, Number: 1,
		Job: t.plan.JobName(1), Reason: "no machines", At: at}))
	t.created("cancellation", true)(t.sweep.Cancel(t.ctx, at))

	plan, text, err := t.sweep.Plan(t.ctx)
	t.must("plan", err)
	t.equal("plan", plan.Fingerprint(), t.plan.Fingerprint())
	t.equal("the plan's text", string(text), t.text(sweep.Names(t.plan.Sweep).Plan()))
	ending, err := t.sweep.Ending(t.ctx, len(t.plan.Trials))
	t.must("ending", err)
	t.equal("ending", ending.Trials, []int{0, 2})
	end, err := t.sweep.Conclusion(t.ctx)
	t.must("conclusion", err)
	t.equal("conclusion", end.Reason, "none")
	job, err := t.sweep.Job(t.ctx, t.plan, 1)
	t.must("job", err)
	t.equal("job", job.Reason, "no machines")

	for what, has := range map[string]func(context.Context) (bool, error){
		"plan": t.sweep.HasPlan, "ending": t.sweep.HasEnding, "cancellation": t.sweep.Cancelled,
		"job": func(ctx context.Context) (bool, error) { return t.sweep.HasJob(ctx, 1) },
	} {
		if there, err := has(t.ctx); !there || err != nil {
			t.Errorf("%s: there %t, error %v; want it to be there", what, there, err)
		}
	}

	// The sweep of a damaged plan is listed, and an object without the name of a plan is not.
	t.put("plans/other.json", "x")
	t.put("plans/not a sweep", "x")
	var ids []sweep.ID
	for id, err := range sweepstore.List(t.ctx, t.bucket) {
		t.must("list", err)
		ids = append(ids, id)
	}
	t.equal("sweeps", ids, []sweep.ID{"night-1", "other"})
}

// createdOnce: of each create-only object of a sweep, of a claim and of a result the first writer is told that it
// created it. The second one, with other contents, is told that it did not, and the object's bytes stay as they were.
// The same of curves, decisions, rungs and promotions is in their own tests.
func (t *tester) createdOnce() {
	id := t.plan.Sweep
	steps := []struct {
		object string
		create func(second bool) (bool, error)
	}{
		{sweep.Names(id).Plan(), func(second bool) (bool, error) {
			p := *t.plan
			p.Skipped = number(second)
			return t.sweep.CreatePlan(t.ctx, p)
		}},
		{sweep.Names(id).Cancel(), func(second bool) (bool, error) {
			return t.sweep.Cancel(t.ctx, at.Add(time.Duration(number(second))*time.Hour))
		}},
		{sweep.Names(id).Ending(), func(second bool) (bool, error) {
			return t.sweep.CreateEnding(t.ctx, sweep.Ending{Format: 1, Sweep: id, Cancelled: second})
		}},
		{sweep.Names(id).Conclusion(), func(second bool) (bool, error) {
			return t.sweep.CreateConclusion(t.ctx,
				sweep.Conclusion{Format: 1, Sweep: id, Outcome: sweep.OutcomeCancelled, Done: number(second)})
		}},
		{sweep.Names(id).JobRecord(1), func(second bool) (bool, error) {
			return t.sweep.CreateJob(t.ctx, sweep.JobRecord{Format: 1, Sweep: id, Number: 1, Job: t.plan.JobName(1),
				At: at.Add(time.Duration(number(second)))})
		}},
		{sweep.Names(id).Claim(1, 0), func(second bool) (bool, error) {
			c := t.claim(1, 0)
			c.Task = number(second)
			return t.trials.CreateClaim(t.ctx, c)
		}},
		{sweep.Names(id).Result(1), func(second bool) (bool, error) {
			r := t.result(1)
			r.Trees = number(second)
			return t.trials.CreateResult(t.ctx, r)
		}},
	}

	for _, s := range steps {
		t.created(s.object, true)(s.create(false))
		first := t.text(s.object)
		t.created(s.object+" again", false)(s.create(true))
		t.equal(s.object+" after the second create", t.text(s.object), first)
	}
}

// number is 1 for the first of two writes and 2 for the second, so that their contents differ.
func number(second bool) int {
	if second {
		return 2
	}
	return 1
}

// absent: of an empty bucket, objects that may be missing are read as nil, others give blob.ErrNotExist, nothing is
// said to exist, and all trials are listed as free.
func (t *tester) absent() {
	if _, _, err := t.sweep.Plan(t.ctx); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("plan: error %v, want ErrNotExist", err)
	}
	ending, err := t.sweep.Ending(t.ctx, 1)
	t.must("ending", err)
	end, err := t.sweep.Conclusion(t.ctx)
	t.must("conclusion", err)
	job, err := t.sweep.Job(t.ctx, t.plan, 1)
	t.must("job", err)
	if ending != nil || end != nil || job != nil {
		t.Errorf("of an empty bucket: ending %v, conclusion %v, job %v; want none", ending, end, job)
	}

	if _, err := t.trials.Claim(t.ctx, 0, 0); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("claim: error %v, want ErrNotExist", err)
	}
	if _, _, err := t.trials.Result(t.ctx, 0); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("result: error %v, want ErrNotExist", err)
	}
	if g, err := t.trials.LastBeat(t.ctx, 0, 0); g != blob.Absent || err != nil {
		t.Errorf("heartbeat: generation %d, error %v; want none", g, err)
	}
	for what, has := range map[string]func(context.Context) (bool, error){
		"ending": t.sweep.HasEnding, "cancellation": t.sweep.Cancelled,
		"job":    func(ctx context.Context) (bool, error) { return t.sweep.HasJob(ctx, 1) },
		"claim":  func(ctx context.Context) (bool, error) { return t.trials.HasClaim(ctx, 0, 0) },
		"result": func(ctx context.Context) (bool, error) { return t.trials.HasResult(ctx, 0) },
	} {
		if there, err := has(t.ctx); there || err != nil {
			t.Errorf("%s of an empty bucket: there %t, error %v; want neither", what, there, err)
		}
	}
	for _, trial := range t.list() {
		if len(trial.Claims) > 0 || trial.Ended || !trial.Free() || trial.Next() != 0 {
			t.Errorf("trial of an empty bucket: %+v; want it free, without claims", trial)
		}
	}
}

// claims: a claim is read back, each heartbeat has a new generation that listings show, and a trial is free again once
// its claim is released, which may be repeated.
func (t *tester) claims() {
	t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(2, 0)))
	got, err := t.trials.Claim(t.ctx, 2, 0)
	t.must("claim", err)
	t.equal("whose claim", [3]any{got.Job, got.Task, got.Nonce}, [3]any{"night-1", 3, "n0"})

	var before blob.Generation
	for trees := range 3 {
		t.must("beat", t.trials.Beat(t.ctx, 2, 0, sweep.Heartbeat{Format: 1, Nonce: "n0", Trees: trees, At: at}))
		g, err := t.trials.LastBeat(t.ctx, 2, 0)
		t.must("last beat", err)
		if listed := t.list()[2].Last; g == before || g == blob.Absent || listed.Beat != int64(g) {
			t.Errorf("beat %d has generation %d, listed as %d, after %d; want a new one", trees, g, listed.Beat, before)
		}
		before = g
	}
	h, err := t.trials.Heartbeat(t.ctx, 2, 0)
	t.must("heartbeat", err)
	t.equal("the last heartbeat", *h, sweep.Heartbeat{Format: 1, Nonce: "n0", Trees: 2, At: at})

	if t.list()[2].Free() {
		t.Error("a claimed trial is listed as free, want it held")
	}
	for range 2 { // a release may be repeated
		t.must("release", t.trials.Release(t.ctx, 2, 0))
	}
	if trial := t.list()[2]; !trial.Free() || trial.Next() != 1 {
		t.Errorf("a released trial is listed as %+v, want it free for claim 1", trial)
	}
}

// results: a result is read back, and Results adds to what is known only the results that were not known before.
func (t *tester) results() {
	for _, trial := range []int{0, 3} {
		t.created("result", true)(t.trials.CreateResult(t.ctx, t.result(trial)))
	}
	r, damage, err := t.trials.Result(t.ctx, 3)
	t.must("result", err)
	if damage != nil || r.Trial != 3 || r.Status != sweep.StatusDone || !r.Ended.Equal(at.Add(time.Minute)) {
		t.Errorf("read %+v, damage %v; want what was written", r, damage)
	}

	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	known := map[int]sweep.Result{0: {Trial: 0, Reason: "read before"}}
	t.must("results", t.trials.Results(t.ctx, l, known, nil))
	if len(known) != 2 || known[0].Reason != "read before" || known[3].Score != 0.5 {
		t.Errorf("results %+v; want trial 0 as it was known and trial 3 as it was written", known)
	}
}

// files: a file of an attempt is read back by what its result says of it. It is lost if it has other contents, of the
// same or another length, or is missing.
func (t *tester) files() {
	o, err := t.trials.WriteFile(t.ctx, 1, 2, "model.txt", []byte("tree"))
	t.must("write", err)
	t.equal("the file's name", o.Name, sweep.Names(t.plan.Sweep).Attempt(1, 2)+"model.txt")
	data, lost, err := t.trials.File(t.ctx, o)
	t.must("read", cmp.Or(err, lost))
	t.equal("the file", string(data), "tree")

	for what, contents := range map[string]string{"longer": "trees", "shorter": "tre", "other": "tref"} {
		t.put(o.Name, contents)
		if _, lost, err := t.trials.File(t.ctx, o); lost == nil || err != nil {
			t.Errorf("%s contents: lost %v, error %v; expected it to be lost", what, lost, err)
		}
	}
	o.Name = sweep.Names(t.plan.Sweep).Attempt(1, 3) + "model.txt"
	if _, lost, err := t.trials.File(t.ctx, o); !errors.Is(lost, blob.ErrNotExist) || err != nil {
		t.Errorf("a file that is not there: lost %v, error %v; expected it to be lost as ErrNotExist", lost, err)
	}
}

// checkpoints: checkpoints are read back, and listed unless they have been dropped. One that is longer than the limit,
// of 8 bytes here, is damaged.
func (t *tester) checkpoints() {
	c := t.trials.Checkpoints(1, 8)
	for i, data := range []string{"one", "two", "three"} {
		t.must("write", c.Write(t.ctx, c.Prefix(i)+"0", []byte(data)))
	}
	t.must("drop", c.Drop(t.ctx, c.Prefix(0)+"0"))
	names, err := c.List(t.ctx)
	t.must("list", err)
	t.equal("checkpoints", names, []string{c.Prefix(1) + "0", c.Prefix(2) + "0"})
	data, err := c.Read(t.ctx, c.Prefix(2)+"0")
	t.must("read", err)
	t.equal("checkpoint", string(data), "three")

	t.put(c.Prefix(2)+"1", "longer than 8")
	if data, err = c.Read(t.ctx, c.Prefix(2)+"1"); !problem.Is(err, problem.Damaged) {
		t.Errorf("a checkpoint that is too long: %q, error %v; want it to be damaged", data, err)
	}
	if _, err := c.Read(t.ctx, c.Prefix(3)+"0"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("a checkpoint that is not there: error %v, want ErrNotExist", err)
	}
}

// curve returns the learning curve of a claim of trial 1: three trees from first on, each with an eighth of its number
// as the score.
func (t *tester) curve(claim, first int) sweep.Curve {
	c := sweep.Curve{Format: 1, Sweep: t.plan.Sweep, Trial: 1, Claim: claim, Metric: "auc"}
	for i := range 3 {
		c.Add(first+i, float64(first+i)/8)
	}
	return c
}

// curves: the curves of a trial's claims are read and join to one, a claim without a curve adds nothing, and a curve is
// written once.
func (t *tester) curves() {
	for claim, first := range []int{1, 3} {
		t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, claim)))
		t.created("curve", true)(t.trials.CreateCurve(t.ctx, t.curve(claim, first)))
	}
	t.created("claim without a curve", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 2)))
	t.created("a curve again", false)(t.trials.CreateCurve(t.ctx, t.curve(0, 7)))

	all, err := t.trials.Curves(t.ctx, t.list()[1])
	t.must("curves", err)
	t.equal("the trial's curve", sweep.JoinCurves(all), []sweep.CurvePoint{{Tree: 1, Score: .125},
		{Tree: 2, Score: .25}, {Tree: 3, Score: .375}, {Tree: 4, Score: .5}, {Tree: 5, Score: .625}})
	all, err = t.trials.Curves(t.ctx, t.list()[0])
	if err != nil || len(all) != 0 {
		t.Errorf("of a trial without: %v, error %v; want none", all, err)
	}
}

// listing: a listing has each trial's claims in their order, and of each claim what was written of it: claim 11 has a
// heartbeat, 3 is released, and 4 has a checkpoint, which counts although it was emptied. Trial 1 has ended.
func (t *tester) listing() {
	id := t.plan.Sweep
	for claim := range 12 { // in the listing, 10 comes before 2
		t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(0, claim)))
	}
	t.must("beat", t.trials.Beat(t.ctx, 0, 11, sweep.Heartbeat{Format: 1}))
	t.must("release", t.trials.Release(t.ctx, 0, 3))
	saved := t.trials.Checkpoints(0, 8)
	t.must("save", saved.Write(t.ctx, saved.Prefix(4)+"0", []byte("x")))
	t.must("drop", saved.Drop(t.ctx, saved.Prefix(4)+"0"))
	t.put(sweep.Names(id).Attempt(0, 4)+"model.txt", "x")
	t.created("result", true)(t.trials.CreateResult(t.ctx, t.result(1)))

	trials := t.list()
	var numbers []int
	for _, c := range trials[0].Claims {
		numbers = append(numbers, c.Number)
		if c.Made == blob.Absent || (c.Beat != 0) != (c.Number == 11) || c.Released != (c.Number == 3) ||
			c.Saved != (c.Number == 4) {
			t.Errorf("claim listed as %+v; want what was written of it alone", c)
		}
	}
	t.equal("claims", numbers, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	if trials[0].Ended || trials[0].Free() || trials[0].Next() != 12 || !trials[1].Ended || trials[2].Ended {
		t.Errorf("listed %+v; want trial 0 claimed, and trial 1 ended", trials)
	}
}

// strangers: names that Coppice never writes, such as one with a number in another spelling, change nothing in a
// listing: none of them ends, holds or frees a trial.
func (t *tester) strangers() {
	t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 0)))
	before := t.list()
	root := sweep.Names(t.plan.Sweep).Trials()
	for _, name := range []string{
		"1/result.json", "00001/result.json", "+001/result.json", "0001/result.json.bak", "0001/result.json/x",
		"0001/results", "0099/result.json", "99999999/result.json",
		"0001/claims/01", "0001/claims/+1", "0001/claims/-1", "0001/claims/x", "0001/claims/9223372036854775807",
		"0001/claims/99999999999999999999", "0001/claims/1/2",
		"0001/heartbeats/1", "0001/releases/7", "0001/releases/00", "0001/checkpoints/5/0", "notes.txt",
	} {
		t.put(root+name, "not ours")
	}

	after := t.list()
	t.equal("trials among strangers", after, before)
	if !slices.IsSortedFunc(after, func(a, b sweepstore.Listed) int { return a.Number - b.Number }) {
		t.Errorf("listed %+v, want the trials in the order of their numbers", after)
	}
}
