package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// reserved runs four trials of 8 trees and the final training, of a minute a tree, with limits.sweep and a quote by
// which the final training takes just over so many minutes, so that no tree ends when a limit does. Each attempt but
// the last ends after that many trees.
func reserved(t *testing.T, limit, final int, attempts ...int) (w *world, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w = newWorldOn(t, datasettest.Options{Rows: 1500, Encodings: "{final: true}"}, 4, func(p *sweep.Plan) {
			p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
			p.Trials = append(p.Trials, sweep.Trial{Number: 4, Source: sweep.SourceFinal, Refit: true})
			p.Spec.Limits.Sweep = sweep.Duration(time.Duration(limit) * time.Minute)
			p.Quote = &sweep.Quote{Trial: sweep.Range{Expected: 480},
				Refit: sweep.Range{Expected: float64(60*final + 4)}}
			for i := range p.Trials[:4] {
				p.Trials[i].Params["early_stopping_round"] = 0.0
			}
		})
		began := time.Now()
		for attempt, trees := range append(attempts, 0) {
			ctx, goes := context.WithCancel(t.Context())
			worker := w.worker(0)
			worker.Meter, worker.Attempt = &slowMeter{after: trees, goes: goes}, attempt
			err := worker.Run(ctx)
			goes()
			if (err != nil) != (trees > 0) {
				t.Fatalf("attempt %d, which was to end after %d trees: error %v", attempt, trees, err)
			}
		}
		took = time.Since(began)
	})
	return w, took
}

// TestTheFinalTrainingHasItsTime: the second trial ends with the trees that it has, the others are not trained, and the
// final training ends within limits.sweep, also where the task's machine is lost twice.
func TestTheFinalTrainingHasItsTime(t *testing.T) {
	for name, attempts := range map[string][]int{"undisturbed": nil, "interrupted": {3, 9}} {
		w, took := reserved(t, 28, 9, attempts...) // 1.5 times 9 minutes are kept, so trials have 14
		if r := w.result(t, 0); r.AtLimit || r.TreesGrown != 8 {
			t.Errorf("%s: trial 0: %+v; expected all its trees", name, r)
		}
		r, want := w.result(t, 1), "of 8 trees, so that limits.sweep (28m0s) leaves time for the final training"
		if r.Status != sweep.StatusDone || !r.AtLimit || r.TreesGrown < 5 || r.TreesGrown > 7 ||
			!strings.Contains(r.Reason, want) {
			t.Errorf("%s: trial 1: %+v; expected it done, %q", name, r, want)
		}
		for trial := 2; trial < 4; trial++ {
			if r := w.result(t, trial); !r.Untrained() || !strings.HasPrefix(r.Reason,
				"not trained, so that limits.sweep") {
				t.Errorf("%s: trial %d: %+v; expected it not to be trained, with the reason", name, trial, r)
			}
		}
		best := w.board(t).Best()
		if r := w.result(t, 4); r.Status != sweep.StatusDone || r.AtLimit || r.Trees != best.Trees ||
			took > 28*time.Minute {
			t.Errorf("%s: the final training: %+v, after %s; expected it done within 28 minutes, with the winner's %d "+
				"trees", name, r, took, best.Trees)
		}
	}
}

// TestTrialsComeFirst: a final training that is thought to take longer than the sweep may leaves half of the time to
// trials, and where there is enough time, nothing is cut.
func TestTrialsComeFirst(t *testing.T) {
	w, _ := reserved(t, 21, 600)
	if r := w.result(t, 0); r.Status != sweep.StatusDone || r.AtLimit || r.TreesGrown != 8 {
		t.Errorf("with half of 21 minutes kept, trial 0: %+v; expected it to have its 8 trees", r)
	}
	w, _ = reserved(t, 60, 0)
	for trial := range 4 {
		if r := w.result(t, trial); r.TreesGrown != 8 {
			t.Errorf("in a sweep with an hour, trial %d: %+v; expected all trees", trial, r)
		}
	}
}

// TestThePauseIsNotCounted: as at limits.sweep itself.
func TestThePauseIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2, func(p *sweep.Plan) {
			p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
			p.Trials[1] = sweep.Trial{Number: 1, Source: sweep.SourceFinal, Refit: true}
			p.Spec.Limits.Sweep = sweep.Duration(time.Hour)
			p.Quote = &sweep.Quote{Refit: sweep.Range{Expected: 600}}
			p.Job = "projects/p/locations/l/jobs/test-1"
		})
		s := sweepstore.New(w.sweeps, w.plan.Sweep)
		for turn := range 2 { // ten minutes of training, an hour's pause, and ten minutes again
			<-time.After(10 * time.Minute)
			w.claimed(t, 0, turn, 9, turn)
			worker := w.worker(0)
			worker.Job = string(w.plan.Sweep.JobID(turn))
			if err := worker.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			until, ok := worker.reserve(t.Context(), &sweep.Claim{Trial: 0, Claim: turn})
			if left, want := time.Until(until), time.Duration(35-10*turn)*time.Minute; !ok || left != want {
				t.Errorf("after %d pauses: %s are left for trials (%t); expected %s", turn, left, ok, want)
			}
			if _, ok := worker.reserve(t.Context(), &sweep.Claim{Trial: 1}); ok {
				t.Error("the final training itself is to leave time for the final training")
			}
			if _, err := s.CreateHalt(t.Context(), 1, time.Now()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Hour)
			if _, err := s.CreateJob(t.Context(), sweep.JobRecord{Format: sweep.FormatVersion, Sweep: w.plan.Sweep,
				Number: 1, Job: w.plan.JobName(1), At: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestPaceOfTrials: what is kept follows how long this task's trials have taken.
func TestPaceOfTrials(t *testing.T) {
	for _, tc := range []struct {
		trained int
		seconds float64
		want    time.Duration
	}{{0, 0, 15 * time.Minute}, {2, 480, 7*time.Minute + 30*time.Second}, {1, 960, 30 * time.Minute},
		{1, 1e9, 3 * time.Hour}} {
		w := &Worker{trained: tc.trained, seconds: tc.seconds, plan: &sweep.Plan{
			Quote: &sweep.Quote{Trial: sweep.Range{Expected: 480}, Refit: sweep.Range{Expected: 600}}}}
		w.plan.Spec.Limits.Sweep = sweep.Duration(6 * time.Hour)
		w.plan.Trials = []sweep.Trial{{}, {Number: 1, Refit: true}}
		if got := w.plan.FinalReserve(w.pace()); got != tc.want {
			t.Errorf("%d trials that took %v s together, of 480 expected: %s are kept, expected %s", tc.trained,
				tc.seconds, got, tc.want)
		}
	}
}
