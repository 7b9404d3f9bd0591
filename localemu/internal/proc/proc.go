// Package proc starts the processes of the local cloud and makes sure that none outlives it: each one leads its own
// process group, which is killed as a whole when its leader has ended, and on Linux the kernel kills the leaders when
// localemu itself is killed. It cannot reach processes that have moved into another group or session. On Windows, where
// groups are only for signals, a job object has a process with all that it starts, and dies with localemu.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"coppice/internal/program"
)

// Command is what to start. The streams are files, so that nothing has to be copied and no process blocks on its
// reader; nil is /dev/null.
type Command struct {
	Path   string
	Name   string   // of the program, for one that is several; "" is Path
	Args   []string // without the program's own name
	Env    []string // the whole environment, NAME=VALUE
	Dir    string
	Stdin  *os.File
	Stdout *os.File
	Stderr *os.File
	// Shared leaves the process in localemu's own group, so that it may read from the terminal and gets the terminal's
	// signals itself. Signal, Stop and Kill then reach the process only.
	Shared bool
}

// ErrClosed means that the Set has been closed.
var ErrClosed = errors.New("the local cloud is shutting down")

// Set is a set of processes that end with it. All methods may be called from any goroutine.
type Set struct {
	spawn chan func() // executed on one thread: a parent-death signal is tied to the thread that started the child

	mu     sync.Mutex
	closed bool
	alive  map[*Process]struct{}
}

// NewSet makes an empty Set. Close ends it.
func NewSet() *Set {
	s := &Set{spawn: make(chan func()), alive: map[*Process]struct{}{}}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for f := range s.spawn {
			f()
		}
	}()
	return s
}

// Process is a started Command.
type Process struct {
	cmd   *exec.Cmd
	group group
	done  chan struct{}
	code  int // valid after done
}

// Start starts c and returns without waiting for it. After Close it returns ErrClosed. The caller may close the files
// in c when Start has returned.
func (s *Set) Start(c Command) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}

	p := &Process{cmd: newCommand(c), group: group{shared: c.Shared}, done: make(chan struct{})}
	started := make(chan error)
	s.spawn <- func() { started <- p.cmd.Start() } // on the thread at whose end the process would be killed
	err := <-started
	if err == nil {
		err = p.group.gather(p.cmd.Process)
	}
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}

	// When the process has ended, what is left of its group is killed, and only then is it done.
	s.alive[p] = struct{}{}
	go func() {
		p.wait()
		s.mu.Lock()
		delete(s.alive, p)
		s.mu.Unlock()
		close(p.done)
	}()
	return p, nil
}

// newCommand makes the exec.Cmd for c. Its context never ends: processes are ended in groups, by signals, and a context
// would kill the leader alone.
func newCommand(c Command) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), c.Path, c.Args...)
	cmd.Env = c.Env
	cmd.Dir = c.Dir

	if c.Stdin != nil { // a nil *os.File in an interface would not be nil
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}

	if c.Name != "" {
		cmd.Args[0] = c.Name
	}
	cmd.SysProcAttr = attributes(c.Shared)
	return cmd
}

// Close kills all processes that still run, with their groups, and returns when they have ended. Start fails from then
// on. A second Close does nothing.
func (s *Set) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}

	s.closed = true
	rest := make([]*Process, 0, len(s.alive))
	for p := range s.alive {
		rest = append(rest, p)
	}
	s.mu.Unlock()

	for _, p := range rest {
		p.Kill()
	}
	for _, p := range rest {
		<-p.done
	}
	close(s.spawn)
}

// wait reaps the leader, then kills what is left of its group.
func (p *Process) wait() {
	err := p.cmd.Wait()
	state := p.cmd.ProcessState

	if state == nil { // cannot happen after a successful start, but must not look like success
		fmt.Fprintln(program.FromOS("").Err, "localemu: wait for", p.cmd.Path, err)
		p.code = 1
	} else {
		p.code = exitCode(state)
	}
	p.group.end(p.PID())
}

// PID is the process's id, and its group's unless it is shared.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and its group has been killed.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode returns the process's own exit code, or 128 + N if signal N killed it, as shells and containers report it.
// It is valid only after Done.
func (p *Process) ExitCode() int { return p.code }

// Signal sends SIGINT, SIGTERM, SIGHUP or SIGKILL to the group; a group that has ended is left alone. On Windows the
// first three are Ctrl-Break.
func (p *Process) Signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		p.group.signal(p.PID(), sig)
	}
}

// Kill ends the group at once, without waiting for it.
func (p *Process) Kill() { p.Signal(syscall.SIGKILL) }

// Stop asks the group to end with SIGTERM, kills it if it has not ended after grace, and returns when it has.
func (p *Process) Stop(grace time.Duration) {
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	}
	p.Kill()
	<-p.done
}
