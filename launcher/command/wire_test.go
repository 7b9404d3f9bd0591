package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/cloud/batch"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/engine"
	"coppice/internal/machines"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cli"
	"coppice/launcher/internal/cloudjob"
)

// plan is a sweep of 32 tasks on two machines on Spot.
func plan() *sweep.Plan {
	spot := true
	p := &sweep.Plan{Format: 1, Sweep: "nightly-20261120",
		Job: "projects/p/locations/us-central1/jobs/nightly-20261120",
		Sizing: sweep.Sizing{MachineType: "n2-highmem-64", VCPUs: 64, MemoryBytes: 512 << 30,
			ReserveBytes: 26 << 30, VMs: 2, TasksPerVM: 16, ThreadsPerTask: 4, Tasks: 32}}
	p.Spec.Model = "ctr"
	p.Spec.Machine = sweep.Machine{Type: "n2-highmem-64", Spot: &spot, LocalSSD: 8}
	p.Spec.Limits.Sweep = sweep.Duration(6 * time.Hour)
	return p
}

// env is the environment of a deployment with a subnetwork and two zones.
func env() cli.Env {
	e := cli.Env{}
	e.Project, e.Location, e.DatasetsBucket, e.SweepsBucket, e.ScoresTopic = "p", "us-central1", "d", "s", "scores"
	e.TaskImage, e.ServiceAccount, e.Subnetwork, e.Zones = "us-docker.pkg.dev/p/coppice/task:v1",
		"task@p.iam.gserviceaccount.com", "regions/us-central1/subnetworks/coppice", "us-central1-a,us-central1-b"
	return e
}

// onBatch returns the jobs of a deployment on Batch, without a client: they can be described, not sent.
func onBatch(e cli.Env) *jobs { return &jobs{batchEngine(nil, e), e} }

// made returns the Batch job that an engine's job becomes.
func (j *jobs) made(q engine.Array) batch.Job { return j.Engine.(*batch.Jobs).Describe(q) }

// TestAWebhookIsAChannel: there is one channel if the environment names a webhook, and none if it names nothing.
func TestAWebhookIsAChannel(t *testing.T) {
	for webhook, want := range map[notify.Secret]int{"": 0, "https://hooks.example/x": 1} {
		e := env()
		e.Verdicts.Webhook, e.Verdicts.WebhookFormat = webhook, notify.WebhookSlack
		channels, closeAll, err := verdicts(t.Context(), e)
		if closeAll(); err != nil || len(channels) != want {
			t.Errorf("with the webhook %q: %d channels, error %v; want %d", string(webhook), len(channels), err, want)
		}
	}
}

// TestMachinesTrainTogether: if several machines train the final model, tasks listen on the port that Terraform's
// firewall rule names, in the host's network. In the local cloud they listen on any free port of this machine.
// Otherwise they do not listen.
func TestMachinesTrainTogether(t *testing.T) {
	p := plan()
	p.Spec.Final = &sweep.Final{Rows: sweep.FinalAll}
	if job := onBatch(env()).made(onBatch(env()).describe(p)); job.HostNetwork || job.Env["COPPICE_LISTEN"] != "" {
		t.Errorf("one machine: %+v, want the container's own network", job)
	}
	p.Spec.Final.Machines = 2
	rules := must.Get(os.ReadFile("../../terraform/network.tf"))(t)
	job := onBatch(env()).made(onBatch(env()).describe(p))
	port, ok := strings.CutPrefix(job.Env["COPPICE_LISTEN"], ":")
	if !job.HostNetwork || !ok || !strings.Contains(string(rules), fmt.Sprintf("ports    = [%q]", port)) {
		t.Errorf("two machines: listens at %q, host network %t; want the port of terraform/network.tf, and true",
			job.Env["COPPICE_LISTEN"], job.HostNetwork)
	}
	local := env()
	local.BatchEndpoint = "127.0.0.1:1"
	if got := onBatch(local).describe(p).Env["COPPICE_LISTEN"]; got != "127.0.0.1:0" {
		t.Errorf("on pretend machines: listens at %q, want 127.0.0.1:0", got)
	}
}

