// Package worker is one task of the Batch array: it trains trials until none is left. Tasks coordinate only through the
// sweep's objects (internal/sweep/WIRE.md); there is no driver.
//
//	Run           worker.go  reads the plan and maps this machine's copy of the dataset, again if it turns out damaged
//	  next        claim.go   claims a trial: its own of before, a free one, or one whose holder is dead
//	  trial       trial.go   beats for it (pulse.go), resumes it from its checkpoint and trains it:
//	    decide    settle.go    what it trains, by the results of others,
//	    climb     rung.go      and whether it goes on where others are better;
//	    finish    finish.go  writes its files, result and message, or gives the claim back
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
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
	Listen  string // where tasks of other machines may call (environment.TaskEnv)
	Host    string
	Nonce   string // unique to this process
	Version string // of the program

	// Meter makes the instruments of measure.go; nil measures nothing.
	Meter otel.Meter

	// Available returns the machine's free memory in bytes; negative when unknown.
	Available func() int64

	plan     *sweep.Plan
	store    *sweepstore.Sweep
	trials   *sweepstore.Trials
	metric   metric.Metric   // by which trials are compared
	metrics  []metric.Metric // that their results have, too
	dataset  *dataset.Dataset
	table    *fit.Table // of the dataset
	measures *measures
	after    deadlines // of the steps after the process was told to stop
	known    progress
	told     bool // of a trouble that is not over
}

// progress is what this task knows of other trials, so that it reads no object twice.
type progress struct {
	began   time.Time          // of the sweep, by the store's clock; zero until it is looked for
	listing sweepstore.Listing // the latest
	seen    map[int]sweep.Seen // by trial; with folds, of configurations, by the trial of their first fold
	rungs   map[sweepstore.RungKey]sweep.Reached
	results map[int]sweep.Result // by trial; where every trial or one's own time depends on them
}

// Run trains trials until none is left for this task, the sweep is over, or ctx ends. A trial that fails is a result,
// not an error. The error of Run is transient if another attempt of the task may succeed.
func (w *Worker) Run(ctx context.Context) error {
	w.after = newDeadlines(ctx)
	defer w.after.cancel()
	w.told = w.Attempt > 0 // by the attempt before, perhaps

	if err := w.open(ctx); err != nil {
		if ctx.Err() == nil {
			w.tell(err, permanent(err))
		}
		return retryable(err)
	}

	// Machines that start after the sweep has ended copy nothing.
	over, err := w.whyOver(ctx)
	if over == nil && err == nil {
		err = w.onCopies(ctx)
	}

	// Whoever leaves drops what is of no use, even if it was told to go: the last one leaves nothing behind.
	if err == nil || ctx.Err() != nil {
		w.tidy(w.after.release)
	} else {
		w.tell(err, false)
	}
	return retryable(err)
}

// open reads the sweep's plan and sets what depends on it. It refuses a plan that this build cannot train: with
// parameters or other keys that it does not know.
func (w *Worker) open(ctx context.Context) (err error) {
	w.store = sweepstore.New(w.Sweeps, w.Sweep)
	if w.plan, _, err = w.store.Plan(ctx); err != nil {
		return fmt.Errorf("sweep %s: %w", w.Sweep, err)
	}
	// Base has the parameters of open trials, as far as these do not set others.
	for _, t := range append(w.plan.Trials, sweep.Trial{Params: w.plan.Base}) {
		for name := range t.Params {
			if !gbt.IsParam(name) {
				return problem.New(problem.Environment, "task %s does not know the parameter %q of the plan; %v",
					w.Version, name, sweep.WroteIt(w.plan.Coppice))
			}
		}
	}
	w.trials = sweepstore.NewTrials(w.Sweeps, w.plan)
	w.known = progress{seen: map[int]sweep.Seen{}, results: map[int]sweep.Result{},
		rungs: map[sweepstore.RungKey]sweep.Reached{}}
	return w.plan.Trainable()
}

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

// onCopies works on the machine's copy of the dataset. If the copy turns out damaged, it goes on with another one, of
// at most maxCopies.
func (w *Worker) onCopies(ctx context.Context) error {
	since := w.trustSince()
	for n := 1; ; n++ {
		err := w.onCopy(ctx, since)
		if !errors.Is(err, errCopy) || n == maxCopies {
			return err
		}
		w.Log.Warn("continuing with another copy of the dataset", "reason", err.Error())
		since = time.Now()
	}
}

// trustSince returns the earliest verification time of a copy that this task trusts.
func (w *Worker) trustSince() time.Time {
	if w.Attempt > 0 {
		return time.Now()
	}
	return time.Now().Add(-copyTrust)
}

