package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/cloud"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/terraform"
)

// examineSweep runs the doctor on a sweep, which may be nil, and checks that every finding is complete: a problem or
// warning has a fix, unless it is about the sweep itself or the credentials.
func examineSweep(t *testing.T, d *Doctor, s *sweep.Spec) *Report {
	t.Helper()
	r := must.Get(d.Examine(t.Context(), "sweep.yaml", s))(t)
	for _, f := range r.Findings {
		if f.What == "" || f.Where == "" || f.Check == "" {
			t.Errorf("got the finding %+v; want a check, what and where", f)
		}
		if bad := f.Verdict == Problem || f.Verdict == Warning; bad && f.Fix == "" && f.Check != "sweep" &&
			f.Check != "credentials" {
			t.Errorf("got %+v without a fix, want one", f)
		}
	}
	return r
}

// spec parses a sweep of one trial on the dataset.
func spec(t *testing.T, ref, machine string) *sweep.Spec {
	t.Helper()
	fine := func(string) error { return nil }
	s := must.Get(sweep.ParseSpec("sweep.yaml", []byte("name: night\ndataset: "+ref+
		"\nmodel: ctr\nmetric: auc\ntrials: 1\nsearch: {random: {num_leaves: {log_int: [4, 40]}}}\nmachine: "+
		machine+"\n"), sweep.Vocabulary{Metric: fine, ParamName: gbt.CanonicalName, Param: gbt.CheckParam,
		Constraint: func(c string) (string, error) { return c, nil }, Require: fine,
		Objective: func(o, _ string) (string, error) { return o, nil }, Machine: fine,
		LocalSSD: func(string, int) error { return nil }}))(t)
	return s
}

const machineKeys = "{type: n2-highmem-2, vms: 2, threads_per_task: 1}"

// staged returns a bucket with a dataset, and the dataset's NAME@VERSION.
func staged(t *testing.T) (blob.Store, string) {
	t.Helper()
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 1200})
	store := blob.Memory()
	datasettest.Upload(t, store, dir, m)
	return store, m.Name + "@" + m.Version
}

// TestHealthy: of a deployment that lacks nothing the doctor finds nothing wrong; only Batch's own limits cannot be
// read.
func TestHealthy(t *testing.T) {
	d := newDoctor(t, newFake(t))
	store, ref := staged(t)
	d.Datasets = store
	r := examineSweep(t, d, spec(t, ref, machineKeys))
	if r.Counts[Problem] != 0 || r.Counts[Warning] != 0 || r.Counts[OK] < 20 || r.Caller != owner {
		t.Errorf("a healthy deployment: counted %+v for %s; want no problem, no warning, at least 20 checks, and "+
			"the owner as caller", r.Counts, r.Caller)
	}
	for _, f := range r.Findings {
		// Batch's own limits cannot be read.
		if f.Verdict == NotChecked && f.Where != "Batch" || f.Verdict != NotChecked && f.Verdict != OK {
			t.Errorf("found %+v, want it in order", f)
		}
	}
}

