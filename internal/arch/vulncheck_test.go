package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"coppice/internal/must"
)

// TestVulncheckIsNotSkippedInSilence: without its database the check says so, and fails where it is required.
func TestVulncheckIsNotSkippedInSilence(t *testing.T) {
	script := must.Get(filepath.Abs(".ci/tools/vulncheck.sh"))(t)
	for _, tc := range []struct {
		required, says string // VULN_REQUIRED, and what the tool prints
		ends           int    // with which code
		code           int
		skipped        bool
	}{
		{"", "fetching vulnerabilities: Get: dial tcp: no such host", 1, 0, true},
		{"true", "fetching vulnerabilities: Get: dial tcp: no such host", 1, 1, true},
		{"true", "No vulnerabilities found.", 0, 0, false},
		{"", "Vulnerability #1: GO-2026-0001", 3, 3, false},
		{"", "internal error", 1, 1, false},
	} {
		dir := t.TempDir()
		tool := filepath.Join(dir, "build", "tools", "govulncheck")
		must.Do(t, os.MkdirAll(filepath.Dir(tool), 0o755))
		text := "#!/bin/sh\necho '" + tc.says + "'\nexit " + string(rune('0'+tc.ends)) + "\n"
		must.Do(t, os.WriteFile(tool, []byte(text), 0o755))
		cmd := exec.CommandContext(t.Context(), "sh", script, "./...")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "VULN_REQUIRED="+tc.required)
		out, _ := cmd.CombinedOutput()
		skipped := strings.Contains(string(out), "not checked")
		if got := cmd.ProcessState.ExitCode(); got != tc.code || skipped != tc.skipped {
			t.Errorf("VULN_REQUIRED=%q, the tool ends with %d and says %q: exit code %d and skipped %t, expected %d "+
				"and %t\n%s", tc.required, tc.ends, tc.says, got, skipped, tc.code, tc.skipped, out)
		}
	}
}
