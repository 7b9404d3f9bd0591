package report

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// readWinner reads how the sweep ended, once it has: from its conclusion, and from the registry's version. What cannot
// be read is said on the page, and no reason not to show the rest.
func (s *Sweep) readWinner(ctx context.Context, c *sweep.Conclusion) error {
	if c == nil || s.winner != nil {
		return nil
	}
	w := &page.Winner{Outcome: string(c.Outcome), Reason: c.Reason, Trial: c.Trial, Model: c.Model, Version: c.Version,
		At: c.At, Measures: measures(c)}
	if k := c.Calibration; k != nil {
		w.Method, w.Because = k.Method, k.Reason
	}
	if v := c.Verified; v != nil {
		w.Verified = fmt.Sprintf("Verified: the independent scorer %s predicts the same on %s raw rows, to %.2g.",
			v.Scorer, humanize.Comma(int64(v.Rows)), v.MaxDiff)
	}
	if g := c.Gate; g != nil {
		w.Gate = &page.Gate{Passed: g.Passed, Promoted: g.Promoted, Metric: g.Metric, Reason: g.Reason,
			Champion: g.Champion, Old: g.Old, New: g.New, Rows: g.Rows}
		w.Gate.Checks = gateChecks(g)
	}
	for _, r := range c.Rejected {
		w.Rejected = append(w.Rejected, page.Pair{Name: strconv.Itoa(r.Trial), Text: r.Reason})
	}

	if c.Outcome == sweep.OutcomeWinner && c.Trial >= 0 && c.Trial < len(s.follow.Plan.Trials) {
		w.Params = unusual(s.follow.Plan.Trials[c.Trial].Params)
	}
	if c.Version > 0 && s.registry != nil {
		switch err := s.readVersion(ctx, w); {
		case err != nil && (isAbsent(err) || isDamage(err)):
			s.notes = append(s.notes, "The winner's model cannot be read: "+err.Error())
		case err != nil:
			return err
		}
	}
	s.winner = w
	return nil
}

// gateChecks are what the gate looked at.
func gateChecks(g *sweep.GateDecision) []page.Check {
	var checks []page.Check
	for _, k := range g.Checks {
		checks = append(checks, page.Check{Name: k.Name, Reason: k.Reason, Passed: k.Passed, Value: k.Value, Low: k.Low, High: k.High,
			Rows: k.Rows, New: k.New, Old: k.Old})
	}
	return checks
}

// measures are the winner's metrics, by name.
func measures(c *sweep.Conclusion) []page.Measure {
	var before, after map[string]float64
	if c.Calibration != nil {
		before, after = c.Calibration.Before, c.Calibration.After
	}
	names := map[string]bool{}
	for _, m := range []map[string]float64{c.Valid, c.Test, before, after} {
		for name := range m {
			names[name] = true
		}
	}
	value := func(m map[string]float64, name string) float64 {
		if v, ok := m[name]; ok {
			return v
		}
		return math.NaN()
	}

	var out []page.Measure
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, page.Measure{Name: name, Valid: value(c.Valid, name), Before: value(before, name),
			After: value(after, name), Test: value(c.Test, name)})
	}
	return out
}

// unusual are the parameters that a trial did not leave at their defaults.
func unusual(p map[string]any) []page.Pair {
	usual := gbt.Defaults().Map()
	var out []page.Pair
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if text := fmt.Sprint(p[name]); text != fmt.Sprint(usual[name]) {
			out = append(out, page.Pair{Name: name, Text: text})
		}
	}
	return out
}

// readVersion reads what the registry has of the winner: its trees, and its test rows in bins.
func (s *Sweep) readVersion(ctx context.Context, w *page.Winner) error {
	v, err := s.registry.Get(ctx, w.Model, strconv.Itoa(w.Version))
	if err != nil {
		return err
	}
	m, err := readModel(ctx, s.registry, v)
	if err != nil {
		return err
	}
	w.Features = importances(m)
	w.Tested, err = readTested(ctx, s.registry, v)
	return err
}

// readTested reads a version's test rows; nil where it has none.
func readTested(ctx context.Context, reg *registry.Registry, v registry.Version) (*page.Tested, error) {
	f, ok := v.File(scorer.FileTested)
	if !ok {
		return nil, nil
	}
	if f.Bytes > scorer.MaxTested {
		return nil, registry.Damaged(f.Object, fmt.Errorf("it has %d bytes", f.Bytes))
	}
	text, err := reg.ReadFile(ctx, v, scorer.FileTested)
	if err != nil {
		return nil, err
	}
	t, err := scorer.DecodeTested(text)
	if err != nil {
		return nil, registry.Damaged(f.Object, err)
	}

	out := &page.Tested{Calibrated: t.Calibrated, Bins: t.Bins, By: t.By}
	for _, s := range t.Segments {
		out.Segments = append(out.Segments, page.Segment{Name: s.Name, Of: s.Of, Bin: s.Bin})
	}
	if r := t.RunnerUp; r != nil {
		out.RunnerUp = &page.Rival{Name: fmt.Sprintf("runner-up, trial %d", r.Trial), Metric: r.Metric, Rows: r.Rows,
			New: r.New, Old: r.Old, Gain: r.Gain, Low: r.Low, High: r.High}
	}
	return out, nil
}

func readModel(ctx context.Context, reg *registry.Registry, v registry.Version) (*gbt.Model, error) {
	text, err := reg.ReadFile(ctx, v, scorer.FileModel)
	if err != nil {
		return nil, err
	}
	m, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil {
		return nil, registry.Damaged(scorer.FileModel, err)
	}
	return m, nil
}

// importances are those of a model's features, the most important first.
func importances(m *gbt.Model) []page.Importance {
	splits, gains := m.Importance()
	sum := 0.0
	for _, g := range gains {
		sum += g
	}
	out := make([]page.Importance, len(m.FeatureNames))
	for i, name := range m.FeatureNames {
		out[i] = page.Importance{Feature: name, Splits: splits[i]}
		if sum > 0 {
			out[i].Gain = gains[i] / sum
		}
	}
	slices.SortStableFunc(out, func(a, b page.Importance) int {
		return cmp.Or(cmp.Compare(b.Gain, a.Gain), cmp.Compare(b.Splits, a.Splits), cmp.Compare(a.Feature, b.Feature))
	})
	return out
}
