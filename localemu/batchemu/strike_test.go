//go:build unix

package batchemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"

	"coppice/internal/sweep"
)

// retrying lets a job's tasks be retried after any exit code.
func retrying(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.LifecyclePolicies = nil }

// TestStrikes: whichever fault strikes a machine, Batch reports its code and the task gets another attempt, at once or
// after the pause.
func TestStrikes(t *testing.T) {
	for _, code := range BlowCodes() {
		struck := map[string]int{}
		w := newWorld(t, func(o *Options) {
			o.Struck = func(class string) { struck[class]++ }
			o.Faults.RetryPause = sweep.Duration(10 * time.Millisecond)
		})
		job := w.create("spot-3", "hang-once", 1, retrying)
		w.waitState(job.Name, batchpb.JobStatus_RUNNING)
		w.server.Strike(7, Blow{}) // there is no such machine
		w.server.Strike(0, Blow{Code: code})
		w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
		if events := w.task(job.Name, 0).Status.StatusEvents; len(events) != 4 ||
			events[1].TaskExecution.GetExitCode() != code {
			t.Errorf("code %d: events %v; want that code and another attempt", code, events)
		}
		if class := reserved[causeOf(code)].class; struck[class] != 1 || struck["pause before a retry"] != 1 ||
			len(struck) != 2 {
			t.Errorf("code %d: struck %v; want %q and a pause", code, struck, class)
		}
	}
}

// TestATaskThatLingers runs beside the attempt that replaces it.
func TestATaskThatLingers(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("spot-3", "told", 1, retrying)
	eventually(t, "the task listens", func() bool { return exists(filepath.Join(w.meet, "listens")) })
	w.server.mu.Lock()
	first := w.server.jobs[job.Name].vms[0].attempts[0].process
	w.server.mu.Unlock()

	w.server.Strike(0, Blow{Lingers: time.Hour})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	select {
	case <-first.Done():
		t.Error("the job has ended with another attempt, and the first one's process, too; want it to live on")
	default:
	}

	// What it still writes goes with the server.
	again := filepath.Join(w.server.machines, "spot-3", "vm-0", "ssd")
	if err := os.MkdirAll(again, 0o755); err != nil {
		t.Fatal(err)
	}
	w.server.Close()
	<-first.Done()
	if exists(filepath.Dir(again)) {
		t.Errorf("a process that outlived its job wrote %s, and it is there after the server has ended; want no "+
			"machine left", again)
	}
}

// TestATaskIsKilledAndPaused: a killed task ends with 137; a paused one does nothing until the pause ends.
func TestATaskIsKilledAndPaused(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("spot-3", "told", 1, retrying)
	eventually(t, "the task listens", func() bool { return exists(filepath.Join(w.meet, "listens")) })
	w.server.PauseTask(0, time.Millisecond)
	w.server.PauseTask(5, time.Hour) // there is none
	w.server.KillTask(0)
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	if events := w.task(job.Name, 0).Status.StatusEvents; len(events) != 4 ||
		events[1].TaskExecution.GetExitCode() != 137 {
		t.Errorf("events %v; want exit code 137 and another attempt", events)
	}
}

// TestAFullDisk accepts nothing at first: a file is in the place of a folder.
func TestAFullDisk(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Faults.FullDisk = []FullDisk{{VM: 0, For: sweep.Duration(300 * time.Millisecond)}} })
	job := w.create("spot-3", "hang", 1, retrying)
	w.waitState(job.Name, batchpb.JobStatus_RUNNING)
	disks := w.server.Disks(0)
	if len(disks) != 1 || len(w.server.Disks(9)) != 0 {
		t.Fatalf("disks %q; want one of machine 0", disks)
	}
	blocked := func() bool { return os.MkdirAll(filepath.Join(disks[0], "datasets", "x"), 0o755) != nil }
	if !blocked() {
		t.Error("a full disk takes a folder")
	}
	eventually(t, "the disk has room", func() bool { return !blocked() })
}

// TestASlowMachine holds up its tasks, which end all the same.
func TestASlowMachine(t *testing.T) {
	struck := map[string]int{}
	w := newWorld(t, func(o *Options) { o.Struck = func(class string) { struck[class]++ } })
	job := w.create("spot-3", "told", 1, retrying)
	eventually(t, "the task listens", func() bool { return exists(filepath.Join(w.meet, "listens")) })
	w.server.SlowMachine(0, 200*time.Millisecond)
	w.server.SlowMachine(5, time.Hour) // there is none
	w.server.Strike(0, Blow{Notice: 30 * time.Second})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	if struck["machine slow"] != 1 {
		t.Errorf("struck %v; expected one slow machine", struck)
	}
	if text := w.log(job.Name[strings.LastIndexByte(job.Name, '/')+1:], 0, 0); !strings.Contains(text, "told to go") {
		t.Errorf("the slow task has written %q; expected that it was told to go within the notice", text)
	}
}
