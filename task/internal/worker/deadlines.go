package worker

import (
	"context"
	"time"

	"coppice/sweepstore"
	"coppice/telemetry"
)

// killedAfter is when a process is killed that was told to stop with SIGTERM. A Spot machine has 30 seconds, but its containers are stopped
// as `docker stop` does it, and that gives them ten.
const killedAfter = 10 * time.Second

// What a task does with that time. The steps follow one another, and each deadline counts from the signal, not from the end of the step
// before, so the time that one leaves is the next one's. TestDeadlines adds the table up.
const (
	// workFor is for what must not be lost. A training ends at the next split, the copy of the dataset is verified and the last checkpoint
	// saved. A trained model is verified, and its files, its result and its message are written.
	workFor = 4 * time.Second
	// lookFor is for finding out whether a claim or a result was written whose answer did not come.
	lookFor = sweepstore.LookLimit
	// releaseFor is for giving the claim back, without which other tasks would wait for the takeover time; or, of a trial that has its
	// result, for dropping up to three checkpoints.
	releaseFor = 2 * time.Second
	// curveFor is for the learning curve, which only makes a plot complete.
	curveFor = 500 * time.Millisecond
	// measureFor is for the last measurements, which telemetry sends when the worker has returned.
	measureFor = telemetry.HurryLimit
)

// curvePatience limits the writing of a learning curve while there is no hurry.
const curvePatience = 10 * time.Second

// deadlines are contexts for the steps after the task's context has ended. Until then they are like that context itself.
type deadlines struct {
	work, release, curve context.Context
	cancel               func()
}

// newDeadlines watches ctx. cancel has to be called in the end; it ends the contexts.
func newDeadlines(ctx context.Context) deadlines {
	work, cancelWork := outlive(ctx, workFor)
	release, cancelRelease := outlive(ctx, workFor+lookFor+releaseFor)
	curve, cancelCurve := outlive(ctx, workFor+lookFor+releaseFor+curveFor)
	return deadlines{work, release, curve, func() {
		cancelWork()
		cancelRelease()
		cancelCurve()
	}}
}

// outlive returns a context with the values of ctx that ends limit after ctx does. If ctx has ended already, the limit counts from now.
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