// TestThePlanMakesABatchJob checks the Batch job that a plan and an environment become: tasks, machines, memory,
// limits, environment, labels and retries. Each of 16 tasks on a machine of 64 vCPUs has 4, which are 4,000 in
// thousandths. Package batch tests Google's own rules.
func TestThePlanMakesABatchJob(t *testing.T) {
	j := onBatch(env())
	job := j.made(j.describe(plan()))
	must.Get(batch.Build(job))(t)
	if job.Tasks != 32 || job.Parallelism != 32 || job.TasksPerVM != 16 || job.CPUMilli != 4000 || job.LocalSSDs != 8 ||
		!job.Spot || job.MaxRetries != 10 {
		t.Errorf("the job is %+v; want 32 tasks, 16 on a machine with 8 local SSDs, on Spot, with 10 retries", job)
	}
	if job.MemoryMiB*16 > 512<<10 || job.MaxRunDuration != 6*time.Hour || !job.NoExternalIP || len(job.Zones) != 2 {
		t.Errorf("the job is %+v; want 16 tasks to fit 512 GiB, 6 hours, 2 zones, and no external address", job)
	}
	if job.Env["COPPICE_SWEEP"] != "nightly-20261120" || job.Env["COPPICE_SCRATCH"] != job.MountPath ||
		slices.Contains(job.Args, "train") {
		t.Errorf("the job's environment is %v, its arguments %q; want the sweep's name, scratch on the disk, and no "+
			"word of train", job.Env, job.Args)
	}
	if job.Labels[batch.PlanLabel] != plan().Fingerprint()[:32] ||
		!slices.Contains(job.RetryExitCodes, sweep.ExitTransient) {
		t.Errorf("the job has labels %v and retries %v; want the plan's fingerprint, and transient errors retried",
			job.Labels, job.RetryExitCodes)
	}
	standard := plan()
	*standard.Spec.Machine.Spot = false
	if job := j.made(j.describe(standard)); job.Spot || job.MaxRetries != 10 || job.MaxRetries <= sweep.MaxClaims {
		t.Errorf("on demand: got %+v; want 10 retries, more than claims of a trial, and no Spot", job)
	}
	text, err := j.Request(plan())
	if err != nil || !json.Valid(text) || !strings.Contains(string(text), `"SPOT"`) {
		t.Errorf("the request is %s, %v, expected JSON with \"SPOT\"", text, err)
	}
}

// TestLabelsOfASpec: the labels of a spec are on the sweep's job and on that of its staging, with those of the
// programs.
func TestLabelsOfASpec(t *testing.T) {
	p := plan()
	p.Spec.Labels = map[string]string{"team": "ads"}
	trains := onBatch(env()).made(onBatch(env()).describe(p)).Labels
	if trains["team"] != "ads" || trains["coppice-sweep"] != "nightly-20261120" || trains[batch.PlanLabel] == "" {
		t.Errorf("the sweep's job has the labels %v, expected team=ads and those of the programs", trains)
	}
	stages := onBatch(env()).made(onBatch(env()).describeTask(cloudjob.Work{Dataset: "clicks",
		Fingerprint: "ab", Labels: p.Spec.Labels})).Labels
	if stages["team"] != "ads" || stages["coppice-dataset"] != "clicks" || stages[batch.PlanLabel] != "ab" {
		t.Errorf("the staging's job has the labels %v, expected team=ads and those of the programs", stages)
	}
}

// TestJobsOfFallbacks: the job of each fallback has its own id, machines, zones and disks, and the sweep's label. A
// number of disks that the machine does not take is refused.
func TestJobsOfFallbacks(t *testing.T) {
	no, p := false, plan()
	p.Spec.Machine.Fallback = []sweep.Fallback{{Type: "n2d-highmem-32", LocalSSD: 4, Zones: []string{"us-central1-f"}},
		{Spot: &no, LocalSSD: 8}}
	p.Fallback = []sweep.Sizing{{MachineType: "n2d-highmem-32", VCPUs: 32, MemoryBytes: 256 << 30, TasksPerVM: 8,
		Tasks: 16}, p.Sizing}
	e := env()
	e.JobsTopic = "coppice-jobs"
	j := onBatch(e)
	labels := map[string]bool{}
	// The job's id, machine type, whether on Spot, zones, disks and tasks. Zones that a fallback does not name are
	// those of the deployment.
	for n, want := range []string{"nightly-20261120 n2-highmem-64 true [us-central1-a us-central1-b] 8 32",
		"nightly-20261120-f1 n2d-highmem-32 true [us-central1-f] 4 16",
		"nightly-20261120-f2 n2-highmem-64 false [us-central1-a us-central1-b] 8 32"} {
		job := j.made(j.describe(p.Placed(n)))
		if _, err := batch.Build(job); err != nil {
			t.Fatalf("job %d of the fallbacks: %v, expected a valid job", n, err)
		}
		got := fmt.Sprint(job.ID, " ", job.MachineType, " ", job.Spot, " ", job.Zones, " ", job.LocalSSDs, " ",
			job.Tasks)
		if got != want || job.Labels["coppice-sweep"] != "nightly-20261120" ||
			job.Env["COPPICE_SWEEP"] != "nightly-20261120" || job.Env["COPPICE_JOB"] != job.ID ||
			len(job.Notify) != 1 || job.Notify[0] != "projects/p/topics/coppice-jobs" {
			t.Errorf("fallback %d: got %s, want %s, with the sweep's and the job's id, and its topic; environment %v, "+
				"notifies %q", n, got, want, job.Env, job.Notify)
		}
		labels[job.Labels[batch.PlanLabel]] = true
	}
	if len(labels) != 3 {
		t.Errorf("%d labels of plans; want three that differ", len(labels))
	}
	p.Spec.Machine.LocalSSD = 4
	if _, err := j.Request(p); err == nil || !strings.HasSuffix(err.Error(), "(rule local-ssd-count)") {
		t.Errorf("disks that the machine does not take: got error %v, want one about the rule local-ssd-count", err)
	}
}

