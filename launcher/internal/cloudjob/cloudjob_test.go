package cloudjob

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"coppice/internal/blob"
	"coppice/internal/engine"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/internal/program/environment"
	"coppice/internal/sweep"
	"coppice/launcher/internal/stager"
)

const fingerprint = "0123456789abcdef0123456789abcdef"

// cloud is a Batch whose jobs go through the given states, one at every look (Status), and stay in the last. look,
// unless nil, is called at every look with the state that it returns.
type cloud struct {
	jobs   map[string][]engine.Phase // the states that are left of each job, by its full name
	made   []string
	states []engine.Phase // of a new job
	fail   string         // what Batch says of a job that failed
	look   func(state engine.Phase)
}

func (c *cloud) Name(id sweep.ID) string { return "jobs/" + string(id) }

func (c *cloud) SubmitTask(_ context.Context, q Work) (bool, error) {
	name := c.Name(sweep.ID(q.Env.Job))
	if c.jobs[name] != nil {
		return true, nil
	}
	if c.jobs == nil {
		c.jobs = map[string][]engine.Phase{}
	}
	c.jobs[name] = slices.Clone(c.states)
	c.made = append(c.made, q.Env.Job)
	return false, nil
}

func (c *cloud) Status(_ context.Context, name string) (engine.JobStatus, error) {
	left := c.jobs[name]
	if left == nil {
		return engine.JobStatus{State: engine.Gone}, nil
	}
	state := left[0]
	if len(left) > 1 {
		c.jobs[name] = left[1:]
	}
	if c.look != nil {
		c.look(state)
	}
	return engine.JobStatus{State: state, Created: time.Unix(1, 0), Failure: c.fail}, nil
}

func (c *cloud) Cancel(context.Context, string) (engine.JobStatus, error) {
	return engine.JobStatus{}, nil
}

// request is the work that tests submit: to stage the dataset clicks.
func request() Work { return Work{Dataset: "clicks", Fingerprint: fingerprint} }

// TestSubmit: a second submission of the same work attaches to the job while it runs. Once the job has failed, the next
// one gets the next number; after maxRuns failed ones the error says how many there were. Ids are valid for Batch,
// however long the dataset's name is, and keep the fingerprint whole.
func TestSubmit(t *testing.T) {
	c := &cloud{states: []engine.Phase{engine.Running, engine.Running, engine.Failed}}
	for i, want := range []struct {
		id       string
		attached bool
	}{{"stage-clicks-0123456789ab", false}, {"stage-clicks-0123456789ab", true}} {
		j, err := Submit(t.Context(), c, request())
		if err != nil || j.ID != want.id || j.Attached != want.attached || j.Name != "jobs/"+j.ID {
			t.Errorf("submission %d: got %+v (error %v); want job %s, attached %t", i, j, err, want.id, want.attached)
		}
	}

	// The job fails, and then all that may follow it.
	c.jobs["jobs/stage-clicks-0123456789ab"] = []engine.Phase{engine.Failed}
	if j, err := Submit(t.Context(), c, request()); err != nil || j.ID != "stage-clicks-0123456789ab-1" || j.Attached {
		t.Errorf("submitted after a failure: %+v %v; want another job, with -1 behind its name", j, err)
	}
	q := request()
	for n := range maxRuns {
		c.jobs["jobs/"+jobID(&q, n)] = []engine.Phase{engine.Failed}
	}
	_, err := Submit(t.Context(), c, request())
	must.Say(t, fmt.Sprintf("submitted after %d runs that failed", maxRuns), err, "100 staging jobs")

	// Names of up to 40 bytes, the most that a dataset's may have: with stage- before them, and a fingerprint and a
	// number of 16 bytes behind, the longest ids have 62 bytes of the 63 that Batch allows.
	for _, name := range []string{"d", strings.Repeat("d", 36) + "-ddd", strings.Repeat("d", 40)} {
		q := Work{Dataset: name, Fingerprint: fingerprint}
		id := jobID(&q, maxRuns-1)
		if err := sweep.CheckID(id); err != nil || !strings.HasPrefix(id, "stage-d") ||
			!strings.HasSuffix(id, "-0123456789ab-99") {
			t.Errorf("jobID of %s: got %s, %v; want an id of Batch with name and fingerprint", name, id, err)
		}
	}
}

// staging is a staging task on a small table, in memory.
type staging struct {
	*Task
	stager *stager.Stager
}

