package fit

import (
	"math"

	"coppice/internal/metric"
)

const (
	// errorRows bounds the rows of which a standard error is computed: resampling many millions would take longer than
	// a trial.
	errorRows = 500_000
	// resamples of a metric whose error has no formula: enough for one or two digits.
	resamples = 100
)

// standardError estimates that of a metric on all rows from at most so many of them, evenly spaced: it shrinks with the
// root of their number. Rows of groups are all used, since a group must stay whole. It is NaN if the metric has none.
func standardError(m metric.Metric, in metric.Input, seed uint64, most int) float64 {
	n := len(in.Label)
	step := 1
	if in.Group == nil && n > most {
		step = (n + most - 1) / most
	}

	some := metric.Input{Label: everyNth(in.Label, step), Weight: everyNth(in.Weight, step),
		Pred: everyNth(in.Pred, step), Group: in.Group}
	i, err := m.Interval(some, metric.Confidence{Seed: seed, Samples: resamples})
	if err != nil {
		return math.NaN()
	}
	return i.Error * math.Sqrt(float64(len(some.Label))/float64(n))
}

// everyNth returns the values 0, n, 2n and so on; nil of nil.
func everyNth[T any](all []T, n int) []T {
	if n == 1 || all == nil {
		return all
	}
	some := make([]T, 0, (len(all)+n-1)/n)
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}
