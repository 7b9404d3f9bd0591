package plan

import (
	"fmt"
	"slices"

	"coppice/internal/expression"
	"coppice/internal/gbt"
	"coppice/internal/machines"
	"coppice/internal/metric"
	"coppice/internal/search"
	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

// Vocabulary returns what the spec's parser needs to know of metrics, training parameters, expressions and machines:
// which names there are, and which values they take. Its functions return an error for what is unknown or invalid.
func Vocabulary() sweep.Vocabulary {
	return sweep.Vocabulary{
		Metric:    func(name string) error { _, err := metric.Lookup(name); return err },
		Goal:      Goal,
		ParamName: gbt.CanonicalName,
		Param:     gbt.CheckParam,
		Constraint: func(text string) (string, error) {
			canonical := expression.Rename(text, gbt.CanonicalName)
			_, err := search.CompileConstraint(canonical, gbt.Defaults().Map())
			return canonical, err
		},
		Require: func(text string) error { _, err := search.CompileRequire(text, metric.Canonical); return err },
		Objective: func(objective, name string) (string, error) {
			canonical, err := gbt.CanonicalObjective(objective)
			if err != nil {
				return "", err
			}
			m, err := metric.Lookup(name)
			if err != nil {
				return "", err
			}
			return canonical, m.CheckObjective(canonical)
		},
		Value: func(name string, value float64) error {
			m, err := metric.Lookup(name)
			if err != nil {
				return err
			}
			return m.CheckValue(value)
		},
		Machine: func(name string) error {
			t, err := machines.Find(name)
			if t.Family == machines.Custom {
				return fmt.Errorf("%s: describe it, machine: {vcpus: %d, memory: %.0f}", name, t.VCPUs, t.GiB())
			}
			return err
		},
		LocalSSD: func(name string, disks int) error {
			t, err := machines.Find(name)
			if err != nil {
				return err
			}
			return t.CheckDisks(disks)
		},
	}
}

// Goal returns one of several objectives by its name: a metric, with its direction, or a fact that is known of every
// finished trial, such as its model's bytes, which is to be low. The error suggests similar names.
func Goal(name string) (sweep.Goal, error) {
	if slices.Contains(sweep.GoalFacts(), name) {
		return sweep.Goal{Name: name}, nil
	}
	m, err := metric.Lookup(name)
	if err != nil {
		return sweep.Goal{}, fmt.Errorf("%w, and none of %v%s", err, sweep.GoalFacts(),
			strictyaml.Suggest(name, sweep.GoalFacts()))
	}
	if m.Aim != 0 {
		return sweep.Goal{},
			fmt.Errorf("%s is best at %v, so it cannot be one of several objectives; bound it with require", name,
				m.Aim)
	}
	return sweep.Goal{Name: m.Name, Maximize: m.Maximize}, nil
}
