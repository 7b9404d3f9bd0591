package metric

import "math"

// units are the independent units of a sample: rows or, for ranking metrics, groups. On another sample, a metric's
// value would be approximately value + the weighted mean of the units' influences (Hampel 1974); these add up to 0.
// Influences of two models on the same rows can be subtracted, which makes a comparison paired.
type units struct {
	influence []float64
	weight    []float64
	unbiased  bool // the influences include the factor n/(n-1)
}

// deviation is the standard error of a value with these influences.
func (u units) deviation() float64 {
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

// less subtracts the influences of another model on the same units, each multiplied by a sign.
func (u units) less(sign float64, other units, otherSign float64) units {
	d := units{influence: make([]float64, len(u.influence)), weight: u.weight, unbiased: u.unbiased}
	for i := range d.influence {
		d.influence[i] = float64(sign*u.influence[i]) - float64(otherSign*other.influence[i])
	}
	return d
}

// influence returns a metric's influences on the rows with the given value.
type influence func(e *Evaluator, m Metric, value float64) (*units, error)

// rowInfluence is the influence of a row with prediction p and label l.
type rowInfluence func(p, l float64) float64

// byRow makes the influences of a metric that is a mean over rows, or a smooth function of such means.
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

func logLossOf(p, l float64) float64 { return -math.Log(likelihood(p, float32(l))) }

func logLossRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	return func(p, l float64) float64 { return logLossOf(p, l) - value }, nil
}

func normalizedEntropyRow(e *Evaluator, m Metric, value float64) (rowInfluence, error) {
	return e.entropyRow(m, 1, value)
}

func informationGainRow(e *Evaluator, m Metric, value float64) (rowInfluence, error) {
	return e.entropyRow(m, -1, 1-value)
}

// entropyRow is for ratio, the log loss divided by the base rate's entropy, times a sign.
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

func calibrationRatioRow(e *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	rate := e.binary.pos / e.binary.total()
	return func(p, l float64) float64 { return (p - value*l) / rate }, nil
}

func squaredRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	return func(p, l float64) float64 { return (p-l)*(p-l) - value }, nil
}

func absoluteRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	return func(p, l float64) float64 { return math.Abs(p-l) - value }, nil
}

func rmseRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	if value == 0 {
		return func(_, _ float64) float64 { return 0 }, nil
	}
	return func(p, l float64) float64 { return ((p-l)*(p-l) - value*value) / (2 * value) }, nil
}

func accuracyRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	return func(p, l float64) float64 { return indicator((p > 0.5) == (l == 1)) - value }, nil
}

func errorRateRow(_ *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	return func(p, l float64) float64 { return indicator((p > 0.5) != (l == 1)) - value }, nil
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func r2Row(e *Evaluator, _ Metric, value float64) (rowInfluence, error) {
	total := weightedSum(e, func(_, _ float64) float64 { return 1 })
	mean := weightedSum(e, func(_, l float64) float64 { return l }) / total
	variance := weightedSum(e, func(_, l float64) float64 { return (l - mean) * (l - mean) }) / total
	return func(p, l float64) float64 {
		return ((1-value)*(l-mean)*(l-mean) - (p-l)*(p-l)) / variance
	}, nil
}

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

// delong returns the influences of the area under the curve (DeLong, DeLong and Clarke-Pearson 1988): for a positive,
// the difference between its share of negatives below and the area; for a negative, its share of positives above. They
// are scaled so that the deviation is the root of the sum of the two classes' variances, each over one less than its
// number of rows.
func delong(e *Evaluator, _ Metric, area float64) (*units, error) {
	n := len(e.in.Pred)
	u := &units{influence: make([]float64, n), weight: make([]float64, n), unbiased: true}
	var members [2]int
	for i, l := range e.in.Label {
		u.weight[i] = e.in.weight(i)
		if u.weight[i] > 0 {
			members[int(l)]++
		}
	}

	var scale [2]float64
	for class, weight := range []float64{e.binary.neg, e.binary.pos} {
		scale[class] = e.binary.total() / weight
		if k := members[class]; k > 1 {
			scale[class] *= math.Sqrt(float64(k) / float64(k-1))
		}
	}

	// By descending prediction, so that earlier rows are above a step.
	var ranked ranking
	ranked.sortRows(e.in.Pred, e.binary.low, e.binary.high)
	order := ranked.tags
	var above [2]sum
	for begin := 0; begin < n; {
		end := begin
		var here [2]float64
		for ; end < n && e.in.Pred[order[end]] == e.in.Pred[order[begin]]; end++ {
			here[int(e.in.Label[order[end]])] += u.weight[order[end]]
		}

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

// byGroup returns the influences of a mean over groups.
func byGroup(e *Evaluator, m Metric, value float64) (*units, error) {
	u := &units{}
	err := e.eachGroup(m, func(v, w float64) {
		u.influence = append(u.influence, v-value)
		u.weight = append(u.weight, w)
	})
	return u, err
}
