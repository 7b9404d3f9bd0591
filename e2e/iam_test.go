//go:build e2e

package e2e

import (
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/sweep"
	"coppice/localemu/gcsemu"
	"coppice/terraform"
)

// What each binding of the programs' accounts is for, seen by taking it away: the local cloud enforces
// terraform/iam.yaml.

// What is run to see it; $1 is the launcher.
const (
	launches = `"$1" sweep sweep.yaml --json`
	jobEnds  = `"$1" sweep sweep.yaml --id one --no-wait; until "$1" status one --json >status.json && grep -q ` +
		`'"finished": true' status.json; do sleep 0.02; done; cat status.json; grep -q '"SUCCEEDED"' status.json`
	concludes = `"$(dirname "$1")/aggregator" reconcile`
	promotes  = `"$1" registry promote ctr@1 --why test`
	stages    = `"$1" stage bucket.yaml --json`
	again     = `"$1" registry reproduce ctr@1 --batch --json`
	staging   = `"$1" stage bucket.yaml --batch --json`
)

// seen is how a missing binding is seen: by what is run, in which of the worlds of iamWorlds. Only launches has an
// aggregator.
type seen struct{ world, as, script string }

var noticed = map[string]seen{
	"launcher project roles/batch.jobsEditor":                {"staged", terraform.Launcher, launches},
	"launcher account/task roles/iam.serviceAccountUser":     {"staged", terraform.Launcher, launches},
	"launcher account/stager roles/iam.serviceAccountUser":   {"exported", terraform.Launcher, staging},
	"launcher bucket/datasets roles/storage.objectUser":      {"staged", terraform.Launcher, launches},
	"launcher bucket/sources roles/storage.objectViewer":     {"exported", terraform.Launcher, stages},
	"launcher bucket/sweeps roles/storage.objectViewer":      {"staged", terraform.Launcher, launches},
	"launcher bucket/sweeps roles/storage.objectCreator":     {"staged", terraform.Launcher, launches},
	"launcher bucket/registry roles/storage.objectUser":      {"concluded", terraform.Launcher, promotes},
	"task project roles/batch.agentReporter":                 {"staged", terraform.Launcher, jobEnds},
	"task repository/images roles/artifactregistry.reader":   {"staged", terraform.Launcher, jobEnds},
	"task bucket/datasets roles/storage.objectViewer":        {"staged", terraform.Launcher, jobEnds},
	"task bucket/sweeps roles/storage.objectUser":            {"staged", terraform.Launcher, jobEnds},
	"stager project roles/batch.agentReporter":               {"exported", terraform.Launcher, staging},
	"stager repository/images roles/artifactregistry.reader": {"exported", terraform.Launcher, staging},
	"stager bucket/sources roles/storage.objectViewer":       {"exported", terraform.Launcher, staging},
	"stager bucket/datasets roles/storage.objectUser":        {"exported", terraform.Launcher, staging},
	"stager bucket/registry roles/storage.objectViewer":      {"concluded", terraform.Launcher, again},
	"aggregator subscription/scores roles/pubsub.subscriber": {"staged", terraform.Launcher, launches},
	"aggregator bucket/datasets roles/storage.objectViewer":  {"trained", terraform.Aggregator, concludes},
	"aggregator bucket/sweeps roles/storage.objectViewer":    {"trained", terraform.Aggregator, concludes},
	"aggregator bucket/sweeps roles/storage.objectCreator":   {"trained", terraform.Aggregator, concludes},
	"aggregator bucket/registry roles/storage.objectUser":    {"trained", terraform.Aggregator, concludes},
	"aggregator project roles/batch.jobsViewer":              {"orphaned", terraform.Aggregator, concludes},
}

