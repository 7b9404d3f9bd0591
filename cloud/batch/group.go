package batch

import (
	"fmt"
	"maps"
	"slices"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// group is the one task group that Batch supports.
func (j Job) group() *batchpb.TaskGroup {
	return &batchpb.TaskGroup{
		TaskSpec:         j.task(),
		TaskCount:        int64(j.Tasks),
		Parallelism:      int64(j.Parallelism), // always said: the documents disagree about the default
		TaskCountPerNode: int64(j.TasksPerVM),
	}
}

func (j Job) task() *batchpb.TaskSpec {
	spec := &batchpb.TaskSpec{
		Runnables:         j.runnables(),
		ComputeResource:   &batchpb.ComputeResource{CpuMilli: j.CPUMilli, MemoryMib: j.MemoryMiB},
		MaxRetryCount:     int32(j.MaxRetries),
		LifecyclePolicies: j.lifecycle(),
		Environment:       &batchpb.Environment{Variables: maps.Clone(j.Env)},
		Volumes:           j.volumes(),
	}
	if j.MaxRunDuration > 0 {
		spec.MaxRunDuration = durationpb.New(j.MaxRunDuration)
	}
	return spec
}

// runnables are what a task executes, one after the other; the first that fails ends the task with its exit code.
func (j Job) runnables() []*batchpb.Runnable {
	if j.LocalSSDs == 0 {
		return []*batchpb.Runnable{j.container()}
	}
	return []*batchpb.Runnable{j.opening(), j.container()}
}

// opening lets any user write to the local SSD: Batch formats and mounts it as root, and leaves it to root, while the
// container's user is another one. Scripts run as root on the machine itself, and every task runs this one, on a machine that
// may have others at work: so it changes nothing when it has been run before. The sticky bit keeps users from removing each
// other's files, as in /tmp. RuleMountPath has kept everything out of the path that a shell would take for more than a word.
func (j Job) opening() *batchpb.Runnable {
	return &batchpb.Runnable{
		DisplayName: "open the local SSD",
		Executable: &batchpb.Runnable_Script_{Script: &batchpb.Runnable_Script{Command: &batchpb.Runnable_Script_Text{
			Text: fmt.Sprintf("set -e\nmkdir -p %[1]s\nchmod 1777 %[1]s\n", j.MountPath),
		}}},
	}
}

// container is the program. Since it names no volumes of its own, Batch mounts all of the task's, at the same paths.
func (j Job) container() *batchpb.Runnable {
	return &batchpb.Runnable{Executable: &batchpb.Runnable_Container_{Container: &batchpb.Runnable_Container{
		ImageUri: j.Image, Commands: j.Args,
	}}}
}

// lifecycle is the one policy that Batch supports: the listed codes are tried again, all others fail the task.
func (j Job) lifecycle() []*batchpb.LifecyclePolicy {
	if len(j.RetryExitCodes) == 0 {
		return nil
	}
	return []*batchpb.LifecyclePolicy{{
		Action:          batchpb.LifecyclePolicy_RETRY_TASK,
		ActionCondition: &batchpb.LifecyclePolicy_ActionCondition{ExitCodes: slices.Sorted(slices.Values(j.RetryExitCodes))},
	}}
}

// volumes mounts the local SSD; Batch formats it, and it belongs to root (opening).
func (j Job) volumes() []*batchpb.Volume {
	if j.LocalSSDs == 0 {
		return nil
	}
	return []*batchpb.Volume{{
		Source: &batchpb.Volume_DeviceName{DeviceName: ssdDevice}, MountPath: j.MountPath, MountOptions: []string{"rw", "async"},
	}}
}
