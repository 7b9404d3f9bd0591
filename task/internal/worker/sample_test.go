package worker

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"coppice/internal/blob"
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
	if err := w.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
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

// TestAModelDoesNotDependOnSamples: a trial that continues has the same bytes as without samples.
func TestAModelDoesNotDependOnSamples(t *testing.T) {
	with, without := newWorld(t, 1, bySamples), newWorld(t, 1, func(p *sweep.Plan) {
		bySamples(p)
		p.Spec.Search.Stop = nil
	})
	for _, w := range []*world{with, without} {
		if err := w.worker(0).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := with.model(t, 0), without.model(t, 0); !bytes.Equal(a, b) {
		t.Errorf("a model of %d bytes after samples, of %d without; want the same", len(a), len(b))
	}
}

// model reads the model of a trial that is done.
func (w *world) model(t *testing.T, trial int) []byte {
	t.Helper()
	data, _, err := blob.ReadAll(t.Context(), w.sweeps, w.result(t, trial).Model.Name, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSamplesOverAFoulStore: lost answers, stalls and takeovers.
func TestSamplesOverAFoulStore(t *testing.T) {
	total := 0
	for seed := range some(3, 1) {
		w := newWorld(t, 9, bySamples)
		synctest.Test(t, func(t *testing.T) { w.foul(t, seed) })
		stopped, _ := w.stopped(t, false)
		total += stopped
	}
	if total == 0 {
		t.Error("no trial was stopped in any sweep; want some, or nothing was tested")
	}
}

// preempted is a store whose machine is told to stop when a checkpoint has been written.
type preempted struct {
	blob.Store
	tell func(name string)
}

func (p *preempted) Put(ctx context.Context, name string, g blob.Generation, r io.Reader) (blob.Attrs, error) {
	a, err := p.Store.Put(ctx, name, g, r)
	if strings.Contains(name, "/checkpoints/") && err == nil && a.Size > 0 {
		p.tell(name)
	}
	return a, err
}

// TestASampleIsResumed: however often the holders of a trial have to go while it trains on samples, it comes to its
// end, with the same bytes.
func TestASampleIsResumed(t *testing.T) {
	if testing.Short() {
		t.Skip("it finds no race that shorter tests do not")
	}
	calm, w := newWorld(t, 1, bySamples), newWorld(t, 1, bySamples)
	if err := calm.worker(0).Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	preemptions := 0
	for attempt := 0; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		worker := w.worker(0)
		worker.Attempt, worker.Nonce = attempt, strings.Repeat("n", attempt+1)
		worker.Sweeps = &preempted{Store: w.sweeps, tell: func(string) { preemptions++; cancel() }}
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
