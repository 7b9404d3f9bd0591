package gbt

import (
	"fmt"
	"maps"
	"slices"
)

// Changed returns the names of the parameters in params that are not at their defaults, sorted. Parameters that are not
// trained with are left out if their value asks for what is done anyway: plans of earlier builds state such values.
func Changed(params map[string]any) []string {
	usual := Defaults().Map()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(params)), func(name string) bool {
		if s := findOther(name); s != nil {
			return s.checkFixed(params[name]) == nil
		}
		return fmt.Sprint(params[name]) == fmt.Sprint(usual[name])
	})
}

// NoEffect returns a sentence for each of LightGBM's parameters in params that is accepted but changes nothing, with
// the reason. The sentences are sorted by the parameters' names.
func NoEffect(params map[string]any) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if s := findOther(name); s != nil && s.checkFixed(params[name]) == nil {
			out = append(out, fmt.Sprintf("%s has no effect here: %s", name, s.note))
		}
	}
	return out
}

// Idle returns an error for each parameter that is set but has no effect because of the value of another one, such as
// bagging_fraction without bagging_freq.
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
