package notice

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
)

// strike turns a child process of this test into one that gets a signal before its main begins.
const strike = "COPPICE_TEST_STRIKE"

var _ = strikeSelf()

// strikeSelf sends this process SIGTERM while its packages are initialised, if it is the child process.
func strikeSelf() error {
	if os.Getenv(strike) == "" {
		return nil
	}
	return syscall.Kill(os.Getpid(), syscall.SIGTERM)
}

// TestMain runs the tests or, in the child process, waits for the signal and prints whether it came.
func TestMain(m *testing.M) {
	if os.Getenv(strike) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := Context()
	defer stop()
	select {
	case <-ctx.Done():
		fmt.Println("heard")
	case <-time.After(time.Minute):
		fmt.Println("nothing came")
	}
}

// TestASignalBeforeMain: a process that gets SIGTERM before its main begins does not die of it: Context ends, and the
// process exits by itself.
func TestASignalBeforeMain(t *testing.T) {
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), strike+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "heard" {
		t.Errorf("a process that got SIGTERM before main ended with %v and said %q; want no error and \"heard\"", err,
			out)
	}
}
