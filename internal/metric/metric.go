// Package metric evaluates predictions against labels. Metrics decide when a training stops, which trial wins and
// whether a model is promoted, and appear in reports. All metrics are weighted. They depend only on the set of rows:
// equal predictions are treated alike, and the order of rows affects at most the last bits of a sum.
//
// A Metric is found by name (Lookup). An Evaluator reuses its working memory, so that a metric can be evaluated after
// every tree: ranking a million rows costs one radix sort and no allocation, and metrics evaluated on the same
// predictions share it.
package metric

import (
	"fmt"
	"math"

	"coppice/internal/expression"
	"coppice/internal/problem"
)

// Kind is the kind of a metric's labels and predictions.
type Kind int

// The kinds of metrics.
const (
	Binary     Kind = iota // labels 0 and 1, predictions are probabilities of 1
	Regression             // labels and predictions are any finite numbers
	Classes                // labels are classes 0, 1 ..., predictions probabilities of each, row by row
	Ranking                // labels are grades 0 to 30, predictions any finite numbers that order the rows of a group
	OfRows                 // labels and predictions as for Binary or Regression; an expression gives each row a value
)

// String returns the kind's name.
func (k Kind) String() string {
	switch k {
	case Binary:
		return "binary"
	case Regression:
		return "regression"
	case Classes:
		return "several classes"
	case Ranking:
		return "ranking"
	case OfRows:
		return "labels and predictions that are one number"
	}
	return "unknown"
}

// Input is what is evaluated. Every slice is [rows], except that Pred is [rows x classes] for metrics of several
// classes. An Evaluator never writes to the slices.
type Input struct {
	Label  []float32 // see Kind
	Weight []float32 // finite, not negative, not all 0; nil means 1 for every row
	Pred   []float64 // see Kind
	Group  []uint64  // the group of each row, for ranking metrics; rows of a group need not be neighbours

	Values map[string][]float32 // columns of the dataset by name, for metrics that are an expression (value)
}

// Metric is a way to evaluate predictions. Lookup returns one. See definition for the fields that are not exported.
type Metric struct {
	Name     string  // canonical, such as precision@1%
	Maximize bool    // whether a higher Score is better
	Aim      float64 // the best value, if it is neither the highest nor the lowest; else 0
	Kind     Kind
	RankOnly bool // any increasing function of the predictions (raw scores, for instance) gives the same value

	k         cutoff
	low, high float64 // the least and the greatest value that it can have
	eval      func(*Evaluator, Metric) (float64, error)
	influence influence

	group         func(g *groups, places int) float64
	loss          func(p, l float64) float64
	labels, preds domain
	rows          *expression.PerRow // the expression of a value metric; nil for all others
}

// Eval evaluates once. For repeated use, keep an Evaluator.
func (m Metric) Eval(in Input) (float64, error) {
	var e Evaluator
	e.Reset(in)
	return e.Eval(m)
}

// Evaluator evaluates several metrics on the same rows, or new predictions again and again. It reuses its memory: at
// most 24 bytes per row, and as much again for ranking metrics. The zero value is ready for Reset. It is not safe for
// concurrent use.
type Evaluator struct {
	in     Input
	binary summary // of in; valid if sound
	sound  bool    // in was checked by checkBinary
	rank   ranking
	ranked bool // rank has the rows of in, sorted
	groups groups
}

// Reset sets the rows to evaluate. The slices must not change until the next Reset.
func (e *Evaluator) Reset(in Input) {
	e.in = in
	e.sound = false
	e.ranked = false
}

// Eval evaluates a metric on the rows of the last Reset. If the metric is not defined for these rows, the error is an
// *InputError that says why.
func (e *Evaluator) Eval(m Metric) (float64, error) {
	if m.eval == nil {
		return 0, unknownMetric(m.Name)
	}
	v, err := m.eval(e, m)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fault(m, -1, "the value is too large for a float64")
	}
	return v, nil
}

// nearest is the least value that Score distinguishes from 0, whose logarithm would be infinite.
const nearest = 1e-15

// Score is what values of the metric are compared by. It is the value itself or, if the best value is in between (Aim),
// the distance from Aim on a logarithmic scale, so that half and twice as much are equally bad.
func (m Metric) Score(value float64) float64 {
	if m.Aim == 0 {
		return value
	}
	return math.Abs(math.Log(max(value, nearest) / m.Aim))
}

// RatedBy says in words what Score returns.
func (m Metric) RatedBy() string {
	if m.Aim == 0 {
		return m.Name
	}
	return "distance of " + m.Name + " from 1"
}

// CheckValue returns an error if the metric cannot have this value.
func (m Metric) CheckValue(value float64) error {
	if value >= m.low && value <= m.high {
		return nil
	}

	where := fmt.Sprintf("between %v and %v", m.low, m.high)
	switch {
	case math.IsInf(m.high, 1):
		where = fmt.Sprintf("at least %v", m.low)
	case math.IsInf(m.low, -1):
		where = fmt.Sprintf("at most %v", m.high)
	}
	return problem.New(problem.Input, "%v is not a possible value of %s, which is %s", value, m.Name, where)
}

// sum adds up numbers. A second number, low, collects the rounding errors (Neumaier 1974), so that the sum of ten
// million terms loses no digits.
type sum struct{ high, low float64 }

// add adds x to high, and to low what rounding has lost, which are digits of the smaller of the two terms.
func (s *sum) add(x float64) {
	x = float64(x) // round a product first, where the machine could fuse it with the addition
	t := s.high + x
	if math.Abs(s.high) >= math.Abs(x) {
		s.low += (s.high - t) + x
	} else {
		s.low += (x - t) + s.high
	}
	s.high = t
}

func (s *sum) value() float64 { return s.high + s.low }
