package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/provision"
	"coppice/launcher/internal/sweepview"
)

// world is a cloud in memory: buckets by name, and jobs that do what the test says.
type world struct {
	t       *testing.T
	dir     string
	buckets map[string]blob.Store
	jobs    *jobs
	runner  SweepJobs // in place of jobs; nil is jobs
	list    *priceList
	now     time.Time
	ctx     context.Context
	env     map[string]string // beside the deployment's
	screen  bool              // the output is a terminal
	tasks   cloudjob.Jobs
	// verdicts are the channels for notifications.
	verdicts func(context.Context) ([]notify.Channel, func(), error)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, ctx: t.Context(), dir: t.TempDir(), buckets: map[string]blob.Store{},
		now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
	for _, name := range []string{"datasets", "sweeps", "registry"} {
		w.buckets[name] = blob.Memory()
	}
	w.jobs = &jobs{sweeps: w.buckets["sweeps"], submitted: map[sweep.ID]int{}, leaving: func() {}}
	return w
}

// jobs counts submissions; run, if set, stands for everything that happens in the cloud.
type jobs struct {
	mu        sync.Mutex
	sweeps    blob.Store
	submitted map[sweep.ID]int
	spot      bool // the last request
	cancelled bool
	leaving   func()               // called when a job is cancelled
	status    *provision.JobStatus // Batch's answer, if it is not the usual one
	away      error                // Batch cannot be reached
	run       func(*sweep.Plan)
	err       error
}

func (j *jobs) Name(id sweep.ID) string { return "projects/p/locations/l/jobs/" + string(id) }
func (j *jobs) Request(p *sweep.Plan) ([]byte, error) {
	return fmt.Appendf(nil, `{"taskCount": %d, "spot": %t}`, p.Sizing.Tasks, *p.Spec.Machine.Spot), nil
}

func (j *jobs) Submit(_ context.Context, p *sweep.Plan) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return false, j.err
	}
	j.submitted[p.Sweep]++
	j.spot = *p.Spec.Machine.Spot
	if j.submitted[p.Sweep] > 1 {
		return true, nil
	}
	if j.run != nil {
		j.run(p)
	}
	return false, nil
}

func (j *jobs) Status(context.Context, string) (provision.JobStatus, error) {
	if j.away != nil {
		return provision.JobStatus{}, j.away
	}
	if j.cancelled {
		return provision.JobStatus{State: "CANCELLED", Finished: true}, nil
	}
	if j.status != nil {
		return *j.status, nil
	}
	return provision.JobStatus{State: "RUNNING"}, nil
}

func (j *jobs) Cancel(context.Context, string) (provision.JobStatus, error) {
	j.leaving()
	j.cancelled = true
	return provision.JobStatus{State: "CANCELLED", Finished: true}, nil
}

// run is one command line.
func (w *world) run(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = w.runTo(&o, &e, args...)
	return code, o.String(), e.String()
}

// runTo is run for a command that continues while its output is read.
func (w *world) runTo(out, errOut io.Writer, args ...string) (code int) {
	env := envconfig.MultiLookuper(envconfig.MapLookuper(w.env), envconfig.MapLookuper(map[string]string{
		"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "datasets", "COPPICE_SWEEPS_BUCKET": "sweeps",
		"COPPICE_REGISTRY_BUCKET": "registry"}))
	return Run(w.ctx, Setup{
		World: program.World{Args: args, Out: program.To(out), Err: program.To(errOut), Version: "v1",
			Now: func() time.Time { return w.now }, Env: env, Terminal: w.screen},
		PriceList: func(context.Context) (PriceList, error) { return w.list, nil },
		Connect: func(context.Context, Env) (*Backends, error) {
			runner := w.runner
			if runner == nil {
				runner = w.jobs
			}
			return &Backends{Bucket: func(name string) blob.Store { return w.buckets[name] }, Jobs: runner,
					Tasks: w.tasks, Verdicts: w.verdicts, Close: func() error { return nil }},
				nil
		},
		Callers: someCallers,
	})
}

