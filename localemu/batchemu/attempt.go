//go:build unix

package batchemu

import (
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
	paused  time.Time // until then, by a fault

	abandoned chan struct{} // closed when the attempt has ended for Batch while its process lives on
}

// start begins the task's next attempt on the machine. The lock is held.
func (j *job) start(t *task, vm *machine) {
	a := &attempt{job: j, task: t, number: t.attempt, vm: vm, place: vm.place(), abandoned: make(chan struct{})}
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
	t.set(j, batchpb.TaskStatus_RUNNING, a.place, ".", nil)
	go a.watch()
}

// watch waits for the processes, one after the other, and ends the attempt when its time is up or a scripted preemption
// is due.
func (a *attempt) watch() {
	p := a.job.plan
	var due timers

	after := func(d time.Duration, c cause, notice time.Duration) {
		due = append(due, time.AfterFunc(d, func() {
			a.job.srv.mu.Lock()
			defer a.job.srv.mu.Unlock()
			a.endAfter(c, notice)
		}))
	}

	if p.timeLimit > 0 {
		after(p.timeLimit, causeOverTime, 0)
	}

	for _, f := range a.job.srv.opts.Faults.Preempt {
		if f.Task != nil && f.AfterMessages == 0 && *f.Task == a.task.index && f.Attempt == a.number &&
			a.job.mayPreempt() {
			after(time.Duration(f.After), causePreempted, time.Duration(f.Notice))
		}
	}

	a.wait()
	due.stop()
	if a.contains() {
		a.removeContainer()
	}
	a.job.ended <- a
}

// end ends the attempt from outside; the first cause counts. Only a stopped task gets time to end by itself. The lock
// is held.
func (a *attempt) end(c cause) {
	if c == causeStopped {
		a.endAfter(c, a.job.srv.opts.Grace)
		return
	}
	a.endAfter(c, 0)
}

// endAfter is end with SIGTERM, and SIGKILL after the notice. The lock is held.
func (a *attempt) endAfter(c cause, notice time.Duration) {
	if a.cause != causeNone || a.process == nil || a.over() {
		return
	}
	a.cause = c
	if notice > 0 {
		go a.process.Stop(notice)
		return
	}
	a.process.Kill()
}

// outcome returns the exit code that Batch reports, and the reason as in the status event. The attempt must have ended.
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
