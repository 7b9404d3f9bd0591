// Package ask reads the input of `launcher ask`: a space, the results of its trials so far, and those of earlier
// searches.
package ask

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/search"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Space is a SPACE.yaml.
type Space struct {
	Metric Metric      `yaml:"metric"`
	Seed   uint64      `yaml:"seed"`
	Search SpaceSearch `yaml:"search"`
}

// Metric is what the trials are compared by.
type Metric struct {
	Name     string `yaml:"name"`
	Maximize bool   `yaml:"maximize"`
}

// SpaceSearch is the part of a sweep's search that needs no trainer, and a method.
type SpaceSearch struct {
	Method      string                        `yaml:"method"`
	Fixed       []sweep.Params                `yaml:"fixed"`
	Grid        map[string][]any              `yaml:"grid"`
	Random      map[string]sweep.Distribution `yaml:"random"`
	Constraints []string                      `yaml:"constraints"`
}

// Limits on the input.
const (
	maxParameters = 200
	maxChoices    = 10_000
	maxTexts      = 1_000 // fixed configurations, constraints
	maxName       = 200   // bytes
	maxText       = 1_000 // bytes of a value
)

// ReadSpec reads a SPACE.yaml. An error in it has line and column.
func ReadSpec(file string) (*Space, error) {
	text, err := strictyaml.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseSpec(file, text)
}

func parseSpec(file string, text []byte) (*Space, error) {
	s := &Space{}
	doc, err := strictyaml.Decode(file, text, s)
	if err != nil {
		return nil, err
	}
	if err := s.check(doc); err != nil {
		return nil, err
	}

	// Errors that only compiling finds: in conditions, constraints, values of a fixed configuration.
	if err := search.Check(s.Ask()); err != nil {
		return nil, placed(doc, err)
	}
	return s, nil
}

// Ask returns the space as a request without results.
func (s *Space) Ask() search.Ask {
	return search.Ask{
		Search: sweep.Search{Fixed: s.Search.Fixed, Grid: s.Search.Grid, Random: s.Search.Random,
			Constraints: s.Search.Constraints},
		Method: s.Search.Method, Maximize: s.Metric.Maximize, Seed: s.Seed, Number: 1,
	}
}

// Names returns the names of all parameters, ascending.
func (s *Space) Names() []string {
	names := map[string]bool{}
	for name := range s.Search.Random {
		names[name] = true
	}

	for name := range s.Search.Grid {
		names[name] = true
	}

	for _, fixed := range s.Search.Fixed {
		for name := range fixed {
			names[name] = true
		}
	}

	return slices.Sorted(maps.Keys(names))
}

func (s *Space) check(doc *strictyaml.Document) error {
	switch {
	case s.Metric.Name == "":
		return doc.Errorf("metric", "the metric has no name: metric: {name: auc, maximize: true}")
	case !doc.Has("metric.maximize"):
		return doc.Errorf("metric", "say whether the metric is to be maximized: metric: {name: %.60q, maximize: true}",
			s.Metric.Name)
	case s.Search.Method == sweep.MethodPBT:
		return doc.Errorf("search.method",
			"method %s continues models, which takes the trainer of a sweep (launcher sweep): use one of %v",
			sweep.MethodPBT, search.Methods())
	case s.Search.Method != "" && !slices.Contains(search.Methods(), s.Search.Method):
		return doc.Errorf("search.method", "unknown method %.60q%s", s.Search.Method,
			strictyaml.Suggest(s.Search.Method, search.Methods()))
	case len(s.Search.Random) == 0 && len(s.Search.Grid) == 0 && len(s.Search.Fixed) == 0:
		return doc.Errorf("search", "there is nothing to search: give search.random, search.grid or search.fixed")
	case len(s.Names()) > maxParameters:
		return doc.Errorf("search", "%d parameters; use %d at most", len(s.Names()), maxParameters)
	case len(s.Search.Fixed) > maxTexts:
		return doc.Errorf("search.fixed", "%d fixed configurations; use %d at most", len(s.Search.Fixed), maxTexts)
	case len(s.Search.Constraints) > maxTexts:
		return doc.Errorf("search.constraints", "%d constraints; use %d at most", len(s.Search.Constraints), maxTexts)
	}

	for _, name := range append(s.Names(), s.Metric.Name) {
		if err := checkName(name); err != nil {
			return doc.Errorf("search", "%v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Search.Random)) {
		if err := s.checkRandom(doc, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Search.Grid)) {
		if len(s.Search.Grid[name]) == 0 {
			return doc.Errorf("search.grid."+name, "the grid has no value for %s", name)
		}
		if err := checkValues(doc, "search.grid."+name, s.Search.Grid[name]); err != nil {
			return err
		}
	}
	for i, fixed := range s.Search.Fixed {
		for _, name := range slices.Sorted(maps.Keys(fixed)) {
			path := fmt.Sprintf("search.fixed[%d].%s", i, name)
			if err := checkValue(fixed[name]); err != nil {
				return doc.Errorf(path, "%s is %v", name, err)
			}
		}
	}
	return nil
}

func (s *Space) checkRandom(doc *strictyaml.Document, name string) error {
	path := "search.random." + name
	if _, both := s.Search.Grid[name]; both {
		return doc.Errorf(path, "%.60q is both under grid and under random; leave it in one of them", name)
	}

	d := single(s.Search.Random[name])
	if err := d.Check(); err != nil {
		return doc.Errorf(path, "%s: %v", name, err)
	}
	s.Search.Random[name] = d
	return checkValues(doc, path+".choice", d.Choice)
}

// single turns a range with equal ends into a single value.
func single(d sweep.Distribution) sweep.Distribution {
	for _, bounds := range [][]float64{d.Uniform, d.LogUniform} {
		if len(bounds) == 2 && bounds[0] == bounds[1] {
			return sweep.Distribution{Choice: []any{bounds[0]}, When: d.When}
		}
	}
	for _, bounds := range [][]int64{d.Int, d.LogInt} {
		if len(bounds) == 2 && bounds[0] == bounds[1] {
			return sweep.Distribution{Choice: []any{float64(bounds[0])}, When: d.When}
		}
	}
	return d
}

func checkValues(doc *strictyaml.Document, path string, values []any) error {
	if len(values) > maxChoices {
		return doc.Errorf(path, "%d values; use %d at most", len(values), maxChoices)
	}
	for i, v := range values {
		if err := checkValue(v); err != nil {
			return doc.Errorf(fmt.Sprintf("%s[%d]", path, i), "it is %v", err)
		}
	}
	return nil
}

// checkName rejects names that nobody has written.
func checkName(name string) error {
	if len(name) > maxName {
		return fmt.Errorf("the name %.40q... has %d bytes; use %d at most", name, len(name), maxName)
	}
	return nil
}

// checkValue rejects what is no value of a parameter.
func checkValue(v any) error {
	switch v := v.(type) {
	case map[string]any, []any:
		return fmt.Errorf("%.40q, which is neither a number, text, true, false nor null", fmt.Sprint(v))
	case string:
		if len(v) > maxText {
			return fmt.Errorf("a text of %d bytes; use %d at most", len(v), maxText)
		}
	}
	return nil
}

// placed adds the line to an error of package search.
func placed(doc *strictyaml.Document, err error) error {
	var part *search.SpecError
	if errors.As(err, &part) {
		return doc.Errorf(part.Path(), "%v", part.Err)
	}
	return err
}
