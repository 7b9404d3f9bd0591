package batch

import (
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// State is a job's state, in Batch's words.
type State string

// The states of a job.
const (
	Queued     State = "QUEUED"
	Scheduled  State = "SCHEDULED"
	Running    State = "RUNNING"
	Succeeded  State = "SUCCEEDED"
	Failed     State = "FAILED"
	Deleting   State = "DELETION_IN_PROGRESS"
	Cancelling State = "CANCELLATION_IN_PROGRESS"
	Cancelled  State = "CANCELLED"
)

// Finished says whether a job in the state stays in it.
func (s State) Finished() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Status is what is known about a job.
type Status struct {
	Name        string
	ID          string
	UID         string // Batch's own, which Cloud Logging uses
	State       State
	Labels      map[string]string
	Counts      map[string]int64 // of tasks by state: PENDING, ASSIGNED, RUNNING, SUCCEEDED, FAILED, UNEXECUTED
	Tasks       int64            // in all
	Events      []Event          // by time
	Created     time.Time
	RunDuration time.Duration
}

// Event is one change in the life of a job or task.
type Event struct {
	Time     time.Time
	Text     string
	State    string // a task's new state; "" for a job's event
	ExitCode int32  // of a task that failed
}

// Task is what is known about one task.
type Task struct {
	Index  string
	State  string
	Events []Event // by time
}

// FailureReason is what the last event says of a job that failed, "" for others.
func (s Status) FailureReason() string {
	if s.State != Failed || len(s.Events) == 0 {
		return ""
	}
	return s.Events[len(s.Events)-1].Text
}

// capacity are the words by which an event says that the machines cannot be had now, in this zone or for this project.
// Source: https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability, and the codes that
// Batch puts before Compute Engine's.
var capacity = []string{"RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED", "inadequate quotas", "does not have enough resources available", "STOCKOUT"}

// Began says whether any of the job's tasks has ever run.
func (s Status) Began() bool {
	return s.State == Running || s.RunDuration > 0 || s.Counts["RUNNING"]+s.Counts["SUCCEEDED"]+s.Counts["FAILED"] > 0
}

// Lived is from when until when the job's tasks ran, as its events say: from its first change to RUNNING, or else its creation, to its
// last change to the final state, or else as long as Batch says that it ran. Both are zero when no task has run, to also before the end.
func (s Status) Lived() (from, to time.Time) {
	if !s.Began() {
		return from, to
	}

	changed := func(to State) func(Event) bool {
		return func(e Event) bool {
			return strings.HasPrefix(e.Text, "Job state is set from ") && strings.Contains(e.Text, " to "+string(to)+" ")
		}
	}

	from = s.Created
	if i := slices.IndexFunc(s.Events, changed(Running)); i >= 0 {
		from = s.Events[i].Time
	}

	if !s.State.Finished() {
		return from, to
	}
	for _, e := range slices.Backward(s.Events) {
		if changed(s.State)(e) {
			return from, e.Time
		}
	}
	return from, from.Add(s.RunDuration)
}

// NoCapacity is the newest event that says that the machines cannot be had, "" when there is none. A job that still waits may
// get them later.
func (s Status) NoCapacity() string {
	for _, e := range slices.Backward(s.Events) {
		if slices.ContainsFunc(capacity, func(words string) bool { return strings.Contains(e.Text, words) }) {
			return e.Text
		}
	}
	return ""
}

func statusOf(j *batchpb.Job) Status {
	s := Status{
		Name:        j.GetName(),
		ID:          lastPart(j.GetName()),
		UID:         j.GetUid(),
		State:       State(j.GetStatus().GetState().String()),
		Labels:      j.GetLabels(),
		Counts:      map[string]int64{},
		Events:      eventsOf(j.GetStatus().GetStatusEvents()),
		Created:     j.GetCreateTime().AsTime(),
		RunDuration: j.GetStatus().GetRunDuration().AsDuration(),
	}

	for _, g := range j.GetTaskGroups() {
		s.Tasks += g.GetTaskCount()
	}
	for _, g := range j.GetStatus().GetTaskGroups() {
		for state, n := range g.GetCounts() {
			s.Counts[state] += n
		}
	}
	return s
}

// eventsOf are the events by time: Batch does not promise an order.
func eventsOf(in []*batchpb.StatusEvent) []Event {
	out := make([]Event, 0, len(in))
	for _, e := range in {
		state := ""
		if e.GetTaskState() != batchpb.TaskStatus_STATE_UNSPECIFIED {
			state = e.GetTaskState().String()
		}
		out = append(out, Event{Time: e.GetEventTime().AsTime(), Text: e.GetDescription(), State: state, ExitCode: e.GetTaskExecution().GetExitCode()})
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return out
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
