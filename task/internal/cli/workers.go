package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/gofrs/flock"

	"coppice/internal/atomicfile"
	"coppice/internal/fit"
	"coppice/internal/gbt"
	"coppice/internal/program"
	"coppice/internal/sweep"
	"coppice/internal/team"
)

// workersFlags make several processes train one model.
type workersFlags struct {
	workers int
	// of a process that another one has started: the folder where they meet, and its number
	meetIn string
	number int
}

// mostWorkers bounds --workers: more processes on one machine only wait for each other.
const mostWorkers = 64

func (f *trainFlags) checkWorkers() error {
	if f.workers < 1 || f.workers > mostWorkers {
		return program.Usagef("--workers is %d: use 1 to %d", f.workers, mostWorkers)
	}
	return nil
}

// teamwork is what --json prints of several workers.
type teamwork struct {
	Workers  int     `json:"workers"`
	Teams    int     `json:"teams"` // one more for every time that workers were lost or came
	Sent     int64   `json:"sent_bytes"`
	Received int64   `json:"received_bytes"`
	Waited   float64 `json:"exchange_seconds"` // in exchanges with others, of the first worker
}

// crew is the first worker of a training and the processes that it has started.
type crew struct {
	worker *team.Member
	dir    string
	lock   *flock.Flock // on dir, while this process lives
	mu     sync.Mutex
	alive  int  // with this one
	over   bool // the others are ended by this process
	all    sync.WaitGroup
	ends   []io.Closer // their standard inputs, whose end ends them
	kill   context.CancelFunc
	failed context.CancelCauseFunc
}

// startWorkers starts the other processes, and makes q train with them. If one fails, the context that it returns ends
// with the reason; if one is killed, the others go on.
func (w *Setup) startWorkers(ctx context.Context, q *fit.Request, f trainFlags) (*crew, context.Context, error) {
	if w.Self == nil {
		return nil, nil, program.Usagef("--workers needs a program that can start itself")
	}
	sweepWorkers()
	dir, err := os.MkdirTemp("", workersFolder)
	if err != nil {
		return nil, nil, err
	}
	c := &crew{dir: dir, lock: atomicfile.NewLock(filepath.Join(dir, workersLock)), alive: f.workers}
	if mine, err := c.lock.TryLock(); err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	} else if _, err := os.Stat(c.lock.Path()); !mine || err != nil { // another swept it before it was locked
		_ = c.lock.Close()
		return w.startWorkers(ctx, q, f)
	}
	w.Err = program.To(&oneByOne{to: w.Err}) // processes, their ends and the training write to it
	if c.worker, err = newWorker(dir, 0, f.workers, w.Err); err != nil {
		return nil, nil, errors.Join(err, c.lock.Unlock(), os.RemoveAll(dir))
	}
	q.Grow = c.worker.Train

	running, kill := context.WithCancel(context.WithoutCancel(ctx)) // Ctrl-C reaches them, too
	ctx, c.failed = context.WithCancelCause(ctx)
	c.kill = kill
	for i := 1; i < f.workers; i++ {
		cmd := w.Self(running, f.ofWorker(dir, i))
		cmd.Stderr = w.Err
		end, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			c.close()
			return nil, nil, fmt.Errorf("start worker %d: %w", i, err)
		}
		c.ends = append(c.ends, end)
		c.all.Go(func() { c.lost(i, cmd.Wait(), w.Err) })
	}
	return c, ctx, nil
}

// Folders where processes meet, in that of temporary files, and the file that the first process locks.
const (
	workersFolder = "coppice-workers-"
	workersLock   = "lock"
)

// sweepWorkers removes folders whose first process was killed: nobody has them locked.
func sweepWorkers() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), workersFolder+"*", workersLock))
	for _, path := range left {
		lock := atomicfile.NewLock(path)
		if locked, err := lock.TryLock(); locked && err == nil {
			_ = os.RemoveAll(filepath.Dir(path)) // another process may do it at the same time
			_ = lock.Unlock()
		}
	}
}

