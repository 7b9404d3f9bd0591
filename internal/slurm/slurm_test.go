package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	arrays []*fakeArray                 // the array at i has the job number i+1
	before func(command []string) error // called before each command, which is not run if that is an error
	after  func(command []string) error // called after each command, whose answer is lost if that is an error
}

// fakeArray is a job array of a cluster. All of its tasks are in the same state.
type fakeArray struct {
	name, comment, state, reason string
	tasks                        int
	anothers                     bool // another user submitted it
}

// run does what the command would do in a real cluster, and returns what it would print. It knows sbatch, squeue,
// scancel and scontrol, and stands for Jobs.run. An sbatch that does not hold the array, or whose input is no shell
// script, is an error.
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

// jobs returns a Jobs that talks to the cluster, keeps its files in a folder of the test and hardly waits between two
// questions.
func (c *cluster) jobs(t *testing.T) *Jobs {
	return &Jobs{Options{Folder: t.TempDir()}, c.run, time.Microsecond}
}

// states returns the state of each array, in the order in which they were submitted.
func (c *cluster) states() (states []string) {
	for _, a := range c.arrays {
		states = append(states, a.state)
	}
	return states
}

// job returns an array of three tasks as the launcher would submit it. Each call makes a new one, which a test may
// change.
func job() engine.Array {
	return engine.Array{ID: "night-1", Plan: "0123abcd", Program: engine.Task, Args: []string{"run"},
		Env: map[string]string{"COPPICE_SWEEP": "night-1"}, Tasks: 3, TasksPerHost: 1, CPUMilli: 4000, MemoryMiB: 200,
		Retries: 2, Repeat: sweep.RetryableExitCodes(), Limit: 90 * time.Second}
}

// TestSubmit: a job of a plan is submitted once. While it runs, another plan under its name is a conflict. Once it is
// cancelled, the other plan's job is submitted, and the name's status is that of the one that runs.
func TestSubmit(t *testing.T) {
	c := &cluster{}
	j := c.jobs(t)
	must.Equal(t, must.Get(j.Status(t.Context(), j.Name("night-1")))(t).State, engine.Gone, "before it is submitted")
	// The second submission finds the job of the first.
	for i, want := range []bool{false, true} {
		must.Equal(t, must.Get(j.Submit(t.Context(), job()))(t), want, "submission %d: it existed", i)
	}
	s, err := j.Status(t.Context(), j.Name("night-1"))
	if err != nil || s.State != engine.Running || s.Tasks.Running != 3 || len(c.arrays) != 1 {
		t.Errorf("submitted twice: %+v, %v, arrays %q; want one that runs", s, err, c.states())
	}
	// Another plan has to wait until the first one's job has ended.
	other := job()
	other.Plan = "ffff"
	if _, err := j.Submit(t.Context(), other); !problem.Is(err, problem.Conflict) {
		t.Errorf("a job of the same name for another plan: %v, want a conflict", err)
	}
	must.Equal(t, must.Get(j.Cancel(t.Context(), j.Name("night-1")))(t).State, engine.Cancelled, "cancelled")
	if existed, err := j.Submit(t.Context(), other); err != nil || existed || len(c.arrays) != 2 {
		t.Errorf("after the end of the first: existed %t, %v; want a second", existed, err)
	}
	must.Equal(t, must.Get(j.Status(t.Context(), j.Name("night-1")))(t).State, engine.Running, "the one left of two")
}

