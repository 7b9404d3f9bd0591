package sweepstore_test

import (
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// promotions: a pause shows in listings until it is decided what becomes of the trial, which is created once. Meanwhile
// the trial counts with its scores at the rungs.
func (t *tester) promotions() {
	t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 0)))
	paused := func(what string, wantStep int, wantUndecided bool) {
		for how, listed := range map[string]func() sweepstore.Listed{"all": func() sweepstore.Listed { return t.list()[1] },
			"one": t.one} {
			if step, undecided := listed().PausedAt(), listed().Paused; step != wantStep || undecided != wantUndecided {
				t.Errorf("%s, listed with %s: paused at %d, undecided %t; want %d, %t", what, how, step, undecided,
					wantStep, wantUndecided)
			}
		}
	}
	paused("before its pause", 0, false)
	for _, step := range []int{3, 9} {
		t.created("rung", true)(t.trials.CreateRung(t.ctx, t.rung(1, step)))
		t.must("pause", t.trials.CreatePause(t.ctx, 1, 0, step))
		t.must("pause again", t.trials.CreatePause(t.ctx, 1, 1, step))
		paused("after its pause", step, true)

		none, err := t.trials.Promotion(t.ctx, 1, step)
		t.must("promotion", err)
		t.equal("promotion before there is one", none, (*sweep.Promotion)(nil))
		first := sweep.Promotion{Format: 1, Sweep: t.plan.Sweep, Trial: 1, Step: step, Score: 1, Promoted: step == 3,
			Reason: "why",
			Seen:   []sweep.Reached{{Step: step, Trial: 2, Score: 0.5}}, At: at}
		t.created("promotion", true)(t.trials.CreatePromotion(t.ctx, first))
		other := first
		other.Promoted = !first.Promoted
		t.created("another promotion", false)(t.trials.CreatePromotion(t.ctx, other))
		read, err := t.trials.Promotion(t.ctx, 1, step)
		t.must("promotion", err)
		read.ForgetWrite()
		t.equal("promotion", *read, first)
		paused("after its promotion", step, false)
	}

	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	known := map[int]sweep.Seen{}
	t.must("gather", t.trials.Gather(t.ctx, l, 2, known))
	score := 1.0
	t.equal("a paused trial that has not ended", known[1], sweep.Seen{Trial: 1, Status: sweep.StatusStopped,
		Score: &score,
		Rungs: []sweep.RungScore{{Step: 3, Score: 1}, {Step: 9, Score: 1}}})
	t.created("result", true)(t.trials.CreateResult(t.ctx, t.result(1)))
	l, err = t.trials.List(t.ctx)
	t.must("list", err)
	t.must("gather", t.trials.Gather(t.ctx, l, 2, known))
	t.equal("a trial that was paused and is done", known[1].Status, sweep.StatusDone)

	object := sweep.Names(t.plan.Sweep).Promotion(3, 9)
	contents := notJSON()
	contents["another trial's"] = t.text(sweep.Names(t.plan.Sweep).Promotion(1, 9))
	for what, data := range contents {
		t.put(object, data)
		_, err := t.trials.Promotion(t.ctx, 3, 9)
		t.wantDamaged(what, err, object)
	}
}

func (t *tester) one() sweepstore.Listed {
	one, err := t.trials.ListTrial(t.ctx, 1)
	t.must("list one trial", err)
	return one
}