// TestFindings breaks one thing of a healthy deployment at a time. The doctor finds it, with the verdict and the fix of
// the case. If that is no problem, nothing else is a problem either.
//
// Unless the case names other machines, the sweep takes two n2-highmem-2 on Spot, each of 2 vCPUs, a local SSD of 375
// GB, a boot disk of 30 GB and an address. To request are what is in use and what is needed, and one more of the quota
// of all regions. A quota of 0 for vCPUs on Spot means that the one of the machines' series (N2_CPUS) counts. The fake
// project has its machine types in newFake: two in zone a, one of them in zone b.
func TestFindings(t *testing.T) {
	store, ref := staged(t)
	unreachable := errors.New("no route to host")
	denied := &cloud.PermissionError{What: "x", Hint: "grant"}
	for name, tc := range map[string]struct {
		change  func(*Doctor, *fake)
		machine string
		check   string
		verdict Severity
		says    string // part of what was found
		fix     string // part of the command or address; "" for any or none
	}{
		"nameless": {func(_ *Doctor, f *fake) { f.caller = "" }, "", "credentials", Warning,
			"do not show an account", "application-default login"},
		"api": {func(_ *Doctor, f *fake) { f.enabled = drop(f.enabled, "batch.googleapis.com") }, "",
			"service", Problem, "batch.googleapis.com is not enabled",
			"gcloud services enable batch.googleapis.com --project p1"},
		"apis unknown": {func(_ *Doctor, f *fake) { f.errs["Enabled"] = cloud.ErrNotImitated }, "", "service",
			NotChecked, "does not imitate", ""},
		"no bucket": {func(_ *Doctor, f *fake) { f.missing["s"] = true }, "", "bucket", Problem,
			"COPPICE_SWEEPS_BUCKET names it", apply},
		"no account": {func(_ *Doctor, f *fake) { f.missing[account("task")] = true }, "", "account", Problem,
			"COPPICE_TASK_SERVICE_ACCOUNT names it", apply},
		"bucket unreachable": {func(_ *Doctor, f *fake) { f.errs["Held"] = unreachable }, "", "right", NotChecked,
			"no route", ""},
		"rights disabled": {func(_ *Doctor, f *fake) { f.errs["Held"] = disabled("iam") }, "", "right", NotChecked,
			"iam.googleapis.com is not enabled, and this check uses it",
			"gcloud services enable iam.googleapis.com --project p1"},
		"no topic": {func(_ *Doctor,
			f *fake) {
			f.topics = drop(f.topics, "projects/p1/topics/coppice-scores")
		}, "", "topic", Problem, "COPPICE_SCORES_TOPIC names it", apply},
		"no image": {func(_ *Doctor, f *fake) { f.images = drop(f.images, "coppice-task:v1") }, "", "image",
			Problem, "does not exist", "make images push REGISTRY=us-central1-docker.pkg.dev/p1/coppice"},
		"no launcher image": {func(_ *Doctor, f *fake) { f.images = drop(f.images, "coppice-launcher:v1") }, "",
			"image", Warning, "does not exist", "make images push"},
		"foreign image": {func(d *Doctor, _ *fake) { d.Batch.TaskImage = "docker.io/me/task" }, "", "image",
			NotChecked, "not in Artifact Registry", ""},
		"few preemptible": {func(_ *Doctor, f *fake) { quota(f, "PREEMPTIBLE_CPUS", 2, 0) }, "", "quota", Problem,
			"need 4 vCPUs, 2 of 2 are free", "iam-admin/quotas?project=p1"},
		"no preemptible": {func(_ *Doctor, f *fake) {
			quota(f, "PREEMPTIBLE_CPUS", 0, 0)
			quota(f, "N2_CPUS", 3, 0)
		}, "", "quota", Problem, "need 4 vCPUs, 3 of 3", "quotas"},
		"a new account": {func(_ *Doctor, f *fake) { quota(f, "CPUS_ALL_REGIONS", 3, 0) }, "", "quota", Problem,
			"2 x n2-highmem-2 need 4 vCPUs, 3 of 3 are free: request 5 before anything else", "quotas"},
		"at the limit": {func(_ *Doctor, f *fake) { quota(f, "CPUS_ALL_REGIONS", 4, 0) }, "", "quota", Warning,
			"need 4 vCPUs, 4 of 4 are free", "quotas"},
		"small boot disks": {func(_ *Doctor, f *fake) { quota(f, "SSD_TOTAL_GB", 50, 0) }, "", "quota", Problem,
			"need 60 GB of boot disks", "quotas"},
		"addresses": {func(_ *Doctor, f *fake) { quota(f, "IN_USE_ADDRESSES", 1, 0) }, "", "quota", Problem,
			"need 2 addresses", "quotas"},
		"few on demand": {func(_ *Doctor, f *fake) { quota(f, "N2_CPUS", 3, 0) },
			"{type: n2-highmem-2, vms: 2, threads_per_task: 1, spot: false}", "quota", Problem, "3 of 3", "quotas"},
		"in use": {func(_ *Doctor, f *fake) { quota(f, "PREEMPTIBLE_CPUS", 10, 8) }, "", "quota", Warning,
			"2 of 10 are free: request 12, or use", "quotas"},
		"local ssd": {func(_ *Doctor, f *fake) { quota(f, "PREEMPTIBLE_LOCAL_SSD_GB", 700, 0) }, "", "quota",
			Problem, "need 750 GB of local SSD", "quotas"},
		"machines": {func(_ *Doctor, f *fake) { quota(f, "INSTANCES", 1, 0) }, "", "quota", Problem,
			"need 2 machines", "quotas"},
		"quota unknown": {func(_ *Doctor, f *fake) { delete(f.region.Quotas, "INSTANCES") }, "", "quota",
			NotChecked, "does not show it", "quotas"},
		"series unknown": {func(*Doctor, *fake) {}, "{type: c4d-highmem-8-lssd, vms: 2, threads_per_task: 1}",
			"quota", NotChecked, "quota of c4d", "quotas"},
		"region disabled": {func(_ *Doctor, f *fake) { f.errs["Region"] = disabled("compute") }, "", "quota",
			NotChecked, "compute.googleapis.com is not enabled, and this check uses it",
			"gcloud services enable compute.googleapis.com --project p1"},
		"images disabled": {func(_ *Doctor, f *fake) { f.errs["Image"] = disabled("artifactregistry") }, "",
			"image", NotChecked, "is not enabled",
			"gcloud services enable artifactregistry.googleapis.com --project p1"},
		"dataset disabled": {func(d *Doctor, _ *fake) {
			d.Datasets = unreadable(store, &cloud.PermissionError{What: "bucket d", Hint: "enable"})
		}, "", "dataset", NotChecked, "is not enabled", apply},
		"region unknown": {func(_ *Doctor, f *fake) { f.errs["Region"] = denied }, "", "quota", NotChecked,
			"may not read it", ""},
		"project refused": {func(_ *Doctor, f *fake) { f.region.Unread = denied }, "", "quota", NotChecked,
			"may not read it", ""},
		"not offered": {func(_ *Doctor, f *fake) { f.offered = nil }, "", "machine", Problem, "no zone has it",
			"gcloud compute machine-types list"},
		"not in one zone": {func(_ *Doctor, f *fake) { f.offered["us-central1-b"] = nil },
			"{type: n2-highmem-2, vms: 2, threads_per_task: 1, zones: [us-central1-a, us-central1-b]}", "machine",
			Warning, "not offered in us-central1-b", "machine-types list"},
		"fallback": {func(*Doctor, *fake) {},
			"{type: n2-highmem-2, threads_per_task: 1, fallback: [{type: n2-highmem-4}]}", "machine", Warning,
			"no zone has it", "machine-types list"},
		"offers unknown": {func(_ *Doctor, f *fake) { f.errs["Offered"] = unreachable }, "", "machine", NotChecked,
			"no route", ""},
		"not staged": {func(d *Doctor, _ *fake) { d.Datasets = blob.Memory() }, "", "dataset", Problem,
			"not staged", "launcher stage dataset.yaml"},
		"dataset denied": {func(d *Doctor, _ *fake) { d.Datasets = unreadable(store, denied) }, "", "dataset",
			NotChecked, "may not read it", ""},
		"does not fit": {func(*Doctor, *fake) {}, "{type: n2-highmem-2, threads_per_task: 64}", "sweep", Problem,
			"no trial fits", ""},
		"rule of Batch": {func(d *Doctor, _ *fake) { d.Jobs = jobs{err: errors.New("rule broken")} }, "", "sweep",
			Problem, "rule broken", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			d := newDoctor(t, f)
			d.Datasets = store
			if tc.machine == "" {
				tc.machine = machineKeys
			}
			tc.change(d, f)
			r := examineSweep(t, d, spec(t, ref, tc.machine))
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Check == tc.check && f.Verdict == tc.verdict && strings.Contains(f.What, tc.says) &&
					strings.Contains(f.Fix, tc.fix)
			}) {
				t.Errorf("want a finding of check %s, %s, that says %q with the fix %q; there is none", tc.check,
					tc.verdict, tc.says, tc.fix)
				for _, f := range r.Sorted() {
					if f.Check == tc.check {
						t.Errorf("of that check, got %+v", f)
					}
				}
			}
			if tc.verdict != Problem && r.Counts[Problem] > 0 {
				t.Errorf("a problem, too: %+v; want only what the case is about", r.Sorted()[0])
			}
		})
	}
}