func (w *world) must(args ...string) string {
	w.t.Helper()
	code, out, errOut := w.run(args...)
	if code != 0 {
		w.t.Fatalf("%q ended with %d\n%s\n%s", args, code, out, errOut)
	}
	return out
}

// refused runs a command that has to fail.
func (w *world) refused(code int, says string, args ...string) {
	w.t.Helper()
	got, out, errOut := w.run(args...)
	if got != code || !strings.Contains(errOut, says) {
		w.t.Errorf("%q ended with %d, want %d and %q\n%s\n%s", args, got, code, says, out, errOut)
	}
}

func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	return path
}

const sweepYAML = `
name: night
dataset: clicks
model: ctr
metric: auc
trials: 4
search: {random: {num_leaves: {log_int: [4, 40]}}}
machine: {type: n2-highmem-2, threads_per_task: 1}
limits: {trial: 1m, sweep: 5m}
`

// staged puts a dataset into the bucket through the command itself.
func (w *world) staged() string {
	w.t.Helper()
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1200})))
	spec := w.file("dataset.yaml",
		"name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\ncategorical: [campaign_id]\nsplit: "+
			"{by: hash, key: user_id, train: 0.6, valid: 0.4}\n")
	return w.must("stage", spec)
}

// concluded writes what tasks and the aggregator would, at once.
func (w *world) concluded(outcome sweep.Outcome) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		write := func(name string, v any) {
			if _, err := blobtest.CreateJSON(w.t.Context(), w.buckets["sweeps"], name, v); err != nil {
				w.t.Error(err)
			}
		}
		for i := range p.Trials {
			o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(i, 0) + "x"}
			write(sweep.Names(p.Sweep).Result(i), sweep.Result{Format: 1, Sweep: p.Sweep, Trial: i,
				Status: sweep.StatusDone, Score: 0.6 + float64(i)/100, Trees: 10 + i, Model: &o,
				Scores: &sweep.Scored{Calib: o, Test: o}})
		}
		write(sweep.Names(p.Sweep).Conclusion(), sweep.Conclusion{Format: 1, Sweep: p.Sweep, Outcome: outcome,
			Reason: "because", Trial: 3, Model: "ctr", Version: 1,
			Test: map[string]float64{"auc": 0.61}, Gate: &sweep.GateDecision{Passed: true, Promoted: true,
				Reason: "there was no champion"}})
	}
}

// TestNotPromoted: if the winner is not promoted, the launcher ends with an exit code and a sentence of its own.
func TestNotPromoted(t *testing.T) {
	for verdict, says := range map[sweep.Verdict][2]string{
		sweep.VerdictNotPromoted:   {"", "log_loss 0.3 is not shown to be better"},
		sweep.VerdictNotComparable: {" (it cannot be compared)", `it needs the column "price"`},
		sweep.VerdictBlocked:       {" (blocked)", "blocked: a third of the labels is missing"},
	} {
		reason := says[1]
		c := &sweep.Conclusion{Sweep: "night-1", Outcome: sweep.OutcomeWinner, Model: "ctr", Version: 7,
			Gate: &sweep.GateDecision{Verdict: verdict, Reason: reason}}
		err := notPromoted(c)
		code := map[bool]int{true: sweep.ExitBlocked, false: sweep.ExitNotPromoted}[verdict == sweep.VerdictBlocked]
		got := program.ExitCode(t.Context(), err)
		if got != code ||
			!strings.Contains(err.Error(), "version 7 of ctr is registered and was not promoted"+says[0]+": "+reason) {
			t.Errorf("%s: %v, exit code %d", verdict, err, got)
		}
	}
}

// TestTooLateToCancel has a sweep that the aggregator is concluding.
func TestTooLateToCancel(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--no-wait", "--id", "night-1")
	if _, err := blobtest.CreateJSON(t.Context(), w.buckets["sweeps"], sweep.Names("night-1").Ending(),
		sweep.Ending{Format: 1, Sweep: "night-1"}); err != nil {
		t.Fatal(err)
	}
	w.refused(sweep.ExitConflict, "too late to cancel", "cancel", "night-1")
	if _, err := w.buckets["sweeps"].Stat(t.Context(), sweep.Names("night-1").Cancel()); !errors.Is(err,
		blob.ErrNotExist) {
		t.Errorf("it was cancelled: %v", err)
	}
}