// onCopy maps the machine's copy of the dataset, works on it, and unmaps it. since is from when on a verification of
// the copy, by any task, is trusted. It does nothing if the sweep has ended.
func (w *Worker) onCopy(ctx context.Context, since time.Time) error {
	ds, err := w.openCopy(ctx, since)
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
	w.dataset, w.table = ds, fit.NewTable(ds)
	return errors.Join(w.work(ctx), stop())
}

// openCopy opens the machine's copy of the dataset, which the first task of the machine makes. The caller closes it.
// While the disk cannot take the copy, the task waits; other machines may do all the work meanwhile. Both
// results are nil if the sweep ends before there is a copy.
func (w *Worker) openCopy(ctx context.Context, since time.Time) (*dataset.Dataset, error) {
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
		return nil, err // the disk's fault: only that is transient
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(diskPatience),
		backoff.WithNotify(func(err error, pause time.Duration) {
			w.Log.Warn("cannot write a copy of the dataset to the disk; waiting", "error", err.Error(), "seconds",
				pause.Seconds())
			w.tell(err, false)
		}))
	switch {
	case err == nil:
		w.tell(nil, false)
	case unwanted(context.Cause(ctx)):
		return nil, nil
	}
	return ds, err
}

// untilOver returns a context that also ends when the sweep does; its cause then says how. It looks once every
// heartbeat, in the background. The caller has to call stop, which ends that and waits for it.
func (w *Worker) untilOver(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)

	var watch sync.WaitGroup
	watch.Go(func() {
		for pause(ctx, w.heartbeat()) == nil {
			over, err := w.whyOver(ctx)
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

// work claims and trains trials on the mapped dataset until next finds no more.
func (w *Worker) work(ctx context.Context) error {
	// What no trial could be trained without comes first, so that it is no trial's failure.
	var all []metric.Metric
	for _, name := range append([]string{w.plan.Spec.Metric}, w.plan.Metrics...) {
		m, err := metric.Lookup(name)
		if err != nil {
			return err
		}
		all = append(all, m)
	}
	w.metric, w.metrics = all[0], all[1:]
	if f := w.plan.Folds; f != nil && f.Scheme == string(fit.GroupKFold) { // no group is split between folds
		if err := w.table.CheckGroups(); err != nil {
			return err
		}
	}

	for {
		claim, err := w.next(ctx)
		if err != nil || claim == nil {
			return err
		}
		if err := w.trainClaimed(ctx, claim); err != nil {
			return err
		}

		// A trial's arrays take a large part of the machine's memory. Return them to the system before the next trial
		// allocates its own, and so that its reported memory does not include them.
		debug.FreeOSMemory()
	}
}

// tell writes for those who watch the sweep what holds this task up, or ends it; a nil why says that it goes on, and is
// written only after another one. refused says that the task cannot train the plan. A failure to write is only logged.
func (w *Worker) tell(why error, refused bool) {
	if why == nil && !w.told {
		return
	}
	var t *sweep.Trouble
	w.told = why != nil
	if w.told {
		t = &sweep.Trouble{Format: sweep.FormatVersion, Sweep: w.Sweep, Task: w.Task, Version: w.Version,
			Text: sweep.CutReason(program.Redact(why.Error())), Refused: refused, At: time.Now().UTC()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.store.Tell(ctx, w.Job, w.Task, t); err != nil {
		w.Log.Warn("could not tell of it", "error", err.Error())
	}
}

// Why a sweep wants no more results.
var (
	errCancelled = errors.New("the sweep was cancelled")
	errEnded     = errors.New("the sweep has ended without it")
)

// whyOver returns why this task is to train no more trials, or nil while the sweep continues.
func (w *Worker) whyOver(ctx context.Context) (why, err error) {
	if cancelled, err := w.store.Cancelled(ctx); err != nil {
		return nil, err
	} else if cancelled {
		return errCancelled, nil
	}
	if ended, err := w.store.HasEnding(ctx); err != nil || !ended {
		return nil, err
	}
	return errEnded, nil
}

// retryable marks errors worth another attempt: all but wrong data and settings, which stay wrong.
func retryable(err error) error {
	if err == nil || permanent(err) {
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

// Transient returns err as a failure that another attempt may not meet: storage is unreachable, or the machine is being
// taken away. Its kind is transient, whatever kind err had, so that Batch retries the task.
func Transient(err error) error {
	if k := problem.Of(err); k != problem.Other && k != problem.Transient {
		return problem.New(problem.Transient, "%v", err)
	}
	return problem.As(problem.Transient, err)
}

// Memory is the default for Available.
func Memory() int64 { return usage.Available() }
