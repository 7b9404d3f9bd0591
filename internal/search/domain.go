package search

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"coppice/internal/sweep"
)

// domain is the space of search.random for the methods that learn: each parameter is an axis from 0 to 1.
type domain struct {
	axes        []axis // by name
	base        sweep.Params
	constraints []*Constraint
	size        uint64 // number of configurations without constraints; 0 if uncountable
}

// axis is one parameter. Numbers, and choices that are all numbers, are ordered on it; other choices are not.
type axis struct {
	sampler

	ordered bool
	levels  []any       // of a choice, in the order of the axis
	level   map[any]int // the number of a level, by its key
	spelled map[any]int // likewise by its spelling
	real    bool        // every number between the bounds, instead of a list

	low, span float64 // the bounds, as logarithms if log is set
	log       bool
	minimum   float64 // of a whole or stepped number
	step      float64
}

// newDomain describes search.random as axes, by name, and compiles the constraints. An error is of the spec.
func newDomain(s sweep.Search, base sweep.Params) (*domain, error) {
	sp, err := newSpace(s)
	if err != nil {
		return nil, err
	}
	d := &domain{size: sp.size, base: normalizeNumbers(base)}
	example := maps.Clone(map[string]any(d.base))

	slices.SortFunc(sp.samplers, func(a, b sampler) int { return cmp.Compare(a.name, b.name) })
	for _, one := range sp.samplers {
		a := newAxis(one, s.Random[one.name])
		d.axes = append(d.axes, a)
		example[a.name] = a.value(0.5)
	}

	for i, text := range s.Constraints {
		c, err := CompileConstraint(text, example)
		if err != nil {
			return nil, &SpecError{fmt.Sprintf("constraints[%d]", i), err}
		}
		d.constraints = append(d.constraints, c)
	}
	return d, nil
}

// newAxis places a parameter's values on an axis. Choices have levels instead, whose order means something only if they
// are numbers.
func newAxis(one sampler, dist sweep.Distribution) axis {
	a := axis{sampler: one, ordered: true}
	switch {
	case dist.Uniform != nil:
		a.real, a.low, a.span = true, dist.Uniform[0], dist.Uniform[1]-dist.Uniform[0]
	case dist.LogUniform != nil:
		a.real, a.log = true, true
		a.low, a.span = math.Log(dist.LogUniform[0]), math.Log(dist.LogUniform[1]/dist.LogUniform[0])
	case dist.Int != nil:
		a.minimum, a.step = float64(dist.Int[0]), 1
	case dist.LogInt != nil:
		// Half a step beyond either end, since draws are rounded: the ends are as likely as their neighbours.
		low, high := float64(dist.LogInt[0])-0.5, float64(dist.LogInt[1])+0.5
		a.log, a.minimum, a.step = true, float64(dist.LogInt[0]), 1
		a.low, a.span = math.Log(low), math.Log(high/low)
	case dist.Step != nil:
		a.minimum, a.step = dist.Step[0], dist.Step[2]
	default:
		a.levels, a.ordered = levels(dist.Choice)
		a.level, a.spelled = map[any]int{}, map[any]int{}
		for i, v := range slices.Backward(a.levels) { // of two that are spelled alike the first counts
			a.level[comparableKey(v)], a.spelled[spelling(v)] = i, i
		}
	}
	return a
}

// levels returns the distinct values of a choice, ascending if all are numbers.
func levels(choice []any) (values []any, ordered bool) {
	ordered = true
	had := map[any]bool{}
	for _, v := range choice {
		v = sweep.ToFloat(v)
		if !had[comparableKey(v)] {
			had[comparableKey(v)] = true
			values = append(values, v)
		}
		_, number := v.(float64)
		ordered = ordered && number
	}

	if ordered {
		slices.SortFunc(values, func(a, b any) int { return cmp.Compare(a.(float64), b.(float64)) })
	}
	return values, ordered
}

// same compares two values from JSON or YAML.
func same(a, b any) bool { return comparableKey(a) == comparableKey(b) }

// written is the JSON of a list or an object.
type written string

// comparableKey is equal for equal values from JSON or YAML.
func comparableKey(v any) any {
	switch v.(type) {
	case float64, string, bool, nil:
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return &err // equal to no other
	}
	return written(text)
}

// spelling is equal for values of which one is a number or boolean and the other its text.
func spelling(v any) any {
	if x, ok := number(v); ok {
		return x
	}
	return fmt.Sprint(v)
}

const (
	// below1 is the largest position on an axis.
	below1 = 1 - 1.0/(1<<53)
	// realEnd is the end of a range of real numbers, whose upper bound is excluded.
	realEnd = 1 - 1e-6
)

