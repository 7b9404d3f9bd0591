package command

import (
	"bytes"
	"testing"

	"coppice/internal/program"
)

// TestCommandsAreToldAsTheyAreTyped: a command that is offered for pasting begins as the caller's own did.
func TestCommandsAreToldAsTheyAreTyped(t *testing.T) {
	for called, want := range map[string]string{
		"launcher": "coppice", "bin/launcher": "bin/launcher", "./venv/bin/coppice": "./venv/bin/coppice",
		"/usr/local/bin/launcher": "coppice", "my programs/launcher": "coppice", "a`b`/launcher": "coppice",
	} {
		if got := typed(called, "coppice"); got != want {
			t.Errorf("called as %q, commands are typed as %q; want %q", called, got, want)
		}
	}

	for _, c := range []struct{ args, text, want string }{
		{"fit", "launcher predict --model m; the launcher", "bin/launcher predict --model m; the launcher"},
		{"fit", "until launcher\n    plan", "until bin/launcher\n    plan"},
		{"--json", `{"next":"launcher predict"}`, `{"next":"launcher predict"}`},
	} {
		var out bytes.Buffer
		w := program.World{Args: []string{c.args}, Out: program.To(&out), Err: program.To(&out)}
		rename(&w, "bin/launcher")
		if _, err := w.Out.Write([]byte(c.text)); err != nil || out.String() != c.want {
			t.Errorf("%s: %q becomes %q, error %v; want %q", c.args, c.text, out.String(), err, c.want)
		}
	}
}
