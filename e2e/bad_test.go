//go:build e2e

package e2e

import (
	"os"
	"slices"
	"strings"
	"testing"

	"coppice/internal/sweep"
)

// TestE2ENoCloud runs the programs with neither an emulator nor credentials.
func TestE2ENoCloud(t *testing.T) {
	dir := t.TempDir()
	bare := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "NO_GCE_CHECK=true"}
	set := append(slices.Clone(bare), "COPPICE_PROJECT=p", "COPPICE_DATASETS_BUCKET=d", "COPPICE_SWEEPS_BUCKET=s",
		"COPPICE_REGISTRY_BUCKET=r")
	for name, tc := range map[string]struct {
		env  []string
		args []string
		says []string
	}{
		"nothing set": {bare, []string{"launcher", "status"},
			[]string{"COPPICE_PROJECT", "COPPICE_LOCAL=coppice-data launcher stage"}},
		"no credentials": {set, []string{"launcher", "status"},
			[]string{"localemu exec", "gcloud auth application-default login"}},
		"emulator not there": {append(slices.Clone(set), "STORAGE_EMULATOR_HOST=127.0.0.1:9",
			"COPPICE_BATCH_ENDPOINT=127.0.0.1:9"), []string{"launcher", "status"}, []string{"127.0.0.1:9"}},
		"aggregator":           {bare, []string{"aggregator", "serve"}, []string{"COPPICE_PROJECT"}},
		"task without its job": {bare, []string{"task", "run"}, []string{"launcher sweep"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, dir, tc.env, binaryOf(t, tc.args[0]), tc.args[1:]...)
			if r.code != sweep.ExitSetup || strings.Contains(r.errOut, "goroutine") {
				t.Errorf("exit code %d, want %d and no stack:\n%s", r.code, sweep.ExitSetup, r.errOut)
			}
			for _, part := range tc.says {
				if !strings.Contains(r.errOut, part) {
					t.Errorf("the message does not say %q:\n%s", part, r.errOut)
				}
			}
		})
	}
}
