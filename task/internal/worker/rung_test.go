package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// stopping returns a change of a plan that makes trials of 27 trees with very different learning rates, the first the
// highest, and compares them by a rule at 3 and 9 trees.
func stopping(rule string) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		p.Spec.Search.Stop = &sweep.Stop{Rule: rule, By: sweep.ByTrees, Eta: 3, MinTrees: 3, Rungs: []int{3, 9}}
		for i := range p.Trials {
			p.Trials[i].Params["num_iterations"], p.Trials[i].Params["early_stopping_round"] = 27.0, 0.0
			p.Trials[i].Params["num_leaves"], p.Trials[i].Params["learning_rate"] = 8.0, 0.3/float64(1+i)
		}
	}
}

// stopped checks that every trial has ended as the records of its rungs say, that each record can be reproduced, and
// that no checkpoint is left. If calm, every stopped trial has to have a learning curve. It returns the numbers of
// stopped and of done trials.
func (w *world) stopped(t *testing.T, calm bool) (stopped, done int) {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	list := must.Get(trials.List(t.Context()))(t)
	for i := range w.plan.Trials {
		r := w.result(t, i)
		last, paused := w.way(t, trials, i)
		reason := ""
		if last != nil {
			reason = last.Reason
		}
		if paused != nil {
			reason = paused.Reason
		}

		switch {
		case last == nil:
			t.Errorf("trial %d has passed no rung", i)
		case paused != nil && !paused.Promoted:
			stopped++
			if r.Status != sweep.StatusStopped || r.Score != last.Score || r.TreesGrown != last.Step ||
				r.Model != nil || !strings.Contains(r.Reason, reason) {
				t.Errorf("trial %d was stopped at %d trees with %v, and its result is %s with %v after %d trees: %q", i,
					last.Step, last.Score, r.Status, r.Score, r.TreesGrown, r.Reason)
			}
			if curves, err := trials.Curves(t.Context(), list.Trials[i]); calm &&
				(err != nil || len(sweep.JoinCurves(curves)) == 0) {
				t.Errorf("trial %d was stopped and has no curve, error %v", i, err)
			}
		default:
			done++
			if r.Status != sweep.StatusDone || r.TreesGrown != 27 {
				t.Errorf("trial %d goes on from %d trees, and its result is %s after %d trees: %s", i, last.Step,
					r.Status, r.TreesGrown, r.Reason)
			}
		}
		if left, _ := w.checkpointsOf(t, i); len(left) > 0 {
			t.Errorf("trial %d has ended and %d checkpoints are left", i, len(left))
		}
	}
	return stopped, done
}

// way follows a trial from rung to rung, and checks that each decision comes out again from what its record has seen.
// It returns the record of the last rung, and what became of the trial if it was paused there.
func (w *world) way(t *testing.T, trials *sweepstore.Trials, trial int) (last *sweep.Rung, paused *sweep.Promotion) {
	t.Helper()
	for _, step := range w.plan.Spec.Search.Stop.Rungs {
		rung := must.Get(trials.Rung(t.Context(), trial, step))(t)
		after := must.Get(trials.Promotion(t.Context(), trial, step))(t)
		if rung == nil {
			if after != nil {
				t.Errorf("trial %d did not come to %d trees, and was paused there: %+v", trial, step, after)
			}
			continue
		}
		if last != nil && paused != nil && !paused.Promoted {
			t.Errorf("trial %d comes to %d trees; want it to end at %d", trial, step, last.Step)
		}

		last, paused = rung, after
		v := search.AtRung(w.plan, sweep.Reached{Step: step, Trial: trial, Score: rung.Score}, rung.Seen)
		if (v.Action == search.Wait) != rung.Pause || v.Reason != rung.Reason {
			t.Errorf("trial %d at %d trees: decided again it is %+v; written down is pause %t because %q", trial, step,
				v, rung.Pause, rung.Reason)
		}
		if rung.Pause != (after != nil) {
			t.Errorf("trial %d at %d trees: paused %t, and what became of it is %+v", trial, step, rung.Pause, after)
		}
		if after == nil {
			continue
		}
		replayPromotion(t, w.plan, after)
	}
	return last, paused
}

