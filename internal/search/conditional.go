package search

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"coppice/internal/sweep"
)

// Conditional reports whether any parameter of the search has a condition.
func Conditional(s sweep.Search) bool {
	for _, d := range s.Random {
		if d.When != nil {
			return true
		}
	}
	return false
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
// complete common parameters. Errors are *SpecError.
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
			return &SpecError{Part: "random " + d.axes[j].name + ": when", Err: err}
		}
	}

	for i, fixed := range s.Fixed {
		if err := d.refuseInactive(normalized(fixed)); err != nil {
			return &SpecError{Part: fmt.Sprintf("fixed[%d]", i), Err: err}
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

// without returns params without some of them.
func without(params sweep.Params, names []string) sweep.Params {
	if len(names) == 0 {
		return params
	}
	out := maps.Clone(params)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// absentFrom returns the space's parameters that a configuration lacks, ascending.
func (d *domain) absentFrom(own sweep.Params) []string {
	var out []string
	for j := range d.axes {
		if _, has := own[d.axes[j].name]; !has && d.axes[j].when != nil {
			out = append(out, d.axes[j].name)
		}
	}
	return out
}

// existing removes from a configuration what its conditions exclude, and also returns the names of what is excluded.
func (p *proposer) existing(params sweep.Params) (own sweep.Params, absent []string) {
	own = normalized(params)
	if p.space == nil {
		return own, nil
	}

	// Conditions see values as trials have them: aliases of a value are resolved.
	all := over(p.example, own)
	for name, v := range own {
		if _, isNumber := v.(float64); isNumber {
			continue
		}
		if full, err := p.Canonical(over(p.Base, sweep.Params{name: v})); err == nil {
			all[name] = normal(full[name])
		}
	}
	absent = p.space.inactive(all)
	return without(own, absent), absent
}

// asks reports whether a constraint applies to a configuration: not if it names a parameter that the configuration
// lacks.
func asks(c *Constraint, absent []string) bool {
	return !slices.ContainsFunc(c.e.names, func(name string) bool { return slices.Contains(absent, name) })
}
