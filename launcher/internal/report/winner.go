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

// readWinner sets s.winner once the sweep has the conclusion c: with its parameters, and what the registry has of its
// version. If the version is missing or damaged, a note says so, and the rest is shown.
func (s *SweepReader) readWinner(ctx context.Context, c *sweep.Conclusion) error {
	if c == nil || s.winner != nil {
		return nil
	}
	w := &page.Winner{Conclusion: c}
	if s.registry != nil {
		// 0 with an error: then the page does not say which version is live now.
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

// readVersion adds to w what the registry has of the winner's version: its features, and its test rows in bins.
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

// readFeatures reads how important a version's features are for its model, and how they move the predictions of some
// rows. Features have their names in the dataset, if that is known; model.txt has names that LightGBM can read. why
// says how to see the effects, if they take too much here.
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

// importances returns the splits and the share of the gain of each of the model's features, the largest gain first. The
// names are those of the dataset d, as far as it has any.
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
