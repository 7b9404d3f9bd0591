package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"coppice/internal/engine"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/notify"
	"coppice/internal/program"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
	"coppice/internal/sweepstore"
	"coppice/launcher/internal/cloudjob"
	"coppice/launcher/internal/doctor"
	"coppice/launcher/internal/stager"
)

// world is a cloud in memory: buckets by name, and jobs that do what the test says.
type world struct {
	t       *testing.T
	dir     string // of the test's files
	buckets map[string]blob.Store
	jobs    *jobs
	runner  SweepJobs // runs sweeps in place of jobs, unless nil
	now     time.Time // the commands' clock
	ctx     context.Context
	env     map[string]string // in addition to the deployment's
	screen  bool              // the output is a terminal
	width   int               // of it; 0 if it does not tell
	in      io.Reader         // what a person types
	inspect func(context.Context, Env) (doctor.Cloud, error)
	tasks   cloudjob.Jobs
	free    bool // jobs have no price
	// verdicts are the channels for notifications.
	verdicts func(context.Context) ([]notify.Channel, func(), error)
	conclude func(context.Context) error
	// warehouse stands for BigQuery, at 6.25 USD per TiB.
	warehouse stager.Warehouse
	last      []string // the last command that had to succeed
}

// newWorld returns a deployment of empty buckets, whose clock stands at a night in November 2026.
func newWorld(t *testing.T) *world {
	w := &world{t: t, ctx: t.Context(), dir: t.TempDir(), buckets: map[string]blob.Store{},
		now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}
	for _, name := range []string{"datasets", "sweeps", "registry"} {
		w.buckets[name] = blob.Memory()
	}
	w.jobs = &jobs{sweeps: w.buckets["sweeps"], submitted: map[sweep.ID]int{}}
	return w
}

// jobs is a Batch that counts submissions. run, if set, stands for everything that happens in the cloud once a sweep is
// submitted.
type jobs struct {
	asked     func() // called before each status, unless nil
	mu        sync.Mutex
	sweeps    blob.Store
	submitted map[sweep.ID]int
	spot      bool // the last request
	cancelled bool
	status    *engine.JobStatus // the status of every job, in place of running
	away      error             // of every status, if Batch cannot be reached
	run       func(*sweep.Plan) // called at a sweep's first submission
	err       error             // of every submission
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

func (j *jobs) Status(context.Context, string) (engine.JobStatus, error) {
	if j.asked != nil {
		j.asked()
	}
	if j.away != nil {
		return engine.JobStatus{}, j.away
	}
	if j.cancelled {
		return engine.JobStatus{State: engine.Cancelled}, nil
	}
	if j.status != nil {
		return *j.status, nil
	}
	return engine.JobStatus{State: engine.Running}, nil
}

func (j *jobs) Delete(context.Context, string) error { return nil }

func (j *jobs) Cancel(context.Context, string) (engine.JobStatus, error) {
	j.cancelled = true
	return engine.JobStatus{State: engine.Cancelled}, nil
}

// run executes a command line, and returns its exit code and what it printed.
func (w *world) run(args ...string) (code int, out, errOut string) {
	var o, e bytes.Buffer
	code = w.runTo(&o, &e, args...)
	return code, o.String(), e.String()
}

// runTo is run for a command whose output is read while it runs.
func (w *world) runTo(out, errOut io.Writer, args ...string) (code int) {
	env := envconfig.MultiLookuper(envconfig.MapLookuper(w.env), envconfig.MapLookuper(map[string]string{
		"COPPICE_PROJECT": "p", "COPPICE_DATASETS_BUCKET": "datasets", "COPPICE_SWEEPS_BUCKET": "sweeps",
		"COPPICE_REGISTRY_BUCKET": "registry"}))
	return Run(w.ctx, Setup{
		World: program.World{Args: args, In: w.in, Out: program.To(out), Err: program.To(errOut), Version: "v1",
			Now: func() time.Time { return w.now }, Env: env, Terminal: w.screen, Width: w.width, ErrWidth: w.width},
		Connect: func(context.Context, Env) (*Backends, error) {
			runner := w.runner
			if runner == nil {
				runner = w.jobs
			}
			return &Backends{Bucket: func(name string) blob.Store { return w.buckets[name] }, Jobs: runner,
				Tasks: w.tasks, Free: w.free, Verdicts: w.verdicts, Conclude: w.conclude,
				Close: func() error { return nil }, USDPerTiB: 6.25,
				Warehouse: func(context.Context) (stager.Warehouse, error) { return w.warehouse, nil }}, nil
		},
		Callers: someCallers, Inspect: w.inspect,
	})
}

// must executes a command line, which has to end with 0, and returns its output.
func (w *world) must(args ...string) string {
	w.t.Helper()
	w.last = args
	code, out, errOut := w.run(args...)
	if code != 0 {
		w.t.Fatalf("%q ended with %d, want 0\n%s\n%s", args, code, out, errOut)
	}
	return out
}

// says fails unless out, mostly the last command's output, has each of these parts.
func (w *world) says(out string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if !strings.Contains(out, part) {
			w.t.Errorf("after %q: got\n%.4000s\nexpected %q in it", w.last, out, part)
		}
	}
}

