package report

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strconv"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/internal/sweep"
)

// readWinner reads how the sweep ended, once it has: from its conclusion, and from the registry's version. What cannot
// be read is said on the page, and no reason not to show the rest.
func (s *SweepReader) readWinner(ctx context.Context, c *sweep.Conclusion) error {
	if c == nil || s.winner != nil {
		return nil
	}
	w := &page.Winner{Conclusion: c}
	if s.registry != nil {
		now, _ := s.registry.Alias(ctx, s.follow.Plan.Spec.Model, registry.Champion)
		w.LiveNow = now.Version
	}
	if c.Outcome == sweep.OutcomeWinner && c.Trial >= 0 && c.Trial < len(s.follow.Plan.Trials) {
		params := s.follow.Plan.Trials[c.Trial].Params
		w.Params = page.Settings(params, gbt.Changed(params))
	}
	if c.Version > 0 && s.registry != nil {
		switch err := s.readVersion(ctx, w); {
		case aboutObjects(err):
			s.notes = append(s.notes, "The winner's model cannot be read: "+err.Error())
		case err != nil:
			return err
		}
	}
	s.winner = w
	return nil
}

// readVersion reads what the registry has of the winner: its trees, and its test rows in bins.
func (s *SweepReader) readVersion(ctx context.Context, w *page.Winner) error {
	v, err := s.registry.Get(ctx, w.Model, strconv.Itoa(w.Version))
	if err != nil {
		return err
	}
	var why string
	if w.Features, w.Effects, why, err = readFeatures(ctx, s.registry, v); why != "" {
		s.notes = append(s.notes, why)
	}
	if err != nil {
		return err
	}
	w.Tested, err = scorer.ReadTested(ctx, s.registry, v)
	return err
}

// readFeatures reads what a version's model makes of its features, by their names in its dataset if they are known:
// model.txt has names that LightGBM can read. why says where effects are too many.
func readFeatures(ctx context.Context, reg *registry.Registry, v registry.Version) (features []page.Importance,
	moves []page.Effect, why string, err error) {
	text, err := reg.ReadFile(ctx, v, scorer.FileModel)
	if err != nil {
		return nil, nil, "", err
	}
	m, err := gbt.ReadModel(bytes.NewReader(text))
	if err != nil {
		return nil, nil, "", registry.Damaged(scorer.FileModel, err)
	}
	var manifest dataset.Manifest
	err = readIfThere(ctx, reg, v, scorer.FileDataset, &manifest)
	if features = importances(m, &manifest); err != nil {
		return features, nil, "", err
	}
	moves, why, err = effects(ctx, reg, v, m)
	return features, moves, why, err
}

// importances are those of a model's features, the most important first.
func importances(m *gbt.Model, d *dataset.Manifest) []page.Importance {
	splits, gains := m.Importance()
	sum := 0.0
	for _, g := range gains {
		sum += g
	}
	out := make([]page.Importance, len(m.FeatureNames))
	for i, name := range m.FeatureNames {
		if i < len(d.Features) {
			name = d.Features[i].Name
		}
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
