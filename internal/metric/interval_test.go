package metric_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/metric"
	"coppice/internal/must"
)

// reference is what testdata/clicks/reference.py computes for a metric: its values for the new and the old predictions,
// and the standard errors of the new value and of the difference.
type reference struct {
	New      float64 `json:"new"`
	Old      float64 `json:"old"`
	NewError float64 `json:"new_error"`
	Error    float64 `json:"error"`
}

// TestClicksAgainstNumpy: the values, differences and standard errors of six metrics are those that
// testdata/clicks/reference.py computes with numpy, with and without weights. The new predictions are column tied of
// the rows, the old ones column pred.
func TestClicksAgainstNumpy(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join("testdata", "clicks", "want.json")))(t)
	var want map[string]map[string]reference
	must.Do(t, json.Unmarshal(data, &want))
	if len(want) != 2 {
		t.Fatalf("want.json has %d kinds of rows, want plain and weighted", len(want))
	}
	columns := table(t, "binary")
	for kind, metrics := range want {
		in := metric.Input{Label: float32s(t, columns["label"]), Pred: float64s(t, columns["tied"])}
		old := float64s(t, columns["pred"])
		if kind == "weighted" {
			in.Weight = float32s(t, columns["weight"])
		}
		if len(metrics) != 6 {
			t.Fatalf("want.json has %d metrics for %s rows, want 6", len(metrics), kind)
		}
		for name, w := range metrics {
			m := lookup(t, name)
			c := must.Get(m.Compare(in, old, metric.Confidence{}))(t)
			i := must.Get(m.Interval(in, metric.Confidence{}))(t)
			what := kind + " " + name
			near(t, what+" new", c.New, w.New)
			near(t, what+" old", c.Old, w.Old)
			near(t, what+" alone", i.Value, w.New)
			near(t, what+" error alone", i.Error, w.NewError)
			near(t, what+" error of the gain", c.Error, w.Error)
			if c.Method != metric.Analytic || i.Method != metric.Analytic {
				t.Errorf("%s: methods %s and %s, want %s", what, c.Method, i.Method, metric.Analytic)
			}
		}
	}
}

// TestRatioIsRatedByItsDistanceFromOne: the best calibration ratio is the one nearest to 1. A half and two are equally
// far from it, and 0 is not infinitely far. Without a positive row there is no ratio, but an error.
func TestRatioIsRatedByItsDistanceFromOne(t *testing.T) {
	m := lookup(t, "calibration_ratio")
	near(t, "half", m.Score(0.5), math.Ln2)
	near(t, "twice", m.Score(2), math.Ln2)
	if m.Maximize || m.Score(1.1) >= m.Score(0.8) {
		t.Errorf("1.1 is rated %v and 0.8 %v, maximized: %v; want 1.1 lower, as it is nearer to 1", m.Score(1.1),
			m.Score(0.8), m.Maximize)
	}
	if math.IsInf(m.Score(0), 0) {
		t.Errorf("the score of 0 is %v, want a finite one, since JSON has no other", m.Score(0))
	}
	_, err := m.Eval(metric.Input{Label: []float32{0, 0}, Pred: []float64{0.1, 0.2}})
	must.Say(t, "without a positive row", err, "all labels are the same")
}

// TestIntervals: every metric's interval is the same if computed again with the same seed, and is wider for a higher
// confidence. The gain of predictions over themselves is 0, and they are neither better nor worse.
func TestIntervals(t *testing.T) {
	in := rows(rand.New(rand.NewPCG(5, 0)), 600, 0, true)
	for _, m := range all(t, metric.Binary, metric.Regression, metric.Ranking) {
		narrow, err := m.Interval(in, metric.Confidence{Level: 0.8, Samples: 200, Seed: 3})
		if err != nil {
			t.Fatalf("an 80 %% interval of %s: error %v", m.Name, err)
		}
		wide, _ := m.Interval(in, metric.Confidence{Level: 0.99, Samples: 200, Seed: 3})
		again, _ := m.Interval(in, metric.Confidence{Level: 0.8, Samples: 200, Seed: 3})
		must.Equal(t, again, narrow, "%s, again with the same seed", m.Name)
		if !(wide.Low <= narrow.Low && narrow.Low <= narrow.High && narrow.High <= wide.High &&
			(wide.Low < wide.High || wide.Error == 0)) {
			t.Errorf("%s: at 80 %% %+v, at 99 %% %+v; want the first within the second", m.Name, narrow, wide)
		}
		same, err := m.Compare(in, in.Pred, metric.Confidence{Samples: 50})
		if err != nil || same.Gain != 0 || same.Low != 0 || same.High != 0 || same.Better(0) || same.Worse() {
			t.Errorf("%s: equal predictions compare as %+v, %v; want a gain of 0 from 0 to 0", m.Name, same, err)
		}
	}
}

