// Package cloudjob stages a dataset as a Batch job, close to the data. The job's only task is the launcher itself, with
// the same code as on a laptop; it writes its progress and outcome to two objects of the datasets bucket, which the
// submitter reads.
//
//	submitter    Submit: a job named after what it does, so that asking again attaches; Follower.Wait
//	task         Task.Stage: progress.json now and then, outcome.json at the end
package cloudjob

import (
	"context"
	"sync"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// Task is the program running in a job.
type Task struct {
	Env   environment.LauncherTaskEnv
	Store blob.Store // the datasets bucket
	Now   func() time.Time
	Every time.Duration   // between two progress reports
	Code  func(error) int // maps an error to an exit code
}

// Stage stages the dataset of the task's environment with s at dst, and writes the outcome: the version, or the error
// and its exit code. Meanwhile it writes the progress, for which it sets s.Progress. If ctx ends, since the machine is
// taken away, it writes no outcome; the next attempt will. The error is that of staging or, after a success, that of
// writing the outcome.
func (t *Task) Stage(ctx context.Context, s *stager.Stager, dst stager.Destination) error {
	spec, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // without a name there is no folder for an outcome; the submitter has parsed the spec, too
	}

	// Stage, with reports.
	folder := sweep.DatasetStaging(spec.Name, t.Env.Job)
	r := &reporter{store: t.Store, name: folder + progressFile, latest: Progress{Format: 1}}
	s.Progress = r.note
	stop := r.startReporting(ctx, t.Every)
	staged, err := s.Stage(ctx, spec, dst)
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}

	// Write how it ended: the version or, cut to what a reader takes, the error.
	o := JobOutcome{Format: 1, Attempt: t.Env.Attempt, At: t.Now().UTC()}
	if err != nil {
		text := err.Error()
		o.Error, o.Code = text[:min(len(text), maxError)], t.Code(err)
	} else {
		o.Version, o.Existed = staged.Manifest.Version, staged.Existed
	}
	if reportErr := putJSON(ctx, t.Store, folder+outcomeFile, o); reportErr != nil && err == nil {
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

// takeProgress returns the progress if it has changed since the last call, else nil.
func (r *reporter) takeProgress() *Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.changed {
		return nil
	}
	r.changed = false
	p := r.latest
	return &p
}

// startReporting writes the latest progress in a goroutine, every so often if it has changed, until ctx ends or stop is
// called. stop writes a last time, unless ctx has ended, and returns when the goroutine has ended. A failed write is
// passed over.
func (r *reporter) startReporting(ctx context.Context, every time.Duration) (stop func()) {
	quit := make(chan struct{})
	var ended sync.WaitGroup

	write := func() {
		if p := r.takeProgress(); p != nil {
			_ = putJSON(ctx, r.store, r.name, p)
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
