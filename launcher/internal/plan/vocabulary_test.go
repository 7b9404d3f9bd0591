package plan

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestSpecsInLightGBMsWords: a spec may use the trainer's aliases, in constraints and grids too, and has the canonical
// names after parsing. A misspelled parameter is an error. Two names of one parameter are tested in internal/sweep
// (TestNoAliasGetsRound).
func TestSpecsInLightGBMsWords(t *testing.T) {
	const spec = "name: night\ndataset: clicks\nmetric: auc\ntrials: 1\nobjective: binary\nearly_stopping_rounds: 50\n"
	for text, want := range map[string]string{
		"params: {n_estimatros: 7}":                    "7:24: n_estimatros: there is no such training parameter",
		"search: {constraints: [\"max_leafs <= 31\"]}": "unknown name \"max_leafs\"",
	} {
		_, err := sweep.ParseSpec("sweep.yaml", []byte(spec+text), Vocabulary())
		must.Say(t, text, err, want)
	}

	s := must.Get(sweep.ParseSpec("sweep.yaml",
		[]byte(spec+`search: {constraints: ["log(min_child_samples) < max_leaf && max_leaf <= 2 ^ max_depth"], `+
			`grid: {eta: [0.1]}}`), Vocabulary()))(t)
	if got, want := s.Search.Constraints[0],
		"log(min_data_in_leaf) < num_leaves && num_leaves <= 2 ^ max_depth"; got != want {
		t.Errorf("constraint %s, expected %s", got, want)
	}
	if len(s.Search.Grid["learning_rate"]) != 1 {
		t.Errorf("the grid is %v; want one learning rate", s.Search.Grid)
	}
}

// TestParseSpecOfFewWords: a metric of numbers such as rmse implies the objective regression, and does not go with
// binary. An objective that only LightGBM has is said to be gone. Several trials with a search that has no space are an
// error, whose message contains an example that can be parsed.
func TestParseSpecOfFewWords(t *testing.T) {
	const spec = "name: n\ndataset: d\nmetric: rmse\ntrials: 1\n"
	s, err := sweep.ParseSpec("sweep.yaml", []byte(spec), Vocabulary())
	if err != nil || s.Objective != "regression" {
		t.Errorf("metric: rmse alone: got %+v and %v, expected the objective regression", s, err)
	}
	if _, err := sweep.ParseSpec("sweep.yaml", []byte(spec+"objective: binary\n"), Vocabulary()); err == nil {
		t.Error("metric: rmse with objective: binary was accepted; want an error")
	}

	// The error is about the objective, although its metric, named before it, is gone as well.
	gone := strings.Replace(spec, "rmse", "fair", 1) + "objective: fair\n"
	if _, err := sweep.ParseSpec("sweep.yaml", []byte(gone), Vocabulary()); err == nil ||
		!strings.HasPrefix(err.Error(), `sweep.yaml:5:12: LightGBM has objective "fair", Coppice does not`) {
		t.Errorf("metric: fair with objective: fair: got %v; want its place, and that only LightGBM has it", err)
	}
	fifty := strings.Replace(spec, "trials: 1", "trials: 50", 1)
	_, err = sweep.ParseSpec("sweep.yaml", []byte(fifty+"search: {constraints: [\"eta < 1\"]}\n"), Vocabulary())
	if err == nil || !strings.HasPrefix(err.Error(), "sweep.yaml:4:9: trials is 50, but search says nothing") {
		t.Fatalf("50 trials with a search without a space: got %v; want an error at 4:9", err)
	}
	_, example, _ := strings.Cut(err.Error(), "\n")
	if s, err := sweep.ParseSpec("sweep.yaml", []byte(fifty+example+"\n"),
		Vocabulary()); err != nil || len(s.Search.Random) != 2 {
		t.Errorf("the example %q: got %v and %+v; want a search of two parameters", example, err, s)
	}
}

