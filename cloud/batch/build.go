// Package batch submits and watches Google Cloud Batch jobs, and is the only importer of its client library.
//
// A job of ours is one task group of equal tasks, each a container, several on a machine, with the dataset on the machine's
// local SSD. Build makes it and checks every rule of Batch that can be checked before the request.
package batch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// PlanLabel is the label that says what a job was made for: two jobs of one id are the same if it is the same.
const PlanLabel = "coppice-plan"

// PlanLabelDigits is how many hexadecimal digits of a plan's fingerprint fit a label and are enough.
const PlanLabelDigits = 32

// Job is what has to be said about a job.
type Job struct {
	ID             string            // 1 to 63 of a-z, 0-9 and '-'
	Labels         map[string]string // PlanLabel must be among them
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
	LocalSSDs      int    // disks of 375 GB on each machine; 0 is none
	MountPath      string // where the local SSD is mounted
	CPUMilli       int64  // of one task, thousandths of a CPU
	MemoryMiB      int64  // of one task
	BootDiskGB     int64  // 0 leaves it to Batch
	MaxRetries     int    // of one task
	RetryExitCodes []int32
	MaxRunDuration time.Duration // of one attempt; 0 is Batch's own limit
	ServiceAccount string        // service account's e-mail address; "" is the project's default
	Network        string        // global/networks/NAME or projects/...; "" is the project's default
	Subnetwork     string        // regions/R/subnetworks/NAME or projects/...
	NoExternalIP   bool
}

// RuleError is a rule of Batch that a job breaks.
type RuleError struct {
	Field string // of Job
	Rule  string // what it says, and what was found
}

func (e *RuleError) Error() string { return "batch job: " + e.Field + ": " + e.Rule }

// Limits of Batch. Source: https://cloud.google.com/batch/quotas and the API's own documentation.
const (
	maxTasks       = 100_000
	maxParallelism = 5_000
	maxPerVM       = 20
	maxRetries     = 10
	maxLabels      = 64
	maxJobBytes    = 1 << 20
	maxRunTime     = 14 * 24 * time.Hour
	gbPerLocalSSD  = 375
	maxLocalSSDs   = 48
)

// ssdDevice is the name under which the local SSD is known inside of one job.
const ssdDevice = "local-ssd"

