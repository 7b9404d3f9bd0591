package conclude

import (
	"testing"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/sweep"
)

// TestTrialsThatLeftTheFinalTrainingItsTime: the conclusion says how many were not trained, and the quorum leaves them
// out.
func TestTrialsThatLeftTheFinalTrainingItsTime(t *testing.T) {
	w := newWorld(t, options{change: withFinal, skip: func(i int) bool { return i == 3 },
		table: datasettest.Options{Encodings: "{final: true}"},
		store: func(r *sweep.Result, _ map[string][]byte) {
			if r.Trial == 1 {
				r.Status, r.Reason, r.TreesGrown = sweep.StatusStopped, "the rest of the sweep's", 0
			}
		}})
	w.trainFinal(t, 2, nil, nil)
	c := w.mustConclude(t)
	if c.Outcome != sweep.OutcomeWinner || c.Done != 2 || c.Failed != 0 || c.Final == nil || !c.Final.Registered {
		t.Fatalf("the end: %+v, final %+v; expected a winner of two, and the final model", c, c.Final)
	}
	contains(t, c.Reason, "1 of 3 trials not trained: the rest of the sweep's")
}
