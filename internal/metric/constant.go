package metric

import (
	"math"
	"slices"
)

// OfConstant is what always predicting the shares of the classes scores: of labels 0 and 1, those of both. ok is false
// of a metric for which that says nothing, and where no share is between 0 and 1.
func OfConstant(name string, shares []float64) (value float64, ok bool) {
	entropy, squares := 0.0, 0.0
	for _, p := range shares {
		if !(p >= 0 && p <= 1) {
			return 0, false
		}
		if p > 0 {
			entropy -= p * math.Log(p)
		}
		squares += p * p
	}
	if entropy == 0 {
		return 0, false
	}
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
	if len(shares) != 2 {
		return 0, false
	}
	switch name {
	case "brier":
		return (1 - squares) / 2, true
	case "auc":
		return 0.5, true
	case "average_precision":
		return shares[1], true
	}
	return 0, false
}

// Shares are those of n classes, which are labels from 0.
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

// OfOne is what the named metrics measure if all rows have one prediction: the mean label or, of groups, a score, whose
// rows then count as the average over all orders of theirs. A metric of which that says nothing is left out.
func OfOne(in Input, names ...string) map[string]float64 {
	in.Pred = make([]float64, len(in.Label))
	if in.Group == nil {
		var labels, weights sum
		for i, l := range in.Label {
			labels.add(in.weight(i) * float64(l))
			weights.add(in.weight(i))
		}
		for i := range in.Pred {
			in.Pred[i] = labels.value() / weights.value()
		}
	}
	var e Evaluator
	e.Reset(in)
	all := map[string]float64{}
	for _, name := range names {
		m, err := Lookup(name)
		if err != nil || m.Name == "r2" { // which compares with the mean label by itself
			continue
		}
		if v, err := e.Eval(m); err == nil {
			all[name] = v
		}
	}
	return all
}

// OfConstant is what a model without features scores on the test rows; ok is false where that is unknown or says
// nothing.
func (t *Tested) OfConstant(name string) (value float64, ok bool) {
	if t == nil {
		return 0, false
	}
	if v, ok := t.Alone[name]; ok {
		return v, true
	}
	return OfConstant(name, t.Shares())
}

// Without says in words what predicts without features, to be shown with its value of a metric.
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

// Shares are those of the test rows' classes, of labels 0 and 1 of both; nil of other labels.
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
