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

// runnables are what a task executes, one after the other: first a script that opens the local SSD, if there is one,
// and then the container. The first that fails ends the task with its exit code.
func (j Job) runnables() []*batchpb.Runnable {
	if j.LocalSSDs == 0 {
		return []*batchpb.Runnable{j.container()}
	}
	return []*batchpb.Runnable{j.openDisks(), j.container()}
}

// openDisks is a script that makes the local SSD writable for any user. Batch formats and mounts the disk as root, and
// runs scripts as root, but the container's user is another. Every task runs the script, also while other tasks of the
// machine are at work, so running it again changes nothing. Mode 1777 keeps users from removing each other's files, as
// in /tmp. The rule mount-path makes sure that the path is a single word for a shell.
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

// lifecycle says which exit codes are retried; all others fail the task. Without any codes there is no policy, and
// Batch retries all. It supports only one policy.
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
