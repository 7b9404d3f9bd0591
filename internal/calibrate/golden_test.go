package calibrate

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

type golden struct {
	At              []float64
	Plain, Weighted struct {
		Predict map[Method][]float64
		Folds   map[Method]float64
	}
	Bent, Falling map[Method][]float64
}

func readGolden(t *testing.T) (golden, map[string][]float64) {
	t.Helper()
	data, err := os.ReadFile("testdata/sklearn/want.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("testdata/sklearn/rows.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]float64{}
	for j, head := range rows[0] {
		for _, row := range rows[1:] {
			v, err := strconv.ParseFloat(row[j], 64)
			if err != nil {
				t.Fatal(err)
			}
			columns[head] = append(columns[head], v)
		}
	}
	return g, columns
}

func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(v[i])
	}
	return out
}

func compareAt(t *testing.T, what string, c *Calibrator, at, want []float64, tolerance float64) {
	t.Helper()
	if len(at) != len(want) || len(at) == 0 {
		t.Fatalf("%s: %d values at %d scores", what, len(want), len(at))
	}
	for i, x := range at {
		if got := c.Predict(x); !(math.Abs(got-want[i]) <= tolerance) {
			t.Errorf("%s at %v: got %.15g, want %.15g", what, x, got, want[i])
		}
	}
}

// The optimizers of scipy stop near the optimum, not on it.
var tolerances = map[Method]float64{Isotonic: 1e-12, Platt: 1e-7}

func TestAgainstScikitLearn(t *testing.T) {
	g, rows := readGolden(t)
	for kind, want := range map[string]struct {
		weight  []float32
		predict map[Method][]float64
		folds   map[Method]float64
	}{
		"plain":    {nil, g.Plain.Predict, g.Plain.Folds},
		"weighted": {narrow(rows["weight"]), g.Weighted.Predict, g.Weighted.Folds},
	} {
		label := narrow(rows["label"])
		for _, m := range []Method{Isotonic, Platt} {
			c, err := Fit(m, rows["raw"], label, want.weight)
			if err != nil {
				t.Fatal(err)
			}
			compareAt(t, kind+" "+string(m), c, g.At, want.predict[m], tolerances[m])
		}
		choice, err := Choose(rows["raw"], label, want.weight, 9)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range Methods() {
			if got := choice.LogLoss[m]; !(math.Abs(got-want.folds[m]) < 1e-8) {
				t.Errorf("%s: cross-validated log loss of %s is %.10f, want %.10f", kind, m, got, want.folds[m])
			}
		}
		if choice.Method != Platt {
			t.Errorf("%s: chose %s: %s", kind, choice.Method, choice.Reason)
		}
	}
}

func TestCoefficientsOnTheEdge(t *testing.T) {
	g, rows := readGolden(t)
	for name, want := range map[string]map[Method][]float64{"bent": g.Bent, "falling": g.Falling} {
		c, err := Fit(Platt, rows["raw"], narrow(rows[name]), nil)
		if err != nil {
			t.Fatal(err)
		}
		compareAt(t, name, c, g.At, want[Platt], tolerances[Platt])
		if c.a < 0 {
			t.Errorf("labels %s: %s descends", name, c)
		}
	}
}
