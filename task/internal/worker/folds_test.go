package worker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// newFolded plans so many configurations on a small table with groups, without statistics of ids, which folds do not
// support. change, which is usually folded, edits the plan.
func newFolded(t *testing.T, configurations int, change func(*sweep.Plan)) *world {
	t.Helper()
	return newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: dataset.EncodeNone,
		Split: "{by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\ngroup: user_id"},
		configurations, change)
}

// folded returns a change of a plan that makes its trials configurations in k folds. With drop, weak ones are dropped
// after their first three folds.
func folded(k int, drop bool) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		p.Spec.Validate = &sweep.Validate{KFold: k}
		m := &dataset.Manifest{Name: p.Dataset.Name, Split: dataset.SplitRule{By: dataset.SplitByHash}}
		folds, err := fit.Folds(m, fit.KFold, k)
		if err != nil {
			panic(err)
		}
		var rounds []sweep.Round
		for _, f := range folds {
			rounds = append(rounds, sweep.Round{Train: f.Train, Rated: f.Rated})
		}
		p.Folds = sweep.NewFolds("kfold", rounds, drop)
		p.Trials = p.Folds.Expand(p.Trials)
	}
}

// board returns the board of the sweep, all of whose trials have results.
func (w *world) board(t *testing.T) sweep.Board {
	t.Helper()
	var results []sweep.Result
	for i := range w.plan.Trials {
		results = append(results, *w.result(t, i))
	}
	return sweep.MakeBoard(w.plan, results)
}

// refit returns the files of the last trial, a refit or final training, as text: the model, and its scores. It has to
// be done.
func (w *world) refit(t *testing.T) string {
	t.Helper()
	r := w.result(t, len(w.plan.Trials)-1)
	if r.Status != sweep.StatusDone {
		t.Fatalf("the refit: %s: %s; want it done", r.Status, r.Reason)
	}
	out := ""
	for _, o := range []sweep.Object{*r.Model, r.Scores.Calib, r.Scores.Test} {
		data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, o.Name, 1<<24))(t)
		out += string(data)
	}
	return out
}

// TestFoldsAreTrials: one task and four that start at once come to the same states and means of all configurations of a
// cross-validated sweep, and to a refit with the same bytes, which checkRefit checks.
func TestFoldsAreTrials(t *testing.T) {
	var refits []string
	for _, tasks := range []int{1, 4} {
		w := newFolded(t, 4, folded(4, true))
		w.tasks(t, tasks)

		b := w.board(t)
		text := w.refit(t)
		for _, c := range b.Configurations {
			text += fmt.Sprintln(c.Configuration, c.State, c.Reason, *c.Mean, c.Trees)
		}
		refits = append(refits, text)
		w.checkRefit(t, b)
	}
	if refits[0] != refits[1] {
		t.Errorf("one task comes to\n%.2000s\nand four to\n%.2000s\nwant the same", refits[0], refits[1])
	}
}

// checkRefit fails the test unless the refit has trained the best configuration on all rows of train and valid, with
// the number of trees that its folds chose and without early stopping, and has its mean as the score.
func (w *world) checkRefit(t *testing.T, b sweep.Board) {
	t.Helper()
	r, best := b.Rows[0].Result, b.Configurations[0]
	rows := 0
	for _, split := range []string{"train", "valid"} {
		s, _ := w.manifest.FindSplit(split)
		rows += s.Rows
	}
	if b.Rows[0].Trial.Refit && best.State == sweep.ConfigurationDone && r.TrainRows == rows && r.Score == *best.Mean &&
		r.Trees == best.Trees &&
		r.Params["num_leaves"] == best.Params["num_leaves"] && r.Params["early_stopping_round"] == 0.0 {
		return
	}
	t.Errorf("the refit has %d rows, score %v, %d trees, %v leaves; want %d rows and what configuration %d (%s) "+
		"has: mean %v, %d trees, %v leaves",
		r.TrainRows, r.Score, r.Trees, r.Params["num_leaves"], rows, best.Configuration, best.State, *best.Mean,
		best.Trees, best.Params["num_leaves"])
}

// TestWeakConfigurationsAreDropped: a configuration that cannot learn is dropped after its first three of five folds,
// with the reason. The others are trained on all folds.
func TestWeakConfigurationsAreDropped(t *testing.T) {
	change := func(p *sweep.Plan) {
		p.Trials[1].Params["learning_rate"] = 1e-6
		p.Trials[1].Params["min_data_in_leaf"] = 400.0
		folded(5, true)(p)
	}
	// Each of the two parameters alone would keep configuration 1 from learning.
	w := newFolded(t, 3, change)
	w.run(t, 0)
	for _, c := range w.board(t).Configurations {
		want := sweep.ConfigurationDone
		if c.Configuration == 1 {
			want = sweep.ConfigurationDropped
		}
		if c.State != want {
			t.Errorf("configuration %d: %s (%s), scores %v; want it %s", c.Configuration, c.State, c.Reason, c.Scores,
				want)
		}
		if want == sweep.ConfigurationDropped && (!strings.Contains(c.Reason, "is behind configuration") ||
			c.Folds != 3) {
			t.Errorf("it was dropped after %d folds, because %q; want 3, and behind which configuration it is", c.Folds,
				c.Reason)
		}
	}
}

