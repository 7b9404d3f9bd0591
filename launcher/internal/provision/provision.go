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

// JobRunner runs a sweep's jobs. A job that does not exist is Gone.
type JobRunner interface {
	// Submit starts the plan's job; existed says that it had been started before.
	Submit(context.Context, *sweep.Plan) (existed bool, err error)
	Status(ctx context.Context, job string) (engine.JobStatus, error)
	// Cancel stops the job and returns once it has stopped.
	Cancel(ctx context.Context, job string) (engine.JobStatus, error)
	// Delete removes a job that has ended.
	Delete(ctx context.Context, job string) error
}

// Provisioner gets machines for one sweep.
type Provisioner struct {
	Store blob.Store // the sweeps bucket
	Jobs  JobRunner
	Plan  *sweep.Plan
	Now   func() time.Time
	Every time.Duration // between two looks at a waiting job
	// Moved, which may be nil, is called when job n becomes current, with the reason why the previous one was
	// abandoned.
	Moved func(n int, reason string)
	// Waits, which may be nil, is called when machines of the current job cannot be had, once for each reason.
	Waits func(*Machines)
}

// Submit starts the sweep's current job, unless it exists. existed reports whether it did.
func (l *Provisioner) Submit(ctx context.Context) (existed bool, err error) {
	course, err := Course(ctx, l.Store, l.Plan)
	if err != nil {
		return false, err
	}
	return l.submit(ctx, l.Plan.Placed(course.Current()))
}

// submit starts the plan's job, unless it exists. A job that has failed because its programs were of another version
// and refused the plan, before any trial began, is deleted and started again: the image may have other programs by now.
func (l *Provisioner) submit(ctx context.Context, p *sweep.Plan) (existed bool, err error) {
	if existed, err = l.Jobs.Submit(ctx, p); err != nil || !existed {
		return existed, err
	}

	// It exists. Did it fail because its programs refused the plan?
	s, err := l.Jobs.Status(ctx, p.Job)
	if err != nil || s.State != engine.Failed {
		return true, err
	}
	listed, err := sweepstore.NewTrials(l.Store, p).List(ctx)
	if err != nil {
		return true, err
	}
	if refused, err := sweepstore.New(l.Store, p.Sweep).Refused(ctx, listed); err != nil || !refused {
		return true, err
	}

	if err := l.Jobs.Delete(ctx, p.Job); err != nil {
		return true, fmt.Errorf("delete job %s, whose programs refused the plan: %w", p.Job, err)
	}
	return l.Jobs.Submit(ctx, p)
}

// Settle moves the sweep from one job to the next until nothing is left to decide: a job has machines, it is the last
// of the list, or the sweep is over. It may be interrupted at any time, and called again by any process: each turn of
// the loop reads again which job is current.
func (l *Provisioner) Settle(ctx context.Context) error {
	submitted, told := -1, map[string]bool{}
	for {
		course, err := Course(ctx, l.Store, l.Plan)
		if err != nil {
			return err
		}
		n := course.Current()
		if over, err := l.needsNoMore(ctx); err != nil || over {
			return err
		}

		if n != submitted {
			if err := l.beginJob(ctx, course); err != nil {
				return err
			}
			submitted = n
			continue // another launcher may have continued, or the sweep may have been cancelled
		}

		s, err := l.Jobs.Status(ctx, l.Plan.JobName(n))
		if err != nil {
			return err
		}

		what, why := decide(l.Plan, n, s, l.Now())
		switch what {
		case settled:
			return nil
		case move: // the next turn of the loop abandons this job and starts the next
			err = l.record(ctx, n+1, why)
		default:
			if m := describeMachines(l.Plan, n, s); l.Waits != nil && !told[m.Why] && m.Why != "" {
				told[m.Why] = true
				l.Waits(m)
			}
			err = l.pause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// beginJob cancels the jobs before the current one, and then starts that. So two jobs do not have machines at once;
// should it happen, their tasks share the trials.
func (l *Provisioner) beginJob(ctx context.Context, course sweepstore.Course) error {
	current := course.Current()
	for _, n := range course.Numbers() {
		if n == current {
			break
		}
		name := l.Plan.JobName(n)
		s, err := l.Jobs.Status(ctx, name)
		if err == nil && !s.State.Ended() {
			_, err = l.Jobs.Cancel(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("give up job %s: %w", name, err)
		}
	}
	_, err := l.submit(ctx, l.Plan.Placed(current))
	return err
}

// record makes job n the current one by writing its record, with the reason why the one before was abandoned. If
// another process has done so already, nothing happens.
func (l *Provisioner) record(ctx context.Context, n int, why string) error {
	r := sweep.JobRecord{Format: sweep.FormatVersion, Sweep: l.Plan.Sweep, Number: n, Job: l.Plan.JobName(n),
		Reason: why[:min(len(why), maxReason)], At: l.Now().UTC()}
	created, err := sweepstore.New(l.Store, l.Plan.Sweep).CreateJob(ctx, r)
	if err != nil {
		return fmt.Errorf("record job %s: %w", r.Job, err)
	}
	if created && l.Moved != nil {
		l.Moved(n, r.Reason)
	}
	return nil
}

// maxReason is the most bytes of a reason, well below what a record may have.
const maxReason = 1000

// needsNoMore reports whether the sweep needs no more machines, as it was cancelled or has ended. In the first case it
// cancels all jobs, one of which may have been submitted just after the others were cancelled. In the second it cancels
// those that wait for machines.
func (l *Provisioner) needsNoMore(ctx context.Context) (bool, error) {
	cancelled, err := sweepstore.New(l.Store, l.Plan.Sweep).Cancelled(ctx)
	if err != nil {
		return false, err
	}
	if cancelled {
		_, err := Cancel(ctx, l.Store, l.Jobs, l.Plan)
		return true, err
	}
	ended, err := sweepstore.New(l.Store, l.Plan.Sweep).HasEnding(ctx)
	if ended && err == nil {
		err = CancelWaiting(ctx, l.Store, l.Jobs, l.Plan)
	}
	return ended, err
}

// pause waits for l.Every, or returns the error of ctx if that ends before.
func (l *Provisioner) pause(ctx context.Context) error {
	t := time.NewTimer(l.Every)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

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
