package explain

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sort"

	"coppice/internal/dataset"
	"coppice/internal/page"
)

// Effects returns up to most features, those with the largest mean |SHAP value| on the rows first. Each has the SHAP
// value and the rank of the feature's value in every row. Features without any effect are left out. The model must have
// one output, and q.Metrics is not used.
func Effects(q Request, most int) ([]page.Effect, error) {
	if q.Threads == 0 {
		q.Threads = runtime.GOMAXPROCS(0)
	}
	r := &run{Request: q}
	if err := r.predict(); err != nil {
		return nil, err
	}
	n, f := len(r.in.Label), len(q.Scorer.Encoding.Features)
	phi := make([]float64, n*(f+1))
	if err := q.Scorer.Model.Contributions(r.values, phi, q.Threads); err != nil {
		return nil, err
	}

	var out []page.Effect
	mean := map[string]float64{}
	for i := range q.Scorer.Encoding.Features {
		feature := &q.Scorer.Encoding.Features[i]
		e := page.Effect{Feature: feature.Name, Shap: column(phi, i, f+1)}
		for _, v := range e.Shap {
			mean[e.Feature] += math.Abs(v) / float64(n)
		}
		if mean[e.Feature] == 0 {
			continue
		}
		e.Rank = rankValues(column(r.values, i, f), feature.Kind == dataset.Categorical)
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b page.Effect) int { return cmp.Compare(mean[b.Feature], mean[a.Feature]) })
	return out[:min(most, len(out))], nil
}

// column returns column i of numbers that are [rows x width].
func column(of []float64, i, width int) []float64 {
	out := make([]float64, 0, len(of)/width)
	for ; i < len(of); i += width {
		out = append(out, of[i])
	}
	return out
}

// rankValues returns the rank of each value from 0 to 1; equal values share the middle of their ranks. A missing value
// (NaN) has none, which is NaN, and neither has any value of a categorical feature.
func rankValues(values []float64, categorical bool) []float64 {
	var sorted []float64
	for _, v := range values {
		if !categorical && !math.IsNaN(v) {
			sorted = append(sorted, v)
		}
	}
	slices.Sort(sorted)

	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = math.NaN()
		if !categorical && !math.IsNaN(v) {
			// Values equal to v have the places from first up to after, without after: the mean of these places, from
			// 0 for the first value to 1 for the last.
			first := sort.SearchFloat64s(sorted, v)
			after := sort.Search(len(sorted), func(k int) bool { return sorted[k] > v })
			out[i] = float64(first+after-1) / 2 / max(1, float64(len(sorted)-1))
		}
	}
	return out
}
