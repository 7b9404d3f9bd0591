package plan_test

import (
	"errors"
	"strings"
	"testing"

	"coppice/internal/strictyaml"
	"coppice/internal/sweep"
)

func TestBagIsRefused(t *testing.T) {
	spec := withoutRequire(t)
	for edit, want := range map[string]string{
		"ensemble: {bag: 0}":                             "bag is 0: use 2 to 10",
		"ensemble: {bag: 11}":                            "bag is 11: use 2 to 10",
		"ensemble: {bags: 3}":                            `did you mean "bag"`,
		"ensemble: {bag: 3}\nfinal: {rows: train}":       "its models are those of the final training; leave final out",
		"ensemble: {bag: 3}\nvalidate: {kfold: 5}":       "validate has none: its winner is trained on train and valid already",
		"ensemble: {bag: 3}\ncontinue: {from: champion}": "continue has none",
	} {
		text := strings.Replace(spec, "machine:", edit+"\nmachine:", 1)
		_, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if !errors.As(err, new(*strictyaml.Error)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, expected ... %s ...", edit, err, want)
		}
	}
	for edit, want := range map[string]int{"": 1, "ensemble: {bag: 1}": 1, "ensemble: {bag: 3}\nfinal: {rows: all}": 3} {
		text := strings.Replace(spec, "machine:", edit+"\nmachine:", 1)
		s, err := sweep.ParseSpec("sweep.yaml", []byte(text), words())
		if err != nil || s.Bag() != want {
			t.Errorf("%s: got %+v, %v, expected a bag of %d", edit, s, err, want)
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
