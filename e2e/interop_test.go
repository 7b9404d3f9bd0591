//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/internal/dataset"
	"coppice/internal/dataset/datasettest"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// python returns the path of the Python interpreter that has lightgbm and the other packages to compare with. It skips
// the test if there is none.
func python(t *testing.T) string {
	t.Helper()
	path := os.Getenv("COPPICE_PYTHON")
	if path == "" {
		t.Skip("SKIPPED, AND WITH IT THE COMPARISON WITH PYTHON'S LIGHTGBM: COPPICE_PYTHON is not set; `make " +
			"interop` installs it")
	}
	return path
}

// pythonAgrees fails the test unless Python's lightgbm, with the model of that file, gives the same raw scores to 1e-9.
// values are the rows, as many values each as the model has features, and scores what Coppice gives for them.
func pythonAgrees(t *testing.T, model string, values, scores []float64) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, xs []float64) string {
		data := make([]byte, 0, 8*len(xs))
		for _, x := range xs {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		}
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, data, 0o644))
		return path
	}
	r := execute(t, ".", nil, python(t), "bench/scores.py", model, write("values", values), write("scores", scores))
	r.ok(t)
	var got struct {
		Rows, Features, Trees int
		MaxDiff               float64 `json:"max_diff"`
	}
	decode(t, r.out, &got)
	t.Logf("Python's lightgbm: %s", strings.TrimSpace(r.out))
	if got.Rows == 0 || got.Trees == 0 || !(got.MaxDiff <= 1e-9) {
		t.Errorf("got the comparison %s; want rows, trees and a difference of at most 1e-9", r.out)
	}
}

// sampleValues returns the sample of the staged dataset in the folder dir, and the values that a model would see for
// its rows, row by row.
func sampleValues(t *testing.T, dir string) ([]float64, *dataset.Sample) {
	t.Helper()
	d := must.Get(dataset.Open(dir))(t)
	defer d.Close()
	data := must.Get(os.ReadFile(filepath.Join(dir, dataset.SampleFile)))(t)
	s := must.Get(dataset.ReadSample(data))(t)
	values := must.Get(datasettest.Encoder(t, d).EncodeSample(s))(t)
	return values, s
}

// TestInteropScores: Python's lightgbm gives the same raw scores with a model that Coppice has trained, whatever its
// parameters and objective. Without COPPICE_FULL only some of the cases are run.
func TestInteropScores(t *testing.T) {
	python(t)
	some := []string{"categorical", "extra", "quantile", "multiclass", "lambdarank"}
	for name, tc := range map[string]struct{ label, params string }{
		"binary": {"is_click", "num_iterations: 60\nnum_leaves: 40\n"},
		"categorical": {"is_click",
			"num_iterations: 40\nmin_data_in_leaf: 2\nmin_data_per_group: 5\nmax_cat_to_onehot: 1\ncat_smooth: 1\n"},
		"one-hot": {"is_click", "num_iterations: 40\nmax_cat_to_onehot: 255\n"},
		"regularised": {"is_click",
			"num_iterations: 40\nlambda_l1: 1\nmax_delta_step: 0.5\nbagging_fraction: 0.5\nbagging_freq: " +
				"1\nfeature_fraction: 0.5\n"},
		"columns":    {"is_click", "num_iterations: 30\nignore_column: \"name:publisher_id,country\"\n"},
		"extra":      {"is_click", "num_iterations: 40\nextra_trees: true\n"},
		"regression": {"{column: page_load_ms, kind: regression}", "num_iterations: 60\nobjective: l2\n"},
		"sqrt":       {"{column: page_load_ms, kind: regression}", "reg_sqrt: true\n"},
		"l1":         {"{column: page_load_ms, kind: regression}", "objective: l1\n"},
		"huber":      {"{column: page_load_ms, kind: regression}", "objective: huber\nalpha: 200\n"},
		"quantile":   {"{column: page_load_ms, kind: regression}", "objective: quantile\nalpha: 0.3\n"},
		"poisson":    {"{column: user_clicks_30d, kind: regression}", "objective: poisson\n"},
		"gamma":      {"{column: page_load_ms, kind: regression}", "objective: gamma\n"},
		"tweedie": {"{column: user_clicks_30d, kind: regression}",
			"objective: tweedie\ntweedie_variance_power: 1.2\n"},
		"cross_entropy": {"{column: viewability, kind: regression}", "objective: cross_entropy\n"},
		"multiclass":    {"device", "num_iterations: 20\n"},
		"lambdarank":    {"is_click\ngroup: user_id", "objective: lambdarank\n"},
		"rank_xendcg":   {"is_click\ngroup: user_id", "objective: rank_xendcg\n"},
	} {
		if os.Getenv("COPPICE_FULL") == "" && !slices.Contains(some, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLocal(t)
			table := filepath.Join(l.dir, "clicks.parquet")
			execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "20000", "--out", table).ok(t)
			spec := l.file("dataset.yaml", "name: t\nsource: clicks.parquet\nlabel: "+tc.label+
				"\ndrop: [impression_id, ts]\n"+
				"categorical: [campaign_id, publisher_id]\nencodings: none\nsplit: {by: hash, key: user_id, train: "+
				"0.7, test: 0.3}\n")
			dir := l.stageHere(spec)
			model := filepath.Join(l.dir, "model.txt")
			execute(t, l.dir, nil, binaryOf(t, "task"), "train", "--dataset", dir, "--params",
				l.file("p.yaml", tc.params), "--out", model).ok(t)
			f := must.Get(os.Open(model))(t)
			defer f.Close()
			m := must.Get(gbt.ReadModel(bufio.NewReader(f)))(t)
			values, s := sampleValues(t, dir)
			scores := make([]float64, len(s.Row)*m.Outputs())
			must.Do(t, m.PredictAll(values, scores, 2))
			pythonAgrees(t, model, values, scores)
		})
	}
}

