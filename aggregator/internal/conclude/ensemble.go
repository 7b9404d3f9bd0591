package conclude

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

const (
	// ensembleRanks is how many of the best trials an ensemble may have: with more it was no better (docs/search.md).
	ensembleRanks = 10
	// ensembleRows bounds the calib rows on which it is compared with the winner: some metrics are resampled.
	ensembleRows = 200_000
)

// ensemble merges the winner and the next best trials, as many as the plan's cost allows, and returns the merged model
// if it is better than the winner on calib beyond chance: rows that neither trained nor chose any of them. Otherwise it
// returns the winner, and the report says why. For a plan without an ensemble the report is nil. An error is one of
// storage, or a *dataError.
func (a *Aggregator) ensemble(ctx context.Context, k *known, b sweep.Board, e *sweep.Ending, w *winner, h *holdout,
	s search.Selection) (*winner, *sweep.EnsembleModel, error) {
	if k.plan.Spec.Ensemble == nil {
		return w, nil, nil
	}
	report := &sweep.EnsembleModel{Trials: []int{w.result.Trial}}
	refuse := func(format string, args ...any) (*winner, *sweep.EnsembleModel, error) {
		report.Reason = fmt.Sprintf(format, args...) + ", so the winner is registered alone"
		return w, report, nil
	}

	most := int(k.plan.Spec.Ensemble.Cost * float64(len(w.trees.Trees)))
	merged := &winner{result: w.result, members: []*sweep.Result{w.result}, calib: slices.Clone(w.calib),
		testRaw: slices.Clone(w.testRaw)}
	models, trees := []*gbt.Model{w.trees}, len(w.trees.Trees)
	for _, trial := range s.Candidates[1:min(ensembleRanks, len(s.Candidates))] {
		r := resultOf(b, trial)
		if trees+r.Trees > most {
			continue
		}
		m, unfit, err := a.readVerified(ctx, k, r, e, h)
		if err != nil {
			return nil, nil, err
		}
		if unfit == nil && trees+len(m.trees.Trees) > most {
			unfit = fmt.Errorf("its model has %d trees, its result says %d", len(m.trees.Trees), r.Trees)
		}
		if unfit != nil {
			a.Log.Warn("trial left out of the ensemble", "sweep", k.plan.Sweep, "trial", trial, "reason", unfit.Error())
			continue
		}
		trees += len(m.trees.Trees)
		models, merged.members = append(models, m.trees), append(merged.members, r)
		report.Trials = append(report.Trials, trial)
		add(merged.calib, m.calib)
		add(merged.testRaw, m.testRaw)
	}
	if len(models) == 1 {
		return refuse("none of the next best trials could be merged with the winner within %d trees", most)
	}
	report.Trees = trees
	divide(merged.calib, len(models))
	divide(merged.testRaw, len(models))

	var err error
	if merged.trees, err = gbt.Merge(models); err == nil {
		var text bytes.Buffer
		if _, err = merged.trees.WriteTo(&text); err == nil {
			merged.model = text.Bytes()
			err = merged.verify(h)
		}
	}
	if err != nil {
		return refuse("trials %v cannot be merged: %v", report.Trials, err)
	}

	m, c, err := merged.beside(w, k.plan, h)
	if err != nil {
		return refuse("trials %v merged cannot be compared with the winner on calib: %v", report.Trials, err)
	}
	report.Gain, report.Low, report.High, report.Rows = c.Gain, c.Low, c.High, c.Rows
	by := fmt.Sprintf("%.3g in %s on %d calib rows (95 %% interval %.3g to %.3g)", c.Gain, m, c.Rows, c.Low, c.High)
	if !c.Better(0) {
		return refuse("the mean of trials %v is not better beyond chance: it gains %s", report.Trials, by)
	}
	report.Registered = true
	report.Reason = fmt.Sprintf("registered as an ensemble, the mean of trials %v with %d trees: it gains %s",
		report.Trials, trees, by)
	return merged, report, nil
}

// compared is a comparison and how many rows it is of.
type compared struct {
	metric.Comparison
	Rows int
}

// beside compares the merged model with the winner on calib, evenly spaced rows of a large one.
func (w *winner) beside(alone *winner, p *sweep.Plan, h *holdout) (string, compared, error) {
	m, err := metric.Lookup(p.Spec.Metric)
	if err != nil {
		return "", compared{}, err
	}
	t, fresh, old := h.calib, predictions(w.trees, nil, slices.Clone(w.calib)),
		predictions(w.trees, nil, slices.Clone(alone.calib))
	if n := len(t.Label); n > ensembleRows && t.Group == nil { // a group stays whole
		var rows []uint32
		for i := 0; i < n; i += (n + ensembleRows - 1) / ensembleRows {
			rows = append(rows, uint32(i))
		}
		t, fresh, old = t.Pick(rows), dataset.Pick(fresh, rows), dataset.Pick(old, rows)
	}
	c, err := m.Compare(metric.Input{Label: t.Label, Weight: t.Weight, Group: t.Group, Pred: fresh}, old,
		metric.Confidence{Seed: p.Spec.Seed})
	if err == nil && !(sweep.Finite(c.Gain) && sweep.Finite(c.Low) && sweep.Finite(c.High)) {
		err = fmt.Errorf("the gain in %s is %v, from %v to %v", m.Name, c.Gain, c.Low, c.High)
	}
	return m.Name, compared{c, len(t.Label)}, err
}

// add and divide make the mean of the members' scores, in their order, as launcher registry reproduce does.
func add(sum, x []float64) {
	for i, v := range x {
		sum[i] += v
	}
}

func divide(sum []float64, n int) {
	for i := range sum {
		sum[i] /= float64(n)
	}
}
