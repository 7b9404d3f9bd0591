package cloudjob

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"coppice/blob"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
	"coppice/sweep"
)

// Kind is what a job does: its id begins with it, and its task is the launcher's command KIND-task.
type Kind string

// The kinds.
const (
	Stage    Kind = "stage"
	Backtest Kind = "backtest"
)

// noun is the kind as an error has it.
func (k Kind) noun() string {
	if k == Stage {
		return "staging"
	}
	return string(k)
}

// Request is a job.
type Request struct {
	Kind        Kind
	Dataset     string
	Fingerprint string // of all that its result depends on, hexadecimal
	Env         sweep.LauncherTaskEnv
	Machine     string
	VCPUs       int
	Memory      int64 // of the machine, bytes
	Spot        bool
	LocalSSD    int // disks, a number that the machine type takes
	Limit       time.Duration
}

// Jobs runs jobs.
type Jobs interface {
	// Name is the full name of the job with the id.
	Name(sweep.ID) string
	// SubmitTask starts the job whose id is in the request's Env; existed says that it had been started before.
	SubmitTask(context.Context, Request) (existed bool, err error)
	Status(ctx context.Context, job string) (provision.Status, error)
	Cancel(ctx context.Context, job string) (provision.Status, error)
}

// Job is a job that has been submitted.
type Job struct {
	Kind     Kind
	ID, Name string
	Attached bool // it was there before, whoever started it
}

// fingerprintDigits are enough of a fingerprint for a job's id, which has room for no more.
const fingerprintDigits = 12

// maxRuns bounds how often the same is tried: a job's id is used once, and one that failed keeps it for sixty days.
const maxRuns = 100

// jobID is the id of run number n. A name for which there is no room loses its end: the fingerprint tells names apart, too.
func jobID(q *Request, n int) string {
	id := "-" + q.Fingerprint[:fingerprintDigits]
	if n > 0 {
		id += fmt.Sprintf("-%d", n)
	}
	front := string(q.Kind) + "-" + q.Dataset
	return strings.TrimRight(front[:min(len(front), maxID-len(id))], "-") + id
}

// maxID is Batch's limit for the length of a job's id.
const maxID = 63

// TooOftenError is what has failed too often.
type TooOftenError struct {
	Kind    Kind
	Dataset string
}

func (e *TooOftenError) Error() string {
	return fmt.Sprintf("dataset %s: %d %s jobs have tried the same; delete some of them: gcloud batch jobs list", e.Dataset, maxRuns, e.Kind.noun())
}

// Submit starts a job for the request, or attaches to one that is doing the same. The request's Env.Job is filled in.
func Submit(ctx context.Context, jobs Jobs, q Request) (*Job, error) {
	for n := range maxRuns {
		q.Env.Job = jobID(&q, n)
		name := jobs.Name(sweep.ID(q.Env.Job))
		s, err := jobs.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		if s.Finished && !s.Created.IsZero() { // an earlier run, which left nothing, or what was deleted since
			continue
		}

		existed, err := jobs.SubmitTask(ctx, q)
		if err != nil {
			return nil, err
		}
		return &Job{q.Kind, q.Env.Job, name, existed}, nil
	}
	return nil, &TooOftenError{q.Kind, q.Dataset}
}

// FailedError is a job that has ended without a result.
type FailedError struct {
	Kind  Kind
	Job   string
	State string
	Text  string // what the task said, or else what Batch says
	Code  int    // the task's exit code; 0 when it said nothing
}

func (e *FailedError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("%s job %s is %s: %s\nWhy is the last line of its log: in Cloud Logging, or in the folder logs/ of the local cloud's data.", e.Kind.noun(), e.Job, e.State, e.Text)
	}
	return fmt.Sprintf("%s job %s: %s", e.Kind.noun(), e.Job, e.Text)
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
	Line     func(line string) // told of every line that the task has for people; may be nil

	attempt, lines int // of the progress that was shown
}

// Wait returns how the job that tells in a folder of the bucket ended, when it has. A job that ended without a result is a *FailedError.
func (f *Follower) Wait(ctx context.Context, folder string, j *Job) (*Outcome, error) {
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

		p, err := readProgress(ctx, f.Store, folder)
		if err != nil {
			return nil, err
		}
		f.show(p, s.Finished)
		if s.Finished {
			return f.ended(ctx, folder, j, s)
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// show tells what is new in a progress, which may be nil. How far a step is means nothing when the job is over.
func (f *Follower) show(p *Progress, over bool) {
	if p == nil {
		return
	}
	if p.Step != "" && !over {
		f.Progress(p.Step, p.Done, p.Total)
	}

	if p.Attempt != f.attempt { // it begins anew
		f.attempt, f.lines = p.Attempt, 0
	}
	for ; f.lines < len(p.Lines); f.lines++ {
		if f.Line != nil {
			f.Line(p.Lines[f.lines])
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
		return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: o.Error, Code: o.Code}
	case err != nil:
		return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: err.Error()}
	case s.Failure != "":
		return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: s.Failure}
	}
	return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: "it left no word about how it ended"}
}
