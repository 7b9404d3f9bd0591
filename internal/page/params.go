package page

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"coppice/internal/page/plot"
	"coppice/internal/sweep"
)

// Differing are the parameters that differ between a plan's trials. In a sweep over groups of columns the groups take
// their place.
type Differing struct {
	Shown    []Param
	features *sweep.Features
}

// MaxGroups is up to how many groups of columns each is shown as a parameter of its own.
const MaxGroups = 12

// Of returns the parameters to show of a trial that has these.
func (p *Differing) Of(own sweep.Params) sweep.Params {
	if p.features == nil {
		return own
	}
	kept, ok := p.features.Kept(own)
	if !ok {
		return nil
	}
	if len(kept) > MaxGroups {
		return sweep.Params{"columns": p.features.Describe(kept)}
	}
	out := sweep.Params{}
	for i, name := range p.features.Names() {
		out[name] = map[bool]string{true: "with", false: "without"}[kept[i]]
	}
	return out
}

// Differ finds them. What is not a number in every trial is a category.
func Differ(p *sweep.Plan) *Differing {
	out := &Differing{features: p.Spec.Search.Features}
	texts := map[string]map[string]bool{}
	numbers := map[string]bool{}
	for _, t := range p.Trials {
		if t.Refit { // it has another number of trees than what it refits
			continue
		}
		for name, v := range out.Of(t.Params) {
			if texts[name] == nil {
				texts[name], numbers[name] = map[string]bool{}, true
			}
			texts[name][category(v)] = true
			_, ok := v.(float64)
			numbers[name] = numbers[name] && ok
		}
	}

	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if len(texts[name]) < 2 {
			continue
		}
		q := Param{Name: name}
		if d := p.Spec.Search.Random[name]; numbers[name] {
			q.Log = len(d.LogUniform) > 0 || len(d.LogInt) > 0
		} else {
			q.Categories = slices.Sorted(maps.Keys(texts[name]))
		}
		out.Shown = append(out.Shown, q)
	}
	return out
}

// category is a value as a category's name.
func category(v any) string {
	return cmp.Or(strings.TrimSpace(fmt.Sprint(v)), "(none)")
}

// Values are a trial's, in the order of the parameters: numbers, of categories their index, and NaN for one that the
// trial does not have.
func (p *Differing) Values(own sweep.Params) []float64 {
	of := p.Of(own)
	out := make([]float64, len(p.Shown))
	for i, q := range p.Shown {
		v, ok := of[q.Name]
		x, number := v.(float64)
		switch {
		case q.Categories == nil && number:
			out[i] = x
		case q.Categories != nil && ok:
			out[i] = float64(slices.Index(q.Categories, category(v)))
		default:
			out[i] = math.NaN()
		}
	}
	return out
}

// Text is a configuration in words: what differs of it, or its groups of columns.
func (p *Differing) Text(own sweep.Params) string {
	if p.features != nil {
		if kept, ok := p.features.Kept(own); ok {
			return p.features.Describe(kept)
		}
	}
	names := make([]string, len(p.Shown))
	for i, q := range p.Shown {
		names[i] = q.Name
	}
	return Settings(own, names)
}

// Settings formats the named parameters, as far as they are known.
func Settings(params map[string]any, names []string) string {
	var parts []string
	for _, n := range names {
		switch v := params[n].(type) {
		case nil:
		case float64:
			parts = append(parts, n+"="+plot.Plain.Format(v))
		default:
			parts = append(parts, fmt.Sprintf("%s=%v", n, v))
		}
	}
	return strings.Join(parts, " ")
}
