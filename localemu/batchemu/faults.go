package batchemu

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"coppice/internal/sweep"
	"coppice/localemu/internal/proc"
)

// Faults are the failures to inject, in every job alike. Each happens once per job, unless it says how often.
type Faults struct {
	Preempt     []Preemption
	LoseMachine []MachineLoss
	NoCapacity  []Shortage
	FullDisk    []FullDisk
	Memory      []MemoryLimit
	RetryPause  sweep.Duration // from the end of an attempt to the next one of the task
}

// Shortage means that machines of the type cannot be had in the zone: a job that may run nowhere else stays SCHEDULED
// until it is cancelled, or fails at once. Empty fields match any type, any zone, any kind.
type Shortage struct {
	MachineType string `yaml:"type"`
	Zone        string `yaml:"zone"` // such as us-central1-a
	Spot        *bool  `yaml:"spot"` // only Spot machines, or only others
	Fail        bool   `yaml:"fail"`
}

// Check returns what is wrong with a shortage.
func (s Shortage) Check() error {
	if s.Zone != "" && !zonePattern.MatchString("zones/"+s.Zone) {
		return fmt.Errorf("zone %.60q: use one such as us-central1-a", s.Zone)
	}
	return nil
}

// Preemption takes a Spot machine away. Jobs on standard machines are not preempted.
//
// With Task and Attempt set, only that attempt dies, After its start, and its machine's other tasks continue: the
// smallest test of a retry. With VM set, the whole machine goes, After the job began to run: all its attempts die and
// its local SSD is lost, as happens in the cloud.
//
// Notice is how long before its end a task gets SIGTERM; with 0 it is killed without warning. Whatever its exit code in
// that time, Batch reports 50001.
//
// AfterMessages, if not 0, takes the place of After: the fault strikes when Published is told of that many messages, if
// the attempt or the machine is there at that moment.
type Preemption struct {
	Task          *int           `yaml:"task"` // either this
	VM            *int           `yaml:"vm"`   // or this
	Attempt       int            `yaml:"attempt"`
	After         sweep.Duration `yaml:"after"`
	AfterMessages int            `yaml:"after_messages"`
	Notice        sweep.Duration `yaml:"notice"`
}

// MaxNotice bounds the time between a machine's notice and its end, and other waits of faults.
const MaxNotice = 5 * time.Minute

// Check returns what is wrong with a preemption.
func (p Preemption) Check() error {
	switch {
	case (p.Task == nil) == (p.VM == nil):
		return errors.New("give either task (and attempt) or vm")
	case p.Task != nil && *p.Task < 0 || p.VM != nil && *p.VM < 0 || p.Attempt < 0:
		return errors.New("task, attempt and vm count from 0")
	case p.Notice < 0 || time.Duration(p.Notice) > MaxNotice:
		return fmt.Errorf("notice is %s: use 0s to %s", p.Notice, MaxNotice)
	}
	return checkMoment(p.After, p.AfterMessages)
}

// checkMoment checks when a fault strikes: after a time, at most that of a job, or after messages.
func checkMoment(after sweep.Duration, messages int) error {
	switch {
	case after < 0 || time.Duration(after) > maxRunTime:
		return fmt.Errorf("after is %s: use 0s to %s", after, maxRunTime)
	case messages < 0 || messages > math.MaxInt32:
		return fmt.Errorf("after_messages is %d: use 1 or more", messages)
	case after != 0 && messages != 0:
		return errors.New("give either after or after_messages")
	}
	return nil
}

// MachineLoss makes the machine number VM vanish, After the job began to run, whatever its kind: its tasks end with
// 50002, its local SSD is lost, and a new machine takes its place. AfterMessages is as in Preemption.
type MachineLoss struct {
	VM            int            `yaml:"vm"`
	After         sweep.Duration `yaml:"after"`
	AfterMessages int            `yaml:"after_messages"`
}

// Check returns what is wrong with a loss.
func (l MachineLoss) Check() error {
	if l.VM < 0 {
		return errors.New("vm counts from 0")
	}
	return checkMoment(l.After, l.AfterMessages)
}

// Published tells the number of messages published so far to the faults that wait for it. So the amount of work done
// decides when they strike, not the speed of the machine.
func (s *Server) Published(total int) {
	due := func(after int) bool { return after > s.messages && after <= total }
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, j := range s.jobs {
		for _, l := range s.opts.Faults.LoseMachine {
			if due(l.AfterMessages) {
				j.strike(l.VM, causeLost, 0)
			}
		}

		for _, p := range s.opts.Faults.Preempt {
			if !due(p.AfterMessages) || !j.mayPreempt() {
				continue
			}
			if p.VM != nil {
				j.strike(*p.VM, causePreempted, p.Notice)
			} else {
				j.preempt(p)
			}
		}
	}

	s.messages = max(s.messages, total)
}

