package conclude

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// crossed is a sweep of three configurations in two folds, with the given fold scores by configuration and n trials
// ended, the refit last.
func crossed(t *testing.T, ended int, change func(*sweep.Plan), scores ...[2]float64) *world {
	t.Helper()
	var rounds []sweep.Round
	for f := range uint8(2) {
		rounds = append(rounds, sweep.Round{Train: sweep.Rows{Split: "train", Folds: []uint8{1 - f}},
			Rated: sweep.Rows{Split: "train", Folds: []uint8{f}}})
	}
	w := newWorld(t, options{skip: func(int) bool { return true }, change: func(p *sweep.Plan) {
		p.Spec.Validate = &sweep.Validate{KFold: 2}
		p.Folds = sweep.NewFolds("kfold", rounds)
		p.Trials = p.Folds.Expand(p.Trials)
		if change != nil {
			change(p)
		}
	}})

	for i, trial := range w.plan.Trials[:min(ended, 6)] {
		score := scores[trial.Configuration][trial.Fold-1]
		r := sweep.Result{Format: 1, Sweep: w.plan.Sweep, Trial: i, Status: sweep.StatusDone, Params: trial.Params,
			Configuration: trial.Configuration, Fold: trial.Fold,
			Score: score, Metrics: map[string]float64{"auc": score}, BestIteration: 7, Trees: 7, TrainRows: 900}
		if score == 0 {
			r.Status, r.Reason = sweep.StatusFailed, "out of memory"
		}
		w.write(t, sweep.Names(w.plan.Sweep).Result(i), r)
	}
	if ended > 6 {
		w.train(t, 6, func(r *sweep.Result, _ map[string][]byte) { r.Score = 0.75 })
	}
	return w
}

// TestASweepOfFolds: only the refit may win, with its configuration's mean over the folds.
func TestASweepOfFolds(t *testing.T) {
	// a fold of the default configuration has no scores on test to compare with
	usual := func(p *sweep.Plan) {
		for i := range p.Trials {
			p.Trials[i].Source = search.SourceDefault
		}
	}
	w := crossed(t, 7, usual, [2]float64{0.6, 0.62}, [2]float64{0.7, 0.8}, [2]float64{0.9, 0})
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Trial != 6 || c.Version != 1 {
		t.Fatalf("the sweep's end: %+v; want trial 6, the refit, to win", c)
	}
	contains(t, c.Reason,
		"configuration 1 has the highest mean auc over 2 folds, 0.75 ± 0.05; next is configuration 0 with 0.61")
	contains(t, c.Reason, "trial 6 trains it on all rows of train and valid, with 7 trees")
}

// TestASweepOfFoldsWithoutAWinner: the reason says what was missing.
func TestASweepOfFoldsWithoutAWinner(t *testing.T) {
	good := [][2]float64{{0.6, 0.62}, {0.7, 0.8}, {0.9, 0.1}}
	for name, tc := range map[string]struct {
		ended  int
		scores [][2]float64
		want   string
	}{
		"no time for the refit": {6, good, "the refit, trial 6, had not ended"},
		"folds are missing":     {4, good, "had not ended after 6h0m0s, the sweep's time limit"},
		"folds have failed": {7, [][2]float64{{0, 0.6}, {0.7, 0}, {0.8, 0.8}},
			"1 of 3 configurations has all its folds, and the quorum is 2"},
	} {
		w := crossed(t, tc.ended, nil, tc.scores...)
		w.now = created.Add(7 * time.Hour)
		c, err := w.aggregator().Consider(t.Context(), w.plan.Sweep)
		if err != nil || c == nil {
			t.Fatalf("%s: considered the sweep: %+v, %v; want a conclusion", name, c, err)
		}
		if c.Outcome != sweep.OutcomeNoWinner || !strings.Contains(c.Reason, tc.want) {
			t.Errorf("%s: %+v; want no winner, because %q", name, c, tc.want)
		}
	}
}

// TestAResultOfAnotherFold: a result that names another fold than its trial's is damaged, and its configuration cannot
// win.
func TestAResultOfAnotherFold(t *testing.T) {
	w := crossed(t, 7, nil, [2]float64{0.6, 0.62}, [2]float64{0.7, 0.8}, [2]float64{0.5, 0.5})
	name := sweep.Names(w.plan.Sweep).Result(2)
	data, _ := must.Get2(blob.ReadAll(t.Context(), w.sweeps, name, 1<<20))(t)
	must.Get(w.sweeps.Put(t.Context(), name, blob.Any, strings.NewReader(strings.Replace(string(data), `"fold":1`,
		`"fold":2`, 1))))(t)
	contains(t, w.mustConclude(t).Reason, "configuration 0 has the highest mean auc")
}
