package metric

import "math"

// classes returns the number of classes, which is the number of predictions of a row; 0 without rows.
func (in *Input) classes() int {
	if len(in.Label) == 0 {
		return 0
	}
	return len(in.Pred) / len(in.Label)
}

// eachOfClasses calls f with the index of each row, its probabilities (one for each class), its class and its weight.
// It returns the total weight. It is an error if there are no rows, if the columns' lengths do not fit, if a row is not
// valid for metrics of several classes, or if all weights are 0. f may have been called before an error is found.
func (e *Evaluator) eachOfClasses(m Metric, f func(i int, p []float64, class int, w float64)) (float64, error) {
	in, k := e.in, e.in.classes()
	switch {
	case len(in.Label) == 0:
		return 0, fault(m, -1, "there are no rows")
	case k < 2 || len(in.Pred) != k*len(in.Label):
		return 0, fault(m, -1, "the columns have different lengths: %d labels for %d predictions, which should be one "+
			"for each of several classes", len(in.Label), len(in.Pred))
	case in.Weight != nil && len(in.Weight) != len(in.Label):
		return 0, fault(m, -1, "the columns have different lengths: %d weights for %d labels", len(in.Weight),
			len(in.Label))
	}

	var total sum
	for i, l := range in.Label {
		p, class, w := in.Pred[i*k:(i+1)*k], int(l), in.weight(i)
		if !(l >= 0 && class < k) || l != float32(class) {
			return 0, fault(m, i, "the label cannot be used: %v is none of %d classes", l, k)
		}
		if w < 0 || w-w != 0 {
			return 0, fault(m, i, "the weight cannot be used: %v; use finite weights of 0 or more", w)
		}
		for _, v := range p {
			if !(v >= 0 && v <= 1) {
				return 0, fault(m, i, "the prediction cannot be used: %v is not a probability", v)
			}
		}
		total.add(w)
		f(i, p, class, w)
	}
	if total.value() == 0 {
		return 0, fault(m, -1, "all weights are 0")
	}
	return total.value(), nil
}

// meanOfClasses returns the eval of a metric that is the weighted mean of a loss, which depends on a row's
// probabilities and its class.
func meanOfClasses(loss func(p []float64, class int) float64) func(*Evaluator, Metric) (float64, error) {
	return func(e *Evaluator, m Metric) (float64, error) {
		var all sum
		total, err := e.eachOfClasses(m, func(_ int, p []float64, class int, w float64) { all.add(w * loss(p, class)) })
		return all.value() / total, err
	}
}

// influenceOfClasses returns the influence of a metric that is meanOfClasses of the same loss.
func influenceOfClasses(loss func(p []float64, class int) float64) influence {
	return func(e *Evaluator, m Metric, value float64) (*units, error) {
		u := &units{influence: make([]float64, len(e.in.Label)), weight: make([]float64, len(e.in.Label))}
		_, err := e.eachOfClasses(m, func(i int, p []float64, class int, w float64) {
			u.influence[i], u.weight[i] = loss(p, class)-value, w
		})
		return u, err
	}
}

// logLossOfClass is -log(probability of the observed class), clipped as in LightGBM.
func logLossOfClass(p []float64, class int) float64 { return -math.Log(max(p[class], clip)) }

// errorOfClass is 1 if another class is predicted to be at least as likely as the observed one, else 0, as in
// LightGBM's multi_error.
func errorOfClass(p []float64, class int) float64 {
	for c, v := range p {
		if v >= p[class] && c != class {
			return 1
		}
	}
	return 0
}

// ofClasses are the metrics of labels that are classes.
func ofClasses() []definition {
	return []definition{
		{name: "multi_logloss", kind: Classes, high: inf, eval: meanOfClasses(logLossOfClass),
			influence: influenceOfClasses(logLossOfClass),
			aliases:   "multi_log_loss multiclass softmax multiclassova multiclass_ova ova ovr mlogloss neg_log_loss"},
		{name: "multi_error", kind: Classes, high: 1, eval: meanOfClasses(errorOfClass),
			influence: influenceOfClasses(errorOfClass),
			aliases:   "merror multi_error_rate"},
	}
}
