package gbt

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestEveryParameterOfLightGBM: whoever asks for any of LightGBM's parameters, by any name, gets an answer.
// testdata/lightgbm/params.json is what LightGBM 4.7 says of itself: lightgbm.basic._ConfigAliases.
func TestEveryParameterOfLightGBM(t *testing.T) {
	data := must.Get(os.ReadFile(filepath.Join("testdata", "lightgbm", "params.json")))(t)
	var all map[string][]string
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 140 {
		t.Fatalf("%d parameters, %v; want LightGBM's", len(all), err)
	}
	for name, aliases := range all {
		for _, word := range append(aliases, name) {
			if s := findAmong(0, len(paramTable), word); s == nil || s.name != name {
				t.Errorf("LightGBM's %s, called %s: got %+v", name, word, s)
			}
		}
	}
	for _, s := range paramTable {
		if _, err := ParseParams(map[string]any{s.name: 1.0}); s.fine == elsewhere &&
			(err == nil || !strings.Contains(err.Error(), s.note)) {
			t.Errorf("%s as a training parameter: got error %v, want one that says %q", s.name, err, s.note)
		}
	}
}

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
	if len(notes) != 8 || !strings.HasPrefix(notes[2], "deterministic has no effect here: ") {
		t.Errorf("the notes are %q; want one for each of eight parameters, by name", notes)
	}

	for name, tc := range map[string]struct {
		value any
		says  string
	}{
		"boosting_type":         {"dart", "use a lower learning_rate with early stopping"},
		"data_sample_strategy":  {"goss", "use bagging_fraction with bagging_freq: 1"},
		"device":                {"gpu", "on CPUs only"},
		"linear_tree":           {true, "no linear trees"},
		"top_rate":              {0.3, "rows are not drawn by their gradients"},
		"forcedsplits_filename": {"splits.json", "the best that the rows have"},
		"lambdarank_position_bias_regularization": {0.1, "no place at which a row was shown is learnt from"},
		"max_bin_by_feature":                      {"3,4", "LightGBM has it"},
		"num_class":                               {3, "it belongs to multiclass"},
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

// TestParametersHaveOneRow: no name of a parameter is in the table twice, and what is not trained with has a reason.
func TestParametersHaveOneRow(t *testing.T) {
	seen := map[string]bool{}
	for i, s := range paramTable {
		for _, name := range append(strings.Fields(s.aliases), s.name) {
			if seen[name] {
				t.Errorf("%s is listed twice", name)
			}
			seen[name] = true
		}
		if (s.training != nil) != (i < len(trainedWith)) || s.training == nil && s.note == "" {
			t.Errorf("%s: no reason, or not among those of its kind", s.name)
		}
	}
}

// TestPlansOfEarlierBuilds: what such a plan states of parameters that are gone is accepted at their defaults, and not
// told as a choice.
func TestPlansOfEarlierBuilds(t *testing.T) {
	params := Defaults().Map()
	params["forcedsplits_filename"], params["monotone_constraints_method"] = "", "basic"
	params["lambdarank_position_bias_regularization"] = 0.0
	params["boosting"], params["max_drop"], params["skip_drop"], params["uniform_drop"] = "gbdt", 50.0, 0.5, false
	params["data_sample_strategy"], params["top_rate"] = "bagging", 0.2
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

// TestParametersDocument: docs/parameters.md is what the tables say. To write it anew: go test ./internal/gbt -run
// ParametersDocument -update.
func TestParametersDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "parameters.md")
	want := parametersDocument()
	if *update {
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/parameters.md is not current (%v): go test ./internal/gbt -run ParametersDocument -update", err)
	}
}