// TestAFoldThatFails: a configuration whose folds fail has failed, with the reason, and the refit trains the other one.
// If all configurations have failed, the refit fails as well.
func TestAFoldThatFails(t *testing.T) {
	for _, all := range []bool{false, true} {
		w := newFolded(t, 2, func(p *sweep.Plan) {
			p.Trials[0].Params["num_leaves"] = "many"
			if all {
				p.Trials[1].Params["num_leaves"] = "many"
			}
			folded(4, true)(p)
		})
		w.run(t, 0)
		b := w.board(t)
		i := slices.IndexFunc(b.Configurations, func(c sweep.Rated) bool { return c.Configuration == 0 })
		if c := b.Configurations[i]; c.State != sweep.ConfigurationFailed || !strings.Contains(c.Reason, "num_leaves") {
			t.Errorf("configuration 0 is %s: %s; want it failed for its num_leaves", c.State, c.Reason)
		}
		r := w.result(t, len(w.plan.Trials)-1)
		if all && (r.Status != sweep.StatusFailed || !strings.Contains(r.Reason, "2 have failed")) || !all &&
			r.Status != sweep.StatusDone {
			t.Errorf("all failed %t: the refit is %s: %s; want it done, or, if all have, failed because 2 have", all,
				r.Status, r.Reason)
		}
	}
}

// TestFoldsByGroup: a sweep with folds by group trains on a dataset with groups. On one without, the task fails for
// good before it trains anything.
func TestFoldsByGroup(t *testing.T) {
	change := func(p *sweep.Plan) { folded(2, true)(p); p.Folds.Scheme = string(fit.GroupKFold) }
	w := newFolded(t, 1, change)
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Errorf("folds by group of a dataset with groups: %v; want no error", err)
	}
	w.refit(t)

	w = newWorld(t, 1, change)
	err := w.worker(0).Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has no groups") || !permanent(err) {
		t.Errorf("folds by group of a dataset without groups: %v; want that it has none, for good", err)
	}
	if claims := w.claimsOf(t); len(claims) > 0 {
		t.Errorf("folds by group of a dataset without groups: claimed %v, want no trial begun", claims)
	}
}

// openFolds returns a change of a plan that leaves all configurations but the first open, each in four folds of which
// three are trained first.
func openFolds(random map[string]sweep.Distribution) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		open(sweep.MethodAuto, random)(p)
		folded(4, true)(p)
	}
}

// decidedFolds returns the decisions by configuration. It fails the test unless each open configuration was decided
// once, under its first fold, all of its folds have trained what the decision says, no two configurations are the same,
// and every decision can be reproduced from its record.
func (w *world) decidedFolds(t *testing.T) map[int]*sweep.Decision {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	decisions, by := map[int]*sweep.Decision{}, map[string]int{}
	for n, trial := range w.plan.Trials[:len(w.plan.Trials)-1] {
		d := must.Get(trials.Decision(t.Context(), n))(t)
		if decides := trial.Open && trial.Fold == 1; (d != nil) != decides {
			t.Fatalf("trial %d is fold %d of configuration %d, and has its own decision: %t; want one for each open "+
				"configuration, under its first fold", n, trial.Fold, trial.Configuration, d != nil)
		}
		if d != nil {
			decisions[trial.Configuration] = d
			replay(t, w.plan, d)
		}

		want := trial.Params
		if trial.Open {
			want = decisions[trial.Configuration].Params
		}
		r, key := w.result(t, n), sweep.ConfigurationKey(want)
		if got := sweep.ConfigurationKey(r.Params); got != key {
			t.Errorf("fold %d of configuration %d has trained %v; want %v", trial.Fold, trial.Configuration, r.Params,
				want)
		}
		if other, known := by[key]; known && other != trial.Configuration {
			t.Errorf("configurations %d and %d are both %v, want different ones", other, trial.Configuration, want)
		}
		by[key] = trial.Configuration
	}
	return decisions
}

