package conclude

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// testBins is the number of bins of all test rows.
const testBins = 40

// describe returns what a version's page shows of the winner's test rows: predictions against labels in bins of the
// score (or, of several classes, by class), what one constant prediction would score, and comparisons with the
// runner-up and with the default configuration. It is for people; no decision uses it. s has the winner first.
func (a *Aggregator) describe(ctx context.Context, k *known, b sweep.Board, w *winner, h *holdout,
	s search.Selection) (t *metric.Tested, err error) {
	// Bins by the raw score, with the predictions before and after calibration.
	t = &metric.Tested{Format: 1, Calibrated: w.calibrator != nil}
	var after []float64
	if w.calibrator != nil {
		after = w.predictions(w.testRaw)
	}
	before := predictions(w.trees, nil, slices.Clone(w.testRaw))
	in := metric.Input{Label: h.test.Label, Weight: h.test.Weight, Pred: before, Values: h.test.Values}
	switch {
	case w.trees.Outputs() > 1:
		t.Classes = metric.PerClass(in, h.manifest.Label.Classes)
	case !gbt.Ranks(w.trees.Objective): // scores that order rows are no predictions of the label
		t.Bins = metric.Bins(in, w.testRaw, after, testBins)
	default:
		in.Group = h.test.Group
	}
	if w.trees.Outputs() == 1 {
		t.Alone = metric.OfOne(in, slices.Sorted(maps.Keys(w.test))...)
	}

	// Other trials, on the same rows.
	others := s.Candidates[1:] // the winner is the first
	if len(others) > 0 {
		if t.RunnerUp, err = a.compareWithRival(ctx, k, resultOf(b, others[0]), w, h); err != nil {
			return nil, err
		}
	}
	if usual := search.Default(b); usual != nil && usual.Trial != w.result.Trial {
		t.Default, err = a.compareWithRival(ctx, k, usual, w, h)
	}
	return t, err
}

// pickRows returns some rows, by their indices, of a matrix with n numbers in each row.
func pickRows(all []float64, rows []uint32, n int) []float64 {
	out := make([]float64, 0, n*len(rows))
	for _, r := range rows {
		out = append(out, all[int(r)*n:][:n]...)
	}
	return out
}

// compareWithRival compares the winner with another trial, whose result is r, on the sampled test rows, each with a
// calibrator of its own. The difference, which is often within chance, is for people to read. So the result is nil,
// without an error, if there is nothing to compare: the trial has no scores, as a fold has none, its files are damaged,
// it cannot be calibrated, or the metric is not defined on the rows. Other errors are those of the store.
func (a *Aggregator) compareWithRival(ctx context.Context, k *known, r *sweep.Result, w *winner,
	h *holdout) (*metric.Rival, error) {
	if len(h.testRows) == 0 || r.Scores == nil {
		return nil, nil
	}
	m, err := metric.Lookup(k.plan.Spec.Metric)
	if err != nil {
		return nil, &dataError{err}
	}
	other, unfit, err := readWinner(ctx, k.trials, r, h)
	if unfit != nil || err != nil {
		return nil, err
	}
	if w.calibrator != nil {
		if err := other.choose(h); err != nil {
			return nil, nil //nolint:nilerr // informational only
		}
	}

	// The sampled rows, by their indices in the part.
	parts := make([]uint32, len(h.testRows))
	for i, p := range h.testRows {
		parts[i] = uint32(p.part)
	}
	t := h.test.Pick(parts)
	n := w.trees.Outputs()
	old := pickRows(other.predictions(other.testRaw), parts, n)
	c, err := m.Compare(input(&t, pickRows(w.predictions(w.testRaw), parts, n)), old,
		metric.Confidence{Seed: k.plan.Spec.Seed})
	if errors.As(err, new(*metric.InputError)) { // the metric is not defined
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, v := range []float64{c.New, c.Old, c.Gain, c.Low, c.High} {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil
		}
	}
	return &metric.Rival{Trial: r.Trial, Metric: m.Name, Rows: len(parts), New: c.New, Old: c.Old, Gain: c.Gain,
		Low: c.Low, High: c.High, Calibrated: w.calibrator != nil}, nil
}