func parametersDocument() string {
	var b strings.Builder
	b.WriteString(`# Parameters of LightGBM

All parameters of LightGBM 4, and what they are here. Aliases are accepted wherever names are. Why
results differ: [DIVERGENCE.md](../internal/gbt/DIVERGENCE.md). The page is made from the code's
tables by ` + "`go test ./internal/gbt -run ParametersDocument -update`" + `.
`)
	// The documents have one name for the programs.
	program := strings.NewReplacer("|", "\\|", "launcher ", "coppice ", "task train", "coppice task train")
	cell := program.Replace
	head := func(title, columns string) {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", title, columns,
			strings.Repeat("---|", strings.Count(columns, "|")+1))
	}
	head("Trained with", "parameter | aliases | default | range | compared with LightGBM")
	for _, p := range parameters() {
		if p.Standing == Same || p.Standing == Differs {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", p.Name, strings.Join(p.Aliases, ", "), p.Default, p.Range,
				cell(cmp.Or(p.Note, "same")))
		}
	}

	// What has the same values and reason stands in one row.
	grouped := func(standing standing, values func(p parameter) string) {
		var ends []string
		names := map[string][]string{}
		for _, p := range parameters() {
			if p.Standing != standing {
				continue
			}
			end := values(p) + cell(p.Note)
			if names[end] == nil {
				ends = append(ends, end)
			}
			name := "`" + p.Name + "`"
			if len(p.Aliases) > 0 {
				name += " (" + strings.Join(p.Aliases, ", ") + ")"
			}
			names[end] = append(names[end], name)
		}
		for _, end := range ends {
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(names[end], ", "), end)
		}
	}
	none := func(parameter) string { return "" }
	head("Accepted, without an effect", "parameter (aliases) | values | why")
	grouped(Accepted, func(p parameter) string { return cmp.Or(p.Range, "any") + " | " })
	head("Refused", "parameter (aliases) | why")
	grouped(Refused, none)
	head("Said elsewhere", "parameter (aliases) | where")
	grouped(Elsewhere, none)

	b.WriteString("\n## Objectives\n\n| objective | aliases | |\n|---|---|---|\n")
	for _, o := range objectives() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", o.name, strings.Join(strings.Fields(o.aliases), ", "), o.about)
	}
	var others []string
	for name := range foreignObjectives {
		others = append(others, name)
	}
	slices.Sort(others)
	for _, name := range others {
		fmt.Fprintf(&b, "| `%s` | | refused: %s |\n", name, foreignObjectives[name])
	}
	return b.String()
}

// parameter is a row of docs/parameters.md.
type parameter struct {
	Name     string
	Aliases  []string
	Standing standing
	Default  string
	Range    string // of a number
	Note     string // how it differs, or why it is not there
}

// standing is whether a parameter of LightGBM's does here what it does there.
type standing string

// How a parameter can stand.
const (
	Same      standing = "same"
	Differs   standing = "differs"
	Accepted  standing = "accepted" // with some or all values, and nothing depends on it
	Refused   standing = "refused"
	Elsewhere standing = "elsewhere" // another file or flag says it
)

// parameters are all of LightGBM 4's parameters: those that are trained with, in the order of the model file, then the
// others by name.
func parameters() []parameter {
	var all []parameter
	defaults := Defaults().Map()
	for _, s := range paramTable {
		p := parameter{Name: s.name, Aliases: strings.Fields(s.aliases), Standing: Accepted, Note: s.note}
		switch {
		case s.training != nil:
			p.Standing, p.Default = Same, fmt.Sprint(defaults[s.name])
			if p.Note != "" {
				p.Standing = Differs
			}
			if _, number := defaults[s.name].(float64); number {
				p.Range = s.bounds()
			}
		case s.fine == elsewhere:
			p.Standing = Elsewhere
		case s.fine == "":
			p.Standing = Refused
		case s.fine != anyValue:
			p.Range = strings.Join(strings.Fields(s.fine), ", ")
		}
		all = append(all, p)
	}
	slices.SortFunc(all[len(trainedWith):], func(a, b parameter) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// TestParsingIsCheap: a plan of ten thousand trials reads each one's parameters a few times. No name is looked for by
// splitting the aliases of all.
func TestParsingIsCheap(t *testing.T) {
	complete := Defaults().Map()
	allocations := testing.AllocsPerRun(5, func() {
		must.Get(ParseParams(complete))(t)
	})
	if most := float64(5 * len(complete)); allocations > most {
		t.Errorf("parsing %d parameters takes %.0f allocations, expected at most %.0f", len(complete), allocations,
			most)
	}
}
