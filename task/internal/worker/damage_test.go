package worker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/sweep"
)

// TestADamagedClaimSpendsNoRetries: its holder is unknown, so no attempt takes it for its own or fails because of it;
// the trial is taken over after the takeover time, like any other, and all trials are done.
func TestADamagedClaimSpendsNoRetries(t *testing.T) {
	for name, contents := range map[string]string{
		"no JSON": "damaged", "empty": "", "too long": strings.Repeat(" ", 2<<20),
		"another trial's": `{"format":1,"sweep":"test-1","trial":0,"claim":0,"task":0,"attempt":0}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, nil)
			synctest.Test(t, func(t *testing.T) {
				w.put(t, sweep.Names(w.plan.Sweep).Claim(1, 0), contents)
				worker := w.worker(0)
				worker.Attempt = 1
				start := time.Now()
				if err := worker.Run(t.Context()); err != nil {
					t.Fatalf("the next attempt ended with %v, want all trials done", err)
				}

				for trial := range w.plan.Trials {
					if r := w.result(t, trial); r.Status != sweep.StatusDone {
						t.Errorf("trial %d: %s: %s; want it done", trial, r.Status, r.Reason)
					}
				}
				if r, waited := w.result(t, 1), time.Since(start); r.Claim != 1 || waited < time.Minute ||
					waited > 63*time.Second {
					t.Errorf("claim %d ended the trial after %s; want claim 1 after the takeover time, a minute",
						r.Claim, waited)
				}
			})
		})
	}
}