// TestNoSweep: without a sweep the doctor says that none was looked at.
func TestNoSweep(t *testing.T) {
	r := examineSweep(t, newDoctor(t, newFake(t)), nil)
	has(t, r, "sweep", NotChecked, "no sweep was given")
}

// TestNoCredentials: without usable credentials, or if the local cloud does not run, every check would fail alike. So
// Examine returns an error, which says what to do.
func TestNoCredentials(t *testing.T) {
	f := newFake(t)
	for _, tc := range []struct {
		err  error
		says string
	}{
		{&cloud.SetupError{What: "bad token", Hint: "log in"}, "bad token; log in"},
		{cloud.Environment("Google Cloud", errors.New("dial tcp 127.0.0.1:4443: connect: connection refused")),
			"localemu up --data DIR"},
	} {
		f.errs["Caller"] = tc.err
		_, err := newDoctor(t, f).Examine(t.Context(), "", nil)
		var setup *cloud.SetupError
		if !errors.As(err, &setup) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("nobody can be asked: got %v; want a *cloud.SetupError that says %q", err, tc.says)
		}
	}
}

// TestRights takes each permission of the launcher away in turn. The doctor finds that problem alone, names the
// permission and its resource, and says how to get it: a person logs in as the launcher's account; if it is that
// account that lacks it, Terraform gives it.
func TestRights(t *testing.T) {
	impersonate := ownLogin + " --impersonate-service-account=" + account("launcher")
	seen := 0 // permissions taken away; that there are 15 or more shows that the table was read
	d := newDoctor(t, newFake(t))
	for _, b := range d.Table.Of(terraform.Launcher) {
		on, ok := map[string]string{terraform.Project: "project p1", terraform.DatasetsBucket: "bucket d",
			terraform.SweepsBucket: "bucket s", terraform.RegistryBucket: "bucket r",
			terraform.TaskAccount:   "account " + account("task"),
			terraform.StagerAccount: "account " + account("stager")}[b.Resource]
		for _, p := range d.Table.Roles[b.Role] {
			if !ok { // a resource that is not asked about, such as the buckets of sources
				continue
			}
			seen++
			for caller, fix := range map[string]string{owner: impersonate, account("launcher"): apply} {
				f := newFake(t)
				f.caller, f.denied = caller, [2]string{on, p}
				r := examineSweep(t, newDoctor(t, f), nil)
				has(t, r, "right", Problem, "missing: "+p)
				if first := r.Sorted()[0]; r.Counts[Problem] != 1 || first.Where != on || first.Fix != fix {
					t.Errorf("%s lacks %s on %s: got %+v; want that problem only, with the fix %q", caller, p, on,
						first, fix)
				}
			}
		}
	}
	if seen < 15 {
		t.Errorf("%d permissions were taken away, want at least 15", seen)
	}
}

