//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/registry"
	"coppice/internal/sweep"
)

// programs are built once for all whole-program tests, where `make build` and `make demo` have them.
var programs = sync.OnceValues(func() (folder string, err error) {
	cmd := exec.Command("make", "build")
	cmd.Env = builder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return filepath.Abs("bin")
})

// TestMain runs all tests in the project's root, where a user is, with settings of their own, and removes what programs
// left.
func TestMain(m *testing.M) {
	err, prices := os.Chdir(".."), ""
	if err == nil {
		prices, err = writePrices()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}

	builder = os.Environ()
	os.Setenv("COPPICE_PRICES", prices)
	code := m.Run()
	os.Remove(prices)
	os.Exit(code)
}

// builder is the environment for building.
var builder []string

// writePrices makes a file of the prices.
func writePrices() (string, error) {
	f, err := os.CreateTemp("", "coppice-prices-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(priceFile)
	return f.Name(), errors.Join(err, f.Close())
}

func binaryOf(t *testing.T, name string) string {
	t.Helper()
	folder, err := programs()
	if err != nil {
		t.Fatalf("build the programs: %v", err)
	}
	return filepath.Join(folder, name)
}

// local is a local cloud on a folder of its own.
type local struct {
	t    *testing.T
	dir  string // files of the test
	data string // of localemu
	args []string
}

func newLocal(t *testing.T, args ...string) *local {
	t.Helper()
	dir := t.TempDir()
	return &local{t: t, dir: dir, data: filepath.Join(dir, "cloud"), args: args}
}

// priceFile are the prices of every test: neither the developer's own, nor a newer table in the program, change what a
// budget buys.
const priceFile = `{"sources": {"test": "made up"}, "prices": [{"family": "n2", "region": "us-central1", "date": "9999-12-31", "source": "test",
  "on_demand": {"vcpu": 0.031611, "gib": 0.004237, "ssd": 0.08}, "spot": {"vcpu": 0.01814, "gib": 0.002432, "ssd": 0.048}}]}
`

// file writes a file of the test and returns its path.
func (l *local) file(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	must.Do(l.t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// ran is a finished program.
type ran struct {
	command     []string
	code        int
	out, errOut string
}

// ok ends the test unless the program has succeeded.
func (r ran) ok(t *testing.T) {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("%q ended with exit code %d, expected 0:\n%s\n%s", r.command, r.code, r.out, r.errOut)
	}
}

// run runs one command line inside the local cloud.
func (l *local) run(command ...string) ran {
	l.t.Helper()
	command[0] = binaryOf(l.t, command[0])
	args := slices.Concat([]string{"exec", "--data", l.data}, l.args, []string{"--"}, command)
	return execute(l.t, l.dir, nil, binaryOf(l.t, "localemu"), args...)
}

// must is run for commands that have to succeed.
func (l *local) must(command ...string) string {
	l.t.Helper()
	r := l.run(command...)
	r.ok(l.t)
	return r.out
}

func execute(t *testing.T, dir string, env []string, program string, args ...string) ran {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	if env != nil {
		cmd.Env = env
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", program, err)
	}
	return ran{cmd.Args, cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// objects are the names and contents of everything in the local cloud's buckets.
func (l *local) objects() map[string]string {
	l.t.Helper()
	out := map[string]string{}
	root := filepath.Join(l.data, "gcs")
	must.Do(l.t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && strings.HasPrefix(d.Name(), ".") && filepath.Dir(path) == root { // the emulator's own
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		out[filepath.ToSlash(name)] = string(data)
		return err
	}))
	return out
}

// decode reads the JSON that a program has written.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("expected JSON: %v in\n%s", err, text)
	}
}

// conclusion is the last line of `launcher sweep --json`.
func conclusion(t *testing.T, out string) *sweep.Conclusion {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last struct {
		Conclusion *sweep.Conclusion `json:"conclusion"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Conclusion == nil {
		t.Fatalf("no conclusion (%v) in\n%s", err, out)
	}
	return last.Conclusion
}

// versions are the versions of a model.
func (l *local) versions(model string) []registry.Version {
	l.t.Helper()
	var v []registry.Version
	decode(l.t, l.must("launcher", "registry", "list", model, "--json"), &v)
	return v
}

// realData is the folder of real tables, which are not part of the project.
func realData(t *testing.T, file string) string {
	t.Helper()
	dir := os.Getenv("COPPICE_DATA")
	if dir == "" {
		dir = "../shared/data"
	}
	path := must.Get(filepath.Abs(filepath.Join(dir, file)))(t)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED, AND WITH IT A WHOLE PART OF THE TEST: %s is missing; `make e2e DATA=folder` says where "+
			"the real tables are", path)
	}
	return path
}

const fiftyTrials = `
objective: binary
metric: average_precision
trials: 50
seed: 11
early_stopping_rounds: 15
params: {num_iterations: 120}
search:
  fixed: [{}]
  grid: {num_leaves: [7, 15, 31], min_data_in_leaf: [20, 200]}
  random:
    learning_rate: {log_uniform: [0.03, 0.3]}
    num_leaves: {log_int: LEAVES}
    max_depth: {choice: [-1, 8, 10]}
    min_data_in_leaf: {log_int: [10, 1000]}
    feature_fraction: {uniform: [0.3, 1.0]}
    lambda_l2: {choice: [0, 1, 10, 100]}
  constraints: ["num_leaves <= 2 ^ max_depth"]
machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 2}
limits: {trial: 5m, sweep: 15m}
gate: {metric: log_loss}
`

// realTables are the tables, how they are staged, and how large trees may be worth trying.
var realTables = map[string]struct {
	file, leaves, dataset string
	gains                 bool // so much that a search shows it on held-out rows
}{
	"ads": {"ads_amexpert_display_60k.csv", "[4, 48]", `
label: is_click
drop: [session_id]
categorical: [user_id, campaign_id, webpage_id, product_category_1, product_category_2, user_group_id]
split: {by: time, column: DateTime, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}
`, false},
	"flights": {"nycflights13_337k.csv.gz", "[15, 160]", `
label: {column: arr_delay, above: 15}
drop: [dep_delay, arr_time, air_time, year]
categorical: [flight]
split: {by: hash, key: tailnum, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}
`, true},
}

// TestE2EAds runs a sweep of 50 candidates over a real table of ads.
func TestE2EAds(t *testing.T) {
	t.Parallel()
	sweepOver(t, "ads")
}

// TestTableFlights does so over the flights of a year, which takes minutes. `make e2e-tables` runs it.
func TestTableFlights(t *testing.T) { sweepOver(t, "flights") }

// sweepOver runs a sweep of 50 candidates over a real table. Its winner has to be the best of them on valid, measured
// here from their files, and on rows that neither has learnt from nor was chosen by no worse than the default
// configuration beyond chance: of the ads these have about a thousand clicks, so they can tell a model that has learnt
// nothing, not the second best from the best. Python's lightgbm has to give the same scores.
func sweepOver(t *testing.T, name string) {
	t.Helper()
	table := realTables[name]
	source := realData(t, table.file)
	l := newLocal(t)
	ds := l.file("dataset.yaml", "name: "+name+"\nsource: "+source+table.dataset)
	sw := l.file("sweep.yaml", "name: "+name+"\ndataset: "+name+"\n"+strings.Replace(fiftyTrials, "LEAVES",
		table.leaves, 1))
	l.must("launcher", "stage", ds, "--json")
	check := watchMachines(t, l.data)
	c := conclusion(t, l.must("launcher", "sweep", sw, "--json"))
	if c.Outcome != sweep.OutcomeWinner || c.Done != 50 || c.Version != 1 {
		t.Fatalf("the sweep ended with %+v; want a winner of 50 that are done, as version 1", c)
	}
	if v := l.versions(name); len(v) != 1 || v[0].Key != string(c.Sweep) {
		t.Fatalf("the registry has %+v; want one version, of sweep %s", v, c.Sweep)
	}
	t.Logf("calibration %s: before %v, after %v; verified on %d rows, largest difference %g", c.Calibration.Method,
		c.Calibration.Before, c.Calibration.After, c.Verified.Rows, c.Verified.MaxDiff)
	dir := l.stageHere(ds)
	l.checkChoice(t, dir, c, table.gains)
	check()
	t.Run("python", func(t *testing.T) { l.winnerAgrees(t, c, dir) })
}

// checkChoice measures the models of a sweep of 50 trials on valid, and the winner and the default configuration, trial
// 0, on calib and test. If the table gains by searching, the winner has to be better there, beyond chance.
func (l *local) checkChoice(t *testing.T, dir string, c *sweep.Conclusion, gains bool) {
	t.Helper()
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	m := must.Get(metric.Lookup("average_precision"))(t)
	valid := must.Get(fit.NewTable(ds).Select(sweep.Rows{Split: dataset.ValidSplit}))(t)
	objects := l.objects()
	file := func(trial int, name string) []byte {
		return []byte(objects["coppice-sweeps/"+sweep.Names(c.Sweep).Attempt(trial, 0)+name])
	}

	var onValid [50]float64
	for trial := range onValid {
		model := must.Get(fit.Input(ds.Manifest, file(trial, "model.txt")))(t)
		pred := must.Get(model.PredictBinned(&valid.Data, 2))(t)
		model.Transform(pred)
		onValid[trial] = must.Get(m.Eval(metric.Input{Label: valid.Label, Pred: pred}))(t)
	}
	if best := slices.Max(onValid[:]); onValid[c.Trial] != best {
		t.Errorf("trial %d has won, with average precision %v on valid; want one that has the highest, %v", c.Trial,
			onValid[c.Trial], best)
	}

	unseen := slices.Concat(ds.Split(dataset.CalibSplit).Label, ds.Split(dataset.TestSplit).Label)
	predict := func(trial int) []float64 {
		scores := slices.Concat(must.Get(sweep.DecodeScores(file(trial, "calib.scores")))(t),
			must.Get(sweep.DecodeScores(file(trial, "test.scores")))(t))
		for i, s := range scores {
			scores[i] = gbt.Probability(s)
		}
		return scores
	}
	k := must.Get(m.Compare(metric.Input{Label: unseen, Pred: predict(c.Trial)}, predict(0), metric.Confidence{}))(t)
	t.Logf("average precision on calib and test: the winner, trial %d, has %.5f, the default configuration %.5f; "+
		"better by %.5f ± %.5f", c.Trial, k.New, k.Old, k.Gain, k.Error)
	if k.Gain < -2*k.Error || gains && k.Gain <= 2*k.Error {
		t.Errorf("average precision on calib and test: the winner has %v, the default configuration %v; expected one "+
			"that is not worse beyond two standard errors of %v (better: %v)", k.New, k.Old, k.Error, gains)
	}
}

// smallSweep stages a small click table and returns the path of a sweep of few trials on it.
func (l *local) smallSweep(trials int) string {
	l.t.Helper()
	table := filepath.Join(l.dir, "clicks.parquet")
	execute(l.t, l.dir, nil, binaryOf(l.t, "clicks"), "--rows", "20000", "--out", table).ok(l.t)
	ds := l.file("dataset.yaml",
		"name: clicks\nsource: clicks.parquet\nlabel: is_click\ndrop: [impression_id, ts]\ncategorical: "+
			"[campaign_id, publisher_id]\n"+
			"split: {by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n")
	l.must("launcher", "stage", ds, "--json")
	return l.file("sweep.yaml", fmt.Sprintf("name: small\ndataset: clicks\nmodel: ctr\nmetric: auc\ntrials: %d\nseed: "+
		"3\nearly_stopping_rounds: 10\nparams: {num_iterations: 40}\n"+
		"search: {random: {num_leaves: {log_int: [4, 40]}, learning_rate: {log_uniform: [0.03, 0.3]}, "+
		"feature_fraction: {uniform: [0.4, 1]}}}\n"+
		"machine: {type: n2-highmem-2, vms: 2, threads_per_task: 1, tasks_per_vm: 2}\nlimits: {trial: 2m, "+
		"sweep: 5m}\n", trials))
}

// outcome is what must not depend on what went wrong on the way.
type outcome struct {
	trial, version   int
	model, calibrate string
	judged           string // of a sweep with a final training
}

func (l *local) outcome(sweepFile string) outcome {
	l.t.Helper()
	c := conclusion(l.t, l.must("launcher", "sweep", sweepFile, "--json"))
	v := l.versions("ctr")
	if len(v) != 1 {
		l.t.Fatalf("%d versions", len(v))
	}
	o := outcome{trial: c.Trial, version: c.Version}
	for _, f := range v[0].Files {
		switch f.Name {
		case "model.txt":
			o.model = f.SHA256
		case "judged.txt":
			o.judged = f.SHA256
		case "calibrator.json":
			o.calibrate = f.SHA256
		}
	}
	return o
}

// TestE2ESameEndWhateverGoesWrong runs one sweep undisturbed and again under faults.
func TestE2ESameEndWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	calm := newLocal(t)
	want := calm.outcome(calm.smallSweep(12))
	t.Logf("undisturbed: %+v", want)
	// In full all; tests of the worker, the aggregator and the protocol do the others without programs.
	some := []string{"every message twice, shuffled", "aggregators killed", "a machine lost"}
	for name, tc := range map[string]struct {
		faults string
		args   []string
		traces []string // log files that show that it did go wrong
	}{
		"two aggregators":               {"", []string{"--aggregators", "2"}, []string{"aggregator-1.0.log"}},
		"every message twice, shuffled": {"duplicate_messages: true\nshuffle_messages: true\n", nil, nil},
		"aggregators killed": {`at_write:
  - {match: "sweeps/*/trials/*/result.json", nth: 2, does: kill_aggregators}
  - {match: "sweeps/*/trials/*/result.json", nth: 6, does: kill_aggregators}
  - {match: "sweeps/*/trials/*/result.json", nth: 12, does: kill_aggregators}
`, []string{"--aggregators", "2"},
			[]string{"aggregator-0.3.log", "aggregator-1.3.log"}},
		"no message at all": {"drop_messages: 1\n", nil, nil},
		"a task killed": {"at_write: [{match: \"sweeps/*/trials/*/claims/*\", nth: 4, does: kill_task, task: 1}]\n", nil,
			[]string{"small-*/task-1.attempt-1.log"}},
		"a machine lost": {"at_write: [{match: \"sweeps/*/trials/*/result.json\", nth: 4, does: lose_machine, vm: 0}]\n",
			nil,
			[]string{"small-*/task-[01].attempt-1.log"}},
		"objects written too often": {"refuse_write: [{match: \"**\", status: 429}]\n", nil, nil},
		"storage stutters": {"refuse_write: [{match: \"sweeps/*/trials/0003/**\", times: 2, status: 503}]\n" +
			"lose_answer: [{match: \"sweeps/*/trials/*/result.json\", times: 3}, {match: " +
			"\"sweeps/*/trials/*/claims/*\", times: 3}]\n", nil, nil},
	} {
		if os.Getenv("COPPICE_FULL") == "" && !slices.Contains(some, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t, tc.args...)
			if tc.faults != "" {
				l.args = append(l.args, "--faults", l.file("faults.yaml", tc.faults))
			}
			if got := l.outcome(l.smallSweep(12)); got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			for _, trace := range tc.traces {
				if found, _ := filepath.Glob(filepath.Join(l.data, "logs", trace)); len(found) == 0 {
					t.Errorf("it did not go wrong: there is no %s", trace)
				}
			}
		})
	}
}
