package batch

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// State is a job's state, in Batch's terms.
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

// Finished reports whether the state is final.
func (s State) Finished() bool { return s == Succeeded || s == Failed || s == Cancelled }

// Status describes a job.
type Status struct {
	State       State
	Counts      map[string]int64 // of tasks by state: PENDING, ASSIGNED, RUNNING, SUCCEEDED, FAILED, UNEXECUTED
	Events      []Event          // sorted by time
	Created     time.Time
	RunDuration time.Duration
}

// Event is a change in the life of a job or task.
type Event struct {
	Time time.Time
	Text string
}

// FailureReason is the last event's text for a failed job, "" for others.
func (s Status) FailureReason() string {
	if s.State != Failed || len(s.Events) == 0 {
		return ""
	}
	return s.Events[len(s.Events)-1].Text
}

// capacity lists texts of events that say that the machines are currently not available, in this zone or to this
// project. Source: https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability, and the
// codes that Batch prefixes to Compute Engine's.
var capacity = []string{"RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED", "inadequate quotas",
	"does not have enough resources available", "STOCKOUT"}

// Began reports whether any of the job's tasks has ever run.
func (s Status) Began() bool {
	return s.State == Running || s.RunDuration > 0 || s.Counts["RUNNING"]+s.Counts["SUCCEEDED"]+s.Counts["FAILED"] > 0
}

// Lived returns the period in which the job's tasks ran. It begins with the first event of a change to RUNNING and ends
// with the last event of a change to the final state. Events may be missing: then it begins with the job's creation,
// and lasts as long as Batch says that the job ran. Both times are zero if no task has run, and to is zero until the
// end.
func (s Status) Lived() (from, to time.Time) {
	if !s.Began() {
		return from, to
	}

	// changed recognises the event of a job's change to a state.
	changed := func(to State) func(Event) bool {
		return func(e Event) bool {
			return strings.HasPrefix(e.Text, "Job state is set from ") &&
				strings.Contains(e.Text, " to "+string(to)+" ")
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

// NoCapacity returns the latest event that says that machines are not available, or the zero Event if there is none.
// Its text is Compute Engine's message with its code, without what Batch puts around it. A job that waits may get
// machines later, and one that runs may lack some.
func (s Status) NoCapacity() Event {
	for _, e := range slices.Backward(s.Events) {
		if slices.ContainsFunc(capacity, func(words string) bool { return strings.Contains(e.Text, words) }) {
			if m := example.FindStringSubmatch(e.Text); m != nil {
				e.Text = strings.TrimRight(m[2], ". ") + " (" + m[1] + ")"
			}
			return e
		}
	}
	return Event{}
}

// example matches how Batch wraps an error of Compute Engine: its code, and the latest of its messages.
var example = regexp.MustCompile(`code - (\w+), description - .*latest message example: ` +
	`(?:Instance '[^']*' creation failed: )?(.+)`)

// statusOf makes a Status of Batch's answer. Tasks are counted by state over all groups of the job.
func statusOf(j *batchpb.Job) Status {
	s := Status{
		State:       State(j.GetStatus().GetState().String()),
		Counts:      map[string]int64{},
		Events:      eventsOf(j.GetStatus().GetStatusEvents()),
		Created:     j.GetCreateTime().AsTime(),
		RunDuration: j.GetStatus().GetRunDuration().AsDuration(),
	}

	for _, g := range j.GetStatus().GetTaskGroups() {
		for state, n := range g.GetCounts() {
			s.Counts[state] += n
		}
	}
	return s
}

// eventsOf sorts the events by time, since Batch guarantees no order.
func eventsOf(in []*batchpb.StatusEvent) []Event {
	out := make([]Event, 0, len(in))
	for _, e := range in {
		out = append(out, Event{Time: e.GetEventTime().AsTime(), Text: e.GetDescription()})
	}
	slices.SortStableFunc(out, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return out
}
