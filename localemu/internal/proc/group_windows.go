package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"

	"coppice/internal/program"
)

// killedCode is the exit code of what is killed, as on Unix.
const killedCode = 128 + int(syscall.SIGKILL)

// group is a process with those that it starts. One that is shared gets the console's signals with localemu; others
// have a group of their own for them.
type group struct {
	shared bool
	job    program.Job
}

func attributes(shared bool) *syscall.SysProcAttr {
	if shared {
		return nil
	}
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

func (g *group) gather(p *os.Process) (err error) {
	if g.job, err = program.NewJob(p); err != nil {
		err = errors.Join(err, p.Kill())
	}
	return err
}

// signal asks a group to end by Ctrl-Break, since Windows has no signals. SIGKILL kills it, and so does any signal if
// there is no console through which to send Ctrl-Break. A shared process is left alone: the console has told it.
func (g *group) signal(pid int, sig syscall.Signal) {
	switch {
	case sig == syscall.SIGKILL:
		g.job.Kill(killedCode)
	case g.shared: // the console has told it
	case windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(pid)) != nil: //nolint:gosec // an id
		g.job.Kill(killedCode)
	}
}

// end kills what is left when the leader has ended.
func (g *group) end(int) { g.job.Kill(killedCode) }

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