// TestAnothersArray: who shares the bucket sees that another user's array has not ended, but neither attaches to it nor
// cancels it; ended, it is gone. A cancellation waits until it has ended by itself.
func TestAnothersArray(t *testing.T) {
	c := &cluster{}
	j := c.jobs(t)
	must.Get(j.Submit(t.Context(), job()))(t)
	c.arrays[0].anothers = true
	for state, want := range map[string]engine.Phase{"PENDING": engine.Waiting, "RUNNING": engine.Running,
		"FAILED": engine.Gone} {
		c.arrays[0].state = state
		must.Equal(t, must.Get(j.Status(t.Context(), j.Name("night-1")))(t).State, want, "another's, %s", state)
	}
	c.arrays[0].state = "RUNNING"
	asked := 0
	c.before = func(command []string) error {
		if asked++; command[0] != "squeue" {
			return fmt.Errorf("ran %q", command)
		} else if asked == 6 {
			// Cancel asks once for this user's arrays, and then twice for each look: for this user's and for all. So
			// two looks have found it running. Its tasks have seen by now that the sweep is cancelled.
			c.arrays[0].state = "COMPLETED"
		}
		return nil
	}
	must.Equal(t, must.Get(j.Cancel(t.Context(), j.Name("night-1")))(t).State, engine.Gone, "cancelled, but not there")
	c.before = nil
	if existed, err := j.Submit(t.Context(), job()); existed || err != nil || len(c.arrays) != 2 {
		t.Errorf("submitted: existed %t, %v, want an array of one's own", existed, err)
	}
}

// TestTwoSubmittersOneJob: two launchers that submit the same job leave one array that runs, and none that could still
// start. The test lets one launcher submit and disturbs it at its first command, then in a new cluster at its second,
// and so on until it has no more commands. A disturbance is a second launcher that submits the job from beginning to
// end, the death of the first one before the command, or its death after the command but before the answer.
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
				if at < 5 { // squeue, sbatch, squeue, scontrol
					t.Errorf("%s: a submission ran %d commands, want at least 4 at which to disturb it", how, n)
				}
				break
			}
			// A launcher that loses the answer may still succeed: squeue tells it that the array was released.
			if how == "dies" && err == nil || how == "races" && err != nil || err != nil && !errors.Is(err, errDied) {
				t.Fatalf("%s at command %d: %v; want the planted death, or none of a race", how, at, err)
			}
			c.before, c.after = nil, nil
			if _, err := j.Submit(t.Context(), job()); err != nil {
				t.Fatalf("%s at command %d, submitted again: got error %v, want none", how, at, err)
			}
			states := c.states()
			slices.Sort(states)
			if i := slices.Index(states, "RUNNING"); i != len(states)-1 || slices.Contains(states, "PENDING") {
				t.Errorf("%s at command %d: the arrays are %q, want one that runs", how, at, states)
			}
		}
	}
}

// TestAQuickJobIsReleasedOnce: a job whose tasks have all ended by the time that this launcher releases it counts as
// submitted, and is not submitted a second time. That happens if another launcher released it first.
func TestAQuickJobIsReleasedOnce(t *testing.T) {
	c := &cluster{}
	c.before = func(command []string) error {
		if command[0] == "scontrol" {
			c.arrays[0].state, c.arrays[0].reason = "COMPLETED", "None"
		}
		return nil
	}
	if _, err := c.jobs(t).Submit(t.Context(), job()); err != nil || len(c.arrays) != 1 {
		t.Errorf("submitted: got error %v and %d arrays, want no error and one array", err, len(c.arrays))
	}
}

// TestWhatIsNotSubmitted: a job or an option with text that a shell or Slurm would read as something else is refused
// before any command is run. Each case changes one field of a job that is accepted. A command that runs gives an error
// of another kind than a refusal.
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
		// The job has three tasks. What is requested has them as --array=0-2; what is refused is empty.
		text, err := c.jobs(t).Request(job())
		if problem.Is(err, problem.Input) != refused || (err == nil) == refused || asked != 1 ||
			strings.Contains(string(text), "--array=0-2") == refused {
			t.Errorf("%s: requested %.40q, %v, asked %d times; want it refused: %t", said, text, err, asked, refused)
		}
		if strings.Contains(string(text), "test-only") {
			t.Errorf("the request is the question whether it would be taken: %s", text)
		}
	}

	j := New(Options{Folder: filepath.Join(t.TempDir(), "typo")})
	_, err := j.Request(job())
	if !problem.Is(err, problem.Environment) || !strings.Contains(err.Error(), "COPPICE_SLURM_FOLDER") {
		t.Errorf("a folder that is not there: got error %v; want one of kind Environment that names "+
			"COPPICE_SLURM_FOLDER", err)
	}
	j.run = (&cluster{}).run
	if _, err := j.Submit(t.Context(), job()); !problem.Is(err, problem.Environment) {
		t.Errorf("submitted to a cluster that refuses: %v; want that kind of error", err)
	}
	if _, err := os.Stat(j.opts.Folder); err == nil {
		t.Error("the folder was made, want it absent")
	}

	t.Setenv("PATH", t.TempDir())
	if _, err := New(Options{Folder: t.TempDir()}).Request(job()); !problem.Is(err, problem.Environment) ||
		!strings.Contains(err.Error(), "sbatch is not in PATH") {
		t.Errorf("without Slurm: got error %v; want one of kind Environment that says that sbatch is not in PATH", err)
	}
}

