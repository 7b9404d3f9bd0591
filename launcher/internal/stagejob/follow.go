package stagejob

import (
	"context"
	"errors"
	"fmt"
	"time"

	"coppice/blob"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
	"coppice/sweep"
)

// Request is a staging job.
type Request struct {
	Dataset     string
	Fingerprint string // of the input, hexadecimal
	Env         sweep.StageEnv
	Machine     string
	VCPUs       int
	Memory      int64 // of the machine, bytes
	Spot        bool
	LocalSSD    int // disks, a number that the machine type takes
	Limit       time.Duration
}

// Jobs runs staging jobs.
type Jobs interface {
	// Name is the full name of the job with the id.
	Name(sweep.ID) string
	// SubmitStage starts the job whose id is in the request's Env; existed says that it had been started before.
	SubmitStage(context.Context, Request) (existed bool, err error)
	Status(ctx context.Context, job string) (provision.Status, error)
	Cancel(ctx context.Context, job string) (provision.Status, error)
}

// Job is a staging job that has been submitted.
type Job struct {
	ID, Name string
	Attached bool // it was there before, whoever started it
}

// fingerprintDigits are enough of a fingerprint for a job's id, which has room for no more.
const fingerprintDigits = 12

// maxRuns bounds how often one input is staged: a job's id is used once, and one that failed keeps it for sixty days.
const maxRuns = 100

// jobID is the id of run number n of staging an input.
func jobID(name, fingerprint string, n int) string {
	id := "stage-" + name + "-" + fingerprint[:fingerprintDigits]
	if n > 0 {
		id += fmt.Sprintf("-%d", n)
	}
	return id
}

// TooOftenError is an input whose staging has failed too often.
type TooOftenError struct{ Dataset string }

func (e *TooOftenError) Error() string {
	return fmt.Sprintf("dataset %s: %d jobs have tried to stage this input; delete some of them: gcloud batch jobs list", e.Dataset, maxRuns)
}

// Submit starts a job for the request, or attaches to one that is staging the same input. The request's Env.Job is filled in.
func Submit(ctx context.Context, jobs Jobs, q Request) (*Job, error) {
	for n := range maxRuns {
		q.Env.Job = jobID(q.Dataset, q.Fingerprint, n)
		name := jobs.Name(sweep.ID(q.Env.Job))
		s, err := jobs.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		if s.Finished && !s.Created.IsZero() { // an earlier run, which left no dataset, or one that was deleted since
			continue
		}

		existed, err := jobs.SubmitStage(ctx, q)
		if err != nil {
			return nil, err
		}
		return &Job{q.Env.Job, name, existed}, nil
	}
	return nil, &TooOftenError{q.Dataset}
}

// FailedError is a staging job that has ended without a dataset.
type FailedError struct {
	Job   string
	State string
	Text  string // what the task said, or else what Batch says
	Code  int    // the task's exit code; 0 when it said nothing
}

func (e *FailedError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("staging job %s is %s: %s\nWhy is the last line of its log: in Cloud Logging, or in the folder logs/ of the local cloud's data.", e.Job, e.State, e.Text)
	}
	return fmt.Sprintf("staging job %s: %s", e.Job, e.Text)
}

// ExitStatus is how a program ends with it.
func (e *FailedError) ExitStatus() int { return max(e.Code, sweep.ExitError) }

// Follower watches a job from outside.
type Follower struct {
	Jobs     Jobs
	Store    blob.Store // the datasets bucket
	Every    time.Duration
	State    func(state string) // told of every change; may be nil
	Progress func(step stager.Step, done, total int64)
}

// Wait returns how the job ended, when it has. A job that ended without a dataset is a *FailedError.
func (f *Follower) Wait(ctx context.Context, dataset string, j *Job) (*Outcome, error) {
	folder := sweep.DatasetStaging(dataset, j.ID)
	last := ""
	tick := time.NewTicker(f.Every)
	defer tick.Stop()

	for {
		s, err := f.Jobs.Status(ctx, j.Name)
		if err != nil {
			return nil, err
		}

		if s.State != last && f.State != nil {
			f.State(s.State)
		}
		last = s.State
		if s.Finished {
			return f.ended(ctx, folder, j, s)
		}

		p, err := readProgress(ctx, f.Store, folder)
		if err != nil {
			return nil, err
		}
		if p != nil {
			f.Progress(p.Step, p.Done, p.Total)
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

func (f *Follower) ended(ctx context.Context, folder string, j *Job, s provision.Status) (*Outcome, error) {
	o, err := readOutcome(ctx, f.Store, folder)
	var damaged *sweep.DecodeError
	if err != nil && !errors.As(err, &damaged) {
		return nil, err
	}

	switch {
	case s.State == "SUCCEEDED" && o != nil && o.Error == "":
		return o, nil
	case o != nil && o.Error != "":
		return nil, &FailedError{Job: j.ID, State: s.State, Text: o.Error, Code: o.Code}
	case err != nil:
		return nil, &FailedError{Job: j.ID, State: s.State, Text: err.Error()}
	case s.Failure != "":
		return nil, &FailedError{Job: j.ID, State: s.State, Text: s.Failure}
	}
	return nil, &FailedError{Job: j.ID, State: s.State, Text: "it left no word about how it ended"}
}