// TestInteropModels: Coppice reads models that LightGBM has trained, at least one of each objective, and gives the same
// raw scores and the same predictions, to 1e-9 of the value or of 1.
func TestInteropModels(t *testing.T) {
	dir := t.TempDir()
	r := execute(t, ".", nil, python(t), "bench/lightgbm_models.py", dir)
	r.ok(t)
	values := float64s(t, filepath.Join(dir, "values"))
	names := strings.Fields(r.out)
	if len(names) < len(gbt.Objectives()) {
		t.Fatalf("got models %v, want one of each objective", names)
	}
	for _, name := range names {
		f := must.Get(os.Open(filepath.Join(dir, name+".txt")))(t)
		m, err := gbt.ReadModel(bufio.NewReader(f))
		_ = f.Close()
		if err != nil {
			t.Errorf("%s: reading LightGBM's model: %v, want no error", name, err)
			continue
		}
		raw, out := float64s(t, filepath.Join(dir, name+".raw")), float64s(t, filepath.Join(dir, name+".out"))
		got := make([]float64, len(raw)) // of several classes, row by row
		must.Do(t, m.PredictAll(values, got, 2))
		for _, want := range [][]float64{raw, out} {
			for i := range want {
				if !(math.Abs(got[i]-want[i]) <= 1e-9*max(1, math.Abs(want[i]))) {
					t.Fatalf("%s, row %d: got %v, want LightGBM's %v", name, i, got[i], want[i])
				}
			}
			m.Transform(got)
		}
	}
}

