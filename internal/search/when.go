package search

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"coppice/internal/sweep"
)

// gate is the condition under which a parameter exists.
type gate struct {
	text  string
	names []string // of the parameters that it refers to
	holds func(params sweep.Params) bool
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
		holds := func(params sweep.Params) bool { ok, err := c.Holds(params); return ok && err == nil }
		return &gate{text: w, names: c.e.names, holds: holds}, nil
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
			return nil, fmt.Errorf("the condition names %.60q, which is not a parameter of the search", name)
		}
	}

	g.holds = func(params sweep.Params) bool {
		for _, name := range g.names {
			values, list := wanted[name].([]any)
			if !list {
				values = []any{wanted[name]}
			}
			if !slices.ContainsFunc(values, func(v any) bool { return same(normal(v), normal(params[name])) }) {
				return false
			}
		}
		return true
	}
	return g, nil
}

// condition compiles the conditions of all axes, and rejects circular ones.
func (d *domain) condition(s sweep.Search, example map[string]any) error {
	for j := range d.axes {
		a := &d.axes[j]
		g, err := newGate(s.Random[a.name].When, example)
		if err != nil {
			return &SpecError{a.part(), err}
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

	visited := make([]visit, len(d.axes))
	for j := range d.axes {
		if d.circular(j, visited) {
			return specErrorf(d.axes[j].part(), "the condition %s depends on the parameter itself",
				d.axes[j].when.text)
		}
	}
	return nil
}

// part is how a *SpecError names the axis's condition.
func (a *axis) part() string { return "random " + a.name + ": when" }

// visit is how far circular has come with an axis.
type visit int

const (
	unvisited visit = iota
	above           // its condition is being followed
	ordered         // it is in the domain's order
)

// circular reports whether the condition of axis j leads back to an axis on the way, and puts the axes that it leads to
// in order before it. Each axis is visited once: many conditions may refer to the same ones.
func (d *domain) circular(j int, visited []visit) bool {
	if visited[j] != unvisited {
		return visited[j] == above
	}
	visited[j] = above
	if slices.ContainsFunc(d.axes[j].requiresFor, func(i int) bool { return d.circular(i, visited) }) {
		return true
	}
	visited[j] = ordered
	d.order = append(d.order, j)
	return false
}

// active reports of each parameter whether it is in a configuration: its condition holds, on parameters that are in it
// themselves. Parameters that are not searched have the base's value.
func (d *domain) active(params sweep.Params) []bool {
	active := make([]bool, len(d.axes))
	for _, j := range d.order {
		active[j] = d.axes[j].when == nil || d.holds(&d.axes[j], params, active)
	}
	return active
}

// holds reports whether the condition of an axis holds, from which of those that it refers to are active.
func (d *domain) holds(a *axis, params sweep.Params, active []bool) bool {
	if slices.ContainsFunc(a.requiresFor, func(i int) bool { return !active[i] }) {
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
	return a.when.holds(looked)
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
	for j, active := range d.active(params) {
		if !active {
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

// Conditional reports whether any parameter of the search has a condition.
func Conditional(s sweep.Search) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s.Random)),
		func(d sweep.Distribution) bool { return d.When != nil })
}

// ConditionText formats a condition, in any of its forms, for people.
func ConditionText(when any) string {
	if wanted, mapping := when.(map[string]any); mapping {
		return describe(wanted)
	}
	return fmt.Sprint(when)
}

// CheckConditions rejects conditions that cannot be compiled, depend on each other in a circle or hold for no
// configuration of the space, and fixed configurations with a parameter whose condition does not hold. base are the
// complete common parameters.
func CheckConditions(s sweep.Search, base sweep.Params) error {
	if !Conditional(s) {
		return nil
	}
	d, err := newDomain(sweep.Search{Random: s.Random}, base)
	if err != nil {
		return err
	}

	for j := range d.axes {
		if err := d.everActive(j); err != nil {
			return &SpecError{d.axes[j].part(), err}
		}
	}

	for i, fixed := range s.Fixed {
		if err := d.refuseInactive(normalized(fixed)); err != nil {
			return &SpecError{fmt.Sprintf("fixed[%d]", i), err}
		}
	}
	return nil
}

// neverDraws is how many draws show that a condition never holds, if there are too many configurations to check each:
// more than a sweep has trials.
const neverDraws = 2 * sweep.MaxTrials

// everActive returns an error if a parameter is in no configuration.
func (d *domain) everActive(j int) error {
	if d.axes[j].when == nil {
		return nil
	}
	looked := make([]bool, len(d.axes))
	d.markRequired(j, looked)

	// Only the values of these parameters affect the condition.
	size, names := uint64(1), []string{}
	for i := range d.axes {
		if !looked[i] {
			continue
		}
		names = append(names, d.axes[i].name)
		over, n := bits.Mul64(size, d.axes[i].size)
		if size = n; over != 0 || size > maxEnumerated {
			size = 0 // uncountable, and stays so
		}
	}

	at := make([]float64, len(d.axes))
	draws := size
	if size == 0 {
		draws = neverDraws
	}
	for n := range draws {
		rest := n
		for i := range d.axes {
			switch {
			case !looked[i]:
			case size == 0:
				at[i] = unit(random(0, n, d.axes[i].name))
			default:
				at[i] = (float64(rest%d.axes[i].size) + 0.5) / float64(d.axes[i].size)
				rest /= d.axes[i].size
			}
		}
		if _, has := d.config(at)[d.axes[j].name]; has {
			return nil
		}
	}

	return d.neverHolds(j, names, size)
}

// neverHolds says what the condition was checked against.
func (d *domain) neverHolds(j int, names []string, size uint64) error {
	var fixed []string
	for _, name := range d.axes[j].when.names {
		if v, has := d.base[name]; has && d.axisOf(name) < 0 {
			fixed = append(fixed, fmt.Sprintf("%s is %v in every trial that is drawn", name, v))
		}
	}

	text := fmt.Sprintf("the condition %s never holds", d.axes[j].when.text)
	switch {
	case len(names) == 0:
	case size == 0:
		text += fmt.Sprintf(": in none of %d draws of %s", neverDraws, strings.Join(names, ", "))
	default:
		text += fmt.Sprintf(", whatever value %s has under search.random", strings.Join(names, ", "))
	}
	if len(fixed) > 0 {
		text += ": " + strings.Join(fixed, ", ")
	}
	return fmt.Errorf("%s; no trial would have %s", text, d.axes[j].name)
}

// markRequired marks the axes that decide whether parameter j is in a configuration.
func (d *domain) markRequired(j int, marked []bool) {
	for _, i := range d.axes[j].requiresFor {
		if !marked[i] {
			marked[i] = true
			d.markRequired(i, marked)
		}
	}
}

// refuseInactive is the error about parameters given where their conditions do not hold.
func (d *domain) refuseInactive(own sweep.Params) error {
	for _, name := range d.inactive(over(d.base, own)) {
		if v, given := own[name]; given {
			return fmt.Errorf("it gives %s=%v, which exists only when %s; take it out, or make the condition hold",
				name, v, d.axes[d.axisOf(name)].when.text)
		}
	}
	return nil
}

// over overlays own parameters on base.
func over(base, own sweep.Params) sweep.Params {
	all := make(sweep.Params, len(base)+len(own))
	maps.Copy(all, base)
	maps.Copy(all, own)
	return all
}
