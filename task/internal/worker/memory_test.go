package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/sweep"
)

func TestWaitsForMemory(t *testing.T) {
	w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 100 })
	synctest.Test(t, func(t *testing.T) {
		worker := w.worker(0)
		free := []int64{10, 50, 99, 100}
		worker.Available = func() int64 {
			f := free[0]
			if len(free) > 1 {
				free = free[1:]
			}
			return f
		}
		start := time.Now()
		runs(t, worker)
		if waited := time.Since(start); waited != 3*time.Second {
			t.Errorf("waited %s", waited)
		}
	})
}

func TestWaitingForMemoryEndsWithTheSweep(t *testing.T) {
	for name, object := range map[string]func(sweep.Names) string{"cancelled": sweep.Names.Cancel,
		"concluded": sweep.Names.Ending} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, func(p *sweep.Plan) { p.Sizing.TrialBytes = 100 })
			synctest.Test(t, func(t *testing.T) {
				worker := w.worker(0)
				worker.Available = func() int64 { return 99 }
				time.AfterFunc(time.Hour, func() {
					w.put(t, object(sweep.Names(w.plan.Sweep)), "{}")
				})
				runs(t, worker)
			})
		})
	}
}
