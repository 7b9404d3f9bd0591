package metric_test

import (
	"math"
	"testing"

	"coppice/internal/metric"
)

// TestOfConstant: what the shares of the classes score alone is what the metric says of predicting them for each row.
func TestOfConstant(t *testing.T) {
	const rows = 40
	for _, tc := range []struct {
		names  []string
		counts []int
	}{
		{[]string{"log_loss", "normalized_entropy", "relative_information_gain", "brier", "auc", "average_precision",
			"accuracy", "error_rate"}, []int{30, 10}},
		{[]string{"multi_logloss", "multi_error"}, []int{24, 12, 4}},
	} {
		var in metric.Input
		shares := make([]float64, len(tc.counts))
		for c, n := range tc.counts {
			shares[c] = float64(n) / rows
			for range n {
				in.Label = append(in.Label, float32(c))
			}
		}
		for range rows {
			if len(shares) == 2 {
				in.Pred = append(in.Pred, shares[1])
			} else {
				in.Pred = append(in.Pred, shares...)
			}
		}
		for _, name := range tc.names {
			m, err := metric.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := m.Eval(in)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got, ok := metric.OfConstant(name, shares); !ok || math.Abs(got-want) > 1e-12 {
				t.Errorf("%s of %v alone: got %v (%t), want %v", name, shares, got, ok, want)
			}
		}
	}
	for _, shares := range [][]float64{nil, {1, 0}, {math.NaN(), 0.5}, {0.5, 2}} {
		if v, ok := metric.OfConstant("log_loss", shares); ok {
			t.Errorf("log_loss of %v: got %v, want that it says nothing", shares, v)
		}
	}
	if v, ok := metric.OfRate("multi_logloss", 0.5); ok {
		t.Errorf("of one class's share alone: got %v, want that it says nothing of all", v)
	}
	binary := metric.Tested{Calibrated: true, Bins: []metric.Bin{{Weight: 3, Positive: 1}, {Weight: 5, Positive: 1}}}
	if s := binary.Shares(); len(s) != 2 || s[0] != 0.75 || s[1] != 0.25 {
		t.Errorf("the shares of 2 of 8 are %v, want 0.75 and 0.25", s)
	}
}
