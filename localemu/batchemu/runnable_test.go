//go:build unix

package batchemu

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"coppice/localemu/internal/proc"
)

func scriptRunnable(text string) *batchpb.Runnable {
	return &batchpb.Runnable{Executable: &batchpb.Runnable_Script_{Script: &batchpb.Runnable_Script{Command: &batchpb.Runnable_Script_Text{Text: text}}}}
}

// first puts scripts before the container.
func first(scripts ...string) func(*batchpb.Job) {
	return func(j *batchpb.Job) {
		var all []*batchpb.Runnable
		for _, s := range scripts {
			all = append(all, scriptRunnable(s))
		}
		spec := j.TaskGroups[0].TaskSpec
		spec.Runnables = append(all, spec.Runnables...)
	}
}

// openSSD is the script of our jobs.
const openSSD = "set -e\nmkdir -p " + testSSD + "\nchmod 1777 " + testSSD + "\n"

// TestScriptsComeFirst: in order, with the job's variables, in the machine's own folders, into the task's log; even if
// the name of the data folder has characters that are special to a shell.
func TestScriptsComeFirst(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Dir = filepath.Join(o.Dir, "a b;$HOME") })
	w.dir = filepath.Join(w.dir, "a b;$HOME")
	job := w.create("scripts-1", "env", 2, func(j *batchpb.Job) {
		first("#!/bin/sh\nset -e\necho one > "+testSSD+"/left-$BATCH_TASK_INDEX\n", "echo $(cat "+testSSD+
			"/left-$BATCH_TASK_INDEX) two $PARTY $OWN; ls -d \"$SCRATCH\"")(j)
		j.TaskGroups[0].TaskSpec.Runnables[1].Environment = &batchpb.Environment{Variables: map[string]string{"OWN": "mine"}}
	})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	ssd := filepath.Join(w.dir, "machines", "scripts-1", "vm-0", "ssd")
	for i := range 2 {
		log := w.log("scripts-1", i, 0)
		if !strings.HasPrefix(log, "one two 2 mine\n"+ssd+"\nrun\n--scratch="+ssd+"\n") ||
			strings.Contains(log, "OWN=") {
			t.Errorf("task %d: %s", i, log)
		}
	}
}

// TestOnlyTheJobOpensItsVolumes: a container's user can write to the local SSD because the job says so.
func TestOnlyTheJobOpensItsVolumes(t *testing.T) {
	for id, c := range map[string]struct {
		change func(*batchpb.Job)
		want   os.FileMode
	}{"closed-1": {nil, 0o755}, "opened-1": {first(openSSD), 0o777 | os.ModeSticky}} {
		w, notes := containers(t)
		job := w.create(id, "hang", 2, c.change)
		w.waitCount(job.Name, "RUNNING", 2)
		eventually(t, "both containers run", func() bool {
			data, err := os.ReadFile(filepath.Join(notes, "run"))
			return err == nil && strings.Count(string(data), "\n") == 2
		})
		info, err := os.Stat(filepath.Join(w.dir, "machines", id, "vm-0", "ssd"))
		if err != nil || info.Mode().Perm()|info.Mode()&os.ModeSticky != c.want {
			t.Errorf("%s: mode %v, %v", id, info.Mode(), err)
		}
		w.server.Close()
		if rm := noted(t, filepath.Join(notes, "rm")); len(rm) != 2 {
			t.Errorf("%s: removed %q", id, rm)
		}
	}
}

// TestFailingScript: its exit code is the task's, the lifecycle policy applies to it, and the following runnables are
// not executed.
func TestFailingScript(t *testing.T) {
	w, notes := containers(t)
	job := w.create("broken-1", "env", 1, first("echo no such disk >&2\nexit 7\n", "echo never"))
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	texts := taskTexts(w.task(job.Name, 0))
	if !strings.HasSuffix(texts[len(texts)-1],
		"from RUNNING to FAILED on zones/us-central1-a/instances/I with exit code 7.") || len(texts) != 2 {
		t.Errorf("events %q", texts)
	}
	if log := w.log("broken-1", 0, 0); log != "no such disk\n" {
		t.Errorf("log %q", log)
	}
	if _, err := os.Stat(filepath.Join(notes, "run")); !os.IsNotExist(err) {
		t.Errorf("a container ran: %v", err)
	}
	if _, err := os.Stat(filepath.Join(notes, "rm")); !os.IsNotExist(err) {
		t.Errorf("a container that never was is removed: %v", err)
	}

	job = w.create("broken-2", "ok", 1, first(`[ "$BATCH_TASK_RETRY_ATTEMPT" != 0 ] || exit 75`))
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	if codes := exitCodes(w.task(job.Name, 0)); !slices.Equal(codes, []int32{75, 0}) {
		t.Errorf("exit codes %v", codes)
	}
	job = w.create("broken-3", "ok", 1, first("kill -9 $$"))
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	if codes := exitCodes(w.task(job.Name, 0)); !slices.Equal(codes, []int32{137}) {
		t.Errorf("exit codes %v", codes)
	}
}