// TestOnlyCloudRunRemovesSignatures: COPPICE_SIGNATURES=cloud-run is refused outside Cloud Run, where anybody could
// write a token without a signature, and accepted on it.
func TestOnlyCloudRunRemovesSignatures(t *testing.T) {
	env := environment.CallersEnv{Audience: "https://console.example", Callers: []string{"a@example.com"},
		Signatures: environment.SignaturesCloudRun}
	var setup *cloud.SetupError
	if _, err := callers(t.Context(), env); !errors.As(err, &setup) {
		t.Errorf("outside Cloud Run, tokens without signatures are accepted (%v); want a *cloud.SetupError", err)
	}
	env.Service = "console"
	if _, err := callers(t.Context(), env); err != nil {
		t.Errorf("on Cloud Run: %v; want no error", err)
	}
}

// TestTheStagingJob: a staging job has one task with the launcher's image and the stager's account, its scratch folder
// on local SSDs, and is repeated only after transient errors.
func TestTheStagingJob(t *testing.T) {
	e := env()
	e.LauncherImage, e.StageAccount = "us-docker.pkg.dev/p/coppice/launcher:v1", "stage@p.iam.gserviceaccount.com"
	j := onBatch(e)
	job := j.made(j.describeTask(cloudjob.Work{Dataset: "clicks",
		Fingerprint: "0123456789abcdef0123456789abcdef", Machine: "n2-highmem-8", VCPUs: 8, Memory: 64 << 30,
		LocalSSD: 4, Limit: 24 * time.Hour, Env: environment.LauncherTaskEnv{Project: "p", DatasetsBucket: "d",
			Job: "stage-clicks-0123456789ab", File: "clicks.yaml", Spec: "name: clicks\n"}}))
	must.Get(batch.Build(job))(t)
	if job.Tasks != 1 || job.LocalSSDs != 4 || job.ServiceAccount != j.env.StageAccount ||
		job.Image != j.env.LauncherImage || job.Env["COPPICE_SCRATCH"] != job.MountPath || job.Args[0] != "stage-task" {
		t.Errorf("got %+v; want one stage-task on four local SSDs with the stager's account and image", job)
	}
	if job.CPUMilli != 8000 || job.MemoryMiB >= 64<<10 || job.MaxRetries != 3 ||
		!slices.Contains(job.RetryExitCodes, sweep.ExitTransient) ||
		slices.Contains(job.RetryExitCodes, sweep.ExitInput) {
		t.Errorf("got %+v; want 8 processors, less than all memory, 3 repetitions of what is transient and none of "+
			"bad input", job)
	}
}

// TestLocalSSDTablesAgree: for each machine type that both know, package batch allows the numbers of local SSDs that
// the catalogue has. Otherwise the launcher would make plans that the rule refuses. As both know 150 types or more,
// the test does compare.
func TestLocalSSDTablesAgree(t *testing.T) {
	both := 0
	for _, m := range machines.All() {
		counts, known := batch.LocalSSDCounts(m.Name)
		if !known {
			continue
		}
		both++
		if !slices.Equal(counts, m.Disks) {
			t.Errorf("%s: package batch allows %v local SSDs, the catalogue %v; want the same", m.Name, counts, m.Disks)
		}
	}
	if both < 150 {
		t.Errorf("both know %d types, want at least 150", both)
	}
}

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// asked are the launcher's jobs. They keep the last plan and task that a command asks for, and send nothing.
type asked struct {
	*jobs
	plan *sweep.Plan
	task *cloudjob.Work
}

