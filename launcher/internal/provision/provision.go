package provision

import (
	"context"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/sweep"
	"coppice/sweepstore"
)

// Jobs runs a sweep's jobs. A job that is not there has a finished Status without a time of creation.
type Jobs interface {
	// Submit starts the plan's job; existed says that it had been started before.
	Submit(context.Context, *sweep.Plan) (existed bool, err error)
	Status(ctx context.Context, job string) (Status, error)
	// Cancel stops the job and returns when it has come to rest.
	Cancel(ctx context.Context, job string) (Status, error)
}

// Provisioner finds machines for one sweep.
type Provisioner struct {
	Store blob.Store // the sweeps bucket
	Jobs  Jobs
	Plan  *sweep.Plan
	Now   func() time.Time
	Every time.Duration // between two looks at a job that waits
	// Moved, which may be nil, is told that job number n has taken its turn, and why the one before was given up.
	Moved func(n int, reason string)
}

// Submit starts the job whose turn it is; existed says that it had been started before.
func (l *Provisioner) Submit(ctx context.Context) (existed bool, err error) {
	records, err := Records(ctx, l.Store, l.Plan)
	if err != nil {
		return false, err
	}
	return l.Jobs.Submit(ctx, l.Plan.Placed(len(records)))
}

// Settle returns when nothing is left to decide: a job of the sweep has machines, or is the last of the list, or the sweep is
// over. It may be interrupted at any time, and called again by anybody.
func (l *Provisioner) Settle(ctx context.Context) error {
	submitted := -1
	for {
		records, err := Records(ctx, l.Store, l.Plan)
		if err != nil {
			return err
		}
		n := len(records)
		if over, err := l.over(ctx); err != nil || over {
			return err
		}

		if n != submitted {
			if err := l.begin(ctx, n); err != nil {
				return err
			}
			submitted = n
			continue // somebody may have gone on, or cancelled the sweep, meanwhile
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
			err = l.pause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// begin gives up the jobs before number n and starts that. No two of them get machines at once on purpose; should it happen,
// their tasks share the trials.
func (l *Provisioner) begin(ctx context.Context, n int) error {
	for i := range n {
		name := l.Plan.JobName(i)
		s, err := l.Jobs.Status(ctx, name)
		if err == nil && !s.Finished {
			_, err = l.Jobs.Cancel(ctx, name)
		}
		if err != nil {
			return fmt.Errorf("give up job %s: %w", name, err)
		}
	}
	_, err := l.Jobs.Submit(ctx, l.Plan.Placed(n))
	return err
}

// record makes number n the sweep's job. Whoever else has done so first is as good.
func (l *Provisioner) record(ctx context.Context, n int, why string) error {
	r := sweep.JobRecord{Format: sweep.FormatVersion, Sweep: l.Plan.Sweep, Number: n, Job: l.Plan.JobName(n), Reason: shorten(why), At: l.Now().UTC()}
	created, err := sweepstore.New(l.Store, l.Plan.Sweep).CreateJob(ctx, r)
	if err != nil {
		return fmt.Errorf("write down job %s: %w", r.Job, err)
	}
	if created && l.Moved != nil {
		l.Moved(n, r.Reason)
	}
	return nil
}

// maxReason is far below what a record may hold.
const maxReason = 1000

func shorten(s string) string {
	if len(s) > maxReason {
		return s[:maxReason]
	}
	return s
}

// over says whether the sweep wants no machines any more. Of a sweep that was cancelled it cancels whatever job is left: one may
// have been submitted just after somebody cancelled the others.
func (l *Provisioner) over(ctx context.Context) (bool, error) {
	cancelled, err := sweepstore.New(l.Store, l.Plan.Sweep).Cancelled(ctx)
	if err != nil {
		return false, err
	}
	if cancelled {
		_, err := Cancel(ctx, l.Store, l.Jobs, l.Plan)
		return true, err
	}
	return sweepstore.New(l.Store, l.Plan.Sweep).HasEnding(ctx)
}

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