// TestTrialsBehindAreStopped: with every rule, of nine trials that one task trains from the best to the worst, at least
// two are stopped at a rung and at least one is done, all as their rungs' records say.
func TestTrialsBehindAreStopped(t *testing.T) {
	for _, rule := range sweep.StopRules() {
		t.Run(rule, func(t *testing.T) {
			w := newWorld(t, 9, stopping(rule))
			w.run(t, 0)
			stopped, done := w.stopped(t, true)
			t.Logf("%d stopped, %d done", stopped, done)
			if stopped < 2 || done < 1 {
				t.Errorf("%d trials were stopped and %d are done; want two and one at least", stopped, done)
			}
		})
	}
}

// TestAModelDoesNotDependOnRungs: a trial that is compared at rungs, or by a sample of the rows, and continues has the
// same model as in a sweep without that.
func TestAModelDoesNotDependOnRungs(t *testing.T) {
	for name, compared := range map[string]func(*sweep.Plan){"rungs": stopping(sweep.StopASHA), "samples": bySamples} {
		with, without := newWorld(t, 1, compared), newWorld(t, 1, func(p *sweep.Plan) {
			compared(p)
			p.Spec.Search.Stop = nil
		})
		with.run(t, 0)
		without.run(t, 0)
		if a, b := with.model(t, 0), without.model(t, 0); !bytes.Equal(a, b) {
			t.Errorf("a model of %d bytes with %s, of %d without; want the same", len(a), name, len(b))
		}
	}
}

// TestStoppingOverAFoulStore: over a store that loses answers and stalls, every trial ends as the records of its rungs
// say, with rungs as with samples. Over all seeds some trial is stopped.
func TestStoppingOverAFoulStore(t *testing.T) {
	for name, change := range map[string]func(*sweep.Plan){sweep.StopASHA: stopping(sweep.StopASHA),
		sweep.StopHalving: stopping(sweep.StopHalving), "samples": bySamples} {
		total := 0
		for seed := range some(4, 2) {
			w := newWorld(t, 9, change)
			synctest.Test(t, func(t *testing.T) { w.foul(t, seed) })
			stopped, done := w.stopped(t, false) // curves are best effort
			t.Logf("%s, seed %d: %d stopped, %d done", name, seed, stopped, done)
			total += stopped
		}
		if total == 0 {
			t.Errorf("%s: no trial was stopped in any sweep; want some, or nothing was tested", name)
		}
	}
}

// evicted returns a store whose machine is told to go while it writes the record of a rung. The write succeeds if
// written is true, but its writer does not learn that, and cannot read the record either. tell tells the machine.
func evicted(s blob.Store, written bool, tell func()) blob.Store {
	gone := false
	away := func() error {
		gone = true
		tell()
		return context.Canceled
	}
	return &blobtest.Hooked{Store: s,
		Before: func(_ context.Context, call blobtest.Call, name string) error {
			switch rung := call != blobtest.List && strings.Contains(name, "/rungs/"); {
			case rung && call == blobtest.Put && !written:
				return away()
			case rung && call != blobtest.Put && gone:
				return context.Canceled
			}
			return nil
		},
		After: func(_ context.Context, call blobtest.Call, name string, err error) error {
			if call == blobtest.Put && err == nil && strings.Contains(name, "/rungs/") {
				return away()
			}
			return err
		}}
}

// TestARungIsNotSkipped: a trial whose holder is told to go while it writes the record of a rung reaches the rung again
// under its next holder, which follows the record if there is one. Every attempt of the task is told to go at a rung,
// every second one with the record written.
func TestARungIsNotSkipped(t *testing.T) {
	w := newWorld(t, 9, stopping(sweep.StopASHA))
	evictions := 0
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		worker := w.worker(0)
		worker.Attempt, worker.Nonce = attempt, strings.Repeat("n", attempt+1) // each attempt is a process of its own
		worker.Sweeps = evicted(w.sweeps, attempt%2 == 0, func() { evictions++; cancel() })
		err := worker.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		if attempt == 50 {
			t.Fatalf("after 50 attempts the sweep has not ended: %v", err)
		}
	}
	if evictions < 9 {
		t.Errorf("%d holders had to go at a rung; want one for every trial at least", evictions)
	}
	if stopped, _ := w.stopped(t, false); stopped == 0 {
		t.Error("no trial was stopped; want some, or nothing was tested")
	}
}

