package metric

import (
	"fmt"
	"slices"
	"strings"
)

// Of returns the kind of metrics that apply to an objective's predictions.
func Of(objective string) (Kind, error) {
	switch objective {
	case "binary":
		return Binary, nil
	case "regression":
		return Regression, nil
	}
	return 0, fmt.Errorf("objective %.40q: use binary or regression", objective)
}

// Standard returns the metrics in every report, for predictions of a kind.
func Standard(k Kind) []Metric {
	names := []string{"rmse", "mae", "r2"}
	if k == Binary {
		names = []string{"log_loss", "auc", "average_precision", "brier", "ece"}
	}

	metrics := make([]Metric, len(names))
	for i, name := range names {
		m, err := Lookup(name)
		if err != nil {
			panic(err) // a bug in the list above
		}
		metrics[i] = m
	}
	return metrics
}

// CheckObjective rejects a metric that does not apply to an objective's predictions.
func (m Metric) CheckObjective(objective string) error {
	k, err := Of(objective)
	if err != nil {
		return err
	}

	if m.Kind == k || m.Kind == Ranking {
		return nil
	}

	var fitting []string
	for _, s := range Standard(k) {
		fitting = append(fitting, s.Name)
	}
	slices.Sort(fitting)
	return fmt.Errorf("metric %s is for %s, the objective is %s; use one of %s", m.Name, m.Kind, objective,
		strings.Join(fitting, ", "))
}

// Canonical returns the canonical name of a metric. Errors are Lookup's.
func Canonical(name string) (string, error) {
	m, err := Lookup(name)
	return m.Name, err
}
