package batch

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"github.com/google/go-cmp/cmp"

	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
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

// TestGolden: the requests of four kinds of jobs have the bytes of their golden files, each time they are made. After a
// wanted change, run go test ./internal/cloud/batch -run Golden -update
func TestGolden(t *testing.T) {
	jobs := map[string]Job{"minimal": minimalJob(), "spot": spotJob(), "custom": customJob(), "staging": stagingJob()}
	for name, job := range jobs {
		got, err := job.JSON()
		if err != nil {
			t.Fatalf("job %s as JSON: error %v", name, err)
		}
		again, err := job.JSON()
		if err != nil || !bytes.Equal(got, again) {
			t.Errorf("%s: two calls differ, %v", name, err)
		}
		path := filepath.Join("testdata", "jobs", name+".json")
		if *update {
			must.Do(t, os.WriteFile(path, got, 0o644))
		}
		want := must.Get(os.ReadFile(path))(t)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from %s (-want +got):\n%s", name, path, diff)
		}
	}
	files, err := os.ReadDir(filepath.Join("testdata", "jobs"))
	if err != nil || len(files) != len(jobs) {
		t.Errorf("%d golden files for %d jobs, %v; want one for each", len(files), len(jobs), err)
	}
}

// breaking are jobs that break one rule each.
var breaking = []struct {
	rule   string
	field  string
	change func(*Job)
}{
	{"job-id", "ID", func(j *Job) { j.ID = "" }},
	{"job-id", "ID", func(j *Job) { j.ID = "Nightly" }},
	{"job-id", "ID", func(j *Job) { j.ID = "nightly-" }},
	{"job-id", "ID", func(j *Job) { j.ID = "1nightly" }},
	{"job-id", "ID", func(j *Job) { j.ID = strings.Repeat("a", 64) }},
	{"image", "Image", func(j *Job) { j.Image = "" }},
	{"image", "Image", func(j *Job) { j.Image = "a b" }},
	{"variable", "Env", func(j *Job) { j.Env["A-B"] = "x" }},
	{"variable", "Env", func(j *Job) { j.Env["BATCH_TASK_INDEX"] = "0" }},
	{"variable", "Env", func(j *Job) { j.Env["A"] = "a\x00b" }},
	{"notification", "Notify", func(j *Job) { j.Notify = []string{"coppice-jobs"} }},
	{"notification", "Notify", func(j *Job) { j.Notify = []string{"projects/p/topics/jobs", ""} }},
	{"label-count", "Labels", func(j *Job) {
		for i := range 63 {
			j.Labels[fmt.Sprintf("label-%d", i)] = "x"
		}
	}},
	{"plan-label", "Labels", func(j *Job) { delete(j.Labels, PlanLabel) }},
	{"label-key", "Labels", func(j *Job) { j.Labels["9x"] = "x" }},
	{"label-key", "Labels", func(j *Job) { j.Labels[strings.Repeat("x", 64)] = "x" }},
	{"label-reserved", "Labels", func(j *Job) { j.Labels["goog-x"] = "x" }},
	{"label-reserved", "Labels", func(j *Job) { j.Labels["google-x"] = "x" }},
	{"label-value", "Labels", func(j *Job) { j.Labels["x"] = "Upper" }},
	{"label-value", "Labels", func(j *Job) { j.Labels["x"] = strings.Repeat("x", 64) }},
	{"task-count", "Tasks", func(j *Job) { j.Tasks = 0 }},
	{"task-count", "Tasks", func(j *Job) { j.Tasks = 100_001 }},
	{"parallelism", "Parallelism", func(j *Job) { j.Parallelism = 0 }},
	{"parallelism", "Parallelism", func(j *Job) { j.Parallelism = 5_001 }},
	{"tasks-per-vm", "TasksPerVM", func(j *Job) { j.TasksPerVM = 21 }},
	{"tasks-per-vm", "TasksPerVM", func(j *Job) { j.TasksPerVM = 0 }},
	{"per-vm-at-once", "TasksPerVM", func(j *Job) { j.Parallelism = 8 }},
	{"machine-count", "Parallelism", func(j *Job) { j.Tasks, j.Parallelism, j.TasksPerVM = 4_001, 4_001, 1 }},
	{"machine-count", "Parallelism", func(j *Job) {
		j.Tasks, j.Parallelism, j.TasksPerVM, j.Zones = 2_001, 2_001, 1, []string{"us-central1-a"}
	}},
	{"retries", "MaxRetries", func(j *Job) { j.MaxRetries = 11 }},
	{"retries", "MaxRetries", func(j *Job) { j.MaxRetries = -1 }},
	{"retry-code", "RetryExitCodes", func(j *Job) { j.RetryExitCodes = []int32{75, 0} }},
	{"run-duration", "MaxRunDuration", func(j *Job) { j.MaxRunDuration = 14*24*time.Hour + 1 }},
	{"run-duration", "MaxRunDuration", func(j *Job) { j.MaxRunDuration = -1 }},
	{"cpu", "CPUMilli", func(j *Job) { j.CPUMilli = 0 }},
	{"memory", "MemoryMiB", func(j *Job) { j.MemoryMiB = -1 }},
	{"machine-type", "MachineType", func(j *Job) { j.MachineType = "big" }},
	{"machine-series", "MachineType", func(j *Job) { j.MachineType = "z3-highmem-88" }},
	{"machine-series", "MachineType", func(j *Job) { j.MachineType = "t2a-standard-8" }},
	{"machine-series", "MachineType", func(j *Job) { j.MachineType = "custom-16-65536" }}, // a cluster's
	{"local-ssd-count", "LocalSSDs", func(j *Job) { j.LocalSSDs = -1 }},
	{"local-ssd-count", "LocalSSDs", func(j *Job) { j.LocalSSDs = 4 }}, // an n2-highmem-64 takes 8, 16 or 24
	{"local-ssd-count", "LocalSSDs", func(j *Job) { j.MachineType = "c4-highmem-48" }},
	{"local-ssd-count", "LocalSSDs", func(j *Job) { j.MachineType, j.LocalSSDs = "c4-highmem-48-lssd", 0 }},
	{"local-ssd-count", "LocalSSDs", func(j *Job) { j.MachineType, j.LocalSSDs = "n1-standard-8", 49 }},
	{"mount-path", "MountPath", func(j *Job) { j.MountPath = "" }},
	{"mount-path", "MountPath", func(j *Job) { j.LocalSSDs = 0 }}, // tasks would fill the boot disk
	{"mount-path", "MountPath", func(j *Job) { j.MountPath = "/mnt/../etc" }},
	{"mount-path", "MountPath", func(j *Job) { j.MountPath = "mnt" }},
	{"region", "Location", func(j *Job) { j.Location = "us-central1-a" }},
	{"service-account", "ServiceAccount", func(j *Job) { j.ServiceAccount = "task" }},
	{"network", "Network", func(j *Job) { j.Network = "coppice" }},
	{"subnetwork", "Subnetwork", func(j *Job) { j.Subnetwork = "coppice" }},
	{"subnetwork", "Subnetwork", func(j *Job) { j.Subnetwork = "regions/europe-west1/subnetworks/coppice" }},
	{"zones-of-region", "Zones", func(j *Job) { j.Zones = []string{"us-central1-a", "europe-west1-b"} }},
	{"zones-of-region", "Zones", func(j *Job) { j.Zones = []string{"us-central1"} }},
	{"job-size", "Job", func(j *Job) { j.Env["LONG"] = strings.Repeat("x", 1<<20) }},
}

