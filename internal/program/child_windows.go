package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Become runs another program in the place of this one, which Windows cannot replace: it waits, ends with the other's
// exit code, and takes the other with it if it is killed. Ctrl-C reaches both, and this one, which has a handler,
// stays. The error is never nil, so that nothing else is done.
func Become(path string, argv, env []string) error {
	cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	if _, err := NewJob(cmd.Process); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	_ = cmd.Wait() // its exit code says all
	return ended(cmd.ProcessState.ExitCode())
}

// ended is the end of the program that this one has become.
type ended int

func (e ended) Error() string   { return "" } // it has said what there was to say
func (e ended) ExitStatus() int { return int(e) }

// Job is a process and all processes that it starts. They are killed when the Job is, and when this process ends.
type Job windows.Handle

// NewJob makes a Job of a process that has just been started.
func NewJob(p *os.Process) (Job, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, fmt.Errorf("make a job object: %w", err)
	}
	var limits windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	limits.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&limits)), uint32(unsafe.Sizeof(limits)))
	if err == nil {
		handled := p.WithHandle(func(h uintptr) { err = windows.AssignProcessToJobObject(job, windows.Handle(h)) })
		if errors.Is(handled, os.ErrProcessDone) {
			return Job(job), nil
		}
		err = errors.Join(err, handled)
	}
	if err != nil {
		return 0, errors.Join(fmt.Errorf("put process %d into a job object: %w", p.Pid, err), windows.CloseHandle(job))
	}
	return Job(job), nil
}

// Kill ends the processes of the job with an exit code.
func (j Job) Kill(code int) { _ = windows.TerminateJobObject(windows.Handle(j), uint32(code)) }
