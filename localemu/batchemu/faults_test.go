//go:build unix

package batchemu

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"

	"coppice/internal/sweep"
)

func TestPreemption(t *testing.T) {
	faults := Faults{Preempt: []Preemption{{Task: new(1)}}}
	w := newWorld(t, func(o *Options) { o.Faults = faults })
	job := w.create("spot-1", "hang-once", 2,
		func(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.Environment.Variables["HELPER"] = "hang-once" })
	w.waitCount(job.Name, "SUCCEEDED", 1) // the preempted one, at its second attempt; task 0 hangs
	task := w.task(job.Name, 1)
	want := "Task state is updated from RUNNING to FAILED on zones/us-central1-a/instances/I due to Spot VM " +
		"preemption with exit code 50001."
	if texts := taskTexts(task); len(texts) != 4 || texts[1] != want {
		t.Errorf("events %q", texts)
	}
	if n := len(w.task(job.Name, 0).Status.StatusEvents); n != 1 {
		t.Errorf("the other task has %d events", n)
	}
}

func TestPreemptionAfterMessages(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Faults = Faults{Preempt: []Preemption{{Task: new(1), AfterMessages: 1}}} })
	job := w.create("spot-2", "hang-once", 2, nil)
	w.waitCount(job.Name, "RUNNING", 2)
	w.server.Published(1)
	w.waitCount(job.Name, "SUCCEEDED", 1)
	if n := len(w.task(job.Name, 0).Status.StatusEvents); n != 1 {
		t.Errorf("the other task has %d events", n)
	}
}

// TestFaultsAfterATime loses a machine after a time.
func TestFaultsAfterATime(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Faults = Faults{LoseMachine: []MachineLoss{{VM: 0, After: sweep.Duration(300 * time.Millisecond)}}}
	})
	job := w.create("lost-2", "hang-once", 1, nil)
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	if events := w.task(job.Name, 0).Status.StatusEvents; len(events) != 4 ||
		events[1].TaskExecution.GetExitCode() != 50002 {
		t.Errorf("events %v", events)
	}
}

func TestNoPreemptionOfStandardMachines(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Faults = Faults{Preempt: []Preemption{{Task: new(0)}, {VM: new(0)}}} })
	job := w.create("standard-1", "ok", 1, func(j *batchpb.Job) {
		j.AllocationPolicy.Instances[0].GetPolicy().ProvisioningModel = batchpb.AllocationPolicy_STANDARD
	})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
}

func TestLostMachine(t *testing.T) {
	vm := 1
	for name, faults := range map[string]Faults{
		"lost":      {LoseMachine: []MachineLoss{{VM: vm, AfterMessages: 3}}},
		"preempted": {Preempt: []Preemption{{VM: &vm, AfterMessages: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Faults = faults })
			job := w.create("lost-1", "scratch-then-hang", 4,
				func(j *batchpb.Job) { j.TaskGroups[0].TaskCountPerNode = 2 })
			for i := range 4 {
				eventually(t, "the task uses its disk",
					func() bool { return exists(filepath.Join(w.meet, fmt.Sprint("wrote-", i))) })
			}
			w.server.Published(2) // not yet
			w.server.Published(4)
			w.server.Published(5) // not again
			w.waitCount(job.Name, "SUCCEEDED", 2)
			for _, i := range []int{2, 3} { // the tasks of vm-1
				events := w.task(job.Name, i).Status.StatusEvents
				code := map[string]int32{"lost": 50002, "preempted": 50001}[name]
				if len(events) != 4 || events[1].TaskExecution.GetExitCode() != code {
					t.Errorf("task %d: events %v", i, events)
				}
				if events[0].Description == events[2].Description {
					t.Error("the new machine has the number of the lost one")
				}
			}
			first := w.log("lost-1", 2, 1) + w.log("lost-1", 3, 1)
			if !strings.Contains(first, "disk empty: true") {
				t.Errorf("the new machine's disk was not empty: %q", first)
			}
		})
	}
}

// TestNoCapacity: if no machines are available, a job goes to the next allowed zone, waits to be cancelled, or fails.
func TestNoCapacity(t *testing.T) {
	spot := true
	w := newWorld(t, func(o *Options) {
		o.Faults = Faults{NoCapacity: []Shortage{{MachineType: "n2-highmem-16", Zone: "us-central1-a", Spot: &spot},
			{MachineType: "n2-highmem-32", Fail: true}, {MachineType: "n2-highmem-8"}}}
	})
	on := func(machine string, zones ...string) func(*batchpb.Job) {
		return func(j *batchpb.Job) {
			p := j.AllocationPolicy.Instances[0].GetPolicy()
			p.MachineType, p.Disks[0].GetNewDisk().SizeGb = machine, 4*375
			j.AllocationPolicy.Location = &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: zones}
		}
	}
	elsewhere := w.create("elsewhere", "ok", 1, on("n2-highmem-16", "regions/us-central1"))
	w.waitState(elsewhere.Name, batchpb.JobStatus_SUCCEEDED)
	if e := w.task(elsewhere.Name, 0).Status.StatusEvents[0]; !strings.Contains(e.Description, "zones/us-central1-b/") {
		t.Errorf("the task ran at %q, expected in us-central1-b, which has machines", e.Description)
	}
	standard := w.create("standard", "ok", 1, func(j *batchpb.Job) {
		on("n2-highmem-16", "zones/us-central1-a")(j)
		j.AllocationPolicy.Instances[0].GetPolicy().ProvisioningModel = batchpb.AllocationPolicy_STANDARD
	})
	w.waitState(standard.Name, batchpb.JobStatus_SUCCEEDED)
	failed := w.waitState(w.create("failed", "ok", 1, on("n2-highmem-32")).Name, batchpb.JobStatus_FAILED)
	for id, waits := range map[string]func(*batchpb.Job){"a-zone": on("n2-highmem-16", "zones/us-central1-a"),
		"the-region": on("n2-highmem-8")} {
		job := w.create(id, "ok", 1, waits)
		stuck := w.waitFor(job.Name, func(j *batchpb.Job) bool { return len(j.Status.StatusEvents) > 1 })
		if stuck.Status.State != batchpb.JobStatus_SCHEDULED || stuck.Status.RunDuration != nil {
			t.Fatalf("a job without machines is %v, expected it to be scheduled and not to have run", stuck)
		}
		if _, err := w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: job.Name}); err != nil {
			t.Fatal(err)
		}
		gone := w.waitState(job.Name, batchpb.JobStatus_CANCELLED)
		for _, j := range []*batchpb.Job{stuck, gone, failed} {
			if text := fmt.Sprint(j.Status.StatusEvents); !strings.Contains(text,
				"CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED") {
				t.Errorf("the events are %v, expected one that the zone has no machines", text)
			}
		}
		if gone.Status.TaskGroups["group0"].Counts["UNEXECUTED"] != 1 {
			t.Errorf("the cancelled job is %v, expected its task to be UNEXECUTED", gone.Status)
		}
	}
}

// TestNoticeOfPreemption: a task or a machine that is taken away with notice gets SIGTERM, and its end is reported like
// any preemption, whatever its exit code.
func TestNoticeOfPreemption(t *testing.T) {
	vm := 0
	for name, p := range map[string]Preemption{"task": {Task: new(0), Notice: sweep.Duration(time.Minute),
		AfterMessages: 1},
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
	w := newWorld(t, func(o *Options) {
		o.Faults.FullDisk = []FullDisk{{VM: 0, For: sweep.Duration(300 * time.Millisecond)}}
	})
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
