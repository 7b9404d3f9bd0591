package batch

import (
	"fmt"
	"maps"
	"slices"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// taskGroup describes the job's tasks, which are all alike: Batch accepts only one group for each job.
func (j Job) taskGroup() *batchpb.TaskGroup {
	return &batchpb.TaskGroup{
		TaskSpec:         j.taskSpec(),
		TaskCount:        int64(j.Tasks),
		Parallelism:      int64(j.Parallelism), // always set: the documentation is inconsistent about the default
		TaskCountPerNode: int64(j.TasksPerVM),
	}
}

// taskSpec says what every task runs, with how much of a machine, and what happens if it fails. A MaxRunDuration of 0
// sets no limit.
func (j Job) taskSpec() *batchpb.TaskSpec {
	spec := &batchpb.TaskSpec{
		Runnables:         j.runnables(),
		ComputeResource:   &batchpb.ComputeResource{CpuMilli: j.CPUMilli, MemoryMib: j.MemoryMiB},
		MaxRetryCount:     int32(j.MaxRetries),
		LifecyclePolicies: j.lifecycle(),
		Environment:       &batchpb.Environment{Variables: maps.Clone(j.Env)},
		Volumes:           j.mountDisks(),
	}
	if j.MaxRunDuration > 0 {
		spec.MaxRunDuration = durationpb.New(j.MaxRunDuration)
	}
	return spec
}

// runnables are executed by a task one after the other; the first that fails ends the task with its exit code.
func (j Job) runnables() []*batchpb.Runnable {
	if j.LocalSSDs == 0 {
		return []*batchpb.Runnable{j.container()}
	}
	return []*batchpb.Runnable{j.openDisks(), j.container()}
}

// openDisks makes the local SSD writable for any user: Batch formats and mounts it as root, while the container runs as
// another user. Scripts run as root on the machine itself, and every task runs this one, while other tasks of the
// machine may be at work: so it is idempotent. The sticky bit keeps users from removing each other's files, as in /tmp.
// The rule mount-path ensures that the path is a single word to a shell.
func (j Job) openDisks() *batchpb.Runnable {
	return &batchpb.Runnable{
		DisplayName: "open the local SSD",
		Executable: &batchpb.Runnable_Script_{Script: &batchpb.Runnable_Script{Command: &batchpb.Runnable_Script_Text{
			Text: fmt.Sprintf("set -e\nmkdir -p %[1]s\nchmod 1777 %[1]s\n", j.MountPath),
		}}},
	}
}

// HostNetwork are the options of a container of a job with HostNetwork.
const HostNetwork = "--network host"

// container is the program. Since it names no volumes of its own, Batch mounts all of the task's volumes at the same
// paths.
func (j Job) container() *batchpb.Runnable {
	options := "" // of `docker run`
	if j.HostNetwork {
		options = HostNetwork
	}
	return &batchpb.Runnable{Executable: &batchpb.Runnable_Container_{Container: &batchpb.Runnable_Container{
		ImageUri: j.Image, Commands: j.Args, Options: options,
	}}}
}

// lifecycle is the only policy that Batch supports: the listed exit codes are retried, all others fail the task.
func (j Job) lifecycle() []*batchpb.LifecyclePolicy {
	if len(j.RetryExitCodes) == 0 {
		return nil
	}
	return []*batchpb.LifecyclePolicy{{
		Action: batchpb.LifecyclePolicy_RETRY_TASK,
		ActionCondition: &batchpb.LifecyclePolicy_ActionCondition{
			ExitCodes: slices.Sorted(slices.Values(j.RetryExitCodes)),
		},
	}}
}

// mountDisks mounts the local SSD, which Batch formats and leaves to root (see openDisks).
func (j Job) mountDisks() []*batchpb.Volume {
	if j.LocalSSDs == 0 {
		return nil
	}
	return []*batchpb.Volume{{
		Source: &batchpb.Volume_DeviceName{DeviceName: ssdDevice}, MountPath: j.MountPath,
		MountOptions: []string{"rw", "async"},
	}}
}
