package gbt

import (
	"bufio"
	"bytes"
	"math"
	"testing"

	"github.com/dmitryikh/leaves"

	"coppice/internal/must"
)

// TestMerge merges models of a table with numbers, categories and missing values. The merged text predicts the mean of
// their scores, by leaves, by Predict and on bins, and reads and merges to the same bytes.
func TestMerge(t *testing.T) {
	d := randomTable(tableSpec{rows: 2000, numerical: 4, categorical: 2, bins: 20, missing: 0.1, seed: 3})
	var models []*Model
	var scores [][]float64
	for i, more := range []map[string]any{{"num_leaves": 31.0}, {"num_leaves": 4.0, "learning_rate": 0.3},
		{"feature_fraction": 0.5, "max_cat_to_onehot": 1.0}} {
		more["num_iterations"] = 5.0 + float64(i)
		p := must.Get(ParseParams(more))(t)
		m := mustTrain(t, &d.Data, p, Options{}).Model
		raw := must.Get(m.PredictBinned(&d.Data, 1))(t)
		models, scores = append(models, m), append(scores, raw)
	}
	text := func(models []*Model) string {
		m := must.Get(Merge(models))(t)
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	merged := text(models)

	// Models read from their files merge to the same text.
	var again []*Model
	for _, m := range models {
		var b bytes.Buffer
		if _, err := m.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		m := must.Get(ReadModel(&b))(t)
		again = append(again, m)
	}
	if text(again) != merged {
		t.Error("models read from files merge to another text than the same models before they were written")
	}

	m, err := ReadModel(bytes.NewBufferString(merged))
	if err != nil {
		t.Fatalf("reading the merged text: %v", err)
	}
	if len(m.Trees) != 5+6+7 {
		t.Errorf("the merged model has %d trees, expected the 18 of its members", len(m.Trees))
	}
	other, err := leaves.LGEnsembleFromReader(bufio.NewReader(bytes.NewBufferString(merged)), false)
	if err != nil {
		t.Fatalf("leaves reading the merged text: %v", err)
	}
	binned := must.Get(Merge(models))(t)
	raw := must.Get(binned.PredictBinned(&d.Data, 1))(t)
	for r := range d.Rows {
		want := 0.0
		for _, raw := range scores {
			want += raw[r] / 3
		}
		for name, got := range map[string]float64{"leaves": other.PredictSingle(d.row(r), 0),
			"Predict":       m.Predict(d.row(r)),
			"PredictBinned": raw[r]} {
			if !(math.Abs(got-want) < 1e-12) {
				t.Fatalf("row %d: %s gives %v, the mean of the members' scores is %v", r, name, got, want)
			}
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 3, bins: 10, seed: 4})
	m := mustTrain(t, &d.Data, Defaults(), Options{}).Model
	other := func(edit func(*Model)) []*Model {
		o := m.truncated(len(m.Trees))
		edit(o)
		return []*Model{m, o}
	}
	for name, models := range map[string][]*Model{
		"nothing":           nil,
		"another objective": other(func(m *Model) { m.Objective = "regression" }),
		"other features":    other(func(m *Model) { m.FeatureNames = []string{"a", "b", "c"} }),
		"other ranges":      other(func(m *Model) { m.FeatureInfos = []string{"none", "none", "none"} }),
	} {
		if got, err := Merge(models); err == nil {
			t.Errorf("%s: merged to a model of %d trees, expected an error", name, len(got.Trees))
		}
	}
}
