// Package worker is the loop of one task of the Batch array: claim a free trial, train it, write its result, and repeat
// until none is left. Tasks coordinate only through the sweep's objects (internal/sweep/WIRE.md); there is no driver.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	otel "go.opentelemetry.io/otel/metric"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/task/internal/stage"
	"coppice/task/internal/usage"
)

// Publisher tells the aggregator that a trial has ended. An error is not fatal: the result object is authoritative.
type Publisher interface {
	Publish(ctx context.Context, data []byte, attrs map[string]string) error
}

// Worker is one task.
type Worker struct {
	Datasets blob.Store // the datasets bucket, read only
	Sweeps   blob.Store // the sweeps bucket
	Scores   Publisher  // may be nil
	Log      *slog.Logger

	Sweep   sweep.ID
	Job     string // id of the Batch job
	Task    int    // index in the array
	Attempt int    // number of this attempt of the task, from 0
	Scratch string // local folder shared by the machine's tasks
	Listen  string // where tasks of other machines may call (sweep.TaskEnv)
	Host    string
	Nonce   string // unique to this process
	Version string // of the program

	// Meter makes the instruments of measure.go; nil measures nothing.
	Meter otel.Meter

	// Available returns the machine's free memory in bytes; negative when unknown.
	Available func() int64

	plan     *sweep.Plan
	whole    *sweepstore.Sweep
	trials   *sweepstore.Trials
	told     bool // of a trouble that is not over
	metrics  []metric.Metric
	dataset  *dataset.Dataset
	table    *fit.Table
	input    *gbt.InputModel // the model that trials continue, if any
	mapped   int64
	measures *measures
	after    deadlines // of the steps after the process was told to stop

	// What this task knows of other trials, so that it reads no object twice.
	listing sweepstore.Listing // the latest
	seen    map[int]sweep.Seen // by trial; with folds, of configurations, by the trial of their first fold
	rungs   map[sweepstore.RungKey]sweep.Reached
	results map[int]sweep.Result // by trial; where every trial or one's own time depends on them
	passed  []sweep.RungScore    // of the trial that is trained

	began time.Time // of the sweep, by the store's clock; zero until it is looked for
}

// Transient is err as a failure that another attempt may not meet: storage is unreachable, or the machine is being
// taken away. Batch retries the task, so a kind of its own that the cause has no longer counts.
func Transient(err error) error {
	if k := problem.Of(err); k != problem.Other && k != problem.Transient {
		return problem.New(problem.Transient, "%v", err)
	}
	return problem.As(problem.Transient, err)
}

// Run trains trials until none is left, the sweep is cancelled, or ctx ends. A trial that fails is a result,
// not an error.
func (w *Worker) Run(ctx context.Context) error {
	w.after = newDeadlines(ctx)
	defer w.after.cancel()
	w.told = w.Attempt > 0 // by the attempt before, perhaps

	if err := w.open(ctx); err != nil {
		if ctx.Err() == nil {
			w.tell(err, permanent(err))
		}
		return w.classify(err)
	}
	over, err := w.over(ctx)
	if over == nil && err == nil {
		err = w.onCopies(ctx)
	}
	if err == nil || ctx.Err() != nil {
		w.tidy(w.after.release)
	} else {
		w.tell(err, false)
	}
	return w.classify(err)
}

// tell lets whoever watches the sweep know what holds this task up, or ends it; nil says that it goes on. refused says
// that the task cannot train the plan.
func (w *Worker) tell(why error, refused bool) {
	if why == nil && !w.told {
		return
	}
	var t *sweep.Trouble
	if w.told = why != nil; w.told {
		t = &sweep.Trouble{Format: sweep.FormatVersion, Sweep: w.Sweep, Task: w.Task, Version: w.Version,
			Text: sweep.CutReason(program.Redact(why.Error())), Refused: refused, At: time.Now().UTC()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), tellFor)
	defer cancel()
	if err := w.whole.Tell(ctx, w.Job, w.Task, t); err != nil {
		w.Log.Warn("could not tell of it", "error", err.Error())
	}
}

// tellFor is how long a task tries to tell why it waits, or leaves.
const tellFor = 10 * time.Second

// open reads the sweep's plan.
func (w *Worker) open(ctx context.Context) (err error) {
	w.whole = sweepstore.New(w.Sweeps, w.Sweep)
	if w.plan, _, err = w.whole.Plan(ctx); err != nil {
		return fmt.Errorf("sweep %s: %w", w.Sweep, err)
	}
	names := sweep.Params{}
	for _, t := range append(w.plan.Trials, sweep.Trial{Params: w.plan.Base}) {
		maps.Copy(names, t.Params)
	}
	for name := range names {
		if !gbt.IsParam(name) {
			return problem.New(problem.Environment, "task %s does not know the parameter %q of the plan; %v", w.Version,
				name, sweep.WroteIt(w.plan.Coppice))
		}
	}
	w.trials = sweepstore.NewTrials(w.Sweeps, w.plan)
	w.seen, w.results = map[int]sweep.Seen{}, map[int]sweep.Result{}
	w.rungs = map[sweepstore.RungKey]sweep.Reached{}
	return w.plan.Trainable()
}

// work claims and trains trials until next finds no more.
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

		// A trial's arrays take a large part of the machine's memory. Return them to the system before the next trial
		// allocates its own, and so that its reported memory does not include them.
		debug.FreeOSMemory()
	}
}

// room returns the free memory and whether it is enough for a trial that needs that much. A task waits for memory
// rather than being killed for lack of it.
func (w *Worker) room(need int64) (have int64, enough bool) {
	have = w.Available()
	return have, have < 0 || have >= need
}

// Memory is the default for Available.
func Memory() int64 { return usage.Available() }

func (w *Worker) heartbeat() time.Duration { return time.Duration(w.plan.Heartbeat) }

// pause waits for d, or returns ctx's error if that ends first.
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

// classify marks errors worth another attempt: all but wrong data and settings, which stay wrong.
func (w *Worker) classify(err error) error {
	if err == nil {
		return nil
	}
	if permanent(err) {
		return err
	}
	return Transient(err)
}

// permanent reports whether the error's kind rules out a retry: bad input, bad setup, and objects that do not exist.
func permanent(err error) bool {
	switch problem.Of(err) {
	case problem.Environment, problem.Damaged, problem.Input, problem.NotFound:
		return true
	}
	return errors.Is(err, stage.ErrVersion)
}

// Why a sweep wants no more results.
var (
	errCancelled = errors.New("the sweep was cancelled")
	errEnded     = errors.New("the sweep was concluded without it")
)

// over returns why this task is to train no more trials, or nil while the sweep continues.
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
