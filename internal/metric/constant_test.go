package metric_test

import (
	"math"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
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
			m := must.Get(metric.Lookup(name))(t)
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
	binary := metric.Tested{Calibrated: true, Bins: []metric.Bin{{Weight: 3, Positive: 1}, {Weight: 5, Positive: 1}}}
	if s := binary.Shares(); len(s) != 2 || s[0] != 0.75 || s[1] != 0.25 {
		t.Errorf("the shares of 2 of 8 are %v, want 0.75 and 0.25", s)
	}
}

// TestOfOne: one score for all rows leaves those of a group in random order, and the mean label is the best number.
func TestOfOne(t *testing.T) {
	in := metric.Input{Label: []float32{2, 0, 1, 1, 0}, Group: []uint64{1, 1, 1, 2, 2}}
	ndcg := must.Get(metric.Lookup("ndcg@2"))(t)
	want, orders := 0.0, [][]float64{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}}
	for _, o := range orders {
		for _, of2 := range [][]float64{{1, 2}, {2, 1}} {
			in.Pred = append(o[:3:3], of2...)
			v := must.Get(ndcg.Eval(in))(t)
			want += v / float64(2*len(orders))
		}
	}
	got := metric.OfOne(in, "ndcg@2", "no metric")
	if len(got) != 1 || math.Abs(got["ndcg@2"]-want) > 1e-12 {
		t.Errorf("in random order: got %v, want ndcg@2 %v", got, want)
	}

	// mean 2.5, squares 4.5, .25 and 12.25
	numbers := metric.Input{Label: []float32{1, 2, 6}, Weight: []float32{2, 1, 1}}
	got = metric.OfOne(numbers, "rmse", "mae", "r2")
	if len(got) != 2 || math.Abs(got["rmse"]-math.Sqrt(17.0/4)) > 1e-12 || math.Abs(got["mae"]-7.0/4) > 1e-12 {
		t.Errorf("the mean of %v by weights %v: got %v, want rmse and mae of 2.5", numbers.Label, numbers.Weight, got)
	}
	if v, ok := (&metric.Tested{Alone: got}).OfConstant("mae"); !ok || v != got["mae"] {
		t.Errorf("of tested rows: got mae %v (%t), want %v", v, ok, got["mae"])
	}
}
