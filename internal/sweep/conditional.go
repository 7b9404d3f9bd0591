package sweep

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/strictyaml"
)

// Shown returns the parameters to show to a person: without those that the configuration does not have.
func (t Trial) Shown() Params { return t.Params.Without(t.Absent) }

// Shown returns the parameters to show to a person.
func (c *Rated) Shown() Params { return c.Params.Without(c.Absent) }

// Without returns params without some of them.
func (p Params) Without(names []string) Params {
	if len(names) == 0 || p == nil {
		return p
	}
	out := maps.Clone(p)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// Absent returns the search's parameters that a configuration does not have, ascending.
func (s *Search) Absent(own Params) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Random)) {
		if _, has := own[name]; !has && s.Random[name].When != nil {
			out = append(out, name)
		}
	}
	return out
}

// Absent returns the search's parameters that the decision's configuration does not have.
func (d *Decision) Absent(p *Plan) []string { return p.Spec.Search.Absent(d.Own) }

// checkWhen checks each parameter's condition, and replaces the names in it by canonical ones.
func (s *Spec) checkWhen(doc *strictyaml.Document, v Vocabulary) error {
	for _, name := range slices.Sorted(maps.Keys(s.Search.Random)) {
		d := s.Search.Random[name]
		path := "search.random." + name + ".when"

		switch w := d.When.(type) {
		case nil:
			if doc.Has(path) {
				return doc.Errorf(path, "the condition is empty; write one, or leave when out")
			}
			continue
		case string:
			canonical, err := v.Constraint(w)
			if err != nil {
				return doc.Errorf(path, "%v", err)
			}
			d.When = canonical
		case map[string]any:
			canonical, err := matched(doc, path, w, v)
			if err != nil {
				return err
			}
			d.When = canonical
		default:
			return doc.Errorf(path,
				"a condition is an expression such as bagging_freq > 0, or a mapping such as {extra_trees: true}, "+
					"not %v", w)
		}
		s.Search.Random[name] = d
	}
	return nil
}

// matched returns a condition's mapping with canonical names. A value that the parameter cannot have is an error.
func matched(doc *strictyaml.Document, path string, wanted map[string]any, v Vocabulary) (map[string]any, error) {
	if err := checkGivenIn(doc, path, wanted, v); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		values, list := wanted[name].([]any)
		if !list {
			values = []any{wanted[name]}
		}
		for i, value := range values {
			if err := v.Param(name, value); err != nil {
				return nil, doc.Errorf(path+"."+name, "%v", err)
			}
			values[i] = normalNumber(value)
		}
		if out[v.ParamName(name)] = any(values); !list {
			out[v.ParamName(name)] = values[0]
		}
	}
	return out, nil
}

// checkConditional checks the conditions together: none may depend on itself, or hold for no configuration. It needs
// canonical names.
func (s *Spec) checkConditional(doc *strictyaml.Document, v Vocabulary) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(s.Search.Random)),
		func(d Distribution) bool { return d.When != nil }) {
		return nil
	}
	err := v.Conditions(s)
	if err == nil {
		return nil
	}

	// The error names a part of the spec by canonical names; the file may use aliases.
	var part interface{ Path() string }
	if !errors.As(err, &part) {
		return doc.Errorf("search.random", "%v", err)
	}
	path := part.Path()
	for name, d := range s.Search.Random {
		if d.DrawnAs != "" && path == fmt.Sprintf("search.random.%s.when", name) {
			path = fmt.Sprintf("search.random.%s.when", d.DrawnAs)
		}
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // the position tells which part it is
	}
	return doc.Errorf(path, "%v", err)
}
