package sweep_test

import (
	"math"
	"testing"

	"coppice/internal/sweep"
)

// TestScore: digits follow the standard error where one is known, else there are four, and no whole one is lost.
func TestScore(t *testing.T) {
	for _, tc := range []struct {
		v, se float64
		want  string
	}{{0.076712, 0.00121, "0.0767 ± 0.0012"}, {0.096618, 0, "0.09662"}, {0.150239, 0, "0.1502"},
		{0.5, 0.00996, "0.500 ± 0.010"}, {-0.003, 0.12, "0.00 ± 0.12"},
		{0.1, 0.001, "0.1000 ± 0.0010"}, {31245.7, 213, "31250 ± 210"}, {31245.7, 0, "31246"},
		{812.34, 9.96, "812 ± 10"},
		{812.34, 12.34, "812 ± 12"}, {2, 0, "2"}, {-0.00000001, 0, "-1e-08"},
		{0.3, math.NaN(), "0.3"}, {9999.7, 0, "10000"},
		{math.NaN(), 0.1, "NaN"}, {0.25, math.Inf(1), "0.25"}} {
		if got := sweep.Score(tc.v, tc.se); got != tc.want {
			t.Errorf("%v with an error of %v is %s, want %s", tc.v, tc.se, got, tc.want)
		}
	}
	for v, want := range map[float64]string{0.2417: "24 %", 0.0124: "1.2 %", 0.0996: "10 %", 1.034: "103 %", 0: "0 %",
		0.0000001: "<0.001 %", -0.0000001: ">-0.001 %", 0.00012345: "0.012 %", -0.5062: "-51 %", 1: "100 %"} {
		if got := sweep.Percent(v); got != want {
			t.Errorf("a share of %v is %s, want %s", v, got, want)
		}
	}
	w := &sweep.Within{Metric: "auc", Low: 0.5 - 0.0196, High: 0.5 + 0.0196}
	if got := w.ErrorOf("auc"); math.Abs(got-0.01) > 1e-6 || w.ErrorOf("rmse") != 0 ||
		(*sweep.Within)(nil).ErrorOf("auc") != 0 {
		t.Errorf("the standard error of %+v is %v, want 0.01, and of another metric or none 0", w, got)
	}
}
