// Package metric measures predictions against labels: the numbers that stop a training, select a winner, open a gate and
// stand in a report. All of them are weighted, treat equal predictions as one step, and depend on nothing but the set of
// rows: their order matters only to the last bits of a sum.
//
// A Metric is found by name (Lookup). An Evaluator keeps its working memory between calls, so that a metric can be taken
// after every tree: ranking a million rows costs one radix sort and no allocation, and metrics that are asked about the
// same predictions share it.
package metric

import "math"

// Kind says what a metric's labels and predictions are.
type Kind int

// The kinds of metrics.
const (
	Binary     Kind = iota // labels 0 and 1, predictions are probabilities of 1
	Regression             // labels and predictions are any finite numbers
	Ranking                // labels are grades 0 to 30, predictions any finite numbers that order the rows of a group
)

// String is the kind as people write it.
func (k Kind) String() string {
	switch k {
	case Binary:
		return "binary"
	case Regression:
		return "regression"
	case Ranking:
		return "ranking"
	}
	return "unknown"
}

// Input is what is measured: one entry of every slice for each row. An Evaluator reads the slices and never writes them.
type Input struct {
	Label  []float32 // see Kind
	Weight []float32 // finite, not negative, not all 0; nil means 1 for every row
	Pred   []float64 // see Kind
	Group  []uint64  // the group of each row, for ranking metrics; rows of a group need not be neighbours
}

// Metric is one way of measuring. Lookup makes it.
type Metric struct {
	Name     string  // canonical, such as precision@1%
	Maximize bool    // whether a higher Score is better
	Aim      float64 // the best value, where neither the highest nor the lowest is; else 0
	Kind     Kind
	RankOnly bool   // whether any increasing function of the predictions (raw scores, say) gives the same value
	About    string // one line for people

	base string // the name before the @

	k    cutoff
	eval func(*Evaluator, Metric) (float64, error)
}

// Eval measures once. Whoever measures repeatedly keeps an Evaluator.
func (m Metric) Eval(in Input) (float64, error) {
	var e Evaluator
	e.Reset(in)
	return e.Eval(m)
}

// Evaluator measures the same rows with several metrics, or again and again with new predictions, in memory that it
// keeps: at most 24 bytes per row, and as much again for ranking metrics. The zero value is ready. It is not for several
// goroutines at once.
type Evaluator struct {
	in     Input
	binary summary // of in, for binary metrics
	sound  soundness
	rank   ranking
	ranked bool // rank holds the order of in
	groups groups
}

type soundness int

const (
	unchecked soundness = iota
	checked             // as binary labels
)

// Reset gives the evaluator new rows. Until the next Reset the slices must not change.
func (e *Evaluator) Reset(in Input) {
	e.in = in
	e.sound = unchecked
	e.ranked = false
}

// Eval measures the rows of the last Reset. Errors are *InputError: the rows do not have what the metric needs.
func (e *Evaluator) Eval(m Metric) (float64, error) {
	if m.eval == nil {
		return 0, unknown(m.Name)
	}
	v, err := m.eval(e, m)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, &InputError{Metric: m.Name, Row: -1, Err: ErrOverflow}
	}
	return v, nil
}

// sum adds with a second number that keeps what rounding took away (Neumaier 1974), so that ten million terms cost no
// digits.
type sum struct{ high, low float64 }

func (s *sum) add(x float64) {
	x = float64(x) // rounds a product first, where the machine could fuse it with the addition
	t := s.high + x
	if math.Abs(s.high) >= math.Abs(x) {
		s.low += (s.high - t) + x
	} else {
		s.low += (x - t) + s.high
	}
	s.high = t
}

func (s *sum) value() float64 { return s.high + s.low }
