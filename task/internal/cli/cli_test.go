package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"coppice/internal/blob"
	"coppice/internal/cloud"
	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/program"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/task/internal/stage"
	"coppice/task/internal/worker"
)

// run runs a command line of the task with an environment and empty buckets, and returns its exit code and what it has
// written.
func run(t *testing.T, env map[string]string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), Setup{
		World: program.World{Args: args, Env: envconfig.MapLookuper(env), Out: program.To(&o), Err: program.To(&e),
			Version: "v1"},
		Connect: func(context.Context, environment.TaskEnv) (*Backends, error) {
			return &Backends{Datasets: blob.Memory(), Sweeps: blob.Memory(), Close: func() error { return nil }}, nil
		},
	})
	return code, o.String(), e.String()
}

// params writes a file of parameters and returns its path.
func params(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "params.yaml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// TestTrain: task train prints trees, metrics and memory and writes a model that can be read. With --json it prints
// them as an object, and three threads write the same bytes as one.
func TestTrain(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000})
	p := params(t, "num_iterations: 30\nnum_leaves: 7\nearly_stopping_round: 5\nmetric: [ap, precision@5%]\n")
	model := filepath.Join(t.TempDir(), "model.txt")
	code, out, errOut := run(t, nil, "train", "--dataset", dir, "--params", p, "--out", model)
	if code != 0 {
		t.Fatalf("trained: exit code %d, error output %s; want 0", code, errOut)
	}
	for _, part := range []string{"tree     1", "ms/tree", "valid average_precision", "valid precision@5%",
		"valid log_loss", "private", model} {
		if !strings.Contains(out, part) {
			t.Errorf("trained: it printed\n%s\nwant %q in it", out, part)
		}
	}
	first := must.Get(os.ReadFile(model))(t)
	if _, err := gbt.ReadModel(bytes.NewReader(first)); err != nil {
		t.Errorf("reading the model that was written: got error %v, want none", err)
	}
	code, out, errOut = run(t, nil, "train", "--dataset", dir, "--params", p, "--out", model, "--threads", "3",
		"--json")
	var got trained
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Trees < 1 || got.MsPerTree <= 0 ||
		got.Metrics["precision@5%"] == 0 {
		t.Errorf("train --json: exit code %d, %v, %+v, expected 0, a tree, its time and a precision above 0\n%s", code,
			err, got, errOut)
	}
	if second, err := os.ReadFile(model); err != nil || !bytes.Equal(first, second) {
		t.Errorf("with three threads the model has %d bytes (error %v), want the same %d bytes as with one",
			len(second), err, len(first))
	}
}

// TestBlockedDatasetIsNotTrainedOn: task train refuses a dataset whose night's record has a blocking finding, and says
// how to accept it, unless it is accepted. Warnings do not matter, and a damaged record is an error.
func TestBlockedDatasetIsNotTrainedOn(t *testing.T) {
	dir, m := datasettest.Dir(t, datasettest.Options{Rows: 1500})
	home := t.TempDir()
	place := filepath.Join(home, m.Name, m.Version)
	must.Do(t, os.MkdirAll(filepath.Join(home, m.Name, "nights"), 0o755))
	must.Do(t, os.CopyFS(place, os.DirFS(dir)))
	for _, c := range []struct {
		record string
		code   int
		says   string
	}{
		{`{"findings":[{"code":"rows","level":"warning","text":"few"}]}`, 0, ""},
		{`{"findings":[{"code":"empty","level":"blocking","column":"site","text":"no values"}]}`, sweep.ExitBlocked,
			"datasets accept " + m.Name + "@" + m.Version + " --in " + home},
		{`{"findings":[{"code":"empty","level":"blocking","text":"no values"}],"accepted":{"by":"ann"}}`, 0, ""},
		{`{"findings":`, sweep.ExitInput, "stage the table again"}, // damaged
	} {
		record := filepath.Join(home, m.Name, "nights", m.Version+".json")
		must.Do(t, os.WriteFile(record, []byte(c.record), 0o644))
		code, _, errOut := run(t, nil, "train", "--dataset", place, "--no-verify", "--params",
			params(t, "num_iterations: 2\n"))
		if code != c.code || !strings.Contains(errOut, c.says) {
			t.Errorf("with the record %s: exit code %d and %q, want %d and %q", c.record, code, errOut, c.code, c.says)
		}
	}
}

