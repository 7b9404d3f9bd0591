package gbt

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dmitryikh/leaves"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// tinyModel returns the text of a binary model of two trees of four leaves, on two numbers and a category.
func tinyModel(t testing.TB) []byte {
	d := randomTable(tableSpec{rows: 3000, numerical: 2, categorical: 1, bins: 10, missing: 0.1, seed: 11})
	p := small()
	p.NumIterations, p.NumLeaves = 2, 4
	return text(t, mustTrain(t, &d.Data, p, Options{}).Model)
}

// TestReadModelRefuses: ReadModel refuses a model that has been edited to be invalid, ambiguous or of a kind that it
// cannot read. Each case is one edit of a valid model: the first place of a text is replaced. Where a line gets another
// value as a whole, the new text ends with "\nx=". So the old value comes to stand in a line of its own, which is then
// removed.
func TestReadModelRefuses(t *testing.T) {
	good := string(tinyModel(t))
	oldValue := regexp.MustCompile(`(?m)^x=.*\n`)
	for name, edit := range map[string][2]string{
		"not a model":        {"tree\n", "treasure\n"},
		"needs 3 outputs":    {"objective=binary sigmoid:1", "objective=multiclass num_class:3"},
		"other sigmoid":      {"sigmoid:1", "sigmoid:0.5"},
		"average_output=1":   {"version=v3", "version=v3\naverage_output=1"},
		"multiclass":         {"num_class=1", "num_class=3"},
		"feature count":      {"max_feature_idx=2", "max_feature_idx=7"},
		"missing tree":       {"Tree=1", "Tree=2"},
		"linear tree":        {"is_linear=0", "is_linear=1"},
		"leaves":             {"num_leaves=4", "num_leaves=400000000"},
		"list too short":     {"leaf_value=", "leaf_value=1 "},
		"number":             {"threshold=", "threshold=x"},
		"huge feature":       {"split_feature=", "split_feature=9999999999999999999"},
		"child loop":         {"left_child=", "left_child=0 0 0\nx="},
		"unknown child":      {"right_child=", "right_child=77 -2 -3\nx="},
		"value not finite":   {"leaf_value=", "leaf_value=NaN 0 0 0\nx="},
		"key twice":          {"shrinkage=", "shrinkage=1\nshrinkage="},
		"category set":       {"num_cat=", "num_cat=9"},
		"negative num_cat":   {"num_cat=", "num_cat=-1\nx="},
		"shrinkage":          {"shrinkage=", "shrinkage=many"},
		"decision too large": {"decision_type=", "decision_type=1000 0 0\nx="},
		"hexadecimal":        {"threshold=", "threshold=0x1p3 0 0\nx="},
		"underscore":         {"leaf_value=", "leaf_value=1_000 0 0 0\nx="},
		"tree size":          {"tree_sizes=", "tree_sizes=1"},
		"unknown key":        {"shrinkage=", "Shrinkage="},
		"cut short":          {"end of trees", "end of tre"},
		"endless head":       {"feature_infos=", "feature_infos=" + strings.Repeat("[0:1] ", 3<<20)}, // 18 of 16 MiB
		"empty":              {good, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, edit[0], edit[1], 1)
			bad = oldValue.ReplaceAllString(bad, "")
			if bad == good {
				t.Fatal("the edit changes nothing, want an invalid model")
			}
			_, err := ReadModel(strings.NewReader(bad))
			if !problem.Is(err, problem.Input) ||
				strings.Contains(err.Error(), "is not a key") != (name == "unknown key") {
				t.Errorf("reading the damaged model: got %v, expected an error about the input, and about an unknown "+
					"key only where that is the case", err)
			}
		})
	}
}