// TestOpenConfigurationsAreDecidedOnce: each open configuration is decided once, even if three tasks that hold folds of
// it write their decisions at the same moment. One task decides each from the means of the first folds of all before.
// The refit trains the best. Of eleven configurations the last three are from a model, which takes over after eight.
func TestOpenConfigurationsAreDecidedOnce(t *testing.T) {
	for _, tasks := range []int{3, 1} {
		if tasks == 1 && testing.Short() {
			break
		}
		w := newFolded(t, 11, openFolds(wide))
		store := w.sweeps
		if tasks > 1 {
			// Configuration 1 is the first open one. Its first fold is trial 3, since configuration 0 has three first
			// folds. Its decision is held back until all three tasks, each with one of its folds, have made it.
			made, all := atomic.Int32{}, make(chan struct{})
			store = instead(w.sweeps, "trials/0003/decision", func(context.Context) error {
				if made.Add(1) == int32(tasks) {
					close(all)
				}
				<-all
				return nil
			})
		}
		var wg sync.WaitGroup
		for task := range tasks {
			wg.Go(func() {
				worker := w.worker(task)
				worker.Sweeps = store
				if err := worker.Run(t.Context()); err != nil {
					t.Errorf("task %d of %d: %v", task, tasks, err)
				}
			})
		}
		wg.Wait()

		// decidedFolds checks that each was decided once. With one task, every decision has also seen all
		// configurations before.
		decisions := w.decidedFolds(t)
		w.checkRefit(t, w.board(t))
		if tasks > 1 {
			continue
		}
		for c, d := range decisions {
			if len(d.Seen) != c || d.Holder != 0 {
				t.Errorf("configuration %d was decided by %d others, for trial %d (0 for its first fold); want by all "+
					"%d before it, for its first fold", c, len(d.Seen), d.Holder, c)
			}
			for i, s := range d.Seen {
				mean := 0.0
				for _, f := range w.plan.FirstFolds(i) {
					mean += w.result(t, f.Number).Score / 3
				}
				if s.Status != sweep.StatusDone || s.Score == nil || *s.Score != mean {
					t.Errorf("configuration %d has seen configuration %d as %+v; want the mean of its first three "+
						"folds, %v", c, i, s, mean)
				}
			}
		}
		if last := decisions[10]; last.Source != sweep.MethodGP {
			t.Errorf("the last configuration is from %s: %s; want it from a model of the results", last.Source,
				last.Reason)
		}
	}
}

// TestOpenConfigurationsOutliveTheirTask: if a task vanishes before it has written a decision, the next one decides,
// and if it vanishes just after, the next one follows the decision. A configuration whose first fold was cancelled is
// decided for its next one, and its last fold is not trained.
//
// Of three configurations in four folds, the plan lists the first three folds of each, and then the fourth of each:
// trials 0 to 2, 3 to 5, 6 to 8, and 9 to 11. So configuration 1, the first open one, has trials 3, 4, 5 and 10. Its
// decision is written under trial 3.
func TestOpenConfigurationsOutliveTheirTask(t *testing.T) {
	// What is decided is first reserved, by an object in configurations/, and then written under decision.json.
	for _, at := range []string{"configurations/", "0003/decision.json"} {
		w := newFolded(t, 3, openFolds(wide))
		w.until(t, 0, at, 1) // its machine vanishes just after it has written the first such object
		before, err := sweepstore.NewTrials(w.sweeps, w.plan).Decision(t.Context(), 3)
		if written := strings.Contains(at, "decision"); err != nil || (before != nil) != written {
			t.Fatalf("%s: the task vanished, and the decision about configuration 1 is %+v, error %v; want it "+
				"written: %t", at, before, err, written)
		}

		second := w.worker(0)
		second.Attempt = 1
		runs(t, second)
		if after := w.decidedFolds(t)[1]; before != nil && !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the decision was %+v and is %+v, want the same", at, before, after)
		}
		w.checkRefit(t, w.board(t))
	}

	// The first fold of configuration 1, trial 3, was cancelled. So trial 4, the next fold, makes the decision
	// (Holder), and trial 5 follows it. Trial 10, the last fold, is not trained, since no mean of all folds can be had.
	w := newFolded(t, 3, openFolds(wide))
	must.Get(sweepstore.NewTrials(w.sweeps, w.plan).CreateResult(t.Context(),
		sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: 3, Configuration: 1, Fold: 1,
			Status: sweep.StatusCancelled, Reason: "no longer wanted"}))(t)
	w.run(t, 0)
	d, err := sweepstore.NewTrials(w.sweeps, w.plan).Decision(t.Context(), 3)
	if err != nil || d == nil || d.Holder != 4 ||
		sweep.ConfigurationKey(w.result(t, 5).Params) != sweep.ConfigurationKey(d.Params) {
		t.Errorf("the first fold was cancelled, and the decision is %+v, error %v; want it made for trial 4, and "+
			"followed by trial 5, which has trained %v", d, err, w.result(t, 5).Params)
	}
	if r := w.result(t, 10); r.Status != sweep.StatusStopped || !strings.Contains(r.Reason, "has no score in fold 1") {
		t.Errorf("the last fold of the configuration is %s: %s; want it not trained for want of a score", r.Status,
			r.Reason)
	}
	w.checkRefit(t, w.board(t))
}

// TestOpenFoldsOverAFoulStore: over a store that loses answers and stalls, as in TestTasksOverAFoulStore, each open
// configuration is decided once, all its folds train the same, and the refit trains the best.
func TestOpenFoldsOverAFoulStore(t *testing.T) {
	for seed := range some(3, 1) {
		w := newFolded(t, 5, openFolds(wide))
		synctest.Test(t, func(t *testing.T) { w.foul(t, seed) })
		w.decidedFolds(t)
		w.checkRefit(t, w.board(t))
	}
}
