package batchemu

import (
	"cmp"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Limits of Batch. Source: https://cloud.google.com/batch/quotas and the documentation of the API's messages.
const (
	maxJobBytes    = 1 << 20
	maxTasks       = 100_000
	maxParallelism = 5_000
	maxPerVM       = 20
	maxVMs         = 4_000
	maxVMsZone     = 2_000 // of a job that may use one zone only
	maxRetries     = 10
	maxPriority    = 99
	maxLabels      = 64
	maxRunTime     = 14 * 24 * time.Hour
	diskGB         = 375 // of one local SSD
)

var (
	labelKeyPattern = regexp.MustCompile(`^[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}0-9_-]{0,62}$`)
	labelPattern    = regexp.MustCompile(`^[\p{Ll}\p{Lo}0-9_-]{0,63}$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	regionPattern   = regexp.MustCompile(`^regions/([a-z0-9-]+)$`)
	zonePattern     = regexp.MustCompile(`^zones/([a-z0-9-]+)-[a-z]$`)
	sizePattern     = regexp.MustCompile(`-([0-9]+)(-lssd)?$`)
)

// unimitated is the error for what Batch can do and this server cannot.
func unimitated(what string) error {
	return status.Errorf(codes.Unimplemented, "localemu does not imitate %s", what)
}

// interpret validates a job as Batch does and returns the plan for executing it. parent is projects/P/locations/L of
// the request. Errors are gRPC's: InvalidArgument for what Batch refuses, Unimplemented for what only localemu does.
func (s *Server) interpret(parent string, job *batchpb.Job) (plan, error) {
	var p plan
	if job == nil {
		return p, invalid("job is missing")
	}
	if n := proto.Size(job); n > maxJobBytes {
		return p, invalid("the job definition has %d bytes, more than the %d allowed", n, maxJobBytes)
	}

	if len(job.GetTaskGroups()) != 1 {
		return p, invalid("task_groups has %d entries; exactly one is supported", len(job.GetTaskGroups()))
	}
	if job.GetPriority() < 0 || job.GetPriority() > maxPriority {
		return p, invalid("priority is %d: 0 to %d", job.GetPriority(), maxPriority)
	}

	if err := s.checkNotifications(job.GetNotifications()); err != nil {
		return p, err
	}
	if err := checkLabels(job.GetLabels()); err != nil {
		return p, err
	}
	if err := p.readAllocation(parent, job.GetAllocationPolicy()); err != nil {
		return p, err
	}

	group := job.TaskGroups[0]
	if err := p.readSpec(group.GetTaskSpec(), job.GetAllocationPolicy()); err != nil {
		return p, err
	}
	if err := p.readCounts(group); err != nil { // by the machine type and the zones that readAllocation has set
		return p, err
	}
	return p, p.readRunnables(s.image, group.GetTaskSpec())
}

// checkLabels returns an error if there are more labels than Batch takes, if one has other characters than it allows,
// or if a key is reserved for Google.
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalid("%d labels: at most %d", len(labels), maxLabels)
	}
	for k, v := range labels {
		if !labelKeyPattern.MatchString(k) || !labelPattern.MatchString(v) {
			return invalid("label %.80q=%.80q: use up to 63 lower-case letters, digits, '_' and '-', the key "+
				"beginning with a letter", k, v)
		}
		if strings.HasPrefix(k, "goog-") || strings.HasPrefix(k, "google-") {
			return invalid("label %q: keys that begin with goog- or google- are reserved", k)
		}
	}
	return nil
}

// readAllocation reads which machines the job asks for, and sets the plan's zones, machineType and spot.
func (p *plan) readAllocation(parent string, a *batchpb.AllocationPolicy) error {
	_, location, _ := strings.Cut(parent, "/locations/")
	allowed := a.GetLocation().GetAllowedLocations()
	for _, l := range allowed {
		region := regionPattern.FindStringSubmatch(l)
		if region == nil {
			region = zonePattern.FindStringSubmatch(l)
		}
		if region == nil || region[1] != location {
			return invalid("allowed location %.80q is neither regions/%s nor a zone of it", l, location)
		}
		if strings.HasPrefix(l, "regions/") && len(allowed) > 1 {
			return invalid("allowed_locations must be one region, or zones of one region")
		}
	}

	p.zones = places(location, allowed)
	if n := len(a.GetInstances()); n > 1 {
		return invalid("allocation_policy has %d instances; only one is supported", n)
	}

	// Batch's defaults for what is left out.
	p.machineType = "e2-standard-4"
	if len(a.GetInstances()) == 0 {
		return nil
	}
	if a.Instances[0].GetInstanceTemplate() != "" {
		return unimitated("instance templates")
	}

	policy := a.Instances[0].GetPolicy()
	if t := policy.GetMachineType(); t != "" {
		p.machineType = t
	}
	switch policy.GetProvisioningModel() {
	case batchpb.AllocationPolicy_SPOT:
		p.spot = true
	case batchpb.AllocationPolicy_STANDARD, batchpb.AllocationPolicy_PROVISIONING_MODEL_UNSPECIFIED:
	default:
		return unimitated("the provisioning model " + policy.GetProvisioningModel().String())
	}

	return checkDisks(policy.GetDisks())
}

// checkDisks returns an error unless all disks are new and have different names. Local SSDs have to be a single entry
// of at least 375 GB, which may stand for several by its size.
func checkDisks(disks []*batchpb.AllocationPolicy_AttachedDisk) error {
	locals := 0
	names := map[string]bool{}
	for _, d := range disks {
		if d.GetNewDisk() == nil {
			return unimitated("existing disks")
		}
		if d.GetDeviceName() == "" || names[d.GetDeviceName()] {
			return invalid("device name %.80q of a disk is empty or used twice", d.GetDeviceName())
		}
		names[d.GetDeviceName()] = true

		if d.GetNewDisk().GetType() == "local-ssd" {
			locals++
			if d.GetNewDisk().GetSizeGb() < diskGB {
				return invalid("local SSD %q has %d GB: the smallest is %d", d.GetDeviceName(),
					d.GetNewDisk().GetSizeGb(), diskGB)
			}
		}
	}

	if locals > 1 {
		return invalid("%d disks are local SSDs; one entry with the summed size is supported", locals)
	}
	return nil
}

// readSpec reads what all tasks have in common, and sets the plan's mounts, retries, policy and timeLimit.
func (p *plan) readSpec(spec *batchpb.TaskSpec, a *batchpb.AllocationPolicy) error {
	if spec == nil {
		return invalid("task_spec is missing")
	}
	for _, v := range spec.GetVolumes() {
		if err := p.readVolume(v, a); err != nil {
			return err
		}
	}

	if spec.GetMaxRetryCount() < 0 || spec.GetMaxRetryCount() > maxRetries {
		return invalid("max_retry_count is %d: 0 to %d", spec.GetMaxRetryCount(), maxRetries)
	}
	p.retries = int(spec.GetMaxRetryCount())

	if n := len(spec.GetLifecyclePolicies()); n > 1 {
		return invalid("%d lifecycle policies; only one is supported", n)
	} else if n == 1 {
		p.policy = spec.LifecyclePolicies[0]
		if p.policy.GetAction() == batchpb.LifecyclePolicy_ACTION_UNSPECIFIED ||
			len(p.policy.GetActionCondition().GetExitCodes()) == 0 {
			return invalid("the lifecycle policy needs an action and exit codes")
		}
	}

	if limit := spec.GetMaxRunDuration(); limit != nil {
		p.timeLimit = limit.AsDuration()
		if limit.CheckValid() != nil || p.timeLimit <= 0 || p.timeLimit > maxRunTime {
			return invalid("max_run_duration is %v: above 0, at most %v", p.timeLimit, maxRunTime)
		}
	}

	r := spec.GetComputeResource()
	if r.GetCpuMilli() < 0 || r.GetMemoryMib() < 0 || r.GetBootDiskMib() < 0 {
		return invalid("compute_resource has a negative value")
	}
	return nil
}

// readVolume adds a volume to the plan's mounts: a disk of the job at an absolute path that no other volume has. On the
// machine a folder stands for it, ssdFolder for a local SSD and disk-0, disk-1, ... for others.
func (p *plan) readVolume(v *batchpb.Volume, a *batchpb.AllocationPolicy) error {
	if v.GetDeviceName() == "" {
		return unimitated("volumes other than disks")
	}

	at := v.GetMountPath()
	if !path.IsAbs(at) || path.Clean(at) != at || at == "/" {
		return invalid("mount path %.200q is not an absolute, clean path below /", at)
	}
	for _, m := range p.mounts {
		if m.path == at {
			return invalid("mount path %q is used twice", at)
		}
	}

	for _, i := range a.GetInstances() {
		for _, d := range i.GetPolicy().GetDisks() {
			if d.GetDeviceName() != v.GetDeviceName() {
				continue
			}

			folder := "disk-" + strconv.Itoa(len(p.mounts))
			if d.GetNewDisk().GetType() == "local-ssd" {
				folder = ssdFolder
			}
			p.mounts = append(p.mounts, mount{at, folder})
			return nil
		}
	}
	return invalid("volume at %s: no disk has the device name %.80q", at, v.GetDeviceName())
}

// readCounts reads how many tasks there are, how many run at once, and how many share a machine. It sets the plan's
// tasks, parallelism, perVM and vms, with Batch's defaults for what is 0. readAllocation has to come before.
func (p *plan) readCounts(g *batchpb.TaskGroup) error {
	switch {
	case len(g.GetTaskEnvironments()) > 0:
		return unimitated("task environments")
	case g.GetRequireHostsFile():
		return unimitated("hosts files")
	case g.GetTaskCount() < 0 || g.GetTaskCount() > maxTasks:
		return invalid("task_count is %d: 1 to %d", g.GetTaskCount(), maxTasks)
	case g.GetParallelism() < 0 || g.GetParallelism() > maxParallelism:
		return invalid("parallelism is %d: 1 to %d", g.GetParallelism(), maxParallelism)
	case g.GetTaskCountPerNode() < 0 || g.GetTaskCountPerNode() > maxPerVM:
		return invalid("task_count_per_node is %d: 1 to %d", g.GetTaskCountPerNode(), maxPerVM)
	case g.GetSchedulingPolicy() == batchpb.TaskGroup_IN_ORDER && g.GetParallelism() != 1: // 0 would be all at once
		return invalid("parallelism is %d: IN_ORDER needs 1", g.GetParallelism())
	}

	p.tasks = max(1, int(g.GetTaskCount()))
	p.parallelism = int(g.GetParallelism())
	if p.parallelism == 0 {
		p.parallelism = min(p.tasks, maxParallelism)
	}

	// Without a number, as many tasks as fit share a machine.
	p.perVM = int(g.GetTaskCountPerNode())
	if p.perVM > p.parallelism {
		return invalid("task_count_per_node is %d, more than the parallelism of %d", p.perVM, p.parallelism)
	}
	if p.perVM == 0 {
		p.perVM = min(tasksThatFit(p.machineType, g.GetTaskSpec()), p.parallelism)
	}

	p.vms = (min(p.parallelism, p.tasks) + p.perVM - 1) / p.perVM // rounded up
	most := maxVMs
	if len(p.zones) == 1 {
		most = maxVMsZone
	}
	if p.vms > most {
		return invalid("%d machines would be needed; a job in %d zones may have %d", p.vms, len(p.zones), most)
	}
	return nil
}

// tasksThatFit returns Batch's default for tasks per machine: as many as there are CPUs for, where a task that names
// none takes two. Memory is not considered.
func tasksThatFit(machineType string, spec *batchpb.TaskSpec) int {
	milli := cmp.Or(int(spec.GetComputeResource().GetCpuMilli()), 2000)
	return min(max(1, vcpusOf(machineType)*1000/milli), maxPerVM)
}

// vcpusOf returns the number of vCPUs of a machine type, which is the last number in its name; 1 if it has none.
func vcpusOf(machineType string) int {
	if m := sizePattern.FindStringSubmatch(machineType); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return max(1, n)
		}
	}
	return 1
}

// script is a runnable that runs on the machine itself, before the container.
type script struct {
	text string
	env  []string // NAME=VALUE, with mount paths as in the job
}

// readRunnables reads what a task executes, scripts if any and then one container, and sets the plan's scripts, env,
// image, program and args. image finds the program for a container image, false if there is none.
func (p *plan) readRunnables(image func(string) (string, bool), spec *batchpb.TaskSpec) error {
	all := spec.GetRunnables()
	if len(all) == 0 {
		return invalid("runnables is empty")
	}

	for _, r := range all {
		if r.GetBackground() || r.GetAlwaysRun() || r.GetIgnoreExitStatus() || r.GetTimeout() != nil {
			return unimitated("runnables in the background, that always run, whose failure is ignored or that have " +
				"a time limit")
		}
		for _, e := range []*batchpb.Environment{spec.GetEnvironment(), r.GetEnvironment()} {
			if err := checkEnvironment(e); err != nil {
				return err
			}
		}
	}

	// A runnable's own variables override those of the task.
	last := len(all) - 1
	for _, r := range all[:last] {
		if err := p.readScript(r.GetScript(), environment(spec.GetEnvironment(), r.GetEnvironment())); err != nil {
			return err
		}
	}

	p.env = environment(spec.GetEnvironment(), all[last].GetEnvironment())
	return p.readContainer(image, all[last].GetContainer())
}

// checkEnvironment returns an error for variables that a process cannot have, and for secret ones, which localemu does
// not imitate.
func checkEnvironment(e *batchpb.Environment) error {
	if len(e.GetSecretVariables()) > 0 || e.GetEncryptedVariables() != nil {
		return unimitated("secret and encrypted variables")
	}
	for name, value := range e.GetVariables() {
		if !variablePattern.MatchString(name) || strings.ContainsRune(value, 0) {
			return invalid("environment variable %.80q: use letters, digits and '_', and no zero byte in the value",
				name)
		}
	}
	return nil
}

// folderScript matches scripts that only make folders and let others write to them.
var folderScript = regexp.MustCompile(`^(#!/bin/sh\n)?(set -e\n|mkdir -p [\w/.-]+\n|chmod \d+ [\w/.-]+\n)*$`)

// readScript adds a runnable before the container to the plan's scripts. It has to be a text for /bin/sh. Windows has
// no /bin/sh: there only scripts that make folders are accepted, and they are not run, because the folders exist
// anyway.
func (p *plan) readScript(s *batchpb.Runnable_Script, env []string) error {
	text := s.GetText()
	switch {
	case s == nil:
		return unimitated("runnables other than scripts before one plain container")
	case s.GetPath() != "":
		return unimitated("scripts that are files of the machine")
	case text == "":
		return invalid("the text of a script is empty")
	case strings.ContainsRune(text, 0):
		return invalid("the text of a script holds a zero byte")
	case strings.HasPrefix(text, "#!") && !strings.HasPrefix(text, "#!/bin/sh\n"):
		return unimitated("scripts for another interpreter than /bin/sh")
	}

	if runtime.GOOS == "windows" {
		if !folderScript.MatchString(text) {
			return unimitated("scripts that do more than make folders, on Windows, which has no /bin/sh")
		}
		return nil // the machine's folders are there, and its tasks may write to them
	}
	p.scripts = append(p.scripts, script{text: text, env: env})
	return nil
}

// readContainer reads the last runnable and sets the plan's image, program and args. Options that only a real container
// could honour are refused, except the network of the machine, which programs have here.
func (p *plan) readContainer(image func(string) (string, bool), c *batchpb.Runnable_Container) error {
	switch {
	case c == nil:
		return unimitated("runnables other than scripts before one plain container")
	case c.GetEntrypoint() != "" || c.GetOptions() != "" && c.GetOptions() != "--network host" ||
		len(c.GetVolumes()) > 0 || c.GetUsername() != "" ||
		c.GetBlockExternalNetwork():
		return unimitated("a container's entrypoint, options, volumes, user name or network block")
	case c.GetImageUri() == "":
		return invalid("image_uri is empty")
	case slices.ContainsFunc(c.GetCommands(), func(arg string) bool { return strings.ContainsRune(arg, 0) }):
		return invalid("a command holds a zero byte")
	}

	program, ok := image(c.GetImageUri())
	if !ok {
		return status.Errorf(codes.FailedPrecondition,
			"localemu has no program for the image %.200q; start it with --image NAME=PATH", c.GetImageUri())
	}
	p.image, p.program = c.GetImageUri(), program
	p.args = c.GetCommands()
	return nil
}