// decisions returns the records of all rungs and promotions, without times and writers, and all models, by object.
func (w *world) decisions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for attrs, err := range w.sweeps.List(t.Context(), sweep.Names(w.plan.Sweep).Trials()) {
		must.Do(t, err)
		_, part, _, _ := sweep.Names(w.plan.Sweep).ParseTrialObject(attrs.Name)
		switch data, _, err := blob.ReadAll(t.Context(), w.sweeps, attrs.Name, 1<<24); {
		case err != nil:
			t.Fatal(err)
		case part == sweep.PartRung || part == sweep.PartPromotion:
			var v map[string]any
			must.Do(t, json.Unmarshal(data, &v))
			maps.DeleteFunc(v, func(key string, _ any) bool {
				return slices.Contains([]string{"at", "write_id", "task", "attempt"}, key)
			})
			out[attrs.Name] = fmt.Sprint(v)
		case strings.HasSuffix(attrs.Name, "model.txt"):
			out[attrs.Name] = string(data)
		}
	}
	return out
}

// TestHalvingIsTheSameForAnyNumberOfTasks: with halving the records of rungs, what becomes of paused trials, and the
// models are the same for one, two and five tasks. Of nine trials one in three goes on at each of two rungs, so one is
// done.
func TestHalvingIsTheSameForAnyNumberOfTasks(t *testing.T) {
	var want map[string]string
	for _, tasks := range []int{1, 2, 5} {
		w := newWorld(t, 9, stopping(sweep.StopHalving))
		w.tasks(t, tasks)
		if stopped, done := w.stopped(t, true); stopped != 8 || done != 1 {
			t.Errorf("%d tasks, nine trials, one in three goes on at two rungs: %d stopped, %d done; want 8 and 1",
				tasks, stopped, done)
		}
		got := w.decisions(t)
		if want == nil {
			want = got
		}
		for name := range maps.Keys(want) {
			if got[name] != want[name] {
				t.Errorf("%d tasks: %s is %.300q; with one task it is %.300q", tasks, name, got[name], want[name])
			}
		}
		// Nine trials come to the first rung and three to the second, and each has a record and a promotion there.
		if least := 2 * (9 + 3); len(got) != len(want) || len(got) < least {
			t.Errorf("%d tasks: %d rungs, promotions and models; want %d, as with one task, and at least %d", tasks,
				len(got), len(want), least)
		}
	}
}

// TestAPromotedTrialIsTheSame: trials that were paused, promoted and trained to their end have the models of a sweep
// without rungs, also if their checkpoints were lost meanwhile. The trials come from the worst to the best, so that
// many are paused and promoted.
func TestAPromotedTrialIsTheSame(t *testing.T) {
	reversed := func(p *sweep.Plan) {
		stopping(sweep.StopASHA)(p)
		for i := range p.Trials {
			p.Trials[i].Params["learning_rate"] = 0.3 / float64(len(p.Trials)-i)
		}
	}
	// The same trials without rungs.
	plain := newWorld(t, 9, func(p *sweep.Plan) {
		reversed(p)
		p.Spec.Search.Stop = nil
	})
	plain.tasks(t, 1)

	for _, lost := range []bool{false, true} {
		w := newWorld(t, 9, reversed)
		worker := w.worker(0)
		if lost {
			worker.Sweeps = before(w.sweeps, "promotions", func() { w.dropAll(t) })
		}
		runs(t, worker)
		if _, done := w.stopped(t, true); done < 1 {
			t.Errorf("checkpoints lost %t: no trial is done; want one at least", lost)
		}

		// Compare the models of the trials that are done.
		verdicts := 0 // on trials that were paused at 3 trees
		for i := range w.plan.Trials {
			if _, err := w.sweeps.Stat(t.Context(), sweep.Names("test-1").Promotion(i, 3)); err == nil {
				verdicts++
			}
			if r := w.result(t, i); r.Status == sweep.StatusDone {
				if got, want := w.model(t, i), plain.model(t, i); !bytes.Equal(got, want) {
					t.Errorf("checkpoints lost %t: the model of trial %d, once paused, has %d bytes; want the %d "+
						"bytes of one never paused", lost, i, len(got), len(want))
				}
			}
		}
		if verdicts < 3 {
			t.Errorf("checkpoints lost %t: %d paused trials got a verdict at 3 trees; want 3 at least, or little was "+
				"tested", lost, verdicts)
		}
	}
}

