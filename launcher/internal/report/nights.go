package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"coppice/internal/nights"
	"coppice/internal/page"
	"coppice/internal/sweep"
)

// Nights adds to a model its newest nights: its sweeps, and tables that were blocked before one. It is not safe for
// concurrent use.
func (d *Datasets) Nights(ctx context.Context, m *page.Model) error {
	newest, _, err := d.index.read(ctx)
	if err != nil {
		return err
	}
	trained, names := map[string][]int{}, map[string]bool{}
	for _, s := range newest {
		if s.Model != m.Name {
			continue
		}
		names[s.dataset.Name] = true
		trained[s.Dataset] = append(trained[s.Dataset], len(m.Nights))
		m.Nights = append(m.Nights, modelNight(s))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var unread page.DatasetPage
		records, _, err := d.records(ctx, name, "", mostNights, &unread)
		if err != nil {
			return err
		}
		m.Notes = append(m.Notes, unread.Notes...)
		for _, r := range records {
			ref := name + "@" + r.Version
			for _, i := range trained[ref] {
				m.Nights[i].Found = found(r.Findings)
			}
			if r.Blocked() && trained[ref] == nil {
				m.Nights = append(m.Nights, page.ModelNight{At: r.At, Dataset: ref, Verdict: sweep.VerdictBlocked,
					Why: nights.Reason(r.Findings), Next: math.NaN(), New: math.NaN()})
			}
		}
	}
	slices.SortStableFunc(m.Nights, func(a, b page.ModelNight) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Dataset, b.Dataset))
	})
	m.Nights = m.Nights[:min(len(m.Nights), mostNights)]
	return nil
}

// modelNight is a sweep as a model's night.
func modelNight(s seen) page.ModelNight {
	n := page.ModelNight{At: s.Planned, Sweep: s.ID, Dataset: s.Dataset, Verdict: s.Verdict, Why: s.Why,
		Version: s.Version, Next: math.NaN(), New: math.NaN()}
	if s.conclusion == nil || s.conclusion.Gate == nil {
		return n
	}
	g := s.conclusion.Gate
	for _, k := range g.Checks {
		if k.Name == "tonight" && g.Champion > 0 && k.Rows > 0 { // not where they could not be compared
			n.Metric, n.Was, n.Next, n.New = g.Metric, g.Champion, k.Old, k.New
		}
	}
	return n
}

// found says in which columns there are findings that are more than notes: the dataset's page has the rest.
func found(all []nights.Finding) (texts []string) {
	for _, f := range all {
		if f.Level != nights.Note {
			texts = append(texts, fmt.Sprintf("%s: %s", f.Level, cmp.Or(f.Column, string(f.Code))))
		}
	}
	return texts
}
