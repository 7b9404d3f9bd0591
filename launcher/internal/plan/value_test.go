package plan

import (
	"strings"
	"testing"
	"time"

	"coppice/internal/dataset"
	"coppice/internal/sweep"
)

// TestValueIsAMetric: in all places in which a spec names one, and in one spelling.
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

	for text, metrics := range map[string]int{
		"metric: {value: \"label*4 - (prediction > .1 ? 1 : 0)\"}":                      6,
		"metric: value(label*4-(prediction>0.1?1:0))":                                   6,
		"metric: [{value: \"label*4 - (prediction > .1 ? 1 : 0)\"}, model_bytes]":       6,
		"metric: auc\nrequire: [\"value(label*4 - (prediction > .1 ? 1 : 0)) > 0.2\"]":  6,
		"metric: auc\ngate: {metric: \"value(label*4 - (prediction > .1 ? 1 : 0))\"}":   6,
		"metric: {value: \"label*4 - (prediction > .1 ? 1 : 0)\"}\ngate: {margin: 0.1}": 6,
	} {
		p, err := build(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		notes := strings.Join(p.Notes, "\n")
		if strings.Contains(notes, "trials stop by log_loss, and "+name+" chooses") != (p.Spec.Metric == name) {
			t.Errorf("%s: the notes are %s", text, notes)
		}
		if len(p.Metrics) != metrics || p.Metrics[5] != name || p.Spec.Metric != name && p.Spec.Metric != "auc" ||
			!p.Maximize || p.Spec.Gate != nil && p.Spec.Gate.Metric != name {
			t.Errorf("%s: the plan has metric %s among %v, gate %+v", text, p.Spec.Metric, p.Metrics, p.Spec.Gate)
		}
	}

	for text, want := range map[string]string{
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