// dropAll empties all checkpoints.
func (w *world) dropAll(t *testing.T) {
	t.Helper()
	for trial := range w.plan.Trials {
		_, names := w.checkpointsOf(t, trial)
		for _, name := range names {
			w.put(t, name, "")
		}
	}
}

// TestAPausedTrialWhoseScoreIsLost: a paused trial whose rung's record is damaged is promoted, and the verdict says
// that its score could not be read, so that it can be reproduced.
func TestAPausedTrialWhoseScoreIsLost(t *testing.T) {
	w := newWorld(t, 4, stopping(sweep.StopHalving))
	worker, trials := w.worker(0), sweepstore.NewTrials(w.sweeps, w.plan)
	worker.Sweeps = before(w.sweeps, "pauses", func() { // of trial 0, the first to be paused
		w.put(t, sweep.Names(w.plan.Sweep).Rung(0, 3), "{")
	})
	runs(t, worker)
	p, err := trials.Promotion(t.Context(), 0, 3)
	if err != nil || p == nil || !p.Promoted || !p.Unread {
		t.Fatalf("what became of a trial whose rung is damaged: got %+v, error %v; want it promoted because its "+
			"score is unread", p, err)
	}
	replayPromotion(t, w.plan, p)
}

// TestALaterHolderWasFirstAtTheRung: a holder that finds at a rung a record of its successor, which had taken it for
// dead, follows that record: its result has the score 0.7 of the record.
func TestALaterHolderWasFirstAtTheRung(t *testing.T) {
	w := newWorld(t, 1, stopping(sweep.StopASHA))
	worker := w.worker(0)
	// The successor writes between this holder's look at the others and its own write.
	worker.Sweeps = before(w.sweeps, "/rungs/3", func() {
		r := sweep.Rung{Format: sweep.FormatVersion, Sweep: w.plan.Sweep, Claim: 1, Step: 3, Score: 0.7,
			Reason: "it goes on"}
		if created, err := sweepstore.NewTrials(w.sweeps, w.plan).CreateRung(t.Context(), r); err != nil || !created {
			t.Errorf("the successor at the rung: created %t, error %v", created, err)
		}
	})

	// a holder that never reads what is there tries to write for ever
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must.Do(t, worker.Run(ctx))
	if r := w.result(t, 0); r.Status != sweep.StatusDone || len(r.Rungs) != 2 || r.Rungs[0].Score != 0.7 {
		t.Errorf("it ended %s with %v at rungs: %s; want done, past both rungs, with 0.7 at the first as written there",
			r.Status, r.Rungs, r.Reason)
	}
}

