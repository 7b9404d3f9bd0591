package sweep_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestSeveralObjectives: a list of metrics has goals and a pick, and an error in either has its position.
func TestSeveralObjectives(t *testing.T) {
	v := words()
	v.Goal = func(name string) (sweep.Goal, error) {
		if slices.Contains(sweep.GoalFacts(), name) {
			return sweep.Goal{Name: name}, nil
		}
		if err := v.Metric(name); err != nil {
			return sweep.Goal{}, errors.New("no such objective")
		}
		return sweep.Goal{Name: name, Maximize: name != "log_loss"}, nil
	}
	read := func(metric string) (*sweep.Spec, error) {
		return sweep.ParseSpec("sweep.yaml",
			[]byte(strings.Replace(good, "metric: average_precision\n", metric+"\n", 1)), v)
	}

	both := []sweep.Goal{{Name: "average_precision", Maximize: true}, {Name: "model_bytes"}}
	for metric, want := range map[string]struct {
		goals []sweep.Goal
		pick  *sweep.Pick
	}{
		"metric: average_precision":                {nil, nil},
		"metric: [average_precision]":              {nil, nil},
		"metric: [average_precision, model_bytes]": {both, &sweep.Pick{Best: "average_precision", Within: "1se"}},
		"metric: [average_precision, model_bytes]\npick: {within: 0.1%}": {both,
			&sweep.Pick{Best: "average_precision", Within: "0.1%"}},
		"metric: [average_precision, model_bytes]\npick: {best: model_bytes, within: 10000}": {both,
			&sweep.Pick{Best: "model_bytes", Within: "10000"}},
	} {
		s, err := read(metric)
		if err != nil || s.Metric != "average_precision" || !reflect.DeepEqual(s.Goals, want.goals) ||
			!reflect.DeepEqual(s.Pick, want.pick) {
			t.Errorf("%s: %+v, error %v; expected average_precision, %+v and %+v", metric, s, err, want.goals,
				want.pick)
		}
	}

	for metric, want := range map[string]string{
		"metric: []": "metric is missing",
		"metric: [average_precision, model_byte]":             "sweep.yaml:4:29: no such objective",
		"metric: [model_bytes, average_precision]":            "sweep.yaml:4:9: no such metric",
		"metric: [auc, trees, trees]":                         "sweep.yaml:4:22: trees is there twice",
		"metric: [auc, trees, leaves, model_bytes, log_loss]": "5 objectives: use at most 4",
		"metric: auc\npick: {within: 1%}": "pick is for a sweep with several objectives: " +
			"make metric a list, such as [auc, model_bytes]",
		"metric: [auc, trees]\npick: {best: tree}": "pick.within is missing",
		"metric: [auc, trees]\npick: {best: tree, within: 1%}": `sweep.yaml:5:14: "tree" is none of metric: auc, ` +
			`trees (did you mean "trees"?)`,
		"metric: [auc, trees]\npick: {best: trees, within: 1se}": "only the first metric, auc, has a standard error",
		"metric: [auc, trees]\npick: {within: much}":             `within is "much": use a share such as 0.1%`,
		"metric: [auc, trees]\nvalidate: {kfold: 3}":             "validate cannot be combined with several objectives",
	} {
		if _, err := read(metric); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected %s", metric, err, want)
		}
	}
	for _, c := range []struct{ from, to, want string }{} {
		text := strings.NewReplacer("metric: average_precision", "metric: [auc, trees]", c.from, c.to).Replace(good)
		if _, err := sweep.ParseSpec("sweep.yaml", []byte(text), v); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("several objectives and %s: %v, expected %s", c.to, err, c.want)
		}
	}

	// In a plan the metric is a text, with one objective as with several.
	s, err := read("metric: average_precision")
	text, _ := json.Marshal(s)
	if err != nil || !strings.Contains(string(text), `"metric":"average_precision","trials"`) ||
		strings.Contains(string(text), "goals") {
		t.Errorf("the spec of one metric is %s, error %v; expected it as it was", text, err)
	}
}

// TestPlansOfSeveralObjectives: a plan without a rule is rejected.
func TestPlansOfSeveralObjectives(t *testing.T) {
	for want, change := range map[string]func(*sweep.Plan){
		"":                                  func(*sweep.Plan) {},
		"nothing says which of them counts": func(p *sweep.Plan) { p.Spec.Pick = nil },
		"within is": func(p *sweep.Plan) {
			p.Spec.Pick = &sweep.Pick{Best: "auc", Within: "-1%"}
		},
	} {
		p := plan()
		p.Spec.Goals, p.Spec.Pick = []sweep.Goal{{Name: "auc", Maximize: true}, {Name: "trees"}},
			&sweep.Pick{Best: "auc", Within: "1%"}
		change(p)
		text := must.Get(json.Marshal(p))(t)
		if _, err := sweep.DecodePlan(text); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("reading it: %v, expected an error with %q, or none", err, want)
		}
	}
}

// TestValues: a trial's value in each goal, if all are known.
func TestValues(t *testing.T) {
	s := &sweep.Spec{Goals: []sweep.Goal{{Name: "auc", Maximize: true}, {Name: "log_loss"}, {Name: "model_bytes"},
		{Name: "leaves"}}}
	r := &sweep.Result{Status: sweep.StatusDone, Score: 0.7, Metrics: map[string]float64{"auc": 0.7, "log_loss": 0.3},
		Leaves: 40, Model: &sweep.Object{Bytes: 1234}}
	if got, want := s.Values(r), []float64{0.7, 0.3, 1234, 40}; !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
	r.Model = nil
	if got := s.Values(r); got != nil {
		t.Errorf("values of a trial without a model: got %v, want none", got)
	}
	if a, b := []float64{0.7, 0.3, 10, 4}, []float64{0.7, 0.2, 10, 4}; !s.Dominates(b, a) || s.Dominates(a, b) ||
		s.Dominates(a, a) {
		t.Errorf("%v should be better than %v, and nothing better than itself", b, a)
	}
}