// scheduleFaults sets a timer for every fault that strikes a whole machine after a time.
func (j *job) scheduleFaults() timers {
	var all timers
	in := func(after sweep.Duration, vm int, c cause, notice sweep.Duration) {
		all = append(all, time.AfterFunc(time.Duration(after), func() {
			j.srv.mu.Lock()
			defer j.srv.mu.Unlock()
			j.strike(vm, c, notice)
		}))
	}

	for _, l := range j.srv.opts.Faults.LoseMachine {
		if l.AfterMessages == 0 {
			in(l.After, l.VM, causeLost, 0)
		}
	}
	for _, p := range j.srv.opts.Faults.Preempt {
		if p.VM != nil && p.AfterMessages == 0 && j.mayPreempt() {
			in(p.After, *p.VM, causePreempted, p.Notice)
		}
	}
	return all
}

// strike takes away the machine number vm, if the job has that many. The lock is held.
func (j *job) strike(vm int, c cause, notice sweep.Duration) {
	if vm < len(j.vms) {
		j.lose(j.vms[vm], c, time.Duration(notice))
	}
}

// preempt ends the attempt of a task if it runs. The lock is held.
func (j *job) preempt(p Preemption) {
	for _, vm := range j.vms {
		for _, a := range vm.attempts {
			if a.task.index == *p.Task && a.number == p.Attempt {
				a.endAfter(causePreempted, time.Duration(p.Notice))
			}
		}
	}
}

// mayPreempt reports whether the job's machines are Spot, and logs when a scripted preemption finds none.
func (j *job) mayPreempt() bool {
	if !j.plan.spot {
		j.srv.opts.Log.Warn("scripted preemption has no effect: the job runs on standard machines", "job", j.id)
	}
	return j.plan.spot
}

// shortage returns the fault that leaves a zone without machines for the job; nil if there is none.
func (j *job) shortage(zone string) *Shortage {
	for i, f := range j.srv.opts.Faults.NoCapacity {
		if (f.MachineType == "" || f.MachineType == j.plan.machineType) && (f.Zone == "" || "zones/"+f.Zone == zone) &&
			(f.Spot == nil || *f.Spot == j.plan.spot) {
			return &j.srv.opts.Faults.NoCapacity[i]
		}
	}
	return nil
}

// settleIn chooses the first zone that has machines for the job. If none has, it says so in the job's events, and the
// job fails or waits. The texts are those of the service.
func (j *job) settleIn() (found, fail bool) {
	for _, zone := range j.plan.zones {
		f := j.shortage(zone)
		if f == nil {
			j.zone = zone
			return true, false
		}

		fail = f.Fail
		now := time.Now()
		j.srv.mu.Lock()
		j.events = append(j.events, &batchpb.StatusEvent{Type: "OPERATIONAL_INFO", EventTime: timestamppb.New(now),
			Description: fmt.Sprintf(
				"Batch Error: code - CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED, description - error count is 1, latest "+
					"message example: Instance of type %s: the zone '%s' does not have enough resources available "+
					"to fulfill the request.",
				j.plan.machineType, strings.TrimPrefix(zone, "zones/"))})
		j.updated = now
		j.srv.mu.Unlock()
	}
	return false, fail
}

// Blow is a scripted loss of a machine.
type Blow struct {
	Code   int32         // that Batch reports for its tasks, one of BlowCodes; 0 is 50002
	Notice time.Duration // between SIGTERM and SIGKILL
	// Lingers is how long its tasks run on, unseen, after Batch has taken them for gone and started others in their
	// place. Their machine's disk is gone except for files they have open.
	Lingers time.Duration
}

// BlowCodes returns the exit codes that Batch may give a task because of its machine.
func BlowCodes() []int32 { return []int32{50001, 50002, 50003, 50004, 50006} }

// causeOf returns the cause with the exit code.
func causeOf(code int32) cause {
	for c, r := range reserved {
		if r.code == code {
			return c
		}
	}
	return causeLost
}

// Strike loses the machine number vm of every running job.
func (s *Server) Strike(vm int, b Blow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if vm >= len(j.vms) || j.vms[vm].lost || terminal(j.state) || len(j.vms[vm].attempts) == 0 {
			continue
		}
		c := causeOf(b.Code)
		s.opts.Struck(reserved[c].class)
		if b.Lingers > 0 {
			s.opts.Struck("task doubled")
		}
		if b.Notice > 0 {
			s.opts.Struck("notice before the end")
		}

		for _, a := range j.vms[vm].attempts {
			if b.Lingers > 0 {
				a.abandon(c, b.Lingers)
			}
		}
		j.lose(j.vms[vm], c, b.Notice)
	}
}

