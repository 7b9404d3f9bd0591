//go:build unix

package batchemu

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"coppice/internal/sweep"
	"coppice/localemu/internal/proc"
)

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
		p.Signal(syscall.SIGSTOP)
		time.AfterFunc(pause, func() { p.Signal(syscall.SIGCONT) })
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
		still := s.signalMachine(vm, syscall.SIGSTOP)
		if first && len(still) > 0 {
			s.opts.Struck("machine slow")
		}
		time.AfterFunc(stall, func() {
			for _, p := range still {
				p.Signal(syscall.SIGCONT)
			}
			if time.Now().Before(end) {
				time.AfterFunc(breath, func() { stop(false) })
			}
		})
	}
	stop(true)
}

// signalMachine sends the signal to every task on the machine that is not paused, and returns their processes.
func (s *Server) signalMachine(vm int, sig syscall.Signal) (processes []*proc.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if vm >= len(j.vms) {
			continue
		}
		for _, a := range j.vms[vm].attempts {
			if a.cause == causeNone && a.process != nil && !a.over() && time.Now().After(a.paused) {
				a.process.Signal(sig)
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
		return fmt.Errorf("vm is %d and for %s: vm counts from 0, and for is 1s to %s", d.VM, d.For, maxRunTime)
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
		time.AfterFunc(time.Duration(f.For), func() { _ = os.Remove(file) }) // the machine may be gone, with all its files
	}
}
