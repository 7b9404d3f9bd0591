package cli

import (
	"strings"
	"testing"

	"coppice/internal/blob/blobtest"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// climbing is a sweep of six trials that pauses trials at rungs, planned and not begun.
func (w *world) climbing(limits string) *sweep.Plan {
	w.t.Helper()
	w.staged()
	spec := strings.Replace(sweepYAML, "search: {random:", "search: {stop: {rule: asha, min_trees: 5}, random:", 1)
	spec = strings.Replace(spec, "trials: 4", "trials: 6", 1)
	spec = strings.Replace(spec, "sweep: 5m", "sweep: 5m"+limits, 1)
	w.must("sweep", w.file("sweep.yaml", spec), "--id", "night-1", "--no-wait")
	return w.plan("night-1")
}

// atRung writes a trial's score at the first rung, and that it was paused there.
func (w *world) atRung(p *sweep.Plan, trial int, score float64, paused bool) {
	w.t.Helper()
	trials, step := sweepstore.NewTrials(w.buckets["sweeps"], p), p.Spec.Search.Stop.Rungs[0]
	if _, err := trials.CreateRung(w.t.Context(), sweep.Rung{Format: 1, Sweep: p.Sweep, Trial: trial, Step: step,
		Score: score, Pause: paused, Seen: []sweep.Reached{}}); err != nil {
		w.t.Fatal(err)
	}
	if !paused {
		return
	}
	if err := trials.CreatePause(w.t.Context(), trial, 0, step); err != nil {
		w.t.Fatal(err)
	}
}

// write creates objects of the sweeps bucket.
func (w *world) write(objects map[string]any) {
	w.t.Helper()
	for name, v := range objects {
		if ok, err := blobtest.CreateJSON(w.t.Context(), w.buckets["sweeps"], name, v); err != nil || !ok {
			w.t.Fatalf("write %s: created %t, error %v", name, ok, err)
		}
	}
}

// doneResult is the result of a trial with a model.
func doneResult(trial int, score float64) sweep.Result {
	o := sweep.Object{Name: sweep.Names("night-1").Attempt(trial, 0) + "x"}
	return sweep.Result{Format: 1, Sweep: "night-1", Trial: trial, Status: sweep.StatusDone, Score: score, Trees: 10,
		TreesGrown: 10, Model: &o, Scores: &sweep.Scored{Calib: o, Test: o}}
}

// extended checks what a sweep has inherited of night-1: by trial, the status and whether it has a score at a rung; and
// which of night-1's configurations it trains again, in this order.
func (w *world) extended(p *sweep.Plan, statuses []sweep.Status, scored []bool, again ...int) {
	w.t.Helper()
	distinctOwn := map[string]bool{}
	for i, want := range statuses {
		r, has := p.Inherited(i), false
		for _, at := range p.Extends.Reached {
			has = has || at.Trial == i
		}
		if r.Status != want || has != scored[i] {
			w.t.Errorf("trial %d of night-1 is %s in %s, with a score at a rung %t (%s); want %s, %t", i, r.Status,
				p.Sweep, has, r.Reason, want, scored[i])
		}
	}
	old := w.plan("night-1")
	for i, trial := range p.Own() {
		key := jsonOf(w.t, trial.Params)
		switch {
		case i < len(again) && key != jsonOf(w.t, old.Trials[again[i]].Params):
			w.t.Errorf("trial %d trains %s (%s); want what trial %d of night-1 was to train", trial.Number, key,
				trial.Reason, again[i])
		case i >= len(again) && trial.Reason != "" || distinctOwn[key]:
			w.t.Errorf("trial %d trains %s (%s); want a new configuration", trial.Number, key, trial.Reason)
		}
		distinctOwn[key] = true
	}
}

// TestExtendASweepWithPausedTrials that reached its limit: paused ones that were behind are stopped trials with their
// scores, and not trained again. Those that were to go on come first, and their scores count once. When they are done,
// a further extension trains none of them.
func TestExtendASweepWithPausedTrials(t *testing.T) {
	w := newWorld(t)
	p := w.climbing("")
	for trial, score := range []float64{0.9, 0.5, 0.7, 0.6, 0.95} {
		w.atRung(p, trial, score, trial > 0)
	}
	names := sweep.Names("night-1")
	w.write(map[string]any{
		names.Result(0): doneResult(0, 0.9),
		names.Ending(): sweep.Ending{Format: 1, Sweep: "night-1", Early: "5 of 6 trials had not ended",
			Trials: []int{0}, Behind: []int{1, 2, 3}},
		names.Conclusion(): sweep.Conclusion{Format: 1, Sweep: "night-1", Outcome: sweep.OutcomeNoWinner,
			Reason: "too few"},
	})

	w.must("extend", "night-1", "--trials", "3", "--id", "night-2", "--no-wait")
	stopped, cancelled := sweep.StatusStopped, sweep.StatusCancelled
	next := w.plan("night-2")
	w.extended(next, []sweep.Status{sweep.StatusDone, stopped, stopped, stopped, cancelled, cancelled},
		[]bool{true, true, true, true, false, false}, 4, 5)
	if r := next.Inherited(2); r.Score != 0.7 || len(r.Rungs) != 1 || r.Untrained() ||
		!strings.Contains(r.Reason, "paused there, behind others") {
		t.Errorf("trial 2, paused behind others, is %+v; want it stopped at its rung with a score of 0.7", r)
	}

	// With room for one, the trial that had come further is trained, and the other stays unfinished.
	w.must("extend", "night-1", "--trials", "1", "--id", "short", "--no-wait")
	w.extended(w.plan("short"), []sweep.Status{sweep.StatusDone, stopped, stopped, stopped, cancelled, cancelled},
		[]bool{true, true, true, true, false, false}, 4)

	w.ended(next, sweep.Conclusion{Outcome: sweep.OutcomeNoWinner, Reason: "none is better"}, 0.5)
	w.must("extend", "night-2", "--trials", "2", "--id", "night-3", "--no-wait")
	for _, trial := range w.plan("night-3").Own() {
		if trial.Reason != "" {
			t.Errorf("trial %d of the extension of the extension was planned as %q; want only new configurations",
				trial.Number, trial.Reason)
		}
	}
}

// TestExtendASweepThatHadEnough: of the trials that ended at their pauses, those that would have gone on are trained
// again, before those that were not trained, and their scores count once.
func TestExtendASweepThatHadEnough(t *testing.T) {
	w := newWorld(t)
	p := w.climbing(", target: 0.9")
	step := p.Spec.Search.Stop.Rungs[0]
	names := sweep.Names("night-1")
	objects := map[string]any{
		names.Result(0): doneResult(0, 0.9),
		names.Result(1): sweep.Result{Format: 1, Sweep: "night-1", Trial: 1, Status: sweep.StatusStopped,
			Reason: "not trained"},
		names.Ending(): sweep.Ending{Format: 1, Sweep: "night-1", Early: "1 of 6 was not trained",
			Trials: []int{0, 1, 2, 3, 4, 5}},
		names.Conclusion(): sweep.Conclusion{Format: 1, Sweep: "night-1", Outcome: sweep.OutcomeNoWinner,
			Reason: "because"},
	}
	for trial, score := range []float64{0.9, 0, 0.5, 0.7, 0.95, 0.6} {
		if trial == 1 {
			continue
		}
		w.atRung(p, trial, score, trial > 0)
		if trial == 0 {
			continue
		}
		objects[names.Result(trial)] = sweep.Result{Format: 1, Sweep: "night-1", Trial: trial,
			Status: sweep.StatusStopped, Score: score, TreesGrown: step, Reason: "the sweep has enough"}
		// Trial 3 had been promoted by a task that did not know yet.
		objects[names.Promotion(trial, step)] = sweep.Promotion{Format: 1, Sweep: "night-1", Trial: trial, Step: step,
			Score: score, Promoted: trial == 3, Enough: trial != 3, Seen: []sweep.Reached{}}
	}
	w.write(objects)

	w.must("extend", "night-1", "--trials", "4", "--id", "night-2", "--no-wait")
	stopped, cancelled := sweep.StatusStopped, sweep.StatusCancelled
	w.extended(w.plan("night-2"), []sweep.Status{sweep.StatusDone, stopped, stopped, cancelled, cancelled, stopped},
		[]bool{true, false, true, false, false, true}, 3, 4, 1)
}
