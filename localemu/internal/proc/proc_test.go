//go:build unix

package proc

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"coppice/internal/must"
)

// start runs a shell script in the set; the returned reader gives its standard output.
func start(t *testing.T, s *Set, script string) (*Process, *bufio.Reader) {
	t.Helper()
	r, w := must.Get2(os.Pipe())(t)
	t.Cleanup(func() { r.Close() })
	p, err := s.Start(Command{Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Stdout: w})
	w.Close()
	if err != nil {
		t.Fatalf("starting the script: got error %v, want none", err)
	}
	return p, bufio.NewReader(r)
}

// readPID reads the next line of a script's output, a process id.
func readPID(t *testing.T, r *bufio.Reader) int {
	t.Helper()
	line := must.Get(r.ReadString('\n'))(t)
	return must.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
}

// waitGone waits until a process has ended, at most ten seconds, after which the test fails.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		if !running(pid) {
			return
		}
	}
	t.Fatalf("process %d is still there after 10 s, want it killed", pid)
}

// running reports whether a process is alive. One that has ended and only waits to be reaped by init (state Z) is not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// TestExitCodes: exit codes are those of a shell, 128 and the number for a signal. Kill leaves an ended process alone.
func TestExitCodes(t *testing.T) {
	s := NewSet()
	defer s.Close()
	// 137 is 128 and 9, SIGKILL; 143 is 128 and 15, SIGTERM.
	for script, want := range map[string]int{"exit 0": 0, "exit 75": 75, "kill -9 $$": 137, "kill -15 $$": 143} {
		p, _ := start(t, s, script)
		<-p.Done()
		if p.ExitCode() != want {
			t.Errorf("%s: code %d, want %d", script, p.ExitCode(), want)
		}
		p.Kill() // does nothing; another process may have its number by now
	}
}

// TestStartMissingProgram: starting a program that is not there is that error, at once.
func TestStartMissingProgram(t *testing.T) {
	s := NewSet()
	defer s.Close()
	if _, err := s.Start(Command{Path: filepath.Join(t.TempDir(), "absent")}); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("started a program that is not there: got %v, want ErrNotExist", err)
	}
}

// TestLeaderEndsGroup: when the leader has ended, what is left of its group is killed.
func TestLeaderEndsGroup(t *testing.T) {
	s := NewSet()
	defer s.Close()
	p, out := start(t, s, "sleep 600 & echo $!")
	stray := readPID(t, out)
	<-p.Done()
	waitGone(t, stray)
}

// TestStopIsGracefulThenNot: Stop lets a process end by itself after SIGTERM, and kills one that ignores it when the
// grace period is over. Each script writes a line when its trap is set, so that the signal cannot come before.
func TestStopIsGracefulThenNot(t *testing.T) {
	s := NewSet()
	defer s.Close()
	gentle, out := start(t, s, `trap 'exit 3' TERM; echo 1; while :; do sleep 0.01; done`)
	readPID(t, out)
	gentle.Stop(time.Minute)
	if gentle.ExitCode() != 3 {
		t.Errorf("stopped with time to end: got code %d, want 3 from its handler of SIGTERM", gentle.ExitCode())
	}
	stubborn, out := start(t, s, `trap '' TERM; echo 1; while :; do sleep 0.01; done`)
	readPID(t, out)
	stubborn.Stop(20 * time.Millisecond)
	if stubborn.ExitCode() != 137 {
		t.Errorf("it ignores SIGTERM: got code %d, want 137 of SIGKILL", stubborn.ExitCode())
	}
}

// TestCloseKillsEverything: Close kills every process and its children, although they ignore SIGTERM. After it, nothing
// can be started, and a second Close does nothing.
func TestCloseKillsEverything(t *testing.T) {
	s := NewSet()
	var pids []int
	for range 5 {
		p, out := start(t, s, "sleep 600 & echo $!; trap '' TERM; wait")
		pids = append(pids, p.PID(), readPID(t, out))
	}
	s.Close()
	s.Close()
	for _, pid := range pids {
		waitGone(t, pid)
	}
	if _, err := s.Start(Command{Path: "/bin/true"}); !errors.Is(err, ErrClosed) {
		t.Fatalf("started after Close: got %v, want ErrClosed", err)
	}
}

// TestSharedStaysInGroup: a shared process stays in the process group of its starter, and Kill still ends it.
func TestSharedStaysInGroup(t *testing.T) {
	s := NewSet()
	defer s.Close()
	p := must.Get(s.Start(Command{Path: "/bin/sh", Args: []string{"-c", "sleep 600"}, Shared: true}))(t)
	group, err := syscall.Getpgid(p.PID())
	if err != nil || group != syscall.Getpgrp() {
		t.Fatalf("it is in group %d (%v), want ours, %d", group, err, syscall.Getpgrp())
	}
	p.Kill()
	<-p.Done()
	if p.ExitCode() != 137 {
		t.Fatalf("killed: exit code %d, want 137", p.ExitCode())
	}
}
