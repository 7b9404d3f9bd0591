//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// TestInteropClicks compares the metrics of clicks and their paired errors with a reading of the definitions in numpy.
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
			old = append(old, math.Round(50/(1+math.Exp(-z-0.5*r.NormFloat64())))/60+0.01) // with ties
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

// widened are the same numbers with the digits of a float64; nil stays null.
func widened(xs []float32) []float64 {
	var out []float64
	for _, x := range xs {
		out = append(out, float64(x))
	}
	return out
}
