package gbt

import (
	"fmt"
	"maps"
	"slices"
)

// Changed returns the names of the parameters that are not at their defaults, sorted. Plans of earlier builds also
// state defaults of parameters that are gone.
func Changed(params map[string]any) []string {
	usual := Defaults().Map()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(name string) bool {
		if s := findOther(name); s != nil {
			return s.checkFixed(params[name]) == nil
		}
		return fmt.Sprint(params[name]) == fmt.Sprint(usual[name])
	})
}

// NoEffect says of each of LightGBM's parameters among params that is accepted and changes nothing why that is so.
func NoEffect(params map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if s := findOther(name); s != nil && s.checkFixed(params[name]) == nil {
			out = append(out, fmt.Sprintf("%s has no effect here: %s", name, s.note))
		}
	}
	return out
}

// Idle returns, for each parameter that is not at its default and yet changes nothing given the others, why that is so.
func (p *Params) Idle() []*ParamError {
	var out []*ParamError
	add := func(idle bool, name, why string) {
		if idle {
			out = append(out, &ParamError{name, "has no effect " + why})
		}
	}
	add(p.BaggingFraction < 1 && p.BaggingFreq == 0, "bagging_fraction", "without bagging_freq of 1 or more")
	add(p.BaggingFreq > 0 && !p.bags(), "bagging_freq", "without a bagging_fraction below 1")
	return out
}