// exitCodes are those of the task's ended attempts.
func exitCodes(task *batchpb.Task) []int32 {
	var codes []int32
	for _, e := range task.Status.StatusEvents {
		if e.TaskExecution != nil {
			codes = append(codes, e.TaskExecution.ExitCode)
		}
	}
	return codes
}

// TestScriptsAreStoppedWithTheirJob: a hanging script is ended by cancelling and by the task's time limit.
func TestScriptsAreStoppedWithTheirJob(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("hang-1", "env", 1, first("exec sleep 3600"))
	w.waitCount(job.Name, "RUNNING", 1)
	if _, err := w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: job.Name}); err != nil {
		t.Fatal(err)
	}
	w.waitState(job.Name, batchpb.JobStatus_CANCELLED)
	if log := w.log("hang-1", 0, 0); log != "" {
		t.Errorf("log %q", log)
	}
	job = w.create("hang-2", "env", 1, func(j *batchpb.Job) {
		first("exec sleep 3600")(j)
		j.TaskGroups[0].TaskSpec.MaxRunDuration = durationpb.New(50 * time.Millisecond)
	})
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	if codes := exitCodes(w.task(job.Name, 0)); !slices.Equal(codes, []int32{50005}) {
		t.Errorf("exit codes %v", codes)
	}
}

// TestEndedBetweenRunnables: an attempt that is ended after its script has succeeded and before its container starts
// has not ended by itself.
func TestEndedBetweenRunnables(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		exit    string
		scripts int
		code    int32 // reported by a preemption that comes after the process has ended
	}{{"0", 1, 50001}, {"7", 1, 7}, {"0", 0, 0}, {"7", 0, 7}} {
		p, err := w.server.procs.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", "exit " + c.exit}})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		a := &attempt{job: &job{srv: w.server, plan: plan{scripts: make([]script, c.scripts)}}, process: p}
		w.server.mu.Lock()
		a.end(causePreempted)
		w.server.mu.Unlock()
		if a.next() {
			t.Errorf("%+v: another runnable was started", c)
		}
		if code, _ := a.outcome(); code != c.code {
			t.Errorf("%+v: exit code %d", c, code)
		}
	}
}

func TestRunnablesRefused(t *testing.T) {
	w := newWorld(t, nil)
	spec := func(j *batchpb.Job) *batchpb.TaskSpec { return j.TaskGroups[0].TaskSpec }
	before := func(change func(*batchpb.Runnable)) func(*batchpb.Job) {
		return func(j *batchpb.Job) {
			first("true")(j)
			change(spec(j).Runnables[0])
		}
	}
	for name, c := range map[string]struct {
		change func(*batchpb.Job)
		code   codes.Code
		word   string
	}{
		"only a script": {func(j *batchpb.Job) { spec(j).Runnables = []*batchpb.Runnable{scriptRunnable("true")} },
			codes.Unimplemented, "plain container"},
		"script at the end": {func(j *batchpb.Job) {
			spec(j).Runnables = append(spec(j).Runnables,
				scriptRunnable("true"))
		}, codes.Unimplemented, "plain container"},
		"empty":       {first(""), codes.InvalidArgument, "empty"},
		"zero":        {first("a\x00b"), codes.InvalidArgument, "zero byte"},
		"interpreter": {first("#!/usr/bin/env python3\n"), codes.Unimplemented, "interpreter"},
		"no executable": {before(func(r *batchpb.Runnable) { r.Executable = nil }), codes.Unimplemented,
			"plain container"},
		"path": {before(func(r *batchpb.Runnable) {
			r.GetScript().Command = &batchpb.Runnable_Script_Path{Path: "/x"}
		}), codes.Unimplemented, "files of the machine"},
		"background": {before(func(r *batchpb.Runnable) { r.Background = true }), codes.Unimplemented, "background"},
		"always":     {before(func(r *batchpb.Runnable) { r.AlwaysRun = true }), codes.Unimplemented, "background"},
		"ignored": {before(func(r *batchpb.Runnable) { r.IgnoreExitStatus = true }), codes.Unimplemented,
			"background"},
		"timeout": {before(func(r *batchpb.Runnable) { r.Timeout = durationpb.New(time.Second) }),
			codes.Unimplemented, "background"},
		"variable": {before(func(r *batchpb.Runnable) {
			r.Environment = &batchpb.Environment{Variables: map[string]string{"A B": ""}}
		}), codes.InvalidArgument, "variable"},
		"secret": {before(func(r *batchpb.Runnable) {
			r.Environment = &batchpb.Environment{SecretVariables: map[string]string{"A": "projects/p/secrets/s/versions/1"}}
		}), codes.Unimplemented, "secret"},
	} {
		_, err := w.client.CreateJob(w.ctx, w.request("refused-1", "ok", 1, c.change))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.word) {
			t.Errorf("%s: got %v, want %v about %q", name, err, c.code, c.word)
		}
	}
}
