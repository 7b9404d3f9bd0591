package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/cloud/batch"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cli"
	"coppice/launcher/internal/cloudjob"
)

var update = flag.Bool("update", false, "rewrite the golden files under testdata")

// asked are the launcher's jobs; what a command asks of them is kept, and nothing is sent.
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

// run is one command line with settings beside those of any deployment: what it asked for, and what it said.
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

// TestRequests makes whole requests the way that a user does, from a spec and the environment, and compares them with
// golden files. After a wanted change: go test ./launcher -run Requests -update
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
	must.Get(w.buckets["datasets"].Put(t.Context(), "exports/clicks.csv", blob.Any, bytes.NewReader(table)))(t)
	a, said := w.run(deployment, "stage",
		file("export.yaml", []byte("name: export\nsource: gs://datasets/exports/*.csv\nlabel: is_click\n")), "--batch",
		"--machine", "n2-highmem-16")
	if a.task == nil || !strings.Contains(said, errNothingIsSent.Error()) {
		t.Fatalf("a staging job: got %v; want its task described, and nothing sent", said)
	}
	a.task.Env.File = filepath.Base(a.task.Env.File)
	golden(t, "staging-0", a.made(a.describeTask(*a.task)), a.task.Fingerprint)
	if files, err := os.ReadDir(filepath.Join("testdata", "requests")); err != nil || len(files) != 6 {
		t.Errorf("%d golden files, want 6, %v", len(files), err)
	}
}

// golden compares a job's request with its file. Hashes, which change with every trainer's default and every version of
// the dataset's format, are written as zeros.
func golden(t *testing.T, name string, job batch.Job, hash string) {
	t.Helper()
	got, err := job.JSON()
	if err != nil {
		t.Errorf("%s: the job cannot be written: %v", name, err)
		return
	}
	text := string(got)
	// label of the job and of its machines
	if len(hash) < batch.PlanLabelDigits || strings.Count(text, `"`+hash+`"`) != 2 {
		t.Errorf("%s: the label %q is not there twice:\n%s", name, hash, text)
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
