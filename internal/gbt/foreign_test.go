package gbt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"coppice/internal/problem"
)

// TestLightGBMsParameters: what a LightGBM user's file says is accepted where it is what happens anyway, and refused in
// words where it is not.
func TestLightGBMsParameters(t *testing.T) {
	params := map[string]any{"boosting": "gbdt", "verbose": -1, "deterministic": true, "force_col_wise": true,
		"device_type": "cpu", "tree_learner": "serial", "bagging_seed": 3, "linear_tree": false, "num_leaves": 7,
		"objective": "binary"}
	p, err := ParseParams(params)
	if err != nil || p.NumLeaves != 7 {
		t.Fatalf("got %d leaves and %v; want 7", p.NumLeaves, err)
	}
	notes := NoEffect(params)
	if len(notes) != 7 || !strings.HasPrefix(notes[1], "deterministic has no effect here: ") {
		t.Errorf("the notes are %q; want one for each of seven parameters, by name", notes)
	}

	for name, tc := range map[string]struct {
		value any
		says  string
	}{
		"boosting_type":         {"darts", "use gbdt, dart or rf"},
		"data_sample_strategy":  {"mvs", "use bagging or goss"},
		"device":                {"gpu", "on CPUs only"},
		"linear_tree":           {true, "no linear trees"},
		"top_rate":              {0.3, "has no effect without data_sample_strategy: goss"},
		"forcedsplits_filename": {"splits.json", "the best that the rows have"},
		"lambdarank_position_bias_regularization": {0.1, "no place at which a row was shown is learnt from"},
		"max_bin_by_feature":                      {"3,4", "LightGBM has it"},
		"num_class":                               {3, "it belongs to multiclass and multiclassova"},
		"num_leavess":                             {3, `there is no such training parameter (did you mean "num_leaves"?)`},
	} {
		_, err := ParseParams(map[string]any{name: tc.value})
		var of *ParamError
		if !errors.As(err, &of) || of.Name != name || !strings.Contains(err.Error(), tc.says) ||
			problem.Of(err) != problem.Input {
			t.Errorf("%s: %v: got %v; want an error of the input that says %q", name, tc.value, err, tc.says)
		}
	}
}

// TestForeignNamesAreForeign: no name of another library's parameter is one of ours, or there twice.
func TestForeignNamesAreForeign(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range slices.Concat(foreignParams, elsewhere) {
		for _, name := range append(strings.Fields(f.aliases), f.name) {
			if findParam(name) != nil || seen[name] {
				t.Errorf("%s is a parameter here, or listed twice", name)
			}
			seen[name] = true
		}
		if f.why == "" {
			t.Errorf("%s: no reason", f.name)
		}
	}
}

// TestPlansOfEarlierBuilds: what such a plan states of parameters that are gone is accepted at their defaults, and not
// told as a choice.
func TestPlansOfEarlierBuilds(t *testing.T) {
	params := Defaults().Map()
	params["forcedsplits_filename"], params["monotone_constraints_method"] = "", "basic"
	params["lambdarank_position_bias_regularization"] = 0.0
	if p, err := ParseParams(params); err != nil || p != Defaults() {
		t.Errorf("got %+v, %v; want the defaults", p, err)
	}
	if changed := Changed(params); len(changed) > 0 {
		t.Errorf("changed: got %q, want none", changed)
	}
	params["forcedsplits_filename"], params["num_leaves"] = "{}", 7.0
	if changed := Changed(params); !slices.Equal(changed, []string{"forcedsplits_filename", "num_leaves"}) {
		t.Errorf("changed: got %q, want the two that are", changed)
	}
}
