package metric

import (
	"math"
)

// clip is how near to 0 and 1 a probability may be in a logarithm, which keeps it finite; as in LightGBM.
const clip = 1e-15

// logLoss is the weighted mean of -log(predicted probability of the observed label).
func logLoss(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}
	if e.in.Weight == nil {
		return -logLikelihood(e.in) / e.binary.total(), nil
	}
	var loss sum
	for i, p := range e.in.Pred {
		loss.add(-float64(e.in.Weight[i]) * math.Log(likelihood(p, e.in.Label[i])))
	}
	return loss.value() / e.binary.total(), nil
}

// logLikelihood is the sum of log(predicted probability of the observed label) over rows without weights. It takes only
// one logarithm per sixteen rows, that of a product: as many clipped probabilities stay above 1e-240.
func logLikelihood(in Input) float64 {
	const together = 16
	label := in.Label[:len(in.Pred)]
	var all sum
	product := 1.0

	for i, p := range in.Pred {
		product *= likelihood(p, label[i])
		if i%together == together-1 {
			all.add(math.Log(product))
			product = 1
		}
	}
	all.add(math.Log(product))
	return all.value()
}

// likelihood is the probability of the label, 0 or 1, if that of 1 is p: p or 1-p. It is limited to clip and 1-clip.
// NaN stays NaN.
func likelihood(p float64, label float32) float64 {
	l := float64(label)
	q := l*p + (1-l)*(1-p) // one of the two, without a branch
	if q < clip {
		return clip
	}
	if q > 1-clip {
		return 1 - clip
	}
	return q
}

// brier is the mean squared difference of probability and label (Brier 1950).
func brier(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}
	return weightedSum(e, squaredLoss) / e.binary.total(), nil
}

// weightedSum is the sum over all rows of f times the row's weight.
func weightedSum(e *Evaluator, f func(pred, label float64) float64) float64 {
	var all sum
	for i, p := range e.in.Pred {
		all.add(f(p, float64(e.in.Label[i])) * e.in.weight(i))
	}
	return all.value()
}

// confusion is a confusion matrix: the weight of the rows with each label that are predicted positive, above 0.5, or
// not.
type confusion struct{ truePos, falsePos, falseNeg, trueNeg float64 }

// confusion returns the confusion matrix of the rows.
func (e *Evaluator) confusion(m Metric) (confusion, error) {
	if err := e.checkProbabilities(m); err != nil {
		return confusion{}, err
	}

	var truePos, falsePos sum
	for i, p := range e.in.Pred {
		if !(p > 0.5) {
			continue
		}
		if w := e.in.weight(i); e.in.Label[i] == 1 {
			truePos.add(w)
		} else {
			falsePos.add(w)
		}
	}

	c := confusion{truePos: truePos.value(), falsePos: falsePos.value()}
	c.falseNeg = e.binary.pos - c.truePos
	c.trueNeg = e.binary.neg - c.falsePos
	return c, nil
}

// accuracy is the share of rows, by weight, whose label is predicted, with a prediction above 0.5 for 1.
func accuracy(e *Evaluator, m Metric) (float64, error) {
	c, err := e.confusion(m)
	return (c.truePos + c.trueNeg) / e.binary.total(), err
}

// errorRate is 1 - accuracy, computed from the errors, so that a small one keeps its digits.
func errorRate(e *Evaluator, m Metric) (float64, error) {
	c, err := e.confusion(m)
	return (c.falsePos + c.falseNeg) / e.binary.total(), err
}

// f1 is the harmonic mean of precision and recall at a cut of 0.5. It is 0 if no positive row is predicted to be one,
// and an error if there are no positive rows.
func f1(e *Evaluator, m Metric) (float64, error) {
	c, err := e.confusion(m)
	if err != nil {
		return 0, err
	}
	if e.binary.pos == 0 {
		return 0, fault(m, -1, "all labels are the same: none is 1, so %s is not defined", m.Name)
	}
	return 2 * c.truePos / (2*c.truePos + c.falsePos + c.falseNeg), nil
}

// baseEntropy is the entropy of the base rate, the share of positive rows: the log loss of always predicting it. The
// rows must have been checked. It is an error if all labels are the same, or if one of the two has so little weight
// that its share rounds to 0.
func (e *Evaluator) baseEntropy(m Metric) (float64, error) {
	rate := e.binary.pos / e.binary.total()
	entropy := -float64(rate*math.Log(rate)) - float64((1-rate)*math.Log1p(-rate))
	if !(entropy > 0) { // it is NaN at a rate of 0 or 1: 0 times an infinite logarithm
		return 0, fault(m, -1, "all labels are the same: the base rate has no entropy, so %s is not defined", m.Name)
	}
	return entropy, nil
}

// entropies returns the log loss and the entropy of the base rate.
func (e *Evaluator) entropies(m Metric) (loss, entropy float64, err error) {
	if loss, err = logLoss(e, m); err != nil {
		return 0, 0, err
	}
	entropy, err = e.baseEntropy(m)
	return loss, entropy, err
}

// normalizedEntropy is the log loss divided by the entropy of the base rate (He et al. 2014, "Practical lessons from
// predicting clicks on ads at Facebook"): below 1 means better than predicting the base rate.
func normalizedEntropy(e *Evaluator, m Metric) (float64, error) {
	loss, entropy, err := e.entropies(m)
	return loss / entropy, err
}

// informationGain is the share of the base rate's entropy that the predictions remove (Yi et al. 2013, "Predictive
// model performance: offline and online evaluations"): 1 - normalizedEntropy, computed from the difference, so that a
// small gain keeps its digits.
func informationGain(e *Evaluator, m Metric) (float64, error) {
	loss, entropy, err := e.entropies(m)
	return (entropy - loss) / entropy, err
}

// calibrationRatio is the sum of predictions divided by the sum of labels. A ratio of 1.1 means that a tenth more
// positives are predicted than there are.
func calibrationRatio(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}
	if e.binary.pos == 0 {
		return 0, fault(m, -1, "all labels are the same: none is 1, so %s is not defined", m.Name)
	}
	return weightedSum(e, func(p, _ float64) float64 { return p }) / e.binary.pos, nil
}

// rmse is the root of the mean loss, which is the squared error.
func rmse(e *Evaluator, m Metric) (float64, error) {
	v, err := meanLoss(e, m)
	return math.Sqrt(v), err
}

// r2 is 1 - residual variance / variance of the labels; below 0 if the mean label would be a better prediction.
func r2(e *Evaluator, m Metric) (float64, error) {
	total, err := e.checkNumbers(m)
	if err != nil {
		return 0, err
	}
	mean := weightedSum(e, func(_, l float64) float64 { return l }) / total
	variance := weightedSum(e, func(_, l float64) float64 { return (l - mean) * (l - mean) })
	if variance == 0 {
		return 0, fault(m, -1, "all labels are the same: there is no variance to explain, so %s is not defined", m.Name)
	}
	return 1 - weightedSum(e, squaredLoss)/variance, nil
}
