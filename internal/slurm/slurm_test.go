package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/sweep"
)

// cluster is a Slurm in memory. Its answers have the form of Slurm 22.05's.
type cluster struct {
	arrays []*fakeArray
	before func(command []string) error // called before each command
	after  func(command []string) error // after it: its answer is lost if that is an error
}

type fakeArray struct {
	name, comment, state, reason string
	tasks                        int
	anothers                     bool
}

func (c *cluster) run(_ context.Context, input []byte, command ...string) (out []byte, err error) {
	if c.before != nil {
		if err := c.before(command); err != nil {
			return nil, err
		}
	}
	defer func() {
		if c.after != nil && err == nil {
			err = c.after(command)
		}
	}()
	option := func(name string) string {
		for _, a := range command {
			if v, ok := strings.CutPrefix(a, "--"+name+"="); ok {
				return v
			}
		}
		return ""
	}
	last := command[len(command)-1]
	switch command[0] {
	case "sbatch":
		if !slices.Contains(command, "--hold") || !strings.HasPrefix(string(input), "#!/bin/sh\n") {
			return nil, fmt.Errorf("sbatch %q of %.40q", command, input)
		}
		n, _ := strconv.Atoi(strings.TrimPrefix(option("array"), "0-"))
		c.arrays = append(c.arrays, &fakeArray{name: option("job-name"), comment: option("comment"), state: "PENDING",
			reason: "JobHeldUser", tasks: n + 1})
		return fmt.Appendf(nil, "%d\n", len(c.arrays)), nil
	case "squeue":
		var b strings.Builder
		for i, a := range c.arrays {
			for n := range a.tasks {
				if a.name == option("name") && (!a.anothers || option("user") == "") {
					fmt.Fprintf(&b, "%d|%d|%s|2026-11-29T22:53:19|N/A|N/A|%s|%s\n", i+1, n, a.state,
						a.comment, a.reason)
				}
			}
		}
		return []byte(b.String()), nil
	}
	id, _ := strconv.Atoi(last)
	switch a := c.arrays[id-1]; {
	case command[0] == "scancel" && a.state != "COMPLETED":
		a.state, a.reason = "CANCELLED", "None"
	case command[0] == "scontrol" && a.state == "COMPLETED":
		return nil, errors.New("scontrol: exit status 1: Job has already finished")
	case command[0] == "scontrol" && a.state == "PENDING":
		a.state, a.reason = "RUNNING", "None"
	}
	return nil, nil
}

func (c *cluster) jobs(t *testing.T) *Jobs {
	return &Jobs{Options{Folder: t.TempDir()}, c.run, time.Microsecond}
}

// states are those of the arrays.
func (c *cluster) states() (states []string) {
	for _, a := range c.arrays {
		states = append(states, a.state)
	}
	return states
}

func job() engine.Array {
	return engine.Array{ID: "night-1", Plan: "0123abcd", Program: engine.Task, Args: []string{"run"},
		Env: map[string]string{"COPPICE_SWEEP": "night-1"}, Tasks: 3, TasksPerHost: 1, CPUMilli: 4000, MemoryMiB: 200,
		Retries: 2, Repeat: sweep.RetryableExitCodes(), Limit: 90 * time.Second}
}

func TestSubmit(t *testing.T) {
	c := &cluster{}
	j := c.jobs(t)
	if s, err := j.Status(t.Context(), j.Name("night-1")); err != nil || s.State != engine.Gone {
		t.Errorf("before it is submitted: %+v, %v, want gone", s, err)
	}
	for i, want := range []bool{false, true} {
		if existed, err := j.Submit(t.Context(), job()); err != nil || existed != want {
			t.Errorf("submission %d: existed %t, %v, want %t", i, existed, err, want)
		}
	}
	s, err := j.Status(t.Context(), j.Name("night-1"))
	if err != nil || s.State != engine.Running || s.Tasks.Running != 3 || len(c.arrays) != 1 {
		t.Errorf("submitted twice: %+v, %v, arrays %q; want one that runs", s, err, c.states())
	}
	other := job()
	other.Plan = "ffff"
	if _, err := j.Submit(t.Context(), other); !problem.Is(err, problem.Conflict) {
		t.Errorf("a job of the same name for another plan: %v, want a conflict", err)
	}
	if s, err := j.Cancel(t.Context(), j.Name("night-1")); err != nil || s.State != engine.Cancelled {
		t.Errorf("cancelled: %+v, %v", s, err)
	}
	if existed, err := j.Submit(t.Context(), other); err != nil || existed || len(c.arrays) != 2 {
		t.Errorf("after the end of the first: existed %t, %v; want a second", existed, err)
	}
	if s, err := j.Status(t.Context(), j.Name("night-1")); err != nil || s.State != engine.Running {
		t.Errorf("of two, one of which was cancelled: %+v, %v; want the one that runs", s, err)
	}
}

