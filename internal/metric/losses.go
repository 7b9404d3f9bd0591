package metric

import "math"

// Losses of single rows with prediction p and label l, as LightGBM defines them (src/metric/regression_metric.hpp and
// xentropy_metric.hpp). Their weighted mean is the metric.

// domain is the set of numbers for which a loss is defined, as a label or as a prediction.
type domain int

const (
	anyNumber domain = iota
	atLeastZero
	aboveZero
	fromZeroToOne
)

// has reports whether x is in the domain. NaN is only in anyNumber.
func (d domain) has(x float64) bool {
	switch d {
	case atLeastZero:
		return x >= 0
	case aboveZero:
		return x > 0
	case fromZeroToOne:
		return x >= 0 && x <= 1
	}
	return true
}

// String names the numbers for messages.
func (d domain) String() string {
	return [...]string{"any numbers", "numbers of 0 or more", "numbers above 0", "numbers from 0 to 1"}[d]
}

// meanLoss is the weighted mean of m.loss. It is an error if the rows are not valid (checkNumbers), or if a label or a
// prediction is outside the loss's domain.
func meanLoss(e *Evaluator, m Metric) (float64, error) {
	total, err := e.checkNumbers(m)
	if err != nil {
		return 0, err
	}
	for i, p := range e.in.Pred {
		if !m.preds.has(p) {
			return 0, fault(m, i, "the prediction cannot be used: %v, and %s is for %s", p, m.Name, m.preds)
		}
		if l := float64(e.in.Label[i]); !m.labels.has(l) {
			return 0, fault(m, i, "the label cannot be used: %v, and %s is for %s", l, m.Name, m.labels)
		}
	}
	return weightedSum(e, m.loss) / total, nil
}

// meanRow returns the influence of a row on the mean of m.loss: its own loss less the mean, which is value.
func meanRow(_ *Evaluator, m Metric, value float64) (rowInfluence, error) {
	return func(p, l float64) float64 { return m.loss(p, l) - value }, nil
}

// plain turns a loss without an argument into a definition.loss.
func plain(loss func(p, l float64) float64) func(float64) func(p, l float64) float64 {
	return func(float64) func(p, l float64) float64 { return loss }
}

func squaredLoss(p, l float64) float64 { return (p - l) * (p - l) }

func absoluteLoss(p, l float64) float64 { return math.Abs(p - l) }

func mapeLoss(p, l float64) float64 { return math.Abs(p-l) / max(1, math.Abs(l)) }

func pinballLoss(level float64) func(p, l float64) float64 {
	return func(p, l float64) float64 { return max(level*(l-p), (1-level)*(p-l)) }
}

// huberLoss is half the squared error up to bound, and continues from there as a line with the same slope.
func huberLoss(bound float64) func(p, l float64) float64 {
	return func(p, l float64) float64 {
		x := math.Abs(p - l)
		if x <= bound {
			return x * x / 2
		}
		return bound * (x - bound/2)
	}
}

func poissonLoss(p, l float64) float64 { return p - l*math.Log(p) }

func gammaLoss(p, l float64) float64 { return l/p + math.Log(p) }

func gammaDeviance(p, l float64) float64 { return max(2*(l/p-1-math.Log(l/p)), 0) }

func tweedieLoss(power float64) func(p, l float64) float64 {
	return func(p, l float64) float64 {
		return l*math.Pow(p, 1-power)/(power-1) + math.Pow(p, 2-power)/(2-power)
	}
}

func softLogLoss(p, l float64) float64 {
	p = min(max(p, clip), 1-clip)
	return -l*math.Log(p) - (1-l)*math.Log1p(-p)
}