func TestStageShowsTheDataset(t *testing.T) {
	w := newWorld(t)
	out := w.staged()
	for _, part := range []string{"campaign_id", "categorical", "forced", "4009", "age", "numeric", "train", "positive",
		"gs://datasets/datasets/clicks/", "staged"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	if out := w.staged(); !strings.Contains(out, "was staged before") {
		t.Errorf("the second time:\n%s", out)
	}
	var m struct {
		Version string `json:"version"`
		Existed bool   `json:"existed"`
	}
	if err := json.Unmarshal([]byte(w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--json")), &m); err != nil ||
		len(m.Version) != 16 || !m.Existed {
		t.Errorf("stage --json, the third time: %+v, %v, expected a version of 16 digits that existed", m, err)
	}
	folder := filepath.Join(w.dir, "out")
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", folder)
	if _, err := dataset.ReadManifest(filepath.Join(folder, "clicks", m.Version)); err != nil {
		t.Error(err)
	}
	w.must("stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://registry/some/where")
	if _, err := w.buckets["registry"].Stat(t.Context(), "some/where/"+sweep.DatasetDir("clicks", m.Version)+
		"manifest.json"); err != nil {
		t.Error(err)
	}
	w.refused(sweep.ExitUsage, "gs://", "stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://")
	w.refused(sweep.ExitUsage, "..", "stage", filepath.Join(w.dir, "dataset.yaml"), "--out", "gs://registry/../x")
	w.refused(sweep.ExitNotFound, "nowhere.yaml", "stage", "nowhere.yaml")
}

func TestSweepFromPlanToWinner(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.jobs.run = w.concluded(sweep.OutcomeWinner)
	out := w.must("sweep", file)
	for _, part := range []string{"4 trials", "note:", "calib or test", "trial   3", "winner",
		"trial 3 of sweep night-", "auc 0.61", "champion: there was no champion", "launcher registry show ctr@1"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	// Again: the sweep has ended, so nothing is submitted.
	w.must("sweep", file, "--json")
	for id, n := range w.jobs.submitted {
		if n != 1 {
			t.Errorf("%s was submitted %d times", id, n)
		}
	}
	if out := w.must("ls"); !strings.Contains(out, "ctr@1") || !strings.Contains(out, "winner") {
		t.Errorf("ls:\n%s", out)
	}
	var id sweep.ID
	for id = range w.jobs.submitted {
	}
	if out := w.must("leaderboard", string(id), "--top", "2"); strings.Count(out, "num_leaves=") != 2 ||
		strings.Index(out, "0.63") > strings.Index(out, "0.62") {
		t.Errorf("leaderboard:\n%s", out)
	}
	var top sweep.Board
	if err := json.Unmarshal([]byte(w.must("leaderboard", string(id), "--top", "2", "--json")), &top); err != nil ||
		len(top.Rows) != 2 {
		t.Errorf("%d rows, %v", len(top.Rows), err)
	}
	var snap sweepview.Snapshot
	if err := json.Unmarshal([]byte(w.must("status", string(id), "--json")), &snap); err != nil || snap.Done != 4 ||
		snap.Best.Trial != 3 || snap.Conclusion == nil {
		t.Errorf("status --json: %+v, %v, expected 4 trials done, the best of them 3, and a conclusion", snap, err)
	}
	if out := w.must("cancel", string(id)); !strings.Contains(out, "its job was still running, and is cancelled") ||
		!w.jobs.cancelled {
		t.Errorf("cancelled a running sweep: got %s; want its job cancelled, and that said", out)
	}
	w.refused(sweep.ExitConflict, "nothing to cancel", "cancel", string(id))
	w.refused(sweep.ExitNotFound, "launcher ls", "watch", "nobody")
	if out := w.must("sweep", file, "--no-wait"); !strings.Contains(out, "has already ended (winner)") ||
		strings.Contains(out, "submitted") {
		t.Errorf("swept again after the end: got %s; want the outcome, and nothing submitted", out)
	}
	w.refused(sweep.ExitUsage, "--top is -3", "leaderboard", string(id), "--top", "-3")
	w.refused(sweep.ExitInput, "use 1 to 63 of", "status", "Night")
	w.refused(sweep.ExitUsage, `"@latst" is no sweep: give its id, or @latest`, "status", "@latst")

	// A plan that cannot be read hides no other sweep.
	if _, err := blob.Create(t.Context(), w.buckets["sweeps"], sweep.Names("broken").Plan(), []byte("{")); err != nil {
		t.Fatal(err)
	}
	if out := w.must("ls"); !strings.Contains(out, "unreadable") || !strings.Contains(out, string(id)) {
		t.Errorf("ls:\n%s", out)
	}
	w.refused(sweep.ExitInput, "sweep broken:", "status", "broken")

	// Nor does a conclusion.
	if _, err := w.buckets["sweeps"].Put(t.Context(), sweep.Names(id).Conclusion(), blob.Any,
		strings.NewReader("{")); err != nil {
		t.Fatal(err)
	}
	if out := w.must("ls"); strings.Count(out, "unreadable") != 2 {
		t.Errorf("ls with a damaged conclusion:\n%s", out)
	}
	w.refused(sweep.ExitInput, "not a conclusion", "status", string(id))
}

// TestNoPlanWithoutBatch: a plan without a job would be concluded, and its id would be spent.
func TestNoPlanWithoutBatch(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.away = errors.New("no answer")
	w.refused(sweep.ExitError, "no answer", "sweep", w.file("sweep.yaml", sweepYAML))
	for attrs, err := range w.buckets["sweeps"].List(t.Context(), "") {
		t.Errorf("the bucket has %q (%v), want it empty: no plan without a job", attrs.Name, err)
	}
}

// TestCtrlCSaysThatTheSweepGoesOn stops watching.
func TestCtrlCSaysThatTheSweepGoesOn(t *testing.T) {
	w := newWorld(t)
	w.staged()
	ctx, stop := context.WithCancel(t.Context())
	w.ctx, w.jobs.run = ctx, func(*sweep.Plan) { stop() }
	w.refused(sweep.ExitInterrupt, "sweep night-1 continues: `launcher watch night-1`", "sweep",
		w.file("sweep.yaml", sweepYAML), "--id", "night-1")
}

func TestSweepWithoutAWinner(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.jobs.run = w.concluded(sweep.OutcomeNoWinner)
	w.refused(sweep.ExitNoWinner, "because", "sweep", w.file("sweep.yaml", sweepYAML))
}

func TestSweepIDs(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	out := w.must("sweep", file, "--id", "nightly-1", "--no-wait")
	if !strings.Contains(out, "launcher watch nightly-1") || w.jobs.submitted["nightly-1"] != 1 {
		t.Errorf("a sweep with an id: got %s; want one job, and the command to watch it", out)
	}
	w.now = w.now.Add(time.Hour)
	if out := w.must("sweep", file, "--id", "nightly-1", "--no-wait"); !strings.Contains(out, "attached") {
		t.Errorf("the same sweep again: got %s; want it attached", out)
	}
	other := w.file("other.yaml", strings.Replace(sweepYAML, "trials: 4", "trials: 5", 1))
	w.refused(sweep.ExitConflict, "another plan", "sweep", other, "--id", "nightly-1", "--no-wait")
	w.refused(sweep.ExitUsage, "sweep id", "sweep", file, "--id", "../x")
}

// TestSubmissionThatFailsIsTakenUp: the plan is written before the job is submitted, so the next run can submit it.
func TestSubmissionThatFailsIsTakenUp(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	w.jobs.err = errors.New("no quota")
	w.refused(sweep.ExitError, "no quota", "sweep", file, "--id", "x", "--no-wait")
	w.jobs.err = nil
	w.must("sweep", file, "--id", "x", "--no-wait")
	if w.jobs.submitted["x"] != 1 {
		t.Errorf("submitted %d times", w.jobs.submitted["x"])
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.staged()
	file := w.file("sweep.yaml", sweepYAML)
	out := w.must("sweep", file, "--dry-run")
	for _, part := range []string{"num_leaves", "random", `"taskCount": 2`, "private to a trial",
		"dataset, once per machine"} {
		if !strings.Contains(out, part) {
			t.Errorf("it does not show %q:\n%s", part, out)
		}
	}
	var both struct {
		Plan    sweep.Plan      `json:"plan"`
		Request json.RawMessage `json:"request"`
	}
	if err := json.Unmarshal([]byte(w.must("sweep", file, "--dry-run", "--json")), &both); err != nil ||
		len(both.Plan.Trials) != 4 || len(both.Request) == 0 {
		t.Errorf("sweep --dry-run --json: %+v, %v, expected a plan of 4 trials and a request", both, err)
	}
	for attrs, err := range w.buckets["sweeps"].List(t.Context(), "") {
		t.Errorf("%s was written (%v)", attrs.Name, err)
	}
	if len(w.jobs.submitted) > 0 {
		t.Error("a job was submitted")
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.staged()
	w.must("sweep", w.file("sweep.yaml", sweepYAML), "--id", "x", "--no-wait")
	if out := w.must("cancel", "x"); !strings.Contains(out, "CANCELLED") || !w.jobs.cancelled {
		t.Errorf("cancelled sweep x: got %s; want its job cancelled, and that said", out)
	}
	read := func() string {
		data, _, err := blob.ReadAll(t.Context(), w.buckets["sweeps"], sweep.Names("x").Cancel(), 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := read()
	if !strings.Contains(first, `"format": 1`) || !strings.Contains(first, `"sweep": "x"`) {
		t.Errorf("cancelling wrote %s, want a format and the sweep", first)
	}
	w.refused(sweep.ExitNoWinner, "cancelled", "watch", "x")
	w.must("cancel", "x")
	if again := read(); again != first {
		t.Errorf("cancelling again made %s of %s; it is created once", again, first)
	}
}

// register trains a model on the staged dataset and registers it n times.
func (w *world) register(n int) {
	w.t.Helper()
	dir, m := datasettest.Dir(w.t, datasettest.Options{Rows: 1200})
	ds, err := dataset.Open(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	defer ds.Close()
	s := ds.Split("train")
	data := datasettest.Data(m, s)
	p := gbt.Defaults()
	p.NumIterations = 5
	res, err := gbt.Train(w.t.Context(), data, p, gbt.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	var model bytes.Buffer
	if _, err := res.Model.WriteTo(&model); err != nil {
		w.t.Fatal(err)
	}
	features, err := json.Marshal(m.Encoding())
	if err != nil {
		w.t.Fatal(err)
	}
	levels, err := os.ReadFile(filepath.Join(dir, dataset.LevelsFile))
	if err != nil {
		w.t.Fatal(err)
	}
	reg := registry.New(w.buckets["registry"])
	for i := range n {
		files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileFeatures: features,
			scorer.FileLevels: levels, scorer.FileCalibrator: []byte(`{"format":1,"method":"none"}`),
			scorer.FileReport: []byte(`{"valid":{"auc":0.7}}`), scorer.FileInputs: usualInputs(w.t, dir, ds)}
		switch i { // the others do not say
		case 0:
			files[scorer.FileResult] = []byte(`{"params":{"num_leaves":63,"lookahead_freq":0,"learning_rate":0.1}}`)
		case 1:
			files[scorer.FileResult] = []byte(`{"params":{"num_leaves":31,"max_bin":255}}`)
		}
		if _, err := reg.Register(w.t.Context(), "ctr", "sweep-"+strconv.Itoa(i), files,
			registry.Info{At: w.now, By: "test", Metrics: map[string]float64{"auc": 0.6}}); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestRegistryCommands(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitNotFound, "ctr", "registry", "show", "ctr")
	w.register(3)
	w.refused(sweep.ExitNotFound, "ctr", "registry", "rollback", "ctr")
	w.must("registry", "promote", "ctr@2", "--why", "approved")
	if out := w.must("registry", "promote", "ctr@3"); !strings.Contains(out, "2 -> 3") {
		t.Errorf("promoted version 3: got %s; want 2 -> 3", out)
	}
	if out := w.must("registry", "rollback", "ctr", "--why", "worse"); !strings.Contains(out, "3 -> 2") {
		t.Errorf("rolled back: got %s; want 3 -> 2", out)
	}
	for _, args := range [][]string{{"list"}, {"list", "ctr"}, {"show", "ctr"}, {"show", "ctr@champion"},
		{"show", "ctr@2"}} {
		if out := w.must(append([]string{"registry"}, args...)...); !strings.Contains(out, "2") ||
			!strings.Contains(out, "auc 0.6") && args[0] == "show" {
			t.Errorf("registry %q: got %s; want version 2, and with show its AUC of .6", args, out)
		}
	}
	if out := w.must("registry", "show", "ctr@1", "--file", "model.txt"); !strings.HasPrefix(out, "tree\n") {
		t.Errorf("model.txt: %.50q", out)
	}
	for version, want := range map[string]string{"ctr@1": "lookahead_freq=0 num_leaves=63 ", "ctr@2": "the defaults",
		"ctr@3": ""} {
		out := w.must("registry", "show", version)
		if !strings.Contains(out, want) || strings.Contains(out, "parameters") != (want != "") ||
			strings.Contains(out, "learning_rate") {
			t.Errorf("%s does not show its parameters, %q:\n%s", version, want, out)
		}
	}
	out := w.must("registry", "history", "ctr")
	for _, part := range []string{"registered", "promoted champion", "rolled_back champion", "approved", "worse",
		"3 -> 2"} {
		if !strings.Contains(out, part) {
			t.Errorf("the history does not show %q:\n%s", part, out)
		}
	}
	var v []registry.Version
	if err := json.Unmarshal([]byte(w.must("registry", "list", "ctr", "--json")), &v); err != nil || len(v) != 3 {
		t.Errorf("registry list --json: %v, %v, expected 3 versions", v, err)
	}
	w.refused(sweep.ExitNotFound, "9", "registry", "show", "ctr@9")
	w.refused(sweep.ExitNotFound, "no.txt", "registry", "show", "ctr@1", "--file", "no.txt")
	w.refused(sweep.ExitUsage, "MODEL@VERSION", "registry", "promote", "ctr@best")
	w.refused(sweep.ExitInput, "../x", "registry", "list", "../x")
}

func TestPredict(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	table := datasettest.Table(datasettest.Options{Rows: 700, Seed: 8})
	in := w.file("in.csv", string(table))
	out := filepath.Join(w.dir, "out.csv")
	w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--keep", "user_id,site", "--raw")
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 701 {
		t.Fatalf("the predictions have %d lines, %v, expected a header and 700 rows", len(rows), err)
	}
	if strings.Join(rows[0], ",") != "user_id,site,prediction,raw_score" {
		t.Errorf("header %q", rows[0])
	}
	users := strings.Split(string(table), "\n")
	for i, row := range rows[1:] {
		p, err1 := strconv.ParseFloat(row[2], 64)
		raw, err2 := strconv.ParseFloat(row[3], 64)
		if err1 != nil || err2 != nil || math.Abs(p-gbt.Probability(raw)) > 1e-15 ||
			!strings.HasPrefix(users[i+1], row[0]+",") {
			t.Fatalf("row %d: %q", i, row)
		}
	}
	// Through Parquet and back: the same predictions.
	parquet := filepath.Join(w.dir, "out.parquet")
	w.must("predict", "--model", "ctr@1", "--in", in, "--out", parquet, "--keep",
		"user_id,campaign_id,site,hour,age,price,day")
	again := filepath.Join(w.dir, "again.csv")
	w.must("predict", "--model", "ctr", "--in", parquet, "--out", again, "--keep", "user_id,site", "--raw")
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("scored from Parquet, the output differs: %v", err)
	}
	var sum map[string]any
	if err := json.Unmarshal([]byte(w.must("predict", "--model", "ctr", "--in", in, "--out", out, "--json")),
		&sum); err != nil || sum["rows"] != 700.0 {
		t.Errorf("predict --json: %v, %v, expected 700 rows", sum, err)
	}
}

func TestPredictRefuses(t *testing.T) {
	w := newWorld(t)
	w.register(1)
	in := w.file("in.csv", string(datasettest.Table(datasettest.Options{Rows: 50})))
	short := w.file("short.csv", "user_id,site\nu1,site2\n")
	ragged := w.file("ragged.csv",
		"user_id,campaign_id,site,hour,age,price,day\nu1,4000,site2,3,20,1.5,2026-11-01\nu1\n")
	out := filepath.Join(w.dir, "out.csv")
	w.refused(sweep.ExitInput, `short.csv: column "age"`, "predict", "--model", "ctr", "--in", short, "--out", out)
	w.refused(sweep.ExitInput, "ragged.csv:3", "predict", "--model", "ctr", "--in", ragged, "--out", out)
	w.refused(sweep.ExitUsage, ".parquet", "predict", "--model", "ctr", "--in", in, "--out",
		filepath.Join(w.dir, "out.xls"))
	w.refused(sweep.ExitUsage, "no such column", "predict", "--model", "ctr", "--in", in, "--out", out, "--keep",
		"nobody")
	w.refused(sweep.ExitNotFound, "nowhere", "predict", "--model", "ctr", "--in", filepath.Join(w.dir, "nowhere.csv"),
		"--out", out)
	w.refused(sweep.ExitUsage, "give --in and --out: ", "predict", "--model", "ctr")
	w.refused(sweep.ExitUsage, "given twice", "predict", "--model", "ctr", "--in", in, "--out", out, "--keep",
		"site,site")
	w.refused(sweep.ExitUsage, "one character", "predict", "--model", "ctr", "--in", in, "--out", out, "--delimiter",
		";;")
	w.refused(sweep.ExitUsage, "use none", "predict", "--model", "ctr", "--in", in, "--out", out, "--quote", "'")
	stray := w.file("stray.csv", "user_id,campaign_id,site,hour,age,price,day\nu1,4000,si\"te2,3,20,1.5,2026-11-01\n")
	w.refused(sweep.ExitInput, "--quote none of `launcher predict`", "predict", "--model", "ctr", "--in", stray,
		"--out", out)
	w.must("predict", "--model", "ctr", "--in", stray, "--out", filepath.Join(w.dir, "stray-out.csv"), "--quote",
		"none")
	w.refused(sweep.ExitUsage, "--out nodir/x.csv: folder nodir does not exist\n", "predict", "--model", "ctr", "--in",
		in, "--out", "nodir/x.csv")
	w.refused(sweep.ExitUsage, "--out gs://b/x.csv: predictions are written to a local file\n", "predict", "--model",
		"ctr", "--in", in, "--out", "gs://b/x.csv")
	folder := t.TempDir()
	w.refused(sweep.ExitUsage, "--out "+folder+" is a folder; give the file's name, too\n", "predict", "--model", "ctr",
		"--in", in, "--out", folder)
	w.refused(sweep.ExitUsage, "only local files", "predict", "--model", "ctr", "--in", "gs://b/x.csv", "--out", out)
	before, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	w.refused(sweep.ExitUsage, "it is the table to score", "predict", "--model", "ctr", "--in", in, "--out",
		filepath.Join(filepath.Dir(in), ".", "in.csv"))
	if after, err := os.ReadFile(in); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the table was overwritten: %v", err)
	}
	w.refused(sweep.ExitUsage, "unknown command", "registry", "bogus")
	if _, err := os.Stat(out); err == nil {
		t.Error("an output was left behind")
	}
}
