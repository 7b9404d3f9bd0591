package report

import (
	"context"
	"strings"

	"coppice/page"
	"coppice/registry"
)

// Model reads what the registry has of a model. What is damaged is said on the page, beside the rest.
func Model(ctx context.Context, reg *registry.Registry, name string) (*page.Model, error) {
	versions, err := reg.Versions(ctx, name)
	if err != nil && len(versions) == 0 {
		return nil, err
	}
	m := &page.Model{Name: name}
	note(m, err)

	aliases, err := reg.Aliases(ctx, name)
	note(m, err)
	tags := map[int][]string{}
	for _, a := range aliases {
		tags[a.Version] = append(tags[a.Version], a.Name)
		if a.Name == registry.Champion {
			m.Champion = a.Version
		}
	}
	events, err := reg.History(ctx, name)
	note(m, err)
	for _, e := range events {
		if e.Kind != registry.Registered {
			m.Moves = append(m.Moves, page.Move{Alias: e.Alias, Kind: string(e.Kind), From: e.From, To: e.To, At: e.At, By: e.By, Why: e.Why})
		}
	}

	var shown registry.Version // whose features: the champion's, else the newest's
	for _, v := range versions {
		m.Versions = append(m.Versions, page.Version{Number: v.Number, At: v.Info.At, By: v.Info.By, Why: v.Info.Why, Sweep: v.Info.Labels["sweep"], Trial: v.Info.Labels["trial"],
			Dataset: v.Info.Labels["dataset"], Tag: strings.Join(tags[v.Number], ", "), Metrics: v.Info.Metrics})
		if shown.Number != m.Champion || m.Champion == 0 {
			shown = v
		}
	}
	model, err := readModel(ctx, reg, shown)
	switch {
	case err != nil && (isAbsent(err) || isDamage(err)):
		note(m, err)
	case err != nil:
		return nil, err
	default:
		m.Features, m.Of = importances(model), shown.Number
	}
	return m, nil
}

// note says on the page what could not be read.
func note(m *page.Model, err error) {
	if err != nil {
		m.Notes = append(m.Notes, err.Error())
	}
}
