package metric

import "math"

// baseEntropy is the entropy of the base rate: the log loss of always predicting it.
func (e *Evaluator) baseEntropy(m Metric) (float64, error) {
	rate := e.binary.pos / e.binary.total()
	entropy := -float64(rate*math.Log(rate)) - float64((1-rate)*math.Log1p(-rate))
	if e.binary.pos == 0 || e.binary.neg == 0 || !(entropy > 0) {
		return 0, fault(m, -1, ErrOneClass, "the base rate has no entropy, so %s is not defined", m.Name)
	}
	return entropy, nil
}

// normalizedEntropy is the log loss divided by the entropy of the base rate (He et al. 2014, "Practical lessons from
// predicting clicks on ads at Facebook"): below 1 means better than predicting the base rate.
func normalizedEntropy(e *Evaluator, m Metric) (float64, error) {
	loss, err := logLoss(e, m)
	if err != nil {
		return 0, err
	}
	entropy, err := e.baseEntropy(m)
	return loss / entropy, err
}

// informationGain is the share of the base rate's entropy that the predictions remove (Yi et al. 2013, "Predictive
// model performance: offline and online evaluations"): 1 - normalizedEntropy, computed from the difference, so that a
// small gain keeps its digits.
func informationGain(e *Evaluator, m Metric) (float64, error) {
	loss, err := logLoss(e, m)
	if err != nil {
		return 0, err
	}
	entropy, err := e.baseEntropy(m)
	return (entropy - loss) / entropy, err
}

// calibrationRatio is the sum of predictions divided by that of labels: 1.1 predicts a tenth more clicks than there
// were.
func calibrationRatio(e *Evaluator, m Metric) (float64, error) {
	if err := e.checkProbabilities(m); err != nil {
		return 0, err
	}
	if e.binary.pos == 0 {
		return 0, fault(m, -1, ErrOneClass, "none is 1, so %s is not defined", m.Name)
	}
	return meanOf(e, func(p, _ float64) float64 { return p }) / e.binary.pos, nil
}

// nearest bounds the distance of a ratio of 0 from its aim.
const nearest = 1e-15

// Score is what values of the metric are ordered by: the value itself or, if the best value is in between (Aim), its
// distance from there on a logarithmic scale, so that half and twice as much are equally bad.
func (m Metric) Score(value float64) float64 {
	if m.Aim == 0 {
		return value
	}
	return math.Abs(math.Log(max(value, nearest) / m.Aim))
}

// RatedBy describes the score in words.
func (m Metric) RatedBy() string {
	if m.Aim == 0 {
		return m.Name
	}
	return "distance of " + m.Name + " from 1"
}
