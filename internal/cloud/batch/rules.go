package batch

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/proto"

	"coppice/internal/problem"
)

// Limits of Batch, by the rules that check them.
const (
	maxTasks        = 100_000
	maxParallelism  = 5_000
	maxPerVM        = 20
	maxVMsZone      = 2_000 // if a job may use only one zone
	maxVMs          = 4_000
	maxRetries      = 10
	maxLabels       = 64
	maxEnvironments = 200
	maxJobBytes     = 1 << 20
	maxRunTime      = 14 * 24 * time.Hour
)

var (
	idPattern       = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	labelKeyPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelPattern    = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	machinePattern  = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$`)
	regionPattern   = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	mountPattern    = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)
	accountPattern  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*@[a-z0-9.-]+$`)
	networkPattern  = regexp.MustCompile(`^((https://www\.googleapis\.com/compute/v1/)?projects/[a-z0-9:.-]+/)?global/networks/[a-z0-9-]+$`)
	subnetPattern   = regexp.MustCompile(`^(?:(?:https://www\.googleapis\.com/compute/v1/)?projects/[a-z0-9:.-]+/)?regions/([a-z0-9-]+)/subnetworks/[a-z0-9-]+$`)
	topicPattern    = regexp.MustCompile(`^projects/[a-z0-9:.-]+/topics/[A-Za-z][A-Za-z0-9._~%+-]{2,254}$`)
)

// rule is a rule of Batch, or one of ours, and whether a job complies. Sources, where the API's own documentation says
// nothing: https://cloud.google.com/batch/quotas for counts and durations,
// https://cloud.google.com/batch/docs/create-run-job for tasks on a machine and
// https://cloud.google.com/compute/docs/disks/local-ssd for disks.
type rule struct {
	name  string
	field string // of Job
	ok    bool
	says  string // what was found, and what would be right
}

// broken is the error of a job that breaks a rule.
func broken(name, field, says string) error {
	return problem.New(problem.Input, "batch job: %s: %s (rule %s)", field, says, name)
}

// check returns an error for the first rule that the job breaks, nil if it breaks none.
func (j Job) check() error {
	for _, r := range slices.Concat(j.identityRules(), j.labelRules(), j.taskRules(), j.machineRules(),
		j.placeRules()) {
		if !r.ok {
			return broken(r.name, r.field, r.says)
		}
	}
	return nil
}

// identityRules are the rules about the job's id, its image, its variables and the topics to which Batch publishes.
func (j Job) identityRules() []rule {
	rules := []rule{
		{"job-id", "ID", idPattern.MatchString(j.ID),
			fmt.Sprintf("%.80q must have 1 to 63 of a-z, 0-9 and '-', begin with a letter and not end with '-'", j.ID)},
		{"image", "Image", j.Image != "" && !strings.ContainsAny(j.Image, " \t\n"),
			fmt.Sprintf("%.80q is not a valid container image", j.Image)},
	}
	for _, k := range slices.Sorted(maps.Keys(j.Env)) {
		ok := variablePattern.MatchString(k) && !strings.HasPrefix(k, "BATCH_") && !strings.ContainsRune(j.Env[k], 0)
		rules = append(rules, rule{"variable", "Env", ok,
			fmt.Sprintf("%.80q must have letters, digits and '_', not begin with BATCH_, and hold no zero byte",
				k)})
	}
	for _, topic := range j.Notify {
		rules = append(rules, rule{"notification", "Notify", topicPattern.MatchString(topic),
			fmt.Sprintf("%.80q is not a valid topic: use projects/PROJECT/topics/TOPIC", topic)})
	}
	return rules
}

// labelRules are the rules about labels. That there is a label with the plan is a rule of ours: it tells whether a job
// of the same id was made for the same plan.
func (j Job) labelRules() []rule {
	rules := []rule{
		{"label-count", "Labels", len(j.Labels) <= maxLabels, fmt.Sprintf("%d labels, Batch takes %d", len(j.Labels),
			maxLabels)},
		{"plan-label", "Labels", j.Labels[PlanLabel] != "", "the label " + PlanLabel +
			" is missing, which tells one job from another of the same id"},
	}

	for _, k := range slices.Sorted(maps.Keys(j.Labels)) {
		reserved := strings.HasPrefix(k, "goog-") || strings.HasPrefix(k, "google-")
		rules = append(rules, rule{"label-key", "Labels", labelKeyPattern.MatchString(k),
			fmt.Sprintf("key %.80q must have 1 to 63 of a-z, 0-9, '_' and '-', and begin with a letter", k)},
			rule{"label-reserved", "Labels", !reserved,
				fmt.Sprintf("key %.80q: those that begin with goog- or google- are Google's own", k)},
			rule{"label-value", "Labels", labelPattern.MatchString(j.Labels[k]),
				fmt.Sprintf("value %.80q of %s must have at most 63 of a-z, 0-9, '_' and '-'", j.Labels[k], k)},
		)
	}
	return rules
}

// between is the rule that v is from low to high.
func between(name, field string, v, low, high int) rule {
	return rule{name, field, v >= low && v <= high, fmt.Sprintf("%d is not between %d and %d", v, low, high)}
}