// unnoticed are the bindings without which everything here goes on as before, and why.
var unnoticed = map[string]string{
	"task topic/scores roles/pubsub.publisher": "messages are hints: the next reconciliation " +
		"ends the sweep (TestE2ESameEndWhateverGoesWrong, no message at all)",
	"aggregator object/checkpoints roles/storage.objectUser": "what remains in a sweep that has ended fails nothing " +
		"(TestE2ECancelledWhilePaused needs it)",
	"launcher project roles/logging.logWriter":         "the local cloud has no Cloud Logging",
	"task project roles/logging.logWriter":             "the local cloud has no Cloud Logging",
	"stager project roles/logging.logWriter":           "the local cloud has no Cloud Logging",
	"aggregator project roles/logging.logWriter":       "the local cloud has no Cloud Logging",
	"task project roles/monitoring.metricWriter":       "the local cloud has no Cloud Monitoring",
	"aggregator project roles/monitoring.metricWriter": "the local cloud has no Cloud Monitoring",
	"launcher topic/verdicts roles/pubsub.publisher": "a verdict that cannot be told fails nothing; a " +
		"doctor and the log say so",
	"aggregator topic/verdicts roles/pubsub.publisher": "a verdict that cannot be told fails nothing; a " +
		"doctor and the log say so",
	"launcher secret/webhook roles/secretmanager.secretAccessor":   "the local cloud has no Secret Manager",
	"aggregator secret/webhook roles/secretmanager.secretAccessor": "the local cloud has no Secret Manager",
	"task topic/jobs roles/pubsub.publisher": "the local cloud's Batch publishes in its own " +
		"name, and messages about jobs are hints, too",
}

// row is a binding as --without takes it.
func row(b terraform.Binding) string { return b.Identity + " " + b.Resource + " " + b.Role }

// iamWorld is a local cloud whose folder is put back to a known state before each run.
type iamWorld struct {
	*local
	kept string // folder of the states
}

// restore makes the state the present one; keep keeps the present one.
func (w *iamWorld) restore(name string) { w.copy(filepath.Join(w.kept, name), w.data) }

func (w *iamWorld) keep(name string) { w.copy(w.data, filepath.Join(w.kept, name)) }

func (w *iamWorld) copy(from, to string) {
	w.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		w.t.Fatal(err)
	}
	execute(w.t, w.dir, nil, "cp", "-a", from, to).ok(w.t)
}

// with runs a script as an identity, with the table less some bindings.
func (w *iamWorld) with(s seen, without ...string) ran {
	w.t.Helper()
	w.restore(s.world)
	w.args = []string{"--enforce-iam", "--as", s.as}
	if s.script != launches {
		w.args = append(w.args, "--aggregator", "none")
	}
	for _, b := range without {
		w.args = append(w.args, "--without", b)
	}
	return w.script(s.script)
}

func (w *iamWorld) must(s seen) {
	w.t.Helper()
	if r := w.with(s); r.code != 0 || s.script == again && strings.Count(r.out, `"same": true`) < 3 {
		w.t.Fatalf("with all rights %+v ended with %d\n%s\n%s", s, r.code, r.out, r.errOut)
	}
}

// iamStates are made once; every test puts them back into a folder of its own. files are what the commands are given.
var iamStates struct {
	once        sync.Once
	dir         string // "" if they could not be made
	kept, files string
}

// newIAMWorld has the states exported (a table in a bucket), staged (and as a dataset), trained (all trials have ended,
// not concluded), concluded (version 1 is registered) and orphaned (a sweep whose job is gone).
func newIAMWorld(t *testing.T) *iamWorld {
	t.Helper()
	iamStates.once.Do(func() { makeIAMStates(t) })
	if iamStates.dir == "" {
		t.Fatal("the states of the world could not be made: the first test that wanted them says why")
	}
	w := &iamWorld{local: newLocal(t), kept: iamStates.kept}
	if err := os.CopyFS(w.dir, os.DirFS(iamStates.files)); err != nil {
		t.Fatal(err)
	}
	return w
}

// makeIAMStates runs every step with the rights of its program only.
func makeIAMStates(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "coppice-iam-")
	if err != nil {
		t.Fatal(err)
	}
	made := false
	defer func() {
		if !made {
			os.RemoveAll(dir)
		}
	}()

	w := &iamWorld{local: newLocal(t), kept: filepath.Join(dir, "kept")}
	if err := os.Mkdir(w.kept, 0o755); err != nil {
		t.Fatal(err)
	}
	w.smallSweep(2)
	w.file("sweep.yaml", strings.Replace(w.read("sweep.yaml"), "num_iterations: 80", "num_iterations: 5", 1))
	w.file("long.yaml", "final: {rows: train}\n"+strings.Replace(w.read("sweep.yaml"),
		"early_stopping_rounds: 10\nparams: {num_iterations: 5}",
		"params: {num_iterations: 100000}", 1))
	w.file("bucket.yaml", strings.Replace(w.read("dataset.yaml"), "source: clicks.parquet",
		"source: gs://coppice-exports/clicks.parquet", 1))
	if err := os.RemoveAll(w.data); err != nil { // the dataset in it came from a file
		t.Fatal(err)
	}
	w.export("clicks.parquet")
	w.keep("exported")
	w.must(seen{"exported", terraform.Launcher, stages})
	w.keep("staged")
	w.must(seen{"staged", terraform.Launcher, jobEnds})
	w.keep("trained")
	w.must(seen{"trained", terraform.Aggregator, concludes})
	w.keep("concluded")
	w.must(seen{"staged", terraform.Launcher, `"$1" sweep long.yaml --no-wait`})
	w.keep("orphaned")

	if err := os.RemoveAll(w.data); err != nil {
		t.Fatal(err)
	}
	iamStates.kept, iamStates.files = w.kept, filepath.Join(dir, "files")
	w.copy(w.dir, iamStates.files)
	iamStates.dir, made = dir, true
}

