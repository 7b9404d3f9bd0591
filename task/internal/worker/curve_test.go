package worker

import (
	"math"
	"reflect"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// curve is a trial's learning curve over all its claims.
func (w *world) curve(t *testing.T, trial int) []sweep.CurvePoint {
	t.Helper()
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	l := must.Get(trials.List(t.Context()))(t)
	curves := must.Get(trials.Curves(t.Context(), l.Trials[trial]))(t)
	return sweep.JoinCurves(curves)
}

// TestEveryTreeIsOnTheCurve: and the best of them has the score that the result reports.
func TestEveryTreeIsOnTheCurve(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) { p.Trials[1].Params["early_stopping_round"] = 0.0 })
	w.run(t, 0)
	r, points := w.result(t, 0), w.curve(t, 0)
	if len(points) != r.TreesGrown || points[0].Tree != 1 || points[len(points)-1].Tree != r.TreesGrown {
		t.Fatalf("%d trees were grown, the curve is %v", r.TreesGrown, points)
	}
	if best := points[r.BestIteration-1].Score; math.Abs(best-r.Score) > 1e-6 {
		t.Errorf("tree %d has %v on the curve, the result %v", r.BestIteration, best, r.Score)
	}

	// Scores that nothing else needs are not computed for the curve alone.
	if points := w.curve(t, 1); len(points) != 0 {
		t.Errorf("a trial without early stopping has the curve %v, want none", points)
	}
}

// scored makes a trial that nothing interrupts or stops.
func scored(p *sweep.Plan) {
	patient(p)
	p.Trials[0].Params["early_stopping_round"] = 1000.0
}

// TestAnInterruptedCurveIsWhole: the parts before and after an interruption join to one curve, the same that an
// uninterrupted task writes.
func TestAnInterruptedCurveIsWhole(t *testing.T) {
	calm := newWorld(t, 1, scored)
	calm.run(t, 0)
	w := newWorld(t, 1, scored)
	w.interrupted(t, 0, 20)
	again := w.worker(0)
	again.Attempt = 1
	runs(t, again)
	if r := w.result(t, 0); r.Usage.ResumedTrees == 0 {
		t.Fatal("nothing was resumed")
	}
	if got, want := w.curve(t, 0), calm.curve(t, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("with an interruption %d points, without %d; want the same\n%v\n%v", len(got), len(want), got, want)
	}
}

// TestACurveIsNotWorthFailingFor: where one exists already, the trial ends as usual.
func TestACurveIsNotWorthFailingFor(t *testing.T) {
	w := newWorld(t, 1, nil)
	w.put(t, sweep.Names(w.plan.Sweep).Curve(0, 0), "damaged")
	w.run(t, 0)
	if r := w.result(t, 0); r.Status != sweep.StatusDone || len(w.curve(t, 0)) != 0 {
		t.Errorf("%s with the curve %v; want done without", r.Status, w.curve(t, 0))
	}
}

// TestACurveIsThereBeforeTheResult: so that a reader of the result finds it.
func TestACurveIsThereBeforeTheResult(t *testing.T) {
	w := newWorld(t, 1, nil)
	worker, seen := w.worker(0), false
	worker.Sweeps = before(w.sweeps, "result.json", func() { seen = len(w.curve(t, 0)) > 0 })
	if err := worker.Run(t.Context()); err != nil || !seen {
		t.Errorf("the curve was there %t, error %v", seen, err)
	}
}
