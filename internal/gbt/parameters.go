package gbt

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parameter is what a person has to know of one of LightGBM's parameters here.
type Parameter struct {
	Name     string            `json:"name"`
	Aliases  []string          `json:"aliases,omitempty"`
	Standing ParameterStanding `json:"standing"`
	Default  string            `json:"default,omitempty"`
	Range    string            `json:"range,omitempty"` // of a number
	Note     string            `json:"note,omitempty"`  // how it differs, or why it is not there
}

// ParameterStanding is whether a parameter of LightGBM's does here what it does there.
type ParameterStanding string

// How a parameter can stand.
const (
	Same      ParameterStanding = "same"
	Differs   ParameterStanding = "differs"
	Accepted  ParameterStanding = "accepted" // with some or all values, and nothing depends on it
	Refused   ParameterStanding = "refused"
	Elsewhere ParameterStanding = "elsewhere" // another file or flag says it
)

// Parameters are all of LightGBM 4's parameters: those that are trained with, in the order of the model file, then the
// others by name.
func Parameters() []Parameter {
	var all []Parameter
	defaults := Defaults().Map()
	for _, s := range paramTable {
		p := Parameter{Name: s.name, Aliases: strings.Fields(s.aliases), Standing: Accepted, Note: s.note}
		switch {
		case s.training != nil:
			p.Standing, p.Default = Same, fmt.Sprint(defaults[s.name])
			if p.Note != "" {
				p.Standing = Differs
			}
			if _, number := defaults[s.name].(float64); number {
				p.Range = s.bounds()
			}
		case s.fine == elsewhere:
			p.Standing = Elsewhere
		case s.fine == "":
			p.Standing = Refused
		case s.fine != anyValue:
			p.Range = strings.Join(strings.Fields(s.fine), ", ")
		}
		all = append(all, p)
	}
	slices.SortFunc(all[len(trainedWith):], func(a, b Parameter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Changed returns the names of the parameters that are not at their defaults, sorted. Plans of earlier builds also
// state defaults of parameters that are gone.
func Changed(params map[string]any) []string {
	usual := Defaults().Map()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(name string) bool {
		if s := findOther(name); s != nil {
			return s.check(params[name]) == nil
		}
		return fmt.Sprint(params[name]) == fmt.Sprint(usual[name])
	})
}

// NoEffect says of each of LightGBM's parameters among params that is accepted and changes nothing why that is so.
func NoEffect(params map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if s := findOther(name); s != nil && s.check(params[name]) == nil {
			out = append(out, fmt.Sprintf("%s has no effect here: %s", name, s.note))
		}
	}
	return out
}

// FindParameter finds one by its name or an alias. An error names the most similar.
func FindParameter(name string) (Parameter, error) {
	for _, p := range Parameters() {
		if p.Name == name || slices.Contains(p.Aliases, name) {
			return p, nil
		}
	}
	return Parameter{}, &ParamError{name, "there is no such training parameter" + suggestParam(name)}
}