// TestAnothersArray: who shares the bucket sees that another user's array has not ended, but neither attaches to it nor
// cancels it; ended, it is gone.
func TestAnothersArray(t *testing.T) {
	c := &cluster{}
	j := c.jobs(t)
	must.Get(j.Submit(t.Context(), job()))(t)
	c.arrays[0].anothers = true
	for state, want := range map[string]engine.Phase{"PENDING": engine.Waiting, "RUNNING": engine.Running,
		"FAILED": engine.Gone} {
		c.arrays[0].state = state
		if s, err := j.Status(t.Context(), j.Name("night-1")); err != nil || s.State != want {
			t.Errorf("another's, %s: %+v, %v, want %s", state, s, err, want)
		}
	}
	c.arrays[0].state = "RUNNING"
	asked := 0
	c.before = func(command []string) error {
		if asked++; command[0] != "squeue" {
			return fmt.Errorf("ran %q", command)
		} else if asked == 6 { // its tasks have seen that the sweep is cancelled
			c.arrays[0].state = "COMPLETED"
		}
		return nil
	}
	if s, err := j.Cancel(t.Context(), j.Name("night-1")); err != nil || s.State != engine.Gone {
		t.Errorf("cancelled: %+v, %v", s, err)
	}
	c.before = nil
	if existed, err := j.Submit(t.Context(), job()); existed || err != nil || len(c.arrays) != 2 {
		t.Errorf("submitted: existed %t, %v, want an array of one's own", existed, err)
	}
}

// TestTwoSubmittersOneJob: at each command of one, another submits the same from beginning to end; or the first dies
// before the command, or before its answer. One array runs, and no other ever will.
func TestTwoSubmittersOneJob(t *testing.T) {
	errDied := errors.New("died")
	for _, how := range []string{"races", "dies", "loses the answer"} {
		for at := 1; ; at++ {
			c, n := &cluster{}, 0
			j := c.jobs(t)
			step := func([]string) error {
				if n++; n != at {
					return nil
				}
				c.before, c.after = nil, nil
				if how != "races" {
					return errDied
				}
				_, err := j.Submit(t.Context(), job())
				return err
			}
			if c.before = step; how == "loses the answer" {
				c.before, c.after = nil, step
			}
			_, err := j.Submit(t.Context(), job())
			if n < at {
				if at < 5 {
					t.Errorf("%s: only %d commands", how, n)
				}
				break
			}
			// That it was released is seen without the answer, too.
			if how == "dies" && err == nil || how == "races" && err != nil || err != nil && !errors.Is(err, errDied) {
				t.Fatalf("%s at command %d: %v", how, at, err)
			}
			c.before, c.after = nil, nil
			if _, err := j.Submit(t.Context(), job()); err != nil {
				t.Fatalf("%s at command %d, submitted again: %v", how, at, err)
			}
			states := c.states()
			slices.Sort(states)
			if i := slices.Index(states, "RUNNING"); i != len(states)-1 || slices.Contains(states, "PENDING") {
				t.Errorf("%s at command %d: the arrays are %q, want one that runs", how, at, states)
			}
		}
	}
}

// TestAQuickJobIsReleasedOnce: its tasks have ended when this launcher releases it, too.
func TestAQuickJobIsReleasedOnce(t *testing.T) {
	c := &cluster{}
	c.before = func(command []string) error {
		if command[0] == "scontrol" {
			c.arrays[0].state, c.arrays[0].reason = "COMPLETED", "None"
		}
		return nil
	}
	if _, err := c.jobs(t).Submit(t.Context(), job()); err != nil || len(c.arrays) != 1 {
		t.Errorf("submitted: %v, %d arrays, want one", err, len(c.arrays))
	}
}

// TestWhatIsNotSubmitted: what a shell or Slurm would read as something else is refused before anything is run.
func TestWhatIsNotSubmitted(t *testing.T) {
	for name, change := range map[string]func(*engine.Array, *Options){
		"name":      func(q *engine.Array, _ *Options) { q.ID = "x;rm" },
		"plan":      func(q *engine.Array, _ *Options) { q.Plan = "a b" },
		"program":   func(q *engine.Array, _ *Options) { q.Program = "../task" },
		"variable":  func(q *engine.Array, _ *Options) { q.Env = map[string]string{"A=$(x)": "1"} },
		"zero":      func(q *engine.Array, _ *Options) { q.Env = map[string]string{"A": "a\x00"} },
		"argument":  func(q *engine.Array, _ *Options) { q.Args = []string{"\x00"} },
		"zones":     func(q *engine.Array, _ *Options) { q.Zones = []string{"a"} },
		"tasks":     func(q *engine.Array, _ *Options) { q.Tasks = 0 },
		"partition": func(_ *engine.Array, o *Options) { o.Partition = "a b" },
		"folder":    func(_ *engine.Array, o *Options) { o.Folder = "shared" },
		"pattern":   func(_ *engine.Array, o *Options) { o.Folder = "/a/%u" },
		"scratch":   func(_ *engine.Array, o *Options) { o.Scratch = "/a\nb" },
	} {
		c := &cluster{before: func(command []string) error { return fmt.Errorf("ran %q", command) }}
		j, q := c.jobs(t), job()
		change(&q, &j.opts)
		_, err := j.Submit(t.Context(), q)
		if _, request := j.Request(q); request == nil || !problem.Is(err, problem.Input) &&
			!problem.Is(err, problem.Environment) {
			t.Errorf("%s: submitted with %v, requested with %v; want it refused", name, err, request)
		}
	}
}

