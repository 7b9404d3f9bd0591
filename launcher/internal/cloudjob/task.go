// Package cloudjob runs a launcher command as a Batch job of one task, close to the data: staging a dataset, a
// backtest, or training a version again. The task is the launcher itself, with the same code as on a laptop; it writes
// its progress and outcome to two objects of the datasets bucket, which the submitter reads.
package cloudjob

import (
	"context"
	"slices"
	"sync"
	"time"

	"coppice/internal/blob"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// Task is the program running in a job.
type Task struct {
	Env   sweep.LauncherTaskEnv
	Store blob.Store // the datasets bucket
	Build string     // the launcher's version
	Now   func() time.Time
	Every time.Duration   // between two progress reports
	Code  func(error) int // maps an error to an exit code
}

// run does the work and writes its outcome to the folder. If the machine is taken away it writes none: the next attempt
// will.
func (t *Task) run(ctx context.Context, folder string, work func(*reporter) (Outcome, error)) error {
	r := &reporter{store: t.Store, name: folder + progressFile, latest: Progress{Format: 1, Attempt: t.Env.Attempt}}
	stop := r.start(ctx, t.Every)
	o, err := work(r)
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}

	o.Format, o.Attempt, o.At = 1, t.Env.Attempt, t.Now().UTC()
	if err != nil {
		o.Error = err.Error()
		o.Code = t.Code(err)
		o.Error = o.Error[:min(len(o.Error), maxError)]
	}

	if reportErr := put(ctx, t.Store, folder+outcomeFile, o); reportErr != nil && err == nil {
		return reportErr
	}
	return err
}

// reporter writes the latest progress periodically, so that writing never delays the work.
type reporter struct {
	store blob.Store
	name  string

	mu      sync.Mutex
	latest  Progress
	changed bool // since the last write
}

// note records a step's progress.
func (r *reporter) note(step stager.Step, done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest.Step, r.latest.Done, r.latest.Total = step, done, total
	r.changed = true
}

// say adds a line for people.
func (r *reporter) say(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest.Lines = append(r.latest.Lines, line)
	r.changed = true
}

// take returns unwritten progress; nil for none.
func (r *reporter) take() *Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.changed {
		return nil
	}
	r.changed = false
	p := r.latest
	p.Lines = slices.Clone(p.Lines)
	return &p
}

// start writes periodically until the returned function is called, which writes a last time. A failed write does not
// stop the work.
func (r *reporter) start(ctx context.Context, every time.Duration) (stop func()) {
	quit := make(chan struct{})
	var ended sync.WaitGroup

	write := func() {
		if p := r.take(); p != nil {
			_ = put(ctx, r.store, r.name, p)
		}
	}
	ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()

		for {
			select {
			case <-quit:
				write()
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				write()
			}
		}
	})

	return func() { close(quit); ended.Wait() }
}