// TestTheNextBestReplacesAFailedTrial: when nothing is left to train, and the trial that was promoted has failed, the
// other one is promoted in its place and is done. Of two trials with an eta of 3 only one goes on at a rung. The
// verdict on the other has seen no trial, since one that has failed does not count.
func TestTheNextBestReplacesAFailedTrial(t *testing.T) {
	w := newWorld(t, 2, stopping(sweep.StopASHA))
	worker, best := w.worker(0), -1
	worker.Sweeps = before(w.sweeps, "claims/1", func() { // of the one that is promoted first
		for i := range w.plan.Trials {
			if _, err := w.sweeps.Stat(t.Context(), sweep.Names(w.plan.Sweep).Promotion(i, 3)); err != nil {
				continue
			}
			best = i
			r := sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: i, Status: sweep.StatusFailed,
				Reason: "its tasks died"}
			w.putJSON(t, sweep.Names(w.plan.Sweep).Result(i), r)
		}
	})
	runs(t, worker)
	if best < 0 {
		t.Fatal("no trial was promoted; want one, or nothing was tested")
	}
	other := w.result(t, 1-best)
	if other.Status != sweep.StatusDone {
		t.Errorf("trial %d was promoted and failed, and the other ended %s: %s; want done", best, other.Status,
			other.Reason)
	}
	p, err := sweepstore.NewTrials(w.sweeps, w.plan).Promotion(t.Context(), 1-best, 3)
	if err != nil || p == nil || !p.Promoted || len(p.Seen) != 0 {
		t.Fatalf("what became of the other: %+v, error %v; want that it was promoted, having seen no trial that counts",
			p, err)
	}
	replayPromotion(t, w.plan, p)
}

// bySamples changes a plan to trials like those of stopping, which are compared by a training on one row in four. As a
// rung that counts as the trees on all rows that cost the same: a quarter of 27, rounded down.
func bySamples(p *sweep.Plan) {
	stopping(sweep.StopASHA)(p)
	p.Spec.Search.Stop.By, p.Spec.Search.Stop.OneIn, p.Spec.Search.Stop.Rungs = sweep.ByRows, 4, []int{6}
}

// TestTrialsBehindOnSamplesAreStopped: of nine trials that are compared on samples at least two are stopped and one is
// done, as the records say, and the reason of a stopped one names the sample.
func TestTrialsBehindOnSamplesAreStopped(t *testing.T) {
	w := newWorld(t, 9, bySamples)
	w.run(t, 0)
	stopped, done := w.stopped(t, false) // a trial that is stopped has grown no tree on all rows, so it has no curve
	if stopped < 2 || done < 1 {
		t.Errorf("%d trials were stopped and %d are done; want two and one at least", stopped, done)
	}
	for i := range w.plan.Trials {
		if r := w.result(t, i); r.Status == sweep.StatusStopped && !strings.HasPrefix(r.Reason, "on one row in 4: ") {
			t.Errorf("trial %d was stopped with the reason %q; want one that begins with the sample", i, r.Reason)
		}
	}
}

// model reads the model of a trial that is done.
func (w *world) model(t *testing.T, trial int) []byte {
	t.Helper()
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, w.result(t, trial).Model.Name, 1<<24))(t)
	return data
}

// TestASampleIsResumed: a trial whose holders are told to go after every checkpoint, in the training on a sample as in
// the one on all rows, comes to its end with the model of an undisturbed sweep.
func TestASampleIsResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	calm, w := newWorld(t, 1, bySamples), newWorld(t, 1, bySamples)
	calm.run(t, 0)

	preemptions := 0
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		worker := w.worker(0)
		worker.Attempt, worker.Nonce = attempt, strings.Repeat("n", attempt+1)
		preempt := func(_ context.Context, call blobtest.Call, name string, err error) error {
			if call == blobtest.Put && err == nil && strings.Contains(name, "/checkpoints/") {
				if a, err := w.sweeps.Stat(t.Context(), name); err == nil && a.Size > 0 { // saved, not emptied
					preemptions++
					cancel()
				}
			}
			return err
		}
		worker.Sweeps = &blobtest.Hooked{Store: w.sweeps, After: preempt}
		err := worker.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		if attempt == 200 {
			t.Fatalf("after 200 attempts the sweep has not ended: %v", err)
		}
	}
	if preemptions < 2 {
		t.Errorf("%d holders had to go; want one in the sample and one in the whole training at least", preemptions)
	}
	if a, b := w.model(t, 0), calm.model(t, 0); !bytes.Equal(a, b) {
		t.Errorf("a model of %d bytes, of %d without preemptions; want the same", len(a), len(b))
	}
}