// TestReadModelPredictsByLightGBMsRules: a model with nodes that only LightGBM writes predicts as LightGBM does. At its
// root zeros count as missing and go left. At the node below it nothing is missing, and NaN counts as 0. An infinite
// threshold, which LightGBM writes, is read, and one that is no number refused.
//
// The root and node 1 ask feature a (decision_type 6: zeros are missing, and go left; 2: nothing is missing), and node
// 2 feature b for a category: 0, 1 and 40 go left, bits 0 and 1 of a set's first word and bit 8 of its second.
func TestReadModelPredictsByLightGBMsRules(t *testing.T) {
	const model = `tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
objective=regression
feature_names=a b
feature_infos=[0:1] 0:1:2:40
tree_sizes=212

Tree=0
num_leaves=4
num_cat=1
split_feature=0 0 1
threshold=0.5 -3 0
decision_type=6 2 1
left_child=1 -1 -3
right_child=2 -2 -4
leaf_value=1 2 3 4
cat_boundaries=0 2
cat_threshold=3 256
is_linear=0
shrinkage=1


end of trees
`
	m := must.Get(ReadModel(strings.NewReader(model)))(t)
	for _, word := range []string{"inf", "nan"} { // in place of the root's threshold; LightGBM reads both
		text := strings.Replace(model, "threshold=0.5 ", "threshold="+word+" ", 1)
		endless, err := ReadModel(strings.NewReader(text))
		if word == "nan" {
			want := `line 16: tree 0: threshold: "nan" at position 0`
			must.Say(t, "a threshold of nan", err, want)
		} else if err != nil || endless.Predict([]float64{math.MaxFloat64, 1}) != 2 {
			t.Errorf("a threshold of inf: got error %v, want none, and 2 for the largest number, which goes left", err)
		}
	}
	nan := math.NaN()
	for _, tc := range []struct {
		a, b, want float64
	}{
		{0, 0, 2},    // zero counts as missing at the root and goes left; then 0 > -3
		{nan, 0, 2},  // missing at the root, 0 at the other node
		{-4, 0, 1},   // below both
		{1, 1, 3},    // category 1
		{1, 40, 3},   // category 40, in the second word
		{1, 41, 4},   // not in the set
		{1, 1e12, 4}, // beyond the set
		{1, nan, 4},  // missing categories go right
		{1, -2, 4},   // none, as all from -1 down
		{1, 1.7, 3},  // truncated
		{1, -0.5, 3}, // truncated, to category 0
		{1, -1, 4},
	} {
		must.Equal(t, m.Predict([]float64{tc.a, tc.b}), tc.want, "predict(%v, %v)", tc.a, tc.b)
	}
}

// TestFeatureNamesAreReadable: names in a model file are unique, not empty, and have no character that a reader
// stumbles over.
func TestFeatureNamesAreReadable(t *testing.T) {
	names, _ := describe([]Feature{{Name: "a b"}, {Name: "a_b"}, {Name: "x=y"}, {Name: ""}, {Name: "a_b_1"},
		{Name: "prix €"}})
	seen := map[string]bool{}
	for _, n := range names {
		if n == "" || seen[n] || strings.ContainsAny(n, " =€") {
			t.Errorf("got the names %q, want %q to be unique, not empty, and without blanks, = and €", names, n)
		}
		seen[n] = true
	}
}

