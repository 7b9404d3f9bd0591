package provision

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"coppice/sweep"
	"coppice/sweepstore"
)

// HaltedError reports a sweep that is paused.
type HaltedError struct {
	Sweep sweep.ID
	Since time.Time // by the store's clock
}

func (e *HaltedError) Error() string {
	return fmt.Sprintf("sweep %s was paused %s: `launcher resume %s` lets it go on, `launcher cancel %s` ends it", e.Sweep, humanize.Time(e.Since), e.Sweep, e.Sweep)
}

// IsConflict says that somebody else has paused it.
func (*HaltedError) IsConflict() bool { return true }

// PausedTooOftenError reports a sweep that cannot be paused once more.
type PausedTooOftenError struct{ Sweep sweep.ID }

func (e *PausedTooOftenError) Error() string {
	return fmt.Sprintf("sweep %s has been paused %d times, which is the most; `launcher cancel %s` ends it", e.Sweep, sweep.MaxHalts, e.Sweep)
}

// IsConflict says that the sweep's state does not allow it.
func (*PausedTooOftenError) IsConflict() bool { return true }

// Halt pauses the sweep: its tasks will save their trials and leave, and nothing else submits a job for it. created is false if it is paused
// already.
func (l *Provisioner) Halt(ctx context.Context) (created bool, err error) {
	course, err := Course(ctx, l.Store, l.Plan)
	if err != nil {
		return false, err
	}
	if course.Next() > sweep.MaxHalts {
		return false, &PausedTooOftenError{l.Plan.Sweep}
	}
	if created, err = sweepstore.New(l.Store, l.Plan.Sweep).CreateHalt(ctx, course.Next(), l.Now().UTC()); err != nil {
		return false, fmt.Errorf("pause sweep %s: %w", l.Plan.Sweep, err)
	}
	return created, nil
}

// Leave waits until the jobs of a sweep that was paused have ended. It cancels them if they have no machines yet, or if their tasks have not
// left after that time: they lose what they have trained since their last checkpoint.
func (l *Provisioner) Leave(ctx context.Context, patience time.Duration) (Status, error) {
	for begun := l.Now(); ; {
		s, err := Look(ctx, l.Store, l.Jobs, l.Plan)
		if err != nil || s.Finished {
			return s, err
		}
		if !s.Began || l.Now().Sub(begun) >= patience {
			return Cancel(ctx, l.Store, l.Jobs, l.Plan)
		}
		if err := l.pause(ctx); err != nil {
			return s, err
		}
	}
}

// Resume gives a sweep that is paused its next job, which Submit starts. resumed is false if it was not paused.
func (l *Provisioner) Resume(ctx context.Context) (resumed bool, err error) {
	course, err := Course(ctx, l.Store, l.Plan)
	if err != nil {
		return false, err
	}
	if _, halted := course.Halted(); !halted {
		return false, nil
	}
	return l.create(ctx, l.Plan.FirstJob(course.Next()), "the sweep was paused")
}
