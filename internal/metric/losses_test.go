package metric_test

import (
	"math"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// TestLossesRefuse: a loss that is not defined for a label or a prediction is an error that names the row.
func TestLossesRefuse(t *testing.T) {
	for _, c := range []struct {
		name        string
		label, pred float64
		want        string
	}{
		{"poisson", -1, 2, "poisson: row 1: the label cannot be used: -1, and poisson is for numbers of 0 or more"},
		{"poisson", 1, 0, "poisson: row 1: the prediction cannot be used: 0, and poisson is for numbers above 0"},
		{"gamma_deviance", 0, 2, "gamma_deviance: row 1: the label cannot be used: 0, and " +
			"gamma_deviance is for numbers above 0"},
		{"tweedie@1.2", 1, -3, "tweedie@1.2: row 1: the prediction cannot be used: -3, and " +
			"tweedie@1.2 is for numbers above 0"},
		{"soft_log_loss", 1.5, 0.5, "soft_log_loss: row 1: the label cannot be used: 1.5, and soft_log_loss is for " +
			"numbers from 0 to 1"},
	} {
		in := metric.Input{Label: []float32{1, float32(c.label)}, Pred: []float64{0.5, c.pred}}
		if _, err := lookup(t, c.name).Eval(in); err == nil || err.Error() != c.want {
			t.Errorf("%s of label %v and prediction %v:\ngot  %v\nwant %s", c.name, c.label, c.pred, err, c.want)
		}
	}
	for name, want := range map[string]string{"quantile@1": "above 0 and below 1, such as 0.9",
		"quantile@0": "above 0 and below 1", "quantile@x": "", "tweedie@1": "above 1 and below 2, such as 1.5",
		"tweedie@2": "above 1 and below 2",
		"huber@-1":  "above 0 and below +Inf, such as 0.9", "huber@NaN": "above 0 and below +Inf, such as 0.9"} {
		if m, err := metric.Lookup(name); err == nil || !strings.Contains(err.Error(), "give a number "+want) {
			t.Errorf("%s: got metric %s, %v; want an error that names numbers %s", name, m.Name, err, want)
		}
	}
}

// TestLossesHaveIntervals: their standard error is that of a mean over rows.
func TestLossesHaveIntervals(t *testing.T) {
	in := metric.Input{Label: []float32{1, 2, 4, 3}, Pred: []float64{1.5, 2, 3, 5}}
	i := must.Get(lookup(t, "quantile@0.5").Interval(in, metric.Confidence{}))(t)
	// losses .25, 0, .5 and 1
	if want := math.Sqrt(0.182291666666666666 / 4); i.Value != 0.4375 || math.Abs(i.Error-want) > 1e-12 {
		t.Errorf("got %v with error %v, want .4375 with %v", i.Value, i.Error, want)
	}
}

func TestUsualMetrics(t *testing.T) {
	for objective, want := range map[string]string{"binary": "log_loss", "poisson": "poisson",
		"quantile":      "quantile@0.9",
		"regression_l1": "mae", "tweedie": "tweedie@1.5"} {
		got, err := metric.Usual(objective)
		if err != nil || got.Name != want {
			t.Errorf("objective %s is judged by %q, %v; want %s", objective, got.Name, err, want)
		}
		if err := got.CheckObjective(objective); err != nil {
			t.Errorf("objective %s refuses its own metric: %v", objective, err)
		}
	}
}
