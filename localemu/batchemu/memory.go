//go:build unix

package batchemu

import (
	"errors"
	"fmt"
	"math"
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
	job   *job
	left  []int // times; -1: without limit
	done  map[*attempt]bool
	quit  chan struct{}
	ended sync.WaitGroup
}

// limitMemory enforces the job's limits until it is stopped.
func (j *job) limitMemory() *limiter {
	l := &limiter{job: j, done: map[*attempt]bool{}, quit: make(chan struct{})}
	for _, m := range j.srv.opts.Faults.Memory {
		l.left = append(l.left, m.Times)
		if m.Times == 0 {
			l.left[len(l.left)-1] = -1
		}
	}
	if len(l.left) > 0 {
		l.ended.Go(l.loop)
	}
	return l
}

func (l *limiter) stop() {
	close(l.quit)
	l.ended.Wait()
}

func (l *limiter) loop() {
	log := l.job.srv.opts.Log
	if l.job.srv.opts.Containers != "" {
		log.Error("memory limits have no effect", "job", l.job.id, "error", errContainers)
		return
	}

	tick := time.NewTicker(limitEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-tick.C:
		}
		if err := l.look(); err != nil {
			log.Error("memory limits have no effect", "job", l.job.id, "error", err)
			return
		}
	}
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
