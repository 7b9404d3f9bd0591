package sweepstore_test

import (
	"strings"

	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// decision returns the decision that a trial trains as many leaves as its number, from what it has seen.
func (t *tester) decision(trial int, seen ...sweep.Seen) sweep.Decision {
	return sweep.Decision{Format: 1, Sweep: t.plan.Sweep, Trial: trial, Claim: 2, Task: 3, At: at,
		Params: sweep.Params{"num_leaves": float64(trial), "seed": 1.0},
		Own:    sweep.Params{"num_leaves": float64(trial)}, Source: "gp", Reason: "why", Seen: seen}
}

// decisions: a decision is created once, read back and listed. For display it is read without what it has seen. A
// configuration is reserved for one trial, until that is decided otherwise.
func (t *tester) decisions() {
	none, err := t.trials.Decision(t.ctx, 1)
	if none != nil || err != nil {
		t.Errorf("a decision that was not made: read %+v, error %v; want neither", none, err)
	}

	score := 0.25
	first := t.decision(1, sweep.Seen{Trial: 0, Status: sweep.StatusDone, Score: &score})
	t.created("decision", true)(t.trials.CreateDecision(t.ctx, first))
	other := first
	other.Source = "halton"
	t.created("another decision", false)(t.trials.CreateDecision(t.ctx, other))
	read, err := t.trials.Decision(t.ctx, 1)
	t.must("decision", err)
	t.equal("decision", *read, first)
	if l := t.list(); l[1].Decided == 0 || l[2].Decided != 0 {
		t.Errorf("listed as decided: trial 1 %t, trial 2 %t; want the first only", l[1].Decided != 0, l[2].Decided != 0)
	}

	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	known := map[int]*sweep.Decision{}
	t.must("decisions", t.trials.Decisions(t.ctx, l, known))
	shown := first
	shown.Seen = nil
	t.equal("decisions to be shown", known, map[int]*sweep.Decision{1: &shown})

	// Trial 1 reserves the configuration that it trains.
	key := sweep.ConfigurationKey(first.Params)
	for _, c := range []struct {
		what  string
		trial int
		taken bool
	}{{"for the first", 1, true}, {"once more", 1, true}, {"for another", 2, false}} {
		taken, err := t.trials.TakeConfiguration(t.ctx, c.trial, key)
		t.must("configuration", err)
		t.equal("a configuration taken "+c.what, taken, c.taken)
	}

	// Trial 1 also reserves another one, which it does not train. That is left to trial 2, and to no third.
	spare := sweep.ConfigurationKey(sweep.Params{"num_leaves": 77.0})
	for _, c := range []struct {
		what  string
		trial int
		taken bool
	}{{"by a trial that is decided otherwise", 1, true}, {"after it", 2, true}, {"once more", 2, true},
		{"after one that is not decided", 3, false}} {
		taken, err := t.trials.TakeConfiguration(t.ctx, c.trial, spare)
		t.must("configuration", err)
		t.equal("a configuration taken "+c.what, taken, c.taken)
	}
}

// damagedDecision: a damaged decision cannot be read, and no other is written in its place. Methods that read several
// skip it. A damaged reservation counts as another trial's.
func (t *tester) damagedDecision() {
	object := sweep.Names(t.plan.Sweep).Decision(1)
	contents := notJSON()
	contents["too long"] = strings.Repeat(" ", 16<<20+1)
	for what, data := range contents {
		t.put(object, data)
		_, err := t.trials.Decision(t.ctx, 1)
		t.wantDamaged(what, err, object)
	}
	t.putJSON(object, t.decision(2))
	_, err := t.trials.Decision(t.ctx, 1)
	t.wantDamaged("another trial's", err, object)
	unordered := t.decision(1, sweep.Seen{Trial: 3}, sweep.Seen{Trial: 0})
	t.putJSON(object, unordered)
	_, err = t.trials.Decision(t.ctx, 1)
	t.wantDamaged("unordered", err, object)

	// It stays, and methods that read several skip it.
	t.created("decision after a damaged one", false)(t.trials.CreateDecision(t.ctx, t.decision(1)))
	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	known := map[int]*sweep.Decision{}
	t.must("decisions", t.trials.Decisions(t.ctx, l, known))
	t.must("gather", t.trials.Gather(t.ctx, l, 0, map[int]sweep.Seen{}))
	t.equal("decisions beside a damaged one", len(known), 0)

	t.put(sweep.Names(t.plan.Sweep).Configuration("0a", 0), "damaged")
	taken, err := t.trials.TakeConfiguration(t.ctx, 1, "0a")
	t.must("configuration", err)
	t.equal("a damaged configuration taken", taken, false)
}

// gathered: Gather tells of the trials what the newest decision has seen of them, adds results that came later, and
// leaves out the trial that is to be decided.
func (t *tester) gathered() {
	score := 0.25
	t.created("result", true)(t.trials.CreateResult(t.ctx, t.result(0)))
	t.created("decision", true)(t.trials.CreateDecision(t.ctx, t.decision(1)))
	t.created("decision", true)(t.trials.CreateDecision(t.ctx,
		t.decision(2, sweep.Seen{Trial: 0, Status: sweep.StatusDone, Score: &score},
			sweep.Seen{Trial: 1, Status: sweep.StatusRunning, Params: sweep.Params{"num_leaves": 1.0}})))
	l, err := t.trials.List(t.ctx)
	t.must("list", err)

	// The newest decision includes the rest, so what it has seen of the other objects counts.
	known := map[int]sweep.Seen{}
	t.must("gather", t.trials.Gather(t.ctx, l, 3, known))
	want := map[int]sweep.Seen{0: {Trial: 0, Status: sweep.StatusDone, Score: &score},
		1: {Trial: 1, Status: sweep.StatusRunning, Params: sweep.Params{"num_leaves": 1.0}},
		2: {Trial: 2, Status: sweep.StatusRunning, Params: sweep.Params{"num_leaves": 2.0}}}
	t.equal("gathered", known, want)

	// A result adds to what was decided; of its own trial nothing is gathered.
	failed := sweep.Result{Format: 1, Sweep: t.plan.Sweep, Trial: 2, Status: sweep.StatusFailed, Reason: "x"}
	t.created("result", true)(t.trials.CreateResult(t.ctx, failed))
	l, err = t.trials.List(t.ctx)
	t.must("list", err)
	t.must("gather", t.trials.Gather(t.ctx, l, 3, known))
	want[2] = sweep.Seen{Trial: 2, Status: sweep.StatusFailed, Params: sweep.Params{"num_leaves": 2.0}}
	t.equal("gathered after a result", known, want)
	own := map[int]sweep.Seen{}
	t.must("gather", t.trials.Gather(t.ctx, l, 2, own))
	if _, has := own[2]; has {
		t.Errorf("gathered for trial 2: %+v; want nothing of itself", own[2])
	}
	t.trials.SeenResult(own, &failed)
	t.equal("a result of one's own", own[2].Status, sweep.StatusFailed)
}

// gatheredFolds: a configuration is known by the mean of its first folds once all three of them have ended. Nothing is
// read twice: what was known stays known although its results are damaged since. The result of an open configuration
// that does not say what it has trained is damaged. Configuration 2, of trial 6, is the one to be decided.
func (t *tester) gatheredFolds() {
	t.plan.Folds = sweep.NewFolds("kfold", make([]sweep.Round, 4), true)
	t.plan.Trials = t.plan.Folds.Expand([]sweep.Trial{{Params: sweep.Params{"num_leaves": 2.0}}, {Open: true},
		{Open: true}})
	ends := func(trial int, score float64) {
		of := t.plan.Trials[trial]
		t.created("result", true)(t.trials.CreateResult(t.ctx, sweep.Result{Format: 1, Sweep: t.plan.Sweep,
			Trial: trial, Configuration: of.Configuration, Fold: of.Fold, Status: sweep.StatusDone, Score: score,
			TrainRows: 1, Params: sweep.Params{"num_leaves": 3.0}}))
	}
	known, results := map[int]sweep.Seen{}, map[int]sweep.Result{}
	gathered := func(what string, want map[int]sweep.Seen) {
		t.Helper()
		l, err := t.trials.List(t.ctx)
		t.must("list", err)
		t.must("gather", t.trials.Gather(t.ctx, l, 6, known))
		t.must("gather folds", t.trials.GatherFolds(t.ctx, l, 6, known, results))
		t.equal(what, known, want)
	}

	// Configuration 1, of trial 3, is decided, and two of the first folds of configurations 0 and 1 end.
	t.created("decision", true)(t.trials.CreateDecision(t.ctx, t.decision(3)))
	own := sweep.Params{"num_leaves": 3.0}
	for trial, score := range map[int]float64{0: 0.25, 1: 0.5, 3: 0.5, 4: 0.5} {
		ends(trial, score)
	}
	gathered("two of three folds ended", map[int]sweep.Seen{3: {Trial: 3, Status: sweep.StatusRunning, Params: own}})

	// The last of their first folds end: the means are (0.25 + 0.5 + 0.75) / 3 and 0.5.
	half := 0.5
	ends(2, 0.75)
	ends(5, 0.5)
	all := map[int]sweep.Seen{0: {Trial: 0, Status: sweep.StatusDone, Score: &half},
		3: {Trial: 3, Status: sweep.StatusDone, Score: &half, Params: own}}
	gathered("all first folds ended", all)
	for trial := range 6 {
		t.put(sweep.Names(t.plan.Sweep).Result(trial), "damaged")
	}
	gathered("read again", all)

	// The result of an open configuration's fold, without parameters.
	silent := sweep.Result{Format: 1, Sweep: t.plan.Sweep, Trial: 6, Configuration: 2, Fold: 1,
		Status: sweep.StatusDone, TrainRows: 1}
	t.created("result", true)(t.trials.CreateResult(t.ctx, silent))
	if r, damage, err := t.trials.Result(t.ctx, 6); err != nil || damage == nil || r.Status != sweep.StatusFailed {
		t.Errorf("a result of an open fold without parameters: read %+v, damage %v, error %v; want it damaged", r,
			damage, err)
	}
}

// rung returns the record of a trial at a rung, with the trial's number as its score.
func (t *tester) rung(trial, step int, seen ...sweep.Reached) sweep.Rung {
	return sweep.Rung{Format: 1, Sweep: t.plan.Sweep, Trial: trial, Step: step, Score: float64(trial), Reason: "why",
		Seen: seen, At: at}
}

// rungs: the record of a rung is created once and read back. GatherRungs tells the scores that the records have and
// have seen, from one rung to another, and skips damaged ones.
func (t *tester) rungs() {
	first := t.rung(1, 9)
	t.created("rung", true)(t.trials.CreateRung(t.ctx, first))
	other := first
	other.Pause = true
	t.created("another rung", false)(t.trials.CreateRung(t.ctx, other))
	read, err := t.trials.Rung(t.ctx, 1, 9)
	t.must("rung", err)
	read.Seen = nil // what is nil is written as an empty list
	t.equal("rung", *read, first)
	none, err := t.trials.Rung(t.ctx, 1, 27)
	t.must("rung", err)
	t.equal("a rung that was not come to", none, (*sweep.Rung)(nil))

	// Trial 2 has seen trial 1 at 9 trees, and has come to 27.
	t.created("rung", true)(t.trials.CreateRung(t.ctx, t.rung(2, 9, sweep.Reached{Step: 9, Trial: 1, Score: 1})))
	t.created("rung", true)(t.trials.CreateRung(t.ctx, t.rung(2, 27)))
	l, err := t.trials.List(t.ctx)
	t.must("list", err)
	known := map[sweepstore.RungKey]sweep.Reached{}
	t.must("gather", t.trials.GatherRungs(t.ctx, l, 0, 9, 9, known))
	t.equal("gathered", known, map[sweepstore.RungKey]sweep.Reached{{Step: 9, Trial: 1}: {Step: 9, Trial: 1, Score: 1},
		{Step: 9, Trial: 2}: {Step: 9, Trial: 2, Score: 2}})
	t.equal("in order, without the second trial", sweepstore.ReachedOf(known, 2, 9, 9),
		[]sweep.Reached{{Step: 9, Trial: 1, Score: 1}})

	known = map[sweepstore.RungKey]sweep.Reached{}
	t.must("gather the way to 27 trees", t.trials.GatherRungs(t.ctx, l, 2, 1, 27, known))
	t.equal("the second trial's way to 27 trees, without where it is", sweepstore.ReachedOf(known, 2, 1, 27),
		[]sweep.Reached{{Step: 9, Trial: 1, Score: 1}, {Step: 9, Trial: 2, Score: 2}})

	// A damaged record cannot be read, and is skipped beside others.
	object := sweep.Names(t.plan.Sweep).Rung(3, 9)
	for what, contents := range notJSON() {
		t.put(object, contents)
		_, err := t.trials.Rung(t.ctx, 3, 9)
		t.wantDamaged(what, err, object)
	}
	l, err = t.trials.List(t.ctx)
	t.must("list", err)
	known = map[sweepstore.RungKey]sweep.Reached{}
	t.must("gather beside a damaged one", t.trials.GatherRungs(t.ctx, l, 0, 9, 9, known))
	t.equal("gathered beside a damaged one", len(known), 2)
}

// promotions: a pause shows in listings until it is decided what becomes of the trial, which is created once and read
// back. A trial that was paused counts as stopped, with its scores at the rungs, until it has a result. A damaged
// promotion cannot be read.
func (t *tester) promotions() {
	t.created("claim", true)(t.trials.CreateClaim(t.ctx, t.claim(1, 0)))
	paused := func(what string, wantStep int, wantUndecided bool) {
		for how, listed := range map[string]func() sweepstore.Listed{
			"all": func() sweepstore.Listed { return t.list()[1] },
			"one": t.one} {
			if step, undecided := listed().PausedAt(), listed().Paused; step != wantStep || undecided != wantUndecided {
				t.Errorf("%s, listed with %s: paused at %d, undecided %t; want %d, %t", what, how, step, undecided,
					wantStep, wantUndecided)
			}
		}
	}

	// Trial 1 is paused at 3 trees and promoted, and then paused at 9 trees, where it ends.
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

	// What is gathered of it before it has a result, and after.
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

	// A damaged verdict, or one of another trial.
	object := sweep.Names(t.plan.Sweep).Promotion(3, 9)
	contents := notJSON()
	contents["another trial's"] = t.text(sweep.Names(t.plan.Sweep).Promotion(1, 9))
	for what, data := range contents {
		t.put(object, data)
		_, err := t.trials.Promotion(t.ctx, 3, 9)
		t.wantDamaged(what, err, object)
	}
}

// one lists trial 1 alone.
func (t *tester) one() sweepstore.Listed {
	one, err := t.trials.ListTrial(t.ctx, 1)
	t.must("list one trial", err)
	return one
}
