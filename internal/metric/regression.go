package metric

import "math"

func l2(e *Evaluator, m Metric) (float64, error) {
	total, err := e.checkNumbers(m)
	if err != nil {
		return 0, err
	}
	return weightedSum(e, func(p, l float64) float64 { return (p - l) * (p - l) }) / total, nil
}

func rmse(e *Evaluator, m Metric) (float64, error) {
	v, err := l2(e, m)
	return math.Sqrt(v), err
}

func mae(e *Evaluator, m Metric) (float64, error) {
	total, err := e.checkNumbers(m)
	if err != nil {
		return 0, err
	}
	return weightedSum(e, func(p, l float64) float64 { return math.Abs(p - l) }) / total, nil
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
		return 0, fault(m, -1, "all labels are alike: there is no variance to explain, so %s is not defined", m.Name)
	}
	return 1 - weightedSum(e, func(p, l float64) float64 { return (p - l) * (p - l) })/variance, nil
}