// float64s returns the numbers in a file of little-endian float64.
func float64s(t *testing.T, file string) []float64 {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	out := make([]float64, len(data)/8)
	for i := range out {
		out[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return out
}

// TestInteropParameters: Coppice knows every parameter that the installed LightGBM has, by each of its names, so that
// whoever uses one is told at least that it has no effect here. internal/gbt/testdata/lightgbm/params.json is such a
// list for tests without Python. LightGBM has at least 140 parameters.
func TestInteropParameters(t *testing.T) {
	r := execute(t, ".", nil, python(t), "-c", "import json; from lightgbm.basic import _ConfigAliases as all\n"+
		"all.get('seed'); print(json.dumps({name: list(words) for name, words in all.aliases.items()}))")
	r.ok(t)
	var all map[string][]string
	decode(t, r.out, &all)
	if len(all) < 140 {
		t.Fatalf("got %d parameters, want LightGBM's: %.200s", len(all), r.out)
	}
	for name, words := range all {
		for _, word := range append(words, name) {
			_, err := gbt.ParseParams(map[string]any{word: []any{}}) // no value is like this
			if got := gbt.CanonicalName(word); got != name || strings.Contains(fmt.Sprint(err), "no such") {
				t.Errorf("LightGBM's %s, called %s: got %q, %v; add it to internal/gbt/param_table.go", name, word, got,
					err)
			}
		}
	}
}

// TestQualityOfObjectives: on held-out rows of a real table, a model of each objective is at most 0.5 % worse by its
// metric than LightGBM's on the same bins.
func TestQualityOfObjectives(t *testing.T) {
	data := filepath.Dir(realData(t, "nycflights13_337k.csv.gz"))
	r := execute(t, ".", nil, python(t), "bench/objectives.py", "--data", data, "--bin",
		filepath.Dir(binaryOf(t, "task")), "--out", t.TempDir(), "--seeds", "1")
	r.ok(t)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	for _, line := range lines {
		var q struct {
			Objective, Metric string
			Coppice           float64
			LightGBM          float64 `json:"lightgbm"`
			Constant          float64
		}
		decode(t, line, &q)
		// The share is of the metric, or of what the model gains over a constant if that is more: a metric such as the
		// Poisson likelihood may be near 0.
		worse := (q.Coppice - q.LightGBM) / max(math.Abs(q.LightGBM), q.Constant-q.LightGBM)
		t.Logf("%-22s %-14s Coppice %.5f, LightGBM on the same bins %.5f (%+.2f %%)", q.Objective, q.Metric, q.Coppice,
			q.LightGBM, 100*worse)
		const limit = 0.005
		if !(worse <= limit) {
			t.Errorf("%s: %.2f %% worse than LightGBM, want at most %v %%", q.Objective, 100*worse, 100*limit)
		}
	}
	if len(lines) < len(gbt.Objectives()) {
		t.Errorf("bench/objectives.py printed %d lines, want one for each of %d objectives", len(lines),
			len(gbt.Objectives()))
	}
}

// stageHere stages the table of a dataset.yaml into a folder of the test, without a cloud, and returns the folder of
// the dataset's version.
func (l *local) stageHere(spec string) string {
	l.t.Helper()
	r := execute(l.t, l.dir, nil, binaryOf(l.t, "launcher"), "stage", spec, "--out", filepath.Join(l.dir, "folder"),
		"--json")
	r.ok(l.t)
	var staged struct {
		Place string `json:"place"`
	}
	decode(l.t, r.out, &staged)
	return staged.Place
}

// winnerAgrees compares, as pythonAgrees does, the scores that the winner of a sweep has of the sampled rows of test
// with those that Python gives with the winner's registered model. dir is the folder of the staged dataset.
func (l *local) winnerAgrees(t *testing.T, c *sweep.Conclusion, dir string) {
	t.Helper()
	objects := l.objects()
	model := l.file("winner.txt", objects["coppice-registry/registry/"+c.Model+"/versions/1/judged.txt"])
	all := must.Get(sweep.DecodeScores([]byte(objects["coppice-sweeps/"+sweep.Names(c.Sweep).Attempt(c.Trial, 0)+
		"test.scores"])))(t)
	values, s := sampleValues(t, dir)
	scores := make([]float64, len(s.Row))
	for i, r := range s.Row {
		scores[i] = all[r]
	}
	pythonAgrees(t, model, values, scores)
}

// TestQuality: on each of four real tables the log loss on valid is at most 0.5 % above that of LightGBM, both on the
// raw table and on the same bins.
func TestQuality(t *testing.T) {
	data := filepath.Dir(realData(t, "flight_delays_100k.csv"))
	r := execute(t, ".", nil, python(t), "bench/quality.py", "--data", data, "--bin", filepath.Dir(binaryOf(t, "task")),
		"--out", t.TempDir())
	r.ok(t)
	const limit = 1.005
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	for _, line := range lines {
		var q struct {
			Table   string  `json:"table"`
			Coppice float64 `json:"coppice"`
			Bins    float64 `json:"lightgbm_bins"`
			Raw     float64 `json:"lightgbm_raw"`
		}
		decode(t, line, &q)
		t.Logf("%-10s log loss on valid: Coppice %.5f, LightGBM on the raw table %.5f (%+.2f %%), on the same bins "+
			"%.5f (%+.2f %%)",
			q.Table, q.Coppice, q.Raw, 100*(q.Coppice/q.Raw-1), q.Bins, 100*(q.Coppice/q.Bins-1))
		if !(q.Coppice > 0) || q.Coppice > limit*q.Raw || q.Coppice > limit*q.Bins {
			t.Errorf("%s: log loss %.5f, want at most %v times LightGBM's %.5f and %.5f", q.Table, q.Coppice, limit,
				q.Raw, q.Bins)
		}
	}
	if len(lines) != 4 {
		t.Errorf("bench/quality.py compared %d tables, want 4", len(lines))
	}
}

// TestInteropClicks: the metrics for clicks, and the standard errors of a metric and of a difference of two models, are
// to 1e-12 what a script in numpy makes of their definitions. Every second of the six random tables has weights, and
// the old model's predictions have ties.
func TestInteropClicks(t *testing.T) {
	interpreter := python(t)
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := metric.Input{}
		var old []float64
		for range 1200 {
			z := -2 + 1.3*r.NormFloat64()
			label := float32(0)
			if r.Float64() < 1/(1+math.Exp(-z)) {
				label = 1
			}
			in.Label = append(in.Label, label)
			in.Pred = append(in.Pred, 1/(1+math.Exp(-z-0.3*r.NormFloat64())))
			// One of 51 values, so that there are ties, from 0.01 to 0.85, since log loss takes no 0 and no 1.
			old = append(old, math.Round(50/(1+math.Exp(-z-0.5*r.NormFloat64())))/60+0.01)
			if seed%2 == 1 {
				in.Weight = append(in.Weight, float32(r.IntN(4))*0.3)
			}
		}

		rows := must.Get(json.Marshal(map[string]any{"label": in.Label, "weight": widened(in.Weight), "new": in.Pred,
			"old": old}))(t)
		cmd := exec.CommandContext(t.Context(), interpreter, "internal/metric/testdata/clicks/reference.py")
		cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Stdin = bytes.NewReader(rows)
		var errOut bytes.Buffer
		cmd.Stderr = &errOut
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("reference.py: %v\n%s", err, errOut.String())
		}
		var want map[string]struct {
			New, Old, Error float64
			NewError        float64 `json:"new_error"`
		}
		if err := json.Unmarshal(text, &want); err != nil || len(want) < 6 {
			t.Fatalf("reference.py printed %d metrics: %v\n%s", len(want), err, text)
		}

		for name, w := range want {
			m := must.Get(metric.Lookup(name))(t)
			c := must.Get(m.Compare(in, old, metric.Confidence{}))(t)
			i := must.Get(m.Interval(in, metric.Confidence{}))(t)
			for what, pair := range map[string][2]float64{"new": {c.New, w.New}, "old": {c.Old, w.Old},
				"error": {c.Error, w.Error}, "error alone": {i.Error, w.NewError}} {
				if math.Abs(pair[0]-pair[1]) > 1e-12*max(1, math.Abs(pair[1])) {
					t.Errorf("seed %d: %s %s is %.17g, numpy says %.17g", seed, name, what, pair[0], pair[1])
				}
			}
		}
	}
}

