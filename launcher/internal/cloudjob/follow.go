package cloudjob

import (
	"context"
	"fmt"
	"strings"
	"time"

	"coppice/internal/blob"
	"coppice/internal/problem"
	"coppice/internal/sweep"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/stager"
)

// JobKind is what a job does: it prefixes the job's id, and the task runs the launcher's command KIND-task.
type JobKind string

// The kinds.
const (
	Stage     JobKind = "stage"
	Reproduce JobKind = "reproduce"
	Predict   JobKind = "predict"
)

// noun is the kind as it appears in errors.
func (k JobKind) noun() string {
	if k == Stage {
		return "staging"
	}
	return string(k)
}

// Work describes a job to start.
type Work struct {
	Kind        JobKind
	Dataset     string // or, of a prediction, the model
	Tasks       int    // that share the work; 0 is 1
	Fingerprint string // of everything that its result depends on, in hexadecimal
	Env         sweep.LauncherTaskEnv
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
	Status(ctx context.Context, job string) (provision.JobStatus, error)
	Cancel(ctx context.Context, job string) (provision.JobStatus, error)
}

// Job is a submitted job.
type Job struct {
	Kind     JobKind
	ID, Name string
	Attached bool // it existed already
}

// fingerprintDigits is how much of a fingerprint goes into a job's id, which has little room.
const fingerprintDigits = 12

// maxRuns bounds repeated runs of the same request: a job's id cannot be reused, and stays taken for sixty days.
const maxRuns = 100

// jobID is the id of run n. A long name is cut: the fingerprint also distinguishes names.
func jobID(q *Work, n int) string {
	id := "-" + q.Fingerprint[:fingerprintDigits]
	if n > 0 {
		id += fmt.Sprintf("-%d", n)
	}
	front := string(q.Kind) + "-" + q.Dataset
	return strings.TrimRight(front[:min(len(front), maxID-len(id))], "-") + id
}

// maxID is Batch's limit for the length of a job's id.
const maxID = 63

// Submit starts a job, or attaches to one doing the same. It fills in its Env.Job.
func Submit(ctx context.Context, jobs Jobs, q Work) (*Job, error) {
	for n := range maxRuns {
		q.Env.Job = jobID(&q, n)
		name := jobs.Name(sweep.ID(q.Env.Job))
		s, err := jobs.Status(ctx, name)
		if err != nil {
			return nil, err
		}
		if s.Finished && !s.Created.IsZero() { // an earlier run that left no result, or whose result was deleted since
			continue
		}

		existed, err := jobs.SubmitTask(ctx, q)
		if err != nil {
			return nil, err
		}
		return &Job{q.Kind, q.Env.Job, name, existed}, nil
	}
	return nil, fmt.Errorf("dataset %s: %d %s jobs have tried the same; delete some of them: gcloud batch jobs list",
		q.Dataset, maxRuns, q.Kind.noun())
}

// FailedError reports a job that ended without a result.
type FailedError struct {
	Kind  JobKind
	Job   string
	State string
	Text  string // the task's error, or else Batch's
	Code  int    // the task's exit code; 0 if unknown
}

func (e *FailedError) Error() string {
	if e.Code == 0 {
		return fmt.Sprintf("%s job %s is %s: %s\nThe last line of its log says why: in Cloud Logging, or in "+
			"the folder logs/ of the local cloud's data.", e.Kind.noun(), e.Job, e.State, e.Text)
	}
	return fmt.Sprintf("%s job %s: %s", e.Kind.noun(), e.Job, e.Text)
}

// ExitStatus is the exit code of a program that ends with this error.
func (e *FailedError) ExitStatus() int { return max(e.Code, sweep.ExitError) }

// Follower watches a job from outside.
type Follower struct {
	Jobs     Jobs
	Store    blob.Store // the datasets bucket
	Every    time.Duration
	State    func(state string) // called for every change; may be nil
	Progress func(step stager.Step, done, total int64)
	Line     func(line string) // called for every line that the task writes for people; may be nil

	attempt, lines int // of the progress shown so far
}

// Wait waits for the job that reports in a folder of the bucket, and returns its outcome. A job that ended without a
// result is a *FailedError.
func (f *Follower) Wait(ctx context.Context, folder string, j *Job) (*JobOutcome, error) {
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

// show reports what is new in a progress, which may be nil. When the job is over, a step's progress is not shown.
func (f *Follower) show(p *Progress, over bool) {
	if p == nil {
		return
	}
	if p.Step != "" && !over {
		f.Progress(p.Step, p.Done, p.Total)
	}

	if p.Attempt != f.attempt { // a new attempt
		f.attempt, f.lines = p.Attempt, 0
	}
	for ; f.lines < len(p.Lines); f.lines++ {
		if f.Line != nil {
			f.Line(p.Lines[f.lines])
		}
	}
}

func (f *Follower) ended(ctx context.Context, folder string, j *Job, s provision.JobStatus) (*JobOutcome, error) {
	o, err := readOutcome(ctx, f.Store, folder)
	if err != nil && !problem.Is(err, problem.Damaged) {
		return nil, err
	}

	switch {
	case s.State == "SUCCEEDED" && o != nil && (o.Error == "" || j.Kind == Predict): // a task failed, and was repeated
		return o, nil
	case o != nil && o.Error != "":
		return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: o.Error, Code: o.Code}
	case err != nil:
		return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: err.Error()}
	case s.Failure != "":
		return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: s.Failure}
	}
	return nil, &FailedError{Kind: j.Kind, Job: j.ID, State: s.State, Text: "it did not report how it ended"}
}
