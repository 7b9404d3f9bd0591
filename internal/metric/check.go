package metric

import (
	"fmt"

	"coppice/internal/problem"
)

// summary is the result of one pass over binary rows.
type summary struct {
	pos, neg  float64 // total weight of rows with label 1 and with label 0
	low, high float64 // the least and the greatest prediction
}

// total is the weight of all rows.
func (s summary) total() float64 { return s.pos + s.neg }

// checkLengths returns an error unless there is at least one row, there are no more than can be ranked, and every slice
// of the input that is used has an element for each row.
func (e *Evaluator) checkLengths(m Metric) error {
	n, in := len(e.in.Pred), e.in
	switch {
	case len(in.Label) != n:
		return fault(m, -1, "the columns have different lengths: %d labels for %d predictions", len(in.Label), n)
	case in.Weight != nil && len(in.Weight) != n:
		return fault(m, -1, "the columns have different lengths: %d weights for %d predictions", len(in.Weight), n)
	case m.Kind == Ranking && in.Group != nil && len(in.Group) != n:
		return fault(m, -1, "the columns have different lengths: %d groups for %d predictions", len(in.Group), n)
	case n == 0:
		return fault(m, -1, "there are no rows")
	case uint64(n) > maxRows:
		return fault(m, -1, "there are %d rows, more than the %d that can be ranked", n, uint64(maxRows))
	}

	return nil
}

// checkBinary returns an error unless the rows are valid for binary metrics: labels 0 and 1, finite predictions, and
// finite weights of 0 or more, not all 0. It sets e.binary. After a Reset, only the first call does any work.
func (e *Evaluator) checkBinary(m Metric) error {
	if e.sound {
		return nil
	}
	if err := e.checkLengths(m); err != nil {
		return err
	}

	s, row := summarize(e.in)
	if row < len(e.in.Pred) {
		return e.explain(m, row)
	}
	if !(s.total() > 0) {
		return fault(m, -1, "all weights are 0")
	}

	e.binary = s
	e.sound = true
	return nil
}

// summarize returns the summary of binary rows and the number of rows. If a row is invalid, it returns that row's index
// instead, and explain says what is wrong with it: this loop runs after every tree, and must be fast. There must be at
// least one row.
func summarize(in Input) (summary, int) {
	s := summary{low: in.Pred[0], high: in.Pred[0]}
	label := in.Label[:len(in.Pred)]
	var pos, neg sum

	// Without weights, labels are counted, which is exact.
	if in.Weight == nil {
		ones := 0.0
		for i, p := range in.Pred {
			l := float64(label[i])
			if p-p != 0 || l*(1-l) != 0 { // p is NaN or infinite, or l is neither 0 nor 1
				return s, i
			}
			ones += l
			if p < s.low {
				s.low = p
			} else if p > s.high {
				s.high = p
			}
		}
		s.pos = ones
		s.neg = float64(len(label)) - ones
		return s, len(label)
	}

	weight := in.Weight[:len(in.Pred)]
	for i, p := range in.Pred {
		l, w := float64(label[i]), float64(weight[i])
		if p-p != 0 || l*(1-l) != 0 || w < 0 || w-w != 0 {
			return s, i
		}
		pos.add(w * l)
		neg.add(w * (1 - l))
		if p < s.low {
			s.low = p
		} else if p > s.high {
			s.high = p
		}
	}

	s.pos = pos.value()
	s.neg = neg.value()
	return s, len(label)
}

// explain returns the error for a row that summarize has found to be invalid.
func (e *Evaluator) explain(m Metric, row int) error {
	if p := e.in.Pred[row]; p-p != 0 {
		return fault(m, row, "the prediction cannot be used: %v is not a finite number", p)
	}
	if l := e.in.Label[row]; l != 0 && l != 1 {
		return fault(m, row, "the label cannot be used: %v, and %s is for labels 0 and 1", l, m.Name)
	}
	return fault(m, row, "the weight cannot be used: %v; use finite weights of 0 or more", e.in.Weight[row])
}

// checkProbabilities is checkBinary, and also returns an error if a prediction is not between 0 and 1.
func (e *Evaluator) checkProbabilities(m Metric) error {
	if err := e.checkBinary(m); err != nil {
		return err
	}
	if e.binary.low >= 0 && e.binary.high <= 1 {
		return nil
	}
	for i, p := range e.in.Pred {
		if !(p >= 0 && p <= 1) {
			return fault(m, i, "the prediction cannot be used: %v is not a probability; raw scores need the sigmoid "+
				"first", p)
		}
	}
	return nil
}

// checkRanked is checkBinary, and also returns an error if a label that the metric needs, 1 or 0, does not occur in a
// row whose weight is above 0. Without an error it sorts the rows by prediction into e.rank.
func (e *Evaluator) checkRanked(m Metric, needsPositive, needsNegative bool) error {
	if err := e.checkBinary(m); err != nil {
		return err
	}
	labels := "all labels"
	if e.in.Weight != nil {
		labels = "all labels with a weight above 0"
	}
	if needsPositive && e.binary.pos == 0 {
		return fault(m, -1, "%s are the same: none is 1, so %s is not defined", labels, m.Name)
	}
	if needsNegative && e.binary.neg == 0 {
		return fault(m, -1, "%s are the same: none is 0, so %s is not defined", labels, m.Name)
	}
	e.rankRows()
	return nil
}

// rankRows sorts the rows, which are valid, by prediction into e.rank, unless that has been done since the last Reset.
func (e *Evaluator) rankRows() {
	if !e.ranked {
		e.rank.fill(e.in, e.binary.low, e.binary.high)
		e.rank.sortKeys()
		e.ranked = true
	}
}

// checkNumbers returns an error unless the rows are valid for regression and ranking metrics: finite labels and
// predictions, and finite weights of 0 or more, not all 0. It returns the total weight.
func (e *Evaluator) checkNumbers(m Metric) (total float64, err error) {
	if err := e.checkLengths(m); err != nil {
		return 0, err
	}

	var weight sum
	for i, p := range e.in.Pred {
		if p-p != 0 {
			return 0, fault(m, i, "the prediction cannot be used: %v is not a finite number", p)
		}
		if l := e.in.Label[i]; l-l != 0 {
			return 0, fault(m, i, "the label cannot be used: %v is not a finite number", l)
		}
		if e.in.Weight != nil {
			w := float64(e.in.Weight[i])
			if w < 0 || w-w != 0 {
				return 0, fault(m, i, "the weight cannot be used: %v; use finite weights of 0 or more", w)
			}
			weight.add(w)
		}
	}

	if e.in.Weight == nil {
		return float64(len(e.in.Pred)), nil
	}
	if weight.value() == 0 {
		return 0, fault(m, -1, "all weights are 0")
	}
	return weight.value(), nil
}

// InputError says that a metric is not defined for an Input. Reports then leave the metric out.
type InputError struct{ msg string }

// Error returns "METRIC: row N: what is wrong".
func (e *InputError) Error() string { return e.msg }

// Kind says that the input is at fault.
func (*InputError) Kind() problem.Kind { return problem.Input }

// fault returns an *InputError about a row or, if row is -1, about all rows.
func fault(m Metric, row int, format string, args ...any) error {
	where := m.Name + ": "
	if row >= 0 {
		where += fmt.Sprintf("row %d: ", row)
	}
	return &InputError{where + fmt.Sprintf(format, args...)}
}
