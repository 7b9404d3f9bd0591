package worker

import (
	"context"
	"time"

	"coppice/internal/sweepstore"
	"coppice/internal/telemetry"
)

// killedAfter is when a process that got SIGTERM is killed. A Spot machine has 30 seconds, but its containers are
// stopped as by `docker stop`, which gives them ten.
const killedAfter = 10 * time.Second

// How a task divides that time. The steps follow one another. Each deadline is the sum of the steps up to it and counts
// from the signal, so time left over by one step goes to the next. TestDeadlines adds the table up.
const (
	// workFor is for what must not be lost. A training ends at the next split, the copy of the dataset is verified and
	// the last checkpoint is saved. A trained model is verified, and its files, its result and its message are written.
	workFor = 4 * time.Second
	// lookFor is for finding out whether an unconfirmed claim or result was written.
	lookFor = sweepstore.LookLimit
	// releaseFor is for giving the claim back, since other tasks would otherwise wait for the takeover time, or, if the
	// trial has its result, for dropping up to three checkpoints.
	releaseFor = 2 * time.Second
	// curveFor is for the learning curve, which only makes a plot complete.
	curveFor = 500 * time.Millisecond
	// measureFor is for the last measurements, which telemetry sends when the worker has returned.
	measureFor = telemetry.HurryLimit
)

// patience limits, when the process is not stopping, writes that nothing else depends on: of a learning curve, of why
// the task waits or leaves, and of a claim's release, since a holder that fails to release counts as dead soon anyway.
const patience = 10 * time.Second

// deadlines are contexts for the steps after the task's context has ended. Until then they behave like that context.
type deadlines struct {
	work, release, curve context.Context
	cancel               func()
}

// newDeadlines returns the contexts for the steps after ctx has ended. The caller must call cancel, which ends them
// all.
func newDeadlines(ctx context.Context) deadlines {
	work, cancelWork := outlive(ctx, workFor)
	release, cancelRelease := outlive(ctx, workFor+lookFor+releaseFor)
	curve, cancelCurve := outlive(ctx, workFor+lookFor+releaseFor+curveFor)
	return deadlines{work, release, curve, func() { cancelWork(); cancelRelease(); cancelCurve() }}
}

// outlive returns a context with the values of ctx that ends limit after ctx does. If ctx has ended already, the limit
// counts from now.
func outlive(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if pause(longer, limit) == nil {
			cancel()
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}
