// Package cloudjob runs a launcher command as a Batch job, close to the data: staging a dataset, training a version
// again or scoring tables; only these are shared by several tasks. The task is the launcher itself, with the
// same code as on a laptop; it writes its progress and outcome to two objects of the datasets bucket, which the
// submitter reads.
//
//	submitter    Submit: a job named after what it does, so that asking again attaches; Follower.Wait
//	task         Stage, Reproduce, Predict: progress.json now and then, outcome.json at the end
package cloudjob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"coppice/internal/blob"
	"coppice/internal/dataset"
	"coppice/internal/registry"
	"coppice/internal/sweep"
	"coppice/launcher/internal/reproduce"
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
func (t *Task) run(ctx context.Context, folder string, work func(*reporter) (JobOutcome, error)) error {
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

	cond := blob.Any
	if o.Predicted != nil && err == nil { // another task may have failed, which is to be heard
		cond = blob.Absent
	}
	reportErr := put(ctx, t.Store, folder+outcomeFile, cond, o)
	if reportErr != nil && err == nil && !errors.Is(reportErr, blob.ErrPrecondition) {
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
			_ = put(ctx, r.store, r.name, blob.Any, p)
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

// Stage is the task of a staging job. Its outcome has the version.
func (t *Task) Stage(ctx context.Context, s *stager.Stager, dst stager.Destination) error {
	spec, err := dataset.ParseSpec(t.Env.File, []byte(t.Env.Spec))
	if err != nil {
		return err // without a name there is no folder for an outcome; the submitter has parsed the spec, too
	}

	return t.run(ctx, sweep.DatasetStaging(spec.Name, t.Env.Job), func(r *reporter) (JobOutcome, error) {
		s.Progress = r.note
		if spec.Encodings.Like = t.Env.Like; t.Env.Like != "" { // resolved by the submitter
			name, version, err := sweep.SplitDatasetRef(t.Env.Like)
			if err != nil {
				return JobOutcome{}, err
			}
			if s.Like, err = stager.Manifest(ctx, t.Store, name, version); err != nil {
				return JobOutcome{}, fmt.Errorf("dataset %s, which this one is to be like: %w", t.Env.Like, err)
			}
		}
		staged, err := s.Stage(ctx, spec, dst)
		if err != nil {
			return JobOutcome{}, err
		}
		return JobOutcome{Version: staged.Manifest.Version, Existed: staged.Existed}, nil
	})
}

// Reproduce is the task of a job that trains a version again, by grow, which may tell people what it does. The report
// is part of the outcome, also of a version that has other bytes now: what that means is for the submitter to say.
func (t *Task) Reproduce(ctx context.Context, grow func(say func(string)) (*reproduce.Report, error)) error {
	return t.run(ctx, sweep.DatasetReproduction(t.Env.Dataset, t.Env.Job), func(r *reporter) (JobOutcome, error) {
		report, err := grow(r.say)
		return JobOutcome{Reproduced: report}, err
	})
}

// Predict is a task of a job that scores tables with a model. Its outcome is that of the task that failed last, if one
// has: whether all tables are scored is for the submitter to see.
func (t *Task) Predict(ctx context.Context, score func() (*Predicted, error)) error {
	return t.run(ctx, sweep.Prediction(t.Env.Dataset, t.Env.Job), func(*reporter) (JobOutcome, error) {
		p, err := score()
		return JobOutcome{Predicted: p}, err
	})
}

// VersionKey identifies what a job that trains a version again depends on: everything in the version's record, and the
// build. It has 32 hexadecimal digits.
func VersionKey(v registry.Version, build string) (string, error) {
	record, err := v.Record()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(record, build...))
	return hex.EncodeToString(sum[:16]), nil
}
