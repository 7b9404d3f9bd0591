//go:build unix

package batchemu

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"

	"coppice/internal/sweep"
)

// TestNoticeOfPreemption: a task or a machine that is taken away with notice gets SIGTERM, and its end is reported like
// any preemption, whatever its exit code.
func TestNoticeOfPreemption(t *testing.T) {
	vm := 0
	for name, p := range map[string]Preemption{"task": {Task: new(0), Notice: sweep.Duration(time.Minute), AfterMessages: 1},
		"machine": {VM: &vm, Notice: sweep.Duration(time.Minute), AfterMessages: 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Faults = Faults{Preempt: []Preemption{p}} })
			job := w.create("spot-3", "told", 1, nil)
			eventually(t, "the task listens", func() bool { return exists(filepath.Join(w.meet, "listens")) })
			w.server.Published(1)
			w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
			if log := w.log("spot-3", 0, 0); !strings.Contains(log, "told to go") {
				t.Errorf("the preempted attempt wrote %q, want that it was told to go", log)
			}
			if events := w.task(job.Name, 0).Status.StatusEvents; len(events) != 4 ||
				events[1].TaskExecution.GetExitCode() != 50001 {
				t.Errorf("events %v; want exit code 50001 and another attempt", events)
			}
		})
	}
}
