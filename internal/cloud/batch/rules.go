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
)

// Rule names a rule of Batch, or one of ours, that is checked before submission.
type Rule string

// The rules. Source, where none is named: the API's own documentation, cloud.google.com/go/batch/apiv1/batchpb.
const (
	RuleJobID          Rule = "job-id"
	RuleLabelCount     Rule = "label-count"
	RuleLabelKey       Rule = "label-key"
	RuleLabelValue     Rule = "label-value"
	RuleLabelReserved  Rule = "label-reserved"
	RulePlanLabel      Rule = "plan-label" // ours: it identifies the plan of a job
	RuleImage          Rule = "image"
	RuleVariable       Rule = "variable"
	RuleTasks          Rule = "task-count"       // https://cloud.google.com/batch/quotas
	RuleParallelism    Rule = "parallelism"      // the same
	RuleTasksPerVM     Rule = "tasks-per-vm"     // https://cloud.google.com/batch/docs/create-run-job
	RulePerVMAtOnce    Rule = "per-vm-at-once"   // the same
	RuleMachineCount   Rule = "machine-count"    // https://cloud.google.com/batch/quotas
	RuleRetries        Rule = "retries"          //
	RuleRetryCode      Rule = "retry-code"       // ours: a success is not retried
	RuleRunDuration    Rule = "run-duration"     // https://cloud.google.com/batch/quotas
	RuleCPU            Rule = "cpu"              //
	RuleMemory         Rule = "memory"           //
	RuleMachineType    Rule = "machine-type"     //
	RuleSeries         Rule = "machine-series"   // https://cloud.google.com/batch/docs/get-started
	RuleLocalSSDs      Rule = "local-ssd-count"  // https://cloud.google.com/compute/docs/disks/local-ssd
	RuleMountPath      Rule = "mount-path"       //
	RuleRegion         Rule = "region"           //
	RuleZones          Rule = "zones-of-region"  //
	RuleServiceAccount Rule = "service-account"  //
	RuleNetwork        Rule = "network"          //
	RuleSubnetwork     Rule = "subnetwork"       //
	RuleTopic          Rule = "notification"     //
	RuleJobSize        Rule = "job-size"         // https://cloud.google.com/batch/quotas
	RuleOneGroup       Rule = "one-task-group"   //
	RuleOnePolicy      Rule = "one-lifecycle"    //
	RuleOneLocalSSD    Rule = "one-ssd-entry"    //
	RuleOpenSSD        Rule = "open-ssd"         // ours: the container's user is not root, who owns the disk
	RuleEnvironments   Rule = "task-environment" // https://cloud.google.com/batch/docs/create-run-basic-job
)

// RuleError is a rule that a job breaks.
type RuleError struct {
	Field string // of Job
	Rule  Rule
	Says  string // what was found, and what would be right
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("batch job: %s: %s (rule %s)", e.Field, e.Says, e.Rule)
}

// IsInput says that the input is at fault, permanently.
func (*RuleError) IsInput() bool { return true }

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

// held is a rule, and whether a job complies.
type held struct {
	rule  Rule
	field string
	ok    bool
	says  string
}

// check checks the rules, in the order of the fields.
func (j Job) check() error {
	for _, r := range slices.Concat(j.identityRules(), j.labelRules(), j.arrayRules(), j.machineRules(),
		j.placeRules()) {
		if !r.ok {
			return &RuleError{Field: r.field, Rule: r.rule, Says: r.says}
		}
	}
	return nil
}

func (j Job) identityRules() []held {
	rules := []held{
		{RuleJobID, "ID", idPattern.MatchString(j.ID),
			fmt.Sprintf("%.80q must have 1 to 63 of a-z, 0-9 and '-', begin with a letter and not end with '-'", j.ID)},
		{RuleImage, "Image", j.Image != "" && !strings.ContainsAny(j.Image, " \t\n"),
			fmt.Sprintf("%.80q is not a valid container image", j.Image)},
	}
	for _, k := range slices.Sorted(maps.Keys(j.Env)) {
		ok := variablePattern.MatchString(k) && !strings.HasPrefix(k, "BATCH_") && !strings.ContainsRune(j.Env[k], 0)
		rules = append(rules,
			held{RuleVariable, "Env", ok,
				fmt.Sprintf("%.80q must have letters, digits and '_', not begin with BATCH_, and hold no zero byte",
					k)})
	}
	for _, topic := range j.Notify {
		rules = append(rules, held{RuleTopic, "Notify", topicPattern.MatchString(topic),
			fmt.Sprintf("%.80q is not a valid topic: use projects/PROJECT/topics/TOPIC", topic)})
	}
	return rules
}

