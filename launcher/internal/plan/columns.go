package plan

import (
	"fmt"

	"coppice/internal/dataset"
	"coppice/internal/gbt"
	"coppice/internal/sweep"
)

// features returns the dataset's features, as far as parameters depend on them.
func features(m *dataset.Manifest) []gbt.Feature {
	all := make([]gbt.Feature, len(m.Features))
	for i := range m.Features {
		all[i] = gbt.Feature{Name: m.Features[i].Name, Categorical: m.Features[i].Kind == dataset.Categorical}
	}
	return all
}

// checkColumns rejects an unknown column wherever the spec ignores or constrains columns. Otherwise a misspelt choice
// would just reduce the number of trials.
func checkColumns(s *sweep.Spec, m *dataset.Manifest) error {
	all := features(m)
	for _, g := range naming(s) {
		p, err := gbt.ParseParams(map[string]any{g.name: g.value})
		if err == nil {
			_, err = p.ForTable(all)
		}
		if err != nil {
			return errorf("%s: dataset %s: %v", g.place, m.Name, err)
		}
	}
	return nil
}

// given is a value that the spec gives a parameter.
type given struct {
	place, name string
	value       any
}

// naming returns the values in the spec that name columns.
func naming(s *sweep.Spec) []given {
	var all []given
	add := func(place, name string, values ...any) {
		if gbt.NamesColumns(name) {
			for _, v := range values {
				all = append(all, given{place, name, v})
			}
		}
	}

	for name, value := range s.Params {
		add("params", name, value)
	}
	for i, fixed := range s.Search.Fixed {
		for name, value := range fixed {
			add(fmt.Sprintf("search.fixed[%d]", i), name, value)
		}
	}
	for name, values := range s.Search.Grid {
		add("search.grid", name, values...)
	}
	for name, d := range s.Search.Random {
		add("search.random", name, d.Extremes()...)
	}
	return all
}
