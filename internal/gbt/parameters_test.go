package gbt

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryParameterOfLightGBM: whoever asks for any of LightGBM's parameters, by any name, gets an answer.
// testdata/lightgbm/params.json is what LightGBM 4.7 says of itself: lightgbm.basic._ConfigAliases.
func TestEveryParameterOfLightGBM(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "lightgbm", "params.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]string
	if err := json.Unmarshal(data, &all); err != nil || len(all) < 140 {
		t.Fatalf("%d parameters, %v; want LightGBM's", len(all), err)
	}
	for name, aliases := range all {
		for _, word := range append(aliases, name) {
			p, err := FindParameter(word)
			if err != nil || p.Name != name {
				t.Errorf("LightGBM's %s, called %s: got %q, %v", name, word, p.Name, err)
			}
		}
	}
	for name := range differing {
		if findParam(name) == nil {
			t.Errorf("differing has %s, which is no parameter", name)
		}
	}
	for _, f := range elsewhere {
		if _, err := ParseParams(map[string]any{f.name: 1.0}); err == nil || !strings.Contains(err.Error(), f.why) {
			t.Errorf("%s as a training parameter: got error %v, want one that says %q", f.name, err, f.why)
		}
	}
}

// TestParametersDocument: docs/parameters.md is what the tables say. To write it anew: go test ./internal/gbt -run
// ParametersDocument -update.
func TestParametersDocument(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "parameters.md")
	want := parametersDocument()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/parameters.md is not current (%v): go test ./internal/gbt -run ParametersDocument -update", err)
	}
}

func parametersDocument() string {
	var b strings.Builder
	b.WriteString(`# Parameters of LightGBM

All parameters of LightGBM 4, and what they are here: the same, the same with a difference, accepted
without an effect, refused, or said elsewhere. ` + "`launcher params NAME`" + ` prints one of them. This page
is made from the code's own tables (` + "`go test ./internal/gbt -run ParametersDocument -update`" + `), and a
test fails if it is not current. Aliases are accepted wherever names are. Why results differ:
[DIVERGENCE.md](../internal/gbt/DIVERGENCE.md).
`)
	cell := func(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
	table := func(title, head string, row func(p Parameter) string, standings ...ParameterStanding) {
		fmt.Fprintf(&b, "\n## %s\n\n| %s |\n|%s\n", title, head, strings.Repeat("---|", strings.Count(head, "|")+1))
		for _, p := range Parameters() {
			if slices.Contains(standings, p.Standing) {
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.Name, strings.Join(p.Aliases, ", "), cell(row(p)))
			}
		}
	}
	table("Trained with", "parameter | aliases | default | range | compared with LightGBM", func(p Parameter) string {
		how := "same"
		if p.Note != "" {
			how = p.Note
		}
		return p.Default + "\x00" + p.Range + "\x00" + how
	}, Same, Differs)
	table("Accepted, without an effect", "parameter | aliases | values | why", func(p Parameter) string {
		values := p.Range
		if values == "" {
			values = "any"
		}
		return values + "\x00" + p.Note
	}, Accepted)
	table("Refused", "parameter | aliases | why", func(p Parameter) string { return p.Note }, Refused)
	table("Said elsewhere", "parameter | aliases | where", func(p Parameter) string { return p.Note }, Elsewhere)

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
	return strings.ReplaceAll(b.String(), "\x00", " | ")
}
