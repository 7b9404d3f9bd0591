package doctor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// examineSweep runs the doctor.
func examineSweep(t *testing.T, d *Doctor, s *Sweep) *Report {
	t.Helper()
	r, err := d.Examine(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.What == "" || f.Where == "" || f.Check == "" {
			t.Errorf("an empty finding: %+v", f)
		}
		if bad := f.Verdict == Problem || f.Verdict == Warning; bad && f.Fix == "" && f.Check != "sweep" &&
			f.Check != "credentials" {
			t.Errorf("nothing mends %+v", f)
		}
	}
	return r
}

// spec parses a sweep of one trial on the dataset.
func spec(t *testing.T, ref, machine string) *sweep.Spec {
	t.Helper()
	fine := func(string) error { return nil }
	s, err := sweep.ParseSpec("sweep.yaml",
		[]byte("name: night\ndataset: "+ref+
			"\nmodel: ctr\nmetric: auc\ntrials: 1\nsearch: {random: {num_leaves: {log_int: [4, 40]}}}\nmachine: "+
			machine+"\n"),
		sweep.Vocabulary{Metric: fine, ParamName: gbt.CanonicalName, Param: gbt.CheckParam,
			Constraint: func(c string) (string, error) { return c, nil }, Require: fine,
			Objective: func(o, _ string) (string, error) { return o, nil }, Machine: fine,
			LocalSSD: func(string, int) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const machines = "{type: n2-highmem-2, vms: 2, threads_per_task: 1}"

// staged is a bucket with a dataset, and the dataset's name with its version.
func staged(t *testing.T) (blob.Store, string) {
	t.Helper()
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 1200})
	store := blob.Memory()
	datasettest.Upload(t, store, dir, m)
	return store, m.Name + "@" + m.Version
}

func TestHealthy(t *testing.T) {
	d := newDoctor(t, newFake(t))
	store, ref := staged(t)
	d.Datasets = store
	r := examineSweep(t, d, &Sweep{File: "sweep.yaml", Spec: spec(t, ref, machines)})
	if r.Counts[Problem] != 0 || r.Counts[Warning] != 0 || r.Counts[OK] < 50 || r.Caller != owner {
		t.Errorf("a healthy deployment: counted %+v for %s; want no problem, no warning, at least 50 checks, and "+
			"the owner as caller", r.Counts, r.Caller)
	}
	for _, f := range r.Findings {
		// Of a local table no bucket is known; scheduler and agents are Terraform's; Batch's own limits cannot be read.
		if f.Verdict == NotChecked && !strings.HasSuffix(f.Where, "bucket/sources") &&
			!strings.HasPrefix(f.Where, "scheduler") && f.Where != "Batch" ||
			f.Verdict != NotChecked && f.Verdict != OK {
			t.Errorf("found %+v, want it in order", f)
		}
	}
}

// TestFindings changes one thing at a time.
func TestFindings(t *testing.T) {
	store, ref := staged(t)
	empty := errors.New("no route to host")
	denied := &cloud.PermissionError{What: "x", Hint: "grant"}
	for name, tc := range map[string]struct {
		change  func(*Doctor, *fake)
		machine string
		check   string
		verdict Severity
		says    string // part of what was found
		fix     string // part of the command
	}{
		"credentials": {func(_ *Doctor, f *fake) {
			f.errs["Caller"] = &cloud.SetupError{What: "bad token",
				Hint: "log in"}
		}, "", "credentials", Problem, "bad token", "application-default login"},
		"nameless": {func(_ *Doctor, f *fake) { f.caller = "" }, "", "credentials", Warning,
			"do not show an account", "application-default login"},
		"no such project": {func(_ *Doctor, f *fake) { f.errs["Number"] = denied }, "", "credentials", NotChecked,
			owner + " may not read it", ""},
		"api": {func(_ *Doctor, f *fake) { f.enabled = drop(f.enabled, "batch.googleapis.com") }, "",
			"service", Problem, "batch.googleapis.com is not enabled",
			"gcloud services enable batch.googleapis.com --project p1"},
		"lesser api": {func(_ *Doctor, f *fake) { f.enabled = drop(f.enabled, "run.googleapis.com") }, "",
			"service", Warning, "run.googleapis.com", "gcloud services enable run.googleapis.com"},
		"measurements": {func(_ *Doctor, f *fake) { f.enabled = drop(f.enabled, "telemetry.googleapis.com") }, "",
			"service", Warning, "telemetry.googleapis.com", "gcloud services enable telemetry.googleapis.com"},
		"apis unknown": {func(_ *Doctor, f *fake) { f.errs["Enabled"] = cloud.ErrNotImitated }, "", "service",
			NotChecked, "does not imitate", ""},
		"no bucket": {func(_ *Doctor, f *fake) { delete(f.buckets, "s") }, "", "bucket", Problem,
			"COPPICE_SWEEPS_BUCKET names it", apply},
		"bucket elsewhere": {func(_ *Doctor, f *fake) { change(f, "d", func(b *cloud.Bucket) { b.Location = "eu" }) },
			"", "bucket", Problem, "in eu and the machines are in us-central1",
			"relocate gs://d --location=us-central1"},
		"access lists": {func(_ *Doctor, f *fake) { change(f, "d", func(b *cloud.Bucket) { b.Uniform = false }) },
			"", "bucket", Problem, "uniform access", "gs://d --uniform-bucket-level-access"},
		"public": {func(_ *Doctor,
			f *fake) {
			change(f, "r", func(b *cloud.Bucket) { b.PublicPrevented = false })
		}, "", "bucket", Warning, "public", "gs://r --public-access-prevention"},
		"soft delete": {func(_ *Doctor,
			f *fake) {
			change(f, "s", func(b *cloud.Bucket) { b.SoftDelete = time.Hour })
		}, "", "bucket", Warning, "billed for 1h", "gs://s --clear-soft-delete"},
		"versioning": {func(_ *Doctor,
			f *fake) {
			change(f, "r", func(b *cloud.Bucket) { b.Versioned = false })
		}, "", "bucket", Warning, "versioning", "gs://r --versioning"},
		"bucket unreachable": {func(_ *Doctor, f *fake) { f.errs["Bucket"] = empty }, "", "bucket", NotChecked,
			"no route", ""},
		"no topic": {func(_ *Doctor,
			f *fake) {
			f.topics = drop(f.topics, "projects/p1/topics/coppice-scores")
		}, "", "topic", Problem, "COPPICE_SCORES_TOPIC names it", apply},
		"no dead topic": {func(_ *Doctor,
			f *fake) {
			f.topics = drop(f.topics, "projects/p1/topics/coppice-scores-dead")
		}, "", "topic", Problem, "the subscription names it", apply},
		"no subscription": {func(_ *Doctor, f *fake) { f.subscriptions = nil }, "", "subscription", Problem,
			"does not exist", apply},
		"other topic": {func(_ *Doctor, f *fake) {
			resubscribe(f, func(s *cloud.Subscription) { s.Topic = "projects/p1/topics/x" })
		}, "", "subscription", Problem, "topics/x", apply},
		"no dead-letter topic": {func(_ *Doctor,
			f *fake) {
			resubscribe(f, func(s *cloud.Subscription) { s.DeadLetterTopic = "" })
		}, "", "subscription", Warning, "no dead-letter topic",
			"gcloud pubsub subscriptions update coppice-aggregator --dead-letter-topic=coppice-scores-dead"},
		"no image": {func(_ *Doctor, f *fake) { f.images = drop(f.images, "coppice-task:v1") }, "", "image",
			Problem, "does not exist", "make images push REGISTRY=us-central1-docker.pkg.dev/p1/coppice"},
		"no launcher image": {func(_ *Doctor, f *fake) { f.images = drop(f.images, "coppice-launcher:v1") }, "",
			"image", Warning, "does not exist", "make images push"},
		"foreign image": {func(d *Doctor, _ *fake) { d.Deployment.TaskImage = "docker.io/me/task" }, "", "image",
			NotChecked, "not in Artifact Registry", ""},
		"few preemptible": {func(_ *Doctor, f *fake) { quota(f, "PREEMPTIBLE_CPUS", 2, 0) }, "", "quota", Problem,
			"need 4 vCPUs, 2 of 2 are free", "iam-admin/quotas?project=p1"},
		"no preemptible": {func(_ *Doctor, f *fake) {
			quota(f, "PREEMPTIBLE_CPUS", 0, 0)
			quota(f, "N2_CPUS", 3,
				0)
		}, "", "quota", Problem, "need 4 vCPUs, 3 of 3", "quotas"},
		"few on demand": {func(_ *Doctor, f *fake) { quota(f, "N2_CPUS", 3, 0) },
			"{type: n2-highmem-2, vms: 2, threads_per_task: 1, spot: false}", "quota", Problem, "3 of 3", "quotas"},
		"in use": {func(_ *Doctor, f *fake) { quota(f, "PREEMPTIBLE_CPUS", 10, 8) }, "", "quota", Warning,
			"2 of 10 are free", "quotas"},
		"local ssd": {func(_ *Doctor, f *fake) { quota(f, "PREEMPTIBLE_LOCAL_SSD_GB", 700, 0) }, "", "quota",
			Problem, "need 750 GB of local SSD", "quotas"},
		"machines": {func(_ *Doctor, f *fake) { quota(f, "INSTANCES", 1, 0) }, "", "quota", Problem,
			"need 2 machines", "quotas"},
		"quota unknown": {func(_ *Doctor, f *fake) { delete(f.region.Quotas, "INSTANCES") }, "", "quota",
			NotChecked, "does not show it", "quotas"},
		"series unknown": {func(*Doctor, *fake) {}, "{type: c4d-highmem-8-lssd, vms: 2, threads_per_task: 1}",
			"quota", NotChecked, "quota of c4d", "quotas"},
		"region disabled": {func(_ *Doctor, f *fake) { f.errs["Region"] = disabled("compute") }, "", "quota",
			NotChecked, "compute.googleapis.com is not enabled, which it takes",
			"gcloud services enable compute.googleapis.com --project p1"},
		"images disabled": {func(_ *Doctor, f *fake) { f.errs["Image"] = disabled("artifactregistry") }, "",
			"image", NotChecked, "is not enabled",
			"gcloud services enable artifactregistry.googleapis.com --project p1"},
		"policies disabled": {func(_ *Doctor, f *fake) { f.errs["Policy"] = disabled("pubsub") }, "", "right",
			NotChecked, "pubsub.googleapis.com is not enabled, which it takes",
			"gcloud services enable pubsub.googleapis.com --project p1"},
		"policies lost": {func(_ *Doctor, f *fake) { f.errs["Policy"] = empty }, "", "right", NotChecked,
			"no route", ""},
		"dataset disabled": {func(d *Doctor, _ *fake) {
			d.Datasets = refusing{store, &cloud.PermissionError{What: "bucket d", Hint: "enable"}}
		}, "", "dataset", NotChecked, "is not enabled", apply},
		"region unknown": {func(_ *Doctor, f *fake) { f.errs["Region"] = denied }, "", "quota", NotChecked,
			"may not read it", ""},
		"not offered": {func(_ *Doctor, f *fake) { f.offered = nil }, "", "machine", Problem, "no zone has it",
			"gcloud compute machine-types list"},
		"not in one zone": {func(_ *Doctor, f *fake) { f.offered["us-central1-b"] = nil },
			"{type: n2-highmem-2, vms: 2, threads_per_task: 1, zones: [us-central1-a, us-central1-b]}", "machine",
			Warning, "not offered in us-central1-b", "machine-types list"},
		"fallback": {func(*Doctor, *fake) {},
			"{type: n2-highmem-2, threads_per_task: 1, fallback: [{type: n2-highmem-4}]}", "machine", Warning,
			"no zone has it", "machine-types list"},
		"offers unknown": {func(_ *Doctor, f *fake) { f.errs["Offered"] = empty }, "", "machine", NotChecked,
			"no route", ""},
		"not staged": {func(d *Doctor, _ *fake) { d.Datasets = blob.Memory() }, "", "dataset", Problem,
			"not staged", "launcher stage dataset.yaml"},
		"dataset cut": {func(d *Doctor, _ *fake) { d.Datasets = cut(t, store) }, "", "dataset", Problem,
			"is missing, or does not have the", "launcher stage dataset.yaml"},
		"dataset denied": {func(d *Doctor, _ *fake) { d.Datasets = refusing{store, denied} }, "", "dataset",
			NotChecked, "may not read it", ""},
		"does not fit": {func(*Doctor, *fake) {}, "{type: n2-highmem-2, threads_per_task: 64}", "sweep", Problem,
			"no trial fits", ""},
		"rule of Batch": {func(d *Doctor, _ *fake) { d.Jobs = &jobs{err: errors.New("rule broken")} }, "", "sweep",
			Problem, "rule broken", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			d := newDoctor(t, f)
			d.Datasets = store
			if tc.machine == "" {
				tc.machine = machines
			}
			tc.change(d, f)
			r := examineSweep(t, d, &Sweep{File: "sweep.yaml", Spec: spec(t, ref, tc.machine)})
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Check == tc.check && f.Verdict == tc.verdict && strings.Contains(f.What, tc.says) &&
					strings.Contains(f.Fix, tc.fix)
			}) {
				t.Errorf("no %s: %s with %q and %q in", tc.check, tc.verdict, tc.says, tc.fix)
				for _, f := range r.Sorted() {
					if f.Check == tc.check {
						t.Errorf("also found %+v; want nothing else of that check", f)
					}
				}
			}
			if tc.verdict != Problem && r.Counts[Problem] > 0 {
				t.Errorf("a problem, too: %+v", r.Sorted()[0])
			}
		})
	}
}

