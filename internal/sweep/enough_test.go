package sweep_test

import (
	"strings"
	"testing"

	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// TestLimitsByRule: valid limits, and the position of errors in invalid ones.
func TestLimitsByRule(t *testing.T) {
	parse := func(limits, more string) (*sweep.Spec, error) {
		text := strings.Replace(good, "limits: {trial: 2h, sweep: 6h}", "limits: {"+limits+"}"+more, 1)
		return sweep.ParseSpec("sweep.yaml", []byte(text), words())
	}
	s, err := parse("target: 0.13, patience: {trials: 20}", "")
	if err != nil || *s.Limits.Target != 0.13 || s.Limits.Patience.Trials != 20 {
		t.Fatalf("limits are %+v, error %v; want a target of 0.13 and a patience of 20 trials", s, err)
	}

	for limits, want := range map[string]string{
		"patience: {trials: 0}":               "patience.trials is 0 of 50 trials: use 1 to 49",
		"patience: {trials: 50}":              "patience.trials is 50 of 50 trials",
		"patience: {trials: 5, noise: 0.1}":   problem.Gone("patience.noise:"),
		"target: .nan":                        "sweep.yaml:20:18: expected a number",
		"target: 7":                           "sweep.yaml:20:18: target: 7 is not a possible value of",
		"target: 0.1, patience: {trails: 20}": "trails",
	} {
		if _, err := parse(limits, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("limits: {%s}: got error %v; want %q", limits, err, want)
		}
	}
	if _, err := parse("target: 0.1", "\nvalidate: {kfold: 2}"); err == nil {
		t.Error("a target with validate: got no error, want one")
	}
}
