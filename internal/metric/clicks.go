package metric

import "math"

// baseEntropy is the entropy of the base rate: the log loss of always predicting it.
func (e *Evaluator) baseEntropy(m Metric) (float64, error) {
	rate := e.binary.pos / e.binary.total()
	entropy := -float64(rate*math.Log(rate)) - float64((1-rate)*math.Log1p(-rate))
	if e.binary.pos == 0 || e.binary.neg == 0 || !(entropy > 0) {
		return 0, fault(m, -1, "all labels are alike: the base rate has no entropy, so %s is not defined", m.Name)
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

// calibrationRatio is the sum of predictions divided by that of labels: 1.1 predicts a tenth more clicks than there
// were.
func calibrationRatio(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}
	if e.binary.pos == 0 {
		return 0, fault(m, -1, "all labels are alike: none is 1, so %s is not defined", m.Name)
	}
	return weightedSum(e, func(p, _ float64) float64 { return p }) / e.binary.pos, nil
}