// oneByOne lets several goroutines write.
type oneByOne struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (o *oneByOne) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(b)
}

// ofWorker is the command line of another process.
func (f *trainFlags) ofWorker(dir string, number int) []string {
	args := []string{"train", "--dataset", f.dataset, "--threads", strconv.Itoa(f.threads), "--no-verify",
		"--workers", strconv.Itoa(f.workers), "--meet-in", dir, "--number", strconv.Itoa(number)}
	for flag, value := range map[string]string{"--params": f.params} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if f.noRate {
		args = append(args, "--no-rate")
	}
	return args
}

// newWorker joins the processes that meet in a folder.
func newWorker(dir string, number, workers int, messages io.Writer) (*team.Member, error) {
	return team.New(team.Options{Board: team.Folder(dir), Training: filepath.Base(dir), ID: fmt.Sprintf("%03d", number),
		Leads: number == 0, Listen: "127.0.0.1:0", Workers: workers, Patience: 5 * time.Second,
		Log: func(format string, args ...any) {
			if number == 0 {
				fmt.Fprintf(messages, format+"\n", args...)
			}
		}})
}

// lost is told of the end of a process.
func (c *crew) lost(number int, err error, messages io.Writer) {
	c.mu.Lock()
	over := c.over
	c.alive--
	c.worker.Expect(c.alive)
	c.mu.Unlock()
	if over {
		return
	}

	var ended *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &ended) && (!ended.Exited() || ended.ExitCode() == sweep.ExitInterrupt):
		fmt.Fprintf(messages, "worker %d is gone (%v); the others go on\n", number, err)
	default:
		c.failed(fmt.Errorf("worker %d has failed (%w); its message is above", number, err))
	}
}

// work is what the workers have exchanged so far.
func (c *crew) work(workers int) *teamwork {
	t := &c.worker.Traffic
	return &teamwork{Workers: workers, Teams: c.worker.Epochs(), Sent: t.Sent.Load(), Received: t.Received.Load(),
		Waited: time.Duration(t.Waited.Load()).Seconds()}
}

// close ends the other processes and removes what they had in common.
func (c *crew) close() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.kill()
	for _, end := range c.ends {
		_ = end.Close() // the process has been killed
	}
	c.all.Wait()
	_ = c.worker.Close() // nobody calls any more
	_ = os.RemoveAll(c.dir)
	_ = c.lock.Unlock() // the folder is gone
}

// errPartDone ends a worker whose part is done: the first one evaluates and writes the model.
var errPartDone = errors.New("this worker's part is done")

// takePart trains as one of the processes that another has started, until that one ends.
func (w *Setup) takePart(ctx context.Context, t *fit.Table, q fit.Request, f trainFlags) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the process at the other end
		end()
	}()

	worker, err := newWorker(f.meetIn, f.number, f.workers, w.Err)
	if err != nil {
		return err
	}
	defer worker.Close()
	q.Grow = func(ctx context.Context, d *gbt.Data, p gbt.Params, opt gbt.Options) (*gbt.Result, error) {
		if _, err := worker.Train(ctx, d, p, opt); err != nil {
			return nil, err
		}
		return nil, errPartDone
	}
	_, err = t.Train(ctx, q)
	if errors.Is(err, errPartDone) {
		return nil
	}
	return err
}

// describe says what several workers have exchanged.
func (t *teamwork) describe(trees int, seconds float64) string {
	text := fmt.Sprintf("%d; each sent about %s per tree; %.0f %% of the time in exchanges", t.Workers,
		humanize.Bytes(uint64(t.Sent)/uint64(max(trees, 1))), 100*t.Waited/seconds)
	if t.Teams > 1 {
		text += fmt.Sprintf("; rows were divided %d times", t.Teams)
	}
	return text
}
