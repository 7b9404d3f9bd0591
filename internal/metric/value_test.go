package metric_test

import (
	"math"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// sold are rows of which each value was computed by hand.
func sold(weighted bool) metric.Input {
	in := metric.Input{Label: []float32{1, 0, 1, 0}, Pred: []float64{0.5, 0.25, 0.0625, 0.125},
		Values: map[string][]float32{"bid": {2, 4, 8, 1}}}
	if weighted {
		in.Weight = []float32{1, 2, 0, 1}
	}
	return in
}

func TestValue(t *testing.T) {
	for text, want := range map[string][2]float64{ // without weights, and with
		"prediction > 0.1 ? 4 * label - 1 : 0":          {0.25, 0},     // 3 -1 0 -1
		"bid * prediction >= 1 ? bid * label : 0":       {0.5, 0.5},    // 2 0 0 0
		"-weight * (label - prediction) ^ 2":            {-0.30175781}, // by all weights 1, in the test below with them
		"max(label, prediction) + min(bid, 2) / weight": {2.34375},
	} {
		in := sold(false)
		m := lookup(t, "value("+text+")")
		if len(m.Columns()) > 1 || !m.Maximize || !m.Analytic() {
			t.Errorf("%s needs %v, higher is better %t", m.Name, m.Columns(), m.Maximize)
		}
		if got := eval(t, m, in); math.Abs(got-want[0]) > 1e-8 {
			t.Errorf("%s is %v, expected %v", m.Name, got, want[0])
		}
		if strings.Contains(text, "weight") {
			continue
		}
		if got := eval(t, m, sold(true)); got != want[1] {
			t.Errorf("%s with weights is %v, expected %v", m.Name, got, want[1])
		}
	}
	weighted := lookup(t, "value(weight * prediction)")
	if got := eval(t, weighted, sold(true)); got != (0.5+4*0.25+0.125)/4 {
		t.Errorf("%s is %v", weighted.Name, got)
	}
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

func TestValueNames(t *testing.T) {
	m := lookup(t, " value( label*4-((prediction>.1)?1:0) )")
	if m.Name != "value(label * 4 - (prediction > 0.1 ? 1 : 0))" || lookup(t, m.Name).Name != m.Name {
		t.Errorf("the metric is called %s", m.Name)
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
	if stop, err := lookup(t, "auc").Stop("binary"); err != nil || stop.Name != "auc" {
		t.Errorf("auc stops by %s, %v", stop.Name, err)
	}
	for text, want := range map[string]string{
		"label":            "value(label): it is the same for all models; make it depend on prediction",
		"prediction > 0.1": "column 12: a number is needed here",
		"prediction" + strings.Repeat("+label", 50): "more than the 300 that a value may have",
	} {
		if _, err := metric.Lookup("value(" + text + ")"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
}

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
