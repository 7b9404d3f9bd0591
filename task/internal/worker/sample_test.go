package worker

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// bySamples makes trials that are compared by what one row in four shows.
func bySamples(p *sweep.Plan) {
	stopping(sweep.StopASHA)(p)
	p.Spec.Search.Stop.By, p.Spec.Search.Stop.OneIn, p.Spec.Search.Stop.Rungs = sweep.ByRows, 4, []int{6}
}

// TestTrialsBehindOnSamplesAreStopped: the decisions are those that the samples give, and can be reproduced.
func TestTrialsBehindOnSamplesAreStopped(t *testing.T) {
	w := newWorld(t, 9, bySamples)
	w.run(t, 0)
	stopped, done := w.stopped(t, false) // a trial that is stopped has grown no tree on all rows, so it has no curve
	if stopped < 2 || done < 1 {
		t.Errorf("%d trials were stopped and %d are done; want some of both", stopped, done)
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

// TestASampleIsResumed: however often the holders of a trial have to go while it trains on samples, it comes to its
// end, with the same bytes.
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
		worker.Sweeps = puts{w.sweeps, func(_ context.Context, name string,
			put func() (blob.Attrs, error)) (blob.Attrs, error) {
			a, err := put()
			if strings.Contains(name, "/checkpoints/") && err == nil && a.Size > 0 { // saved, not emptied
				preemptions++
				cancel()
			}
			return a, err
		}}
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
