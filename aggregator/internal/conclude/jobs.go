package conclude

import (
	"context"
	"errors"
	"time"

	"coppice/ledger"
	"coppice/sweep"
)

// Jobs tells whether a Batch job will still run tasks.
type Jobs interface {
	// State returns the job's state; ErrNoJob if there is no such job.
	State(ctx context.Context, job string) (JobState, error)
}

// JobState is the state of a Batch job.
type JobState struct {
	Name  string // Batch's name of the state
	Ended bool
	Began bool      // at least one task has run
	From  time.Time // start of the first task; zero if unknown
	To    time.Time // end of the last task; zero before that, or if unknown
}

// ErrNoJob is a job that Batch does not know.
var ErrNoJob = errors.New("there is no such job")

// submission is how long after it was recorded a job may still be unknown to Batch.
const submission = 10 * time.Minute

// jobHistory is a sweep's jobs by number. Each is read once, on first use, so that all parts of a decision use the same reading and Batch
// is asked only once.
type jobHistory struct {
	a    *Aggregator
	plan *sweep.Plan
	read []*pastJob
}

// pastJob is a job that was recorded for the sweep.
type pastJob struct {
	since time.Time // when it was recorded
	state JobState
	there bool // Batch knows it
}

// get returns job n, or nil if it was never recorded. Jobs must be requested in order.
func (t *jobHistory) get(ctx context.Context, n int) (*pastJob, error) {
	if n < len(t.read) {
		return t.read[n], nil
	}
	found, err := t.look(ctx, n)
	if err != nil {
		return nil, err
	}
	t.read = append(t.read, found)
	return found, nil
}

func (t *jobHistory) look(ctx context.Context, n int) (*pastJob, error) {
	since := t.plan.Created
	if n > 0 {
		r, err := t.a.sweep(t.plan.Sweep).Job(ctx, t.plan, n)
		if r == nil || err != nil {
			return nil, err
		}
		since = r.At
	}

	state, err := t.a.Jobs.State(ctx, t.plan.JobName(n))
	if err != nil && !errors.Is(err, ErrNoJob) {
		return nil, err
	}
	return &pastJob{since, state, err == nil}, nil
}

// ended reports whether the sweep's jobs will run nothing more, and the state of the newest one. A sweep has several jobs if the machines
// of the first were not available; while there are machines left to try and no job has got any, a launcher may be about to submit another.
func (t *jobHistory) ended(ctx context.Context) (ended bool, state string, err error) {
	p, now := t.plan, t.a.Now()
	since, began := p.Created, false

	for n := range len(p.Fallback) + 1 {
		j, err := t.get(ctx, n)
		if err != nil {
			return false, "", err
		}

		// The next job is not recorded. It will not be, once one has begun or the launcher is overdue.
		if j == nil {
			return began || now.Sub(since) >= time.Duration(p.Spec.Machine.Wait)+submission, state, nil
		}

		// Batch may learn of a job some time after it was recorded.
		s := j.state
		if !j.there {
			s = JobState{Name: "not there", Ended: now.Sub(j.since) >= submission}
		}

		if !s.Ended {
			return false, "", nil
		}
		since, state, began = j.since, s.Name, began || s.Began
	}
	return true, state, nil
}

// minimumUsage lists the jobs that began, each with the period during which it has machines whether or not they claim a trial. A job
// unknown to Batch is not listed.
func (t *jobHistory) minimumUsage(ctx context.Context) ([]ledger.MinimumUsage, error) {
	var usage []ledger.MinimumUsage
	for n := range len(t.plan.Fallback) + 1 {
		j, err := t.get(ctx, n)
		if err != nil {
			return nil, err
		}
		if j == nil {
			break
		}
		if j.there && j.state.Began {
			usage = append(usage, ledger.MinimumUsage{Job: n, Submitted: j.since, Began: j.state.From, Ended: j.state.To})
		}
	}

	return usage, nil
}
