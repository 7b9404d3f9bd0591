package sweep_test

import (
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestLimitsByRule: valid limits, and the position of errors in invalid ones.
func TestLimitsByRule(t *testing.T) {
	parse := func(limits, more string) (*sweep.Spec, error) {
		text := strings.Replace(good, "limits: {trial: 2h, sweep: 6h}", "limits: {"+limits+"}"+more, 1)
		return sweep.ParseSpec("sweep.yaml", []byte(text), words())
	}
	s, err := parse("target: 0.13, patience: {trials: 20}", "")
	if err != nil || *s.Limits.Target != 0.13 || s.Limits.Patience.Trials != 20 || s.Limits.Patience.Noise != 0 {
		t.Fatalf("limits are %+v, error %v; want a target of 0.13 and a patience of 20 trials without noise", s, err)
	}

	for limits, want := range map[string]string{
		"patience: {trials: 0}":               "patience.trials is 0 of 50 trials: use 1 to 49",
		"patience: {trials: 50}":              "patience.trials is 50 of 50 trials",
		"patience: {trials: 5, noise: -1}":    "noise is -1: use 0 or more",
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

// TestNoiseOfPatience: the default is that of search.stop.
func TestNoiseOfPatience(t *testing.T) {
	for patience, want := range map[string]float64{"{trials: 5}": 0.01, "{trials: 5, noise: 0}": 0,
		"{trials: 5, noise: 0.02}": 0.02} {
		text := strings.NewReplacer("limits: {trial: 2h, sweep: 6h}", "limits: {patience: "+patience+"}", "search:\n",
			"search:\n  stop: {rule: asha, noise: 0.01}\n").Replace(good)
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || s.Limits.Patience.Noise != want {
			t.Errorf("patience %s: got %+v, error %v; want a noise of %v", patience, s, err, want)
		}
	}
}
