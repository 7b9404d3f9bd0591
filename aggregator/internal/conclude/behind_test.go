package conclude

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// climbed is a sweep of six trials at its time limit. Two are done, the others were paused at three trees, with the
// scores given; done ones had 0.9 there.
func climbed(t *testing.T, rule string, paused [4]float64, change func(*sweep.Plan), store func(*sweep.Result,
	map[string][]byte)) *world {
	t.Helper()
	w := newWorld(t, options{leaves: []int{2, 3, 4, 5, 6, 7}, skip: func(i int) bool { return i >= 2 }, store: store,
		change: func(p *sweep.Plan) {
			p.Spec.Limits.Quorum = 1
			p.Spec.Search.Stop = &sweep.Stop{Rule: rule, By: sweep.ByTrees, Eta: 3, MinTrees: 3, Rungs: []int{3}}
			if change != nil {
				change(p)
			}
		}})
	trials := sweepstore.NewTrials(w.sweeps, w.plan)
	for trial, score := range append([]float64{0.9, 0.9}, paused[:]...) {
		r := sweep.Rung{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Step: 3, Score: score, Pause: trial >= 2,
			Seen: []sweep.Reached{}}
		if created, err := trials.CreateRung(t.Context(), r); err != nil || !created {
			t.Fatalf("write trial %d at the rung: created %t, error %v", trial, created, err)
		}
		if trial < 2 {
			continue
		}
		must.Do(t, trials.CreatePause(t.Context(), trial, 0, 3))
	}
	w.now = created.Add(7 * time.Hour)
	return w
}

// verdict writes what becomes of a paused trial.
func (w *world) verdict(t *testing.T, trial int, promoted bool) {
	t.Helper()
	r := sweep.Promotion{Format: 1, Sweep: w.plan.Sweep, Trial: trial, Step: 3, Promoted: promoted,
		Seen: []sweep.Reached{}}
	if created, err := sweepstore.NewTrials(w.sweeps, w.plan).CreatePromotion(t.Context(), r); err != nil || !created {
		t.Fatalf("write what becomes of trial %d: created %t, error %v", trial, created, err)
	}
}

// TestPausedTrialsThatAreBehindCountAsStopped when a sweep ends early. Those that would have gone on count as missing.
func TestPausedTrialsThatAreBehindCountAsStopped(t *testing.T) {
	behind := [4]float64{0.5, 0.6, 0.7, 0.8}
	for name, tc := range map[string]struct {
		rule   string
		paused [4]float64
		change func(*sweep.Plan)
		store  func(*sweep.Result, map[string][]byte)
		more   func(*world)
		behind []int
		says   string
	}{
		"all are behind": {sweep.StopASHA, behind, nil, nil, nil, []int{2, 3, 4, 5},
			"4 of 6 trials had not ended after 6h0m0s, the sweep's time limit; 4 of them were paused by the " +
				"stopping rule and count as stopped"},
		"with halving": {sweep.StopHalving, behind, nil, nil, nil, []int{2, 3, 4, 5},
			"count as stopped"},
		"one is to be promoted": {sweep.StopASHA, [4]float64{0.5, 0.6, 0.7, 0.95}, nil, nil, nil,
			[]int{2, 3, 4}, "3 of them were paused by the stopping rule and count as stopped; 2 trials are " +
				"done, and the quorum is 3"},
		"one was promoted": {sweep.StopASHA, behind, nil, nil, func(w *world) { w.verdict(t, 2, true) },
			[]int{3, 4, 5}, "2 trials are done, and the quorum is 3"},
		"one is about to end": {sweep.StopASHA, behind, nil, nil, func(w *world) {
			w.verdict(t, 2, false)
		}, []int{2, 3, 4, 5}, "count as stopped"},
		"the score of one cannot be read": {sweep.StopASHA, behind, nil, nil, func(w *world) {
			w.damage(t, sweep.Names(w.plan.Sweep).Rung(2, 3))
		}, []int{3, 4, 5}, "2 trials are done, and the quorum is 3"},
		"the best has failed, so the next best goes on": {sweep.StopASHA, behind, nil, func(r *sweep.Result,
			_ map[string][]byte) {
			if r.Status = sweep.StatusDone; r.Trial == 0 {
				r.Status, r.Reason = sweep.StatusFailed, "no luck"
			}
		}, nil, []int{2, 3, 4, 5}, "1 trial is done, and the quorum is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := climbed(t, tc.rule, tc.paused, tc.change, tc.store)
			if tc.more != nil {
				tc.more(w)
			}
			c := w.mustConclude(t)
			contains(t, c.Reason, tc.says)
			if lacks := strings.Contains(tc.says, "the quorum is"); (c.Outcome == sweep.OutcomeNoWinner) != lacks {
				t.Errorf("at the time limit the sweep is concluded with %s: %s; want a winner %t", c.Outcome, c.Reason,
					!lacks)
			}
			e, err := sweepstore.New(w.sweeps, w.plan.Sweep).Ending(t.Context(), 6)
			if err != nil || !slices.Equal(e.Behind, tc.behind) || !slices.Equal(e.Trials, []int{0, 1}) {
				t.Errorf("the ending is %+v, error %v; want it to count trials 0 and 1, with %v behind", e, err,
					tc.behind)
			}
		})
	}
}

func (w *world) damage(t *testing.T, name string) {
	t.Helper()
	must.Get(w.sweeps.Put(t.Context(), name, blob.Any, strings.NewReader("{")))(t)
}

// TestTrialsBehindAreOneEnding: another aggregator, which finds that the paused trials have been promoted meanwhile,
// concludes as the ending says.
func TestTrialsBehindAreOneEnding(t *testing.T) {
	want := climbed(t, sweep.StopASHA, [4]float64{0.5, 0.6, 0.7, 0.8}, nil, nil).mustConclude(t)
	w := climbed(t, sweep.StopASHA, [4]float64{0.5, 0.6, 0.7, 0.8}, nil, nil)
	a := w.aggregator()
	a.Sweeps = dying{w.sweeps, new(atomic.Int64), 1, true} // after the ending
	if _, err := a.Consider(t.Context(), w.plan.Sweep); !errors.Is(err, errDied) {
		t.Fatalf("the first write is the aggregator's last: %v", err)
	}
	for trial := 2; trial < 6; trial++ {
		w.verdict(t, trial, true)
	}
	if got := w.mustConclude(t); got.Outcome != sweep.OutcomeWinner || got.Trial != want.Trial ||
		got.Reason != want.Reason {
		t.Errorf("concluded by another aggregator, with trial %d (%s): %s; want what the first would have written, "+
			"trial %d: %s", got.Trial, got.Outcome, got.Reason, want.Trial, want.Reason)
	}
}
