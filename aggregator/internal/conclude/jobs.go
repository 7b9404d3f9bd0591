package conclude

import (
	"context"
	"errors"
	"time"

	"coppice/ledger"
	"coppice/sweep"
)

// Jobs says whether a Batch job will still run anything.
type Jobs interface {
	// State is where the job stands; ErrNoJob when there is no such job.
	State(ctx context.Context, job string) (JobState, error)
}

// JobState is where a Batch job stands.
type JobState struct {
	Name  string // in Batch's words
	Ended bool
	Began bool      // any of its tasks has run
	From  time.Time // when the first of them began; zero where that is not known
	To    time.Time // when the last of them ended; zero before, and where that is not known
}

// ErrNoJob is a job that Batch does not know.
var ErrNoJob = errors.New("there is no such job")

// submission is how long after a job was written down it may still be unknown to Batch.
const submission = 10 * time.Minute

// jobHistory are the jobs of a sweep by their numbers. Each is read when it is first asked for and then kept, so that all that one decision
// goes by is one reading, and Batch is asked once.
type jobHistory struct {
	a    *Aggregator
	plan *sweep.Plan
	read []*pastJob
}

// pastJob is a job that has taken its turn.
type pastJob struct {
	since time.Time // it was written down
	state JobState
	there bool // Batch knows it
}

// get is the job number n, nil when it has not taken its turn. Whoever asks for n has asked for those before it.
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

// ended says whether nothing will be run for the sweep any more, and in which state its newest job is. A sweep has several
// jobs where the machines of the first could not be had; as long as there are machines that have not been tried and none of
// the jobs had any, a launcher may be about to submit another.
func (t *jobHistory) ended(ctx context.Context) (ended bool, state string, err error) {
	p, now := t.plan, t.a.Now()
	since, began := p.Created, false

	for n := range len(p.Fallback) + 1 {
		j, err := t.get(ctx, n)
		if err != nil {
			return false, "", err
		}

		// Nobody has written the next job down. Nobody will, once one has begun or the launcher is overdue.
		if j == nil {
			return began || now.Sub(since) >= time.Duration(p.Spec.Machine.Wait)+submission, state, nil
		}

		// Batch may learn of a job only a while after it was written down.
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

// minimumUsage are the jobs that began, each with the time in which it has machines whether or not any of them claims a trial. A job that
// Batch does not know has none.
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
