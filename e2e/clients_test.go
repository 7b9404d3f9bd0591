//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestInteropGoogleClients has pip's clients of Cloud Storage, Pub/Sub and Batch speak to the local cloud: what is
// imitated gives what the service gives, and what is not is refused by name.
func TestInteropGoogleClients(t *testing.T) {
	interpreter := python(t)
	for _, client := range []string{"storage", "pubsub", "batch"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "cloud")
			r := execute(t, ".", nil, binaryOf(t, "localemu"), "exec", "--data", data, "--", "env",
				"PYTHONDONTWRITEBYTECODE=1", interpreter, "e2e/clients/"+client+".py")
			if r.code != 0 || strings.Contains(r.out, "FAIL") || !strings.Contains(r.out, "ok   test_") {
				t.Errorf("e2e/clients/%s.py ended with %d, expected every call to be right:\n%s%s", client, r.code,
					r.out, r.errOut)
			}
			t.Log(lastLine(r.out))
		})
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
