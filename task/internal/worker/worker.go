// Package worker is what a task of the Batch array does: take a trial that nobody has, train it, leave its result, take the
// next, until none is left. Tasks know each other only through the sweep's objects (sweep/WIRE.md); there is no driver.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	otel "go.opentelemetry.io/otel/metric"

	"coppice/blob"
	"coppice/dataset"
	"coppice/fit"
	"coppice/gbt"
	"coppice/metric"
	"coppice/sweep"
	"coppice/sweepstore"
	"coppice/task/internal/usage"
)

// Publisher tells the aggregator that a trial has ended. An error is not fatal: the result object is the truth.
type Publisher interface {
	Publish(ctx context.Context, data []byte, attrs map[string]string) error
}

// Worker is one task.
type Worker struct {
	Datasets blob.Store // the datasets bucket, read
	Sweeps   blob.Store // the sweeps bucket, read and written
	Scores   Publisher
	Log      *slog.Logger

	Sweep   sweep.ID
	Job     string // id of the Batch job
	Task    int    // index in the array
	Attempt int    // of this task, from 0
	Scratch string // shared by the tasks of the machine
	Host    string
	Nonce   string // unique to this process
	Version string // of the program

	// Meter makes the instruments of measure.go; nil measures nothing.
	Meter otel.Meter

	// Available says how many bytes of memory the machine has left; negative when unknown.
	Available func() int64

	plan     *sweep.Plan
	whole    *sweepstore.Sweep
	trials   *sweepstore.Trials
	metrics  []metric.Metric
	dataset  *dataset.Dataset
	table    *fit.Table
	input    *gbt.InputModel // that the trials start from, if any
	mapped   int64
	replaced bool // the machine's copy of the dataset was damaged when it was looked at
	measures *measures

	// What this task knows of a sweep that learns, so that it reads no object twice.
	listing sweepstore.Listing // the last
	seen    map[int]sweep.Seen // by trial
	rungs   map[sweepstore.RungKey]float64
	results map[int]sweep.Result // by trial, of a sweep with folds
}

// TransientError is a failure that another attempt may not meet: storage out of reach, or the machine being taken away.
type TransientError struct{ Err error }

func (e *TransientError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *TransientError) Unwrap() error { return e.Err }

// ExitStatus makes Batch start the task again. An interruption is transient, too: the caller may start the task once more.
func (*TransientError) ExitStatus() int { return sweep.ExitTransient }

// Run works until no trial is left, the sweep is cancelled or ctx ends. A trial that fails is a result, not an error.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return w.classify(err)
	}
	if over, err := w.over(ctx); err != nil || over != nil {
		if over != nil {
			w.tidy(ctx) // the attempt before may have vanished with the sweep's last result
		}
		return w.classify(err)
	}
	return w.classify(w.onCopies(ctx))
}

// open reads the sweep's plan.
func (w *Worker) open(ctx context.Context) (err error) {
	w.whole = sweepstore.New(w.Sweeps, w.Sweep)
	if w.plan, _, err = w.whole.Plan(ctx); err != nil {
		return fmt.Errorf("sweep %s: %w", w.Sweep, err)
	}
	w.trials = sweepstore.NewTrials(w.Sweeps, w.plan)
	return nil
}

// work takes and trains trials until next has no more.
func (w *Worker) work(ctx context.Context) error {
	m, err := metric.Lookup(w.plan.Spec.Metric)
	if err != nil {
		return err
	}

	w.metrics = nil
	for _, name := range w.plan.Metrics {
		more, err := metric.Lookup(name)
		if err != nil {
			return err
		}
		w.metrics = append(w.metrics, more)
	}

	if err := w.openInput(ctx); err != nil {
		return err
	}
	if err := w.checkFolds(); err != nil {
		return err
	}

	for {
		claim, err := w.next(ctx)
		if err != nil || claim == nil {
			return err
		}

		if err := w.trial(ctx, claim, m); err != nil {
			return err
		}

		// The arrays of a trial are a large part of the machine; the next one's must not come on top of them, and what it reports
		// of its memory must not depend on them.
		debug.FreeOSMemory()
	}
}

// room says how many bytes the machine has left, and whether that is enough for a trial that needs so many: a task waits rather than
// dies.
func (w *Worker) room(need int64) (have int64, enough bool) {
	have = w.Available()
	return have, have < 0 || have >= need
}

// Memory is the usual Available.
func Memory() int64 { return usage.Available() }

func (w *Worker) heartbeat() time.Duration { return time.Duration(w.plan.Heartbeat) }

// pause waits for d or the end of ctx, whose error it then returns.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// classify marks what is worth another attempt: everything but data and settings that will be just as wrong next time.
func (w *Worker) classify(err error) error {
	if err == nil {
		return nil
	}
	if permanent(err) {
		return err
	}
	return &TransientError{err}
}

// permanent asks the error itself: what was handed in, the environment and what is not there stay as they are.
func permanent(err error) bool {
	var input interface{ IsInput() bool }
	var setup interface{ IsSetup() bool }
	var other interface{ IsPermanent() bool }
	return errors.As(err, &input) || errors.As(err, &setup) || errors.As(err, &other) || errors.Is(err, blob.ErrNotExist)
}

// Why a sweep wants no more results.
var (
	errCancelled = errors.New("the sweep was cancelled")
	errEnded     = errors.New("the sweep was concluded without it")
)

// over says why nothing more is to be trained; nil while the sweep goes on.
func (w *Worker) over(ctx context.Context) (why, err error) {
	for _, end := range []struct {
		there func(context.Context) (bool, error)
		why   error
	}{{w.whole.Cancelled, errCancelled}, {w.whole.HasEnding, errEnded}} {
		there, err := end.there(ctx)
		if err != nil {
			return nil, err
		}
		if there {
			return end.why, nil
		}
	}

	return nil, nil
}
