package batchemu

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"

	"coppice/localemu/internal/proc"
)

// cause is the outside reason for which an attempt was ended.
type cause int

const (
	causeNone cause = iota // it ended by itself
	causePreempted
	causeLost
	causeOverTime
	causeStopped // the job is ending
	causeRebooted
	causeUnresponsive
	causeRecreated
)

// Exit codes that Batch itself gives a task, and the text of the status event. Source:
// https://cloud.google.com/batch/docs/troubleshooting#reserved-exit-codes
var reserved = map[cause]struct {
	code  int32
	why   string
	class string // of a fault
}{
	causePreempted:    {50001, " due to Spot VM preemption", "machine preempted (50001)"},
	causeLost:         {50002, " due to Batch no longer receives VM updates", "machine lost (50002)"},
	causeRebooted:     {50003, " due to VM rebooted during task execution", "machine rebooted (50003)"},
	causeUnresponsive: {50004, " due to VM and task are unresponsive", "machine unresponsive (50004)"},
	causeOverTime:     {50005, " due to task runs over the maximum runtime", ""},
	causeRecreated:    {50006, " due to VM recreated during task execution", "machine recreated (50006)"},
}

// unknownFailure is the exit code of a task that failed without one, such as one whose program cannot be started.
const unknownFailure = 50000

// attempt is one execution of a task: a process for each of its runnables. task, number, vm and place never change; the
// rest is guarded by the server's lock until the attempt has been sent to its job's ended channel.
type attempt struct {
	job    *job
	task   *task
	number int
	vm     *machine
	place  string // zones/Z/instances/I

	step    int           // of the runnables: the index of a script, or the number of scripts for the container
	process *proc.Process // nil when it could not be started
	cause   cause
}

// startAttempt begins the task's next attempt on the machine. When the attempt has ended, it is sent to j.ended; at
// once if its process could not be started. The lock is held.
func (j *job) startAttempt(t *task, vm *machine) {
	a := &attempt{job: j, task: t, number: t.attempt, vm: vm, place: vm.place()}
	vm.attempts = append(vm.attempts, a)
	t.state = batchpb.TaskStatus_ASSIGNED

	process, err := a.launch()
	if err != nil {
		j.srv.opts.Log.Error("task could not be started", "job", j.id, "task", t.index, "error", err)
		j.ended <- a
		return
	}
	a.process = process

	// The event gives PENDING as the previous state: Batch assigns and starts in one event.
	t.state = batchpb.TaskStatus_PENDING
	t.setState(j, batchpb.TaskStatus_RUNNING, a.place, ".", nil)
	go a.watch()
}

// watch waits until the attempt's last runnable has ended, removes its container if it got so far, and sends the
// attempt to its job's ended channel. If the attempt takes longer than the job's limit, it is killed.
func (a *attempt) watch() {
	if limit := a.job.plan.timeLimit; limit > 0 {
		defer time.AfterFunc(limit, func() {
			a.job.srv.mu.Lock()
			defer a.job.srv.mu.Unlock()
			a.endAfter(causeOverTime, 0)
		}).Stop()
	}

	a.awaitEnd()
	if a.contains() {
		a.removeContainer()
	}
	a.job.ended <- a
}

// endAfter ends the attempt from outside, for cause c: with SIGTERM and, after the notice, SIGKILL; without a notice
// with SIGKILL. It does nothing if the attempt has ended, has no process because none could be started, or is being
// ended for another cause. The lock is held.
func (a *attempt) endAfter(c cause, notice time.Duration) {
	if a.cause != causeNone || a.process == nil || a.hasEnded() {
		return
	}
	a.cause = c
	if notice > 0 {
		go a.process.Stop(notice)
		return
	}
	a.process.Kill()
}

// outcome returns the exit code that Batch reports and the reason in its status event: those of the cause if the
// attempt was ended from outside, or else the process's own code and no reason. The attempt must have ended.
func (a *attempt) outcome() (code int32, why string) {
	if r, ok := reserved[a.cause]; ok {
		return r.code, r.why
	}
	if a.process == nil {
		return unknownFailure, ""
	}
	return int32(a.process.ExitCode()), ""
}

