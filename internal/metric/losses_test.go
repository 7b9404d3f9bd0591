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

// TestLossesRefuse: a loss that is not defined for a label or a prediction is an error that names the row. An argument
// that is no number, or outside the metric's bounds, is an error that names the bounds.
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
		_, err := metric.Lookup(name)
		must.Say(t, name, err, "give a number "+want)
	}
}

// TestLossesHaveIntervals: the standard error of a metric that is a mean over rows is that of a mean.
func TestLossesHaveIntervals(t *testing.T) {
	in := metric.Input{Label: []float32{1, 2, 4, 3}, Pred: []float64{1.5, 2, 3, 5}}
	i := must.Get(lookup(t, "quantile@0.5").Interval(in, metric.Confidence{}))(t)
	// The losses are .25, 0, .5 and 1, with mean .4375 and, over three degrees of freedom, variance .18229.
	if want := math.Sqrt(0.182291666666666666 / 4); i.Value != 0.4375 || math.Abs(i.Error-want) > 1e-12 {
		t.Errorf("got %v with error %v, want .4375 with %v", i.Value, i.Error, want)
	}
}

// TestUsualMetrics: Usual returns, for several objectives, the metric that is the objective's own loss, and
// CheckObjective accepts that.
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

// sold returns four rows with a column of bids, for which the values in TestValue were computed by hand.
func sold(weighted bool) metric.Input {
	in := metric.Input{Label: []float32{1, 0, 1, 0}, Pred: []float64{0.5, 0.25, 0.0625, 0.125},
		Values: map[string][]float32{"bid": {2, 4, 8, 1}}}
	if weighted {
		in.Weight = []float32{1, 2, 0, 1}
	}
	return in
}

// TestValue: a value metric is the weighted mean of an expression over the rows. It is maximised, and its interval
// needs no resampling. The expression may also use the weight itself, which is 1 for rows without weights. The comments
// beside the cases have the values of the four rows.
func TestValue(t *testing.T) {
	for text, want := range map[string][2]float64{ // without weights, and with
		"prediction > 0.1 ? 4 * label - 1 : 0":          {0.25, 0},     // 3 -1 0 -1
		"bid * prediction >= 1 ? bid * label : 0":       {0.5, 0.5},    // 2 0 0 0
		"-weight * (label - prediction) ^ 2":            {-0.30175781}, // -.25 -.0625 -.87890625 -.015625
		"max(label, prediction) + min(bid, 2) / weight": {2.34375},     // 3 2.25 3 1.125
	} {
		in := sold(false)
		m := lookup(t, "value("+text+")")
		if len(m.Columns()) > 1 || !m.Maximize || !m.Analytic() {
			t.Errorf("%s needs the columns %v, higher is better %t, analytic %t; want one at most, and both true",
				m.Name, m.Columns(), m.Maximize, m.Analytic())
		}
		if got := eval(t, m, in); math.Abs(got-want[0]) > 1e-8 {
			t.Errorf("%s is %v, expected %v", m.Name, got, want[0])
		}
		if strings.Contains(text, "weight") { // these have no second value; one with weights is below
			continue
		}
		must.Equal(t, eval(t, m, sold(true)), want[1], "%s with weights", m.Name)
	}
	weighted := lookup(t, "value(weight * prediction)")
	must.Equal(t, eval(t, weighted, sold(true)), (0.5+4*0.25+0.125)/4, "%s, weight times prediction", weighted.Name)
}

// TestValueIsAMean: its interval is that of l2 where it is l2, and a comparison is paired.
func TestValueIsAMean(t *testing.T) {
	r := seeded(t)
	in := rows(r, 500, 0, true)
	old := rows(r, 500, 0, true).Pred
	own, l2 := lookup(t, "value(-(prediction - label) ^ 2)"), lookup(t, "l2")
	a := must.Get(own.Interval(in, metric.Confidence{}))(t)
	b := must.Get(l2.Interval(in, metric.Confidence{}))(t)
	near(t, "value", a.Value, -b.Value)
	near(t, "low", a.Low, -b.High)
	near(t, "error", a.Error, b.Error)
	c := must.Get(own.Compare(in, old, metric.Confidence{}))(t)
	d := must.Get(l2.Compare(in, old, metric.Confidence{}))(t)
	near(t, "gain", c.Gain, d.Gain)
	near(t, "its error", c.Error, d.Error)
}

