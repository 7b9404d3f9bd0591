//go:build unix

package proc

import (
	"os"
	"syscall"
)

// group is a process with those that it starts, unless it shares localemu's own group.
type group struct{ shared bool }

// attributes returns what a process is started with: as the leader of a new process group, unless it is shared.
func attributes(shared bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: !shared}
	dieWithParent(attr)
	return attr
}

// gather does nothing here: the process was started as the leader of its group. On Windows it makes a job object.
func (group) gather(*os.Process) error { return nil }

// signal sends a signal to the group, or to the process alone if it shares localemu's group.
func (g group) signal(pid int, sig syscall.Signal) {
	if !g.shared {
		pid = -pid
	}
	_ = syscall.Kill(pid, sig) // it may just have ended
}

// end kills what is left when the leader has ended.
func (g group) end(pid int) {
	if !g.shared {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // ESRCH is the normal case
	}
}

// exitCode is 128 and the number of the signal that ended the process, as in a shell, and 1 if how it ended is not
// known.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	if !state.Exited() {
		return 1
	}
	return state.ExitCode()
}
