package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

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

// checkClasses rejects held-out rows of a single class: hours later, nothing could be selected, calibrated or judged
// with them. Rows carved out of a split have to expect a row of each class.
func checkClasses(s *sweep.Spec, m *dataset.Manifest, h sweep.Holdout) error {
	if s.Objective != "binary" {
		return nil
	}

	for _, part := range []struct {
		sweep.Rows
		purpose string
	}{{h.Valid, "to select by"}, {h.Calib, "to calibrate by"}, {h.Test, "to judge by"}} {
		rows, ok := m.FindSplit(part.Split)
		class, share := "positive", rows.LabelMean
		if share > 0.5 {
			class, share = "negative", 1-share
		}
		count := math.Round(share * float64(rows.Rows))
		if n := len(part.Folds); !ok || count > 0 && (n == 0 || count*float64(n) >= dataset.Folds) {
			continue
		}
		few := "none"
		if count > 0 {
			few = fmt.Sprintf("only %v", count)
		}
		return errorf("%s of the %d rows of %s in dataset %s@%s is %s, so there is nothing %s; give %s more or "+
			"other rows under split: in its dataset.yaml (such as by: classes) and stage it again",
			few, rows.Rows, part.Split, m.Name, m.Version, class, part.purpose, part.Split)
	}
	return nil
}

// checkSearched rejects a space over a parameter that is accepted and changes nothing.
func checkSearched(s *sweep.Spec) error {
	var names []string
	for name := range s.Search.Random {
		names = append(names, "search.random."+name)
	}
	for name := range s.Search.Grid {
		names = append(names, "search.grid."+name)
	}
	slices.Sort(names)
	for _, path := range names {
		name := path[strings.LastIndexByte(path, '.')+1:]
		if !slices.Contains(gbt.ParamNames(), gbt.CanonicalName(name)) {
			return s.Errorf(path, "%s has no effect here, so that there is nothing to search", name)
		}
	}
	return nil
}