// TestModelsOfOtherObjectives: models of objectives that are not trained, LightGBM's and those of earlier builds, are
// read. Transform turns their scores into predictions as the objective says: fair and mape predict the score itself,
// with sqrt its signed square, and multiclassova a probability of each class by itself.
func TestModelsOfOtherObjectives(t *testing.T) {
	d := ofClasses(tableSpec{rows: 400, numerical: 2, bins: 20, seed: 3}, 3)
	numbers, classes := small(), small()
	numbers.Objective, classes.Objective, classes.NumClass = "regression", softmaxName, 3
	for objective, p := range map[string]Params{"fair": numbers, "mape": numbers, "fair sqrt": numbers,
		"mape sqrt": numbers, "multiclassova num_class:3 sigmoid:1": classes} {
		m := mustTrain(t, &d.Data, p, Options{}).Model
		other := strings.Replace(string(text(t, m)), "objective="+m.Objective, "objective="+objective, 1)
		read, err := ReadModel(strings.NewReader(other))
		if err != nil {
			t.Fatalf("%s: %v", objective, err)
		}
		got := make([]float64, read.Outputs())
		read.PredictRow(d.row(0), got)
		want := slices.Clone(got)
		for i, raw := range want {
			switch objective {
			case "fair sqrt", "mape sqrt":
				want[i] = math.Copysign(raw*raw, raw)
			case "multiclassova num_class:3 sigmoid:1":
				want[i] = Probability(raw)
			}
		}
		read.Transform(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: predicts %v, want %v", objective, got, want)
		}
	}
}

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
		must.Get(m.WriteTo(&b))(t)
		return b.String()
	}
	merged := text(models)

	// Models read from their files merge to the same text.
	var again []*Model
	for _, m := range models {
		var b bytes.Buffer
		must.Get(m.WriteTo(&b))(t)
		m := must.Get(ReadModel(&b))(t)
		again = append(again, m)
	}
	if text(again) != merged {
		t.Error("models read from files merge to another text, want that of the same models before they were written")
	}

	m, err := ReadModel(bytes.NewBufferString(merged))
	if err != nil {
		t.Fatalf("reading the merged text: %v", err)
	}
	must.Equal(t, len(m.Trees), 5+6+7, "trees of the merged model")
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

// TestMergeRefuses: Merge refuses models that differ in objective, features or ranges, and an empty list.
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

// TestShiftMovesEveryScore compares a model with a shift to the same one without: all scores differ by the shift, the
// scores passed to Eval equal the model's to the bit, and the trees are otherwise the same.
func TestShiftMovesEveryScore(t *testing.T) {
	const shift = -2.75
	d := randomTable(tableSpec{rows: 4000, numerical: 4, categorical: 2, bins: 30, missing: 0.1, seed: 3})
	v := randomTable(tableSpec{rows: 1000, numerical: 4, categorical: 2, bins: 30, missing: 0.1, seed: 3})
	p := small()
	p.BaggingFraction, p.BaggingFreq = 0.7, 1
	var last []float64
	opt := Options{Shift: shift, Valid: &v.Data, Eval: func(raw []float64) (float64, error) {
		last = slices.Clone(raw)
		return 0, nil
	}}
	plain, shifted := mustTrain(t, &d.Data, p, Options{}).Model, mustTrain(t, &d.Data, p, opt).Model
	binned, err := shifted.PredictBinned(&v.Data, 2)
	if err != nil || !slices.Equal(binned, last) {
		t.Errorf("Eval got other scores than the model predicts (%v), want the same bits", err)
	}
	raw := make([]float64, v.Rows)
	for r := range raw {
		raw[r] = shifted.Predict(v.row(r))
		if raw[r] != last[r] || math.Abs(raw[r]-plain.Predict(v.row(r))-shift) > 1e-12 {
			t.Fatalf("row %d: predicted %v, Eval got %v, want both to be %v, the score without a shift, and %v", r,
				raw[r], last[r], plain.Predict(v.row(r)), shift)
		}
	}
	checkAgainstLeaves(t, shifted, v, raw)
	for i, tree := range shifted.Trees {
		if i > 0 && !bytes.Equal(tree.formatTree(i), plain.Trees[i].formatTree(i)) {
			t.Fatalf("tree %d is another one with a shift, want only the first to differ", i)
		}
	}
	must.Equal(t, shifted.Trees[0].InternalValue[0], plain.Trees[0].InternalValue[0]+shift, "the first root's value")
}

