package calibrate

import (
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"coppice/internal/must"
)

// Fit returns a calibrator of the given method. For Platt it is the plain logistic regression, whose slope Choose would
// draw towards 1.
func Fit(method Method, raw []float64, label, weight []float32) (*Calibrator, error) {
	d, err := prepare(raw, label, weight, false)
	if err != nil {
		return nil, err
	}
	if method == None {
		return &Calibrator{method: None}, nil
	}
	l := newPlatt(d)
	slope, _ := l.slope() // 1 if the scores are equal: the regression has none then
	a := max(0, slope)
	best, _ := newPlatt(d).fitLine()
	return &Calibrator{method: Platt, a: a, c: best.c - a*l.mean}, nil
}

// Methods are all methods.
func Methods() []Method { return []Method{None, Platt} }

// golden is what scikit-learn predicts, written by testdata/sklearn/make.py: by method, the probabilities at the scores
// in At after fitting to the rows without weights, with weights, and with other labels ("bent").
type golden struct {
	At              []float64
	Plain, Weighted struct {
		Predict map[Method][]float64
	}
	Bent map[Method][]float64
}

// readGolden reads the predictions and the columns, by name, of the rows that were fitted.
func readGolden(t *testing.T) (golden, map[string][]float64) {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/sklearn/want.json"))(t)
	var g golden
	must.Do(t, json.Unmarshal(data, &g))
	f := must.Get(os.Open("testdata/sklearn/rows.csv"))(t)
	defer f.Close()
	rows := must.Get(csv.NewReader(f).ReadAll())(t)
	columns := map[string][]float64{}
	for j, head := range rows[0] {
		for _, row := range rows[1:] {
			v := must.Get(strconv.ParseFloat(row[j], 64))(t)
			columns[head] = append(columns[head], v)
		}
	}
	return g, columns
}

// narrow converts a column of a file to the type of labels and weights.
func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i := range v {
		out[i] = float32(v[i])
	}
	return out
}

// compareAt fails the test unless c predicts the wanted probabilities at the given scores.
func compareAt(t *testing.T, what string, c *Calibrator, at, want []float64) {
	t.Helper()
	if len(at) != len(want) || len(at) == 0 {
		t.Fatalf("%s: the golden file has %d values at %d scores, want as many, and one or more", what, len(want),
			len(at))
	}
	for i, x := range at {
		if got := c.Predict(x); !(math.Abs(got-want[i]) <= tolerance) {
			t.Errorf("%s at %v: got %.15g, want %.15g", what, x, got, want[i])
		}
	}
}

// tolerance of probabilities: the optimizers of scipy stop near the optimum, not on it.
const tolerance = 1e-7

// TestAgainstScikitLearn: Platt scaling gives the same probabilities as scikit-learn: without weights, with weights,
// and for labels that no sigmoid fits ("bent").
func TestAgainstScikitLearn(t *testing.T) {
	g, rows := readGolden(t)
	for kind, want := range map[string]struct {
		label   string
		weight  []float32
		predict map[Method][]float64
	}{
		"plain":    {"label", nil, g.Plain.Predict},
		"weighted": {"label", narrow(rows["weight"]), g.Weighted.Predict},
		"bent":     {"bent", nil, g.Bent},
	} {
		c := must.Get(Fit(Platt, rows["raw"], narrow(rows[want.label]), want.weight))(t)
		compareAt(t, kind, c, g.At, want.predict[Platt])
	}
}

// TestFallingScores: if higher scores mean fewer positives, the slope becomes 0, not negative, so that all rows get the
// same probability.
func TestFallingScores(t *testing.T) {
	_, rows := readGolden(t)
	c, err := Choose(rows["raw"], narrow(rows["falling"]), nil, false)
	if err != nil || c.Calibrator.a != 0 {
		t.Errorf("for falling scores got %v (%s) and error %v; want a slope of 0", c.Calibrator, c.Reason, err)
	}
}