// TestValueNames: a value has one name however it is written, stops trees by the objective's usual metric, and fits
// objectives of one number per row. It is refused if models cannot differ in it, if it is no number, and if its name is
// too long. Any other metric stops trees by itself.
func TestValueNames(t *testing.T) {
	m := lookup(t, " value( label*4-((prediction>.1)?1:0) )")
	if m.Name != "value(label * 4 - (prediction > 0.1 ? 1 : 0))" || lookup(t, m.Name).Name != m.Name {
		t.Errorf("the metric is called %s, want it in the one way of writing it", m.Name)
	}
	for _, tc := range []struct {
		objective, want string
		fits            bool
	}{{"binary", "log_loss", true}, {"regression", "rmse", true}, {"multiclass", "multi_logloss", false},
		{"lambdarank", "ndcg@10", false}} {
		stop, err := m.Stop(tc.objective)
		if fits := m.CheckObjective(tc.objective) == nil; err != nil || stop.Name != tc.want || fits != tc.fits {
			t.Errorf("%s: stops by %s (%v), and fits %t; expected %s and %t", tc.objective, stop.Name, err, fits,
				tc.want, tc.fits)
		}
	}
	must.Equal(t, must.Get(lookup(t, "auc").Stop("binary"))(t).Name, "auc", "what auc stops by")
	for text, want := range map[string]string{
		"label":            "value(label): it is the same for all models; make it depend on prediction",
		"prediction > 0.1": "column 12: a number is needed here",
		"prediction" + strings.Repeat("+label", 50): "more than the 300 that a value may have",
	} {
		_, err := metric.Lookup("value(" + text + ")")
		must.Say(t, text, err, want)
	}
}

// TestValueRefusesRows: if a row's value is not finite, the error names the row and the numbers that it was computed
// from.
func TestValueRefusesRows(t *testing.T) {
	in := sold(false)
	in.Values["bid"][2] = float32(math.NaN())
	for text, want := range map[string]string{
		"prediction * bid":         "row 2: the bid cannot be used: NaN is not a finite number",
		"prediction * price":       "it is not known here: the rows have no price",
		"log(label) * prediction":  "row 1: the value is -Inf, not a finite number, of label, prediction [0 0.25]",
		"prediction / (label - 1)": "row 0: the value is +Inf, not a finite number, of label, prediction [1 0.5]",
	} {
		_, err := lookup(t, "value("+text+")").Eval(in)
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
}

// TestObjectivesHaveTheirMetrics: every objective has its kind of labels and accepts its standard metrics. Metrics of
// other kinds and unknown objectives are refused.
func TestObjectivesHaveTheirMetrics(t *testing.T) {
	for objective, want := range map[string]metric.Kind{"binary": metric.Binary, "regression": metric.Regression,
		"cross_entropy": metric.Regression, "poisson": metric.Regression, "lambdarank": metric.Ranking,
		"rank_xendcg": metric.Ranking, "multiclass": metric.Classes} {
		k, err := metric.Of(objective)
		if err != nil || k != want {
			t.Errorf("objective %s has labels of the kind %v, %v, expected %v", objective, k, err, want)
		}
		for _, m := range metric.Standard(objective) {
			if err := m.CheckObjective(objective); err != nil {
				t.Errorf("objective %s refuses its standard metric %s: %v", objective, m.Name, err)
			}
		}
	}
	if _, err := metric.Of("hinge"); err == nil {
		t.Error("the unknown objective hinge was accepted, want an error")
	}
	auc := must.Get(metric.Lookup("auc"))(t)
	if auc.CheckObjective("lambdarank") == nil {
		t.Error("auc was accepted for lambdarank, want an error")
	}
	if auc.CheckObjective("regression") == nil || auc.CheckObjective("x") == nil {
		t.Error("auc was accepted for regression or an unknown objective, want an error for both")
	}
}

// TestRange: CheckValue accepts every metric's best value, and its values for good predictions and for their opposites.
// It refuses values outside the metric's range with an error that says what the range is.
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