// widened returns the same numbers as float64, whose digits in JSON are exact. It returns nil for nil, which is null in
// JSON.
func widened(xs []float32) []float64 {
	var out []float64
	for _, x := range xs {
		out = append(out, float64(x))
	}
	return out
}

// TestInteropGoogleClients: Google's own Python clients of Cloud Storage, Pub/Sub and Batch get from the local cloud
// what the services would give. A call that the local cloud does not imitate is refused with its name. The scripts
// print a line "ok" or "FAIL" for each test.
func TestInteropGoogleClients(t *testing.T) {
	interpreter := python(t)
	for _, client := range []string{"storage", "pubsub", "batch"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "cloud")
			r := execute(t, ".", nil, binaryOf(t, "localemu"), "exec", "--data", data, "--", "env",
				"PYTHONDONTWRITEBYTECODE=1", interpreter, "e2e/clients/"+client+".py")
			if r.code != 0 || strings.Contains(r.out, "FAIL") || !strings.Contains(r.out, "ok   test_") {
				t.Errorf("e2e/clients/%s.py ended with %d, expected every call to be right:\n%s%s", client, r.code,
					r.out, r.errOut)
			}
			t.Log(lastLine(r.out))
		})
	}
}

// lastLine returns the last line of text that is not empty.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

var pythonBlock = regexp.MustCompile("(?s)# The model file by itself\n.*?\n```python\n(.*?)\n```\n")