// TestTrainWithoutRatingTrees: --no-rate does not change the log loss of the finished model, and the predicted memory
// is less by 16 bytes for each row of valid, two numbers that are kept of it while trees are evaluated. It is at least
// 20 bytes for each row of train.
func TestTrainWithoutRatingTrees(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000})
	p := params(t, "num_iterations: 10\nnum_leaves: 7\nmetric: log_loss\n")
	var rated, unrated trained
	for _, one := range []struct {
		into *trained
		args []string
	}{{&rated, nil}, {&unrated, []string{"--no-rate"}}} {
		code, out, errOut := run(t, nil, append([]string{"train", "--dataset", dir, "--params", p, "--json"},
			one.args...)...)
		if err := json.Unmarshal([]byte(out), one.into); err != nil || code != 0 {
			t.Fatalf("train %q: exit code %d, %v, expected 0 and JSON\n%s%s", one.args, code, err, out, errOut)
		}
	}
	if a, b := rated.Metrics["log_loss"], unrated.Metrics["log_loss"]; a != b || a == 0 {
		t.Errorf("log loss is %v with every tree rated, %v without; want the same, above 0", a, b)
	}
	ds := must.Get(dataset.Open(dir))(t)
	defer ds.Close()
	valid := int64(ds.Split(dataset.ValidSplit).Rows)
	if d := rated.Memory.Predicted - unrated.Memory.Predicted; d != 16*valid ||
		unrated.Memory.Predicted < 20*int64(ds.Split(dataset.TrainSplit).Rows) {
		t.Errorf("predicted %d bytes with every tree rated, %d without; want %d less for %d rows of valid, and at "+
			"least 20 for each row of train", rated.Memory.Predicted, unrated.Memory.Predicted, 16*valid, valid)
	}
}

// TestTrainRegressionAndTrainOnly: a label of numbers is trained as a regression, with its metrics, and refuses the
// objective binary. A dataset of train alone is trained without metrics, and refuses early stopping, for which it has
// no held-out rows.
func TestTrainRegressionAndTrainOnly(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 1500, Label: "revenue"})
	if code, out, errOut := run(t, nil, "train", "--dataset", dir); code != 0 || !strings.Contains(out, "valid rmse") {
		t.Errorf("trained a regression: exit code %d, output %s%s; want 0 and the RMSE on valid", code, out, errOut)
	}
	if code, _, errOut := run(t, nil, "train", "--dataset", dir, "--params",
		params(t, "objective: binary\n")); code != sweep.ExitInput || !strings.Contains(errOut, "params.yaml:1:12") {
		t.Errorf("binary on a numeric target: exit code %d, error output %s; want that of a wrong input, with the line",
			code, errOut)
	}
	only, _ := datasettest.Dir(t, datasettest.Options{Rows: 500, Split: "{by: hash, key: user_id, train: 1}"})
	if code, out, errOut := run(t, nil, "train", "--dataset", only); code != 0 || strings.Contains(out, "valid") {
		t.Errorf("trained on train only: exit code %d, output %s%s; want 0 and no word of valid", code, out, errOut)
	}
	if code, _, errOut := run(t, nil, "train", "--dataset", only, "--params",
		params(t, "early_stopping_round: 3\n")); code != sweep.ExitInput || !strings.Contains(errOut, "held-out") {
		t.Errorf("early stopping without valid: exit code %d, error output %s; want that of a wrong input, and "+
			"held-out rows named", code, errOut)
	}
}

