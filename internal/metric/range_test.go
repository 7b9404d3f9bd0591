package metric_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestRange: every metric has its best value and those of good and bad predictions in its range, and what lies outside
// is refused with the range.
func TestRange(t *testing.T) {
	good := rows(seeded(t), 400, 0, true)
	bad := good
	bad.Pred = nil
	for _, p := range good.Pred {
		bad.Pred = append(bad.Pred, 1-p)
	}
	for _, name := range metric.Names() {
		m := must.Get(metric.Lookup(name))(t)
		best := m.Aim
		if best == 0 && m.Maximize {
			best = 1
		}
		if err := m.CheckValue(best); err != nil {
			t.Errorf("%s: its best value, %v: got %v, want no error", name, best, err)
		}
		for _, in := range []metric.Input{good, bad} {
			if strings.HasPrefix(name, "gamma") { // takes no labels of 0
				in.Label = slices.Clone(in.Label)
				for i := range in.Label {
					in.Label[i]++
				}
			}
			if m.Kind == metric.Classes { // a prediction for each of two classes
				both := make([]float64, 0, 2*len(in.Pred))
				for _, p := range in.Pred {
					both = append(both, 1-p, p)
				}
				in.Pred = both
			}
			if err := m.CheckValue(eval(t, m, in)); err != nil {
				t.Errorf("%v; if the value is right, mend low and high in the metric's row of definitions", err)
			}
		}
		if m.CheckValue(math.NaN()) == nil {
			t.Errorf("%s: NaN was accepted as a value, want an error", name)
		}
	}

	for _, c := range []struct {
		name  string
		value float64
		want  string
	}{
		{"auc", 7, "7 is not a possible value of auc, which is between 0 and 1"},
		{"precision@5%", -0.1, "-0.1 is not a possible value of precision@5%, which is between 0 and 1"},
		{"log_loss", -0.3, "-0.3 is not a possible value of log_loss, which is at least 0"},
		{"log_loss", 7, ""},
		{"lift@5%", 7, ""},
		{"r2", 1.5, "1.5 is not a possible value of r2, which is at most 1"},
		{"r2", -3, ""},
	} {
		m := must.Get(metric.Lookup(c.name))(t)
		err := m.CheckValue(c.value)
		if c.want == "" && err != nil || c.want != "" && (!problem.Is(err, problem.Input) || err.Error() != c.want) {
			t.Errorf("%s %v: got error %v, want %q", c.name, c.value, err, c.want)
		}
	}
}
