package batchemu

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// job is one job with its tasks and machines. Only its own goroutine (run) moves it from state to state; all others
// read it under the server's lock, or ask it to stop.
type job struct {
	srv  *Server
	id   string
	spec *batchpb.Job // as created: never changed, never returned
	plan plan

	ended chan *attempt // attempts that have ended; has room for all that can run at once
	stop  chan struct{} // closed to make the job stop
	done  chan struct{} // closed when the job will not change any more

	// Guarded by the server's lock:
	state    batchpb.JobStatus_State
	stopping bool // stop is closed
	events   []*batchpb.StatusEvent
	tasks    []*task
	vms      []*machine
	granted  int    // how many machines it gets; vms has them once they are made
	zone     string // of the machines
	updated  time.Time
	began    time.Time // when it came to be running; zero before
	finished time.Time
}

// plan is a job's specification as this server executes it.
type plan struct {
	tasks       int
	parallelism int
	perVM       int
	vms         int
	spot        bool
	machineType string
	zones       []string // allowed zones, as zones/Z; the first one with room gets the machines
	scripts     []script // run on the machine before the container
	image       string
	program     string // the local program behind the image, or the image
	args        []string
	env         []string // NAME=VALUE, with mount paths as in the job
	mounts      []mount
	retries     int
	policy      *batchpb.LifecyclePolicy
	timeLimit   time.Duration // of one attempt; 0 is none
}

// mount is a volume: the path where the job expects it, and the machine's folder that stands for it.
type mount struct{ path, folder string }

// task is one index of the array.
type task struct {
	index   int
	state   batchpb.TaskStatus_State
	attempt int // number of the next or the running attempt
	events  []*batchpb.StatusEvent
}

// newJob makes a queued job whose tasks are all pending; run starts it. The channel ended has room for as many attempts
// as can run at once, so that no attempt has to wait to report its end.
func newJob(s *Server, id string, spec *batchpb.Job, p plan) *job {
	j := &job{
		srv:   s,
		id:    id,
		spec:  spec,
		plan:  p,
		ended: make(chan *attempt, p.vms*p.perVM),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		state: batchpb.JobStatus_QUEUED,
	}
	j.updated = spec.CreateTime.AsTime()

	j.tasks = make([]*task, p.tasks)
	for i := range j.tasks {
		j.tasks[i] = &task{index: i, state: batchpb.TaskStatus_PENDING}
	}
	return j
}

// terminal reports whether a job stays in state s.
func terminal(s batchpb.JobStatus_State) bool {
	return s == batchpb.JobStatus_SUCCEEDED || s == batchpb.JobStatus_FAILED || s == batchpb.JobStatus_CANCELLED
}

// setState moves the job to a state, adds the event that Batch writes, and publishes the change if the job asks for
// that. because is a sentence for the end of the event, or empty. The lock is held.
func (j *job) setState(state batchpb.JobStatus_State, because string) {
	text := fmt.Sprintf("Job state is set from %s to %s for job %s.%s", j.state, state, j.spec.Name, because)
	now := time.Now()
	j.events = append(j.events, &batchpb.StatusEvent{Type: "STATUS_CHANGED", Description: text,
		EventTime: timestamppb.New(now)})
	j.publishState(state, now)
	j.state, j.updated = state, now
	if state == batchpb.JobStatus_RUNNING {
		j.began = now
	}
	if terminal(state) {
		j.finished = now
	}
}

// askToStop makes the job's goroutine stop its tasks; repeating it is harmless. The lock is held.
func (j *job) askToStop() {
	if !j.stopping {
		j.stopping = true
		close(j.stop)
	}
}

// jobView returns the job as clients see it. The lock is held.
func (j *job) jobView() *batchpb.Job {
	out := proto.CloneOf(j.spec)
	out.UpdateTime = timestamppb.New(j.updated)
	out.Status = &batchpb.JobStatus{State: j.state,
		TaskGroups: map[string]*batchpb.JobStatus_TaskGroupStatus{"group0": j.groupStatus()}}

	for _, e := range j.events {
		out.Status.StatusEvents = append(out.Status.StatusEvents, proto.CloneOf(e))
	}

	if !j.began.IsZero() {
		end := j.finished
		if end.IsZero() {
			end = time.Now()
		}
		out.Status.RunDuration = durationpb.New(end.Sub(j.began))
	}
	return out
}

// groupStatus counts the tasks by state. Once there are machines, it also describes them, as Batch does: one entry for
// all, since they are alike, with Batch's default boot disk. The lock is held.
func (j *job) groupStatus() *batchpb.JobStatus_TaskGroupStatus {
	g := &batchpb.JobStatus_TaskGroupStatus{Counts: map[string]int64{}}
	for _, t := range j.tasks {
		g.Counts[t.state.String()]++
	}

	if len(j.vms) > 0 {
		model := batchpb.AllocationPolicy_STANDARD
		if j.plan.spot {
			model = batchpb.AllocationPolicy_SPOT
		}
		g.Instances = []*batchpb.JobStatus_InstanceStatus{{
			MachineType: j.plan.machineType, ProvisioningModel: model, TaskPack: int64(j.plan.perVM),
			BootDisk: &batchpb.AllocationPolicy_Disk{Type: "pd-balanced", SizeGb: 30},
		}}
	}
	return g
}

