//go:build e2e

package e2e

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/cell"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/dataset/table"
	"coppice/internal/must"
	"coppice/internal/scorer"
)

// compared is what python/tests/compare.py prints.
type compared struct {
	Rows         int      `json:"rows"`
	ValuesDiffer int      `json:"values_differ"` // encoded values whose bits differ
	DifferIn     []string `json:"differ_in"`     // features
	MaxDiff      float64  `json:"max_diff"`      // of predictions
	MaxRawDiff   float64  `json:"max_raw_diff"`
	Refused      bool     `json:"refused"` // a damaged version, by its checksum
}

// agree reports whether both have read that many rows, with the same bits in all encoded values and raw scores, and
// predictions that differ by at most 1e-12.
func (c compared) agree(rows int) bool {
	return c.Rows == rows && c.ValuesDiffer == 0 && c.MaxRawDiff == 0 && c.MaxDiff <= 1e-12
}

// pythonSweep is a sweep of one trial, without its name and dataset.
const pythonSweep = `
metric: log_loss
trials: 1
seed: 3
params: {num_iterations: 60, learning_rate: 0.2, min_data_in_leaf: 5, min_data_per_group: 5}
search: {fixed: [{}]}
machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 1}
limits: {trial: 2m, sweep: 5m}
gate: {against: none}
`

// nastySpec describes the table that python/tests/nasty.py makes, with every kind of column and statistic.
const nastySpec = `
label: click
categorical: [user, campaign, advertiser, device, premium, big]
missing: ["", NA, "null", "-999.0"]
split: {by: time, column: ts, train: 0.6, valid: 0.15, calib: 0.15, test: 0.1}
derive: {ts: [hour, weekday], signup: [age, weekday, hour]}
encodings:
  columns: {user: [rate, count, recency, categories], site: [levels, rate], campaign: [rate, count], big: [rate, categories]}
  keys: [[user, site], [ts.hour, campaign], [price~, device], [slot, premium], [score, ts.weekday]]
  back_off: {campaign: advertiser}
`

// TestInteropPythonPackage: the Python package, which shares no code with the programs, encodes and predicts rows as
// `launcher predict` does, with the same bits. Among the rows are levels of categories that the training rows do not
// have. Without COPPICE_FULL only the case "no time" is run, which has the most kinds of columns and statistics.
func TestInteropPythonPackage(t *testing.T) {
	python(t)
	clicks := func(t *testing.T, dir string) (train, table string, rows int) {
		path := filepath.Join(dir, "clicks.parquet")
		execute(t, dir, nil, binaryOf(t, "clicks"), "--rows", "20000", "--out", path).ok(t)
		return path, path, 20000
	}
	nasty := func(format string) func(t *testing.T, dir string) (train, table string, rows int) {
		return func(t *testing.T, dir string) (train, table string, rows int) {
			for seed, n := range []int{8000, 3000} {
				folder := filepath.Join(dir, fmt.Sprint(seed))
				execute(t, ".", nil, python(t), "python/tests/nasty.py", folder, fmt.Sprint(seed+1),
					fmt.Sprint(n)).ok(t)
			}
			return filepath.Join(dir, "0", "nasty."+format), filepath.Join(dir, "1", "nasty."+format), 3000
		}
	}

	empty := func(t *testing.T, dir string) (train, table string, rows int) {
		train, table, rows = nasty("parquet")(t, dir)
		execute(t, ".", nil, python(t), "python/tests/nasty.py", filepath.Dir(table), "2", "3000", "signup").ok(t)
		return train, table, rows
	}

	for name, tc := range map[string]struct {
		make func(t *testing.T, dir string) (train, table string, rows int)
		spec string
	}{
		"clicks": {clicks, "label: is_click\ndrop: [impression_id]\ncategorical: [campaign_id, publisher_id]\n" +
			"split: {by: time, column: ts, train: 0.6, valid: 0.15, calib: 0.15, test: 0.1}\n"},
		"csv":     {nasty("csv"), nastySpec},
		"parquet": {nasty("parquet"), nastySpec},
		// the table to score has a column of times without any value, typed as numbers
		"no time": {empty, nastySpec},
	} {
		if os.Getenv("COPPICE_FULL") == "" && name != "no time" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t)
			train, table, rows := tc.make(t, l.dir)
			l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+train+"\n"+tc.spec), "--json")
			l.must("launcher", "sweep", l.file("sweep.yaml", "name: t\ndataset: t\nmodel: m\n"+
				pythonSweep), "--json")
			scored := filepath.Join(l.dir, "scored.parquet")
			l.must("launcher", "predict", "--model", "m", "--raw", "--in", table, "--out", scored)

			version := filepath.Join(l.data, "gcs", "coppice-registry", "registry", "m", "versions", "1")
			against := []string{"--table", table, "--scored", scored, "--values", modelValues(t, version, table)}
			for _, reader := range []string{"pyarrow", "pandas"} {
				c := l.compare(slices.Concat([]string{"--version", version, "--reader", reader}, against)...)
				t.Logf("%s: %d rows, predictions differ by %g at most, raw scores by %g", reader, c.Rows, c.MaxDiff,
					c.MaxRawDiff)
				if !c.agree(rows) {
					t.Errorf("%s: %+v, and all %d rows should be the same", reader, c, rows)
				}
			}
			if c := l.compare(slices.Concat([]string{"--version", "gs://coppice-registry", "--model", "m"},
				against)...); !c.agree(rows) {
				t.Errorf("from the bucket: got %+v, want all %d rows to be the same", c, rows)
			}

			// With a wrong value planted into the version, the comparison has to fail: otherwise it would prove
			// nothing.
			for _, plant := range []string{"seed", "level", "sum"} {
				c := l.compare(slices.Concat([]string{"--version", version, "--plant", plant}, against)...)
				if c.agree(rows) || c.ValuesDiffer == 0 || c.Refused != (plant != "seed") {
					t.Errorf("with a planted wrong %s: got %+v; want values that differ, and a refusal unless it is "+
						"the seed", plant, c)
				}
			}
		})
	}
}