// TestBootstrapAgreesWithNewSamples: the standard error that resampling gives is, on average, 0.8 to 1.25 times the
// standard deviation of the metric over 100 independent samples. That deviation itself is known to about 7 %, one over
// the root of 2 x 99.
func TestBootstrapAgreesWithNewSamples(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 0))
	for _, name := range []string{"average_precision", "ece", "precision@10%", "lift@5%"} {
		m := lookup(t, name)
		var values, errs []float64
		for range 100 {
			c := newClicks(r, 1200, -1.5)
			in := metric.Input{Label: c.labels(r), Pred: probabilities(c.noisy(r, 0.5))}
			i := must.Get(m.Interval(in, metric.Confidence{Samples: 60}))(t)
			values, errs = append(values, i.Value), append(errs, i.Error)
		}
		got, want := mean(errs), spreadOf(values)
		if got < 0.8*want || got > 1.25*want {
			t.Errorf("%s: resampling gives a standard error of %.4g, want .8 to 1.25 times %.4g, the deviation of new "+
				"samples", name, got, want)
		}
	}
}

// clicks are rows whose true probabilities are known, as log odds z.
type clicks struct{ z []float64 }

// newClicks returns n rows with log odds around base, with standard deviation 1.2.
func newClicks(r *rand.Rand, n int, base float64) clicks {
	c := clicks{make([]float64, n)}
	for i := range c.z {
		c.z[i] = base + 1.2*r.NormFloat64()
	}
	return c
}

// labels draws labels by the true probabilities.
func (c clicks) labels(r *rand.Rand) []float32 {
	out := make([]float32, len(c.z))
	for i, p := range probabilities(c.z) {
		if r.Float64() < p {
			out[i] = 1
		}
	}
	return out
}

// noisy returns the log odds of a model that errs on each row by noise with standard deviation sd.
func (c clicks) noisy(r *rand.Rand, sd float64) []float64 {
	out := make([]float64, len(c.z))
	for i, z := range c.z {
		out[i] = z + sd*r.NormFloat64()
	}
	return out
}

func probabilities(z []float64) []float64 {
	out := make([]float64, len(z))
	for i, x := range z {
		out[i] = 1 / (1 + math.Exp(-x))
	}
	return out
}

func mean(values []float64) float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	return total / float64(len(values))
}

func spreadOf(values []float64) float64 {
	m, squares := mean(values), 0.0
	for _, v := range values {
		squares += (v - m) * (v - m)
	}
	return math.Sqrt(squares / float64(len(values)-1))
}

// TestEqualModelsAreSeldomBetter: of two models that are equally good, one is called better in at most 5 % of
// simulations, where 2.5 % are expected at a confidence of 95 %. Both models know the true log odds with equal noise.
// Without COPPICE_FULL there are a quarter of the simulations: 250 or, of the metric that is resampled, 100.
func TestEqualModelsAreSeldomBetter(t *testing.T) {
	for name, of := range map[string]struct{ sims, rows, resamples int }{
		"log_loss": {1000, 4000, 0}, "auc": {1000, 4000, 0}, "normalized_entropy": {1000, 4000, 0},
		"calibration_ratio": {1000, 4000, 0},
		"average_precision": {400, 1000, 80},
	} {
		if os.Getenv("COPPICE_FULL") == "" {
			of.sims /= 4
		}
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(20261122, 0))
			m, better := lookup(t, name), 0
			for range of.sims {
				c := newClicks(r, of.rows, -3)
				in := metric.Input{Label: c.labels(r), Pred: probabilities(c.noisy(r, 0.3))}
				d := must.Get(m.Compare(in, probabilities(c.noisy(r, 0.3)),
					metric.Confidence{Samples: of.resamples}))(t)
				if d.Better(0) {
					better++
				}
			}
			if share := float64(better) / float64(of.sims); share > 0.05 {
				t.Errorf("%d of %d equal models were called better (%.1f %%), want at most 5 %%", better, of.sims,
					100*share)
			}
		})
	}
}

