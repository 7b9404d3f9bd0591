package conclude

import (
	"testing"

	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// extending is a sweep that extends w's by trials with these numbers of leaves, whose scores are shifted by better.
func extending(t *testing.T, w *world, won *sweep.Inherited, better float64, leaves ...int) *world {
	t.Helper()
	old, trials := w.plan, sweepstore.NewTrials(w.sweeps, w.plan)
	e := &sweep.Extension{Sweep: old.Sweep, Winner: won}
	for i := range old.Trials {
		r, _, err := trials.Result(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		r.Params = nil
		e.Results = append(e.Results, *r)
	}

	n := len(old.Trials)
	return newWorld(t, options{sweep: "night-2", into: w, leaves: append(make([]int, n), leaves...),
		skip: func(i int) bool { return i < n },
		change: func(p *sweep.Plan) {
			copy(p.Trials, old.Trials)
			p.Extends = e
		},
		store: func(r *sweep.Result, _ map[string][]byte) { r.Score += better }})
}

// TestExtendedSweeps: a new trial that is better becomes a version; if the extended sweep's version is the best, there
// is no other; and if that sweep had no winner, its best trial may win.
func TestExtendedSweeps(t *testing.T) {
	for name, tc := range map[string]struct {
		first   func(*sweep.Plan)
		better  float64
		outcome sweep.Outcome
		trial   int
		version int
		says    string
	}{
		"a new trial is better": {nil, 0.1, sweep.OutcomeWinner, 3, 2, "trial 3 has the highest auc"},
		"none is better": {nil, -0.3, sweep.OutcomeNoWinner, 0, 0,
			"none of the 2 new trials is better than trial 2 of sweep night-1, which is version 1 of ctr already: " +
				"trial 2 has the highest auc"},
		"there was no winner": {func(p *sweep.Plan) { p.Spec.Limits.Quorum = 1 }, -0.3, sweep.OutcomeWinner, 2, 1,
			"trial 2 has the highest auc"},
	} {
		t.Run(name, func(t *testing.T) {
			before := options{leaves: []int{2, 8, 4}, change: tc.first}
			if tc.first != nil {
				before.store = func(r *sweep.Result, _ map[string][]byte) {
					if r.Trial == 0 {
						r.Status, r.Reason = sweep.StatusFailed, "no luck"
					}
				}
			}
			w := newWorld(t, before)
			c := w.mustConclude(t)
			var won *sweep.Inherited
			if c.Outcome == sweep.OutcomeWinner {
				won = &sweep.Inherited{Sweep: c.Sweep, Trial: c.Trial, Model: c.Model, Version: c.Version}
			}

			x := extending(t, w, won, tc.better, 5, 6)
			c = x.mustConclude(t)
			if c.Outcome != tc.outcome || c.Done != 2 || c.Failed != 0 {
				t.Fatalf("the end is %s with %d done, %d failed (%s); want %s, 2 done of its own, none failed",
					c.Outcome, c.Done, c.Failed, c.Reason, tc.outcome)
			}
			contains(t, c.Reason, tc.says)
			if c.Outcome == sweep.OutcomeWinner && (c.Trial != tc.trial || c.Version != tc.version) {
				t.Errorf("trial %d is version %d; want trial %d as version %d", c.Trial, c.Version, tc.trial,
					tc.version)
			}
		})
	}
}

// TestAnExtensionNeedsItsOwnQuorum: trials of the extended sweep do not count for it.
func TestAnExtensionNeedsItsOwnQuorum(t *testing.T) {
	w := newWorld(t, options{leaves: []int{2, 8, 4}})
	w.mustConclude(t)
	x := extending(t, w, nil, 0, 5, 6)
	trials := sweepstore.NewTrials(x.sweeps, x.plan)
	if ended, err := trials.HasResult(t.Context(), 0); !ended || err != nil {
		t.Errorf("trial 0 has ended in the sweep before: got %t, %v", ended, err)
	}

	y := newWorld(t, options{sweep: "night-3", into: w, leaves: []int{2, 8, 4, 5, 6},
		skip:   func(i int) bool { return i < 3 },
		change: func(p *sweep.Plan) { p.Extends, p.Spec.Limits.Quorum = x.plan.Extends, 1 },
		store: func(r *sweep.Result, _ map[string][]byte) {
			if r.Trial == 4 {
				r.Status, r.Reason = sweep.StatusFailed, "no luck"
			}
		}})
	c := y.mustConclude(t)
	contains(t, c.Reason, "all 2 trials have ended, 1 of them with a model; the quorum is 2")
}
