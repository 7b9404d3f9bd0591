package provision

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
)

// HaltedError reports a sweep that is paused.
type HaltedError struct {
	Sweep sweep.ID
	Since time.Time // by the store's clock
}

func (e *HaltedError) Error() string {
	return fmt.Sprintf("sweep %s was paused %s: `launcher resume %s` resumes it, `launcher cancel %s` ends it",
		e.Sweep, humanize.Time(e.Since), e.Sweep, e.Sweep)
}

// Kind is Conflict: someone has paused it.
func (*HaltedError) Kind() problem.Kind { return problem.Conflict }

// ResumedError reports a sweep that has been resumed meanwhile.
type ResumedError struct{ Sweep sweep.ID }

func (e *ResumedError) Error() string {
	return fmt.Sprintf("sweep %s has been resumed meanwhile; `launcher watch %s` shows it", e.Sweep, e.Sweep)
}

// Kind is Conflict: someone has resumed it.
func (*ResumedError) Kind() problem.Kind { return problem.Conflict }

// Halt pauses the sweep: its tasks will save their trials and leave, and nothing else submits a job for it. created is
// false if it is paused already, by the pause of that number.
func (l *Provisioner) Halt(ctx context.Context) (number int, created bool, err error) {
	course, err := Course(ctx, l.Store, l.Plan)
	if err != nil {
		return 0, false, err
	}
	if number = course.Next(); number > sweep.MaxHalts {
		return 0, false, problem.New(problem.Conflict, "sweep %s has been paused %d times, which is the most; "+
			"`launcher cancel %s` "+
			"ends it", l.Plan.Sweep, sweep.MaxHalts, l.Plan.Sweep)
	}
	if created, err = sweepstore.New(l.Store, l.Plan.Sweep).CreateHalt(ctx, number, l.Now().UTC()); err != nil {
		return 0, false, fmt.Errorf("pause sweep %s: %w", l.Plan.Sweep, err)
	}
	return number, created, nil
}

// Leave waits until the jobs before the pause of that number, or all of them if that cannot come, have ended, and
// returns the state of the last. It cancels
// them if they have no machines yet, or if their tasks have not left after patience: they lose what they have trained
// since their last checkpoint. A sweep that goes on meanwhile is a *ResumedError; its new job is left alone.
func (l *Provisioner) Leave(ctx context.Context, number int, patience time.Duration) (state string, err error) {
	for begun := l.Now(); ; {
		state, lives, err := l.Dismiss(ctx, number, l.Now().Sub(begun) >= patience)
		if err != nil || !lives {
			return state, err
		}
		if err := l.pause(ctx); err != nil {
			return state, err
		}
	}
}

// Dismiss cancels the jobs before the pause of that number if none of them has machines, or, with all, in any case.
// lives says that they go on until their tasks have left.
func (l *Provisioner) Dismiss(ctx context.Context, number int, all bool) (state string, lives bool, err error) {
	course, err := Course(ctx, l.Store, l.Plan)
	if err != nil {
		return "", false, err
	}
	if l.Plan.Turn(course.Current()) >= number {
		return "", false, &ResumedError{l.Plan.Sweep}
	}

	var alive []string
	began := false
	for _, n := range course.Numbers() { // all are before the pause
		s, err := l.Jobs.Status(ctx, l.Plan.JobName(n))
		if err != nil {
			return "", false, err
		}
		if state = s.State; !s.Finished {
			alive = append(alive, l.Plan.JobName(n))
			began = began || s.Began
		}
	}
	if began && !all {
		return state, true, nil
	}
	for _, name := range alive {
		s, err := l.Jobs.Cancel(ctx, name)
		if err != nil {
			return "", false, fmt.Errorf("cancel job %s: %w", name, err)
		}
		state = s.State
	}
	return state, false, nil
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