func TestNoSweepAndBrokenSweep(t *testing.T) {
	r := examineSweep(t, newDoctor(t, newFake(t)), nil)
	has(t, r, "sweep", NotChecked, "no sweep was given")
	r = examineSweep(t, newDoctor(t, newFake(t)), &Sweep{File: "x.yaml", Err: errors.New("x.yaml:3:1: no")})
	has(t, r, "sweep", Problem, "x.yaml:3:1")
	r = NoCredentials(&cloud.SetupError{What: "none", Hint: "log in"})
	has(t, r, "credentials", Problem, "none")
	if f := r.Sorted()[0]; f.Fix != ownLogin || r.Counts[Problem] != 1 {
		t.Errorf("without a login: got %+v; want one problem, and the owner's login as its fix", f)
	}
}

// TestLocalCloudSaysWhatIsHere: a laptop is asked for its processors, memory and disk, a project is not.
func TestLocalCloudSaysWhatIsHere(t *testing.T) {
	d := newDoctor(t, newFake(t))
	if r := examineSweep(t, d, nil); slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Check == "local cloud"
	}) {
		t.Errorf("a project has findings about a local cloud: %+v", r.Findings)
	}
	d.Deployment.InspectEndpoint = "127.0.0.1:4443"
	r := examineSweep(t, d, nil)
	has(t, r, "local cloud", OK, "it answers at 127.0.0.1:4443")
	if runtime.GOOS == "linux" {
		has(t, r, "machine", OK, "processor")
		has(t, r, "machine", OK, "of disk in "+os.TempDir())
	}
}

