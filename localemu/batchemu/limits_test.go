//go:build linux

package batchemu

import (
	"maps"
	"testing"

	"cloud.google.com/go/batch/apiv1/batchpb"
)

// TestMemoryLimits: a task over its limit ends with 137, the tasks of a machine over its limit with 50002, and each is
// retried.
func TestMemoryLimits(t *testing.T) {
	first, none := 0, 7
	for name, c := range map[string]struct {
		limit  MemoryLimit
		code   int32 // of the first attempt
		struck int
	}{
		"task":            {MemoryLimit{Task: &first, MiB: 48}, 137, 1},
		"machine":         {MemoryLimit{VM: &first, MiB: 48, Times: 1}, 50002, 1},
		"another task":    {MemoryLimit{Task: &none, MiB: 1}, 0, 0},
		"another machine": {MemoryLimit{VM: &none, MiB: 1}, 0, 0},
		"enough":          {MemoryLimit{Task: &first, MiB: 1 << 20}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			struck := map[string]int{}
			w := newWorld(t, func(o *Options) {
				o.Struck = func(class string) { struck[class]++ }
				o.Faults.Memory = []MemoryLimit{c.limit}
			})
			mode := "hold-once"
			if c.code == 0 {
				mode = "ok"
			}
			job := w.create("limited", mode, 1, retrying)
			w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)

			events := w.task(job.Name, 0).Status.StatusEvents
			if c.code == 0 && len(events) != 2 || c.code != 0 &&
				(len(events) != 4 || events[1].TaskExecution.GetExitCode() != c.code) {
				t.Errorf("the task's events are %v, expected exit code %d, and another attempt after one that is not 0",
					events, c.code)
			}
			want := map[string]int{}
			if c.struck > 0 {
				want["memory limit"] = c.struck
			}
			if !maps.Equal(struck, want) {
				t.Errorf("struck have %v, expected %v", struck, want)
			}
		})
	}
}

// TestAMemoryLimitForAlways strikes until the task may not be retried.
func TestAMemoryLimitForAlways(t *testing.T) {
	first, struck := 0, 0
	w := newWorld(t, func(o *Options) {
		o.Struck = func(string) { struck++ }
		o.Faults.Memory = []MemoryLimit{{Task: &first, MiB: 1}}
	})
	job := w.create("never", "hang", 1, func(j *batchpb.Job) {
		retrying(j)
		j.TaskGroups[0].TaskSpec.MaxRetryCount = 2
	})
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	if struck != 3 {
		t.Errorf("it struck %d times, expected each of 3 attempts", struck)
	}
}