// TestShiftRightsDownSampling: a model trained on a tenth of the negative rows, with a shift of log(.1), predicts as
// many positive rows among all as there are. Its log loss is lower by .1 or more than without the shift, with which the
// odds are ten times too high.
func TestShiftRightsDownSampling(t *testing.T) {
	all := randomTable(tableSpec{rows: 40_000, numerical: 5, categorical: 1, bins: 30, seed: 5})
	rng := rand.New(rand.NewPCG(5, 5))
	few := all.Data
	for r, y := range all.Label {
		if y == 1 || rng.Float64() < 0.1 {
			few.Subset = append(few.Subset, uint32(r))
		}
	}
	p := small()
	loss := logLoss(all.Label)
	wrong := mustTrain(t, &few, p, Options{Valid: &all.Data, Eval: loss})
	right := mustTrain(t, &few, p, Options{Valid: &all.Data, Eval: loss, Shift: math.Log(0.1)})
	predicted, positive := 0.0, 0.0
	for r := range all.Rows {
		predicted += Probability(right.Model.Predict(all.row(r)))
		positive += float64(all.Label[r])
	}
	if math.Abs(predicted/positive-1) > 0.05 {
		t.Errorf("%.0f positive rows are predicted, want %.0f within 5 %%, as many as there are", predicted, positive)
	}
	if !(right.Metric < wrong.Metric-0.1) {
		t.Errorf("log loss of all rows: got %v with the shift, want .1 less than %v without it", right.Metric,
			wrong.Metric)
	}
}

// TestShiftOfAConstantModel: a model without a split has the shift, too, and one that is not finite is refused.
func TestShiftOfAConstantModel(t *testing.T) {
	d := randomTable(tableSpec{rows: 500, numerical: 2, bins: 10, seed: 4})
	p := small()
	p.MinGainToSplit = 1e9
	plain, shifted := mustTrain(t, &d.Data, p, Options{}).Model, mustTrain(t, &d.Data, p, Options{Shift: 3}).Model
	must.Equal(t, shifted.Predict(d.row(0)), plain.Predict(d.row(0))+3, "what is predicted")
	for _, bad := range []float64{math.NaN(), inf, -inf} {
		var pe *ParamError
		if _, err := Train(t.Context(), &d.Data, p, Options{Shift: bad}); !errors.As(err, &pe) || pe.Name != "shift" {
			t.Errorf("shift %v: got error %v; want one about shift", bad, err)
		}
	}
}

