package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/cloud/batch"
	"coppice/launcher/internal/cli"
	"coppice/sweep"
)

func plan() *sweep.Plan {
	spot := true
	p := &sweep.Plan{Format: 1, Sweep: "nightly-20261120", Job: "projects/p/locations/us-central1/jobs/nightly-20261120", Sizing: sweep.Sizing{MachineType: "n2-highmem-64", VCPUs: 64, MemoryBytes: 512 << 30,
		ReserveBytes: 26 << 30, VMs: 2, TasksPerVM: 16, ThreadsPerTask: 4, Tasks: 32}}
	p.Spec.Model = "ctr"
	p.Spec.Machine = sweep.Machine{Type: "n2-highmem-64", Spot: &spot, LocalSSD: 8}
	p.Spec.Limits.Sweep = sweep.Duration(6 * time.Hour)
	return p
}

func env() cli.Env {
	e := cli.Env{}
	e.Project, e.Location, e.DatasetsBucket, e.SweepsBucket, e.ScoresTopic = "p", "us-central1", "d", "s", "scores"
	e.TaskImage, e.ServiceAccount, e.Subnetwork, e.Zones = "us-docker.pkg.dev/p/coppice/task:v1", "task@p.iam.gserviceaccount.com", "regions/us-central1/subnetworks/coppice", "us-central1-a,us-central1-b"
	return e
}

// TestThePlanMakesABatchJob checks what the plan and the environment become; package batch checks Google's own rules.
func TestThePlanMakesABatchJob(t *testing.T) {
	j := &jobs{env: env()}
	job, err := j.describe(plan())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := batch.Build(job); err != nil {
		t.Fatal(err)
	}
	if job.Tasks != 32 || job.Parallelism != 32 || job.TasksPerVM != 16 || job.CPUMilli != 4000 || job.LocalSSDs != 8 || !job.Spot || job.MaxRetries != 10 {
		t.Errorf("%+v", job)
	}
	if job.MemoryMiB*16 > 512<<10 || job.MaxRunDuration != 6*time.Hour || !job.NoExternalIP || len(job.Zones) != 2 {
		t.Errorf("%+v", job)
	}
	if job.Env["COPPICE_SWEEP"] != "nightly-20261120" || job.Env["COPPICE_SCRATCH"] != job.MountPath || slices.Contains(job.Args, "train") {
		t.Errorf("%+v", job.Env)
	}
	if job.Labels[batch.PlanLabel] != plan().Fingerprint()[:32] || !slices.Contains(job.RetryExitCodes, sweep.ExitTransient) {
		t.Errorf("%+v %v", job.Labels, job.RetryExitCodes)
	}
	standard := plan()
	*standard.Spec.Machine.Spot = false
	if job, err := j.describe(standard); err != nil || job.Spot || job.MaxRetries != 10 || job.MaxRetries <= sweep.MaxClaims {
		t.Errorf("%+v", job)
	}
	text, err := j.Request(plan())
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"SPOT"`) {
		t.Errorf("%s %v", text, err)
	}
}

func TestExitCodesOfBatch(t *testing.T) {
	for err, want := range map[error]int{&batch.RuleError{}: sweep.ExitInput, &batch.ConflictError{}: sweep.ExitConflict} {
		if code, ok := exitCode(err); !ok || code != want {
			t.Errorf("%T: %d %t", err, code, ok)
		}
	}
	if _, ok := exitCode(nil); ok {
		t.Error("no error has a code")
	}
}
