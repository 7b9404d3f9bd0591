package metric_test

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// table reads testdata/NAME/rows.csv by column.
func table(t *testing.T, name string) map[string][]string {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("testdata", name, "rows.csv")))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	columns := map[string][]string{}
	for j, head := range rows[0] {
		for _, row := range rows[1:] {
			columns[head] = append(columns[head], row[j])
		}
	}
	return columns
}

func float64s(t *testing.T, words []string) []float64 {
	t.Helper()
	out := make([]float64, len(words))
	for i, w := range words {
		v := must.Get(strconv.ParseFloat(w, 64))(t)
		out[i] = v
	}
	return out
}

func float32s(t *testing.T, words []string) []float32 {
	t.Helper()
	out := make([]float32, len(words))
	for i, v := range float64s(t, words) {
		out[i] = float32(v)
	}
	return out
}

func wants(t *testing.T, name string) map[string]map[string]float64 {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name, "want.json")))(t)
	var want map[string]map[string]float64
	must.Do(t, json.Unmarshal(data, &want))
	if len(want) == 0 {
		t.Fatal("want.json is empty")
	}
	return want
}

func lookup(t *testing.T, name string) metric.Metric {
	t.Helper()
	m := must.Get(metric.Lookup(name))(t)
	return m
}

func compare(t *testing.T, in metric.Input, want map[string]float64) {
	t.Helper()
	var e metric.Evaluator
	e.Reset(in)
	for name, value := range want {
		got, err := e.Eval(lookup(t, name))
		if err != nil {
			t.Errorf("evaluated %s: error %v", name, err)
			continue
		}
		if math.Abs(got-value) > 1e-12*max(1, math.Abs(value)) {
			t.Errorf("%s: got %.17g, scikit-learn %.17g", name, got, value)
		}
	}
}

func TestBinaryAgainstScikitLearn(t *testing.T) {
	rows := table(t, "binary")
	for key, want := range wants(t, "binary") {
		t.Run(key, func(t *testing.T) {
			in := metric.Input{Label: float32s(t, rows["label"])}
			switch key {
			case "pred plain", "pred weighted":
				in.Pred = float64s(t, rows["pred"])
			case "tied plain", "tied weighted":
				in.Pred = float64s(t, rows["tied"])
			}
			if key == "pred weighted" || key == "tied weighted" {
				in.Weight = float32s(t, rows["weight"])
			}
			compare(t, in, want)
		})
	}
}

func TestRegressionAgainstScikitLearn(t *testing.T) {
	rows := table(t, "regression")
	for key, want := range wants(t, "regression") {
		t.Run(key, func(t *testing.T) {
			in := metric.Input{Label: float32s(t, rows["label"]), Pred: float64s(t, rows["pred"])}
			if key == "weighted" {
				in.Weight = float32s(t, rows["weight"])
			}
			compare(t, in, want)
		})
	}
}

func TestRankingAgainstScikitLearn(t *testing.T) {
	rows := table(t, "ranking")
	group := make([]uint64, len(rows["group"]))
	for i, w := range rows["group"] {
		v := must.Get(strconv.ParseUint(w, 10, 64))(t)
		group[i] = v
	}
	for key, want := range wants(t, "ranking") {
		t.Run(key, func(t *testing.T) {
			in := metric.Input{Label: float32s(t, rows["label"]), Pred: float64s(t, rows["pred"]), Group: group}
			if key == "weighted" {
				in.Weight = float32s(t, rows["weight"])
			}
			compare(t, in, want)
		})
	}
}
