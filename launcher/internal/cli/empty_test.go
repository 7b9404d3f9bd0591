package cli

import (
	"strings"
	"testing"
)

// TestEmptyListsSayWhatToDo: where nothing is yet, a list is a command that begins, not a table without rows.
func TestEmptyListsSayWhatToDo(t *testing.T) {
	w := newWorld(t)
	for command, want := range map[string]string{"status": "no sweep yet: `launcher fit",
		"datasets list": "no dataset yet: `launcher stage", "registry list": "no model yet: `launcher fit"} {
		if out := w.must(strings.Fields(command)...); !strings.HasPrefix(out, want) {
			t.Errorf("%s, where nothing is, says\n%s\nexpected %s ...", command, out, want)
		}
	}
}
