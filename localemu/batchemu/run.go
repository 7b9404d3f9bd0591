package batchemu

import (
	"fmt"
	"slices"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// run takes the job from QUEUED to its final state and returns then. It is the only function that moves a job on,
// except that CancelJob may set CANCELLATION_IN_PROGRESS.
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

	// What did not begin is not executed any more.
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

// runTasks makes the job's machines and runs its tasks on them. It returns the state in which the job ends and the
// sentence of its event, when no process of the job is left. After a task has failed for good, the others go on.
func (j *job) runTasks() (end batchpb.JobStatus_State, because string) {
	// Machines, unless a fault leaves none.
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
		case <-j.srv.closing: // looked at first, so that nothing is started in vain
			j.stopAttempts()
			return batchpb.JobStatus_FAILED, closedText
		default:
		}

		if !j.assign() {
			return end, because
		}
		select {
		case a := <-j.ended:
			if text := j.settle(a); text != "" && because == "" { // the first failure is the job's
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

// starve ends a job for which there are no machines: at once if fail is true, or else when it is cancelled or localemu
// ends. It returns the job's final state and the sentence of its event.
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

// assign starts as many pending tasks as there is room for, in the order of their indices. It reports whether any task
// is pending or running.
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

// freeMachine returns the first machine with a free slot, nil if there is none. The lock is held.
func (j *job) freeMachine() *machine {
	for _, vm := range j.vms {
		if !vm.lost && len(vm.attempts) < j.plan.perVM {
			return vm
		}
	}
	return nil
}

// settle records how an attempt ended and frees its place on the machine. If it failed and may be retried, the task is
// pending again. If it may not, the task and with it the job have failed, and settle returns why; else "".
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

// record sets the task's state by how the attempt ended: UNEXECUTED if it was stopped with its job, SUCCEEDED with exit
// code 0, else FAILED. It returns the exit code and the text of the event. The lock is held.
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

// vacate removes the attempt from its machine, so that another task can run there. A lost machine is replaced when its
// last attempt is gone. The lock is held.
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

// stopAttempts stops all running attempts, waits until they have ended, and records their ends. No attempt may be
// started meanwhile: it is called by run's goroutine, which alone starts them.
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
