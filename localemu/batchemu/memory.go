package batchemu

import (
	"errors"
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
