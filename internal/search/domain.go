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

// domain is the space of search.random as the methods that learn see it. Each parameter is an axis from 0 to 1, and a
// configuration is a position on every axis.
type domain struct {
	axes        []axis       // ascending by name
	base        sweep.Params // parameters of every trial that are not searched
	constraints []*Constraint
	size        uint64 // number of configurations without constraints; 0 if uncountable
}

// axis is one parameter. Numbers, and choices that are all numbers, are ordered on it; other choices are not. There are
// three forms, each with fields of its own: choices, real numbers, and whole or stepped numbers.
type axis struct {
	sampler

	ordered bool
	levels  []any       // of a choice: its distinct values, in the order of the axis; else nil
	level   map[any]int // of a choice: the index of a level, by comparableKey
	spelled map[any]int // of a choice: likewise, by spelling
	real    bool        // real numbers: uniform or log_uniform

	low, span float64 // of real numbers or on a logarithmic scale: the lower bound, and the upper one less that
	log       bool    // low and span are logarithms
	minimum   float64 // of a whole or stepped number
	step      float64 // likewise; 1 for whole numbers
}

// newDomain describes search.random as axes and compiles the constraints. base are the parameters of every trial, to
// which constraints may refer. An error is about the spec.
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

// newAxis describes a parameter as an axis: one draws it, and dist is its distribution in the spec, of which newSpace
// has checked that it has a form with valid bounds.
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
		// Backward, so that of two levels that are spelled alike, such as 1 and "1", the first is written last and
		// counts.
		for i, v := range slices.Backward(a.levels) {
			a.level[comparableKey(v)], a.spelled[spelling(v)] = i, i
		}
	}
	return a
}

// levels returns the distinct values of a choice: ascending if all are numbers, which ordered says, else as listed.
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

// comparableKey returns a key for maps that is the same for equal values from JSON or YAML. Lists and objects, which
// cannot be keys themselves, are replaced by their JSON.
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

// spelling returns a key that is the same for a number or boolean and for its text, such as 1 and "1".
func spelling(v any) any {
	if x, ok := number(v); ok {
		return x
	}
	return fmt.Sprint(v)
}

const (
	// below1 is the largest position on an axis, the largest float64 below 1 that unit returns: a position of 1 would
	// be that of a level after the last one.
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

// value returns the value at position u of the axis: a level or, for a number, what the sampler makes of random bits
// that stand for u. These are the upper 53 of 64, which unit turns into a position: value inverts that.
func (a *axis) value(u float64) any {
	u = a.clamp(u)
	if a.levels != nil {
		return a.levels[int(u*float64(len(a.levels)))]
	}
	return a.draw(uint64(u*(1<<53)) << 11)
}

// positionOf returns the position of a value on the axis. Numbers beyond the bounds have positions below 0 or above 1,
// since a person may have tried them in an earlier search. A level, or a step of an axis that is not logarithmic, is at
// the middle of its interval. ok is false for a value that has no position: an unknown level, what is not a finite
// number, and on a logarithmic axis 0 and less.
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

// respell replaces values of params, in place, by the space's own spelling of them, and returns params. A choice may be
// written in the plan as "1", where trials have the trainer's 1. On an axis of numbers the text of one becomes the
// number. Values that the axis knows as they are stay, as do those that no spelling matches.
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

// number returns the number that a value is or is the text of. ok is false for anything else, also for the texts of NaN
// and of infinity.
func number(v any) (x float64, ok bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		x, err := strconv.ParseFloat(v, 64)
		return x, err == nil && sweep.Finite(x)
	}
	return 0, false
}

// snap returns the position that positionOf has for the value at u, so that equal values have equal positions. On an
// axis of levels or steps this is the middle of the interval that u is in. On an axis of real numbers it is u itself,
// within the bounds: up to the rounding of drawn numbers to a few digits, which is too little to matter.
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

// contains reports whether a value is one of the axis's levels or, for a number, within its bounds. Between two steps
// counts as within, and so does half a step beyond either end.
func (a *axis) contains(v any) bool {
	u, ok := a.positionOf(v)
	if !ok {
		return false
	}
	const slack = 1e-9 // for a bound converted to a logarithm and back
	return u >= -slack && u <= 1+slack
}

// point is one configuration with its position on every axis.
type point struct {
	at     []float64
	params sweep.Params
}

// config returns the configuration at a position, [axes].
func (d *domain) config(at []float64) sweep.Params {
	params := make(sweep.Params, len(d.axes))
	for j := range d.axes {
		params[d.axes[j].name] = d.axes[j].value(at[j])
	}
	return params
}

// locate returns the position of a configuration, also of one with numbers beyond the bounds. ok is false if a value
// has no position, or if a parameter is missing; parameters that are no axis do not matter.
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

// findViolated returns the first constraint that a configuration violates, or cannot be checked on; nil if there is
// none. Parameters that are not searched have the base's value.
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

// keyOf returns a key that is the same exactly for equal configurations: their JSON, whose names are sorted.
func keyOf(params sweep.Params) string {
	text, err := json.Marshal(normalizeNumbers(params))
	if err != nil {
		return fmt.Sprint(params) // for values that JSON cannot represent
	}
	return string(text)
}
