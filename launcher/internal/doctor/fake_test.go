package doctor

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/sweep"
	"coppice/terraform"
)

// fake is a project in which everything is as it should be, until a test changes it.
type fake struct {
	caller        string
	enabled       []string
	policies      map[cloud.Resource]cloud.Policy
	may           map[cloud.Resource][]string // permissions of the caller
	buckets       map[string]cloud.Bucket
	topics        []string
	subscriptions map[string]cloud.Subscription
	images        []string
	region        cloud.Region
	offered       map[string][]string // machine types by zone
	errs          map[string]error    // by method
}

const (
	project  = "p1"
	registry = "us-central1-docker.pkg.dev/p1/coppice/"
	owner    = "ana@example.com"
)

func account(identity string) string { return "coppice-" + identity + "@p1.iam.gserviceaccount.com" }

func deployment() Target {
	return Target{
		sweep.Deployment{Project: project, Location: "us-central1", DatasetsBucket: "d", SweepsBucket: "s",
			RegistryBucket: "r",
			ScoresTopic:    "coppice-scores", Subscription: "coppice-aggregator",
			OTLPEndpoint: "https://telemetry.googleapis.com",
			Verdicts:     sweep.VerdictsEnv{Topic: "coppice-verdicts"}},
		sweep.BatchEnv{TaskImage: registry + "coppice-task:v1", LauncherImage: registry + "coppice-launcher:v1",
			ServiceAccount: account("task"),
			StageAccount:   account("stager"), JobsTopic: "projects/p1/topics/coppice-jobs"},
	}
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{
		caller: owner, policies: map[cloud.Resource]cloud.Policy{}, may: map[cloud.Resource][]string{},
		errs: map[string]error{},
		buckets: map[string]cloud.Bucket{
			"d": {Location: "us-central1", Uniform: true, PublicPrevented: true, SoftDelete: time.Hour},
			"s": {Location: "us-central1", Uniform: true, PublicPrevented: true},
			"r": {Location: "us-central1", Uniform: true, PublicPrevented: true, Versioned: true,
				SoftDelete: time.Hour},
		},
		topics: []string{"projects/p1/topics/coppice-scores", "projects/p1/topics/coppice-scores-dead",
			"projects/p1/topics/coppice-jobs", "projects/p1/topics/coppice-verdicts"},
		subscriptions: map[string]cloud.Subscription{"projects/p1/subscriptions/coppice-aggregator": {
			Topic: "projects/p1/topics/coppice-scores", DeadLetterTopic: "projects/p1/topics/coppice-scores-dead",
			MaxAttempts: 20}},
		images: []string{"coppice-task:v1", "coppice-launcher:v1"},
		region: cloud.Region{Zones: []string{"us-central1-a", "us-central1-b"}, Quotas: map[string]cloud.Quota{
			"N2_CPUS": {Limit: 100}, "PREEMPTIBLE_CPUS": {Limit: 100}, "LOCAL_SSD_TOTAL_GB": {Limit: 3000},
			"PREEMPTIBLE_LOCAL_SSD_GB": {Limit: 3000}, "INSTANCES": {Limit: 10}}},
		offered: map[string][]string{"us-central1-a": {"n2-highmem-2", "c4d-highmem-8-lssd"},
			"us-central1-b": {"n2-highmem-2"}},
	}
	for _, s := range services {
		f.enabled = append(f.enabled, s.name)
	}
	d := newDoctor(t, f)
	d.name, d.number, d.sources = "coppice", "12", []string{"exports"}
	for _, b := range d.Table.Bindings { // everything that the doctor looks at is given
		member, _ := d.memberOf(b.Identity)
		resources, _ := d.resourcesOf(b.Resource)
		for _, r := range resources {
			if f.policies[r] == nil {
				f.policies[r] = cloud.Policy{}
			}
			f.policies[r][b.Role] = append(f.policies[r][b.Role], member)
		}
	}
	f.may[cloud.Resource{Kind: "account", Name: account("launcher")}] = []string{"iam.serviceAccounts.getAccessToken"}
	return f
}

func newDoctor(t *testing.T, f *fake) *Doctor {
	t.Helper()
	table, err := terraform.Load()
	if err != nil {
		t.Fatal(err)
	}
	return &Doctor{Deployment: deployment(), Table: table, Cloud: f, Datasets: blob.Memory(), Jobs: &jobs{disks: 1},
		Now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
}

// jobs says what Batch says to every plan.
type jobs struct {
	disks int
	err   error
}

func (j *jobs) Name(id sweep.ID) string {
	return "projects/p1/locations/us-central1/jobs/" + string(id)
}
func (j *jobs) Request(*sweep.Plan) ([]byte, error)    { return []byte("{}"), j.err }
func (j *jobs) LocalSSDs(*sweep.Plan) (int, error)     { return j.disks, nil }
func (f *fake) Caller(context.Context) (string, error) { return f.caller, f.errs["Caller"] }
func (f *fake) Number(context.Context) (string, error) { return "12", f.errs["Number"] }
func (f *fake) Enabled(context.Context) ([]string, error) {
	return f.enabled, f.errs["Enabled"]
}

func (f *fake) Held(_ context.Context, r cloud.Resource, permissions []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(permissions), func(p string) bool { return !slices.Contains(f.may[r], p) }),
		f.errs["Held"]
}

func (f *fake) Policy(_ context.Context, r cloud.Resource) (cloud.Policy, error) {
	return f.policies[r], f.errs["Policy"]
}

func (f *fake) Bucket(_ context.Context, name string) (cloud.Bucket, error) {
	b, ok := f.buckets[name]
	if !ok {
		return b, fmt.Errorf("bucket: %w", cloud.ErrNotThere)
	}
	return b, f.errs["Bucket"]
}

func (f *fake) Topic(_ context.Context, name string) error {
	if !slices.Contains(f.topics, name) {
		return cloud.ErrNotThere
	}
	return f.errs["Topic"]
}

func (f *fake) Subscription(_ context.Context, name string) (cloud.Subscription, error) {
	s, ok := f.subscriptions[name]
	if !ok {
		return s, cloud.ErrNotThere
	}
	return s, f.errs["Subscription"]
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