// TestQuotasComeFirst: a quota that is too small is found even if the dataset is not staged, and is the first of
// several problems, since a request for more takes days.
func TestQuotasComeFirst(t *testing.T) {
	f := newFake(t)
	f.images = nil // the task's image, the quota and the dataset are three problems
	quota(f, cloud.CPUsAllRegions, 12, 0)
	r := examineSweep(t, newDoctor(t, f), spec(t, "clicks", "{type: n2-highmem-2, vms: 8}"))
	if first := r.Sorted()[0]; r.Counts[Problem] < 3 || first.Where != "CPUS_ALL_REGIONS of project p1" {
		t.Errorf("of %d problems the first is %+v, want that 8 machines of 2 vCPUs are more than 12", r.Counts[Problem],
			first)
	}
}

// TestServicesAreTerraforms: each service that the doctor wants enabled is one that terraform/services.tf enables.
func TestServicesAreTerraforms(t *testing.T) {
	text := must.Get(os.ReadFile("../../../terraform/services.tf"))(t)
	for _, s := range services {
		if !strings.Contains(string(text), `"`+s+`"`) {
			t.Errorf("the doctor looks for %s; want terraform/services.tf to enable it", s)
		}
	}
}

// TestInterrupted: Examine returns the error of a context that has ended.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newDoctor(t, newFake(t)).Examine(ctx, "", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("examined after an interruption: error %v, expected that", err)
	}
}