func (s *staging) Run(ctx context.Context) error {
	return s.Stage(ctx, s.stager, stager.Destination{Store: s.Store, URL: "gs://d"})
}

// task is a staging task, in its second attempt, of the table in the file source. It reports every millisecond, and all
// its errors have exit code 3.
func task(t *testing.T, store blob.Store, source string) *staging {
	t.Helper()
	return &staging{&Task{
		Env: environment.LauncherTaskEnv{File: "clicks.yaml",
			Spec: "name: clicks\nsource: " + source + "\nlabel: label\n",
			Job:  "stage-clicks-0123456789ab", Attempt: 2},
		Store: store, Now: func() time.Time { return time.Unix(1, 0) }, Every: time.Millisecond,
		Code: func(error) int { return 3 },
	}, &stager.Stager{Scratch: t.TempDir()}}
}

// rows writes a CSV of so many rows, and returns its path.
func rows(t *testing.T, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("label,x\n")
	for i := range rows {
		fmt.Fprintf(&b, "%d,%d.5\n", i%2, i%97)
	}
	path := filepath.Join(t.TempDir(), "clicks.csv")
	must.Do(t, os.WriteFile(path, []byte(b.String()), 0o644))
	return path
}

// TestTaskTellsFollower: a follower reads the outcome that a task writes, and passes on each new state of the job and
// the task's progress at each look. The staged version is in the store. The fake Batch plays the task: at each look at
// the running job it leaves a progress of 5 of 10, and at the look at which the job is done it runs the task.
func TestTaskTellsFollower(t *testing.T) {
	store := blob.Memory()
	c := &cloud{states: []engine.Phase{engine.Waiting, engine.Running, engine.Running, engine.Done}}
	j := must.Get(Submit(t.Context(), c, request()))(t)
	folder := sweep.DatasetStaging("clicks", j.ID)
	c.look = func(state engine.Phase) {
		switch state {
		case engine.Running:
			half := Progress{Format: 1, Step: stager.StepWrite, Done: 5, Total: 10}
			must.Do(t, putJSON(t.Context(), store, folder+progressFile, half))
		case engine.Done:
			must.Do(t, task(t, store, rows(t, 2000)).Run(t.Context()))
		}
	}

	// Follow it until it has ended.
	var states []engine.Phase
	var progress []string
	f := &Follower{Jobs: c, Store: store, Every: time.Millisecond,
		State: func(s engine.Phase) { states = append(states, s) },
		Progress: func(step stager.Step, done, total int64) {
			progress = append(progress, fmt.Sprint(step, " ", done, "/", total))
		}}
	o, err := f.Wait(t.Context(), folder, j)
	if err != nil || o.Attempt != 2 || len(o.Version) != 16 || o.Existed { // a version is 16 hexadecimal digits
		t.Fatalf("the outcome that the follower reads: got %+v (error %v); want a new version from attempt 2", o, err)
	}

	// The job was seen running twice: one change of state, and two looks at the progress. "bin" is stager.StepWrite.
	if !slices.Equal(states, []engine.Phase{engine.Waiting, engine.Running, engine.Done}) || len(progress) != 2 ||
		progress[0] != "bin 5/10" {
		t.Errorf(`the follower saw states %q and progress %q; want three states and two steps, the first "bin 5/10"`,
			states, progress)
	}
	if m, err := stager.Manifest(t.Context(), store, "clicks", o.Version); err != nil || m.Version != o.Version {
		t.Errorf("the manifest of the staged version (error %v): want that version", err)
	}
}