// commands makes a folder with one shell script for each name, and sets PATH to that folder, /usr/bin and /bin. A name
// may have folders before it. The value is what the script does.
func commands(t *testing.T, scripts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range scripts {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatalf("cannot write the script %s: %v", path, err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return dir
}

// TestCommands: runCommand passes on Slurm's settings but neither secrets nor what would filter squeue's answer, cuts
// what a failing command says, and tells apart the errors that a caller treats differently. The script squeue prints
// the environment that it was given.
func TestCommands(t *testing.T) {
	t.Setenv("COPPICE_WEBHOOK", "https://secret")
	t.Setenv("SQUEUE_STATES", "PENDING")
	t.Setenv("SBATCH_ACCOUNT", "ads")
	commands(t, map[string]string{"squeue": "env", "scancel": "printf 'no such job%01000d' 1 >&2; exit 1",
		"sbatch": "echo 'error: Unable to contact slurm controller (connect failure)' >&2; exit 1"})
	out, err := runCommand(t.Context(), nil, "squeue")
	if text := string(out); err != nil || strings.Contains(text, "secret") || strings.Contains(text, "SQUEUE") ||
		!strings.Contains(text, "SBATCH_ACCOUNT=ads\n") || !strings.Contains(text, "TZ=UTC\n") {
		t.Errorf("a command's environment is\n%s(%v); want no secret, the account, and UTC", text, err)
	}
	if _, err := runCommand(t.Context(), nil, "scancel"); err == nil || !strings.Contains(err.Error(), "no such job") ||
		len(err.Error()) > maxMessage+50 { // 50 for the command's name and exit status before what it said
		t.Errorf("a command that fails, and says much: %v; want what it said, cut", err)
	}
	if _, err := runCommand(t.Context(), nil, "sbatch"); !problem.Is(err, problem.Transient) {
		t.Errorf("no controller: %v, want it transient", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runCommand(ctx, nil, "squeue"); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v; want context.Canceled", err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := runCommand(t.Context(), nil, "scontrol"); err == nil || !problem.Is(err, problem.Environment) ||
		!strings.Contains(err.Error(), "scontrol is not in PATH; run this on a login node") {
		t.Errorf("no such command: got error %v; want one of kind Environment that says where to run it", err)
	}
	l := limit{most: 5}
	if n, err := l.Write([]byte("1234567")); n != 7 || err != nil || l.kept.String() != "12345" {
		t.Errorf("a limit of 5: %d bytes taken, error %v, kept %q; want all 7 taken and 5 kept", n, err,
			l.kept.String())
	}
}

// at returns the time at which the clock shows "15:04:05", in UTC, on the day on which the answers were recorded.
func at(clock string) time.Time {
	t, _ := time.Parse(layout, "2026-11-29T"+clock)
	return t
}

// recorded holds what squeue of Slurm 22.05 has printed of one job each, and how that is understood. The fields are
// array, index, state, times of submission, start and end, comment, and reason. The comment "coppice 5 ab" means five
// tasks of plan ab; those of them that have no line are done, since Slurm forgets a task after its end. The case "a
// state of tomorrow" is made up.
var recorded = map[string]struct {
	out  string
	want engine.JobStatus
}{
	"held": {`1|0|PENDING|2026-11-29T22:53:19|N/A|N/A|coppice 1 ab|JobHeldUser
`, engine.JobStatus{State: engine.Waiting, Tasks: engine.Tasks{Waiting: 1}, Created: at("22:53:19"),
		Lacks: "it was submitted and not released: run the same command again (JobHeldUser)"}},
	"one failed, one runs, one was requeued": {
		`1|0|COMPLETED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:21|coppice 5 ab|None
1|4|COMPLETED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:21|coppice 5 ab|None
1|2|FAILED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:22|coppice 5 ab|NonZeroExitCode
1|1|PENDING|2026-11-29T22:53:22|2026-11-29T22:55:23|2026-11-29T23:05:23|coppice 5 ab|BeginTime
1|3|RUNNING|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T23:03:20|coppice 5 ab|None
`, engine.JobStatus{State: engine.Running, Tasks: engine.Tasks{Waiting: 1, Running: 1, Done: 2, Failed: 1}, Began: true,
			Created: at("22:53:19"), From: at("22:53:20"),
			Lacks: "it was requeued; Slurm starts it again after two minutes (BeginTime)"}},
	"most are forgotten": {`1|3|COMPLETING|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T23:03:20|coppice 5 ab|None
`, engine.JobStatus{State: engine.Running, Tasks: engine.Tasks{Running: 1, Done: 4}, Began: true,
		Created: at("22:53:19"), From: at("22:53:20")}},
	"cancelled before it began": {
		`7|0|CANCELLED|2026-11-29T23:17:55|2026-11-29T23:17:57|2026-11-29T23:17:57|coppice 1 ab|BeginTime
`, engine.JobStatus{State: engine.Cancelled, Tasks: engine.Tasks{Failed: 1}, Created: at("23:17:55")}},
	"failed": {`1|0|COMPLETED|2026-11-29T22:53:19|2026-11-29T22:53:20|2026-11-29T22:53:21|coppice 2 ab|None
1|1|FAILED|2026-11-29T22:53:19|2026-11-29T22:53:21|2026-11-29T22:53:25|coppice 2 ab|NonZeroExitCode
`, engine.JobStatus{State: engine.Failed, Tasks: engine.Tasks{Done: 1, Failed: 1}, Began: true, Created: at("22:53:19"),
		From: at("22:53:20"), To: at("22:53:25"), Failure: "task 1: FAILED (NonZeroExitCode)"}},
	"nodes are drained": {`9|0|PENDING|2026-11-29T22:53:19|N/A|N/A|coppice 1 ab|ReqNodeNotAvail, UnavailableNodes:n[1-4]
`, engine.JobStatus{State: engine.Waiting, Tasks: engine.Tasks{Waiting: 1}, Created: at("22:53:19"),
		Lacks: "nodes are down, drained or reserved (ReqNodeNotAvail, UnavailableNodes:n[1-4])"}},
	"a state of tomorrow": {`9|0|DREAMING|2026-11-29T22:53:19|2026-11-29T22:53:19|Unknown|coppice 1 ab|a|b
`, engine.JobStatus{State: engine.Running, Tasks: engine.Tasks{Running: 1}, Began: true, Created: at("22:53:19"),
		From: at("22:53:19")}},
}

// TestStatus: what squeue prints of an array is read as the status of one job. Before each case stand lines of jobs
// that coppice did not submit, which are passed over even where they make no sense.
func TestStatus(t *testing.T) {
	const others = "8|N/A|RUNNING|2026-11-29T22:00:00|2026-11-29T22:00:00|N/A|(null)|None\n" +
		"8|N/A|RUNNING|x|x|x|mine|a|b\n\n"
	for name, c := range recorded {
		all, err := parseQueue([]byte(others + c.out))
		if err != nil || len(all) != 1 {
			t.Errorf("%s: got %d arrays and error %v, want one array", name, len(all), err)
			continue
		}
		if got := all[0].status(); got != c.want {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, c.want)
		}
	}
}

// TestDamagedLines: a line of squeue about a job of coppice that cannot be read is an error. The same is true of what
// sbatch prints, which is the number of the array, and in a cluster with a name also a semicolon and that name.
func TestDamagedLines(t *testing.T) {
	for _, line := range []string{
		"x|0|PENDING|N/A|N/A|N/A|coppice 1 ab|None",       // no number of an array
		"1|1|PENDING|N/A|N/A|N/A|coppice 1 ab|None",       // task 1, where the only one is 0
		"1|-1|PENDING|N/A|N/A|N/A|coppice 1 ab|None",      // no task
		"1|0|PENDING|yesterday|N/A|N/A|coppice 1 ab|None", // no time
		"1|0|PENDING|N/A|N/A|N/A|coppice 9999999 ab|None", // more tasks than maxTasks
		"-1|0|PENDING|N/A|N/A|N/A|coppice 1 ab|None",      // an array's number is positive
	} {
		_, err := parseQueue([]byte(line + "\n"))
		must.Say(t, line, err, "cannot read")
	}
	for _, text := range []string{"", "Submitted batch job 7\n", "0\n", "7 8\n", "12345678901\n"} { // beyond 32 bits
		if id, err := arrayID([]byte(text)); err == nil {
			t.Errorf("sbatch printed %q: taken for %d, want an error", text, id)
		}
	}
	must.Equal(t, must.Get(arrayID([]byte("7;test\n")))(t), 7, "a job of a named cluster")
}

// FuzzParse: whatever squeue prints, every array that is read from it without an error has a positive number, counts of
// tasks that are not negative, and a state other than Gone.
func FuzzParse(f *testing.F) {
	for _, c := range recorded {
		f.Add(c.out)
	}
	f.Fuzz(func(t *testing.T, out string) {
		all, err := parseQueue([]byte(out))
		for _, a := range all {
			s := a.status()
			least := min(s.Tasks.Waiting, s.Tasks.Running, s.Tasks.Done, s.Tasks.Failed)
			if err == nil && (least < 0 || s.State == engine.Gone || a.id <= 0) {
				t.Errorf("%q: %+v; want counts of 0 or more, an id, and a job that is not gone", out, s)
			}
		}
	})
}

// node is a machine of a cluster, on which a test runs the script that an array consists of. Its folder holds the
// program task, and what that program and scontrol have written.
type node struct {
	dir  string
	vars []string // the environment of the script
}

// newNode makes a node on which the program of the job is the shell script task. The script is task 2 of job array 7;
// vars are further variables of its environment. $OUT is the folder of the node. sleep returns at once.
func newNode(t *testing.T, task string, vars ...string) *node {
	dir := commands(t, map[string]string{"sleep": "", "scontrol": `echo "$@" >>"$OUT/requeued"`, "bin/task": task})
	return &node{dir, append([]string{"OUT=" + dir, "PATH=" + dir + ":/usr/bin:/bin", "SLURM_ARRAY_TASK_ID=2",
		"SLURM_ARRAY_JOB_ID=7", "SLURMD_NODENAME=n1"}, vars...)}
}

// run runs the script of the array q to its end. It returns the script's exit code and the arguments with which it has
// called scontrol, "" if it has not.
func (n *node) run(t *testing.T, q engine.Array) (code int, requeued string) {
	t.Helper()
	c := New(Options{Folder: n.dir, Scratch: filepath.Join(n.dir, "scratch")})
	_, script := must.Get2(c.command(q))(t)
	cmd := exec.CommandContext(t.Context(), "/bin/sh")
	cmd.Stdin, cmd.Env = strings.NewReader(script), n.vars
	var said bytes.Buffer
	cmd.Stderr = &said
	_ = cmd.Run()
	if said.Len() > 0 {
		t.Logf("the script said: %s", &said)
	}
	data, _ := os.ReadFile(filepath.Join(n.dir, "requeued"))
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(string(data))
}

// TestScriptTellsTheTask: the script passes every value to the task as it is, whatever a shell would make of it. It
// gives the task a folder on its node, and deletes that folder afterwards together with what killed tasks have left. It
// tells the task its index (2, of newNode), its attempt (SLURM_RESTART_COUNT), its node (n1) and the folder.
func TestScriptTellsTheTask(t *testing.T) {
	hostile := "a'b \"$(touch $OUT/hacked)\" `touch $OUT/hacked`\n\\ ; & \u00fc"
	q := job()
	q.Env["COPPICE_STAGE_SPEC"] = hostile
	q.Args = []string{"run", hostile}
	n := newNode(t, `printf %s "$COPPICE_STAGE_SPEC" >"$OUT/spec"; printf %s "$2" >"$OUT/arg"
echo "$COPPICE_TASK_INDEX $COPPICE_TASK_ATTEMPT $HOSTNAME $COPPICE_SCRATCH" >"$OUT/told"
echo x >"$COPPICE_SCRATCH/data"`, "SLURM_RESTART_COUNT=1")
	scratch := filepath.Join(n.dir, "scratch")
	base := filepath.Join(scratch, "coppice-"+uid(t), "n1")
	for _, left := range []string{"night-0", "night-0.lock"} { // of a task that was killed
		must.Do(t, os.MkdirAll(base, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(base, left), nil, 0o600))
	}
	if code, requeued := n.run(t, q); code != 0 || requeued != "" {
		t.Fatalf("the script: exit code %d, requeued with %q; want exit code 0 and no requeue", code, requeued)
	}
	for name, want := range map[string]string{"spec": hostile, "arg": hostile,
		"told": "2 1 n1 " + filepath.Join(base, "night-1") + "\n"} {
		must.Equal(t, string(must.Get(os.ReadFile(filepath.Join(n.dir, name)))(t)), want, "%s: what the task got", name)
	}
	if _, err := os.Stat(filepath.Join(n.dir, "hacked")); err == nil {
		t.Error("the shell has run a command out of a value, want values passed on as they are")
	}
	must.Equal(t, len(must.Get(os.ReadDir(base))(t)), 0, "files left on the node")
}

// uid returns the number of the user who runs the test, as the script asks for it.
func uid(t *testing.T) string {
	out := must.Get(exec.CommandContext(t.Context(), "id", "-u").Output())(t)
	return strings.TrimSpace(string(out))
}

// TestScriptRepeats: a task that ended by itself with an exit code that is worth a repetition, such as 75, is requeued,
// but only twice, as job() says. A task to which Slurm has sent SIGTERM is not, since then Slurm decides what becomes
// of it. The script exits with the task's code: 137 is 128 + 9, of SIGKILL. $PPID in a task is the script. So "told to
// go" and "it goes later" send the script SIGTERM, as Slurm does, and the script passes it on to the task.
func TestScriptRepeats(t *testing.T) {
	for name, c := range map[string]struct {
		task, restarts string
		code           int
		requeued       string
	}{
		"transient":     {"exit 75", "0", 75, "requeue 7_2"},
		"killed":        {"kill -9 $$", "1", 137, "requeue 7_2"},
		"too often":     {"exit 75", "2", 75, ""},
		"an error":      {"exit 1", "0", 1, ""},
		"done":          {"exit 0", "0", 0, ""},
		"told to go":    {"trap 'exit 75' TERM; kill -TERM $PPID; while :; do :; done", "0", 75, ""},
		"it goes later": {"trap 'sh -c :; exit 0' TERM; kill -TERM $PPID; while :; do :; done", "0", 0, ""},
	} {
		code, requeued := newNode(t, c.task, "SLURM_RESTART_COUNT="+c.restarts).run(t, job())
		if code != c.code || requeued != c.requeued {
			t.Errorf("%s: exit code %d and requeued with %q, want exit code %d and %q", name, code, requeued, c.code,
				c.requeued)
		}
	}
}

// TestFolderOfAnother: scratch lies in a folder that all users share, where another user may have put something under
// our name. The script then ends with 6, the exit code of a wrong environment, before it runs the task.
func TestFolderOfAnother(t *testing.T) {
	n := newNode(t, "exit 0")
	path := filepath.Join(n.dir, "scratch", "coppice-"+uid(t))
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, nil, 0o600))
	if code, _ := n.run(t, job()); code != 6 {
		t.Errorf("with a file where the scratch folder belongs: exit code %d, want 6", code)
	}
}