// TestRequestAsks: what sbatch will never take is refused before anything is written, as are a folder that is not there
// and a machine without Slurm; a job that only has to wait is not. Nothing is submitted, and no folder is made.
func TestRequestAsks(t *testing.T) {
	for said, refused := range map[string]bool{
		"allocation failure: Invalid partition name specified":                                   true,
		"allocation failure: Requested node configuration is not available":                      true,
		"allocation failure: Required node not available (down, drained or reserved)":            false,
		"error: Unable to contact slurm controller (connect failure)":                            false,
		"Job 1 to start at 2026-11-30T03:07:44 using 1 processors on nodes n1 in partition spot": false,
	} {
		asked := 0
		c := &cluster{before: func(command []string) error {
			if asked++; command[0] != "sbatch" || command[len(command)-1] != "--test-only" {
				return fmt.Errorf("ran %q", command)
			}
			return fmt.Errorf("sbatch: exit status 1: %s", said)
		}}
		text, err := c.jobs(t).Request(job())
		if problem.Is(err, problem.Input) != refused || (err == nil) == refused || asked != 1 ||
			strings.Contains(string(text), "--array=0-2") == refused {
			t.Errorf("%s: requested %.40q, %v, asked %d times; want it refused: %t", said, text, err, asked, refused)
		}
		if strings.Contains(string(text), "test-only") {
			t.Errorf("the request is the question: %s", text)
		}
	}

	j := New(Options{Folder: filepath.Join(t.TempDir(), "typo")})
	_, err := j.Request(job())
	if !problem.Is(err, problem.Environment) || !strings.Contains(err.Error(), "COPPICE_SLURM_FOLDER") {
		t.Errorf("a folder that is not there: %v", err)
	}
	j.run = (&cluster{}).run
	if _, err := j.Submit(t.Context(), job()); !problem.Is(err, problem.Environment) {
		t.Errorf("submitted all the same: %v", err)
	}
	if _, err := os.Stat(j.opts.Folder); err == nil {
		t.Error("the folder was made")
	}

	t.Setenv("PATH", t.TempDir())
	if _, err := New(Options{Folder: t.TempDir()}).Request(job()); !problem.Is(err, problem.Environment) ||
		!strings.Contains(err.Error(), "sbatch is not in PATH") {
		t.Errorf("without Slurm: %v", err)
	}
}

// commands makes shell scripts in a folder that alone is in PATH, beside the system's.
func commands(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range scripts {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return dir
}

// TestCommands: what becomes of commands that fail or say too much, and what they do not get to know.
func TestCommands(t *testing.T) {
	t.Setenv("COPPICE_WEBHOOK", "https://secret")
	t.Setenv("SQUEUE_STATES", "PENDING")
	t.Setenv("SBATCH_ACCOUNT", "ads")
	commands(t, map[string]string{"squeue": "env", "scancel": "printf 'no such job%01000d' 1 >&2; exit 1",
		"sbatch": "echo 'error: Unable to contact slurm controller (connect failure)' >&2; exit 1"})
	out, err := run(t.Context(), nil, "squeue")
	if text := string(out); err != nil || strings.Contains(text, "secret") || strings.Contains(text, "SQUEUE") ||
		!strings.Contains(text, "SBATCH_ACCOUNT=ads\n") || !strings.Contains(text, "TZ=UTC\n") {
		t.Errorf("a command's environment is\n%s(%v)", text, err)
	}
	if _, err := run(t.Context(), nil, "scancel"); err == nil || !strings.Contains(err.Error(), "no such job") ||
		len(err.Error()) > maxMessage+50 {
		t.Errorf("a command that fails, and says much: %v", err)
	}
	if _, err := run(t.Context(), nil, "sbatch"); !problem.Is(err, problem.Transient) {
		t.Errorf("no controller: %v, want it transient", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, nil, "squeue"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := run(t.Context(), nil, "scontrol"); err == nil || !problem.Is(err, problem.Environment) ||
		!strings.Contains(err.Error(), "scontrol is not in PATH; run this on a login node") {
		t.Errorf("no such command: %v", err)
	}
	l := limit{most: 5}
	if n, err := l.Write([]byte("1234567")); n != 7 || err != nil || l.kept.String() != "12345" {
		t.Errorf("a limit of 5: %d, %v, %q", n, err, l.kept.String())
	}
}