var errNothingIsSent = errors.New("nothing is sent")

func (a *asked) Request(p *sweep.Plan) ([]byte, error) {
	a.plan = p
	return a.jobs.Request(p)
}

func (a *asked) SubmitTask(_ context.Context, q cloudjob.Work) (bool, error) {
	a.task = &q
	return false, errNothingIsSent
}

func (a *asked) Status(context.Context, string) (engine.JobStatus, error) {
	return engine.JobStatus{State: engine.Gone}, nil
}

// deployment is what terraform/ tells a launcher in production.
var deployment = map[string]string{
	"COPPICE_TASK_IMAGE":            "us-central1-docker.pkg.dev/p/coppice/task@sha256:" + strings.Repeat("a", 64),
	"COPPICE_LAUNCHER_IMAGE":        "us-central1-docker.pkg.dev/p/coppice/launcher:v1",
	"COPPICE_TASK_SERVICE_ACCOUNT":  "coppice-task@p.iam.gserviceaccount.com",
	"COPPICE_STAGE_SERVICE_ACCOUNT": "coppice-stage@p.iam.gserviceaccount.com",
	"COPPICE_NETWORK":               "projects/p/global/networks/coppice",
	"COPPICE_SUBNETWORK":            "projects/p/regions/us-central1/subnetworks/coppice",
	"COPPICE_ZONES":                 "us-central1-a,us-central1-b", "COPPICE_JOBS_TOPIC": "coppice-jobs",
	"OTEL_EXPORTER_OTLP_ENDPOINT": "https://telemetry.googleapis.com",
}

const nightly = `
name: nightly
dataset: clicks
model: ctr
metric: auc
trials: 16
search: {random: {num_leaves: {log_int: [4, 400]}}}
`

// world is a cloud in memory in which a command line is run.
type world struct {
	t       *testing.T
	buckets map[string]blob.Store
}

// run executes a command line with the given environment variables in addition to those of any deployment. It returns
// what the command has asked of the jobs, and its exit code with all that it printed.
func (w world) run(settings map[string]string, args ...string) (*asked, string) {
	env := map[string]string{"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "datasets",
		"COPPICE_SWEEPS_BUCKET": "sweeps", "COPPICE_REGISTRY_BUCKET": "registry"}
	maps.Copy(env, settings)
	var out bytes.Buffer
	a := &asked{}
	code := cli.Run(w.t.Context(), cli.Setup{
		World: program.World{Args: args, Out: program.To(&out), Err: program.To(&out), Version: "v1",
			Now: func() time.Time { return time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC) },
			Env: envconfig.MapLookuper(env)},
		Connect: func(ctx context.Context, env cli.Env) (*cli.Backends, error) {
			// For the names of jobs.
			client, err := batch.New(ctx, batch.Options{Project: env.Project, Location: env.Location,
				Endpoint: "127.0.0.1:1"})
			if err != nil {
				return nil, err
			}
			a.jobs = &jobs{batchEngine(client, env), env}
			return &cli.Backends{Bucket: func(name string) blob.Store { return w.buckets[name] }, Jobs: a, Tasks: a,
				Close: client.Close}, nil
		},
	})
	return a, fmt.Sprintf("exit code %d\n%s", code, &out)
}