func (j Job) labelRules() []held {
	rules := []held{
		{RuleLabelCount, "Labels", len(j.Labels) <= maxLabels, fmt.Sprintf("%d labels, Batch takes %d", len(j.Labels),
			maxLabels)},
		{RulePlanLabel, "Labels", j.Labels[PlanLabel] != "", "the label " + PlanLabel +
			" is missing, which tells one job from another of the same id"},
	}

	for _, k := range slices.Sorted(maps.Keys(j.Labels)) {
		reserved := strings.HasPrefix(k, "goog-") || strings.HasPrefix(k, "google-")
		rules = append(rules,
			held{RuleLabelKey, "Labels", labelKeyPattern.MatchString(k),
				fmt.Sprintf("key %.80q must have 1 to 63 of a-z, 0-9, '_' and '-', and begin with a letter", k)},
			held{RuleLabelReserved, "Labels", !reserved,
				fmt.Sprintf("key %.80q: those that begin with goog- or google- are Google's own", k)},
			held{RuleLabelValue, "Labels", labelPattern.MatchString(j.Labels[k]),
				fmt.Sprintf("value %.80q of %s must have at most 63 of a-z, 0-9, '_' and '-'", j.Labels[k], k)},
		)
	}
	return rules
}

func between(rule Rule, field string, v, low, high int) held {
	return held{rule, field, v >= low && v <= high, fmt.Sprintf("%d is not between %d and %d", v, low, high)}
}

func (j Job) arrayRules() []held {
	vms, most := 0, maxVMs
	if len(j.Zones) == 1 {
		most = maxVMsZone
	}
	if j.TasksPerVM > 0 {
		vms = (min(j.Parallelism, j.Tasks) + j.TasksPerVM - 1) / j.TasksPerVM
	}

	return []held{
		between(RuleTasks, "Tasks", j.Tasks, 1, maxTasks),
		between(RuleParallelism, "Parallelism", j.Parallelism, 1, maxParallelism),
		between(RuleTasksPerVM, "TasksPerVM", j.TasksPerVM, 1, maxPerVM),
		{RulePerVMAtOnce, "TasksPerVM", j.TasksPerVM <= j.Parallelism,
			fmt.Sprintf("%d tasks on a machine are more than the %d at once in all", j.TasksPerVM, j.Parallelism)},
		{RuleMachineCount, "Parallelism", vms <= most,
			fmt.Sprintf("%d machines would be needed at once; with %d allowed zones (0 is the whole region) a job "+
				"may have %d", vms, len(j.Zones), most)},
		between(RuleRetries, "MaxRetries", j.MaxRetries, 0, maxRetries),
		{RuleRetryCode, "RetryExitCodes", !slices.Contains(j.RetryExitCodes, 0), "0 is success"},
		{RuleRunDuration, "MaxRunDuration", j.MaxRunDuration >= 0 && j.MaxRunDuration <= maxRunTime,
			fmt.Sprintf("%v is not between 0 and %v", j.MaxRunDuration, maxRunTime)},
		{RuleCPU, "CPUMilli", j.CPUMilli > 0, fmt.Sprintf("%d is not above 0", j.CPUMilli)},
		{RuleMemory, "MemoryMiB", j.MemoryMiB > 0, fmt.Sprintf("%d is not above 0", j.MemoryMiB)},
	}
}