// TestFailedTaskSaysWhy: the error of a failed job names the job, and is the task's own with its exit code. If the task
// has left none, it is that the outcome is damaged, else what Batch says, else that there is none, and where the log
// is.
func TestFailedTaskSaysWhy(t *testing.T) {
	outcome := func(text string) func(*testing.T, blob.Store, string) {
		return func(t *testing.T, store blob.Store, folder string) {
			must.Get(store.Put(t.Context(), folder+outcomeFile, blob.Any, strings.NewReader(text)))(t)
		}
	}
	for name, c := range map[string]struct {
		leave func(t *testing.T, store blob.Store, folder string)
		batch string
		says  string
		code  int
	}{
		"its own error": {func(t *testing.T, store blob.Store, _ string) {
			if task(t, store, filepath.Join(t.TempDir(), "none.csv")).Run(t.Context()) == nil {
				t.Error("staged a file that does not exist; want an error")
			}
		}, "exit code 3", "none.csv", 3},
		"Batch's":               {nil, "it was preempted four times", "preempted four times", 0},
		"nobody's":              {nil, "", "did not report", 0},
		"a damaged one":         {outcome("{"), "", "not a job's outcome", 0},
		"failed after a result": {outcome(`{"format":1,"version":"v"}`), "it was too late", "it was too late", 0},
	} {
		t.Run(name, func(t *testing.T) {
			store, w := blob.Memory(), &cloud{states: []engine.Phase{engine.Running, engine.Failed}, fail: c.batch}
			j := must.Get(Submit(t.Context(), w, request()))(t)
			if c.leave != nil {
				c.leave(t, store, sweep.DatasetStaging("clicks", j.ID))
			}
			f := Follower{Jobs: w, Store: store, Every: time.Millisecond, Progress: func(stager.Step, int64, int64) {}}
			_, err := f.Wait(t.Context(), sweep.DatasetStaging("clicks", j.ID), j)
			var failed *FailedError
			if !errors.As(err, &failed) || failed.Code != c.code || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), j.ID) || strings.Contains(err.Error(), "of its log") != (c.code == 0) {
				t.Errorf("error %v, expected job %s with code %d and %q", err, j.ID, c.code, c.says)
			}
		})
	}
}

// TestDamagedOutcomesSayWhatIsWrong: an outcome that no task writes is an error of kind Damaged, which says what is
// wrong. Control characters in an outcome's error text are replaced.
func TestDamagedOutcomesSayWhatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		`{"format":2,"version":"v"}`:              "format 2; this build reads 1",
		`{"format":1}`:                            "neither a result nor an error",
		`{"format":1,"error":"e","code":256}`:     "code is 256, and exit codes are 0 to 255",
		`{"format":1,"version":"v","code":-1}`:    "code is -1, and exit codes are 0 to 255",
		`{"format":1,"version":"v","code":"two"}`: "code",
	} {
		_, err := decodeOutcome([]byte(text))
		if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), says) {
			t.Errorf("the outcome %s: error %v, expected %q", text, err, says)
		}
	}
	if o, err := decodeOutcome([]byte(`{"format":1,"error":"a\u0007b","code":255}`)); err != nil || o.Code != 255 ||
		o.Error != "a\ufffdb" {
		t.Errorf("an error with a control character is read as %+v, %v; expected it replaced", o, err)
	}
}

// TestInterruptedTaskLeavesNoOutcome: a task that is interrupted writes no outcome, since the next attempt writes one.
func TestInterruptedTaskLeavesNoOutcome(t *testing.T) {
	store := blob.Memory()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := task(t, store, rows(t, 10)).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted task: got error %v; want context.Canceled", err)
	}
	if o, err := readOutcome(t.Context(), store,
		sweep.DatasetStaging("clicks", "stage-clicks-0123456789ab")); o != nil || err != nil {
		t.Errorf("the outcome of an interrupted task: got %+v (error %v); want none", o, err)
	}
}

// TestReporterWritesTheNewest: after two notes of progress the store has, in the end, the second. The test waits for it
// by reading again and again; if it never comes, the test runs into its time limit.
func TestReporterWritesTheNewest(t *testing.T) {
	store := blob.Memory()
	r := &reporter{store: store, name: "f/" + progressFile, latest: Progress{Format: 1}}
	stop := r.startReporting(t.Context(), time.Millisecond)
	r.note(stager.StepCompare, 1, 10)
	r.note(stager.StepCompare, 7, 10)
	for {
		p := must.Get(readProgress(t.Context(), store, "f/"))(t)
		if p != nil && p.Done == 7 {
			break
		}
	}
	stop()
}

// FuzzReports: whatever is read as a progress or an outcome is one that a task could have written, or an error of kind
// Damaged.
func FuzzReports(f *testing.F) {
	for _, v := range []any{Progress{Format: 1, Step: stager.StepFetch, Done: 1, Total: 2},
		JobOutcome{Format: 1, Version: "v"}, JobOutcome{Format: 1, Error: "e", Code: 3}} {
		text := must.Get(json.Marshal(v))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if p := decodeProgress(data); p != nil && (p.Done < 0 || p.Total < p.Done || len(p.Step) > 20) {
			t.Fatalf("accepted the progress %+v, which cannot be; want nil", p)
		}
		o, err := decodeOutcome(data)
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("error %T: %v; expected one of kind damaged", err, err)
		}
		if err == nil && o.Version == "" && o.Error == "" {
			t.Fatalf("accepted an outcome without a result or an error, want it refused: %+v", o)
		}
	})
}
