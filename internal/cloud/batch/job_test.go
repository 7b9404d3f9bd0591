package batch

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// spotJob is a job as the launcher makes it.
func spotJob() Job {
	return Job{
		ID: "nightly-ctr-20261120",
		Labels: map[string]string{PlanLabel: strings.Repeat("0123456789abcdef", 2),
			"coppice-sweep": "nightly-ctr-20261120"},
		Location: "us-central1",
		Image:    "us-central1-docker.pkg.dev/p/coppice/task:v1",
		Args:     []string{"run"},
		Env: map[string]string{"COPPICE_SWEEP": "nightly-ctr-20261120",
			"COPPICE_SCRATCH": "/mnt/disks/ssd/coppice"},
		Tasks:          32,
		Parallelism:    32,
		TasksPerVM:     16,
		MachineType:    "n2-highmem-64",
		Spot:           true,
		LocalSSDs:      8,
		MountPath:      "/mnt/disks/ssd",
		CPUMilli:       4000,
		MemoryMiB:      20_000,
		MaxRetries:     10,
		RetryExitCodes: []int32{75, 50001, 50002, 50003, 50004, 50006},
		MaxRunDuration: 6 * time.Hour,
	}
}

// minimalJob leaves out whatever may be left out.
func minimalJob() Job {
	return Job{ID: "minimal", Labels: map[string]string{PlanLabel: strings.Repeat("0", 32)}, Location: "europe-west1",
		Image: "task",
		Tasks: 1, Parallelism: 1, TasksPerVM: 1, MachineType: "e2-standard-4", CPUMilli: 4000, MemoryMiB: 14_000}
}

// customJob runs on demand in a network of its own, in two zones, on a series whose boot disk has to be a Hyperdisk and
// whose SSDs are built in.
func customJob() Job {
	j := spotJob()
	j.ID, j.Spot, j.MachineType, j.MaxRunDuration, j.MaxRetries = "custom-ctr", false, "c4-highmem-48-lssd", 0, 3
	j.Labels["team"], j.Labels["cost-centre"] = "ads_ranking", "4711"
	j.Zones = []string{"us-central1-a", "us-central1-f"}
	j.ServiceAccount = "task@p.iam.gserviceaccount.com"
	j.Network = "projects/p/global/networks/coppice"
	j.Subnetwork = "projects/p/regions/us-central1/subnetworks/coppice"
	j.NoExternalIP = true
	j.Notify = []string{"projects/p/topics/coppice-jobs", "projects/p/topics/alerts"}
	return j
}

// stagingJob is one task beside the data, as `launcher stage --batch` makes it.
func stagingJob() Job {
	j := spotJob()
	j.ID, j.Image, j.Args = "stage-clicks-0123456789ab", "us-central1-docker.pkg.dev/p/coppice/launcher:v1",
		[]string{"stage-task"}
	j.Labels = map[string]string{PlanLabel: strings.Repeat("f", 32), "coppice-dataset": "clicks"}
	j.Env = map[string]string{"COPPICE_STAGE_SPEC": "name: clicks\nsource: gs://exports/clicks/*.parquet\nlabel: " +
		"is_click\n", "COPPICE_SCRATCH": "/mnt/disks/ssd"}
	j.Tasks, j.Parallelism, j.TasksPerVM, j.MachineType, j.Spot, j.LocalSSDs = 1, 1, 1, "n2-standard-16", false, 2
	j.CPUMilli, j.MemoryMiB, j.MaxRetries, j.MaxRunDuration = 16_000, 60_000, 3, 24*time.Hour
	j.ServiceAccount = "stage@p.iam.gserviceaccount.com"
	return j
}

// TestGolden compares whole requests. After a wanted change: go test ./cloud/batch -run Golden -update
func TestGolden(t *testing.T) {
	jobs := map[string]Job{"minimal": minimalJob(), "spot": spotJob(), "custom": customJob(), "staging": stagingJob()}
	for name, job := range jobs {
		got, err := job.JSON()
		if err != nil {
			t.Fatalf("job.JSON(): got %v, %v; want no error", name, err)
		}
		again, err := job.JSON()
		if err != nil || !bytes.Equal(got, again) {
			t.Errorf("%s: two calls differ, %v", name, err)
		}
		path := filepath.Join("testdata", "jobs", name+".json")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from %s (-want +got):\n%s", name, path, diff)
		}
	}
	files, err := os.ReadDir(filepath.Join("testdata", "jobs"))
	if err != nil || len(files) != len(jobs) {
		t.Errorf("%d golden files for %d jobs, %v", len(files), len(jobs), err)
	}
}

