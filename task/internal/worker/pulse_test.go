package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestAHeartbeatThatHangs: a store that hangs on heartbeats delays the holder by a small part of the takeover time, and
// the holder still notices that the sweep was cancelled, or that another task has taken or ended its trial.
func TestAHeartbeatThatHangs(t *testing.T) {
	names := sweep.Names("test-1")
	for name, tc := range map[string]struct {
		object string
		want   error
	}{
		"nothing happened": {"", nil},
		"cancelled":        {names.Cancel(), errCancelled},
		"superseded":       {names.Claim(0, 1), errSuperseded},
		"ended":            {names.Result(0), errEndedElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, nil)
			if tc.object != "" {
				w.put(t, tc.object, "{}")
			}
			synctest.Test(t, func(t *testing.T) {
				worker := w.worker(0)
				worker.Sweeps = instead(w.sweeps, "/heartbeats/", func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				})
				must.Do(t, worker.open(t.Context()))

				training, abort := context.WithCancelCause(t.Context())
				defer abort(nil)
				start := time.Now()
				err := worker.beat(t.Context(), &sweep.Claim{Trial: 0}, &pulse{sampled: start}, abort)
				if took, limit := time.Since(start), time.Duration(w.plan.Takeover)/4; !errors.Is(err,
					context.DeadlineExceeded) || took > limit {
					t.Errorf("a heartbeat that hangs took %s and ended with %v; want it to miss its deadline within %s",
						took, err, limit)
				}
				if got := context.Cause(training); !errors.Is(got, tc.want) {
					t.Errorf("after a heartbeat that hung the training was ended with %v, want %v", got, tc.want)
				}
			})
		})
	}
}