// TestValueIsAMetric: an expression, value(...), can be the spec's metric, one of several, the gate's or part of a
// requirement. However it is written, the plan has it in one spelling, as the sixth metric after the five usual ones.
// Unknown values and syntax errors are refused at their place.
func TestValueIsAMetric(t *testing.T) {
	const head = "name: night\ndataset: clicks\ntrials: 1\nobjective: binary\nparams: {num_iterations: 5}\n"
	const name = "value(label * 4 - (prediction > 0.1 ? 1 : 0))"
	m := &dataset.Manifest{Name: "clicks", Version: "0123456789abcdef", Label: dataset.LabelInfo{Kind: dataset.Binary},
		Sample: dataset.SampleInfo{Rows: 1000}, Features: []dataset.Feature{{Name: "f", Bins: 255}},
		Splits: []dataset.Rows{{Name: "train", Rows: 10_000, LabelMean: 0.3},
			{Name: "valid", Rows: 1000, LabelMean: 0.3}, {Name: "calib", Rows: 1000, LabelMean: 0.3},
			{Name: "test", Rows: 1000, LabelMean: 0.3}},
		Files: []dataset.FileInfo{{Name: "train/rows.arrow", Bytes: 1 << 20}}}
	build := func(text string) (*Planned, error) {
		s, err := sweep.ParseSpec("sweep.yaml", []byte(head+text), Vocabulary())
		if err != nil {
			return nil, err
		}
		return Build(Inputs{Spec: s, Manifest: m, Job: func(sweep.ID) string { return "" }, Now: time.Unix(1, 0)})
	}

	const metrics = 6 // the five usual ones, and then the expression
	for _, text := range []string{
		"metric: {value: \"label*4 - (prediction > .1 ? 1 : 0)\"}",
		"metric: value(label*4-(prediction>0.1?1:0))",
		"metric: [{value: \"label*4 - (prediction > .1 ? 1 : 0)\"}, model_bytes]",
		"metric: auc\nrequire: [\"value(label*4 - (prediction > .1 ? 1 : 0)) > 0.2\"]",
		"metric: auc\ngate: {metric: \"value(label*4 - (prediction > .1 ? 1 : 0))\"}",
		"metric: {value: \"label*4 - (prediction > .1 ? 1 : 0)\"}\ngate: {margin: 0.1}",
	} {
		p, err := build(text)
		if err != nil {
			t.Errorf("%s: got error %v; want none", text, err)
			continue
		}
		notes := strings.Join(p.Notes, "\n")
		if strings.Contains(notes, "trials stop by log_loss, and "+name+" chooses") != (p.Spec.Metric == name) {
			t.Errorf("%s: the notes are %s; want that trials stop by log loss where another metric chooses, and only "+
				"there", text, notes)
		}
		if len(p.Metrics) != metrics || p.Metrics[metrics-1] != name ||
			p.Spec.Metric != name && p.Spec.Metric != "auc" || !p.Maximize ||
			p.Spec.Gate != nil && p.Spec.Gate.Metric != name {
			t.Errorf("%s: the plan has metric %s among %v, gate %+v; want %s as the last of %d", text, p.Spec.Metric,
				p.Metrics, p.Spec.Gate, name, metrics)
		}
	}

	for text, want := range map[string]string{ // line 6 is the first after head
		"metric: {value: \"label * bidd - prediction\"}": "dataset clicks has no values of \"bidd\"; list it under " +
			"values: in its dataset.yaml",
		"metric: {value: \"label * 4 -\"}": "6:10: \"label * 4 -\": column 11: unexpected token EOF",
		"metric: {valu: \"label * 4\"}":    `sweep.yaml:6:10: unknown field "valu"`,
		"metric: {value: prediction}\nsearch: {stop: {rule: asha, by: trees}, fixed: [{}]}": "no tree is judged by " +
			"value(prediction), so trials cannot be compared by trees",
	} {
		if _, err := build(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected an error with %s", text, err, want)
		}
	}
}
