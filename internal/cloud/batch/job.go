// Package batch submits and watches Google Cloud Batch jobs, and is the only importer of its client library.
//
// A job has one task group of equal tasks, each a container, several per machine, with the dataset on the machine's
// local SSD. Build assembles the request from small pure parts, one file for each, and checks it against every rule of
// Batch that can be known in advance: the constants of type Rule.
package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/encoding/protojson"
)

// PlanLabel is the label that says what a job was made for: two jobs with the same id are the same job if it is equal.
const PlanLabel = "coppice-plan"

// PlanLabelDigits is how many hexadecimal digits of a plan's fingerprint fit a label, and suffice.
const PlanLabelDigits = 32

// Job describes a job.
type Job struct {
	ID             string            // 1 to 63 of a-z, 0-9 and '-'
	Labels         map[string]string // of the job, its log entries, machines and disks; must include PlanLabel
	Location       string            // region, such as us-central1; set by Submit
	Zones          []string          // of Location, such as us-central1-a; empty leaves the choice to Batch
	Image          string            // container image
	Args           []string          // of the image's entrypoint
	Env            map[string]string
	Tasks          int
	Parallelism    int // tasks running at once
	TasksPerVM     int // tasks running at once on one machine, at most 20
	MachineType    string
	Spot           bool
	LocalSSDs      int    // disks of 375 GB per machine, a number valid for the type; 0 for none
	MountPath      string // where the local SSD is mounted
	CPUMilli       int64  // per task, in thousandths of a CPU
	MemoryMiB      int64  // per task
	MaxRetries     int    // per task
	RetryExitCodes []int32
	MaxRunDuration time.Duration // per attempt; 0 for Batch's own limit
	ServiceAccount string        // e-mail address; "" for the project's default
	Network        string        // global/networks/NAME or projects/...; "" for the project's default
	Subnetwork     string        // regions/R/subnetworks/NAME or projects/...
	NoExternalIP   bool
	HostNetwork    bool // containers have their machine's network, so that other machines' tasks can reach them
	// Notify lists topics, projects/P/topics/T, to which Batch publishes every change of the job's state; its service
	// account needs permission to publish there. Messages may be lost: they are hints only.
	Notify []string
}

// Build makes the request's job, or returns an error with the rule that it breaks. The same Job gives the same
// message.
func Build(j Job) (*batchpb.Job, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	job := &batchpb.Job{
		Labels:           maps.Clone(j.Labels),
		TaskGroups:       []*batchpb.TaskGroup{j.taskGroup()},
		AllocationPolicy: j.allocationPolicy(),
		Notifications:    j.notifications(),
		// without a policy, Batch keeps none of the tasks' output
		LogsPolicy: &batchpb.LogsPolicy{Destination: batchpb.LogsPolicy_CLOUD_LOGGING},
	}
	return job, checkMessage(job)
}

// JSON is the job in the REST API's format, indented for people. The same Job gives the same bytes.
func (j Job) JSON() ([]byte, error) {
	job, err := Build(j)
	if err != nil {
		return nil, err
	}

	loose, err := protojson.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("write the batch job as JSON: %w", err)
	}

	// Indent drops the spaces of loose, which protojson varies on purpose.
	var out bytes.Buffer
	if err := json.Indent(&out, loose, "", "  "); err != nil {
		return nil, fmt.Errorf("write the batch job as JSON: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// notifications asks Batch to tell each topic of every change of the job's state.
func (j Job) notifications() []*batchpb.JobNotification {
	var out []*batchpb.JobNotification
	for _, topic := range j.Notify {
		// Without a message Batch would send nothing.
		out = append(out, &batchpb.JobNotification{PubsubTopic: topic,
			Message: &batchpb.JobNotification_Message{Type: batchpb.JobNotification_JOB_STATE_CHANGED}})
	}
	return out
}