// broken are jobs that break one rule each.
var broken = []struct {
	rule   Rule
	field  string
	change func(*Job)
}{
	{RuleJobID, "ID", func(j *Job) { j.ID = "" }},
	{RuleJobID, "ID", func(j *Job) { j.ID = "Nightly" }},
	{RuleJobID, "ID", func(j *Job) { j.ID = "nightly-" }},
	{RuleJobID, "ID", func(j *Job) { j.ID = "1nightly" }},
	{RuleJobID, "ID", func(j *Job) { j.ID = strings.Repeat("a", 64) }},
	{RuleImage, "Image", func(j *Job) { j.Image = "" }},
	{RuleImage, "Image", func(j *Job) { j.Image = "a b" }},
	{RuleVariable, "Env", func(j *Job) { j.Env["A-B"] = "x" }},
	{RuleVariable, "Env", func(j *Job) { j.Env["BATCH_TASK_INDEX"] = "0" }},
	{RuleVariable, "Env", func(j *Job) { j.Env["A"] = "a\x00b" }},
	{RuleTopic, "Notify", func(j *Job) { j.Notify = []string{"coppice-jobs"} }},
	{RuleTopic, "Notify", func(j *Job) { j.Notify = []string{"projects/p/topics/jobs", ""} }},
	{RuleLabelCount, "Labels", func(j *Job) {
		for i := range 63 {
			j.Labels[fmt.Sprintf("label-%d", i)] = "x"
		}
	}},
	{RulePlanLabel, "Labels", func(j *Job) { delete(j.Labels, PlanLabel) }},
	{RuleLabelKey, "Labels", func(j *Job) { j.Labels["9x"] = "x" }},
	{RuleLabelKey, "Labels", func(j *Job) { j.Labels[strings.Repeat("x", 64)] = "x" }},
	{RuleLabelReserved, "Labels", func(j *Job) { j.Labels["goog-x"] = "x" }},
	{RuleLabelReserved, "Labels", func(j *Job) { j.Labels["google-x"] = "x" }},
	{RuleLabelValue, "Labels", func(j *Job) { j.Labels["x"] = "Upper" }},
	{RuleLabelValue, "Labels", func(j *Job) { j.Labels["x"] = strings.Repeat("x", 64) }},
	{RuleTasks, "Tasks", func(j *Job) { j.Tasks = 0 }},
	{RuleTasks, "Tasks", func(j *Job) { j.Tasks = 100_001 }},
	{RuleParallelism, "Parallelism", func(j *Job) { j.Parallelism = 0 }},
	{RuleParallelism, "Parallelism", func(j *Job) { j.Parallelism = 5_001 }},
	{RuleTasksPerVM, "TasksPerVM", func(j *Job) { j.TasksPerVM = 21 }},
	{RuleTasksPerVM, "TasksPerVM", func(j *Job) { j.TasksPerVM = 0 }},
	{RulePerVMAtOnce, "TasksPerVM", func(j *Job) { j.Parallelism = 8 }},
	{RuleMachineCount, "Parallelism", func(j *Job) { j.Tasks, j.Parallelism, j.TasksPerVM = 4_001, 4_001, 1 }},
	{RuleMachineCount, "Parallelism", func(j *Job) {
		j.Tasks, j.Parallelism, j.TasksPerVM, j.Zones = 2_001, 2_001, 1, []string{"us-central1-a"}
	}},
	{RuleRetries, "MaxRetries", func(j *Job) { j.MaxRetries = 11 }},
	{RuleRetries, "MaxRetries", func(j *Job) { j.MaxRetries = -1 }},
	{RuleRetryCode, "RetryExitCodes", func(j *Job) { j.RetryExitCodes = []int32{75, 0} }},
	{RuleRunDuration, "MaxRunDuration", func(j *Job) { j.MaxRunDuration = 14*24*time.Hour + 1 }},
	{RuleRunDuration, "MaxRunDuration", func(j *Job) { j.MaxRunDuration = -1 }},
	{RuleCPU, "CPUMilli", func(j *Job) { j.CPUMilli = 0 }},
	{RuleMemory, "MemoryMiB", func(j *Job) { j.MemoryMiB = -1 }},
	{RuleMachineType, "MachineType", func(j *Job) { j.MachineType = "big" }},
	{RuleSeries, "MachineType", func(j *Job) { j.MachineType = "z3-highmem-88" }},
	{RuleSeries, "MachineType", func(j *Job) { j.MachineType = "t2a-standard-8" }},
	{RuleLocalSSDs, "LocalSSDs", func(j *Job) { j.LocalSSDs = -1 }},
	{RuleLocalSSDs, "LocalSSDs", func(j *Job) { j.LocalSSDs = 4 }}, // an n2-highmem-64 takes 8, 16 or 24
	{RuleLocalSSDs, "LocalSSDs", func(j *Job) { j.MachineType = "c4-highmem-48" }},
	{RuleLocalSSDs, "LocalSSDs", func(j *Job) { j.MachineType, j.LocalSSDs = "c4-highmem-48-lssd", 0 }},
	{RuleLocalSSDs, "LocalSSDs", func(j *Job) { j.MachineType, j.LocalSSDs = "n1-standard-8", 49 }},
	{RuleMountPath, "MountPath", func(j *Job) { j.MountPath = "" }},
	{RuleMountPath, "MountPath", func(j *Job) { j.LocalSSDs = 0 }}, // tasks would fill the boot disk
	{RuleMountPath, "MountPath", func(j *Job) { j.MountPath = "/mnt/../etc" }},
	{RuleMountPath, "MountPath", func(j *Job) { j.MountPath = "mnt" }},
	{RuleRegion, "Location", func(j *Job) { j.Location = "us-central1-a" }},
	{RuleServiceAccount, "ServiceAccount", func(j *Job) { j.ServiceAccount = "task" }},
	{RuleNetwork, "Network", func(j *Job) { j.Network = "coppice" }},
	{RuleSubnetwork, "Subnetwork", func(j *Job) { j.Subnetwork = "coppice" }},
	{RuleSubnetwork, "Subnetwork", func(j *Job) { j.Subnetwork = "regions/europe-west1/subnetworks/coppice" }},
	{RuleZones, "Zones", func(j *Job) { j.Zones = []string{"us-central1-a", "europe-west1-b"} }},
	{RuleZones, "Zones", func(j *Job) { j.Zones = []string{"us-central1"} }},
	{RuleJobSize, "Job", func(j *Job) { j.Env["LONG"] = strings.Repeat("x", 1<<20) }},
}

