package batch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"coppice/internal/engine"
)

// MountPath is where the local SSD of a machine is mounted; all its tasks see the same folder.
const MountPath = "/mnt/disks/coppice"

// Exit codes that Batch itself gives a task that is worth another attempt.
// Source: https://cloud.google.com/batch/docs/troubleshooting#reserved-exit-codes
const (
	exitPreempted        = 50001
	exitReportingTimeout = 50002
	exitRebooted         = 50003
	exitUnresponsive     = 50004
	exitRecreated        = 50006
)

// Jobs runs jobs as Batch jobs.
type Jobs struct {
	*Client
	// Place has what all jobs have in common: zones, unless a job has its own, network, and who is notified.
	Place Job
	// Images and accounts by program.
	Images, Accounts map[string]string
}

// Describe returns the job of Batch that an array of tasks becomes. It starts from the deployment's Place, which q may
// override in zones, and fills in the program, its tasks and their machines. All tasks run at once. They are repeated
// after the exit codes that q names, and after those with which Batch ends a task whose machine was lost.
func (e *Jobs) Describe(q engine.Array) Job {
	j := e.Place
	if len(q.Zones) > 0 {
		j.Zones = q.Zones
	}
	j.ID, j.Args, j.Image, j.ServiceAccount = q.ID, q.Args, e.Images[q.Program], e.Accounts[q.Program]
	j.Labels = map[string]string{PlanLabel: q.Plan[:min(len(q.Plan), PlanLabelDigits)]}
	maps.Copy(j.Labels, q.Labels)
	j.Env, j.MountPath = maps.Collect(maps.All(q.Env)), MountPath // a copy, which is not nil
	j.Env["COPPICE_SCRATCH"] = MountPath
	j.Tasks, j.Parallelism, j.TasksPerVM = q.Tasks, q.Tasks, q.TasksPerHost
	j.MachineType, j.Spot, j.LocalSSDs = q.Machine, q.Spot, q.LocalSSDs
	j.CPUMilli, j.MemoryMiB = q.CPUMilli, q.MemoryMiB
	j.MaxRetries, j.MaxRunDuration = q.Retries, q.Limit
	// The capacity is cut so that append copies, and does not write behind the caller's slice.
	j.RetryExitCodes = append(q.Repeat[:len(q.Repeat):len(q.Repeat)], exitPreempted, exitReportingTimeout, exitRebooted,
		exitUnresponsive, exitRecreated)
	j.HostNetwork = q.Talks
	if q.Program != engine.Task { // an aggregator reads notifications, and only of sweeps' jobs
		j.Notify = nil
	}
	return j
}

// Request is the job in the REST API's format.
func (e *Jobs) Request(q engine.Array) ([]byte, error) { return e.Describe(q).JSON() }

// Submit implements engine.Engine.
func (e *Jobs) Submit(ctx context.Context, q engine.Array) (existed bool, err error) {
	_, existed, err = e.Client.Submit(ctx, e.Describe(q))
	return existed, err
}

// Status implements engine.Engine.
func (e *Jobs) Status(ctx context.Context, name string) (engine.JobStatus, error) {
	return toJobStatus(e.Get(ctx, name))
}

// Cancel implements engine.Engine.
func (e *Jobs) Cancel(ctx context.Context, name string) (engine.JobStatus, error) {
	return toJobStatus(e.Client.Cancel(ctx, name))
}

// Links returns the addresses of Google's own pages about a sweep: the logs of its programs since a time, and its job.
// job is the full name of the Batch job; of any other text there are no links.
func Links(job, sweep string, since time.Time) []engine.Link {
	part := strings.Split(job, "/")
	if len(part) != 6 || part[0] != "projects" || part[2] != "locations" || part[4] != "jobs" {
		return nil
	}
	project := "?project=" + url.QueryEscape(part[1])
	const console = "https://console.cloud.google.com/"
	query := fmt.Sprintf("jsonPayload.sweep=%q AND timestamp>=%q", sweep, since.UTC().Format(time.RFC3339))
	return []engine.Link{{Name: "logs", URL: console + "logs/query;query=" + url.PathEscape(query) + project},
		{Name: "Batch job", URL: console + "batch/jobsDetail/regions/" + url.PathEscape(part[3]) + "/jobs/" +
			url.PathEscape(part[5]) + "/details" + project}}
}

var states = map[State]engine.Phase{Queued: engine.Waiting, Scheduled: engine.Waiting, Running: engine.Running,
	Succeeded: engine.Done, Failed: engine.Failed, Deleting: engine.Stopping, Cancelling: engine.Stopping,
	Cancelled: engine.Cancelled}

// toJobStatus turns the status of a Batch job, or the error of asking for it, into package engine's. That there is no
// such job is the phase engine.Gone and no error; any other error is returned. A state that Batch adds later gives the
// empty phase, which has not ended.
func toJobStatus(s Status, err error) (engine.JobStatus, error) {
	if errors.Is(err, ErrNotExist) {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	n := func(states ...string) (sum int) {
		for _, state := range states {
			sum += int(s.Counts[state])
		}
		return sum
	}
	from, to := s.Lived()

	// UNEXECUTED tasks waited to the end if the job lacked machines. Otherwise they were stopped with their job, which
	// counts as failed.
	never, lacks := 0, s.NoCapacity()
	if lacks.Text != "" {
		never = n("UNEXECUTED")
	}
	return engine.JobStatus{State: states[s.State], Failure: s.FailureReason(), Created: s.Created, Began: s.Began(),
		From: from, To: to, Lacks: lacks.Text, Lacked: lacks.Time, Tasks: engine.Tasks{Waiting: n("PENDING") + never,
			Running: n("ASSIGNED", "RUNNING"), Done: n("SUCCEEDED"), Failed: n("FAILED", "UNEXECUTED") - never}}, err
}
