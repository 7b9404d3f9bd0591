package conclude

import (
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// TestASweepThatHadEnough: the quorum is a share of the trials that were to be trained, and the conclusion says why
// there were no more.
func TestASweepThatHadEnough(t *testing.T) {
	for name, tc := range map[string]struct {
		failed  int // trials with results, of six
		outcome sweep.Outcome
		says    string
	}{
		"one is done, and it is enough": {0, sweep.OutcomeWinner, "trial 0 has the highest auc"},
		"most of the wanted failed":     {2, sweep.OutcomeNoWinner, "1 trial is done, and the quorum is 2"},
	} {
		w := newWorld(t, options{leaves: []int{4, 8, 6, 3, 5, 7},
			change: func(p *sweep.Plan) {
				p.Spec.Limits.Target = new(0.5)
			},
			store: func(r *sweep.Result, _ map[string][]byte) {
				switch {
				case r.Trial == 0:
				case r.Trial <= tc.failed:
					r.Status, r.Reason = sweep.StatusFailed, "no luck"
				default:
					r.Status, r.Reason, r.TreesGrown = sweep.StatusStopped,
						"not trained, the sweep has enough: trial 0 has it", 0
				}
			}})
		e := sweep.Enough{Format: 1, Sweep: w.plan.Sweep, Rule: sweep.RuleTarget, Reason: "trial 0 has it"}
		if _, err := sweepstore.New(w.sweeps, w.plan.Sweep).CreateEnough(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		c := w.mustConclude(t)
		if c.Outcome != tc.outcome || c.Done != 1 || c.Failed != tc.failed {
			t.Errorf("%s: the end is %s with %d done, %d failed (%s); want %s, 1 and %d", name, c.Outcome, c.Done,
				c.Failed, c.Reason, tc.outcome, tc.failed)
		}
		contains(t, c.Reason, tc.says)
		contains(t, c.Reason, "of 6 trials were not trained because the sweep ended early: trial 0 has it")
	}
}

// TestTrialsThatLeftTheFinalTrainingItsTime: the conclusion says how many were not trained, and the quorum leaves them
// out.
func TestTrialsThatLeftTheFinalTrainingItsTime(t *testing.T) {
	w := newWorld(t, options{change: withFinal, skip: func(i int) bool { return i == 3 },
		table: datasettest.Options{Encodings: "{final: true}"},
		store: func(r *sweep.Result, _ map[string][]byte) {
			if r.Trial == 1 {
				r.Status, r.Reason, r.TreesGrown = sweep.StatusStopped, "not trained, so that", 0
			}
		}})
	w.trainFinal(t, 2, nil, nil)
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Done != 2 || c.Failed != 0 || c.Final == nil || !c.Final.Registered {
		t.Fatalf("the end: %+v, final %+v; expected a winner of two, and the final model", c, c.Final)
	}
	contains(t, c.Reason, "1 of 3 trials were not trained, so that limits.sweep")
}
