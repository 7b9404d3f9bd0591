package conclude

import (
	"context"
	"errors"
	"time"

	"coppice/blob"
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

// jobsEnded says whether nothing will be run for the sweep any more, and in which state its newest job is. A sweep has several
// jobs where the machines of the first could not be had; as long as there are machines that have not been tried and none of
// the jobs had any, a launcher may be about to submit another.
func (a *Aggregator) jobsEnded(ctx context.Context, p *sweep.Plan) (ended bool, state string, err error) {
	since, began := p.Created, false
	for n := 0; ; n++ {
		if n > 0 {
			r, err := a.jobRecord(ctx, p, n)
			if err != nil {
				return false, "", err
			}
			if r == nil {
				break
			}
			since = r.At
		}
		s, err := a.Jobs.State(ctx, p.JobName(n))
		if errors.Is(err, ErrNoJob) {
			s, err = JobState{Name: "not there", Ended: a.Now().Sub(since) >= submission}, nil
		}
		if err != nil || !s.Ended {
			return false, "", err
		}
		state, began = s.Name, began || s.Began
		if n == len(p.Fallback) {
			return true, state, nil
		}
	}
	return began || a.Now().Sub(since) >= time.Duration(p.Spec.Machine.Wait)+submission, state, nil
}

// floors are the jobs that began, each with the time in which it has machines whether or not any of them claims a trial. A job that
// Batch does not know has none.
func (a *Aggregator) floors(ctx context.Context, p *sweep.Plan) ([]ledger.Floor, error) {
	var floors []ledger.Floor
	for n := range len(p.Fallback) + 1 {
		f := ledger.Floor{Job: n, Submitted: p.Created}
		if n > 0 {
			r, err := a.jobRecord(ctx, p, n)
			if err != nil {
				return nil, err
			}
			if r == nil {
				break
			}
			f.Submitted = r.At
		}
		s, err := a.Jobs.State(ctx, p.JobName(n))
		if errors.Is(err, ErrNoJob) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if s.Began {
			f.Began, f.Ended = s.From, s.To
			floors = append(floors, f)
		}
	}
	return floors, nil
}

// jobRecord is the sweep's job number n, nil when it has not taken its turn.
func (a *Aggregator) jobRecord(ctx context.Context, p *sweep.Plan, n int) (*sweep.JobRecord, error) {
	data, _, err := blob.ReadAll(ctx, a.Sweeps, p.Sweep.JobRecord(n), maxObject)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return sweep.DecodeJobRecord(data, p, n)
}
