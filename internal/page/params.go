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

// Of returns the parameters to show for a trial whose parameters are own: own itself, unless the sweep searches which
// groups of columns to use. Then there is one parameter for each group, "with" or "without", or with over MaxGroups
// groups a single one, "columns", that lists those in use. It is nil if own does not say which groups it keeps.
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
		out[name] = plot.Either(kept[i], "with", "without")
	}
	return out
}

// Differ finds the parameters that differ between the trials of a plan: those with two values or more, as text, among
// the trials that have them. Trials that refit another one are left out. A parameter that is not a number in every
// trial that has it is shown by categories. A numeric one has a logarithmic axis if the search draws it so.
func Differ(p *sweep.Plan) *Differing {
	out := &Differing{features: p.Spec.Search.Features}
	texts := map[string]map[string]bool{} // for each parameter the values it has, as text
	numbers := map[string]bool{}          // whether all values of a parameter are numbers
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

// category returns the name of a value that is shown as a category: its text, or "(none)" if that is blank.
func category(v any) string {
	return cmp.Or(strings.TrimSpace(fmt.Sprint(v)), "(none)")
}

// Values returns a number for each parameter in p.Shown of a trial whose parameters are own: the value of a number, the
// index in Categories of a category (-1 for an unknown one), and NaN where the trial does not have the parameter.
func (p *Differing) Values(own sweep.Params) []float64 {
	params := p.Of(own)
	out := make([]float64, len(p.Shown))
	for i, q := range p.Shown {
		v, ok := params[q.Name]
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

// Text describes a trial's configuration in a line: its values of the parameters that differ between trials, as
// Settings writes them, or which groups of columns it uses.
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

// Settings writes the named parameters as "name=value", with blanks between. Those that params does not have are left
// out.
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
