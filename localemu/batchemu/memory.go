package batchemu

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"time"

	"coppice/localemu/internal/residency"
)

// every calls do in its own goroutine until do returns false, or stop is called, which returns when do has ended.
func every(d time.Duration, do func() (again bool)) (stop func()) {
	quit := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for again := true; again; {
			select {
			case <-quit:
				return
			case <-tick.C:
				again = do()
			}
		}
	})
	return func() {
		close(quit)
		ended.Wait()
	}
}

// memoryWatch keeps the best sample of each of a job's machines.
type memoryWatch struct {
	job  *job
	best map[string]residency.Sample
	err  error
}

// errContainers: files mapped by a container have other names outside of it, and its process may be a daemon's child.
var errContainers = errors.New("the memory of tasks in containers is not measured")

// watchMemory samples the memory of the job's machines until it is stopped, and writes the report of the finished job
// then.
func (j *job) watchMemory() (stop func()) {
	w := &memoryWatch{job: j, best: map[string]residency.Sample{}}
	if j.srv.opts.Containers != "" {
		w.err = errContainers
		return func() { w.write(true) }
	}
	end := every(j.srv.opts.SampleEvery, func() bool {
		if w.sample() {
			w.write(false)
		}
		return w.err == nil
	})
	return func() {
		end()
		w.write(true)
	}
}

// sample measures every machine once, and reports whether there is anything new.
func (w *memoryWatch) sample() (news bool) {
	for k, pids := range w.job.pids() {
		vm := w.job.vms[k] // made before the watch began, never changed
		s, err := residency.Measure(filepath.Join(vm.dir, ssdFolder), pids)
		if err != nil {
			w.err = err
			if !errors.Is(err, residency.ErrUnsupported) {
				w.job.srv.opts.Log.Error("measure memory", "job", w.job.id, "error", err)
			}
			return false
		}

		if s.Processes > 0 && s.Supersedes(w.best[vm.name]) {
			w.best[vm.name] = s
			news = true
		}
	}
	return news
}

// pids returns the processes on every machine that has any, by its number.
func (j *job) pids() map[int][]int {
	j.srv.mu.Lock()
	defer j.srv.mu.Unlock()
	all := map[int][]int{}
	for k, vm := range j.vms {
		for _, a := range vm.attempts {
			if a.process != nil {
				all[k] = append(all[k], a.process.PID())
			}
		}
	}
	return all
}

func (w *memoryWatch) write(finished bool) {
	r := residency.Report{Job: w.job.id, Finished: finished}
	if w.err != nil {
		r.Error = w.err.Error()
	}
	for _, vm := range w.job.vms {
		if s, ok := w.best[vm.name]; ok {
			r.Machines = append(r.Machines, residency.Machine{Machine: vm.name, Sample: s})
		}
	}
	if err := r.Write(residency.Folder(w.job.srv.opts.Dir)); err != nil {
		w.job.srv.opts.Log.Error("write memory report", "job", w.job.id, "error", err)
	}
}

// MemoryLimit is how much memory a task, or all tasks of a machine together, may hold. Pages mapped from files do not
// count, since the kernel can reclaim them. A task that holds more is killed, as the kernel does with a container
// (137). A machine whose tasks hold more stops responding: 50002, which Batch reports for a machine that has run out of
// memory. It strikes Times times per job, or always if that is 0.
type MemoryLimit struct {
	Task  *int `yaml:"task"` // either this
	VM    *int `yaml:"vm"`   // or this
	MiB   int  `yaml:"mib"`
	Times int  `yaml:"times"`
}

// Check returns what is wrong with a limit.
func (m MemoryLimit) Check() error {
	switch {
	case (m.Task == nil) == (m.VM == nil):
		return errors.New("give either task or vm")
	case m.Task != nil && *m.Task < 0 || m.VM != nil && *m.VM < 0 || m.Times < 0:
		return errors.New("task and vm count from 0, and times is 1 or more")
	case m.MiB < 1 || m.MiB > math.MaxInt32:
		return fmt.Errorf("mib is %d: use 1 or more", m.MiB)
	}
	return nil
}

// limitEvery is how often the memory is measured.
const limitEvery = 20 * time.Millisecond

// limiter enforces the memory limits of a job.
type limiter struct {
	job  *job
	left []int // times; -1: without limit
	done map[*attempt]bool
}

// limitMemory enforces the job's limits until it is stopped.
func (j *job) limitMemory() (stop func()) {
	l := &limiter{job: j, done: map[*attempt]bool{}}
	for _, m := range j.srv.opts.Faults.Memory {
		l.left = append(l.left, m.Times)
		if m.Times == 0 {
			l.left[len(l.left)-1] = -1
		}
	}
	if len(l.left) == 0 {
		return func() {}
	}
	return every(limitEvery, func() bool {
		err := errContainers
		if j.srv.opts.Containers == "" {
			err = l.look()
		}
		if err != nil {
			j.srv.opts.Log.Error("memory limits have no effect", "job", j.id, "error", err)
		}
		return err == nil
	})
}

// look measures the attempts that have limits, and ends those over their limit.
func (l *limiter) look() error {
	j := l.job
	j.srv.mu.Lock()
	defer j.srv.mu.Unlock()

	for i, limit := range j.srv.opts.Faults.Memory {
		for k, vm := range j.vms {
			if l.left[i] == 0 || vm.lost || limit.VM != nil && *limit.VM != k {
				continue
			}

			var together int64
			for _, a := range vm.attempts {
				if a.cause != causeNone || a.process == nil || a.over() || l.done[a] || limit.Task != nil &&
					*limit.Task != a.task.index {
					continue
				}
				held, err := residency.Held(a.process.PID())
				if err != nil {
					return err
				}
				together += held
				if limit.Task != nil && held > int64(limit.MiB)<<20 {
					l.strike(i, func() { a.process.Kill(); l.done[a] = true })
				}
			}
			if limit.VM != nil && together > int64(limit.MiB)<<20 {
				l.strike(i, func() { j.lose(vm, causeLost, 0) })
			}
		}
	}
	return nil
}

// strike ends the attempts over limit number i.
func (l *limiter) strike(i int, end func()) {
	if l.left[i] > 0 {
		l.left[i]--
	}
	l.job.srv.opts.Struck("memory limit")
	end()
}
