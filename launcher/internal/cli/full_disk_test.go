//go:build unix

package cli

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
)

// room is how large a file may become in TestFullDisk; everything that is written is larger.
const room = 2048

// TestFullDisk: stage, predict and report that cannot write their file to the end say so within 5 s, with the folder
// and the reason, and leave no file. The test runs itself in a process whose files may not become longer than room: the
// system then refuses writes as on a full disk, though with another error.
func TestFullDisk(t *testing.T) {
	const inside = "COPPICE_TEST_FULL_DISK"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("with little room for each file: %v, want the test to pass\n%s", err, out)
		}
		return
	}

	w := newStagedWorld(t)
	w.register(1)
	w.jobs.run = w.concluded("winner")
	w.must("sweep", w.spec(), "--id", "night-1")
	in := w.rows(700)
	dir := filepath.Join(w.dir, "outputs")
	must.Do(t, os.Mkdir(dir, 0o755))

	// From here on, writing past room bytes is an error; without Ignore a signal would end the process.
	signal.Ignore(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit))
	limit.Cur = room
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))

	for _, args := range [][]string{
		{"stage", filepath.Join(w.dir, "dataset.yaml"), "--out", filepath.Join(dir, "data")},
		{"predict", "--model", "ctr", "--in", in, "--out", filepath.Join(dir, "out.csv"), "--keep", "user_id"},
		{"predict", "--model", "ctr", "--in", in, "--out", filepath.Join(dir, "out.parquet"), "--keep", "user_id"},
		{"report", "night-1", "--out", filepath.Join(dir, "page.html")},
		{"report", "clicks", "--out", filepath.Join(dir, "page.html")},
	} {
		began := time.Now()
		code, out, errOut := w.run(args...)
		if took := time.Since(began); code == 0 || took > 5*time.Second {
			t.Errorf("%q ended with %d after %v; want another code within seconds\n%s\n%s", args, code, took, out,
				errOut)
		}
		if !strings.Contains(errOut, "file too large") || !strings.Contains(errOut, dir) {
			t.Errorf("%q says\n%s\nwant the file and why it cannot be written", args, errOut)
		}
		if left := filesBelow(t, dir); left != "" {
			t.Errorf("%q left\n%s\nwant no file", args, left)
		}
	}
}

// filesBelow lists the files below a folder.
func filesBelow(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			fmt.Fprintln(&all, path)
		}
		return err
	}))
	return all.String()
}
