package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/problem"
	"coppice/task/internal/stage"
)

// copyTrust is how long a copy counts as whole after any task has verified it: the tasks of a machine start together
// and need not all read it. A retried task trusts only verifications made since it began, because a bad copy may be why
// it is retried.
const copyTrust = 10 * time.Minute

// maxCopies bounds how many copies an attempt uses when each turns out damaged. If the disk damages them that fast, the
// attempt fails and Batch may place the next one on another machine.
const maxCopies = 3

// Backoff of a task whose disk cannot take the copy. The disk may be full only for a while, and failing at once would
// just bring the next attempt. The task waits about as long as other machines may need for the sweep, and stops when
// the sweep ends.
const (
	firstDiskPause = 2 * time.Second
	maxDiskPause   = time.Minute
	diskPatience   = 30 * time.Minute
)

// errCopy says that the local copy was damaged while in use. It says nothing about the dataset itself, so it is never
// wrapped together with the dataset's error, which would be permanent.
var errCopy = errors.New("the machine's copy of the dataset is damaged")

// believed returns the earliest verification time of a copy that this task trusts.
func (w *Worker) believed() time.Time {
	now := time.Now()
	if w.Attempt > 0 {
		return now
	}
	return now.Add(-copyTrust)
}

// onCopies works on the machine's copy of the dataset, and replaces the copy when it turns out damaged.
func (w *Worker) onCopies(ctx context.Context) error {
	since := w.believed()
	for n := 1; ; n++ {
		err := w.onCopy(ctx, since)
		if !errors.Is(err, errCopy) || n == maxCopies {
			return err
		}
		w.Log.Warn("continuing with another copy of the dataset", "reason", err.Error())
		since = time.Now()
	}
}

// onCopy maps the machine's copy of the dataset and works on it.
func (w *Worker) onCopy(ctx context.Context, since time.Time) error {
	ds, err := w.provide(ctx, since)
	if ds == nil || err != nil {
		return err
	}
	defer func() {
		w.dataset, w.table = nil, nil
		ds.Close()
	}()

	stop, err := w.measure(ds)
	if err != nil {
		return err
	}
	w.dataset, w.table, w.mapped = ds, fit.NewTable(ds), ds.Mapped()
	return errors.Join(w.work(ctx), stop())
}

// provide opens the machine's copy of the dataset. While the disk cannot take it, this task waits; other machines may
// do all the work meanwhile. It returns nil, nil when the sweep has ended, even if that is while a task of this
// machine, or this one, copies the dataset.
func (w *Worker) provide(ctx context.Context, since time.Time) (*dataset.Dataset, error) {
	ctx, stop := w.untilOver(ctx)
	defer stop()

	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = firstDiskPause, 2, maxDiskPause

	ds, err := backoff.Retry(ctx, func() (*dataset.Dataset, error) {
		ds, err := stage.Open(ctx, stage.Request{Store: w.Datasets, Dataset: w.plan.Dataset, Scratch: w.Scratch,
			Log: w.Log, Since: since})
		if !problem.Is(err, problem.Transient) {
			return ds, backoff.Permanent(err)
		}
		return nil, err // the disk's
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(diskPatience),
		backoff.WithNotify(func(err error, pause time.Duration) {
			w.Log.Warn("cannot write a copy of the dataset to the disk; waiting", "error", err.Error(), "seconds",
				pause.Seconds())
			w.tell(err, false)
		}))
	if cause := context.Cause(ctx); err != nil && unwanted(cause) {
		return nil, nil
	}
	if err == nil {
		w.tell(nil, false)
	}
	return ds, err
}

// untilOver returns a context that ends when the sweep does; its cause says how. stop ends the watch.
func (w *Worker) untilOver(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)

	var watch sync.WaitGroup
	watch.Go(func() {
		for pause(ctx, w.heartbeat()) == nil {
			over, err := w.over(ctx)
			if err != nil && ctx.Err() == nil {
				w.Log.Warn("could not see whether the sweep has ended", "error", err.Error())
			}
			if over != nil {
				cancel(over)
			}
		}
	})

	return ctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// verify verifies the whole copy. The error is errCopy, and says when, if it has changed since it was staged.
func (w *Worker) verify(ctx context.Context, when string) error {
	err := w.dataset.VerifyMapped(ctx, max(1, w.plan.Sizing.ThreadsPerTask))
	var corrupt *dataset.CorruptError
	if errors.As(err, &corrupt) {
		//nolint:errorlint // a damaged copy is made again: it is not damaged input
		return fmt.Errorf("%w: found %s: %v", errCopy, when, corrupt)
	}
	return err
}

// intact verifies the copy after a trial. A trial that failed may have failed because of the damage, which says nothing
// about its configuration; one trained on changed labels could win the sweep, and one trained on changed bins would
// give a model that no other machine reproduces. A stopped trial leaves nothing that could be wrong. The trial's
// checkpoints are good: each was saved after a verification.
func (w *Worker) intact(ctx context.Context, stopped bool) error {
	if stopped {
		return nil
	}
	return w.verify(ctx, "after a trial")
}
