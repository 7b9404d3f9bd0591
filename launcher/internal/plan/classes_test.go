package plan_test

import (
	"cmp"
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
		"test without positives": {all, "test", 0, "of test in dataset clicks@0123456789abcdef is positive, so there " +
			"is nothing to judge by"},
		"too few to be divided in three": {[]string{"train", "valid"}, "valid", 4e-6,
			"only 4 of the 1000000 rows of valid"},
		"enough to be divided": {[]string{"train", "valid"}, "valid", 5e-6, ""},
		"one positive":         {all, "calib", 1e-6, ""},
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

// TestSeveralClasses: a plan has the number of classes of the dataset's label, and what several classes do not have is
// refused before anything is trained.
func TestSeveralClasses(t *testing.T) {
	m := manifest(all...)
	m.Label.Kind, m.Label.Classes = "classes", []string{"a", "b", "c"}
	const classes = "objective: multiclass\nmetric: multi_logloss"
	for want, lines := range map[string]string{
		"":                                 classes,
		" ":                                "objective: multiclass\nmetric: multi_error\nweights: {num_class: 3}",
		"num_class is 4, and the label of": classes + "\nweights: {num_class: 4}",
		"  ":                               classes + "\nensemble: {bag: 1}",
		"metric auc is for binary":         classes + "\nrequire: [auc > 0.7]",
		"has 3 classes: use objective":     "objective: regression\nmetric: rmse",
	} {
		lines, params, _ := strings.Cut(lines, "\nweights: ")
		s := parse(t, "metric: ap", lines, "params: {eta: 0.05}", "params: "+cmp.Or(params, "{eta: 0.05}"),
			"search:", "search:\n  method: auto", `require: ["precision@1% > 0.1", "trees < 900"]`, "")
		p, err := build(s, m)
		if want = strings.TrimSpace(want); want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || !problem.Is(err, problem.Input) {
				t.Errorf("%s: got error %v, want %q", lines, err, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", lines, err)
		} else if n := p.Trials[0].Params["num_class"]; n != 3.0 {
			t.Errorf("%s: the plan trains %v classes, want 3", lines, n)
		} else if n := p.Base["num_class"]; n != 3.0 {
			t.Errorf("%s: what a search that learns begins with has %v classes, want 3", lines, n)
		}
	}
	refused(t, "needs a label of several classes", parse(t, "metric: ap", classes), manifest(all...))
}