// disabled is the error of cloud/inspect for a service that the project has not enabled.
func disabled(service string) error {
	return cloud.Forbidden("https://"+service+".googleapis.com/v1/projects/p1/x", errors.New("SERVICE_DISABLED"))
}

// TestNotCheckedMendsWhatItSays: logging in as somebody else helps only if the caller lacks a permission, and staging
// only if a dataset is not there. So a right or a dataset that could not be read since there is no route to the host is
// not checked, and has no fix.
func TestNotCheckedMendsWhatItSays(t *testing.T) {
	f := newFake(t)
	f.errs["Held"] = errors.New("no route to host")
	d := newDoctor(t, f)
	d.Datasets = unreadable(blob.Memory(), f.errs["Held"])
	r := examineSweep(t, d, spec(t, "clicks", machineKeys))
	has(t, r, "right", NotChecked, "no route")
	has(t, r, "dataset", NotChecked, "no route")
	for _, found := range r.Findings {
		if strings.Contains(found.What, "no route") && found.Fix != "" {
			t.Errorf("a %s that could not be read for want of a route: got the fix %q, want none", found.Check,
				found.Fix)
		}
	}
}

// has fails unless the report has a finding of the check and the verdict that contains says.
func has(t *testing.T, r *Report, check string, v Severity, says string) {
	t.Helper()
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Check == check && f.Verdict == v && strings.Contains(f.What, says)
	}) {
		t.Errorf("found %+v; want a finding of check %s, %s, that says %q", r.Sorted(), check, v, says)
	}
}

// drop returns the texts without one of them.
func drop(from []string, what string) []string {
	return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return s == what })
}

// quota sets one of the project's quotas.
func quota(f *fake, metric string, limit, usage float64) {
	f.region.Quotas[metric] = cloud.Quota{Limit: limit, Usage: usage}
}

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

// account is the service account that terraform makes for an identity.
func account(identity string) string { return "coppice-" + identity + "@p1.iam.gserviceaccount.com" }

// newFake returns a project in which everything is in order.
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

// newDoctor returns a doctor of the complete deployment whose project is f.
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

// jobs describes the job of every plan as {}, or has err for it.
type jobs struct{ err error }

func (jobs) Name(id sweep.ID) string { return "projects/p1/locations/us-central1/jobs/" + string(id) }

func (j jobs) Request(*sweep.Plan) ([]byte, error) { return []byte("{}"), j.err }

func (f *fake) Caller(context.Context) (string, error) { return f.caller, f.errs["Caller"] }

func (f *fake) Enabled(context.Context, []string) ([]string, error) {
	return f.enabled, f.errs["Enabled"]
}

// Held holds all permissions but the denied one; a missing resource is an error.
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

// unreadable is a bucket that the caller may not read.
func unreadable(s blob.Store, err error) blob.Store {
	return blobtest.Before(s, blobtest.Open, func(context.Context, string) error { return err })
}
