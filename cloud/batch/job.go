// Package batch submits and watches Google Cloud Batch jobs, and is the only importer of its client library.
//
// A job of ours is one task group of equal tasks, each a container, several on a machine, with the dataset on the machine's
// local SSD. Build puts the request together out of small pure parts, one file for each side of it, and holds it against
// every rule of Batch that can be known before the request: the constants of type Rule.
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

// PlanLabel is the label that says what a job was made for: two jobs of one id are the same if it is the same.
const PlanLabel = "coppice-plan"

// PlanLabelDigits is how many hexadecimal digits of a plan's fingerprint fit a label and are enough.
const PlanLabelDigits = 32

// Job is what has to be said about a job.
type Job struct {
	ID             string            // 1 to 63 of a-z, 0-9 and '-'
	Labels         map[string]string // of the job, its log entries, its machines and disks; PlanLabel must be among them
	Location       string            // region, such as us-central1; Submit fills in the client's
	Zones          []string          // of Location, such as us-central1-a; none leaves the choice to Batch
	Image          string            // container image
	Args           []string          // of the image's entrypoint
	Env            map[string]string
	Tasks          int
	Parallelism    int // tasks at once
	TasksPerVM     int // tasks at once on one machine, at most 20
	MachineType    string
	Spot           bool
	LocalSSDs      int    // disks of 375 GB on each machine, a number that the machine type allows; 0 is none
	MountPath      string // where the local SSD is mounted
	CPUMilli       int64  // of one task, thousandths of a CPU
	MemoryMiB      int64  // of one task
	MaxRetries     int    // of one task
	RetryExitCodes []int32
	MaxRunDuration time.Duration // of one attempt; 0 is Batch's own limit
	ServiceAccount string        // service account's e-mail address; "" is the project's default
	Network        string        // global/networks/NAME or projects/...; "" is the project's default
	Subnetwork     string        // regions/R/subnetworks/NAME or projects/...
	NoExternalIP   bool
	// Notify are the topics, projects/P/topics/T, to which Batch publishes every change of the job's state; its service account
	// must be allowed to publish there. Messages may be lost: they are a reason to look, no truth.
	Notify []string
}

// Build makes the request's job, or says with a *RuleError which rule it breaks. The same Job gives the same message.
func Build(j Job) (*batchpb.Job, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	job := &batchpb.Job{
		Labels:           maps.Clone(j.Labels),
		TaskGroups:       []*batchpb.TaskGroup{j.group()},
		AllocationPolicy: j.allocation(),
		LogsPolicy:       logs(),
		Notifications:    j.notifications(),
	}
	return job, checkMessage(job)
}

// JSON is the job as the REST API takes it, indented for people. The same Job gives the same bytes.
func (j Job) JSON() ([]byte, error) {
	job, err := Build(j)
	if err != nil {
		return nil, err
	}

	loose, err := protojson.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("write the batch job as JSON: %w", err)
	}

	var tight, out bytes.Buffer // protojson varies its spaces on purpose
	if err := json.Compact(&tight, loose); err != nil {
		return nil, fmt.Errorf("write the batch job as JSON: %w", err)
	}
	if err := json.Indent(&out, tight.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("write the batch job as JSON: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// logs keeps what tasks print: without a policy, Batch keeps nothing.
func logs() *batchpb.LogsPolicy {
	return &batchpb.LogsPolicy{Destination: batchpb.LogsPolicy_CLOUD_LOGGING}
}

func (j Job) notifications() []*batchpb.JobNotification {
	var out []*batchpb.JobNotification
	for _, topic := range j.Notify {
		// Without a message nothing would be sent.
		out = append(out, &batchpb.JobNotification{PubsubTopic: topic, Message: &batchpb.JobNotification_Message{Type: batchpb.JobNotification_JOB_STATE_CHANGED}})
	}
	return out
}
