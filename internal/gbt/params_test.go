package gbt

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/strictyaml"
)

func TestParseParams(t *testing.T) {
	p, err := ParseParams(map[string]any{
		"eta": 0.3, "num_leaves": 63.0, "reg_lambda": 2, "subsample": 0.5, "bagging_freq": int64(1),
		"objective": "l2", "random_state": uint64(9), "boost_from_average": false, "max_depth": -5.0,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.LearningRate, want.NumLeaves, want.LambdaL2, want.BaggingFraction, want.BaggingFreq = 0.3, 63, 2, 0.5, 1
	want.Objective, want.Seed, want.BoostFromAverage, want.MaxDepth = "regression", 9, false, -5
	if p != want {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
}

// TestRandomTrialsSetEveryParameter: what random trials never set, no test compares with the reference.
func TestRandomTrialsSetEveryParameter(t *testing.T) {
	unraced(t)
	usual, set := Defaults().Map(), map[string]bool{}
	for seed := range uint64(200) {
		for name, v := range randomTrial(seed, tableOfFew).p.Map() {
			set[name] = set[name] || v != usual[name]
		}
		if seed%20 > 0 {
			continue
		}
		for _, objective := range Objectives() { // as in TestObjectivesAgainstTheReference
			trial := randomTrial(seed, tableOfFew).withObjective(objective, rand.New(rand.NewPCG(seed, 5)))
			for name, v := range trial.p.Map() {
				set[name] = set[name] || v != usual[name]
			}
		}
	}
	// have tests of their own
	ends := []string{"early_stopping_round", "early_stopping_min_delta"}
	for _, s := range trainedWith {
		if !set[s.name] && !slices.Contains(ends, s.name) {
			t.Errorf("no random trial sets %s: draw it in randomParams (property_test.go), and have the reference "+
				"(reference_test.go) use it", s.name)
		}
	}
}

// TestParametersAreDocumented: a person who looks for a parameter finds it in docs/sweep.md.
func TestParametersAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "sweep.md")))(t)
	_, part, _ := strings.Cut(string(text), "\n## Parameters\n")
	part, _, _ = strings.Cut(part, "\n### ")
	for _, s := range trainedWith {
		if !strings.Contains(part, "`"+s.name+"`") {
			t.Errorf("the part Parameters of docs/sweep.md lacks `%s`: add it to the list, or to the table with what "+
				"it does", s.name)
		}
	}
}

func TestParseParamsRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		in   map[string]any
		want string
	}{
		"unknown": {map[string]any{"num_leafs": 3},
			`num_leafs: there is no such training parameter (did you mean "num_leaves"?)`},
		"near none": {map[string]any{"qqqqqqqqqqqq": 3}, "qqqqqqqqqqqq: there is no such training parameter" +
			strictyaml.Suggest("qqqqqqqqqqqq", paramWords())},
		"twice": {map[string]any{"eta": 0.1, "learning_rate": 0.1},
			"learning_rate: says the same as eta; keep one"},
		"text":       {map[string]any{"num_leaves": "many"}, `num_leaves: expected a number, found "many"`},
		"digits":     {map[string]any{"bagging_freq": "4"}, `bagging_freq: expected a number, found "4"`},
		"nothing":    {map[string]any{"bagging_freq": nil}, "bagging_freq: expected a number, found nothing"},
		"often":      {map[string]any{"bagging_freq": -1}, "bagging_freq: -1 is outside [0, 1e+06]"},
		"fraction":   {map[string]any{"num_leaves": 3.5}, "num_leaves: expected a whole number, found 3.5"},
		"too low":    {map[string]any{"num_leaves": 1}, "num_leaves: 1 is outside [2, 131072]"},
		"open bound": {map[string]any{"learning_rate": 0}, "learning_rate: 0 is outside (0, 100]"},
		"NaN":        {map[string]any{"lambda_l2": math.NaN()}, "lambda_l2: NaN is outside [0, 1e+300]"},
		"bool":       {map[string]any{"is_unbalance": 1}, "is_unbalance: expected true or false, found 1"},
		"objective": {map[string]any{"objective": "xentlambda"},
			`objective: LightGBM has objective "xentlambda", Coppice does not: it is cross_entropy with another ` +
				"meaning of weights; use cross_entropy"},
		"no objective": {map[string]any{"objective": "huba"},
			`objective: there is no objective "huba" (did you mean "huber"?)`},
		"of another objective": {map[string]any{"objective": "l2", "alpha": 0.5},
			"alpha: has no effect with objective regression; it belongs to huber and quantile"},
		"one against the rest": {map[string]any{"objective": "ova"}, `objective: LightGBM has objective "ova", ` +
			"Coppice does not: use multiclass, which has the lower log loss"},
		"a quantile": {map[string]any{"objective": "quantile", "alpha": 2},
			"alpha: 2 is not a quantile; use a number between 0 and 1"},
		"directions": {map[string]any{"mc": "1,0"}, "mc: LightGBM has it, Coppice does not: a number may raise and " +
			"lower a prediction; ignore_column leaves it out (asked for: 1,0)"},
		"a method": {map[string]any{"mc_method": "advanced"},
			"mc_method: LightGBM has it, Coppice does not: there are no directions to keep (asked for: advanced)"},
		"smoothing": {map[string]any{"path_smooth": 1.0}, "path_smooth: LightGBM has it, Coppice does not: leaves " +
			"are not drawn towards their parents; use lambda_l2 and min_data_in_leaf (asked for: 1)"},
		"groups": {map[string]any{"interaction_constraints": "[0,1]"}, "interaction_constraints: LightGBM has it, " +
			"Coppice does not: all features may meet on a path; ignore_column leaves features out (asked for: " +
			"[0,1])"},
		"class bags": {map[string]any{"neg_bagging": 0.5}, "neg_bagging: LightGBM has it, Coppice does not: positive " +
			"and negative rows are drawn alike; use bagging_fraction with bagging_freq: 1, or scale_pos_weight " +
			"(asked for: 0.5)"},
		"whole queries": {map[string]any{"bagging_by_query": true}, "bagging_by_query: LightGBM has it, Coppice does " +
			"not: rows are drawn, whatever their query; use bagging_fraction with bagging_freq: 1 (asked for: true)"},
		"darts": {map[string]any{"boosting": "darts"}, "boosting: LightGBM has it, Coppice does not: trees are " +
			"boosted (gbdt), and there is no dart, rf or goss; use a lower learning_rate with early stopping " +
			"(asked for: darts)"},
		"gains": {map[string]any{"objective": "lambdarank", "label_gain": "0,1,x"},
			`label_gain: "x" is not a gain; use numbers of 0 or more, such as "0,1,3,7"`},
		"one gain": {map[string]any{"objective": "lambdarank", "label_gain": "1"},
			`label_gain: there is a gain of one grade only; give one for each, such as "0,1,3,7"`},
		"both": {map[string]any{"is_unbalance": true, "scale_pos_weight": 2},
			"is_unbalance: cannot be combined with scale_pos_weight; keep one"},
		"not a value": {map[string]any{"objective": 3}, "objective: expected text, found 3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseParams(tc.in)
			var pe *ParamError
			if !errors.As(err, &pe) || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %v", err, tc.want)
			}
		})
	}
}

