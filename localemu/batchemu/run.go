package batchemu

import (
	"fmt"
	"slices"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// run is the job's life, from queued to its end.
func (j *job) run() {
	s := j.srv
	defer close(j.done)

	s.mu.Lock()
	if !j.stopping {
		j.setState(batchpb.JobStatus_SCHEDULED, "")
	}
	s.mu.Unlock()

	end, because := j.runTasks()
	j.release()

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range j.tasks {
		if t.state == batchpb.TaskStatus_PENDING {
			t.state = batchpb.TaskStatus_UNEXECUTED
		}
	}

	if j.stopping {
		end, because = batchpb.JobStatus_CANCELLED, "" // even when the last task ended at the same moment
	}
	j.setState(end, because)
}

const closedText = "Job failed because localemu ended."

// runTasks makes the machines and runs the tasks on them. It returns how the job ends, once no process of it is left.
func (j *job) runTasks() (end batchpb.JobStatus_State, because string) {
	if found, fail := j.settleIn(); !found {
		return j.starve(fail)
	}
	n := j.grantMachines()
	if n == 0 {
		return j.starve(false)
	}
	if err := j.makeMachines(n); err != nil {
		return batchpb.JobStatus_FAILED, "Job failed because its machines could not be made: " + err.Error()
	}

	defer j.scheduleFaults()()

	end = batchpb.JobStatus_SUCCEEDED
	for {
		select {
		case <-j.srv.closing: // before starting anything in vain
			j.stopAttempts()
			return batchpb.JobStatus_FAILED, closedText
		default:
		}

		if !j.assign() {
			return end, because
		}
		select {
		case a := <-j.ended:
			if text := j.settle(a); text != "" && because == "" { // the others go on
				end, because = batchpb.JobStatus_FAILED, text
			}
		case <-j.stop:
			j.stopAttempts()
			return batchpb.JobStatus_CANCELLED, ""
		case <-j.srv.closing:
			j.stopAttempts()
			return batchpb.JobStatus_FAILED, closedText
		}
	}
}

// starve is what remains of the life of a job for which there are no machines.
func (j *job) starve(fail bool) (end batchpb.JobStatus_State, because string) {
	if fail {
		return batchpb.JobStatus_FAILED, "Job failed due to resource exhaustion: CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED."
	}
	select {
	case <-j.stop:
		return batchpb.JobStatus_CANCELLED, ""
	case <-j.srv.closing:
		return batchpb.JobStatus_FAILED, closedText
	}
}

// assign starts as many pending tasks as there is room for, in order. It reports whether anything is left to do.
func (j *job) assign() (left bool) {
	s := j.srv
	s.mu.Lock()
	defer s.mu.Unlock()

	running := 0
	for _, vm := range j.vms {
		running += len(vm.attempts)
	}

	for _, t := range j.tasks {
		if t.state != batchpb.TaskStatus_PENDING {
			continue
		}
		left = true
		vm := j.freeMachine()
		if vm == nil || running >= j.plan.parallelism || j.stopping {
			break
		}
		j.startAttempt(t, vm)
		running++
	}

	if running > 0 && j.state == batchpb.JobStatus_SCHEDULED {
		j.setState(batchpb.JobStatus_RUNNING, "")
	}
	return left || running > 0
}

// freeMachine returns the first machine with a free slot. The lock is held.
func (j *job) freeMachine() *machine {
	for _, vm := range j.vms {
		if !vm.lost && len(vm.attempts) < j.plan.perVM {
			return vm
		}
	}
	return nil
}

// settle records how an attempt ended, and decides whether the task gets another one. If not, it returns why the task,
// and with it the job, has failed.
func (j *job) settle(a *attempt) (because string) {
	s := j.srv
	s.mu.Lock()
	defer s.mu.Unlock()

	j.vacate(a)
	code, text := a.record()
	if a.task.state != batchpb.TaskStatus_FAILED {
		return ""
	}
	if a.number >= j.plan.retries || !retryable(j.plan.policy, code) {
		return fmt.Sprintf("Job failed due to task failure. Specifically, task with index %d failed due to the "+
			"following task event: %q", a.task.index, text)
	}
	a.task.attempt++
	a.task.state = batchpb.TaskStatus_PENDING
	return ""
}

// record records how the attempt ended; a task that was stopped with its job counts as not executed. It returns the
// exit code and the text of the event. The lock is held.
func (a *attempt) record() (code int32, text string) {
	code, why := a.outcome()
	switch {
	case a.cause == causeStopped:
		return code, a.task.setState(a.job, batchpb.TaskStatus_UNEXECUTED, a.place, ".", nil)
	case code == 0:
		return code, a.task.setState(a.job, batchpb.TaskStatus_SUCCEEDED, a.place, ".", &batchpb.TaskExecution{})
	}
	return code, a.task.setState(a.job, batchpb.TaskStatus_FAILED, a.place, why, &batchpb.TaskExecution{ExitCode: code})
}

// vacate frees the attempt's slot; a lost machine is replaced when its last attempt is gone. The lock is held.
func (j *job) vacate(a *attempt) {
	vm := a.vm
	vm.attempts = slices.DeleteFunc(vm.attempts, func(x *attempt) bool { return x == a })
	if vm.lost && len(vm.attempts) == 0 {
		j.replace(vm)
	}
}

// retryable reports whether the lifecycle policy retries an exit code. Without a policy every failure is retried.
func retryable(p *batchpb.LifecyclePolicy, code int32) bool {
	listed := slices.Contains(p.GetActionCondition().GetExitCodes(), code)
	switch p.GetAction() {
	case batchpb.LifecyclePolicy_RETRY_TASK:
		return listed
	case batchpb.LifecyclePolicy_FAIL_TASK:
		return !listed
	}
	return true
}

// stopAttempts stops all running attempts and waits for them.
func (j *job) stopAttempts() {
	s := j.srv
	s.mu.Lock()
	left := 0
	for _, vm := range j.vms {
		for _, a := range vm.attempts {
			left++
			a.endAfter(causeStopped, s.opts.Grace)
		}
	}
	s.mu.Unlock()

	for range left {
		a := <-j.ended
		s.mu.Lock()
		j.vacate(a)
		a.record()
		s.mu.Unlock()
	}
}
