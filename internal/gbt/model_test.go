package gbt

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

func tinyModel(t testing.TB) []byte {
	d := randomTable(tableSpec{rows: 3000, numerical: 2, categorical: 1, bins: 10, missing: 0.1, seed: 11})
	p := small()
	p.NumIterations, p.NumLeaves = 2, 4
	return text(t, mustTrain(t, &d.Data, p, Options{}).Model)
}

func TestReadModelRefuses(t *testing.T) {
	good := string(tinyModel(t))
	for name, edit := range map[string][2]string{
		"not a model":        {"tree\n", "treasure\n"},
		"ranking":            {"objective=binary sigmoid:1", "objective=multiclass num_class:3"},
		"other sigmoid":      {"sigmoid:1", "sigmoid:0.5"},
		"random forest":      {"version=v3", "version=v3\naverage_output=1"},
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
		"endless head":       {"feature_infos=", "feature_infos=" + strings.Repeat("[0:1] ", 3<<20)},
		"empty":              {good, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, edit[0], edit[1], 1)
			if bad == good {
				t.Fatal("the edit changes nothing")
			}
			_, err := ReadModel(strings.NewReader(bad))
			if !problem.Is(err, problem.Input) {
				t.Errorf("reading the damaged model: got %v, expected an error about the input", err)
			}
		})
	}
}

// TestReadModelPredictsByLightGBMsRules covers what our own files never contain.
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
cat_threshold=2 256
is_linear=0
shrinkage=1


end of trees
`
	m := must.Get(ReadModel(strings.NewReader(model)))(t)
	for _, word := range []string{"inf", "nan"} { // which LightGBM reads, too
		text := strings.Replace(model, "threshold=0.5 ", "threshold="+word+" ", 1)
		endless, err := ReadModel(strings.NewReader(text))
		if word == "nan" {
			want := `line 16: tree 0: threshold: "nan" at position 0`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("a threshold of nan is refused with %v, expected %s", err, want)
			}
		} else if err != nil || endless.Predict([]float64{math.MaxFloat64, 1}) != 2 {
			t.Errorf("a threshold of inf: %v, and not all rows are below it", err)
		}
	}
	nan := math.NaN()
	for _, tc := range []struct {
		a, b, want float64
	}{
		{0, 0, 2},    // zero counts as missing at the root and goes left; then 0 > -3
		{nan, 0, 2},  // missing means zero at both nodes
		{-4, 0, 1},   // below both
		{1, 1, 3},    // category 1
		{1, 40, 3},   // category 40, in the second word
		{1, 41, 4},   // no bit
		{1, 1e12, 4}, // beyond the set
		{1, nan, 4},  // missing categories go right
		{1, -2, 4},
		{1, 1.7, 3}, // truncated
	} {
		if got := m.Predict([]float64{tc.a, tc.b}); got != tc.want {
			t.Errorf("predict(%v, %v) = %v, want %v", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestFeatureNamesAreReadable(t *testing.T) {
	names, _ := describe([]Feature{{Name: "a b"}, {Name: "a_b"}, {Name: "x=y"}, {Name: ""}, {Name: "a_b_1"},
		{Name: "prix €"}})
	seen := map[string]bool{}
	for _, n := range names {
		if n == "" || seen[n] || strings.ContainsAny(n, " =€") {
			t.Errorf("names %q", names)
		}
		seen[n] = true
	}
}

func FuzzReadModel(f *testing.F) {
	good := tinyModel(f)
	f.Add(good)
	f.Add(bytes.Replace(good, []byte("num_cat=1"), []byte("num_cat=2"), 1))
	f.Add([]byte("tree\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\nobjective=regression\nfeature_names=a\nfeature_infos=none\nversion=v3\nlabel_index=0\ntree_sizes=44\n\nTree=0\nnum_leaves=1\nnum_cat=0\nleaf_value=1\n\nend of trees\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadModel(bytes.NewReader(data))
		if err != nil {
			return
		}
		x := make([]float64, m.Features())
		for _, v := range []float64{0, 1e300, -5, math.NaN(), math.Inf(1)} {
			for i := range x {
				x[i] = v
			}
			m.Predict(x)
		}
		again, err := ReadModel(bytes.NewReader(text(t, m)))
		if err != nil {
			t.Fatalf("what was read cannot be written and read again: %v", err)
		}
		if p, q := m.Predict(x), again.Predict(x); p != q && !(math.IsNaN(p) && math.IsNaN(q)) {
			t.Fatalf("predicts %v, after a round trip %v", p, q)
		}
	})
}

// TestModelsOfOtherObjectives: models of objectives that are not trained, LightGBM's and those of earlier builds, are
// read, and predict by what their scores are.
func TestModelsOfOtherObjectives(t *testing.T) {
	d := ofClasses(tableSpec{rows: 400, numerical: 2, bins: 20, seed: 3}, 3)
	numbers, classes := small(), small()
	numbers.Objective, classes.Objective, classes.NumClass = "regression", softmaxName, 3
	for objective, p := range map[string]Params{"fair": numbers, "mape": numbers, "fair sqrt": numbers,
		"multiclassova num_class:3 sigmoid:1": classes} {
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
			case "fair sqrt":
				want[i] = math.Copysign(raw*raw, raw)
			case "multiclassova num_class:3 sigmoid:1":
				want[i] = Probability(raw)
			}
		}
		if read.Transform(got); !slices.Equal(got, want) {
			t.Errorf("%s: predicts %v, want %v", objective, got, want)
		}
	}
}
