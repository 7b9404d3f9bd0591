package batch

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// spotJob is a job as the launcher makes it.
func spotJob() Job {
	return Job{
		ID:             "nightly-ctr-20261120",
		Labels:         map[string]string{PlanLabel: strings.Repeat("0123456789abcdef", 2), "coppice-sweep": "nightly-ctr-20261120"},
		Location:       "us-central1",
		Image:          "us-central1-docker.pkg.dev/p/coppice/task:v1",
		Args:           []string{"run"},
		Env:            map[string]string{"COPPICE_SWEEP": "nightly-ctr-20261120", "COPPICE_SCRATCH": "/mnt/disks/ssd/coppice"},
		Tasks:          32,
		Parallelism:    32,
		TasksPerVM:     16,
		MachineType:    "n2-highmem-64",
		Spot:           true,
		LocalSSDs:      4,
		MountPath:      "/mnt/disks/ssd",
		CPUMilli:       4000,
		MemoryMiB:      20_000,
		MaxRetries:     10,
		RetryExitCodes: []int32{75, 50001, 50002, 50003, 50004, 50006},
		MaxRunDuration: 6 * time.Hour,
	}
}

// standardJob uses what spotJob leaves out.
func standardJob() Job {
	j := spotJob()
	j.Spot, j.LocalSSDs, j.MountPath, j.MaxRunDuration, j.RetryExitCodes, j.MaxRetries = false, 0, "", 0, nil, 3
	j.Zones = []string{"us-central1-a", "us-central1-f"}
	j.ServiceAccount = "task@p.iam.gserviceaccount.com"
	j.Network = "projects/p/global/networks/coppice"
	j.Subnetwork = "projects/p/regions/us-central1/subnetworks/coppice"
	j.NoExternalIP = true
	j.BootDiskGB = 50
	return j
}

func TestGolden(t *testing.T) {
	for name, job := range map[string]Job{"spot": spotJob(), "standard": standardJob()} {
		got, err := job.JSON()
		if err != nil {
			t.Fatal(err)
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
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from %s; after a wanted change run: go test ./cloud/batch -update\n%s", name, path, got)
		}
	}
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Job)
	}{
		{"ID", func(j *Job) { j.ID = "" }},
		{"ID", func(j *Job) { j.ID = "Nightly" }},
		{"ID", func(j *Job) { j.ID = "nightly-" }},
		{"ID", func(j *Job) { j.ID = strings.Repeat("a", 64) }},
		{"Labels", func(j *Job) { delete(j.Labels, PlanLabel) }},
		{"Labels", func(j *Job) { j.Labels["goog-x"] = "x" }},
		{"Labels", func(j *Job) { j.Labels["x"] = "Upper" }},
		{"Labels", func(j *Job) { j.Labels["9x"] = "x" }},
		{"Image", func(j *Job) { j.Image = "" }},
		{"Env", func(j *Job) { j.Env["A-B"] = "x" }},
		{"Env", func(j *Job) { j.Env["BATCH_TASK_INDEX"] = "0" }},
		{"Env", func(j *Job) { j.Env["A"] = "a\x00b" }},
		{"Tasks", func(j *Job) { j.Tasks = 0 }},
		{"Tasks", func(j *Job) { j.Tasks = 100_001 }},
		{"Parallelism", func(j *Job) { j.Parallelism = 0 }},
		{"TasksPerVM", func(j *Job) { j.TasksPerVM = 21 }},
		{"TasksPerVM", func(j *Job) { j.TasksPerVM = 0 }},
		{"TasksPerVM", func(j *Job) { j.Parallelism = 8 }},
		{"MaxRetries", func(j *Job) { j.MaxRetries = 11 }},
		{"MaxRunDuration", func(j *Job) { j.MaxRunDuration = 15 * 24 * time.Hour }},
		{"CPUMilli", func(j *Job) { j.CPUMilli = 0 }},
		{"MemoryMiB", func(j *Job) { j.MemoryMiB = -1 }},
		{"RetryExitCodes", func(j *Job) { j.RetryExitCodes = []int32{0} }},
		{"MachineType", func(j *Job) { j.MachineType = "big" }},
		{"Location", func(j *Job) { j.Location = "us-central1-a" }},
		{"LocalSSDs", func(j *Job) { j.LocalSSDs = 49 }},
		{"MountPath", func(j *Job) { j.MountPath = "" }},
		{"MountPath", func(j *Job) { j.MountPath = "/mnt/../etc" }},
		{"MountPath", func(j *Job) { j.MountPath = "mnt" }},
		{"Zones", func(j *Job) { j.Zones = []string{"europe-west1-b"} }},
		{"ServiceAccount", func(j *Job) { j.ServiceAccount = "task" }},
		{"Job", func(j *Job) { j.Env["LONG"] = strings.Repeat("x", 1<<20) }},
	} {
		j := spotJob()
		c.change(&j)
		_, err := Build(j)
		var broken *RuleError
		if !errors.As(err, &broken) || broken.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}