func (j Job) machineRules() []held {
	counts, known := LocalSSDCounts(j.MachineType)
	builtIn := strings.HasSuffix(j.MachineType, "-lssd")
	allowed := j.LocalSSDs >= 0 && j.LocalSSDs <= maxLocalSSDs && (!known || slices.Contains(counts, j.LocalSSDs) ||
		j.LocalSSDs == 0 && !builtIn)
	return []held{
		{RuleMachineType, "MachineType", machinePattern.MatchString(j.MachineType),
			fmt.Sprintf("%.80q is not a machine type such as n2-highmem-16", j.MachineType)},
		{RuleSeries, "MachineType", slices.Contains(series, seriesOf(j.MachineType)),
			fmt.Sprintf("Batch has no machines such as %.80q; it has %s", j.MachineType, strings.Join(series, ", "))},
		{RuleLocalSSDs, "LocalSSDs", allowed, fmt.Sprintf("%d, and a %.80s may have %s, at most %d", j.LocalSSDs,
			j.MachineType, countsText(counts), maxLocalSSDs)},
		{RuleMountPath, "MountPath", j.LocalSSDs == 0 && j.MountPath == "" || j.LocalSSDs > 0 &&
			mountPattern.MatchString(j.MountPath),
			fmt.Sprintf("%.80q for %d disks: with a local SSD use an absolute path of letters, digits, '.', '_' and "+
				"'-', without one none", j.MountPath, j.LocalSSDs)},
	}
}

func (j Job) placeRules() []held {
	rules := []held{
		{RuleRegion, "Location", regionPattern.MatchString(j.Location),
			fmt.Sprintf("%.80q is not a region such as us-central1", j.Location)},
		{RuleServiceAccount, "ServiceAccount", j.ServiceAccount == "" || accountPattern.MatchString(j.ServiceAccount),
			fmt.Sprintf("%.80q is not the e-mail address of a service account", j.ServiceAccount)},
		{RuleNetwork, "Network", j.Network == "" || networkPattern.MatchString(j.Network),
			fmt.Sprintf("%.120q: use global/networks/NAME or projects/PROJECT/global/networks/NAME", j.Network)},
	}

	subnet := subnetPattern.FindStringSubmatch(j.Subnetwork)
	rules = append(rules, held{RuleSubnetwork, "Subnetwork", j.Subnetwork == "" || subnet != nil &&
		subnet[1] == j.Location,
		fmt.Sprintf("%.120q: use regions/%s/subnetworks/NAME or projects/PROJECT/regions/%[2]s/subnetworks/NAME",
			j.Subnetwork, j.Location)})

	for _, z := range j.Zones {
		zone, ok := strings.CutPrefix(z, j.Location+"-")
		rules = append(rules, held{RuleZones, "Zones", ok && len(zone) == 1,
			fmt.Sprintf("%.80q is not a zone of %s, where the job is", z, j.Location)})
	}
	return rules
}

// checkMessage checks the finished message against the rules about its form. Build's output complies with all but the
// size by construction; a mistake in a builder is found here and not by the service.
func checkMessage(job *batchpb.Job) error {
	groups := job.GetTaskGroups()
	if len(groups) != 1 {
		return &RuleError{"Job", RuleOneGroup, fmt.Sprintf("%d task groups, Batch takes 1", len(groups))}
	}

	locals := 0
	for _, i := range job.GetAllocationPolicy().GetInstances() {
		for _, d := range i.GetPolicy().GetDisks() {
			if d.GetNewDisk().GetType() == localSSD {
				locals++
			}
		}
	}

	runnables := groups[0].GetTaskSpec().GetRunnables()
	volumes := groups[0].GetTaskSpec().GetVolumes()
	policies := len(groups[0].GetTaskSpec().GetLifecyclePolicies())
	environments := len(groups[0].GetTaskEnvironments())
	size := proto.Size(job)

	for _, r := range []held{
		{RuleOnePolicy, "RetryExitCodes", policies <= 1, fmt.Sprintf("%d lifecycle policies, Batch takes 1", policies)},
		{RuleOneLocalSSD, "LocalSSDs", locals <= 1,
			fmt.Sprintf("%d entries of local SSDs, Batch takes 1 with the size of all", locals)},
		{RuleOpenSSD, "LocalSSDs", len(volumes) == 0 || len(runnables) == 2 &&
			runnables[0].GetScript().GetText() != "" && runnables[1].GetContainer() != nil,
			fmt.Sprintf("%d runnables: a script that opens the local SSD to the container's user comes first, then "+
				"the container", len(runnables))},
		{RuleEnvironments, "Env", environments <= maxEnvironments,
			fmt.Sprintf("%d environments of single tasks, Batch takes %d", environments, maxEnvironments)},
		{RuleJobSize, "Job", size <= maxJobBytes,
			fmt.Sprintf("the definition has %d bytes, Batch takes %d: keep long settings in an object", size,
				maxJobBytes)},
	} {
		if !r.ok {
			return &RuleError{Field: r.field, Rule: r.rule, Says: r.says}
		}
	}
	return nil
}
