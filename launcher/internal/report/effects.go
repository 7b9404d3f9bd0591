package report

import (
	"context"
	"fmt"

	"coppice/internal/gbt"
	"coppice/internal/page"
	"coppice/internal/registry"
	"coppice/internal/scorer"
	"coppice/launcher/internal/explain"
)

// Limits on the SHAP values of a page: viewing it should not read hundreds of MB, nor take seconds of CPU time.
const (
	effectRows     = 120
	effectFeatures = 15
	effectBytes    = 64 << 20  // of levels and rows
	effectSteps    = 500 << 20 // of the walks through the trees: about a second
)

// effects computes the SHAP values of some test rows that a version keeps; nil if it keeps none, or they cannot be
// read. If they would cost too much, a note says how to see them.
func effects(ctx context.Context, reg *registry.Registry, m *page.Model, v registry.Version, model *gbt.Model) error {
	rows, ok := v.File(scorer.FileReference)
	if !ok {
		return nil
	}
	levels, _ := v.File(scorer.FileLevels)
	if rows.Bytes+levels.Bytes > effectBytes || effectCost(model) > effectSteps {
		m.Notes = append(m.Notes,
			fmt.Sprintf("Contributions are not drawn, because version %d is large. launcher registry explain %s@%d "+
				"shows them.", v.Number, v.Model, v.Number))
		return nil
	}

	data, err := reg.ReadFile(ctx, v, scorer.FileReference)
	if err != nil {
		return unread(m, err)
	}
	reference, err := scorer.DecodeReference(data)
	if err != nil {
		return unread(m, registry.Damaged(rows.Object, err))
	}
	s, err := scorer.Open(ctx, reg, v)
	if err != nil {
		return unread(m, err)
	}
	defer s.Close()
	found, err := explain.Effects(explain.Request{Scorer: s, Rows: reference, Most: effectRows}, effectFeatures)
	if err != nil {
		return unread(m, registry.Damaged(rows.Object, err))
	}
	for _, e := range found {
		m.Effects = append(m.Effects, page.Effect{Feature: e.Name, Shap: e.Shap, Rank: e.Rank})
	}
	return nil
}

// unread notes damaged or missing files; any other error is the store's.
func unread(m *page.Model, err error) error {
	if isAbsent(err) || isDamage(err) {
		note(m, err)
		return nil
	}
	return err
}

// effectCost estimates the number of steps for the SHAP values of all rows: per leaf the square of its depth, taken as
// twice the depth of a balanced tree with that many leaves.
func effectCost(model *gbt.Model) int {
	steps := 0
	for _, t := range model.Trees {
		depth := 2
		for n := t.Leaves(); n > 1; n /= 2 {
			depth += 2
		}
		steps += t.Leaves() * depth * depth
	}
	return effectRows * steps
}