// taskView returns one task as clients see it. The lock is held.
func (j *job) taskView(t *task) *batchpb.Task {
	out := &batchpb.Task{Name: fmt.Sprintf("%s/taskGroups/group0/tasks/%d", j.spec.Name, t.index),
		Status: &batchpb.TaskStatus{State: t.state}}
	for _, e := range t.events {
		out.Status.StatusEvents = append(out.Status.StatusEvents, proto.CloneOf(e))
	}
	return out
}

// setState moves the task to a state, adds the event that Batch writes, and returns the event's text. place is where
// the task runs, as zones/Z/instances/I. why ends the sentence: a reason with a leading space, or a full stop.
// execution has the exit code and is nil while the task runs. The server's lock is held.
func (t *task) setState(j *job, state batchpb.TaskStatus_State, place, why string,
	execution *batchpb.TaskExecution) string {
	text := fmt.Sprintf("Task state is updated from %s to %s on %s%s", t.state, state, place, why)
	if execution != nil && execution.ExitCode != 0 {
		text += fmt.Sprintf(" with exit code %d.", execution.ExitCode)
	}
	now := time.Now()
	t.events = append(t.events, &batchpb.StatusEvent{
		Type: "STATUS_CHANGED", Description: text, EventTime: timestamppb.New(now), TaskState: state,
		TaskExecution: execution,
	})
	t.state, j.updated = state, now
	return text
}

// environment returns a job's variables in a fixed order; later ones override earlier ones.
func environment(parts ...*batchpb.Environment) []string {
	merged := map[string]string{}
	for _, p := range parts {
		maps.Copy(merged, p.GetVariables())
	}
	env := make([]string, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		env = append(env, name+"="+merged[name])
	}
	return env
}

// rewrite replaces every mount's path in a text by the folder that stands for it. Only whole paths count: "/mnt/ssd" is
// replaced in "/mnt/ssd/x" and in "a=/mnt/ssd:ro", but neither in "/mnt/ssd2" nor in "/srv/mnt/ssd".
func rewrite(text string, mounts []mount) string {
	var out strings.Builder
	for i := 0; i < len(text); {
		m := mountAt(text, i, mounts)
		if m == nil {
			out.WriteByte(text[i])
			i++
			continue
		}
		out.WriteString(m.folder)
		i += len(m.path)
	}
	return out.String()
}

// mountAt returns the mount with the longest path that begins at text[i], nil if none does.
func mountAt(text string, i int, mounts []mount) *mount {
	if i > 0 && pathByte(text[i-1]) {
		return nil
	}
	var best *mount
	for k := range mounts {
		m := &mounts[k]
		rest, found := strings.CutPrefix(text[i:], m.path)
		if found && (rest == "" || rest[0] == '/' || !pathByte(rest[0])) &&
			(best == nil || len(m.path) > len(best.path)) {
			best = m
		}
	}
	return best
}

// pathByte reports whether c can be a part of a path, so that a path before or after it would be another one.
func pathByte(c byte) bool {
	return c == '/' || c == '.' || c == '-' || c == '_' || c >= 0x80 ||
		c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Notification is what is published when a job changes its state. Google documents neither its attributes nor its text;
// both are as programs that read such messages expect them.
type Notification struct {
	Topic      string // projects/P/topics/T
	Attributes map[string]string
	Data       string // for people
}

var topicPattern = regexp.MustCompile(`^projects/[a-z0-9:.-]+/topics/[A-Za-z][A-Za-z0-9._~%+-]{2,254}$`)

// checkNotifications refuses notifications that would behave differently here than in the cloud.
func (s *Server) checkNotifications(all []*batchpb.JobNotification) error {
	if len(all) > 0 && s.opts.Notify == nil {
		return unimitated("notifications where it has no Pub/Sub")
	}
	for _, n := range all {
		switch {
		case !topicPattern.MatchString(n.GetPubsubTopic()):
			return invalid("notification: topic %.200q is not projects/PROJECT/topics/TOPIC", n.GetPubsubTopic())
		case n.GetMessage().GetType() == batchpb.JobNotification_TASK_STATE_CHANGED ||
			n.GetMessage().GetNewTaskState() != batchpb.TaskStatus_STATE_UNSPECIFIED:
			return unimitated("notifications about tasks")
		}
	}
	return nil
}

// publishState publishes to the topics of the job's notifications that it goes from j.state to state. A notification
// may name the state that it is about, and else is about all of them; one without a message asks for nothing. The lock
// is held.
func (j *job) publishState(state batchpb.JobStatus_State, now time.Time) {
	for _, n := range j.spec.GetNotifications() {
		m := n.GetMessage()
		wanted := m.GetNewJobState() == batchpb.JobStatus_STATE_UNSPECIFIED || m.GetNewJobState() == state
		if m.GetType() != batchpb.JobNotification_JOB_STATE_CHANGED || !wanted {
			continue
		}

		j.srv.opts.Notify(Notification{
			Topic: n.GetPubsubTopic(),
			Attributes: map[string]string{"Type": m.GetType().String(), "JobName": j.spec.Name, "JobUID": j.spec.Uid,
				"NewJobState": state.String()},
			Data: fmt.Sprintf("Job state was updated: jobUID=%s, previousState=%s, currentState=%s, timestamp=%s",
				j.spec.Uid, j.state, state, now.Format(time.RFC3339)),
		})
	}
}