// TestRequests makes whole requests to Batch as a user does, from a spec and the environment, and compares them with
// golden files: three sweeps, one of them with two fallbacks, and a staging. After a wanted change: go test
// ./launcher/command -run Requests -update
func TestRequests(t *testing.T) {
	dir, w := t.TempDir(), world{t, map[string]blob.Store{"datasets": blob.Memory(), "sweeps": blob.Memory(),
		"registry": blob.Memory()}}
	table := datasettest.Table(datasettest.Options{Rows: 1200})
	file := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, text, 0o600))
		return path
	}
	_, said := w.run(nil, "stage",
		file("clicks.yaml", fmt.Appendf(nil, "name: clicks\nsource: %s\nlabel: is_click\ndrop: [revenue]\nsplit: "+
			"{by: hash, key: user_id, train: 0.6, valid: 0.4}\n", file("clicks.csv", table))))
	if !strings.HasPrefix(said, "exit code 0\n") {
		t.Fatalf("staged: got %v; want exit code 0", said)
	}

	// Sweeps.
	for name, c := range map[string]struct {
		spec     string
		settings map[string]string
	}{
		"spot": {nightly, nil},
		"on-demand": {nightly +
			"machine: {type: n2-highmem-32, vms: 2, spot: false, zones: [us-central1-c], wait: 5m, fallback: " +
			"[{type: c4-highmem-48-lssd, zones: [us-central1-a, us-central1-f]}, {spot: true, zones: " +
			"[us-central1-b]}]}\nlimits: {sweep: 3h}\n", nil},
		"production": {nightly + "machine: {type: n2-highmem-64, threads_per_task: 8}\n", deployment},
	} {
		a, said := w.run(c.settings, "sweep", file(name+".yaml", []byte(c.spec)), "--id", "nightly-1", "--dry-run")
		if a.plan == nil || !strings.HasPrefix(said, "exit code 0\n") {
			t.Fatalf("%s: got %s; want a plan, and exit code 0", name, said)
		}
		for n := range len(a.plan.Fallback) + 1 {
			p := a.plan.Placed(n)
			golden(t, fmt.Sprintf("%s-%d", name, n), a.made(a.describe(p)), p.Fingerprint()[:batch.PlanLabelDigits])
		}
	}

	// A staging, of a table in the bucket.
	must.Get(w.buckets["datasets"].Put(t.Context(), "exports/clicks.csv", blob.Any, bytes.NewReader(table)))(t)
	a, said := w.run(deployment, "stage",
		file("export.yaml", []byte("name: export\nsource: gs://datasets/exports/*.csv\nlabel: is_click\n")), "--batch",
		"--machine", "n2-highmem-16")
	if a.task == nil || !strings.Contains(said, errNothingIsSent.Error()) {
		t.Fatalf("a staging job: got %v; want its task described, and nothing sent", said)
	}
	a.task.Env.File = filepath.Base(a.task.Env.File)
	golden(t, "staging-0", a.made(a.describeTask(*a.task)), a.task.Fingerprint)
	// One each of spot, production and the staging, and three of on-demand, which has two fallbacks.
	if files, err := os.ReadDir(filepath.Join("testdata", "requests")); err != nil || len(files) != 6 {
		t.Errorf("%d golden files, want 6, %v", len(files), err)
	}
}

// golden compares a job's request with its file in testdata. The hash, which changes with every default of the trainer
// and every version of the dataset's format, is written as zeros; it has to be there twice, as a label of the job and
// of its machines.
func golden(t *testing.T, name string, job batch.Job, hash string) {
	t.Helper()
	got, err := job.JSON()
	if err != nil {
		t.Errorf("%s: writing the job: %v, want no error", name, err)
		return
	}
	text := string(got)
	if len(hash) < batch.PlanLabelDigits || strings.Count(text, `"`+hash+`"`) != 2 {
		t.Errorf("%s: want the label %q twice in\n%s", name, hash, text)
	}
	for _, digits := range []int{len(hash), 12} { // the id of such a job has 12
		text = strings.ReplaceAll(text, hash[:digits], strings.Repeat("0", digits))
	}
	path := filepath.Join("testdata", "requests", name+".json")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// TestCommandsAreToldAsTheyAreTyped: commands in messages are named as the caller has typed the program: by the same
// relative path, else by its name. Only commands are replaced, not other words, and nothing in JSON.
func TestCommandsAreToldAsTheyAreTyped(t *testing.T) {
	for called, want := range map[string]string{
		"launcher": "coppice", "bin/launcher": "bin/launcher", "./venv/bin/coppice": "./venv/bin/coppice",
		"/usr/local/bin/launcher": "coppice", "my programs/launcher": "coppice", "a`b`/launcher": "coppice",
	} {
		must.Equal(t, typed(called, "coppice"), want, "called as %q, commands are typed as", called)
	}

	for _, c := range []struct{ args, text, want string }{
		{"fit", "launcher predict --model m; the launcher", "bin/launcher predict --model m; the launcher"},
		{"fit", "until launcher\n    plan", "until bin/launcher\n    plan"},
		{"--json", `{"next":"launcher predict"}`, `{"next":"launcher predict"}`},
		{"--json=true", `{"next":"launcher predict"}`, `{"next":"launcher predict"}`},
	} {
		var out bytes.Buffer
		w := program.World{Args: []string{c.args}, Out: program.To(&out), Err: program.To(&out)}
		rename(&w, "bin/launcher")
		if _, err := w.Out.Write([]byte(c.text)); err != nil || out.String() != c.want {
			t.Errorf("%s: %q becomes %q, error %v; want %q", c.args, c.text, out.String(), err, c.want)
		}
	}
}