// TestInteropReadmeExample: the Python lines of docs/serving.md, run beside the files of a registered version, give to
// 1e-12 the scores of `launcher predict --raw`. The rows have missing values, rare categories and categories that the
// training rows do not have. At least 100 scores have to differ, so that the comparison means something.
func TestInteropReadmeExample(t *testing.T) {
	python(t)
	readme := must.Get(os.ReadFile("docs/serving.md"))(t)
	m := pythonBlock.FindSubmatch(readme)
	if m == nil {
		t.Fatal("docs/serving.md has no Python block after \"# The model file by itself\", want one")
	}

	// table returns a CSV of random rows. If seed is above 1, some rows have a device that the first table does not.
	table := func(seed uint64, rows int) string {
		rng := rand.New(rand.NewPCG(seed, 3))
		var b strings.Builder
		b.WriteString("y,site,device,age,price\n")
		for range rows {
			site, device, age := int(rng.ExpFloat64()*60), rng.IntN(4), rng.IntN(70)
			cells := []string{fmt.Sprintf("s%d", site), []string{"phone", "tv", "tablet", "NA"}[device],
				fmt.Sprint(age), fmt.Sprintf("%.3f", 10*rng.Float64())}
			if rng.IntN(6) == 0 {
				cells[rng.IntN(2)*2] = "" // site or age
			}
			if seed > 1 && rng.IntN(10) == 0 {
				cells[1] = "fridge"
			}
			p := 0.1 + 0.3*float64(site%3)/2 + 0.2*float64(device%2)
			y := 0
			if rng.Float64() < p+float64(age)/400 {
				y = 1
			}
			fmt.Fprintf(&b, "%d,%s\n", y, strings.Join(cells, ","))
		}
		return b.String()
	}

	l := newLocal(t)
	train, today := l.file("train.csv", table(1, 6000)), l.file("today.csv", table(2, 2000))
	l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+train+"\nlabel: y\nencodings: none\n"+
		"split: {by: random, train: 0.6, valid: 0.2, calib: 0.1, test: 0.1}\n"), "--json")
	l.must("launcher", "sweep", l.file("sweep.yaml", "name: t\ndataset: t\nmodel: m\n"+pythonSweep), "--json")
	scored := filepath.Join(l.dir, "scored.csv")
	l.must("launcher", "predict", "--model", "m", "--raw", "--in", today, "--out", scored)

	// The example's files are those of the version, beside today's table.
	version := filepath.Join(l.data, "gcs", "coppice-registry", "registry", "m", "versions", "1")
	for _, name := range []string{"model.txt", "features.json"} {
		data := must.Get(os.ReadFile(filepath.Join(version, name)))(t)
		l.file(name, string(data))
	}
	script := l.file("example.py", string(m[1])+"\nprint(*map(repr, raw.tolist()), sep='\\n')\n")
	r := execute(t, l.dir, nil, python(t), script)
	r.ok(t)

	f := must.Get(os.Open(scored))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	got := strings.Fields(r.out)
	if len(got) != 2000 || len(rows) != 2001 {
		t.Fatalf("the example scored %d rows, predict %d; want 2000", len(got), len(rows)-1)
	}
	different := map[string]bool{}
	for i, row := range rows[1:] {
		want, err1 := strconv.ParseFloat(row[1], 64)
		have, err2 := strconv.ParseFloat(got[i], 64)
		if err1 != nil || err2 != nil || !(math.Abs(want-have) <= 1e-12) {
			t.Fatalf("row %d: the example says %s, predict %s", i, got[i], row[1])
		}
		different[row[1]] = true
	}
	if len(different) < 100 {
		t.Errorf("got %d different scores, want at least 100", len(different))
	}
}

