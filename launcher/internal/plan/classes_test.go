package plan_test

import (
	"strings"
	"testing"

	"coppice/internal/problem"
)

// A sweep whose held-out rows are of one class ends before it begins, and not after all candidates have been trained.
func TestHeldOutRowsOfOneClass(t *testing.T) {
	for name, tc := range map[string]struct {
		splits []string
		split  string
		mean   float64
		want   string
	}{
		"calib without positives": {all, "calib", 0,
			"none of the 1000000 rows of calib in dataset clicks@0123456789abcdef is positive, so there is nothing " +
				"to calibrate by"},
		"calib without negatives": {all, "calib", 1, "of calib in dataset clicks@0123456789abcdef is negative"},
		"valid without positives": {all, "valid", 0,
			"of valid in dataset clicks@0123456789abcdef is positive, so there is nothing to select by"},
		"calib out of valid": {[]string{"train", "valid"}, "valid", 0,
			"of valid in dataset clicks@0123456789abcdef is positive"},
		"one positive": {all, "calib", 1e-6, ""},
	} {
		m := manifest(tc.splits...)
		for i := range m.Splits {
			if m.Splits[i].Name == tc.split {
				m.Splits[i].LabelMean = tc.mean
			}
		}
		_, err := build(parse(t), m)
		if tc.want == "" && err != nil || tc.want != "" &&
			(!problem.Is(err, problem.Input) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want ... %s", name, err, tc.want)
		}
	}
}
