package metric

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Confidence says how an interval is computed. The zero value is 95 %, seed 0 and 1,000 resamples.
type Confidence struct {
	Level   float64 // two-sided, above 0.5 and below 1
	Seed    uint64  // of resampling; the same seed gives the same interval
	Samples int     // of resampling
}

// fillDefaults returns c with 95 % and 1,000 resamples where it has 0. It is an error if the level is not between 0.5
// and 1, both excluded, or if there are fewer than two resamples.
func (c Confidence) fillDefaults() (Confidence, error) {
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

// quantile returns the half-width of a normal interval in standard errors: 1.96 for 95 %.
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

// Analytic reports whether the metric's intervals are computed from the rows' influences, without resampling.
func (m Metric) Analytic() bool { return m.influence != nil }

// Interval evaluates the metric and computes a confidence interval. Rows are assumed to be independent of each other;
// for ranking metrics, groups are.
func (m Metric) Interval(in Input, c Confidence) (Interval, error) {
	c, err := c.fillDefaults()
	if err != nil {
		return Interval{}, err
	}
	var e Evaluator
	e.Reset(in)
	value, err := e.Eval(m)
	if err != nil {
		return Interval{}, err
	}

	// Without influences, resample.
	if m.influence == nil {
		low, high, deviation, err := bootstrap(m, c, in, []([]float64){in.Pred},
			func(v []float64) float64 { return v[0] })
		return Interval{Value: value, Low: low, High: high, Error: deviation, Method: Resample}, err
	}

	u, err := m.influence(&e, m, value)
	if err != nil {
		return Interval{}, err
	}
	i := Interval{Value: value, Error: u.standardError(), Method: Analytic}
	i.Low, i.High = value-c.quantile()*i.Error, value+c.quantile()*i.Error

	// A ratio's interval is symmetric on the logarithmic scale, on which the standard error is Error / value.
	if isRatio := m.Aim != 0; isRatio && value > 0 {
		reach := math.Exp(c.quantile() * i.Error / value)
		i.Low, i.High = value/reach, value*reach
	}
	return i, nil
}

// Comparison says how much better new predictions are than old ones of the same rows.
type Comparison struct {
	Old, New  float64 // the metric's values
	Gain      float64 // difference of Metric.Score; above 0 if the new predictions are better, for any metric
	Low, High float64 // confidence interval of the gain
	Error     float64 // standard error of the gain
	Method    string  // Analytic or Resample
}

// Better reports whether the new predictions are better by more than margin, beyond chance: the whole interval is above
// margin. With a negative margin, it reports whether they are not worse by more than that.
func (c Comparison) Better(margin float64) bool { return c.Low > margin }

// Worse reports whether the new predictions are worse, beyond chance.
func (c Comparison) Worse() bool { return c.High < 0 }

// WorseBy reports whether the new predictions are so much worse that the margin does not allow it. All of these must
// hold: they are worse beyond chance; they may be worse by more than the margin; and they are measured to be worse by
// most of the margin. The last one is there because with many rows even a loss that does not matter is beyond chance.
//
// If both are equally good, it is true with at most the probability of one tail, (1 - level) / 2. If the new ones are
// worse by more than the margin and the interval's width together, it is false with at most the same probability.
func (c Comparison) WorseBy(margin float64) bool {
	return c.Worse() && c.Low < -margin && c.Gain < -mostOfMargin*margin
}

// mostOfMargin is the share of the margin that WorseBy asks for. It was chosen from 3/4 and 1 on simulated months
// (seeds 0 to 23 of the aggregator's TestMonths).
const mostOfMargin = 0.75

// Compare compares two models' predictions for the same rows: in.Pred are the new ones, old the old ones. The
// comparison is paired, so that whatever affects both in the same way cancels out.
func (m Metric) Compare(in Input, old []float64, c Confidence) (Comparison, error) {
	c, err := c.fillDefaults()
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

	// A row's influence on the score is that on the value times the score's derivative.
	difference := sides[0].subtract(m.scoreSlope(values[0]), *sides[1], m.scoreSlope(values[1]))
	out.Error = difference.standardError()
	out.Low, out.High = out.Gain-c.quantile()*out.Error, out.Gain+c.quantile()*out.Error
	return out, nil
}

// gain returns by how much the score fresh is better than the score old.
func (m Metric) gain(fresh, old float64) float64 {
	if m.Maximize {
		return fresh - old
	}
	return old - fresh
}

// scoreSlope is the derivative of Score at a value. For a ratio, Score is |log(value / Aim)|. That has a kink at Aim,
// where scoreSlope is the slope of the values above.
func (m Metric) scoreSlope(value float64) float64 {
	switch {
	case m.Aim == 0:
		return 1
	case value >= m.Aim:
		return 1 / value
	}
	return -1 / max(value, nearest)
}

// bounds returns the quantiles of values between which c.Level of them are, with equal shares left out on both sides.
// It sorts values in place.
func (c Confidence) bounds(values []float64) (low, high float64) {
	slices.Sort(values)
	at := func(q float64) float64 { // the q-quantile, interpolated
		x := q * float64(len(values)-1)
		i := int(x)
		j := min(i+1, len(values)-1)
		return values[i] + (x-float64(i))*(values[j]-values[i])
	}
	return at((1 - c.Level) / 2), at((1 + c.Level) / 2)
}

// bootstrap evaluates the metric on c.Samples resamples of the rows. preds are one or two predictions for these rows,
// both of which are evaluated on the same resamples; of is a function of their values, such as the difference. It
// returns the confidence interval and the standard deviation of that function.
//
// How often a row is in a resample is Poisson distributed with mean 1, independently of other rows. With many rows that
// is nearly the same as drawing as many rows as there are (Hanley and MacGibbon 2006). Resamples on which the metric is
// not defined are left out; if these are more than half, or all but one, the last of their errors is returned.
func bootstrap(m Metric, c Confidence, in Input, preds [][]float64, of func(values []float64) float64) (low, high,
	deviation float64, err error) {
	sides := make([]*resampler, len(preds))
	for s, pred := range preds {
		side := in
		side.Pred = pred
		sides[s] = newResampler(side)
	}

	times := make([]uint8, len(in.Pred))  // by row, how often it is in this resample
	values := make([]float64, len(preds)) // of this resample
	all := make([]float64, 0, c.Samples)  // the results of all resamples
	var last error
	for sample := range c.Samples {
		drawTimes(times, rand.New(rand.NewPCG(c.Seed, uint64(sample))))
		ok := true
		for s, r := range sides {
			v, err := r.eval(m, times)
			if err != nil {
				last, ok = err, false
				break
			}
			values[s] = v
		}
		if ok {
			all = append(all, of(values))
		}
	}

	// If most resamples are undefined, the rest is not representative. A single one has no spread.
	if 2*len(all) < c.Samples || len(all) < 2 {
		return 0, 0, 0, last
	}
	low, high = c.bounds(all)
	return low, high, spread(all), nil
}

// spread is the standard deviation of the values.
func spread(values []float64) float64 {
	var total, squares sum
	for _, v := range values {
		total.add(v)
	}
	mean := total.value() / float64(len(values))
	for _, v := range values {
		squares.add((v - mean) * (v - mean))
	}
	return math.Sqrt(squares.value() / float64(len(values)-1))
}

// resampler evaluates the same predictions on one resample after another. They are sorted only once.
type resampler struct {
	e      Evaluator
	rows   []uint32  // by descending prediction
	label  []uint8   // in that order
	weight []float32 // in that order; nil if all are 1
}

// newResampler returns a resampler for rows that are valid for binary metrics: those are the only metrics without
// influences.
func newResampler(in Input) *resampler {
	r := &resampler{}
	k := &r.e.rank
	s, _ := summarize(in) // which row is invalid is not asked: none is
	k.sortRows(in.Pred, s.low, s.high)
	r.rows = slices.Clone(k.tags) // sortRows leaves the numbers of the rows in tags
	r.label = make([]uint8, len(r.rows))
	for i, row := range r.rows {
		r.label[i] = uint8(in.Label[row])
	}

	if in.Weight != nil {
		r.weight = make([]float32, len(r.rows))
		for i, row := range r.rows {
			r.weight[i] = in.Weight[row]
		}
	}

	// The rows are now checked and sorted, so that evaluations do neither again. They take the labels and weights of
	// the tags, which eval sets.
	r.e.in, r.e.binary, r.e.sound, r.e.ranked = in, s, true, true
	return r
}

// eval evaluates the metric as if row i occurred times[i] times: with so many times its weight.
func (r *resampler) eval(m Metric, times []uint8) (float64, error) {
	var weights [2]float64 // of all rows, by label
	tags := r.e.rank.tags[:len(r.rows)]
	for i, row := range r.rows {
		w := float32(times[row])
		if r.weight != nil {
			w *= r.weight[i]
		}
		label := r.label[i] & 1 // it is 0 or 1; this tells the compiler so
		weights[label] += float64(w)
		// As fill makes tags: the weight, with the label in place of its sign.
		tags[i] = math.Float32bits(w)&^(1<<31) | uint32(label)<<31
	}

	r.e.binary.neg, r.e.binary.pos = weights[0], weights[1]
	if weights[0]+weights[1] == 0 {
		return 0, fault(m, -1, "all weights are 0")
	}
	return r.e.Eval(m)
}

// poisson has the cumulative Poisson probabilities, with mean 1, of 0, 1, 2 ... in units of 2^-32.
var poisson = func() (upTo [16]uint32) {
	p, all := math.Exp(-1), 0.0
	for k := range upTo {
		all += p
		upTo[k] = uint32(min(all*(1<<32), math.MaxUint32))
		p /= float64(k + 1)
	}
	return upTo
}()

// drawTimes draws how often each row is in a resample. A random word of 64 bits is enough for two rows.
func drawTimes(times []uint8, r *rand.Rand) {
	for i := 0; i < len(times); i += 2 {
		word := r.Uint64()
		times[i] = drawOne(uint32(word))
		if i+1 < len(times) {
			times[i+1] = drawOne(uint32(word >> 32))
		}
	}
}

// drawOne turns a uniform number x into one that is Poisson distributed with mean 1. Counts above 15 have a probability
// below 2^-32, which x cannot express.
func drawOne(x uint32) uint8 {
	k := uint8(0)
	for int(k) < len(poisson)-1 && x >= poisson[k] {
		k++
	}
	return k
}

// units are the independent units of a sample, rows or, for ranking metrics, groups, with their influences on a
// metric's value. The influence of a unit is how fast the value changes with the unit's share of the total weight
// (Hampel 1974). The weighted influences of a sample add up to 0, and their variance gives the standard error of the
// value. Influences of two models on the same rows can be subtracted, which makes a comparison paired.
type units struct {
	influence []float64
	weight    []float64
	unbiased  bool // the influences already include the factor for n/(n-1) in the variance
}

// standardError returns the standard error of the value that has these influences x and weights w. Its square is the
// sum of (w x)² divided by the square of the sum of w, times n/(n-1) for the n units of weight above 0 unless the
// influences include that factor.
func (u units) standardError() float64 {
	var squares, total sum
	n := 0
	for i, x := range u.influence {
		w := u.weight[i]
		if w > 0 {
			n++
		}
		squares.add(float64(w*x) * float64(w*x))
		total.add(w)
	}

	variance := squares.value() / (total.value() * total.value())
	if !u.unbiased && n > 1 {
		variance *= float64(n) / float64(n-1)
	}
	return math.Sqrt(variance)
}

// subtract returns sign times the influences of u less otherSign times those of other, another model on the same units.
func (u units) subtract(sign float64, other units, otherSign float64) units {
	d := units{influence: make([]float64, len(u.influence)), weight: u.weight, unbiased: u.unbiased}
	for i := range d.influence {
		d.influence[i] = float64(sign*u.influence[i]) - float64(otherSign*other.influence[i])
	}
	return d
}

// influence returns the influences of the rows of the last Reset on a metric, which has the given value there.
type influence func(e *Evaluator, m Metric, value float64) (*units, error)

// rowInfluence returns the influence of a row with prediction p and label l.
type rowInfluence func(p, l float64) float64

// byRow returns the influence of a metric that is a mean over rows, or a smooth function of such means. of is called
// once and returns the influence of single rows.
func byRow(of func(e *Evaluator, m Metric, value float64) (rowInfluence, error)) influence {
	return func(e *Evaluator, m Metric, value float64) (*units, error) {
		row, err := of(e, m, value)
		if err != nil {
			return nil, err
		}
		n := len(e.in.Pred)
		u := &units{influence: make([]float64, n), weight: make([]float64, n)}
		for i, p := range e.in.Pred {
			u.influence[i], u.weight[i] = row(p, float64(e.in.Label[i])), e.in.weight(i)
		}
		return u, nil
	}
}

// logLossOf is the log loss of a row.
func logLossOf(p, l float64) float64 { return -math.Log(likelihood(p, float32(l))) }

func normalizedEntropyRow(e *Evaluator, m Metric, value float64) (rowInfluence, error) {
	return e.entropyRow(m, 1, value)
}

func informationGainRow(e *Evaluator, m Metric, value float64) (rowInfluence, error) {
	return e.entropyRow(m, -1, 1-value)
}

// entropyRow returns the rows' influences on sign x ratio, where ratio is the log loss divided by the base rate's
// entropy. A row changes both of these: the loss by (its own loss - mean loss), the entropy by (label - base rate)
// times the entropy's derivative. By the quotient rule, the ratio changes by (change of the loss - ratio x change of
// the entropy) / entropy.
func (e *Evaluator) entropyRow(m Metric, sign, ratio float64) (rowInfluence, error) {
	entropy, err := e.baseEntropy(m)
	if err != nil {
		return nil, err
	}
	rate := e.binary.pos / e.binary.total()
	slope := math.Log1p(-rate) - math.Log(rate) // of the entropy, by the base rate
	mean := ratio * entropy
	return func(p, l float64) float64 {
		return sign * (logLossOf(p, l) - mean - ratio*slope*(l-rate)) / entropy
	}, nil
}

// calibrationRatioRow returns the rows' influences on the mean prediction divided by the mean label. They follow from
// the quotient rule; the means themselves cancel out.
func calibrationRatioRow(e *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	rate := e.binary.pos / e.binary.total()
	return func(p, l float64) float64 { return (p - value*l) / rate }, nil
}

// rmseRow returns the rows' influences on the root of the mean squared error: those on the mean squared error, divided
// by the square's derivative, 2 x value. They are 0 if the value is 0.
func rmseRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	if value == 0 {
		return func(_, _ float64) float64 { return 0 }, nil
	}
	return func(p, l float64) float64 { return ((p-l)*(p-l) - value*value) / (2 * value) }, nil
}