// abandon ends the attempt for Batch at once, and kills its process only after a while. The lock is held.
func (a *attempt) abandon(c cause, lingers time.Duration) {
	if a.cause != causeNone || a.process == nil || a.over() {
		return
	}
	a.cause = c
	close(a.abandoned)
	time.AfterFunc(lingers, a.process.Kill)
}

// KillTask kills the processes of a task of every running job, as the kernel does when memory is short.
func (s *Server) KillTask(task int) {
	s.eachAttempt(task, func(a *attempt) {
		s.opts.Struck("task killed")
		a.process.Kill()
	})
}

// PauseTask stops the processes of a task of every running job for a while: they do nothing, and Batch is not told.
func (s *Server) PauseTask(task int, pause time.Duration) {
	s.eachAttempt(task, func(a *attempt) {
		s.opts.Struck("task paused")
		a.paused = time.Now().Add(pause)
		p := a.process
		p.Pause()
		time.AfterFunc(pause, p.Resume)
	})
}

// A slow machine stands still for stall, runs for breath, and so on.
const (
	stall  = 80 * time.Millisecond
	breath = 20 * time.Millisecond
)

// SlowMachine makes all tasks on machine number vm of every running job stand still most of the time, for a while, as
// when a slow disk holds up whatever touches the mapped dataset.
func (s *Server) SlowMachine(vm int, d time.Duration) {
	end := time.Now().Add(d)
	var stop func(first bool)
	stop = func(first bool) {
		still := s.pauseMachine(vm)
		if first && len(still) > 0 {
			s.opts.Struck("machine slow")
		}
		time.AfterFunc(stall, func() {
			for _, p := range still {
				p.Resume()
			}
			if time.Now().Before(end) {
				time.AfterFunc(breath, func() { stop(false) })
			}
		})
	}
	stop(true)
}

// pauseMachine pauses every task on the machine that is not paused, and returns their processes.
func (s *Server) pauseMachine(vm int) (processes []*proc.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if vm >= len(j.vms) {
			continue
		}
		for _, a := range j.vms[vm].attempts {
			if a.cause == causeNone && a.process != nil && !a.over() && time.Now().After(a.paused) {
				a.process.Pause()
				processes = append(processes, a.process)
			}
		}
	}
	return processes
}

// eachAttempt calls do for every running attempt of a task. The lock is held.
func (s *Server) eachAttempt(task int, do func(*attempt)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		for _, vm := range j.vms {
			for _, a := range vm.attempts {
				if a.task.index == task && a.cause == causeNone && a.process != nil && !a.over() {
					do(a)
				}
			}
		}
	}
}

// Disks returns the folders that stand for the local disks of machine number vm of every job.
func (s *Server) Disks(vm int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var folders []string
	for _, j := range s.jobs {
		if vm < len(j.vms) {
			for _, m := range j.vms[vm].mounts {
				folders = append(folders, m.folder)
			}
		}
	}
	return folders
}

// FullDisk is a machine whose local disk cannot take a dataset for a while after the machine was made.
type FullDisk struct {
	VM  int            `yaml:"vm"`
	For sweep.Duration `yaml:"for"`
}

// Check returns what is wrong with a full disk.
func (d FullDisk) Check() error {
	if d.VM < 0 || d.For <= 0 || time.Duration(d.For) > maxRunTime {
		return fmt.Errorf("vm is %d and for is %s: use 0 or more for vm, and 1s to %s for for", d.VM, d.For, maxRunTime)
	}
	return nil
}

// fill makes the first local disk of machine number k unwritable: a file is in the place of the dataset's folder.
func (j *job) fill(k int, vm *machine) {
	for _, f := range j.srv.opts.Faults.FullDisk {
		if f.VM != k || len(vm.mounts) == 0 {
			continue
		}
		file := filepath.Join(vm.mounts[0].folder, "datasets")
		if err := os.WriteFile(file, nil, 0o400); err != nil {
			j.srv.opts.Log.Error("fill a disk on purpose", "job", j.id, "machine", vm.name, "error", err)
			continue
		}
		j.srv.opts.Struck("disk full")
		// the machine may be gone, with all its files
		time.AfterFunc(time.Duration(f.For), func() { _ = os.Remove(file) })
	}
}
