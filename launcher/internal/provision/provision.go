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

// Submit starts the current job; existed says that it had been started before.
func (l *Provisioner) Submit(ctx context.Context) (existed bool, err error) {
	course, err := Course(ctx, l.Store, l.Plan)
	if err != nil {
		return false, err
	}
	return l.submit(ctx, l.Plan.Placed(course.Current()))
}

// submit starts a job. One that has ended because its programs refused the plan makes way: others may be there now.
func (l *Provisioner) submit(ctx context.Context, p *sweep.Plan) (existed bool, err error) {
	if existed, err = l.Jobs.Submit(ctx, p); err != nil || !existed {
		return existed, err
	}
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

// Settle returns when nothing is left to decide: a job of the sweep has machines, or is the last of the list, or the
// sweep is over. It may be interrupted at any time, and called again by any process.
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
		case move:
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

// beginJob abandons the jobs before n and starts that one. Two of them should not have machines at once; if it happens,
// their tasks share the trials.
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

// record makes job n the current one. It does not matter if another process already has.
func (l *Provisioner) record(ctx context.Context, n int, why string) error {
	r := sweep.JobRecord{Format: sweep.FormatVersion, Sweep: l.Plan.Sweep, Number: n, Job: l.Plan.JobName(n),
		Reason: shorten(why), At: l.Now().UTC()}
	created, err := sweepstore.New(l.Store, l.Plan.Sweep).CreateJob(ctx, r)
	if err != nil {
		return fmt.Errorf("record job %s: %w", r.Job, err)
	}
	if created && l.Moved != nil {
		l.Moved(n, r.Reason)
	}
	return nil
}

// maxReason is well below the limit of a record.
const maxReason = 1000

func shorten(s string) string {
	if len(s) > maxReason {
		return s[:maxReason]
	}
	return s
}

// needsNoMore reports whether the sweep needs no more machines. If it was cancelled, any remaining job is cancelled: it
// may have been submitted just after the others were.
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