// FuzzParamsJSON parses parameters from JSON. What is accepted has one canonical form that survives JSON, fits a model
// file's lines, and can be trained with: the trainer may refuse it with a typed error but never panics.
func FuzzParamsJSON(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"num_leaves": 3, "eta": 0.5, "objective": "mse"}`, `{"max_depth": -1e300, "lambda_l2": 1e300}`,
		`{"learning_rate": 100, "max_delta_step": 1e300, "min_data_in_leaf": 0}`,
		`{"ignore_column": "name:numb,cat c"}`,
		`{"ignore_column": "0,1,2"}`, `{"blacklist": [0], "seed": 9007199254740993}`,
		`{"bagging_fraction": 1e-300, "bagging_freq": 1}`,
		`{"feature_fraction": 5e-324, "feature_fraction_bynode": 0.5}`,
		`{"cat_smooth": 0, "cat_l2": 0, "min_data_per_group": 1, "max_cat_to_onehot": 1}`,
		`{"lambda_l1": 1e300}`, `{"min_gain_to_split": 1e300}`, `{"num_leaves": null, "num_leaves": true}`,
		`{"scale_pos_weight": 1e9}`,
		`{"min_sum_hessian_in_leaf": 0, "min_data_in_leaf": 0, "num_leaves": 131072, "max_bin": 2}`,
		`{"scale_pos_weight": 5e-324}`,
		`{"extra_trees": true}`, `{"path_smooth": 5e-324}`, `{"lambda_l1": 1, "max_delta_step": 0.1}`,
		`{"mc": [1, -1, 0]}`,
		`{"interaction_constraints": [[0, 2], [1]]}`, `{"feature_fraction_bynode": 0.1}`,
	} {
		f.Add(text)
	}
	d := randomTable(tableSpec{rows: 150, numerical: 2, categorical: 1, bins: 12, missing: 0.1, seed: 2})
	f.Fuzz(func(t *testing.T, text string) {
		var m map[string]any
		if json.Unmarshal([]byte(text), &m) != nil {
			return
		}
		p, err := ParseParams(m)
		var pe *ParamError
		if err != nil {
			if !errors.As(err, &pe) || pe.Name == "" && !hasKey(m, "") {
				t.Fatalf("refused with %#v; want an error that names one of the given parameters", err)
			}
			return
		}
		data, err := json.Marshal(p.Map())
		if err != nil {
			t.Fatalf("%+v cannot be written as JSON: %v", p, err)
		}
		var back map[string]any
		must.Do(t, json.Unmarshal(data, &back))
		if again, err := ParseParams(back); err != nil || again != p || !reflect.DeepEqual(again.Map(), p.Map()) {
			t.Fatalf("%s comes back as %+v, not %+v (%v)", data, again, p, err)
		}
		p.NumIterations, p.EarlyStoppingRound = min(p.NumIterations, 3), 0
		res, err := Train(t.Context(), &d.Data, p, Options{Threads: 1})
		if err != nil {
			if !errors.As(err, &pe) && !errors.Is(err, errDiverged) && !errors.Is(err, ErrData) {
				t.Fatalf("training with %+v: got %v, expected an error about a parameter, the data or divergence", p,
					err)
			}
			return
		}
		for _, line := range res.Model.Params {
			if strings.ContainsAny(line, "\n\r") || line[0] != '[' || line[len(line)-1] != ']' {
				t.Fatalf("a line of the model file is %q, want a single one in brackets", line)
			}
		}
	})
}

func hasKey(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

// FuzzModelText: any data is refused, or gives a model that predicts any row without a panic. Written and read again,
// it has the same text, byte for byte, and predicts the same.
func FuzzModelText(f *testing.F) {
	for seed := range uint64(6) {
		trial := randomTrial(seed, tableOfFew)
		trial.p.NumIterations, trial.p.NumLeaves = min(trial.p.NumIterations, 2), 4 // short texts fuzz better
		f.Add(trial.train(f, Options{Threads: 1}), seed)
	}
	good := tinyModel(f)
	f.Add(good, uint64(9))
	f.Add(bytes.Replace(good, []byte("num_cat=1"), []byte("num_cat=2"), 1), uint64(9))
	f.Add([]byte("tree\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\nobjective=regression\n"+
		"feature_names=a\nfeature_infos=none\nversion=v3\nlabel_index=0\ntree_sizes=44\n\nTree=0\nnum_leaves=1\n"+
		"num_cat=0\nleaf_value=1\n\nend of trees\n"), uint64(9))
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		m, err := ReadModel(bytes.NewReader(data))
		if err != nil {
			if !problem.Is(err, problem.Input) {
				t.Fatalf("reading a model: got %v, expected an error about the input", err)
			}
			return
		}
		first := text(t, m)
		again, err := ReadModel(bytes.NewReader(first))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if second := text(t, again); !bytes.Equal(second, first) {
			t.Fatalf("written twice: %s", firstDifference(second, first))
		}
		x := wildRows(seed, m.Features())
		out, back := make([]float64, 16), make([]float64, 16)
		must.Do(t, errors.Join(m.PredictAll(x, out, 1), again.PredictAll(x, back, 1)))
		for i := range out {
			if math.Float64bits(out[i]) != math.Float64bits(back[i]) && out[i] == out[i] {
				t.Fatalf("row %d: predicted %v, and %v after a round trip; want the same bits", i, out[i], back[i])
			}
		}
	})
}

// wildRows returns 16 rows of values, many of them unusual.
func wildRows(seed uint64, features int) []float64 {
	rng := rand.New(rand.NewPCG(seed, 9))
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e300, -1e300, 5e-324, 1e-35,
		-1e-35, 1 << 31, 1<<31 - 1, -1, 255.5}
	x := make([]float64, 16*features)
	for i := range x {
		x[i] = odd[rng.IntN(len(odd))]
		if rng.IntN(2) == 0 {
			x[i] = float64(rng.IntN(100))
		}
	}
	return x
}
