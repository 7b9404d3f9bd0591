//go:build e2e

package e2e

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coppice/dataset/datasettest"
)

// TestInteropMLflow exports two versions, the second grown on the first, and has MLflow read the runs, load the models and predict.
func TestInteropMLflow(t *testing.T) {
	python(t)
	l := newLocal(t)
	train := l.file("train.csv", string(datasettest.Table(datasettest.Options{Rows: 5000})))
	today := l.file("today.csv", string(datasettest.Table(datasettest.Options{Rows: 700, Seed: 2})))
	l.must("launcher", "stage", l.file("dataset.yaml", "name: t\nsource: "+train+"\nlabel: is_click\ndrop: [revenue]\ncategorical: [campaign_id]\n"+
		"split: {by: hash, key: user_id, train: 0.6, valid: 0.15, calib: 0.1, test: 0.15}\n"), "--json")
	sweepOf := func(name, more string) string {
		return l.file(name+".yaml", "name: "+name+"\ndataset: t\nmodel: m\n"+pythonSweep+more)
	}
	l.must("launcher", "sweep", sweepOf("first", ""), "--json")
	l.must("launcher", "sweep", sweepOf("second", "continue: {from: champion}\n"), "--json")

	store := filepath.Join(l.dir, "mlruns")
	for number, trees := range map[string]int{"1": 60, "2": 120} {
		version := "m@" + number
		var out struct{ Run string }
		if err := json.Unmarshal([]byte(l.must("launcher", "registry", "export", version, "--mlflow", store, "--json")), &out); err != nil {
			t.Fatal(err)
		}
		r := execute(t, ".", nil, python(t), "bench/mlflow_check.py", store, out.Run, today)
		if r.code != 0 {
			t.Fatalf("bench/mlflow_check.py ended with %d, expected 0:\n%s", r.code, r.errOut)
		}
		var got struct {
			MLflow, Experiment, Name, Status string
			Params, Tags                     map[string]string
			Metrics                          map[string]float64
			Datasets, Found, Inputs          []string
			Predicted, Raw                   []float64
			ExpectedRaw                      []float64 `json:"expected_raw"`
			Trees                            int
		}
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("bench/mlflow_check.py printed no JSON: %v\n%s", err, r.out)
		}
		t.Logf("MLflow %s: run %s of %s, %d params, %d metrics, inputs %q", got.MLflow, got.Name, got.Experiment, len(got.Params), len(got.Metrics), got.Inputs)

		// What the run says.
		if got.Experiment != "m" || got.Name != version || got.Status != "FINISHED" || !slices.Contains(got.Found, out.Run) || got.Params["num_iterations"] != "60" ||
			got.Tags["coppice.version"] != number || len(got.Datasets) != 1 || !strings.HasPrefix(got.Datasets[0], "t@") || got.Trees != trees {
			t.Errorf("%s: MLflow reads %+v", version, got)
		}
		if v := got.Metrics["valid.log_loss"]; !(v > 0.1 && v < 0.7) || got.Metrics["test.log_loss"] == 0 {
			t.Errorf("%s: metrics %v", version, got.Metrics)
		}

		// What the models predict.
		scored := filepath.Join(l.dir, "scored.csv")
		l.must("launcher", "predict", "--model", version, "--in", today, "--out", scored)
		text, err := os.ReadFile(scored)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(string(text))).ReadAll()
		if err != nil || len(rows) != 701 || len(got.Predicted) != 700 || len(got.Raw) != 700 {
			t.Fatalf("%v: %d rows scored, %d and %d by MLflow", err, len(rows)-1, len(got.Predicted), len(got.Raw))
		}
		for i, row := range rows[1:] {
			want, err := strconv.ParseFloat(row[0], 64)
			if err != nil || !(math.Abs(want-got.Predicted[i]) <= 1e-12) || !(math.Abs(got.Raw[i]-got.ExpectedRaw[i]) <= 1e-12) {
				t.Fatalf("%s, row %d: MLflow predicts %v and %v, expected %s and %v", version, i, got.Predicted[i], got.Raw[i], row[0], got.ExpectedRaw[i])
			}
		}
	}

	// A version that continues another is grown again from it.
	if out := l.must("launcher", "registry", "reproduce", "m@2"); !strings.Contains(out, "the same bytes") {
		t.Errorf("reproduce says\n%s", out)
	}
	if out := l.must("launcher", "registry", "explain", "m@2"); !strings.Contains(out, "campaign_id") {
		t.Errorf("explain says\n%s", out)
	}
}
