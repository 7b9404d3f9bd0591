package metric

import (
	"fmt"
	"math"
	"slices"
)

// Confidence says how an interval is computed. The zero value is 95 %, seed 0 and 1,000 resamples.
type Confidence struct {
	Level   float64 // two-sided, above 0.5 and below 1
	Seed    uint64  // of resampling; the same seed gives the same interval
	Samples int     // of resampling
}

func (c Confidence) filled() (Confidence, error) {
	if c.Level == 0 {
		c.Level = 0.95
	}
	if c.Samples == 0 {
		c.Samples = 1000
	}
	if !(c.Level > 0.5 && c.Level < 1) || c.Samples < 2 {
		return c, fmt.Errorf("confidence %v from %d resamples: use a level above 0.5 and below 1, and 2 resamples "+
			"or more", c.Level, c.Samples)
	}
	return c, nil
}

// quantile is the half-width of the interval in standard errors.
func (c Confidence) quantile() float64 { return math.Sqrt2 * math.Erfinv(c.Level) }

// How an interval was computed.
const (
	// normal, from the rows' influences on the value; for the area under the curve this is DeLong's method
	Analytic = "analytic"
	Resample = "bootstrap" // quantiles over resamples
)

// Interval is a metric's value and its confidence interval.
type Interval struct {
	Value, Low, High float64
	Error            float64 // standard error
	Method           string
}

// Interval evaluates the metric with an interval. Rows, or groups for metrics of groups, are assumed to be independent.
func (m Metric) Interval(in Input, c Confidence) (Interval, error) {
	c, err := c.filled()
	if err != nil {
		return Interval{}, err
	}
	var e Evaluator
	e.Reset(in)
	value, err := e.Eval(m)
	if err != nil {
		return Interval{}, err
	}

	if m.influence == nil {
		low, high, deviation, err := bootstrap(m, c, in, []([]float64){in.Pred},
			func(v []float64) float64 { return v[0] })
		return Interval{value, low, high, deviation, Resample}, err
	}

	u, err := m.influence(&e, m, value)
	if err != nil {
		return Interval{}, err
	}
	i := Interval{Value: value, Error: u.deviation(), Method: Analytic}
	i.Low, i.High = value-c.quantile()*i.Error, value+c.quantile()*i.Error
	if m.Aim != 0 && value > 0 { // a ratio's interval is symmetric on the logarithmic scale
		reach := math.Exp(c.quantile() * i.Error / value)
		i.Low, i.High = value/reach, value*reach
	}
	return i, nil
}

// Comparison is how much better new predictions are than old ones of the same rows.
type Comparison struct {
	Old, New  float64 // the metric's values
	Gain      float64 // of the scores; above 0 if the new predictions are better, for any metric
	Low, High float64 // confidence interval of the gain
	Error     float64 // standard error of the gain
	Method    string
}

// Better reports whether the new predictions are better by more than margin, beyond chance. With a margin below 0 it
// reports whether they are not worse by more than that.
func (c Comparison) Better(margin float64) bool { return c.Low > margin }

// Worse reports whether the new predictions are worse, beyond chance.
func (c Comparison) Worse() bool { return c.High < 0 }

// Compare compares two models on the same rows, paired, so that what affects both cancels out. in.Pred are the new
// predictions.
func (m Metric) Compare(in Input, old []float64, c Confidence) (Comparison, error) {
	c, err := c.filled()
	if err != nil {
		return Comparison{}, err
	}
	if len(old) != len(in.Pred) {
		return Comparison{}, fault(m, -1, "the columns have different lengths: %d old predictions for %d new ones",
			len(old), len(in.Pred))
	}

	// Values and influences of both sides.
	var values, scores [2]float64
	var sides [2]*units
	for s, pred := range [][]float64{in.Pred, old} {
		var e Evaluator
		side := in
		side.Pred = pred
		e.Reset(side)
		if values[s], err = e.Eval(m); err != nil {
			return Comparison{}, err
		}
		scores[s] = m.Score(values[s])
		if m.influence == nil {
			continue
		}
		if sides[s], err = m.influence(&e, m, values[s]); err != nil {
			return Comparison{}, err
		}
	}

	out := Comparison{New: values[0], Old: values[1], Gain: m.gain(scores[0], scores[1]), Method: Analytic}
	if m.influence == nil {
		out.Method = Resample
		out.Low, out.High, out.Error, err = bootstrap(m, c, in, [][]float64{in.Pred, old},
			func(v []float64) float64 { return m.gain(m.Score(v[0]), m.Score(v[1])) })
		return out, err
	}

	difference := sides[0].less(m.slope(values[0]), *sides[1], m.slope(values[1]))
	out.Error = difference.deviation()
	out.Low, out.High = out.Gain-c.quantile()*out.Error, out.Gain+c.quantile()*out.Error
	return out, nil
}

// gain returns the gain of one score over another.
func (m Metric) gain(fresh, old float64) float64 {
	if m.Maximize {
		return fresh - old
	}
	return old - fresh
}

// slope is the derivative of the score by the value.
func (m Metric) slope(value float64) float64 {
	switch {
	case m.Aim == 0:
		return 1
	case value >= m.Aim:
		return 1 / value
	}
	return -1 / max(value, nearest)
}

// bounds returns the quantiles that leave out equal shares on both sides. It sorts values.
func (c Confidence) bounds(values []float64) (low, high float64) {
	slices.Sort(values)
	at := func(q float64) float64 {
		x := q * float64(len(values)-1)
		i := int(x)
		j := min(i+1, len(values)-1)
		return values[i] + (x-float64(i))*(values[j]-values[i])
	}
	return at((1 - c.Level) / 2), at((1 + c.Level) / 2)
}
