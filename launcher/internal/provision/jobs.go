package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// Course returns which jobs of a sweep are recorded.
func Course(ctx context.Context, store blob.Store, p *sweep.Plan) (sweepstore.Course, error) {
	c, err := sweepstore.New(store, p.Sweep).Course(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", p.Sweep, err)
	}
	return c, nil
}

// Look returns the status of the sweep's current job, with the jobs that were abandoned before it. It counts as
// finished when all jobs have finished, since an abandoned job may still be running. Its machines are described until
// it has ended itself.
func Look(ctx context.Context, store blob.Store, jobs JobRunner, p *sweep.Plan) (SweepJob, error) {
	course, err := Course(ctx, store, p)
	if err != nil {
		return SweepJob{}, err
	}

	n := course.Current()
	now, err := jobs.Status(ctx, p.JobName(n))
	if err != nil {
		return SweepJob{}, err
	}

	s := SweepJob{JobStatus: now, Name: p.JobName(n), Finished: now.State.Ended()}
	if !s.Finished {
		s.Machines = describeMachines(p, n, now)
	}

	// The jobs before it. r, the record of the job that followed job number i of the list, says why that was abandoned.
	for i, r := range course {
		before := course.Numbers()[i]
		s.Earlier = append(s.Earlier, Abandoned{before, p.JobName(before), r.Reason})
		if !s.Finished {
			continue
		}
		earlier, err := jobs.Status(ctx, p.JobName(before))
		if err != nil {
			return s, err
		}
		s.Finished = earlier.State.Ended()
	}
	return s, nil
}

// Leave waits until all jobs with machines of a sweep that was cancelled have ended by themselves: their tasks notice
// and exit. It waits for at most patience and returns nil then, too; Cancel ends what still runs.
func (l *Provisioner) Leave(ctx context.Context, patience time.Duration) error {
	for begun := l.Now(); l.Now().Sub(begun) < patience; {
		course, err := Course(ctx, l.Store, l.Plan)
		if err != nil {
			return err
		}
		working := false
		for _, n := range course.Numbers() {
			s, err := l.Jobs.Status(ctx, l.Plan.JobName(n))
			if err != nil {
				return err
			}
			working = working || s.Began && !s.State.Ended()
		}
		if !working {
			return nil
		}
		if err := l.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// CancelWaiting cancels those jobs of a sweep that has ended which still wait for machines. The machines might come up
// to two days later, and would be paid for only to find nothing to do.
func CancelWaiting(ctx context.Context, store blob.Store, jobs JobRunner, p *sweep.Plan) error {
	course, err := Course(ctx, store, p)
	if err != nil {
		return err
	}
	for _, n := range course.Numbers() {
		s, err := jobs.Status(ctx, p.JobName(n))
		if err == nil && s.State == engine.Waiting {
			_, err = jobs.Cancel(ctx, p.JobName(n))
		}
		if err != nil {
			return fmt.Errorf("cancel job %s, which waits for machines: %w", p.JobName(n), err)
		}
	}
	return nil
}

// Cancel cancels all jobs of the sweep, including those that are added meanwhile, and returns the last status of the
// newest. It continues after an error and returns all errors.
func Cancel(ctx context.Context, store blob.Store, jobs JobRunner, p *sweep.Plan) (SweepJob, error) {
	var last SweepJob
	var failed []error
	for i := 0; ; i++ {
		course, err := Course(ctx, store, p) // read again each time: a job may have been added
		if err != nil {
			return last, errors.Join(append(failed, err)...)
		}
		numbers := course.Numbers()
		if i >= len(numbers) {
			last.Name = p.JobName(course.Current())
			return last, errors.Join(failed...)
		}

		name := p.JobName(numbers[i])
		if last.JobStatus, err = jobs.Cancel(ctx, name); err != nil {
			failed = append(failed, fmt.Errorf("cancel job %s: %w", name, err))
		}
	}
}
