package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"coppice/internal/registry"
	"coppice/internal/sweep"
)

func TestRegistryCommands(t *testing.T) {
	w := newWorld(t)
	w.refused(sweep.ExitNotFound, "ctr", "registry", "show", "ctr")
	w.register(3)
	w.refused(sweep.ExitNotFound, "ctr", "registry", "rollback", "ctr", "--why", "a test")
	w.must("registry", "promote", "ctr@2", "--why", "approved")
	if out := w.must("registry", "promote", "ctr@3", "--why", "a test"); !strings.Contains(out, "2 -> 3") {
		t.Errorf("promoted version 3: got %s; want 2 -> 3", out)
	}
	if out := w.must("registry", "rollback", "ctr", "--why", "worse"); !strings.Contains(out, "3 -> 2") {
		t.Errorf("rolled back: got %s; want 3 -> 2", out)
	}
	for _, args := range [][]string{{"list"}, {"list", "ctr"}, {"show", "ctr"}, {"show", "ctr@champion"},
		{"show", "ctr@2"}} {
		if out := w.must(append([]string{"registry"}, args...)...); !strings.Contains(out, "2") ||
			!strings.Contains(out, "auc 0.6") && args[0] == "show" {
			t.Errorf("registry %q: got %s; want version 2, and with show its AUC of .6", args, out)
		}
	}
	if out := w.must("registry", "show", "ctr@1", "--file", "model.txt"); !strings.HasPrefix(out, "tree\n") {
		t.Errorf("model.txt: %.50q", out)
	}
	for version, want := range map[string]string{"ctr@1": "lookahead_freq=0 num_leaves=63 ", "ctr@2": "the defaults",
		"ctr@3": ""} {
		out := w.must("registry", "show", version)
		if !strings.Contains(out, want) || strings.Contains(out, "parameters") != (want != "") ||
			strings.Contains(out, "learning_rate") {
			t.Errorf("%s does not show its parameters, %q:\n%s", version, want, out)
		}
	}
	out := w.must("registry", "show", "ctr", "--history")
	for _, part := range []string{"registered", "promoted champion", "rolled_back champion", "approved", "worse",
		"3 -> 2"} {
		if !strings.Contains(out, part) {
			t.Errorf("the history does not show %q:\n%s", part, out)
		}
	}
	var v []registry.Version
	if err := json.Unmarshal([]byte(w.must("registry", "list", "ctr", "--json")), &v); err != nil || len(v) != 3 {
		t.Errorf("registry list --json: %v, %v, expected 3 versions", v, err)
	}
	w.refused(sweep.ExitNotFound, "9", "registry", "show", "ctr@9")
	w.refused(sweep.ExitNotFound, "no.txt", "registry", "show", "ctr@1", "--file", "no.txt")
	w.refused(sweep.ExitUsage, "MODEL@VERSION", "registry", "promote", "ctr@best", "--why", "a test")
	w.refused(sweep.ExitInput, "../x", "registry", "list", "../x")
}