// lacks fails if out has any of these parts.
func (w *world) lacks(out string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if strings.Contains(out, part) {
			w.t.Errorf("after %q: got\n%.4000s\nexpected no %q in it", w.last, out, part)
		}
	}
}

// refused executes a command line that has to end with the exit code, and an error that contains says.
func (w *world) refused(code int, says string, args ...string) {
	w.t.Helper()
	got, out, errOut := w.run(args...)
	if got != code || !strings.Contains(errOut, says) {
		w.t.Errorf("%q ended with %d, want %d and %q\n%s\n%s", args, got, code, says, out, errOut)
	}
}

// file writes a file into the world's folder, and returns its path.
func (w *world) file(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must.Do(w.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// rows writes a table of so many clicks, and returns its path.
func (w *world) rows(n int) string {
	w.t.Helper()
	return w.file("in.csv", string(datasettest.Table(datasettest.Options{Rows: n})))
}

// put writes an object, whether it exists or not.
func (w *world) put(bucket, object, text string) {
	w.t.Helper()
	must.Get(w.buckets[bucket].Put(w.t.Context(), object, blob.Any, strings.NewReader(text)))(w.t)
}

// plan reads a sweep's plan from the bucket.
func (w *world) plan(id sweep.ID) *sweep.Plan {
	w.t.Helper()
	p, _ := must.Get2(sweepstore.New(w.buckets["sweeps"], id).Plan(w.t.Context()))(w.t)
	return p
}

// spec writes sweepYAML, with each old text replaced by the new one that follows it, and returns the file's path.
func (w *world) spec(oldAndNew ...string) string {
	w.t.Helper()
	if len(oldAndNew) == 0 {
		return w.file("sweep.yaml", sweepYAML)
	}
	text := sweepYAML
	for i := 0; i < len(oldAndNew); i += 2 {
		if !strings.Contains(text, oldAndNew[i]) {
			w.t.Fatalf("%q is not in the spec, expected it there to be replaced", oldAndNew[i])
		}
		text = strings.Replace(text, oldAndNew[i], oldAndNew[i+1], 1)
	}
	return w.file("other.yaml", text)
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
final: {rows: train}
`

// fallbackYAML is that sweep with other machines in case the first are not available.
var fallbackYAML = strings.Replace(sweepYAML, "threads_per_task: 1}",
	"threads_per_task: 1, spot: true, wait: 2m, fallback: [{spot: false}]}", 1)

// clicksYAML is the spec of a dataset of clicks.csv.
const clicksYAML = "name: clicks\nsource: clicks.csv\nlabel: is_click\ndrop: [revenue]\n" +
	"split: {by: hash, key: user_id, train: 0.6, valid: 0.4}\n"

// staged stages the dataset clicks, of 1,200 rows, with the command itself, and returns what that printed.
func (w *world) staged() string {
	w.t.Helper()
	w.file("clicks.csv", string(datasettest.Table(datasettest.Options{Rows: 1200})))
	return w.must("stage", w.file("dataset.yaml", clicksYAML+"categorical: [campaign_id]\n"))
}

// newStagedWorld is a world with that dataset.
func newStagedWorld(t *testing.T) *world {
	w := newWorld(t)
	w.staged()
	return w
}

// concluded returns a run for jobs: at the submission of a sweep it writes what tasks and the aggregator would, a
// result for each trial and a conclusion with the outcome. changes edit the conclusion, whose winner is promoted
// version 1.
func (w *world) concluded(outcome sweep.Outcome, changes ...func(*sweep.Conclusion)) func(*sweep.Plan) {
	return func(p *sweep.Plan) {
		write := func(name string, v any) {
			if _, err := blobtest.CreateJSON(w.t.Context(), w.buckets["sweeps"], name, v); err != nil {
				w.t.Errorf("write %s: %v", name, err)
			}
		}
		for i := range p.Trials {
			o := sweep.Object{Name: sweep.Names(p.Sweep).Attempt(i, 0) + "x"}
			write(sweep.Names(p.Sweep).Result(i), sweep.Result{Format: 1, Sweep: p.Sweep, Trial: i,
				Status: sweep.StatusDone, Score: 0.6 + float64(i)/100, Trees: 10 + i, Model: &o,
				Scores: &sweep.Scored{Calib: o, Test: o}})
		}
		c := sweep.Conclusion{Format: 1, Sweep: p.Sweep, Outcome: outcome, Reason: "because", Trial: 3, Model: "ctr",
			Version: 1, Test: map[string]float64{"auc": 0.61}, Gate: &sweep.GateDecision{Passed: true, Promoted: true,
				Reason: "there was no champion"}}
		for _, change := range changes {
			change(&c)
		}
		write(sweep.Names(p.Sweep).Conclusion(), c)
	}
}

// register trains a model of five trees on a dataset like the staged one and registers it n times, as versions of ctr.
// The first version says that its parameters differ from the defaults, the second that they do not, the others say
// nothing.
func (w *world) register(n int) {
	w.t.Helper()
	dir, m := datasettest.Dir(w.t, datasettest.Options{Rows: 1200})
	ds := must.Get(dataset.Open(dir))(w.t)
	defer ds.Close()
	s := ds.Split("train")
	data := datasettest.Data(m, s)
	p := gbt.Defaults()
	p.NumIterations = 5
	res := must.Get(gbt.Train(w.t.Context(), data, p, gbt.Options{}))(w.t)
	var model bytes.Buffer
	must.Get(res.Model.WriteTo(&model))(w.t)
	features := must.Get(json.Marshal(m.Encoding()))(w.t)
	levels := must.Get(os.ReadFile(filepath.Join(dir, dataset.LevelsFile)))(w.t)
	reg := registry.New(w.buckets["registry"])
	for i := range n {
		files := map[string][]byte{scorer.FileModel: model.Bytes(), scorer.FileFeatures: features,
			scorer.FileLevels: levels, scorer.FileCalibrator: []byte(`{"format":1,"method":"none"}`),
			scorer.FileReport: []byte(`{"valid":{"auc":0.7},"within":{"metric":"auc"}}`),
			scorer.FileInputs: usualInputs(w.t, dir, ds)}
		switch i { // the others do not say
		case 0:
			files[scorer.FileResult] = []byte(`{"params":{"num_leaves":63,"lookahead_freq":0,"learning_rate":0.1}}`)
		case 1:
			files[scorer.FileResult] = []byte(`{"params":{"num_leaves":31,"max_bin":255}}`)
		}
		must.Get(reg.Register(w.t.Context(), "ctr", "sweep-"+strconv.Itoa(i), files,
			registry.Info{At: w.now, By: "test", Metrics: map[string]float64{"auc": 0.6}}))(w.t)
	}
}
