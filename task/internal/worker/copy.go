package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"coppice/dataset"
	"coppice/fit"
	"coppice/task/internal/stage"
)

// A copy counts as whole for so long after somebody has verified it: the tasks of a machine start together, and need not all
// read it. A task that is tried again believes only what was found out since it began, because its machine's copy may be the
// reason that it is.
const copyTrust = 10 * time.Minute

// maxCopies is how often a task goes on with another copy when the one that it works on turns out damaged. A disk that damages
// them faster is left to Batch, which may find another machine.
const maxCopies = 3

// Pauses of a task whose disk takes no copy: it may be full for a while, and an attempt that ends at once only brings the next.
// It waits for as long as other machines may need, and ends when the sweep does.
const (
	firstDiskPause = 2 * time.Second
	maxDiskPause   = time.Minute
	diskPatience   = 30 * time.Minute
)

// copyError is a copy of the dataset that was damaged while it was worked on. It says nothing about the dataset itself, so it
// wraps nothing of it.
type copyError struct{ why error }

func (e *copyError) Error() string {
	return "the machine's copy of the dataset is damaged: " + e.why.Error()
}

// believed is since when the copy must have been verified for this task to believe it.
func (w *Worker) believed() time.Time {
	now := time.Now()
	if w.Attempt > 0 {
		return now
	}
	return now.Add(-copyTrust)
}

// onCopies works on the machine's copy of the dataset, and on another one when that is damaged.
func (w *Worker) onCopies(ctx context.Context) error {
	since := w.believed()
	for n := 1; ; n++ {
		err := w.onCopy(ctx, since)
		var damaged *copyError
		if !errors.As(err, &damaged) || n == maxCopies {
			return err
		}
		w.Log.Warn("going on with another copy of the dataset", "reason", damaged.Error())
		since = time.Now()
	}
}

// onCopy maps the machine's copy of the dataset and works on it.
func (w *Worker) onCopy(ctx context.Context, since time.Time) error {
	ds, err := w.provide(ctx, since)
	if ds == nil || err != nil {
		return err
	}
	defer ds.Close()

	stop, err := w.measure(ds)
	if err != nil {
		return err
	}
	w.dataset, w.table, w.mapped = ds, fit.NewTable(ds), ds.Mapped()
	return errors.Join(w.work(ctx), stop())
}

// provide opens the machine's copy of the dataset. As long as the disk does not take it, this task waits, since another machine
// may do all the work: it is nil when the sweep has ended meanwhile.
func (w *Worker) provide(ctx context.Context, since time.Time) (*dataset.Dataset, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.Multiplier, pauses.MaxInterval = firstDiskPause, 2, maxDiskPause

	return backoff.Retry(ctx, func() (*dataset.Dataset, error) {
		ds, err := stage.Open(ctx, stage.Request{Store: w.Datasets, Dataset: w.plan.Dataset, Scratch: w.Scratch, Log: w.Log, Since: since,
			Replaced: func() { w.replaced = true }})
		var disk *stage.DiskError
		if !errors.As(err, &disk) {
			return ds, backoff.Permanent(err)
		}

		over, failed := w.over(ctx)
		if over != nil || failed != nil {
			return nil, backoff.Permanent(failed)
		}
		return nil, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(diskPatience),
		backoff.WithNotify(func(err error, pause time.Duration) {
			w.Log.Warn("the disk takes no copy of the dataset; waiting", "error", err.Error(), "seconds", pause.Seconds())
		}))
}

// quickCheck is how many bytes for each thread are verified in about a tenth of a second.
const quickCheck = 128 << 20

// soFar is a *copyError where the copy has changed since it was staged: all of it where that is found out at once, since the training
// waits and what holds it up longer is done less often, else labels, weights, groups and folds.
func (w *Worker) soFar(ctx context.Context) error {
	threads := max(1, w.plan.Sizing.ThreadsPerTask)
	verify := w.dataset.VerifyTargets
	if w.mapped <= quickCheck*int64(threads) {
		verify = w.dataset.VerifyMapped
	}

	err := verify(ctx, threads)
	var corrupt *dataset.CorruptError
	if errors.As(err, &corrupt) {
		return &copyError{fmt.Errorf("found before a checkpoint: %w", corrupt)}
	}
	return err
}

// intact looks at the copy after a trial has been trained on it. A trial that failed may have failed because of it, which says
// nothing about the candidate; one that was trained on labels that have changed could win, and one on other bins has another model than
// on any other machine. Reading it all takes about as long as a tree. Of a trial that was stopped nothing is left that could be wrong.
// Its checkpoints go, too: who knows since when the copy was damaged.
func (w *Worker) intact(ctx context.Context, trial int, stopped bool) error {
	if stopped {
		return nil
	}
	err := w.dataset.VerifyMapped(ctx, max(1, w.plan.Sizing.ThreadsPerTask))

	var corrupt *dataset.CorruptError
	if errors.As(err, &corrupt) {
		w.dropCheckpoints(ctx, trial)
		return &copyError{fmt.Errorf("found after a trial: %w", corrupt)}
	}
	return err
}