// indicator is 1 for true and 0 for false.
func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// r2Row returns the rows' influences on 1 - (mean squared error) / (variance of the labels), by the quotient rule: the
// means themselves cancel out.
func r2Row(e *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	total := weightedSum(e, func(_, _ float64) float64 { return 1 })
	mean := weightedSum(e, func(_, l float64) float64 { return l }) / total
	variance := weightedSum(e, func(_, l float64) float64 { return (l - mean) * (l - mean) }) / total
	return func(p, l float64) float64 {
		return ((1-value)*(l-mean)*(l-mean) - (p-l)*(p-l)) / variance
	}, nil
}

// f1Row returns the rows' influences on 2tp / (2tp + fp + fn), where tp, fp and fn are shares of the rows: true
// positives, false positives and false negatives. A prediction above 0.5 is a positive one. The denominator is the
// share of predicted positives plus the share of positive labels, to which a row adds found + l. The quotient rule
// gives the rest.
func f1Row(e *Evaluator, m Metric, value float64) (rowInfluence, error) {
	c, err := e.confusion(m)
	if err != nil {
		return nil, err
	}
	denominator := (2*c.truePos + c.falsePos + c.falseNeg) / e.binary.total()
	return func(p, l float64) float64 {
		found := indicator(p > 0.5)
		return (2*found*l - value*(found+l)) / denominator
	}, nil
}

