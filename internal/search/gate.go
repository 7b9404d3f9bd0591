package search

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"coppice/internal/sweep"
)

// gate is the condition under which a parameter exists.
type gate struct {
	text  string
	names []string // of the parameters that it refers to
	holds func(params sweep.Params) (bool, error)
}

// newGate compiles a condition: an expression over other parameters, or a mapping from names to allowed values. nil is
// no condition.
func newGate(when any, example map[string]any) (*gate, error) {
	switch w := when.(type) {
	case nil:
		return nil, nil
	case string:
		c, err := CompileConstraint(w, example)
		if err != nil {
			return nil, err
		}
		return &gate{text: w, names: c.e.names,
			holds: func(params sweep.Params) (bool, error) { return c.Holds(params) }}, nil
	case map[string]any:
		return matching(w, example)
	}
	return nil, fmt.Errorf("a condition is an expression such as boosting == \"dart\", or a mapping such as "+
		"{boosting: dart}, not %v", when)
}

// matching is the condition that parameters have given values.
func matching(wanted map[string]any, example map[string]any) (*gate, error) {
	if len(wanted) == 0 {
		return nil, fmt.Errorf("the condition names no parameter")
	}

	g := &gate{text: describe(wanted), names: slices.Sorted(maps.Keys(wanted))}
	for _, name := range g.names {
		if _, known := example[name]; !known {
			return nil, fmt.Errorf("the condition looks at %.60q, which is no parameter of the search", name)
		}
	}

	g.holds = func(params sweep.Params) (bool, error) {
		for _, name := range g.names {
			values, list := wanted[name].([]any)
			if !list {
				values = []any{wanted[name]}
			}
			if !slices.ContainsFunc(values, func(v any) bool { return same(normal(v), normal(params[name])) }) {
				return false, nil
			}
		}
		return true, nil
	}
	return g, nil
}

// condition compiles the conditions of all axes, and rejects circular ones.
func (d *domain) condition(s sweep.Search, example map[string]any) error {
	for j := range d.axes {
		a := &d.axes[j]
		g, err := newGate(s.Random[a.name].When, example)
		if err != nil {
			return &SpecError{Part: "random " + a.name + ": when", Err: err}
		}
		if a.when = g; g == nil {
			continue
		}
		d.conditional = true
		for i := range d.axes {
			if slices.Contains(g.names, d.axes[i].name) {
				a.requiresFor = append(a.requiresFor, i)
			}
		}
	}

	for j := range d.axes {
		if d.circular(j, make([]bool, len(d.axes))) {
			return &SpecError{Part: "random " + d.axes[j].name + ": when",
				Err: fmt.Errorf("the condition %s depends on the parameter itself", d.axes[j].when.text)}
		}
	}
	return nil
}

func (d *domain) circular(j int, above []bool) bool {
	if above[j] {
		return true
	}
	above[j] = true
	defer func() { above[j] = false }()
	return slices.ContainsFunc(d.axes[j].requiresFor, func(i int) bool { return d.circular(i, above) })
}

// active reports whether parameter j is in a configuration: its condition holds, on parameters that are in it
// themselves. Parameters that are not searched have the base's value.
func (d *domain) active(j int, params sweep.Params) bool {
	a := &d.axes[j]
	if a.when == nil {
		return true
	}
	if slices.ContainsFunc(a.requiresFor, func(i int) bool { return !d.active(i, params) }) {
		return false
	}

	looked := make(sweep.Params, len(a.when.names))
	for _, name := range a.when.names {
		v, given := d.valueIn(params, name)
		if !given {
			return false
		}
		looked[name] = v
	}
	holds, err := a.when.holds(looked)
	return err == nil && holds
}

// valueIn returns a configuration's value of a parameter: its own or, for one that is not searched, the base's.
func (d *domain) valueIn(params sweep.Params, name string) (v any, has bool) {
	if v, has = params[name]; has || d.axisOf(name) >= 0 {
		return v, has
	}
	v, has = d.base[name]
	return v, has
}

// axisOf returns the index of a parameter's axis, or -1.
func (d *domain) axisOf(name string) int {
	i, found := slices.BinarySearchFunc(d.axes, name,
		func(a axis, name string) int { return cmp.Compare(a.name, name) })
	if !found {
		return -1
	}
	return i
}

// inactive returns the parameters that are not in a configuration, ascending. The configuration may be complete, with
// values for them as well.
func (d *domain) inactive(params sweep.Params) []string {
	if !d.conditional {
		return nil
	}
	var out []string
	for j := range d.axes {
		if !d.active(j, params) {
			out = append(out, d.axes[j].name)
		}
	}
	return out
}

// prune removes the parameters whose condition does not hold.
func (d *domain) prune(params sweep.Params) {
	for _, name := range d.inactive(params) {
		delete(params, name)
	}
}
