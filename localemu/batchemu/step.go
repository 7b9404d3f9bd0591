//go:build unix

package batchemu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"coppice/localemu/internal/proc"
)

// An attempt executes its runnables one after the other: the job's scripts, then the container. Its step is the index
// of the current one.

// contains reports whether the attempt has reached its container.
func (a *attempt) contains() bool { return a.step == len(a.job.plan.scripts) }

// over reports whether the attempt has ended by itself: its last runnable has ended, or one has failed, after which no
// other is executed. The lock is held.
func (a *attempt) over() bool {
	select {
	case <-a.process.Done():
		return a.contains() || a.process.ExitCode() != 0
	default:
		return false
	}
}

// next starts the following runnable, unless the attempt is over or was ended from outside, even between two runnables.
// The new process is nil if it could not be started.
func (a *attempt) next() (more bool) {
	s := a.job.srv
	s.mu.Lock()
	defer s.mu.Unlock()

	if a.cause != causeNone || a.over() {
		return false
	}

	a.step++
	process, err := a.launch()
	if err != nil {
		s.opts.Log.Error("runnable could not be started", "job", a.job.id, "task", a.task.index, "runnable", a.step,
			"error", err)
		a.process = nil
		return false
	}
	a.process = process
	return true
}

// wait returns when the attempt's last process has ended, or Batch considers it gone.
func (a *attempt) wait() {
	for {
		a.job.srv.mu.Lock()
		process := a.process
		a.job.srv.mu.Unlock()
		select {
		case <-process.Done():
		case <-a.abandoned:
			return
		}

		if !a.next() {
			return
		}
	}
}

// launch starts the process of the attempt's current runnable. All runnables of an attempt write to one log.
func (a *attempt) launch() (*proc.Process, error) {
	j := a.job
	dir := filepath.Join(j.srv.opts.LogDir, j.id)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}

	path := filepath.Join(dir, fmt.Sprintf("task-%d.attempt-%d.log", a.task.index, a.number))
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy

	process, err := a.run(log)
	if err != nil {
		fmt.Fprintln(log, "localemu:", err)
	}
	return process, err
}

func (a *attempt) run(log *os.File) (*proc.Process, error) {
	var c proc.Command
	switch {
	case !a.contains():
		var err error
		if c, err = a.scripted(); err != nil {
			return nil, err
		}
	case a.job.srv.opts.Containers != "":
		c = a.contained()
	default:
		c = a.command()
	}

	c.Stdout, c.Stderr = log, log
	return a.job.srv.procs.Start(c)
}

// scripted is the command line that runs the current script on the machine: as the user who runs localemu, who stands
// for root, and in the machine's folder. There a mount's path is replaced by one relative to that folder, such as
// ./ssd, since the folder's own name may have characters that are special to a shell. The script is a file, as on
// Batch's machines: an argument has to be short.
func (a *attempt) scripted() (proc.Command, error) {
	vm, s := a.vm, a.job.plan.scripts[a.step]
	near := make([]mount, len(vm.mounts))
	for i, m := range vm.mounts {
		near[i] = mount{m.path, "./" + filepath.Base(m.folder)}
	}
	file := filepath.Join(vm.dir, "tmp", fmt.Sprintf("task-%d.attempt-%d.runnable-%d", a.task.index, a.number, a.step))
	if err := os.WriteFile(file, []byte(rewrite(s.text, near)), 0o600); err != nil {
		return proc.Command{}, err
	}
	return proc.Command{Path: "/bin/sh", Args: []string{file}, Env: a.environment(s.env), Dir: vm.dir}, nil
}

// command is the container's command line and environment on this machine.
func (a *attempt) command() proc.Command {
	j, vm := a.job, a.vm
	args := make([]string, len(j.plan.args))
	for i, arg := range j.plan.args {
		args[i] = rewrite(arg, vm.mounts)
	}
	return proc.Command{Path: j.plan.program, Args: args, Env: a.environment(j.plan.env), Dir: vm.dir}
}

// environment is that of a process on the machine, with the job's variables.
func (a *attempt) environment(variables []string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + filepath.Join(a.vm.dir, "home"),
		"TMPDIR=" + filepath.Join(a.vm.dir, "tmp"),
	}
	env = slices.Concat(env, a.job.srv.opts.TaskEnv(a.job.account(), a.task.index))
	for _, variable := range variables {
		env = append(env, rewrite(variable, a.vm.mounts))
	}
	return append(env, a.indexes()...)
}
