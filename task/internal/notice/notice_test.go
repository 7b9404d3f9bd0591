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

var _ = struck()

func struck() error {
	if os.Getenv(strike) == "" {
		return nil
	}
	return syscall.Kill(os.Getpid(), syscall.SIGTERM)
}

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

// TestASignalBeforeMain: a program whose machine is taken away during startup notices the signal and exits by itself.
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