// TestTrainRefuses: each wrong parameter, flag or folder is refused with the exit code of its kind, and an error that
// has its place or says what to give instead.
func TestTrainRefuses(t *testing.T) {
	dir, _ := datasettest.Dir(t, datasettest.Options{Rows: 500})
	loop := filepath.Join(t.TempDir(), "loop")
	must.Do(t, os.Symlink(loop, loop))
	for name, tc := range map[string]struct {
		params string
		args   []string
		code   int
		says   string
	}{
		"unknown parameter": {"num_leaves: 7\nnum_leafs: 3\n", nil, sweep.ExitInput, "params.yaml:2:12"},
		"value": {"learning_rate: -1\n", nil, sweep.ExitInput,
			"params.yaml:1:16: learning_rate: -1 is outside"},
		"metric":        {"metric: acu\n", nil, sweep.ExitInput, `params.yaml:1:9`},
		"metric's kind": {"metric: rmse\n", nil, sweep.ExitInput, "params.yaml:1:9: metric rmse is for regression"},
		"metric's type": {"metric: [auc, 3]\n", nil, sweep.ExitInput,
			"params.yaml:1:9: metric: 3 is not the name of a metric"},
		"threads":         {"", []string{"--threads", "0"}, sweep.ExitUsage, "--threads is 0"},
		"folder as model": {"", []string{"--out", dir}, sweep.ExitUsage, "is a folder"},
		"device as model": {"", []string{"--out", "/dev/null"}, sweep.ExitUsage,
			"is a device; give the name of a file"},
		"loop as dataset": {"", []string{"--dataset", loop}, sweep.ExitInput, "too many levels of symbolic links"},
		"model nowhere":   {"", []string{"--out", dir + "/no/m.txt"}, sweep.ExitUsage, "does not exist"},
		"manifest": {"", []string{"--dataset", dir + "/manifest.json"}, sweep.ExitNotFound,
			"it is a file; give the folder of the dataset version, such as " + dir + "\n"},
		"folder above": {"", []string{"--dataset", filepath.Dir(dir)}, sweep.ExitNotFound,
			"; give the folder of a version, such as " + dir + "\n"},
		"no dataset": {"", []string{"--dataset", "nowhere"}, sweep.ExitNotFound, "nowhere"},
	} {
		args := []string{"train", "--dataset", dir}
		if tc.params != "" {
			args = append(args, "--params", params(t, tc.params))
		}
		code, _, errOut := run(t, nil, append(args, tc.args...)...)
		if code != tc.code || !strings.Contains(errOut, tc.says) {
			t.Errorf("%s: got exit code %d and %s, want %d and %q", name, code, errOut, tc.code, tc.says)
		}
	}
}

// TestRunNeedsItsJob: task run without the variables of a job, or with an impossible id of the sweep, exits with the
// code for a wrong setup. With a sweep that is not there it exits with the code for what is not found.
func TestRunNeedsItsJob(t *testing.T) {
	if code, _, errOut := run(t, nil, "run"); code != sweep.ExitSetup || !strings.Contains(errOut, "launcher sweep") {
		t.Errorf("run without a job: exit code %d, error output %s; want the code for a faulty setup, and `launcher "+
			"sweep` named", code, errOut)
	}
	env := environment.TaskEnv{Project: "p", DatasetsBucket: "d", SweepsBucket: "s", ScoresTopic: "t", Sweep: "x-1",
		Job: "x-1", Scratch: t.TempDir()}.Variables()
	if code, _, errOut := run(t, env, "run"); code != sweep.ExitNotFound || !strings.Contains(errOut, "x-1") {
		t.Errorf("ran a sweep that is not there: exit code %d, want that of what is not found: %s", code, errOut)
	}
	env["COPPICE_SWEEP"] = "../x"
	if code, _, errOut := run(t, env, "run"); code != sweep.ExitSetup {
		t.Errorf("ran with an impossible id: exit code %d, %s; want that of a wrong setup", code, errOut)
	}
}

// TestWhichTaskOfItsJob: task run takes its number and attempt from Coppice's own variables, which an engine other than
// Batch sets, or else from those of Batch; both are 0 without either. A negative number is a wrong setup.
func TestWhichTaskOfItsJob(t *testing.T) {
	set := environment.TaskEnv{Project: "p", DatasetsBucket: "d", SweepsBucket: "s", ScoresTopic: "t", Sweep: "x-1",
		Job: "x-1", Scratch: t.TempDir()}.Variables()
	for want, more := range map[string]map[string]string{ // variables by the task and the attempt that follow
		"0 0": nil,
		"3 1": {"BATCH_TASK_INDEX": "3", "BATCH_TASK_RETRY_ATTEMPT": "1"},
		"4 2": {"COPPICE_TASK_INDEX": "4", "COPPICE_TASK_ATTEMPT": "2", "BATCH_TASK_INDEX": "3"},
		"-1":  {"COPPICE_TASK_INDEX": "-1"}, // refused before it connects
	} {
		env, told := maps.Clone(set), ""
		maps.Copy(env, more)
		var e bytes.Buffer
		code := Run(t.Context(), Setup{World: program.World{Args: []string{"run"}, Env: envconfig.MapLookuper(env),
			Out: program.To(io.Discard), Err: program.To(&e)},
			Connect: func(_ context.Context, e environment.TaskEnv) (*Backends, error) {
				told = fmt.Sprint(e.Task, " ", e.Attempt)
				return nil, errors.New("stop")
			}})
		if want == "-1" && (code != sweep.ExitSetup || !strings.Contains(e.String(), "COPPICE_TASK_INDEX is -1")) ||
			want != "-1" && told != want {
			t.Errorf("with %v: task and attempt %q, exit code %d, %s; want %s", more, told, code, &e, want)
		}
	}
}

