//go:build unix

package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/dataset/datasettest"
	"coppice/internal/must"
)

// TestFullDisk: a training that cannot write its model ends with an error that names the file, within seconds, and
// leaves no file behind but its lock. The test runs itself in a second process, whose files may not be longer than 512
// bytes: there the system refuses writes as it does on a full disk, only with another error number.
func TestFullDisk(t *testing.T) {
	const inside = "COPPICE_TEST_FULL_DISK"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("with little room for each file: got %v, want the test to pass\n%s", err, out)
		}
		return
	}

	dataset, _ := datasettest.Dir(t, datasettest.Options{Rows: 2000})
	p := params(t, "num_iterations: 30\nnum_leaves: 7\n")
	signal.Ignore(syscall.SIGXFSZ) // which would end the process at the first byte too many
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	limit.Cur = 512
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))

	dir := t.TempDir()
	path := filepath.Join(dir, "model.txt")
	args := []string{"train", "--dataset", dataset, "--params", p, "--out", path}
	began := time.Now()
	code, _, errOut := run(t, nil, args...)
	if took := time.Since(began); code != 1 || took > 5*time.Second {
		t.Errorf("%q ended with %d after %v; want 1 within seconds\n%s", args, code, took, errOut)
	}
	if !strings.Contains(errOut, "file too large") || !strings.Contains(errOut, path) {
		t.Errorf("%q says\n%s\nwant the file and why it cannot be written", args, errOut)
	}
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".lock" {
			t.Errorf("%q left %s, want no file but .lock", args, path)
		}
		return err
	}))
}