// TestMapIsComplete makes sure that the table has every field: configurations with equal maps are the same.
func TestMapIsComplete(t *testing.T) {
	fields := reflect.TypeFor[Params]().NumField()
	if len(trainedWith) != fields {
		t.Errorf("%d parameters in the table, %d in the struct", len(trainedWith), fields)
	}
	p, err := ParseParams(Defaults().Map())
	if err != nil || p != Defaults() {
		t.Errorf("the defaults come back as %+v, %v", p, err)
	}
	seen := map[string]bool{}
	for _, w := range paramWords() {
		if seen[w] {
			t.Errorf("%q stands for two parameters", w)
		}
		seen[w] = true
	}
}

func FuzzParseParams(f *testing.F) {
	f.Add("num_leaves", 3.0, "x", false)
	f.Add("objective", 0.0, "binary", true)
	f.Fuzz(func(t *testing.T, name string, number float64, word string, flag bool) {
		for _, v := range []any{number, word, flag, nil, []any{number}} {
			p, err := ParseParams(map[string]any{name: v})
			var pe *ParamError
			if err != nil && !errors.As(err, &pe) {
				t.Fatalf("untyped error %v", err)
			}
			if err == nil && strings.Contains(name, "num_leaves") && (p.NumLeaves < 2 || p.NumLeaves > 131072) {
				t.Fatalf("num_leaves %d was let through", p.NumLeaves)
			}
		}
	})
}

// FuzzConf: whatever the file holds, it is refused, or becomes YAML of as many lines that can be read.
func FuzzConf(f *testing.F) {
	f.Add([]byte("# of LightGBM\ntask = train\nmetric = log_loss,auc\nnum_trees = 100   # trees\n"))
	f.Add([]byte("a = \"x\n: - {\nb=1,,e\r\nc = -\x00\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		yaml, err := fromConf("x.conf", text)
		if err != nil {
			return
		}
		if got, want := strings.Count(string(yaml), "\n"), strings.Count(string(text), "\n"); got-want > 1 ||
			got < want {
			t.Errorf("got %d lines, want %d", got, want)
		}
		values := map[string]any{}
		_, err = strictyaml.Decode("x.conf", yaml, &values)
		if err != nil && !strings.Contains(err.Error(), "twice") && !strings.Contains(err.Error(), "duplicate") &&
			len(yaml) < 1<<16 {
			t.Errorf("%q: got %v, want values", yaml, err)
		}
	})
}
