package cloudjob

import (
	"context"
	"fmt"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/problem"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

// Work describes a job to start.
type Work struct {
	Dataset     string
	Fingerprint string // of everything that its result depends on, in hexadecimal
	Env         environment.LauncherTaskEnv
	Machine     string
	VCPUs       int
	Memory      int64 // of the machine, in bytes
	Spot        bool
	LocalSSD    int // number of disks, valid for the machine type
	Labels      map[string]string
	Limit       time.Duration
}

// Jobs runs jobs.
type Jobs interface {
	// Name is the full name of the job with the id.
	Name(sweep.ID) string
	// SubmitTask starts the job whose id is in its Env; existed says that it had been started before.
	SubmitTask(context.Context, Work) (existed bool, err error)
	Status(ctx context.Context, job string) (engine.JobStatus, error)
	Cancel(ctx context.Context, job string) (engine.JobStatus, error)
}

// Job is a submitted job.
type Job struct {
	ID, Name string
	Attached bool // it existed already
}

// fingerprintDigits is how much of a fingerprint goes into a job's id, which has little room.
const fingerprintDigits = 12

// maxRuns bounds repeated runs of the same request: a job's id cannot be reused, and stays taken for sixty days.
const maxRuns = 100

// jobID returns the id of run n of the work: stage-NAME-FINGERPRINT, and -n from the second run (n is 1) on. A long
// name is cut, since the fingerprint distinguishes names as well.
func jobID(q *Work, n int) string {
	id := "-" + q.Fingerprint[:fingerprintDigits]
	if n > 0 {
		id += fmt.Sprintf("-%d", n)
	}
	front := "stage-" + q.Dataset
	return strings.TrimRight(front[:min(len(front), maxID-len(id))], "-") + id
}

// maxID is Batch's limit for the length of a job's id.
const maxID = 63

// Submit starts the job of q, or attaches to one that does the same and has not ended. If earlier runs have ended, it
// starts the next run: each has an id of its own (jobID), which it puts into the work's Env. After maxRuns runs that
// have ended it returns an error.
func Submit(ctx context.Context, jobs Jobs, q Work) (*Job, error) {
	for n := range maxRuns {
		q.Env.Job = jobID(&q, n)
		name := jobs.Name(sweep.ID(q.Env.Job))
		s, err := jobs.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		// An earlier run may have left no result, or its result was deleted since.
		if s.State.Ended() && s.State != engine.Gone {
			continue
		}

		existed, err := jobs.SubmitTask(ctx, q)
		if err != nil {
			return nil, err
		}
		return &Job{q.Env.Job, name, existed}, nil
	}
	return nil, fmt.Errorf("dataset %s: %d staging jobs have tried the same; delete some of them: gcloud batch jobs "+
		"list", q.Dataset, maxRuns)
}

// FailedError reports a job that ended without a result.
type FailedError struct {
	Job   string
	State engine.Phase
	Text  string // the task's error, or else the engine's
	Code  int    // the task's exit code; 0 if unknown
}

func (e *FailedError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("staging job %s is %s: %s\nThe last line of its log says why: in Cloud Logging, in "+
			"the folder logs/ of the local cloud's data, or in that of COPPICE_SLURM_FOLDER.", e.Job, e.State, e.Text)
	}
	return fmt.Sprintf("staging job %s: %s", e.Job, e.Text)
}

// ExitStatus is the exit code of a program that ends with this error.
func (e *FailedError) ExitStatus() int { return max(e.Code, sweep.ExitError) }

// Follower watches a job from outside.
type Follower struct {
	Jobs     Jobs
	Store    blob.Store // the datasets bucket
	Every    time.Duration
	State    func(engine.Phase)                        // called for every change; may be nil
	Progress func(step stager.Step, done, total int64) // called at every look, once the task has reported a step
}

// Wait waits until the job j has ended and returns its outcome. folder is the prefix of the objects in which its task
// reports. Meanwhile it calls State and Progress. A job that ended without a result is a *FailedError; if ctx ends
// before, its error is returned, and the job continues.
func (f *Follower) Wait(ctx context.Context, folder string, j *Job) (*JobOutcome, error) {
	last := engine.Phase("")
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

		if s.State.Ended() {
			return f.readOutcomeOf(ctx, folder, j, s)
		}
		p, err := readProgress(ctx, f.Store, folder)
		if err != nil {
			return nil, err
		}
		if p != nil && p.Step != "" {
			f.Progress(p.Step, p.Done, p.Total)
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// readOutcomeOf returns the outcome of the job j, which has ended in the state s. If it has no result, the error is a
// *FailedError with the best reason known: the task's own, that its outcome cannot be read, or what the engine says.
// Other errors are those of storage.
func (f *Follower) readOutcomeOf(ctx context.Context, folder string, j *Job, s engine.JobStatus) (*JobOutcome, error) {
	o, err := readOutcome(ctx, f.Store, folder)
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}

	switch {
	case s.State == engine.Done && o != nil && o.Error == "":
		return o, nil
	case o != nil && o.Error != "":
		return nil, &FailedError{Job: j.ID, State: s.State, Text: o.Error, Code: o.Code}
	case err != nil:
		return nil, &FailedError{Job: j.ID, State: s.State, Text: err.Error()}
	case s.Failure != "":
		return nil, &FailedError{Job: j.ID, State: s.State, Text: s.Failure}
	}
	return nil, &FailedError{Job: j.ID, State: s.State, Text: "it did not report how it ended"}
}
