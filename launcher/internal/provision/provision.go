package provision

import (
	"context"
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