// misshapen are messages that no builder of ours makes.
var misshapen = map[Rule]func(*batchpb.Job){
	RuleOneGroup: func(j *batchpb.Job) { j.TaskGroups = append(j.TaskGroups, j.TaskGroups[0]) },
	RuleOnePolicy: func(j *batchpb.Job) {
		s := j.TaskGroups[0].TaskSpec
		s.LifecyclePolicies = append(s.LifecyclePolicies, s.LifecyclePolicies[0])
	},
	RuleOneLocalSSD: func(j *batchpb.Job) {
		p := j.AllocationPolicy.Instances[0].GetPolicy()
		p.Disks = append(p.Disks, p.Disks[0])
	},
	RuleOpenSSD: func(j *batchpb.Job) {
		s := j.TaskGroups[0].TaskSpec
		s.Runnables = s.Runnables[1:]
	},
	RuleEnvironments: func(j *batchpb.Job) { j.TaskGroups[0].TaskEnvironments = make([]*batchpb.Environment, 201) },
}

func TestRules(t *testing.T) {
	shown := map[Rule]bool{}
	for i, c := range broken {
		j := spotJob()
		c.change(&j)
		_, err := Build(j)
		var rule *RuleError
		if !errors.As(err, &rule) || rule.Field != c.field || rule.Rule != c.rule ||
			!strings.Contains(err.Error(), string(c.rule)) {
			t.Errorf("got %d %s: %v; want err of the type of rule, rule.Field = c.field, rule.Rule = c.rule, "+
				"err.Error() with string(c.rule)", i, c.rule, err)
		}
		shown[c.rule] = true
	}
	for name, change := range misshapen {
		job, err := Build(spotJob())
		if err != nil {
			t.Fatal(err)
		}
		change(job)
		var rule *RuleError
		if err := checkMessage(job); !errors.As(err, &rule) || rule.Rule != name {
			t.Errorf("checkMessage(job): got %s: %v; want err of the type of rule, rule.Rule = name", name, err)
		}
		shown[name] = true
	}
	for _, rule := range declared(t) {
		if !shown[rule] {
			t.Errorf("no job here breaks the rule %s", rule)
		}
	}
}