// delong returns the rows' influences on the area under the ROC curve (DeLong, DeLong and Clarke-Pearson 1988). For a
// positive row it is the share of negatives that are predicted below it, less the area; for a negative row, the share
// of positives above it, less the area. They are scaled such that the variance of the area is the sum of the two
// classes' variances, each divided by one less than its number of rows (hence unbiased). The rows of e are valid and of
// both labels, because area was computed from them.
func delong(e *Evaluator, _ Metric, area float64) (*units, error) {
	n := len(e.in.Pred)
	u := &units{influence: make([]float64, n), weight: make([]float64, n), unbiased: true}
	var members [2]int // rows with weight, by label
	for i, l := range e.in.Label {
		u.weight[i] = e.in.weight(i)
		if u.weight[i] > 0 {
			members[int(l)]++
		}
	}

	// standardError divides by the weight of all rows, but the variance of a class needs the weight of that class.
	var scale [2]float64 // by label
	for class, weight := range []float64{e.binary.neg, e.binary.pos} {
		scale[class] = e.binary.total() / weight
		if k := members[class]; k > 1 {
			scale[class] *= math.Sqrt(float64(k) / float64(k-1))
		}
	}

	// Go through the rows by descending prediction, those with the same prediction together.
	var ranked ranking
	ranked.sortRows(e.in.Pred, e.binary.low, e.binary.high)
	order := ranked.tags
	var above [2]sum // weight of the rows with a higher prediction, by label
	for begin := 0; begin < n; {
		end := begin
		var here [2]float64 // weight of the rows with this prediction, by label
		for ; end < n && e.in.Pred[order[end]] == e.in.Pred[order[begin]]; end++ {
			here[int(e.in.Label[order[end]])] += u.weight[order[end]]
		}

		// Rows with the same prediction count half.
		negBelow := e.binary.neg - above[0].value() - here[0]/2
		posAbove := above[1].value() + here[1]/2
		for _, row := range order[begin:end] {
			if e.in.Label[row] == 1 {
				u.influence[row] = scale[1] * (negBelow/e.binary.neg - area)
			} else {
				u.influence[row] = scale[0] * (posAbove/e.binary.pos - area)
			}
		}
		above[0].add(here[0])
		above[1].add(here[1])
		begin = end
	}
	return u, nil
}

// byGroup returns the influences of the groups on a mean over groups.
func byGroup(e *Evaluator, m Metric, value float64) (*units, error) {
	u := &units{}
	err := e.eachGroup(m, func(v, w float64) {
		u.influence = append(u.influence, v-value)
		u.weight = append(u.weight, w)
	})
	return u, err
}