var (
	idPattern       = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	labelKeyPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelPattern    = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	machinePattern  = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$`)
	regionPattern   = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	mountPattern    = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)
)

// Build makes the request's job, or says with a *RuleError which rule it breaks. The same Job gives the same message.
func Build(j Job) (*batchpb.Job, error) {
	if err := j.check(); err != nil {
		return nil, err
	}
	job := &batchpb.Job{
		Labels:           maps.Clone(j.Labels),
		TaskGroups:       []*batchpb.TaskGroup{j.group()},
		AllocationPolicy: j.allocation(),
		LogsPolicy:       &batchpb.LogsPolicy{Destination: batchpb.LogsPolicy_CLOUD_LOGGING},
	}
	if n := proto.Size(job); n > maxJobBytes {
		return nil, &RuleError{"Job", fmt.Sprintf("the definition has %d bytes, Batch takes %d: keep long settings in an object", n, maxJobBytes)}
	}
	return job, nil
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

func (j Job) group() *batchpb.TaskGroup {
	spec := &batchpb.TaskSpec{
		Runnables: []*batchpb.Runnable{{Executable: &batchpb.Runnable_Container_{Container: &batchpb.Runnable_Container{
			ImageUri: j.Image, Commands: j.Args,
		}}}},
		ComputeResource: &batchpb.ComputeResource{CpuMilli: j.CPUMilli, MemoryMib: j.MemoryMiB},
		MaxRetryCount:   int32(j.MaxRetries),
		Environment:     &batchpb.Environment{Variables: maps.Clone(j.Env)},
	}
	if j.MaxRunDuration > 0 {
		spec.MaxRunDuration = durationpb.New(j.MaxRunDuration)
	}
	if len(j.RetryExitCodes) > 0 {
		spec.LifecyclePolicies = []*batchpb.LifecyclePolicy{{
			Action:          batchpb.LifecyclePolicy_RETRY_TASK,
			ActionCondition: &batchpb.LifecyclePolicy_ActionCondition{ExitCodes: slices.Sorted(slices.Values(j.RetryExitCodes))},
		}}
	}
	if j.LocalSSDs > 0 {
		spec.Volumes = []*batchpb.Volume{{
			Source: &batchpb.Volume_DeviceName{DeviceName: ssdDevice}, MountPath: j.MountPath, MountOptions: []string{"rw", "async"},
		}}
	}
	return &batchpb.TaskGroup{
		TaskSpec:         spec,
		TaskCount:        int64(j.Tasks),
		Parallelism:      int64(j.Parallelism), // always said: the documents disagree about the default
		TaskCountPerNode: int64(j.TasksPerVM),
	}
}

func (j Job) allocation() *batchpb.AllocationPolicy {
	policy := &batchpb.AllocationPolicy_InstancePolicy{MachineType: j.MachineType, ProvisioningModel: batchpb.AllocationPolicy_STANDARD}
	if j.Spot {
		policy.ProvisioningModel = batchpb.AllocationPolicy_SPOT
	}
	if j.BootDiskGB > 0 {
		policy.BootDisk = &batchpb.AllocationPolicy_Disk{SizeGb: j.BootDiskGB}
	}
	if j.LocalSSDs > 0 { // one entry, whatever the number of disks
		policy.Disks = []*batchpb.AllocationPolicy_AttachedDisk{{
			Attached: &batchpb.AllocationPolicy_AttachedDisk_NewDisk{NewDisk: &batchpb.AllocationPolicy_Disk{
				Type: "local-ssd", SizeGb: int64(j.LocalSSDs) * gbPerLocalSSD,
			}},
			DeviceName: ssdDevice,
		}}
	}
	locations := []string{"regions/" + j.Location}
	if len(j.Zones) > 0 {
		locations = nil
		for _, z := range j.Zones {
			locations = append(locations, "zones/"+z)
		}
	}
	a := &batchpb.AllocationPolicy{
		Location: &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: locations},
		Instances: []*batchpb.AllocationPolicy_InstancePolicyOrTemplate{{
			PolicyTemplate: &batchpb.AllocationPolicy_InstancePolicyOrTemplate_Policy{Policy: policy},
		}},
		Labels: maps.Clone(j.Labels),
	}
	if j.ServiceAccount != "" {
		a.ServiceAccount = &batchpb.ServiceAccount{Email: j.ServiceAccount}
	}
	if j.Network != "" || j.Subnetwork != "" || j.NoExternalIP {
		a.Network = &batchpb.AllocationPolicy_NetworkPolicy{NetworkInterfaces: []*batchpb.AllocationPolicy_NetworkInterface{{
			Network: j.Network, Subnetwork: j.Subnetwork, NoExternalIpAddress: j.NoExternalIP,
		}}}
	}
	return a
}

// rule is one rule that a field must keep.
type rule struct {
	field string
	ok    bool
	says  string
}

// check holds the job against Batch's rules, in the order of the fields.
func (j Job) check() error {
	for _, r := range slices.Concat(j.identityRules(), j.arrayRules(), j.machineRules()) {
		if !r.ok {
			return &RuleError{r.field, r.says}
		}
	}
	return nil
}

func (j Job) identityRules() []rule {
	rules := []rule{
		{"ID", idPattern.MatchString(j.ID), fmt.Sprintf("%.80q must have 1 to 63 of a-z, 0-9 and '-', begin with a letter and not end with '-'", j.ID)},
		{"Labels", len(j.Labels) <= maxLabels, fmt.Sprintf("%d labels, Batch takes %d", len(j.Labels), maxLabels)},
		{"Labels", j.Labels[PlanLabel] != "", "the label " + PlanLabel + " is missing, which tells one job from another of the same id"},
		{"Image", j.Image != "" && !strings.ContainsAny(j.Image, " \t\n"), fmt.Sprintf("%.80q is no container image", j.Image)},
	}
	for _, k := range slices.Sorted(maps.Keys(j.Labels)) {
		reserved := strings.HasPrefix(k, "goog-") || strings.HasPrefix(k, "google-")
		rules = append(rules,
			rule{"Labels", labelKeyPattern.MatchString(k) && !reserved, fmt.Sprintf("key %.80q must have 1 to 63 of a-z, 0-9, '_' and '-', begin with a letter, and not with goog- or google-", k)},
			rule{"Labels", labelPattern.MatchString(j.Labels[k]), fmt.Sprintf("value %.80q of %s must have at most 63 of a-z, 0-9, '_' and '-'", j.Labels[k], k)},
		)
	}
	for _, k := range slices.Sorted(maps.Keys(j.Env)) {
		ok := variablePattern.MatchString(k) && !strings.HasPrefix(k, "BATCH_") && !strings.ContainsRune(j.Env[k], 0)
		rules = append(rules, rule{"Env", ok, fmt.Sprintf("%.80q must have letters, digits and '_', not begin with BATCH_, and hold no zero byte", k)})
	}
	return rules
}

func (j Job) arrayRules() []rule {
	between := func(field string, v, low, high int) rule {
		return rule{field, v >= low && v <= high, fmt.Sprintf("%d is not between %d and %d", v, low, high)}
	}
	return []rule{
		between("Tasks", j.Tasks, 1, maxTasks),
		between("Parallelism", j.Parallelism, 1, maxParallelism),
		between("TasksPerVM", j.TasksPerVM, 1, maxPerVM),
		{"TasksPerVM", j.TasksPerVM <= j.Parallelism, fmt.Sprintf("%d tasks on a machine are more than the %d at once in all", j.TasksPerVM, j.Parallelism)},
		between("MaxRetries", j.MaxRetries, 0, maxRetries),
		{"MaxRunDuration", j.MaxRunDuration >= 0 && j.MaxRunDuration <= maxRunTime, fmt.Sprintf("%v is not between 0 and %v", j.MaxRunDuration, maxRunTime)},
		{"CPUMilli", j.CPUMilli > 0, fmt.Sprintf("%d is not above 0", j.CPUMilli)},
		{"MemoryMiB", j.MemoryMiB > 0, fmt.Sprintf("%d is not above 0", j.MemoryMiB)},
		{"RetryExitCodes", !slices.Contains(j.RetryExitCodes, 0), "0 is success"},
	}
}

func (j Job) machineRules() []rule {
	rules := []rule{
		{"MachineType", machinePattern.MatchString(j.MachineType), fmt.Sprintf("%.80q is no machine type such as n2-highmem-16", j.MachineType)},
		{"Location", regionPattern.MatchString(j.Location), fmt.Sprintf("%.80q is no region such as us-central1", j.Location)},
		{"LocalSSDs", j.LocalSSDs >= 0 && j.LocalSSDs <= maxLocalSSDs, fmt.Sprintf("%d is not between 0 and %d", j.LocalSSDs, maxLocalSSDs)},
		{"MountPath", j.LocalSSDs == 0 || mountPattern.MatchString(j.MountPath), fmt.Sprintf("%.80q must be an absolute path of letters, digits, '.', '_' and '-'", j.MountPath)},
		{"BootDiskGB", j.BootDiskGB >= 0, fmt.Sprintf("%d is below 0", j.BootDiskGB)},
		{"ServiceAccount", j.ServiceAccount == "" || strings.Contains(j.ServiceAccount, "@"), fmt.Sprintf("%.80q is no e-mail address of a service account", j.ServiceAccount)},
	}
	for _, z := range j.Zones {
		zone, ok := strings.CutPrefix(z, j.Location+"-")
		rules = append(rules, rule{"Zones", ok && len(zone) == 1, fmt.Sprintf("%.80q is no zone of %s", z, j.Location)})
	}
	return rules
}
