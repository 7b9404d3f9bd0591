package plan

import (
	"fmt"
	"maps"
	"slices"

	"coppice/internal/dataset"
	"coppice/internal/fit"
	"coppice/internal/search"
	"coppice/internal/sweep"
)

// canonicalConditions returns a spec whose mapping conditions use the trials' spelling of values: otherwise a list
// given as text would not match.
func canonicalConditions(s *sweep.Spec, m *dataset.Manifest) *sweep.Spec {
	if !search.Conditional(s.Search) {
		return s
	}

	columns := features(m)
	out := *s
	out.Search.Random = maps.Clone(s.Search.Random)
	for name, d := range out.Search.Random {
		wanted, mapping := d.When.(map[string]any)
		if !mapping {
			continue
		}
		when := map[string]any{}
		for of, v := range wanted {
			canonical := func(v any) any {
				if full, err := fit.Complete(s.Base(), sweep.Params{of: v}, columns); err == nil {
					return full[of]
				}
				return v // a value that cannot be trained by itself is left unchanged
			}
			values, list := v.([]any)
			if !list {
				when[of] = canonical(v)
				continue
			}
			all := make([]any, len(values))
			for i, one := range values {
				all[i] = canonical(one)
			}
			when[of] = all
		}
		d.When = when
		out.Search.Random[name] = d
	}
	return &out
}

// noteConditions says how many configurations have each conditional parameter, as far as they are known.
func (p *Plan) noteConditions() {
	random := p.Spec.Search.Random
	for _, name := range slices.Sorted(maps.Keys(random)) {
		if random[name].When == nil {
			continue
		}
		has, of, open := 0, 0, false
		for _, t := range p.Trials {
			open = open || t.Open
			if t.Open || t.Refit || t.Fold > 1 {
				continue
			}
			of++
			if !slices.Contains(t.Absent, name) {
				has++
			}
		}

		if of == 0 {
			p.Notes = append(p.Notes,
				fmt.Sprintf("search.random: %s exists when %s; otherwise a configuration trains with its value in "+
					"params or its default", name, search.ConditionText(random[name].When)))
			continue
		}
		note := fmt.Sprintf("search.random: %s exists when %s: in %d of %d configurations", name,
			search.ConditionText(random[name].When), has, of)
		if open {
			note += " in the plan"
		}
		p.Notes = append(p.Notes, note+"; the others train with its value in params or its default")
	}
}
