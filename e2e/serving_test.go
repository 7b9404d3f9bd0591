//go:build e2e

package e2e

import (
	"path/filepath"
	"testing"
)

// serveClients has clients that others wrote ask a server of a version, and compares the bits with `launcher predict`.
func (l *local) serveClients(t *testing.T, version, table string) {
	t.Helper()
	script, err := filepath.Abs("bench/serve_clients.py")
	if err != nil {
		t.Fatal(err)
	}
	r := l.script("launcher=$1\nshift\nexec \"$@\" --launcher \"$launcher\"\n", python(t), script, "--model", version,
		"--table", table)
	r.ok(t)
	t.Logf("%s", r.out)
}