// clamp clamps a position to the bounds.
func (a *axis) clamp(u float64) float64 {
	if a.real {
		return min(max(u, 0), realEnd)
	}
	return min(max(u, 0), below1)
}

// value returns the value at position u of the axis.
func (a *axis) value(u float64) any {
	u = a.clamp(u)
	if a.levels != nil {
		return a.levels[int(u*float64(len(a.levels)))]
	}
	return a.draw(uint64(u*(1<<53)) << 11)
}

// positionOf returns the position of a value on the axis; ok is false for an invalid value. Numbers beyond the bounds
// have positions below 0 or above 1, since a person may have tried them.
func (a *axis) positionOf(v any) (u float64, ok bool) {
	v = sweep.ToFloat(v)
	if a.levels != nil {
		i, known := a.level[comparableKey(v)]
		return (float64(i) + 0.5) / float64(len(a.levels)), known
	}

	x, number := v.(float64)
	switch {
	case !number || !sweep.Finite(x) || a.log && x <= 0:
		return 0, false
	case a.log:
		return (math.Log(x) - a.low) / a.span, true
	case a.real:
		return (x - a.low) / a.span, true
	}
	return ((x-a.minimum)/a.step + 0.5) / float64(a.size), true
}

// respell returns params with values in the space's own spelling: a choice that cannot be trained by itself is in the
// plan as it was written, "1", and trials have the trainer's 1.
func (d *domain) respell(params sweep.Params) sweep.Params {
	for j := range d.axes {
		a := &d.axes[j]
		v, has := params[a.name]
		if _, known := a.positionOf(v); !has || known {
			continue
		}
		if a.levels == nil {
			if x, ok := number(v); ok {
				params[a.name] = x
			}
			continue
		}
		if i, known := a.spelled[spelling(v)]; known {
			params[a.name] = a.levels[i]
		}
	}
	return params
}

// number returns a value that is a number or the text of one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		x, err := strconv.ParseFloat(v, 64)
		return x, err == nil && sweep.Finite(x)
	}
	return 0, false
}

// snap moves a position to that of the value there.
func (a *axis) snap(u float64) float64 {
	u = a.clamp(u)
	switch {
	case a.real:
		return u
	case a.log:
		s, _ := a.positionOf(a.value(u))
		return s
	}
	n := float64(a.size)
	return (math.Floor(u*n) + 0.5) / n
}

// contains reports whether a value is on the axis.
func (a *axis) contains(v any) bool {
	u, ok := a.positionOf(v)
	if !ok {
		return false
	}
	const slack = 1e-9 // for a bound converted to a logarithm and back
	return u >= -slack && u <= 1+slack
}

// point is one configuration: its position on every axis.
type point struct {
	at     []float64
	params sweep.Params
}

// config makes the configuration at a position.
func (d *domain) config(at []float64) sweep.Params {
	params := make(sweep.Params, len(d.axes))
	for j := range d.axes {
		params[d.axes[j].name] = d.axes[j].value(at[j])
	}
	return params
}

// locate returns the position of a configuration; ok is false if a value is not in the space, or a parameter is
// missing.
func (d *domain) locate(params sweep.Params) (p point, ok bool) {
	p.params = params
	p.at = make([]float64, len(d.axes))
	for j := range d.axes {
		v, given := params[d.axes[j].name]
		if p.at[j], ok = d.axes[j].positionOf(v); !given || !ok {
			return p, false
		}
	}
	return p, true
}

// fits reports whether a configuration is in this space: it has exactly its parameters, within the bounds, and violates
// no constraint.
func (d *domain) fits(params sweep.Params) bool {
	for j := range d.axes {
		if v, given := params[d.axes[j].name]; !given || !d.axes[j].contains(v) {
			return false
		}
	}
	return len(params) == len(d.axes) && d.findViolated(params) == nil
}

// findViolated returns the first constraint that a configuration violates. Parameters that are not searched have the
// base's value.
func (d *domain) findViolated(params sweep.Params) *Constraint {
	for _, c := range d.constraints {
		looked := make(map[string]any, len(c.e.Names))
		for _, name := range c.e.Names {
			v, own := params[name]
			if !own {
				v = d.base[name]
			}
			looked[name] = v
		}
		if holds, err := c.Holds(looked); err != nil || !holds {
			return c
		}
	}
	return nil
}

// keyOf is equal exactly for equal configurations.
func keyOf(params sweep.Params) string {
	text, err := json.Marshal(normalizeNumbers(params))
	if err != nil {
		return fmt.Sprint(params) // for values that JSON cannot represent
	}
	return string(text)
}
