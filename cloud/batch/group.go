package batch

import (
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
		Runnables:         []*batchpb.Runnable{j.runnable()},
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

// runnable is the container. Since it names no volumes of its own, Batch mounts all of the task's, at the same paths.
func (j Job) runnable() *batchpb.Runnable {
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

// volumes mounts the local SSD; Batch formats it.
func (j Job) volumes() []*batchpb.Volume {
	if j.LocalSSDs == 0 {
		return nil
	}
	return []*batchpb.Volume{{
		Source: &batchpb.Volume_DeviceName{DeviceName: ssdDevice}, MountPath: j.MountPath, MountOptions: []string{"rw", "async"},
	}}
}