// TestLocalCloudThatHasStopped: one finding, and no login for what no login mends.
func TestLocalCloudThatHasStopped(t *testing.T) {
	f := newFake(t)
	refused := errors.New("dial tcp 127.0.0.1:4443: connect: connection refused")
	for _, method := range []string{"Caller", "Number", "Enabled", "Bucket", "Policy"} {
		f.errs[method] = cloud.Environment("Google Cloud", refused)
	}
	d := newDoctor(t, f)
	d.Deployment.InspectEndpoint = "127.0.0.1:4443"
	r := examineSweep(t, d, nil)
	has(t, r, "local cloud", Problem, "no answer for Google Cloud at 127.0.0.1:4443")
	if first := r.Sorted()[0]; len(r.Findings) != 2 || r.Counts[Problem] != 1 ||
		!strings.HasPrefix(first.Fix, "localemu up --data DIR") || !strings.HasSuffix(first.Fix, ". DIR/env") {
		t.Errorf("the local cloud has stopped: got %+v; want two findings, one of them a problem that `localemu up` "+
			"fixes", r.Findings)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newDoctor(t, newFake(t)).Examine(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("examined after an interruption: error %v, expected that", err)
	}
}

// disabled is what cloud/inspect says of a service that the project has not enabled.
func disabled(service string) error {
	return cloud.Forbidden("https://"+service+".googleapis.com/v1/projects/p1/x", errors.New("SERVICE_DISABLED"))
}

// TestNotCheckedMendsWhatItSays: a login of one's own mends only what somebody else may see.
func TestNotCheckedMendsWhatItSays(t *testing.T) {
	f := newFake(t)
	f.errs["Policy"] = errors.New("no route to host")
	for _, found := range examineSweep(t, newDoctor(t, f), nil).Findings {
		if found.Check == "right" && found.Verdict == NotChecked && strings.Contains(found.What, "no route") &&
			found.Fix != "" {
			t.Errorf("a right that could not be read for want of a route has a fix: %+v", found)
		}
	}
}

func has(t *testing.T, r *Report, check string, v Severity, says string) {
	t.Helper()
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.Check == check && f.Verdict == v &&
			strings.Contains(f.What, says)
	}) {
		t.Errorf("no %s, %s: %q in %+v", check, v, says, r.Sorted())
	}
}

func drop(from []string, what string) []string {
	return slices.DeleteFunc(slices.Clone(from), func(s string) bool { return s == what })
}

func change(f *fake, name string, how func(*cloud.Bucket)) {
	b := f.buckets[name]
	how(&b)
	f.buckets[name] = b
}

func resubscribe(f *fake, how func(*cloud.Subscription)) {
	for name, s := range f.subscriptions {
		how(&s)
		f.subscriptions[name] = s
	}
}

func quota(f *fake, metric string, limit, usage float64) {
	f.region.Quotas[metric] = cloud.Quota{Limit: limit, Usage: usage}
}

// cut is the store without the last byte of one file.
func cut(t *testing.T, from blob.Store) blob.Store {
	t.Helper()
	to := blob.Memory()
	for a, err := range from.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := blob.ReadAll(t.Context(), from, a.Name, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(a.Name, "train") {
			data = data[:len(data)-1]
		}
		if _, err := to.Put(t.Context(), a.Name, blob.Any, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// refusing is a bucket that the caller may not read.
type refusing struct {
	blob.Store
	err error
}

func (r refusing) Open(context.Context, string, blob.Range) (io.ReadCloser, blob.Attrs, error) {
	return nil, blob.Attrs{}, r.err
}