// indexes returns the variables that Batch itself sets, and the one that a container has.
func (a *attempt) indexes() []string {
	return []string{
		"HOSTNAME=" + a.vm.host(a.job.id),
		"BATCH_TASK_COUNT=" + strconv.Itoa(a.job.plan.tasks),
		"BATCH_TASK_INDEX=" + strconv.Itoa(a.task.index),
		"BATCH_TASK_RETRY_ATTEMPT=" + strconv.Itoa(a.number),
	}
}

// An attempt executes its runnables one after the other: the job's scripts, then the container. Its step is the index
// of the current one.

// contains reports whether the attempt has reached its container.
func (a *attempt) contains() bool { return a.step == len(a.job.plan.scripts) }

// hasEnded reports whether the attempt has ended by itself: its last runnable has ended, or one has failed, after which
// no other is executed. The lock is held.
func (a *attempt) hasEnded() bool {
	select {
	case <-a.process.Done():
		return a.contains() || a.process.ExitCode() != 0
	default:
		return false
	}
}

// startNext starts the next runnable and reports whether it did. It does not if the attempt has ended, if it was ended
// from outside (which may happen between two runnables), or if the process cannot be started, which leaves a.process
// nil.
func (a *attempt) startNext() (more bool) {
	s := a.job.srv
	s.mu.Lock()
	defer s.mu.Unlock()

	if a.cause != causeNone || a.hasEnded() {
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

// awaitEnd returns when the attempt's last process has ended.
func (a *attempt) awaitEnd() {
	for {
		a.job.srv.mu.Lock()
		process := a.process
		a.job.srv.mu.Unlock()
		<-process.Done()
		if !a.startNext() {
			return
		}
	}
}

// launch starts the process of the attempt's current runnable. All runnables of an attempt write to one log file, which
// also gets the error if it cannot be started.
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

	process, err := a.runCommand(log)
	if err != nil {
		fmt.Fprintln(log, "localemu:", err)
	}
	return process, err
}

// runCommand starts the current runnable: a script, the container in a real container, or its program on this machine.
func (a *attempt) runCommand(log *os.File) (*proc.Process, error) {
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

// scripted writes the current script to a file and returns the command that runs it in the machine's folder, as the
// user who runs localemu, who stands for root.
//
// Paths of mounts in the script are replaced by ones relative to that folder, such as ./ssd: the folder's full name may
// have characters that are special to a shell. A file is used, as on Batch's machines, because an argument of a command
// has a length limit.
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

// command returns the command that runs the image's local program in the machine's folder, with the job's arguments and
// variables, in which the paths of mounts are replaced.
func (a *attempt) command() proc.Command {
	j, vm := a.job, a.vm
	args := make([]string, len(j.plan.args))
	for i, arg := range j.plan.args {
		args[i] = rewrite(arg, vm.mounts)
	}
	return proc.Command{Path: j.plan.program, Name: j.srv.opts.Names[j.plan.image], Args: args,
		Env: a.environment(j.plan.env), Dir: vm.dir}
}

// environment returns the whole environment of a process on the machine, as NAME=VALUE: folders of its own, the
// emulators' addresses, the job's variables, and Batch's. Nothing of localemu's own environment is in it.
func (a *attempt) environment(variables []string) []string {
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + filepath.Join(a.vm.dir, "home"),
		"TMPDIR=" + filepath.Join(a.vm.dir, "tmp"),
	}
	if runtime.GOOS == "windows" {
		env = []string{"USERPROFILE=" + filepath.Join(a.vm.dir, "home"), "TMP=" + filepath.Join(a.vm.dir, "tmp")}
	}
	env = slices.Concat(env, a.job.srv.opts.TaskEnv)
	for _, variable := range variables {
		env = append(env, rewrite(variable, a.vm.mounts))
	}
	return append(env, a.indexes()...)
}