// export puts a file into a bucket that the deployment did not make.
func (w *iamWorld) export(name string) {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := gcsemu.Start(l, gcsemu.Options{Dir: filepath.Join(w.data, "gcs")})
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	if err := s.CreateBucket("coppice-exports"); err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.Post("http://"+s.Addr()+"/upload/storage/v1/b/coppice-exports/o?uploadType=media&name="+name,
		"application/octet-stream", strings.NewReader(w.read(name)))
	if err != nil {
		w.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		w.t.Fatalf("uploading %s was answered with %s", name, answer.Status)
	}
}

// logs is everything that processes of the last run have written.
func (w *iamWorld) logs() string {
	var all strings.Builder
	_ = filepath.WalkDir(filepath.Join(w.data, "logs"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := os.ReadFile(path)
			all.Write(text)
		}
		return nil
	})
	return all.String()
}

// ours are the bindings of the programs' accounts.
func ours(t *testing.T) (rows []terraform.Binding) {
	t.Helper()
	table, err := terraform.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, identity := range []string{terraform.Launcher, terraform.Task, terraform.Stager, terraform.Aggregator} {
		rows = append(rows, table.Of(identity)...)
	}
	return rows
}

// TestE2ERights: with the rights of the table everything works, and with any binding less something fails, for that
// reason.
func TestE2ERights(t *testing.T) {
	t.Parallel()
	w := newIAMWorld(t)
	r := w.with(seen{"staged", terraform.Launcher, launches})
	if r.code != 0 || conclusion(t, r.out).Outcome != sweep.OutcomeWinner {
		t.Fatalf("a sweep with the rights of the table: %d\n%s\n%s", r.code, r.out, r.errOut)
	}
	tried := map[seen]bool{}
	for _, s := range noticed { // or a failure below would say nothing
		if !tried[s] {
			w.must(s)
		}
		tried[s] = true
	}
	known := slices.Sorted(maps.Keys(noticed))
	for _, b := range ours(t) {
		name := row(b)
		s, ok := noticed[name]
		if why := unnoticed[name]; ok == (why != "") {
			t.Errorf("%s: say in noticed how one sees that it is missing, or in unnoticed why one cannot", name)
		}
		if !ok {
			t.Logf("not noticed without %s: %s", name, unnoticed[name])
			continue
		}
		known = slices.DeleteFunc(known, func(k string) bool { return k == name })
		t.Run(name, func(t *testing.T) {
			r := w.with(s, name)
			if said := r.out + r.errOut + w.logs(); r.code == 0 || !strings.Contains(said, "denied on resource") {
				t.Errorf("without it: %d\n%s", r.code, said)
			}
		})
	}
	if len(known) > 0 {
		t.Errorf("not in terraform/iam.yaml: %q", known)
	}
}

// TestE2ENightsLeaveTheRegistry: what a schedule starts needs no right on the registry, which iam.yaml says of it.
func TestE2ENightsLeaveTheRegistry(t *testing.T) {
	t.Parallel()
	w := newIAMWorld(t)
	const without = "launcher bucket/registry roles/storage.objectUser"
	for _, s := range []seen{{"staged", terraform.Launcher, launches}, {"exported", terraform.Launcher, staging}} {
		if r := w.with(s, without); r.code != 0 {
			t.Errorf("%s without %q ended with exit code %d, expected 0\n%s\n%s", s.script, without, r.code, r.out,
				r.errOut)
		}
	}
}