// TestToldToGoBeforeTheWorkBegins: a task that is told to go before its first step, while it connects or reads the
// plan, exits with the code that Batch retries.
func TestToldToGoBeforeTheWorkBegins(t *testing.T) {
	env := environment.TaskEnv{Project: "p", DatasetsBucket: "d", SweepsBucket: "s", ScoresTopic: "t", Sweep: "x-1",
		Job: "x-1", Scratch: t.TempDir()}.Variables()
	for name, connect := range map[string]func(context.Context, environment.TaskEnv) (*Backends, error){
		"connecting": func(ctx context.Context, _ environment.TaskEnv) (*Backends, error) { return nil, ctx.Err() },
		"reading the plan": func(context.Context, environment.TaskEnv) (*Backends, error) {
			return &Backends{Datasets: blob.Memory(), Sweeps: blob.Memory(), Close: func() error { return nil }}, nil
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errOut bytes.Buffer
		code := Run(ctx, Setup{World: program.World{Args: []string{"run"}, Env: envconfig.MapLookuper(env),
			Out: program.To(&out), Err: program.To(&errOut)}, Connect: connect})
		if code != sweep.ExitTransient {
			t.Errorf("told to go while %s, the task ended with %d (%s), want %d", name, code, errOut.String(),
				sweep.ExitTransient)
		}
	}
}

// TestExitCodes: each error leads to its exit code, also if it is wrapped. The codes decide whether Batch starts the
// task again.
func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		worker.Transient(errors.New("x")):                            sweep.ExitTransient,
		worker.Transient(context.Canceled):                           sweep.ExitTransient,
		fmt.Errorf("%w: split valid has none", fit.ErrNoRows):        sweep.ExitInput,
		fmt.Errorf("%w: 1 folds", fit.ErrScheme):                     sweep.ExitInput,
		&gbt.MismatchError{}:                                         sweep.ExitConflict,
		stage.ErrVersion:                                             sweep.ExitError,
		worker.Transient(&cloud.SetupError{}):                        sweep.ExitTransient,
		&gbt.ParamError{}:                                            sweep.ExitInput,
		&dataset.CorruptError{}:                                      sweep.ExitInput,
		&cloud.SetupError{}:                                          sweep.ExitSetup,
		sweep.NotA("plan", fs.ErrNotExist):                           sweep.ExitInput,
		program.Usagef("--out x: %w", fs.ErrPermission):              sweep.ExitUsage,
		errors.Join(worker.Transient(errors.New("x")), fs.ErrClosed): sweep.ExitTransient,
	} {
		for how, err := range map[string]error{"itself": err, "wrapped": fmt.Errorf("a: %w", err)} {
			if code := program.ExitCode(t.Context(), err); code != want {
				t.Errorf("%T, %s: exit code %d, expected %d", err, how, code, want)
			}
		}
	}
}

// conf is shortened from LightGBM's examples/binary_classification/train.conf.
const conf = `# task type, support train and predict
task = train

boosting_type = gbdt
objective = binary
metric = log_loss,auc
data = binary.train
valid_data = binary.test
num_trees = 100   # trees
learning_rate = 0.1
num_leaves = 63
min_sum_hessian_in_leaf = 5.0
is_enable_sparse = true
use_two_round_loading = false
output_model = LightGBM_model.txt
`

// examples are LightGBM parameter files by the kind of label: together they have the keys of LightGBM's six examples
// that conf does not have.
var examples = map[dataset.LabelKind]string{
	dataset.Binary: "objective = binary\nmetric = binary_logloss,auc\nmetric_freq = 1\nis_training_metric = true\n" +
		"label_column = 0\ntree_learner = feature\nnum_machines = 2\nlocal_listen_port = 12400\n" +
		"machine_list_file = mlist.txt\nis_save_binary_file = false\nbagging_freq = 5\nbagging_fraction = 0.8\n",
	dataset.Regression: "objective = rank_xendcg\nmetric = ndcg\nndcg_eval_at = 1,3,5\nnum_threads = 1\n" +
		"objective_seed = 7\nfeature_fraction = 1.0\ntree_learner = serial\nnum_machines = " +
		"1\nlocal_listen_port = 12400\n",
	dataset.Classes: "objective = multiclass\nmetric = multi_logloss,auc_mu\nauc_mu_weights = 0,1,2," +
		"0\nnum_class = 2\n" +
		"early_stopping = 10\nmax_bin = 255\n",
}