// TestInteropSweepTables: the Python package reads from a sweep, in its folder and in the bucket, what the launcher
// shows of it: the order, scores, trees and parameters of the leaderboard, every point of the learning curves, and the
// outcome.
func TestInteropSweepTables(t *testing.T) {
	python(t)
	l := newLocal(t)
	clicks := filepath.Join(l.dir, "clicks.parquet")
	execute(t, l.dir, nil, binaryOf(t, "clicks"), "--rows", "20000", "--out", clicks).ok(t)
	l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+clicks+
		"\nlabel: is_click\ndrop: [impression_id]\nencodings: none\n"+
		"split: {by: time, column: ts, train: 0.6, valid: 0.15, calib: 0.15, test: 0.1}\n"), "--json")
	l.must("launcher", "sweep", l.file("sweep.yaml", `name: t
dataset: t
model: m
metric: log_loss
trials: 3
early_stopping_rounds: 10
params: {num_iterations: 40, learning_rate: 0.2}
search: {fixed: [{num_leaves: 4}, {num_leaves: 15}, {num_leaves: 31}]}
machine: {type: n2-highmem-2, vms: 1, threads_per_task: 1, tasks_per_vm: 2}
limits: {trial: 2m, sweep: 5m}
gate: {against: none}
`), "--id", "tables", "--json")

	var want sweep.Board
	decode(t, l.must("launcher", "leaderboard", "tables", "--json"), &want)
	curves := map[string][][2]float64{}
	for name, text := range l.objects() {
		if strings.HasPrefix(name, "coppice-sweeps/") && strings.Contains(name, "/curves/") {
			c, err := sweep.DecodeCurve([]byte(text))
			if err != nil {
				t.Fatalf("%s: reading the curve: %v, want no error", name, err)
			}
			for _, p := range sweep.JoinCurves([]sweep.Curve{*c}) {
				trial := strconv.Itoa(c.Trial)
				curves[trial] = append(curves[trial], [2]float64{float64(p.Tree), p.Score})
			}
		}
	}
	script := must.Get(filepath.Abs("python/tests/sweeps.py"))(t)

	for _, place := range []string{filepath.Join(l.data, "gcs", "coppice-sweeps"), "gs://coppice-sweeps"} {
		r := l.script("shift\nexec \"$@\"\n", python(t), script, "tables", place)
		var got struct {
			Board   [][3]float64
			Leaves  map[string]float64
			Curves  map[string][][2]float64
			Outcome string
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || r.code != 0 {
			t.Fatalf("from %s: %v, exit code %d: %s%s", place, err, r.code, r.out, r.errOut)
		}
		for i, row := range want.Rows {
			if b := got.Board[i]; int(b[0]) != row.Trial.Number || b[1] != row.Result.Score ||
				int(b[2]) != row.Result.Trees ||
				got.Leaves[strconv.Itoa(row.Trial.Number)] != row.Trial.Params["num_leaves"] {
				t.Errorf("from %s, rank %d is %v, expected trial %d with %v", place, i+1, b, row.Trial.Number,
					row.Result.Score)
			}
		}
		if len(curves) != 3 || !reflect.DeepEqual(got.Curves, curves) {
			t.Errorf("from %s, the curves are %v, expected %v", place, got.Curves, curves)
		}
		if got.Outcome != "winner" {
			t.Errorf("from %s, it ended with %q, expected a winner", place, got.Outcome)
		}
	}
}
