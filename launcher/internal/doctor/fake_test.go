package doctor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/terraform"
)

// fake is a project in which everything is as it should be, until a test changes it.
type fake struct {
	caller  string
	enabled []string
	missing map[string]bool // resources that do not exist
	denied  [2]string       // a resource, and the permission that the caller lacks on it
	topics  []string
	images  []string
	region  cloud.Region
	offered map[string][]string // machine types by zone
	errs    map[string]error    // by method
}

const (
	project  = "p1"
	registry = "us-central1-docker.pkg.dev/p1/coppice/"
	owner    = "ana@example.com"
)

func account(identity string) string { return "coppice-" + identity + "@p1.iam.gserviceaccount.com" }

func newFake(t *testing.T) *fake {
	t.Helper()
	return &fake{
		caller: owner, enabled: slices.Clone(services), missing: map[string]bool{}, errs: map[string]error{},
		topics: []string{"projects/p1/topics/coppice-scores", "projects/p1/topics/coppice-jobs",
			"projects/p1/topics/coppice-verdicts"},
		images: []string{"coppice-task:v1", "coppice-launcher:v1"},
		region: cloud.Region{Zones: []string{"us-central1-a", "us-central1-b"}, Quotas: map[string]cloud.Quota{
			"N2_CPUS": {Limit: 100}, "PREEMPTIBLE_CPUS": {Limit: 100}, "LOCAL_SSD_TOTAL_GB": {Limit: 3000},
			"PREEMPTIBLE_LOCAL_SSD_GB": {Limit: 3000}, "INSTANCES": {Limit: 10},
			"SSD_TOTAL_GB": {Limit: 250}, "IN_USE_ADDRESSES": {Limit: 4}, "CPUS_ALL_REGIONS": {Limit: 100}}},
		offered: map[string][]string{"us-central1-a": {"n2-highmem-2", "c4d-highmem-8-lssd"},
			"us-central1-b": {"n2-highmem-2"}},
	}
}

func newDoctor(t *testing.T, f *fake) *Doctor {
	t.Helper()
	table := must.Get(terraform.Load())(t)
	return &Doctor{
		Deployment: environment.Deployment{Project: project, Location: "us-central1", DatasetsBucket: "d",
			SweepsBucket:   "s",
			RegistryBucket: "r", ScoresTopic: "coppice-scores",
			Verdicts: notify.VerdictsEnv{Topic: "coppice-verdicts"}},
		Batch: environment.BatchEnv{TaskImage: registry + "coppice-task:v1", LauncherImage: registry +
			"coppice-launcher:v1", ServiceAccount: account("task"), StageAccount: account("stager"),
			JobsTopic: "projects/p1/topics/coppice-jobs"},
		Table: table, Cloud: f, Datasets: blob.Memory(), Jobs: jobs{},
		Now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
}

// jobs says what Batch says to every plan.
type jobs struct{ err error }

func (jobs) Name(id sweep.ID) string { return "projects/p1/locations/us-central1/jobs/" + string(id) }

func (j jobs) Request(*sweep.Plan) ([]byte, error) { return []byte("{}"), j.err }

func (f *fake) Caller(context.Context) (string, error) { return f.caller, f.errs["Caller"] }

func (f *fake) Enabled(context.Context, []string) ([]string, error) {
	return f.enabled, f.errs["Enabled"]
}

func (f *fake) Held(_ context.Context, r cloud.Resource, permissions []string) ([]string, error) {
	if f.missing[r.Name] {
		return nil, fmt.Errorf("held: %w", cloud.ErrNotThere)
	}
	return slices.DeleteFunc(slices.Clone(permissions), func(p string) bool {
		return f.denied == [2]string{r.String(), p}
	}), f.errs["Held"]
}

func (f *fake) Topic(_ context.Context, name string) error {
	if !slices.Contains(f.topics, name) {
		return cloud.ErrNotThere
	}
	return f.errs["Topic"]
}

func (f *fake) Image(_ context.Context, i cloud.Image) error {
	if !slices.Contains(f.images, i.Name+":"+i.Tag) {
		return cloud.ErrNotThere
	}
	return f.errs["Image"]
}

func (f *fake) Region(context.Context) (cloud.Region, error) { return f.region, f.errs["Region"] }

func (f *fake) Offered(_ context.Context, zone, machineType string) error {
	if !slices.Contains(f.offered[zone], machineType) {
		return cloud.ErrNotThere
	}
	return f.errs["Offered"]
}
