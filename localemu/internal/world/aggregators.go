//go:build unix

package world

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"coppice/localemu/internal/proc"
	"coppice/terraform"
)

// aggregators are the aggregator processes of the local cloud.
type aggregators struct {
	w      *World
	failed chan error // the first unexpected end

	mu       sync.Mutex
	stopping bool
	running  []*aggregator
	kills    []kill // that have not struck yet
	watching sync.WaitGroup
}

// aggregator is one aggregator, over all its restarts.
type aggregator struct {
	index  int
	life   int // number of starts
	killed bool
	revive bool // after having been killed
	gone   bool
	proc   *proc.Process
	log    string
}

// aggregatorGrace is how long an aggregator may take to end when the local cloud ends.
const aggregatorGrace = 10 * time.Second

func newAggregators(w *World) *aggregators {
	return &aggregators{w: w, failed: make(chan error, 1), kills: slices.Clone(w.opts.Faults.Kill)}
}

// start starts all of them.
func (as *aggregators) start() error {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.w.opts.Aggregator == "" {
		return nil
	}

	for i := range max(1, as.w.opts.Aggregators) {
		a := &aggregator{index: i}
		if err := as.launch(a); err != nil {
			return err
		}
		as.running = append(as.running, a)
		as.watching.Go(func() { as.watch(a) })
	}
	return nil
}

// launch starts an aggregator process, with a log of its own. The lock is held.
func (as *aggregators) launch(a *aggregator) error {
	a.log = filepath.Join(as.w.opts.LogDir, fmt.Sprintf("aggregator-%d.%d.log", a.index, a.life))
	log, err := os.Create(a.log)
	if err != nil {
		return fmt.Errorf("aggregator log: %w", err)
	}
	defer log.Close() // the process has its own copy

	a.proc, err = as.w.procs.Start(proc.Command{
		Path: as.w.opts.Aggregator, Args: []string{"pull"}, Env: as.w.environ(as.w.opts.Environ, terraform.Aggregator,
			aggregatorClient), Stdout: log, Stderr: log,
	})
	if err != nil {
		return fmt.Errorf("aggregator: %w", err)
	}

	a.life++
	a.killed = false
	return nil
}

// watch waits for the end of each process, and starts the next one if a fault requested that.
func (as *aggregators) watch(a *aggregator) {
	for {
		as.mu.Lock()
		process := a.proc
		as.mu.Unlock()
		<-process.Done()
		if !as.ended(a, process) {
			return
		}
	}
}

// ended decides what the end of an aggregator means. again says that it was restarted.
func (as *aggregators) ended(a *aggregator, process *proc.Process) (again bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	if as.stopping {
		return false
	}

	var err error
	switch {
	case a.killed && a.revive:
		if err = as.launch(a); err == nil {
			return true
		}
	case a.killed:
	default:
		err = fmt.Errorf("aggregator %d ended with exit code %d, and it must not end by itself; the end of its log "+
			"(%s):\n%s",
			a.index, process.ExitCode(), a.log, tail(a.log))
	}

	a.gone = true
	if err != nil {
		select {
		case as.failed <- err:
		default: // one is enough
		}
	}
	return false
}

// published gets the number of messages so far, and kills when a fault is due.
func (as *aggregators) published(total int) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for i := 0; i < len(as.kills); {
		k := as.kills[i]
		if total < k.AfterMessages {
			i++
			continue
		}

		as.kills = append(as.kills[:i], as.kills[i+1:]...)
		as.killAll(k.restarts())
	}
}

// kill ends all of them with SIGKILL.
func (as *aggregators) kill(restart bool) {
	as.mu.Lock()
	defer as.mu.Unlock()
	as.killAll(restart)
}

// killAll is kill with the lock held.
func (as *aggregators) killAll(restart bool) {
	for _, a := range as.running {
		if !a.gone {
			a.killed = true
			a.revive = restart
			a.proc.Kill()
			as.w.script.struck("aggregator killed")
		}
	}
}

// pause stops all of them for a while.
func (as *aggregators) pause(d time.Duration) {
	as.mu.Lock()
	defer as.mu.Unlock()
	for _, a := range as.running {
		if a.gone {
			continue
		}
		p := a.proc
		p.Signal(syscall.SIGSTOP)
		time.AfterFunc(d, func() { p.Signal(syscall.SIGCONT) })
		as.w.script.struck("aggregator paused")
	}
}

// stop asks all aggregators to end, and waits.
func (as *aggregators) stop() {
	as.mu.Lock()
	as.stopping = true
	var rest []*proc.Process
	for _, a := range as.running {
		if !a.gone {
			rest = append(rest, a.proc)
		}
	}
	as.mu.Unlock()

	var group sync.WaitGroup
	for _, p := range rest {
		group.Go(func() {
			p.Signal(syscall.SIGCONT) // it may be paused
			p.Stop(aggregatorGrace)
		})
	}
	group.Wait()
	as.watching.Wait()
}

// tailBytes is how much of a log is shown.
const tailBytes = 2000

// tail returns the end of a log file.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()

	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	}

	data, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}
