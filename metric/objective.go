package metric

import (
	"fmt"
	"slices"
	"strings"
)

// Of is the kind of metric that measures what an objective predicts.
func Of(objective string) (Kind, error) {
	switch objective {
	case "binary":
		return Binary, nil
	case "regression":
		return Regression, nil
	}
	return 0, fmt.Errorf("objective %.40q: use binary or regression", objective)
}

// Standard are the metrics that every report has, for predictions of a kind.
func Standard(k Kind) []Metric {
	names := []string{"rmse", "mae", "r2"}
	if k == Binary {
		names = []string{"log_loss", "auc", "average_precision", "brier", "ece"}
	}

	metrics := make([]Metric, len(names))
	for i, name := range names {
		m, err := Lookup(name)
		if err != nil {
			panic(err) // a name in the list above is wrong
		}
		metrics[i] = m
	}
	return metrics
}

// CheckObjective refuses a metric that does not measure what an objective predicts.
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
	return fmt.Errorf("metric %s is for %s, the objective is %s; use one of %s", m.Name, m.Kind, objective, strings.Join(fitting, ", "))
}

// Canonical is the one name of a metric that has several: what Lookup finds it under. Errors are Lookup's.
func Canonical(name string) (string, error) {
	m, err := Lookup(name)
	return m.Name, err
}
