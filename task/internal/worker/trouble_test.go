package worker

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/blob"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// trouble is what the sweep's objects say of its tasks.
func (w *world) trouble(t *testing.T) *sweep.Trouble {
	t.Helper()
	l := must.Get(sweepstore.NewTrials(w.sweeps, w.plan).List(t.Context()))(t)
	trouble := must.Get(sweepstore.New(w.sweeps, w.plan.Sweep).Trouble(t.Context(), l))(t)
	return trouble
}

// TestTroubleIsTold: a task that waits for room on its disk or for memory says so, and takes it back.
func TestTroubleIsTold(t *testing.T) {
	for says, prepare := range map[string]func(*testing.T, *world, *Worker) (mend func()){
		"make the scratch folder": func(t *testing.T, w *world, k *Worker) func() {
			empty := w.fill(t)
			k.Scratch = w.scratch
			return empty
		},
		"a trial needs": func(_ *testing.T, w *world, k *Worker) func() {
			w.plan.Sizing.TrialBytes = 1 << 20
			var free atomic.Int64
			free.Store(1 << 10)
			k.Available = free.Load
			return func() { free.Store(1 << 30) }
		},
	} {
		w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 1 << 20 })
		k := w.worker(0)
		mend := prepare(t, w, k)
		synctest.Test(t, func(t *testing.T) {
			done := make(chan error)
			go func() { done <- k.Run(t.Context()) }()
			must.Do(t, pause(t.Context(), time.Minute))
			if got := w.trouble(t); got == nil || !strings.Contains(got.Text, says) || got.Refused {
				t.Errorf("while it waits, the task tells %+v, expected %q", got, says)
			}
			mend()
			if err := <-done; err != nil {
				t.Errorf("the task ended with %v, expected it to train", err)
			}
			if got := w.trouble(t); got != nil {
				t.Errorf("after it went on, the task tells %+v, expected nothing", got)
			}
		})
	}
}

// TestAPlanWithAnotherKey: nor is a key that this build does not know left out of what is trained.
func TestAPlanWithAnotherKey(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Coppice = "v9.1" })
	text, _ := json.Marshal(w.plan)
	text = bytes.Replace(text, []byte(`"trials":[{`), []byte(`"trials":[{"moon":1,`), 1)
	plan := sweep.Names(w.plan.Sweep).Plan()
	must.Get(w.sweeps.Put(t.Context(), plan, blob.Any, bytes.NewReader(text)))(t)
	const says = `"moon"; coppice v9.1 wrote it: use programs and images of one version`
	err := w.worker(0).Run(t.Context())
	if got := w.trouble(t); got == nil || !got.Refused || err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the task ended with %v, and tells %+v; expected %q", err, got, says)
	}
}

// TestAPlanOfAnotherBuild: a parameter that this build does not know is no trial's failure. The task claims nothing,
// and names both versions.
func TestAPlanOfAnotherBuild(t *testing.T) {
	w := newWorld(t, 2, func(p *sweep.Plan) { p.Coppice, p.Trials[1].Params["bagging_moons"] = "v9.1", 3 })
	k := w.worker(0)
	k.Version = "v9.0"
	err := k.Run(t.Context())
	const says = `task v9.0 does not know the parameter "bagging_moons" of the plan; coppice v9.1 wrote it: use `
	if !problem.Is(err, problem.Environment) || !strings.Contains(err.Error(), says) {
		t.Errorf("the task ended with %v, expected %q", err, says)
	}
	if got := w.trouble(t); got == nil || !got.Refused || !strings.Contains(got.Text, says) {
		t.Errorf("the task tells %+v, expected it to refuse the plan with %q", got, says)
	}
	for trial := range w.plan.Trials {
		if has, err := sweepstore.NewTrials(w.sweeps, w.plan).HasClaim(t.Context(), trial, 0); has || err != nil {
			t.Errorf("trial %d is claimed: %t (%v), expected none to be", trial, has, err)
		}
	}
}