// taskRules are the rules about the tasks: how many there are, how many run at once and on one machine, how often they
// are repeated, and what each takes.
func (j Job) taskRules() []rule {
	vms, limit := 0, maxVMs // machines at once, and how many there may be
	if len(j.Zones) == 1 {
		limit = maxVMsZone
	}
	if j.TasksPerVM > 0 { // Batch fills each machine before it takes another
		vms = (min(j.Parallelism, j.Tasks) + j.TasksPerVM - 1) / j.TasksPerVM
	}

	return []rule{
		between("task-count", "Tasks", j.Tasks, 1, maxTasks),
		between("parallelism", "Parallelism", j.Parallelism, 1, maxParallelism),
		between("tasks-per-vm", "TasksPerVM", j.TasksPerVM, 1, maxPerVM),
		{"per-vm-at-once", "TasksPerVM", j.TasksPerVM <= j.Parallelism,
			fmt.Sprintf("%d tasks on a machine are more than the %d at once in all", j.TasksPerVM, j.Parallelism)},
		{"machine-count", "Parallelism", vms <= limit,
			fmt.Sprintf("%d machines would be needed at once; with %d allowed zones (0 is the whole region) a job "+
				"may have %d", vms, len(j.Zones), limit)},
		between("retries", "MaxRetries", j.MaxRetries, 0, maxRetries),
		{"retry-code", "RetryExitCodes", !slices.Contains(j.RetryExitCodes, 0), "0 is success"},
		{"run-duration", "MaxRunDuration", j.MaxRunDuration >= 0 && j.MaxRunDuration <= maxRunTime,
			fmt.Sprintf("%v is not between 0 and %v", j.MaxRunDuration, maxRunTime)},
		{"cpu", "CPUMilli", j.CPUMilli > 0, fmt.Sprintf("%d is not above 0", j.CPUMilli)},
		{"memory", "MemoryMiB", j.MemoryMiB > 0, fmt.Sprintf("%d is not above 0", j.MemoryMiB)},
	}
}

// machineRules are the rules about the type of machine, the number of its local SSDs, and where they are mounted.
func (j Job) machineRules() []rule {
	may := fmt.Sprintf("a machine has at most %d", maxLocalSSDs)
	if counts, known := LocalSSDCounts(j.MachineType); known {
		may = fmt.Sprintf("a %.80s may have %s, at most %d", j.MachineType, countsText(counts), maxLocalSSDs)
	}
	return []rule{
		{"machine-type", "MachineType", machinePattern.MatchString(j.MachineType),
			fmt.Sprintf("%.80q is not a machine type such as n2-highmem-16", j.MachineType)},
		{"machine-series", "MachineType", slices.Contains(series, seriesOf(j.MachineType)),
			fmt.Sprintf("Batch has no machines such as %.80q; it has %s", j.MachineType, strings.Join(series, ", "))},
		{"local-ssd-count", "LocalSSDs", localSSDsAllowed(j.MachineType, j.LocalSSDs),
			fmt.Sprintf("%d, and %s", j.LocalSSDs, may)},
		{"mount-path", "MountPath", j.LocalSSDs == 0 && j.MountPath == "" || j.LocalSSDs > 0 &&
			mountPattern.MatchString(j.MountPath),
			fmt.Sprintf("%.80q for %d disks: with a local SSD use an absolute path of letters, digits, '.', '_' and "+
				"'-', without one none", j.MountPath, j.LocalSSDs)},
	}
}

// localSSDsAllowed reports whether a machine of the type may have n local SSDs. It is true for any possible number if
// the type is not in the tables, so that Batch decides.
func localSSDsAllowed(machineType string, n int) bool {
	counts, known := LocalSSDCounts(machineType)
	switch {
	case n < 0 || n > maxLocalSSDs:
		return false
	case !known:
		return true
	case n == 0:
		return !strings.HasSuffix(machineType, "-lssd") // a type with built-in disks cannot be had without them
	default:
		return slices.Contains(counts, n)
	}
}

// placeRules are the rules about region, zones, network, subnetwork and account. Zones and subnetwork have to be in the
// job's region.
func (j Job) placeRules() []rule {
	rules := []rule{
		{"region", "Location", regionPattern.MatchString(j.Location),
			fmt.Sprintf("%.80q is not a region such as us-central1", j.Location)},
		{"service-account", "ServiceAccount", j.ServiceAccount == "" || accountPattern.MatchString(j.ServiceAccount),
			fmt.Sprintf("%.80q is not the e-mail address of a service account", j.ServiceAccount)},
		{"network", "Network", j.Network == "" || networkPattern.MatchString(j.Network),
			fmt.Sprintf("%.120q: use global/networks/NAME or projects/PROJECT/global/networks/NAME", j.Network)},
	}

	subnet := subnetPattern.FindStringSubmatch(j.Subnetwork)
	rules = append(rules, rule{"subnetwork", "Subnetwork", j.Subnetwork == "" || subnet != nil &&
		subnet[1] == j.Location,
		fmt.Sprintf("%.120q: use regions/%s/subnetworks/NAME or projects/PROJECT/regions/%[2]s/subnetworks/NAME",
			j.Subnetwork, j.Location)})

	for _, z := range j.Zones {
		zone, ok := strings.CutPrefix(z, j.Location+"-")
		rules = append(rules, rule{"zones-of-region", "Zones", ok && len(zone) == 1,
			fmt.Sprintf("%.80q is not a zone of %s, where the job is", z, j.Location)})
	}
	return rules
}

// checkMessage returns an error if the finished message breaks a rule about its size.
func checkMessage(job *batchpb.Job) error {
	environments, size := len(job.GetTaskGroups()[0].GetTaskEnvironments()), proto.Size(job)
	for _, r := range []rule{
		{"task-environment", "Env", environments <= maxEnvironments,
			fmt.Sprintf("%d environments of single tasks, Batch takes %d", environments, maxEnvironments)},
		{"job-size", "Job", size <= maxJobBytes,
			fmt.Sprintf("the definition has %d bytes, Batch takes %d: keep long settings in an object", size,
				maxJobBytes)},
	} {
		if !r.ok {
			return broken(r.name, r.field, r.says)
		}
	}
	return nil
}
