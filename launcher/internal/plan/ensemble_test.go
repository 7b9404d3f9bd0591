package plan_test

import (
	"errors"
	"strings"
	"testing"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

func TestEnsembleIsRefused(t *testing.T) {
	if _, err := sweep.ParseSpec("sweep.yaml", []byte(strings.Replace(spec, "machine:",
		"ensemble: {cost: 3}\nmachine:", 1)), words()); err == nil ||
		!strings.Contains(err.Error(), "ensemble cannot be combined with require") {
		t.Errorf("beside require: got error %v, expected to be told that they cannot be combined", err)
	}
	spec := withoutRequire(t)
	for edit, want := range map[string]string{
		"ensemble: {cost: 1}":                             "cost is 1: use a number above 1, at most 10",
		"ensemble: {cost: 10.5}":                          "cost is 10.5: use a number above 1, at most 10",
		"ensemble: {cost: -3}":                            "cost is -3: use",
		"ensemble: {costs: 3}":                            `did you mean "cost"`,
		"ensemble: {cost: 3}\nfinal: {rows: all}":         "ensemble cannot be combined with final",
		"ensemble: {cost: 3}\nvalidate: {kfold: 5}":       "ensemble cannot be combined with validate",
		"ensemble: {cost: 3}\ncontinue: {from: champion}": "ensemble cannot be combined with continue",
	} {
		text := strings.Replace(spec, "machine:", edit+"\nmachine:", 1)
		_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if !errors.As(err, new(*strictyaml.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, expected ... %s ...", edit, err, want)
		}
	}
	for edit, want := range map[string]*sweep.Ensemble{
		"ensemble: {cost: 0}":                         nil,
		"ensemble: {cost: 3}":                         {Cost: 3},
		"ensemble: {cost: 2.5}\nfinal: {rows: train}": {Cost: 2.5},
	} {
		text := strings.Replace(spec, "machine:", edit+"\nmachine:", 1)
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || (s.Ensemble == nil) != (want == nil) || want != nil && *s.Ensemble != *want {
			t.Errorf("%s: got %+v, %v, expected %+v", edit, s, err, want)
		}
	}
}

func withoutRequire(t *testing.T) string {
	t.Helper()
	before, after, ok := strings.Cut(spec, "\nrequire:")
	_, after, more := strings.Cut(after, "\n")
	if !ok || !more {
		t.Fatal("the spec of these tests has no line require: any more")
	}
	return strings.Replace(before+"\n"+after, "final: {rows: train}\n", "", 1)
}
