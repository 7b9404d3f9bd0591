package sweep_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// partError is an error of package search about a part of a spec.
type partError struct {
	error
	path string
}

func (e partError) Path() string  { return e.path }
func (e partError) Unwrap() error { return e.error }

// TestWhen: conditions get canonical names and numbers, and errors in them have their position.
func TestWhen(t *testing.T) {
	v := words()
	v.Conditions = func(*sweep.Spec) error { return nil }
	with := func(when string) (*sweep.Spec, error) {
		return sweep.ParseSpec("sweep.yaml",
			[]byte(strings.Replace(good, "lambda_l2: {choice: [0, 1, 10]}", "reg_lambda: {choice: [0, 1, 10], when: "+
				when+"}", 1)), v)
	}
	for when, want := range map[string]any{
		"max_leaves > 31":             "num_leaves > 31",
		"{max_leaves: [31, 63]}":      map[string]any{"num_leaves": []any{31.0, 63.0}},
		"{eta: 0.1, num_leaves: 100}": map[string]any{"learning_rate": 0.1, "num_leaves": 100.0},
	} {
		s, err := with(when)
		if err != nil || !reflect.DeepEqual(s.Search.Random["lambda_l2"].When, want) {
			t.Errorf("when: %s: %+v, error %v; expected %v", when, s, err, want)
		}
	}
	for when, want := range map[string]string{
		"{num_leafs: 3}":             "sweep.yaml:16:56: no such parameter (did you mean \"num_leaves\"?)",
		"{num_leaves: [3, 2.5]}":     "num_leaves: expected a whole number, found 2.5",
		"{eta: 1, learning_rate: 1}": "learning_rate is given twice",
		"3":                          "sweep.yaml:16:44: a condition is an expression such as bagging_freq > 0",
	} {
		if _, err := with(when); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("when: %s: got %v, expected %s", when, err, want)
		}
	}

	// Errors that only the whole search reveals have the position and name in the file.
	v.Conditions = func(*sweep.Spec) error {
		return partError{errors.New("it never holds"), "search.random.lambda_l2.when"}
	}
	if _, err := with("num_leaves > 999"); err == nil || err.Error() != "sweep.yaml:16:44: it never holds" {
		t.Errorf("a condition that the search refuses: %v, expected it at its place", err)
	}
}

// TestAbsent: an open trial lacks the parameters that its decision does not set, and so do the displayed parameters.
func TestAbsent(t *testing.T) {
	p := &sweep.Plan{Trials: []sweep.Trial{{Number: 0, Open: true}}}
	p.Spec.Search.Random = map[string]sweep.Distribution{"a": {}, "b": {When: "a > 1"}, "c": {When: "a > 2"}}
	p = p.WithDecisions(map[int]*sweep.Decision{0: {Params: sweep.Params{"a": 2.0, "b": 5.0, "c": 0.0, "d": 1.0},
		Own: sweep.Params{"a": 2.0, "b": 5.0}}})
	if got, want := p.Trials[0].Shown(), (sweep.Params{"a": 2.0, "b": 5.0, "d": 1.0}); !reflect.DeepEqual(got, want) ||
		len(p.Trials[0].Params) != 4 {
		t.Errorf("shown are %v of %v, expected %v of all", got, p.Trials[0].Params, want)
	}
}
