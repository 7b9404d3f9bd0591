package plan

import (
	"fmt"

	"coppice/dataset"
	"coppice/gbt"
	"coppice/sweep"
)

func columnNames(m *dataset.Manifest) []string {
	names := make([]string, len(m.Features))
	for i := range m.Features {
		names[i] = m.Features[i].Name
	}
	return names
}

// checkColumns refuses a column that the dataset does not have, wherever the spec would ignore it. Left to the draws, a
// misspelt choice would only make trials fewer.
func checkColumns(s *sweep.Spec, m *dataset.Manifest) error {
	columns := columnNames(m)
	for _, g := range ignored(s) {
		p, err := gbt.ParseParams(map[string]any{g.name: g.value})
		if err == nil {
			_, err = p.ForColumns(columns)
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

// ignored are the lists of columns in the spec.
func ignored(s *sweep.Spec) []given {
	var all []given
	add := func(place, name string, values ...any) {
		if gbt.CanonicalName(name) == gbt.IgnoreColumn {
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
