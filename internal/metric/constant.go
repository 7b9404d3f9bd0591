package metric

import (
	"math"
	"slices"
)

// OfConstant returns the value of a metric, by its canonical name, if the predictions for every row are the shares of
// the classes. For labels 0 and 1, shares are those of both. Of classes with equal shares, the first one counts as the
// predicted one, where multi_error itself would count an error for both. ok is false if this function does not know the
// metric's value, if a share is not between 0 and 1, or if one class has all rows, where the value says nothing.
func OfConstant(name string, shares []float64) (value float64, ok bool) {
	entropy, squares := 0.0, 0.0 // of the shares; the sum of their squares
	for _, p := range shares {
		if !(p >= 0 && p <= 1) {
			return 0, false
		}
		if p > 0 {
			entropy -= p * math.Log(p)
		}
		squares += p * p
	}
	if entropy == 0 { // one class has all rows
		return 0, false
	}

	// Metrics of any number of classes.
	switch name {
	case "log_loss", "multi_logloss":
		return entropy, true
	case "multi_error", "error_rate":
		return 1 - slices.Max(shares), true
	case "accuracy":
		return slices.Max(shares), true
	case "normalized_entropy":
		return 1, true
	case "relative_information_gain":
		return 0, true
	}

	// Metrics of labels 0 and 1.
	if len(shares) != 2 {
		return 0, false
	}
	switch name {
	case "brier": // p (1-p), the variance of the labels, is half of 1 - p² - (1-p)²
		return (1 - squares) / 2, true
	case "auc": // all pairs are ties
		return 0.5, true
	case "average_precision": // the precision of taking all rows
		return shares[1], true
	}
	return 0, false
}

// Shares returns the share of the rows, by weight, of each of n classes, which are labels from 0.
func (in Input) Shares(n int) []float64 {
	shares, sum := make([]float64, n), 0.0
	for i, l := range in.Label {
		shares[int(l)] += in.weight(i)
		sum += in.weight(i)
	}
	for k := range shares {
		shares[k] /= sum
	}
	return shares
}

// OfOne returns, by name, the values of metrics if all rows have the same prediction, the mean label. For a ranking,
// any one prediction leaves a group's rows in random order. in.Pred is ignored. Left out are unknown names, metrics
// that are not defined for these rows, and r2: it is 0 by its definition, up to rounding, which says nothing that r2
// itself does not.
func OfOne(in Input, names ...string) map[string]float64 {
	// The prediction.
	in.Pred = make([]float64, len(in.Label))
	var labels, weights sum
	for i, l := range in.Label {
		labels.add(in.weight(i) * float64(l))
		weights.add(in.weight(i))
	}
	for i := range in.Pred {
		in.Pred[i] = labels.value() / weights.value()
	}

	// Its metrics.
	var e Evaluator
	e.Reset(in)
	all := map[string]float64{}
	for _, name := range names {
		m, err := Lookup(name)
		if err != nil || m.Name == "r2" {
			continue
		}
		if v, err := e.Eval(m); err == nil {
			all[name] = v
		}
	}
	return all
}

// OfConstant returns the value of a metric on the test rows for a model without features, which predicts the same for
// all rows: the recorded value (Alone) or, if there is none, that of the classes' shares. ok is false if t is nil, or
// if neither gives a value.
func (t *Tested) OfConstant(name string) (value float64, ok bool) {
	if t == nil {
		return 0, false
	}
	if v, ok := t.Alone[name]; ok {
		return v, true
	}
	return OfConstant(name, t.Shares())
}

// Without names the model without features whose value OfConstant returns, in words for people.
func (t *Tested) Without(name string) string {
	switch m, err := Lookup(name); {
	case t == nil || t.Calibrated:
		return "the base rate alone"
	case t.Classes != nil:
		return "the classes' shares alone"
	case err == nil && m.Kind == Ranking:
		return "rows in random order"
	}
	return "the mean alone"
}

// Shares returns the shares of the test rows, by weight, of each class or, for labels 0 and 1, of both labels: only
// predictions of these are calibrated. It is nil if labels are neither.
func (t *Tested) Shares() []float64 {
	var sum float64
	var shares []float64
	for _, c := range t.Classes {
		shares, sum = append(shares, c.Weight), sum+c.Weight
	}
	if t.Calibrated {
		var all Bin
		for _, b := range t.Bins {
			all = all.Plus(b)
		}
		shares, sum = []float64{all.Weight - all.Positive, all.Positive}, all.Weight
	}
	for i := range shares {
		shares[i] /= sum
	}
	return shares
}
