package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"coppice/internal/search"
)

const spaceYAML = `
metric: {name: value, maximize: true}
seed: 7
search:
  random:
    eta: {log_uniform: [0.001, 0.3]}
    kind: {choice: [a, b, c]}
    share: {uniform: [0, 1], when: kind == "b"}
`

// TestAsk runs a search whose trials the test executes: passing its output back as results gives other trials, and the
// same files give the same bytes.
func TestAsk(t *testing.T) {
	w := newWorld(t)
	space := w.file("space.yaml", spaceYAML)
	first := w.must("ask", space, "--n", "3")
	var results strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(first), "\n") {
		var s search.Suggestion
		if err := json.Unmarshal([]byte(line), &s); err != nil || s.Trial != i || s.Source == "" || s.Reason == "" ||
			len(s.Params) < 2 {
			t.Fatalf("line %d is %s: %v", i+1, line, err)
		}
		params, err := json.Marshal(s.Params)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&results, `{"trial": %d, "params": %s, "value": %d, "status": "done"}`+"\n", s.Trial, params, i)
	}
	if !strings.HasPrefix(first, `{"trial":0,"params":{`) ||
		!strings.Contains(first, `},"source":"halton","reason":"`) {
		t.Errorf("printed %s", first)
	}

	known := w.file("results.jsonl", results.String())
	second := w.must("ask", space, "--results", known)
	if !strings.HasPrefix(second, `{"trial":3,`) || second != w.must("ask", space, "--results", known, "--n", "1") {
		t.Errorf("printed %s", second)
	}
	if warm := w.must("ask", space, "--earlier", known); !strings.Contains(warm,
		`"source":"warm","reason":"number 1 of results.jsonl, with 2"`) {
		t.Errorf("with a former search: %s", warm)
	}
}

func TestAskRefuses(t *testing.T) {
	w := newWorld(t)
	space := w.file("space.yaml", spaceYAML)
	w.refused(2, "launcher: --n is 0: use 1 to 1000", "ask", space, "--n", "0")
	w.refused(4, "no such file", "ask", space, "--results", "none.jsonl")
	w.refused(3, "bad.jsonl:1: byte 1: not JSON", "ask", space, "--results", w.file("bad.jsonl", "{"))
	w.refused(3, `bad.yaml:5:5: unknown key "eta"`, "ask",
		w.file("bad.yaml", strings.Replace(spaceYAML, "  random:\n", "", 1)))

	finite := w.file("finite.yaml", "metric: {name: v, maximize: false}\nsearch: {random: {a: {choice: [1, 2]}}}\n")
	code, out, errOut := w.run("ask", finite, "--n", "3")
	if code != 0 || strings.Count(out, "\n") != 2 ||
		!strings.HasPrefix(errOut, "note: search: no configuration is left for 1 of 3 trials") {
		t.Errorf("ended with %d\n%s\n%s", code, out, errOut)
	}
	all := w.file("all.jsonl", `{"trial": 0, "params": {"a": 1}, "status": "failed"}`+"\n"+
		`{"trial": 1, "params": {"a": 2}, "status": "running"}`+"\n")
	w.refused(3, "search: no configuration is left for 1 of 1 trials: search.random has 2 configurations", "ask",
		finite, "--results", all)
}

// TestAskHelpIsASpace: what the help shows can be pasted.
func TestAskHelpIsASpace(t *testing.T) {
	w := newWorld(t)
	_, space, found := strings.Cut(w.must("ask", "--help"), "SPACE.yaml:\n")
	space, _, ends := strings.Cut(space, "Results are JSON Lines")
	if !found || !ends {
		t.Fatal("the help of ask has no SPACE.yaml any more")
	}
	if out := w.must("ask", w.file("space.yaml", space), "--n", "2"); strings.Count(out, "\n") != 2 ||
		!strings.Contains(out, `"booster"`) {
		t.Errorf("the space of the help proposes\n%s\nexpected two configurations with a booster", out)
	}
}