// TestRules: a job that breaks a rule is wrong input, and the error names the field and the rule. Every rule in
// rules.go is broken by some job here.
func TestRules(t *testing.T) {
	shown := map[string]bool{}
	for i, c := range breaking {
		j := spotJob()
		c.change(&j)
		_, err := Build(j)
		if !problem.Is(err, problem.Input) || !strings.HasPrefix(err.Error(), "batch job: "+c.field+": ") ||
			!strings.HasSuffix(err.Error(), "(rule "+c.rule+")") {
			t.Errorf("built job %d: error %v, expected wrong input about %s that breaks the rule %s", i, err, c.field,
				c.rule)
		}
		shown[c.rule] = true
	}
	job := must.Get(Build(spotJob()))(t)
	job.TaskGroups[0].TaskEnvironments = make([]*batchpb.Environment, 201)
	if err := checkMessage(job); err == nil || !strings.HasSuffix(err.Error(), "(rule task-environment)") {
		t.Errorf("201 environments of single tasks: error %v, expected one that names the rule", err)
	}
	shown["task-environment"] = true

	for _, rule := range declared(t) {
		if !shown[rule] {
			t.Errorf("no job here breaks the rule %s, want one in breaking", rule)
		}
	}
}

// declared returns the names of all rules, which it finds in the source of rules.go.
func declared(t *testing.T) []string {
	t.Helper()
	text := must.Get(os.ReadFile("rules.go"))(t)
	var all []string
	pattern := regexp.MustCompile(`(?:\{|between\(|broken\(|rule\{)"([a-z]+(?:-[a-z]+)*)", "[A-Z]`)
	for _, m := range pattern.FindAllStringSubmatch(string(text), -1) {
		all = append(all, m[1])
	}
	if len(all) < 30 {
		t.Fatalf("found %d rules in rules.go, want at least 30: the pattern no longer fits", len(all))
	}
	return all
}