// declared are all rules that rules.go names.
func declared(t *testing.T) []Rule {
	t.Helper()
	text, err := os.ReadFile("rules.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []Rule
	for _, m := range regexp.MustCompile(`(?m)^\tRule\w+ +Rule = "([a-z-]+)"`).FindAllStringSubmatch(string(text), -1) {
		all = append(all, Rule(m[1]))
	}
	if len(all) < 30 {
		t.Fatalf("only %d rules found", len(all))
	}
	return all
}

// TestAtTheLimit shows that each limit itself is allowed.
func TestAtTheLimit(t *testing.T) {
	for i, change := range []func(*Job){
		func(j *Job) { j.ID = strings.Repeat("a", 63) },
		func(j *Job) { j.Tasks = 100_000 },
		func(j *Job) { j.Tasks, j.Parallelism = 5_000, 5_000 },
		func(j *Job) { j.TasksPerVM = 20 },
		func(j *Job) { j.Tasks, j.Parallelism, j.TasksPerVM = 4_000, 4_000, 1 },
		func(j *Job) {
			j.Tasks, j.Parallelism, j.TasksPerVM, j.Zones = 2_000, 2_000, 1, []string{"us-central1-a"}
		},
		func(j *Job) { j.MaxRunDuration = 14 * 24 * time.Hour },
		func(j *Job) { j.LocalSSDs = 24 },
		func(j *Job) { j.LocalSSDs, j.MountPath = 0, "" },
		func(j *Job) { j.Labels["x"] = strings.Repeat("x", 63) },
		func(j *Job) { j.Network = "https://www.googleapis.com/compute/v1/projects/p/global/networks/n" },
		func(j *Job) { j.Subnetwork = "regions/us-central1/subnetworks/coppice" },
	} {
		j := spotJob()
		change(&j)
		if _, err := Build(j); err != nil {
			t.Errorf("Build(j): got %d: %v; want no error", i, err)
		}
	}
}

func TestLocalSSDCounts(t *testing.T) {
	for machine, want := range map[string]string{
		"n2-highmem-2": "1, 2, 4, 8, 16, 24", "n2-standard-10": "1, 2, 4, 8, 16, 24",
		"n2-highmem-16": "2, 4, 8, 16, 24", "n2-highmem-20": "2, 4, 8, 16, 24",
		"n2-highmem-32": "4, 8, 16, 24", "n2-highmem-64": "8, 16, 24", "n2-highmem-80": "8, 16, 24",
		"n2-highmem-96": "16, 24", "n2-highmem-128": "16, 24",
		"n2d-highmem-16": "1, 2, 4, 8, 16, 24", "n2d-highmem-48": "2, 4, 8, 16, 24", "n2d-highmem-64": "4, 8, 16, 24",
		"n2d-standard-224": "8, 16, 24",
		"m1-ultramem-40":   "1, 2, 3, 4, 5", "m1-ultramem-160": "none", "m1-megamem-96": "none",
		"m3-ultramem-32": "4, 8",
		"m3-megamem-128": "8", "m2-ultramem-208": "none",
		"e2-standard-4": "none", "n4-highmem-8": "none", "c4-highmem-96": "none", "c4-highmem-96-lssd": "16",
		"c4d-highmem-64-lssd": "6", "c3-standard-44-lssd": "8", "c3d-highmem-360-lssd": "32",
	} {
		counts, known := LocalSSDCounts(machine)
		if got := countsText(counts); !known || got != want {
			t.Errorf("%s: %s %t, want %s", machine, got, known, want)
		}
	}
	for _, machine := range []string{"n1-standard-8", "c3-highmem-8-lssd", "custom", "", "n2-custom-4-2048"} {
		if counts, known := LocalSSDCounts(machine); known {
			t.Errorf("%s: %v is known", machine, counts)
		}
	}
}