// TestConfOfExamples: a file with the keys of LightGBM's examples is read, with notes about what has no effect, and its
// first metric is the first. A file with several wrong lines is refused with all of them at once.
func TestConfOfExamples(t *testing.T) {
	file := filepath.Join(t.TempDir(), "train.conf")
	for kind, text := range examples {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		label := &dataset.LabelInfo{Kind: kind}
		if kind == dataset.Classes {
			label.Classes = []string{"a", "b"}
		}
		var notes []string
		_, metrics, err := readParams(file, label, func(n string) { notes = append(notes, n) })
		// The text's first metric begins first. binary_logloss and multi_logloss are other names of log_loss.
		_, first, _ := strings.Cut(text, "metric = ")
		if err != nil || len(notes) < 2 || !strings.HasPrefix(first, metrics[0].Name) && metrics[0].Name != "log_loss" {
			t.Errorf("%s: error %v, metrics %v, notes %q; expected notes and its first metric", text, err, metrics,
				notes)
		}
	}

	// Too few leaves, a parameter that Coppice does not have, one that is read without an effect, and a misspelt one.
	wrong := "num_leaves = 1\nlinear_tree = true\nlocal_listen_port = 1\nlearning_rat = 1\n"
	must.Do(t, os.WriteFile(file, []byte(wrong), 0o600))
	_, _, err := readParams(file, &dataset.LabelInfo{Kind: dataset.Binary}, func(string) {})
	if err == nil || strings.Count(err.Error(), "train.conf:") != 3 || problem.Of(err) != problem.Input {
		t.Errorf("got %v, expected the refusals of lines 1, 2 and 4, of kind input", err)
	}
}

// TestObjectiveByAnotherName: an objective and metrics that a file gives by an alias, as LightGBM's files may, are
// those of the training, also where the label would decide, and an error about one has its line.
func TestObjectiveByAnotherName(t *testing.T) {
	file := params(t, "metrics: [mae, rmse]\napplication: l1\n")
	p, metrics, err := readParams(file, &dataset.LabelInfo{Kind: dataset.Regression}, func(string) {})
	if err != nil || p.Objective != "regression_l1" || metrics[0].Name != "mae" {
		t.Errorf("application: l1 and metrics: [mae, rmse] give the objective %q, the metrics %v and error %v, want "+
			"regression_l1 and mae first", p.Objective, metrics, err)
	}
	classes := &dataset.LabelInfo{Kind: dataset.Classes, Classes: []string{"a", "b"}}
	_, _, err = readParams(file, classes, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "params.yaml:2:14: the label has 2 classes") {
		t.Errorf("application: l1 for a label of classes: got error %v, want one at its value", err)
	}
}

// TestConf: a LightGBM parameter file gives the same parameters as the YAML file with the same ones, and a note for
// each key that has no effect. A wrong line is refused with its number.
func TestConf(t *testing.T) {
	read := func(name, text string) (gbt.Params, []string, error) {
		file := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		var notes []string
		p, metrics, err := readParams(file, &dataset.LabelInfo{Kind: dataset.Binary},
			func(n string) { notes = append(notes, n) })
		if err == nil && (metrics[0].Name != "log_loss" || metrics[1].Name != "auc") {
			t.Errorf("%s: got the metrics %s and %s, want log_loss and auc", name, metrics[0].Name, metrics[1].Name)
		}
		return p, notes, err
	}
	got, notes := must.Get2(read("train.conf", conf))(t)
	want, _, err := read("params.yaml", "objective: binary\nmetric: [log_loss, auc]\nnum_iterations: 100\n"+
		"learning_rate: 0.1\nnum_leaves: 63\nmin_sum_hessian_in_leaf: 5\n")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v (%v)", got, want, err)
	}
	if text := strings.Join(notes, "\n"); len(notes) != 7 || !strings.Contains(text, "data has no effect here") {
		t.Errorf("got the notes %q, want one for each of task, boosting_type, data, valid_data, is_enable_sparse, "+
			"use_two_round_loading and output_model", notes)
	}

	for text, want := range map[string]string{
		"num_leaves = 31\nlearning rate\n":        `train.conf:2: "learning rate": a LightGBM parameter`,
		"\n\nnum_leaves = many\n":                 "train.conf:3:",
		"linear_tree = true\n":                    "LightGBM has it, Coppice does not",
		"num_leaves = 31\nnum_leaves = 15\n":      "train.conf:2:",
		"num_leaves = 31 # more\nnum_leafs = 3\n": "train.conf:2:",
	} {
		if _, _, err := read("train.conf", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}