// TestAtTheLimit: a job that is exactly at a limit of Batch, or has a thing in its other allowed form, breaks no rule.
func TestAtTheLimit(t *testing.T) {
	for what, change := range map[string]func(*Job){
		"the longest ID":         func(j *Job) { j.ID = strings.Repeat("a", 63) },
		"the most tasks":         func(j *Job) { j.Tasks = 100_000 },
		"the most tasks at once": func(j *Job) { j.Tasks, j.Parallelism = 5_000, 5_000 },
		"the most tasks on a VM": func(j *Job) { j.TasksPerVM = 20 },
		"the most VMs":           func(j *Job) { j.Tasks, j.Parallelism, j.TasksPerVM = 4_000, 4_000, 1 },
		"the most VMs in a zone": func(j *Job) {
			j.Tasks, j.Parallelism, j.TasksPerVM, j.Zones = 2_000, 2_000, 1, []string{"us-central1-a"}
		},
		"the longest run":         func(j *Job) { j.MaxRunDuration = 14 * 24 * time.Hour },
		"the most local SSDs":     func(j *Job) { j.LocalSSDs = 24 },
		"neither SSD nor mount":   func(j *Job) { j.LocalSSDs, j.MountPath = 0, "" },
		"the longest label value": func(j *Job) { j.Labels["x"] = strings.Repeat("x", 63) },
		"a network as a URL": func(j *Job) {
			j.Network = "https://www.googleapis.com/compute/v1/projects/p/global/networks/n"
		},
		"a subnetwork of the job's region": func(j *Job) { j.Subnetwork = "regions/us-central1/subnetworks/coppice" },
	} {
		j := spotJob()
		change(&j)
		if _, err := Build(j); err != nil {
			t.Errorf("built a job with %s: error %v, want none", what, err)
		}
	}
}

// TestLocalSSDCounts: numbers of local SSDs are those that Compute Engine documents for the type; of an unknown type
// nothing is said.
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
			t.Errorf("%s: may have %s disks, known %t; want %s, known", machine, got, known, want)
		}
	}
	for _, machine := range []string{"n1-standard-8", "c3-highmem-8-lssd", "custom", "", "n2-custom-4-2048"} {
		if counts, known := LocalSSDCounts(machine); known {
			t.Errorf("%s: %v is known, want it left to Batch", machine, counts)
		}
	}
}

// TestAMachineThatGoesCostsAnAttempt: Batch is told to repeat a task whose machine was preempted (50001), or that ended
// with an exit code of the job's own list (75), but not one that took too long (50005) or failed (1).
func TestAMachineThatGoesCostsAnAttempt(t *testing.T) {
	j := (&Jobs{}).Describe(engine.Array{Repeat: []int32{75}}) // without variables of its own, too
	for code, want := range map[int32]bool{exitPreempted: true, 75: true, 50005: false,
		1: false} {
		if got := slices.Contains(j.RetryExitCodes, code); got != want {
			t.Errorf("exit code %d is tried again: %t, want %t", code, got, want)
		}
	}
}

// TestWordsOfStates: toJobStatus gives each state of Batch its phase, and adds up the tasks by state: assigned ones
// run, and those that were not executed have failed. A job that is not there is gone, and any other error is passed on.
func TestWordsOfStates(t *testing.T) {
	for state, want := range map[State]engine.Phase{Queued: engine.Waiting, Scheduled: engine.Waiting,
		Running: engine.Running, Succeeded: engine.Done, Failed: engine.Failed, Deleting: engine.Stopping,
		Cancelling: engine.Stopping, Cancelled: engine.Cancelled} {
		s, err := toJobStatus(Status{State: state, Counts: map[string]int64{"PENDING": 3, "ASSIGNED": 1, "RUNNING": 2,
			"SUCCEEDED": 4, "FAILED": 5, "UNEXECUTED": 6}}, nil)
		if err != nil || s.State != want || s.State.Ended() != state.Finished() ||
			s.Tasks != (engine.Tasks{Waiting: 3, Running: 3, Done: 4, Failed: 11}) {
			t.Errorf("%s: told %+v, %v, want %s", state, s, err, want)
		}
	}
	if s, err := toJobStatus(Status{}, ErrNotExist); err != nil || s.State != engine.Gone || !s.State.Ended() {
		t.Errorf("a job that is not there: %+v, %v, want gone", s, err)
	}
	if _, err := toJobStatus(Status{}, errDenied); !errors.Is(err, errDenied) {
		t.Errorf("Batch cannot be asked: got error %v, want %v", err, errDenied)
	}
}

// TestTasksWithoutMachines: tasks of a cancelled job that were not executed count as waiting if the job lacked
// machines, and as failed if it did not.
func TestTasksWithoutMachines(t *testing.T) {
	lacks := []Event{{Text: "CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED", Time: time.Unix(7, 0)}}
	for want, s := range map[engine.Tasks]Status{
		{Failed: 4}: {State: Cancelled, Counts: map[string]int64{"UNEXECUTED": 4}},
		{Waiting: 3, Done: 1}: {State: Cancelled, Counts: map[string]int64{"UNEXECUTED": 3, "SUCCEEDED": 1},
			Events: lacks},
	} {
		got, err := toJobStatus(s, nil)
		if err != nil || got.Tasks != want || len(s.Events) > 0 && got.Lacked != lacks[0].Time {
			t.Errorf("of the job %+v: told %+v, %v, want %+v", s, got, err, want)
		}
	}
}

var errDenied = errors.New("denied")