// compare runs python/tests/compare.py inside the local cloud and returns what it prints in its last line.
func (l *local) compare(args ...string) compared {
	l.t.Helper()
	script := must.Get(filepath.Abs("python/tests/compare.py"))(l.t)
	r := l.script("shift\nexec \"$@\"\n", slices.Concat([]string{python(l.t), script}, args)...)
	r.ok(l.t)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var c compared
	decode(l.t, lines[len(lines)-1], &c)
	return c
}

// modelValues writes to a file, as float64 row by row, the values that a model would see for the rows of the table in
// file, and returns its path. version is the folder with the version's features and levels.
func modelValues(t *testing.T, version, file string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(version, scorer.FileFeatures)))(t)
	encoding := must.Get(dataset.DecodeEncoding(data))(t)
	levels, err := dataset.OpenLevels(filepath.Join(version, scorer.FileLevels), encoding.Tables)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("open the levels: %v", err)
	}
	t.Cleanup(func() { levels.Close() })
	encoder := must.Get(cell.NewEncoder(encoding, levels))(t)

	files := must.Get(table.Expand(file))(t)
	from := must.Get(table.Open(files, table.Options{Threads: 1}))(t)
	var out []byte
	must.Do(t, from.Read(t.Context(), encoder.Columns(), 4096, func(b *table.Batch) error {
		values, err := encoder.Encode(b, nil, nil, 1)
		for _, x := range values {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		}
		return err
	}))
	path := filepath.Join(t.TempDir(), "values")
	must.Do(t, os.WriteFile(path, out, 0o644))
	return path
}

// mlflowRun is what bench/mlflow_check.py prints of an export, and of the same export once more: Again is the run and
// Existed[1] whether it was there. Registered has the number of the registered version as the first export, the second
// and MLflow's client tell it.
type mlflowRun struct {
	MLflow, Experiment, Name, Status string
	Params, Tags                     map[string]string
	Metrics                          map[string]float64
	Times                            []int64
	Datasets                         [][]string
	Run, Again                       string
	Existed                          [2]bool
	Registered                       [3]string
	Found, Inputs                    []string
	Predicted, Raw                   []float64
	ExpectedRaw                      []float64 `json:"expected_raw"`
	Trees                            int
}

// mlflow exports a version to the MLflow server at store, twice, and returns what MLflow then reads of it. table is a
// CSV with rows to predict.
func (l *local) mlflow(version, store, table string) (got mlflowRun) {
	l.t.Helper()
	script := must.Get(filepath.Abs("bench/mlflow_check.py"))(l.t)
	r := l.script("shift\nexec \"$@\" > mlflow.json\n", python(l.t), script, version, store, table)
	if r.code != 0 {
		l.t.Fatalf("bench/mlflow_check.py ended with %d, expected 0:\n%s", r.code, r.errOut)
	}
	if err := json.Unmarshal([]byte(l.read("mlflow.json")), &got); err != nil {
		l.t.Fatalf("bench/mlflow_check.py printed no JSON: %v\n%.1000s", err, l.read("mlflow.json"))
	}
	return got
}

// mlflowServer starts MLflow's tracking server on a free port, with a database and a proxy for artifacts in the test's
// folder. The function that it returns waits until the server answers, and returns its address. The server is killed
// when the test ends.
func (l *local) mlflowServer() (address func() string) {
	l.t.Helper()
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(l.t)
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()

	cmd := exec.Command(python(l.t), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port,
		"--backend-store-uri", "sqlite:///"+filepath.Join(l.dir, "mlflow.db"),
		"--serve-artifacts", "--artifacts-destination", filepath.Join(l.dir, "artifacts"), "--workers", "1",
		"--gunicorn-opts", "--no-control-socket")
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "MLFLOW_DISABLE_TELEMETRY=true",
		"MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has workers
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.Do(l.t, err)
	said := make(chan string, 1) // gets "" when the server is up, or what it has printed if it ends
	go func() {
		var text strings.Builder
		for lines := bufio.NewScanner(log); lines.Scan(); {
			fmt.Fprintln(&text, lines.Text())
			if strings.Contains(lines.Text(), "Booting worker") {
				said <- ""
			}
		}
		said <- text.String()
	}()
	l.t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })

	return sync.OnceValue(func() string {
		if text := <-said; text != "" {
			l.t.Fatalf("MLflow's server ended:\n%s", text)
		}
		return "http://127.0.0.1:" + port
	})
}

