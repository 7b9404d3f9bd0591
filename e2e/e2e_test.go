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

// programs builds the programs when it is first called, and returns their folder: bin, where `make build` puts them.
var programs = sync.OnceValues(func() (folder string, err error) {
	cmd := exec.Command("make", "build")
	cmd.Env = builder
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return filepath.Abs("bin")
})

// TestMain runs all tests in the project's root, where a user would be, with the prices of priceFile instead of the
// user's own.
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

// builder is the environment in which programs are built: the one that the tests were started with.
var builder []string

// writePrices makes a temporary file of priceFile and returns its path.
func writePrices() (string, error) {
	f, err := os.CreateTemp("", "coppice-prices-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(priceFile)
	return f.Name(), errors.Join(err, f.Close())
}

// binaryOf returns the path of a built program. The first call in a run builds all.
func binaryOf(t *testing.T, name string) string {
	t.Helper()
	folder, err := programs()
	if err != nil {
		t.Fatalf("build the programs: %v", err)
	}
	return filepath.Join(folder, name)
}

// local is a local cloud with a folder of its own. It runs only while one of its commands does, unless up has been
// called.
type local struct {
	t    *testing.T
	dir  string   // files of the test, and where commands run
	data string   // the cloud's data: the folder that localemu is given
	args []string // further arguments of localemu
}

// newLocal makes a local cloud without any data. args are further arguments of localemu.
func newLocal(t *testing.T, args ...string) *local {
	t.Helper()
	dir := t.TempDir()
	return &local{t: t, dir: dir, data: filepath.Join(dir, "cloud"), args: args}
}

// priceFile holds the prices for all tests, so that what a budget buys depends neither on a developer's own prices nor
// on those built into the program.
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

// ran is a program that has ended.
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

// run runs one command line inside the local cloud, to its end. The command is the name of a program and its arguments.
func (l *local) run(command ...string) ran {
	l.t.Helper()
	command[0] = binaryOf(l.t, command[0])
	args := slices.Concat([]string{"exec", "--data", l.data}, l.args, []string{"--"}, command)
	return execute(l.t, l.dir, nil, binaryOf(l.t, "localemu"), args...)
}

// must is run for a command that has to succeed. It returns what the command prints.
func (l *local) must(command ...string) string {
	l.t.Helper()
	r := l.run(command...)
	r.ok(l.t)
	return r.out
}

// execute runs a program to its end in the folder dir, with the environment env, or with that of the test if env is
// nil. Only a program that cannot be run at all ends the test.
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
		t.Fatalf("%s could not be run: %v, want it to end with some exit code", program, err)
	}
	return ran{cmd.Args, cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// objects returns the contents of all objects in the local cloud's buckets, by BUCKET/NAME. It reads them from the
// cloud's folder, so that the cloud need not run.
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

// decode decodes the JSON that a program has printed into the variable that v points to.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("expected JSON: %v in\n%s", err, text)
	}
}

// conclusion returns the conclusion in the last line that `launcher sweep --json` has printed.
func conclusion(t *testing.T, out string) *sweep.Conclusion {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var last struct {
		Conclusion *sweep.Conclusion `json:"conclusion"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Conclusion == nil {
		t.Fatalf("got no conclusion (%v), want one in the last line of\n%s", err, out)
	}
	return last.Conclusion
}

// versions returns the versions of a model in the registry.
func (l *local) versions(model string) []registry.Version {
	l.t.Helper()
	var v []registry.Version
	decode(l.t, l.must("launcher", "registry", "list", model, "--json"), &v)
	return v
}

// realData returns the path of a real table, which is not part of the project. It skips the test if there is none.
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

// fiftyTrials is a sweep of 50 trials, without its name and dataset. LEAVES stands for the range of num_leaves.
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

// TestE2EAds: a sweep of 50 trials over a real table of ads keeps the promises of sweepOver.
func TestE2EAds(t *testing.T) {
	t.Parallel()
	sweepOver(t, "ads")
}

// TestTableFlights: so does one over the flights of a year, which takes minutes. `make e2e-tables` runs it.
func TestTableFlights(t *testing.T) { sweepOver(t, "flights") }

// sweepOver runs a sweep of 50 trials over the real table of that name, and checks what comes out. The winner has to be
// the best trial on the split valid, as measured here from the trials' files. On the splits calib and test, from which
// no trial has learnt and by which none was chosen, it must not be worse than the default configuration by more than
// chance. In the table of ads these splits have about a thousand clicks: enough to recognise a model that has learnt
// nothing, but not to tell the second best model from the best. Python's lightgbm has to give the same scores, and the
// tasks on each machine have to share one copy of the dataset.
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

// checkChoice fails the test unless the winner of a sweep of 50 trials, whose conclusion is c, has the highest average
// precision on valid. On calib and test it must not be worse than trial 0, the default configuration, by more than two
// standard errors, and if gains is set it has to be better by more than two. dir is the folder of the staged dataset.
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

	// Predict the rows of valid with the model of each trial and measure that.
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

	// Compare the winner with trial 0 by the scores that their tasks have written for calib and test.
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

// smallSweep stages a table of 20,000 clicks and returns the path of a sweep.yaml with so many trials on it.
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

// outcome is what must not depend on what went wrong on the way: the winning trial, the number of the version, and the
// checksums of its files.
type outcome struct {
	trial, version   int
	model, calibrate string
	judged           string // "" unless the sweep has a final training
}

// outcome runs the sweep of a file and returns its outcome. The registry has to hold exactly one version then.
func (l *local) outcome(sweepFile string) outcome {
	l.t.Helper()
	c := conclusion(l.t, l.must("launcher", "sweep", sweepFile, "--json"))
	v := l.versions("ctr")
	if len(v) != 1 {
		l.t.Fatalf("after the sweep the registry has %d versions, want 1", len(v))
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

// TestE2ESameEndWhateverGoesWrong: a sweep has the same outcome under faults as undisturbed, to the bytes of its files.
// A case says which files of logs prove that the faults did strike. Without COPPICE_FULL only some of the cases are
// run.
func TestE2ESameEndWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	calm := newLocal(t)
	want := calm.outcome(calm.smallSweep(12))
	t.Logf("undisturbed: %+v", want)
	// These cases are always run: faults of messages, of the aggregator and of machines. The others are also covered,
	// without programs, by the tests of the worker, the aggregator and the protocol.
	some := []string{"every message twice, shuffled", "aggregators killed", "a machine lost"}
	for name, tc := range map[string]struct {
		faults string
		args   []string
		// Log files that show that it did go wrong: aggregator-INDEX.LIFE.log and JOB/task-INDEX.attempt-NUMBER.log,
		// whose LIFE and NUMBER are above 0 after a restart. Without any, the fault leaves no trace in names of logs.
		traces []string
	}{
		"two aggregators":               {"", []string{"--aggregators", "2"}, []string{"aggregator-1.0.log"}},
		"every message twice, shuffled": {"duplicate_messages: true\nshuffle_messages: true\n", nil, nil},
		"aggregators killed": {`at_write:
  - {match: "sweeps/*/trials/*/result.json", nth: 2, does: kill_aggregators}
  - {match: "sweeps/*/trials/*/result.json", nth: 6, does: kill_aggregators}
  - {match: "sweeps/*/trials/*/result.json", nth: 12, does: kill_aggregators}
`, []string{"--aggregators", "2"},
			[]string{"aggregator-0.3.log", "aggregator-1.3.log"}}, // each was killed three times
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
					t.Errorf("found no log %s, want one as a sign that the fault has struck", trace)
				}
			}
		})
	}
}
