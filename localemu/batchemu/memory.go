//go:build unix

package batchemu

import (
	"errors"
	"sync"
	"time"

	"coppice/localemu/internal/residency"
)

// memoryWatch samples the memory of a job's machines as long as the job runs, and keeps the best sample of each.
type memoryWatch struct {
	job   *job
	quit  chan struct{}
	ended sync.WaitGroup
	best  map[string]residency.Sample
	err   error
}

// errContainers: files mapped by a container have other names outside of it, and its process may be a daemon's child.
var errContainers = errors.New("the memory of tasks in containers is not measured")

func (j *job) watchMemory() *memoryWatch {
	w := &memoryWatch{job: j, quit: make(chan struct{}), best: map[string]residency.Sample{}}
	w.ended.Go(w.loop)
	return w
}

// stop ends the sampling and writes the report of the finished job.
func (w *memoryWatch) stop() {
	close(w.quit)
	w.ended.Wait()
	w.write(true)
}

func (w *memoryWatch) loop() {
	if w.job.srv.opts.Containers != "" {
		w.err = errContainers
		return
	}

	tick := time.NewTicker(w.job.srv.opts.SampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
		}

		if w.sample() {
			w.write(false)
		}
		if w.err != nil {
			return
		}
	}
}

// sample measures every machine once, and reports whether there is anything new.
func (w *memoryWatch) sample() (news bool) {
	for _, look := range w.job.looks() {
		s, err := residency.Measure(look.dir, look.pids)
		if err != nil {
			w.err = err
			if !errors.Is(err, residency.ErrUnsupported) {
				w.job.srv.opts.Log.Error("measure memory", "job", w.job.id, "error", err)
			}
			return false
		}

		if old := w.best[look.machine]; s.Processes > 0 && s.Supersedes(old) {
			w.best[look.machine] = s
			news = true
		}
	}
	return news
}

// look is what to measure on one machine.
type look struct {
	machine string
	dir     string
	pids    []int
}

func (j *job) looks() []look {
	j.srv.mu.Lock()
	defer j.srv.mu.Unlock()

	var all []look
	for _, vm := range j.vms {
		l := look{machine: vm.name, dir: vm.dir + "/" + ssdFolder}
		for _, a := range vm.attempts {
			if a.process != nil {
				l.pids = append(l.pids, a.process.PID())
			}
		}
		if len(l.pids) > 0 {
			all = append(all, l)
		}
	}
	return all
}

func (w *memoryWatch) write(finished bool) {
	r := residency.Report{Job: w.job.id, Finished: finished}
	if w.err != nil {
		r.Error = w.err.Error()
	}
	for _, vm := range w.job.vms { // made before the watch began, never changed
		if s, ok := w.best[vm.name]; ok {
			r.Machines = append(r.Machines, residency.Machine{Machine: vm.name, Sample: s})
		}
	}
	if err := r.Write(w.job.srv.reports()); err != nil {
		w.job.srv.opts.Log.Error("write memory report", "job", w.job.id, "error", err)
	}
}