// TestInteropMLflow: an exported version is a run and a registered model in MLflow, with the parameters, metrics, tags
// and dataset of the version. Exporting it again adds nothing. The model predicts in MLflow, to 1e-12, what `launcher
// predict` writes. Without COPPICE_FULL only the second of two versions is exported.
func TestInteropMLflow(t *testing.T) {
	python(t)
	l := newLocal(t)
	server := l.mlflowServer() // which takes as long as the sweeps
	train := l.file("train.csv", string(datasettest.Table(datasettest.Options{Rows: 5000})))
	today := l.file("today.csv", string(datasettest.Table(datasettest.Options{Rows: 700, Seed: 2})))
	l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+train+
		"\nlabel: is_click\ndrop: [revenue]\ncategorical: [campaign_id]\n"+
		"split: {by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n"), "--json")
	sweepOf := func(name, more string) string {
		return l.file(name+".yaml", "name: "+name+"\ndataset: t\nmodel: m\n"+pythonSweep+more)
	}
	l.must("launcher", "sweep", sweepOf("first", ""), "--json")
	l.must("launcher", "sweep", sweepOf("second", ""), "--json")

	for _, number := range []string{"1", "2"} {
		if number == "1" && os.Getenv("COPPICE_FULL") == "" {
			continue
		}
		version := "m@" + number
		got := l.mlflow(version, server(), today)
		t.Logf("MLflow %s: run %s of %s, %d params, %d metrics, inputs %q", got.MLflow, got.Name, got.Experiment,
			len(got.Params), len(got.Metrics), got.Inputs)

		// What the run says.
		if got.Experiment != "m" || got.Name != version || got.Status != "FINISHED" ||
			!slices.Contains(got.Found, got.Run) || got.Params["num_iterations"] != "60" ||
			got.Tags["coppice.version"] != number || len(got.Datasets) != 1 || got.Datasets[0][0] != "t" ||
			got.Trees != 60 {
			t.Errorf("%s: MLflow reads %+v; want a finished run %s of experiment m on dataset t, with 60 trees",
				version, got, version)
		}
		if v := got.Metrics["valid.log_loss"]; !(v > 0.1 && v < 0.7) || got.Metrics["test.log_loss"] == 0 {
			t.Errorf("%s: metrics %v; want a log loss of 0.1 to 0.7 on valid, and one on test", version, got.Metrics)
		}
		if id := got.Tags["coppice.export"]; len(id) != 64 || got.Tags["coppice.dataset"] != "t@"+got.Datasets[0][1] ||
			got.Times[0] <= 0 || got.Times[1] < got.Times[0] || !slices.Contains(got.Inputs, "campaign_id") {
			t.Errorf("%s: tags %v, times %v, inputs %q; want a checksum of the export, the dataset %v, times in order "+
				"and campaign_id as an input", version, got.Tags, got.Times, got.Inputs, got.Datasets[0])
		}

		// The second export found the run and the registered version, and added nothing.
		if got.Existed != [2]bool{false, true} || got.Again != got.Run ||
			got.Registered[1] != got.Registered[0] || got.Registered[2] != got.Registered[0] {
			t.Errorf("%s: exported twice: runs %s and %s (existed: %v), registered as %q; expected one run and version",
				version, got.Run, got.Again, got.Existed, got.Registered)
		}

		// What the models predict.
		scored := filepath.Join(l.dir, "scored.csv")
		l.must("launcher", "predict", "--model", version, "--in", today, "--out", scored)
		text := must.Get(os.ReadFile(scored))(t)
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil || len(rows) != 701 || len(got.Predicted) != 700 || len(got.Raw) != 700 {
			t.Fatalf("error %v: %d rows scored, %d and %d by MLflow; want 700 each", err, len(rows)-1,
				len(got.Predicted), len(got.Raw))
		}
		for i, row := range rows[1:] {
			want, err := strconv.ParseFloat(row[0], 64)
			if err != nil || !(math.Abs(want-got.Predicted[i]) <= 1e-12) ||
				!(math.Abs(got.Raw[i]-got.ExpectedRaw[i]) <= 1e-12) {
				t.Fatalf("%s, row %d: MLflow predicts %v and %v, expected %s and %v", version, i, got.Predicted[i],
					got.Raw[i], row[0], got.ExpectedRaw[i])
			}
		}
	}

	if out := l.must("launcher", "registry", "reproduce", "m@2"); !strings.Contains(out, "the same bytes") {
		t.Errorf("launcher registry reproduce m@2 prints\n%s\nwant that it has the same bytes", out)
	}
}