// TestOnePercentIsSeen: if the new model's expected log loss is 1 % less than the old one's, Compare calls it better on
// 200,000 rows in at least 80 % of 40 draws of the labels. Both models know the truth with noise; how much the old one
// needs for a loss of 1 % is found by bisection.
func TestOnePercentIsSeen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	c := newClicks(r, 200_000, -4)
	truth, noise := probabilities(c.z), clicks{make([]float64, len(c.z))}.noisy(r, 1)
	expected := func(sd float64) (loss float64, pred []float64) {
		z := slices.Clone(c.z)
		for i := range z {
			z[i] += sd * noise[i]
		}
		pred = probabilities(z)
		for i, p := range pred {
			loss -= truth[i]*math.Log(p) + (1-truth[i])*math.Log1p(-p)
		}
		return loss, pred
	}

	// Bisect for the noise of the old model.
	better, fresh := expected(0.2)
	low, high := 0.2, 2.0
	for range 40 {
		if loss, _ := expected((low + high) / 2); loss*0.99 < better {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	_, old := expected(low)

	m, seen := lookup(t, "log_loss"), 0
	const nights = 40
	for range nights {
		d := must.Get(m.Compare(metric.Input{Label: c.labels(r), Pred: fresh}, old, metric.Confidence{}))(t)
		if d.Better(0) {
			seen++
		}
	}
	t.Logf("a gain of 1 %% of log loss on 200,000 rows was seen in %d of %d nights", seen, nights)
	if seen < nights*8/10 {
		t.Errorf("a gain of 1 %% was seen in %d of %d nights, want 80 %%", seen, nights)
	}
}

// TestConfidenceIsChecked: Interval refuses a level or a number of resamples that give no interval, and Compare refuses
// old predictions of another length. With a single positive row, resamples without it are left out, without an error.
// Samples of 0 and a level of 0 stand for the defaults.
func TestConfidenceIsChecked(t *testing.T) {
	in := metric.Input{Label: []float32{0, 1, 0}, Pred: []float64{0.1, 0.8, 0.3}}
	m := lookup(t, "log_loss")
	for _, c := range []metric.Confidence{{Level: 0.4}, {Level: 1}, {Level: math.NaN()}, {Samples: 1}} {
		_, err := m.Interval(in, c)
		must.Say(t, fmt.Sprintf("%+v", c), err, "confidence")
	}
	if _, err := m.Compare(in, in.Pred[:2], metric.Confidence{}); err == nil ||
		!strings.Contains(err.Error(), "different lengths: 2 old predictions for 3 new ones") {
		t.Errorf("2 old predictions for 3 rows: error %v, want one about the lengths", err)
	}
	if _, err := lookup(t, "average_precision").Interval(metric.Input{Label: []float32{0, 1, 0}, Pred: in.Pred},
		metric.Confidence{Samples: 20}); err != nil {
		t.Errorf("with one positive row, resamples without it are left out; error %v", err)
	}

	// Of two resamples, about every second time one has the only positive row: that says nothing of the spread.
	for seed := range uint64(20) {
		i, err := lookup(t, "average_precision").Interval(metric.Input{Label: []float32{0, 1, 0}, Pred: in.Pred},
			metric.Confidence{Samples: 2, Seed: seed})
		if err == nil && math.IsNaN(i.Error) {
			t.Errorf("seed %d: of two resamples the interval is %+v; want a standard error or an error", seed, i)
		}
	}
}

// TestWorseBy: with a margin of .01, WorseBy wants the interval to be below 0, its lower end below -.01, and the gain
// below -.0075, three quarters of the margin. Intervals are gain ± reach.
func TestWorseBy(t *testing.T) {
	for name, c := range map[string]struct {
		gain, reach float64
		want        bool
	}{
		"not shown":                  {-0.02, 0.03, false},
		"shown, by much":             {-0.02, 0.01, true},
		"shown, by a little":         {-0.002, 0.001, false},
		"shown, maybe by the margin": {-0.006, 0.005, false},
		"most likely by most of it":  {-0.008, 0.004, true},
		"surely by less":             {-0.008, 0.001, false},
		"better":                     {0.02, 0.001, false},
	} {
		got := metric.Comparison{Gain: c.gain, Low: c.gain - c.reach, High: c.gain + c.reach}.WorseBy(0.01)
		must.Equal(t, got, c.want, "%s: a gain of %v ± %v is worse by the margin", name, c.gain, c.reach)
	}
}
