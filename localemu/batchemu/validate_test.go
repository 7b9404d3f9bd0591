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

	"coppice/internal/must"
	"coppice/localemu/internal/proc"
)

// TestCreateJobRefuses: a job that Batch would refuse is refused with its code and a message with the word of the case,
// and one that localemu does not imitate with Unimplemented. Each case changes one thing of a good job.
func TestCreateJobRefuses(t *testing.T) {
	w := newWorld(t, nil)
	spec := func(j *batchpb.Job) *batchpb.TaskSpec { return j.TaskGroups[0].TaskSpec }
	policy := func(j *batchpb.Job) *batchpb.AllocationPolicy_InstancePolicy {
		return j.AllocationPolicy.Instances[0].GetPolicy()
	}
	group := func(j *batchpb.Job) *batchpb.TaskGroup { return j.TaskGroups[0] }
	const invalid, unimplemented = codes.InvalidArgument, codes.Unimplemented
	for name, c := range map[string]struct {
		change func(*batchpb.Job)
		code   codes.Code
		word   string
	}{
		"no group":    {func(j *batchpb.Job) { j.TaskGroups = nil }, invalid, "exactly one"},
		"two groups":  {func(j *batchpb.Job) { j.TaskGroups = append(j.TaskGroups, group(j)) }, invalid, "exactly one"},
		"no spec":     {func(j *batchpb.Job) { group(j).TaskSpec = nil }, invalid, "task_spec"},
		"no runnable": {func(j *batchpb.Job) { spec(j).Runnables = nil }, invalid, "runnables"},
		"tasks":       {func(j *batchpb.Job) { group(j).TaskCount = 100_001 }, invalid, "task_count"},
		"parallelism": {func(j *batchpb.Job) { group(j).Parallelism = 5_001 }, invalid, "parallelism"},
		"per node":    {func(j *batchpb.Job) { group(j).TaskCountPerNode = 21 }, invalid, "task_count_per_node"},
		"per node, together": {func(j *batchpb.Job) { group(j).Parallelism = 2 }, invalid,
			"more than the parallelism"},
		"in order": {func(j *batchpb.Job) { group(j).SchedulingPolicy = batchpb.TaskGroup_IN_ORDER },
			invalid, "IN_ORDER"},
		"in order, all at once": {func(j *batchpb.Job) {
			group(j).SchedulingPolicy, group(j).Parallelism = batchpb.TaskGroup_IN_ORDER, 0
			group(j).TaskCountPerNode = 0
		}, invalid, "IN_ORDER"},
		"retries": {func(j *batchpb.Job) { spec(j).MaxRetryCount = 11 }, invalid, "max_retry_count"},
		"policies": {func(j *batchpb.Job) {
			spec(j).LifecyclePolicies = append(spec(j).LifecyclePolicies, &batchpb.LifecyclePolicy{})
		}, invalid, "lifecycle"},
		"policy without code": {func(j *batchpb.Job) { spec(j).LifecyclePolicies[0].ActionCondition = nil },
			invalid, "exit codes"},
		"run duration": {func(j *batchpb.Job) { spec(j).MaxRunDuration = durationpb.New(15 * 24 * time.Hour) },
			invalid, "max_run_duration"},
		"relative mount": {func(j *batchpb.Job) { spec(j).Volumes[0].MountPath = "mnt/ssd" }, invalid, "mount path"},
		"climbing mount": {func(j *batchpb.Job) { spec(j).Volumes[0].MountPath = "/mnt/../etc" },
			invalid, "mount path"},
		"no such device": {func(j *batchpb.Job) { policy(j).Disks = nil }, invalid, "device name"},
		"small SSD":      {func(j *batchpb.Job) { policy(j).Disks[0].GetNewDisk().SizeGb = 100 }, invalid, "local SSD"},
		"machines in a zone": {func(j *batchpb.Job) {
			g := group(j)
			g.TaskCount, g.Parallelism, g.TaskCountPerNode = 2001, 2001, 1
			locations("zones/us-central1-a")(j)
		}, invalid, "machines"},
		"label key":      {func(j *batchpb.Job) { j.Labels["Upper"] = "x" }, invalid, "label"},
		"label value":    {func(j *batchpb.Job) { j.Labels["x"] = strings.Repeat("x", 64) }, invalid, "label"},
		"reserved label": {func(j *batchpb.Job) { j.Labels["goog-x"] = "x" }, invalid, "reserved"},
		"priority":       {func(j *batchpb.Job) { j.Priority = 100 }, invalid, "priority"},
		"too big": {func(j *batchpb.Job) { spec(j).Environment.Variables["X"] = strings.Repeat("x", 1<<20) },
			invalid, "bytes"},
		"variable": {func(j *batchpb.Job) { spec(j).Environment.Variables["A=B"] = "x" }, invalid, "variable"},
		"zero in a command": {func(j *batchpb.Job) {
			spec(j).Runnables[0].GetContainer().Commands = []string{"a\x00b"}
		}, invalid, "zero byte"},
		"other region":    {locations("regions/europe-west1"), invalid, "allowed location"},
		"region and zone": {locations("regions/us-central1", "zones/us-central1-a"), invalid, "allowed_locations"},
		"unknown image": {func(j *batchpb.Job) { spec(j).Runnables[0].GetContainer().ImageUri = "other" },
			codes.FailedPrecondition, "--image"},
		"two runnables": {func(j *batchpb.Job) {
			spec(j).Runnables = append(spec(j).Runnables, spec(j).Runnables[0])
		}, unimplemented, "runnables"},
		"entrypoint": {func(j *batchpb.Job) { spec(j).Runnables[0].GetContainer().Entrypoint = "/bin/sh" },
			unimplemented, "entrypoint"},
		"hosts file": {func(j *batchpb.Job) { group(j).RequireHostsFile = true }, unimplemented, "hosts"},
		"notification": {func(j *batchpb.Job) { j.Notifications = []*batchpb.JobNotification{{}} },
			unimplemented, "notification"},
		"network volume": {func(j *batchpb.Job) {
			spec(j).Volumes[0].Source = &batchpb.Volume_Gcs{Gcs: &batchpb.GCS{RemotePath: "b"}}
		}, unimplemented, "volumes"},
	} {
		_, err := w.client.CreateJob(w.ctx, w.request("refused-1", "ok", 4, c.change))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.word) {
			t.Errorf("%s: got %v, want %v about %q", name, err, c.code, c.word)
		}
	}
	refused := func(what string, change func(*batchpb.CreateJobRequest)) {
		r := w.request("x", "ok", 1, nil)
		change(r)
		if _, err := w.client.CreateJob(w.ctx, r); status.Code(err) != invalid {
			t.Errorf("created a job with %s: got %v, want InvalidArgument", what, err)
		}
	}
	for _, id := range []string{"Upper", "1st", "dash-", strings.Repeat("x", 64), "a/b", "../x"} {
		refused("the id "+id, func(r *batchpb.CreateJobRequest) { r.JobId = id })
	}
	for _, id := range []string{"1", "00000000-0000-0000-0000-000000000000", "6f1f0a6e5a554c0e8a5b3a9a7c7b0001"} {
		refused("the request id "+id, func(r *batchpb.CreateJobRequest) { r.RequestId = id })
	}
	refused("no location", func(r *batchpb.CreateJobRequest) { r.Parent = "projects/p" })
}

// TestDefaults: a job that leaves parallelism and tasks per machine out runs all its tasks at once, as many on a
// machine as its CPUs allow, in the zone that it names.
func TestDefaults(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("default-1", "hang", 40, func(j *batchpb.Job) {
		g := j.TaskGroups[0]
		g.Parallelism, g.TaskCountPerNode = 0, 0
		g.TaskSpec.ComputeResource = &batchpb.ComputeResource{CpuMilli: 4000}
		locations("zones/us-central1-f")(j)
	})
	g := job.TaskGroups[0]
	if g.Parallelism != 40 || g.TaskCountPerNode != 4 { // 16 CPUs, 4 for each task
		t.Errorf("parallelism %d, per node %d; want 40 and 4", g.Parallelism, g.TaskCountPerNode)
	}
	w.waitCount(job.Name, "RUNNING", 40)
	if e := w.task(job.Name, 0).Status.StatusEvents[0]; !strings.Contains(e.Description, "zones/us-central1-f/") {
		t.Errorf("the event is %v, want a machine of us-central1-f", e)
	}
}

// TestRewrite: a mount's path is replaced where it is a whole path or its beginning, and nowhere else.
func TestRewrite(t *testing.T) {
	mounts := []mount{{"/mnt/ssd", "/data/vm/ssd"}, {"/mnt/ssd/deep", "/data/vm/disk-1"}}
	for text, want := range map[string]string{
		"":                         "",
		"/mnt/ssd":                 "/data/vm/ssd",
		"/mnt/ssd/":                "/data/vm/ssd/",
		"--a=/mnt/ssd/x:/mnt/ssd":  "--a=/data/vm/ssd/x:/data/vm/ssd",
		"/mnt/ssd/deep/x":          "/data/vm/disk-1/x",
		"/mnt/ssd/deeper":          "/data/vm/ssd/deeper",
		"/mnt/ssd2 /mnt/ssd-x":     "/mnt/ssd2 /mnt/ssd-x",
		"/srv/mnt/ssd x/mnt/ssd":   "/srv/mnt/ssd x/mnt/ssd",
		`{"dir":"/mnt/ssd","n":1}`: `{"dir":"/data/vm/ssd","n":1}`,
	} {
		must.Equal(t, rewrite(text, mounts), want, "%q", text)
	}
}

// scriptRunnable is a runnable that runs a text as a script.
func scriptRunnable(text string) *batchpb.Runnable {
	script := &batchpb.Runnable_Script{Command: &batchpb.Runnable_Script_Text{Text: text}}
	return &batchpb.Runnable{Executable: &batchpb.Runnable_Script_{Script: script}}
}

// first changes a job: it puts scripts before its container.
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

// openSSD is the script that Coppice's jobs begin with: it lets every user write to the local SSD.
const openSSD = "set -e\nmkdir -p " + testSSD + "\nchmod 1777 " + testSSD + "\n"

// TestScriptsComeFirst: a task's scripts run before its container, in order, with the job's variables and their own, in
// the machine's folders, and write to the task's log. A script's own variables are not the container's. All that also
// holds if the name of the data folder has characters that are special to a shell.
func TestScriptsComeFirst(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Dir = filepath.Join(o.Dir, "a b;$HOME") })
	w.dir = filepath.Join(w.dir, "a b;$HOME")

	// The first script leaves a file on the SSD. The second one prints what is in it, a variable of the job (PARTY, the
	// number of tasks, 2), one of its own (OWN), and the folder that stands for the SSD. Then the program prints its
	// arguments and its environment.
	job := w.create("scripts-1", "env", 2, func(j *batchpb.Job) {
		first("#!/bin/sh\nset -e\necho one > "+testSSD+"/left-$BATCH_TASK_INDEX\n", "echo $(cat "+testSSD+
			"/left-$BATCH_TASK_INDEX) two $PARTY $OWN; ls -d \"$SCRATCH\"")(j)
		j.TaskGroups[0].TaskSpec.Runnables[1].Environment = variables("OWN", "mine")
	})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	ssd := filepath.Join(w.dir, "machines", "scripts-1", "vm-0", "ssd")
	for i := range 2 {
		log := w.log("scripts-1", i, 0)
		want := "one two 2 mine\n" + ssd + "\nrun\n--scratch=" + ssd + "\n"
		if !strings.HasPrefix(log, want) || strings.Contains(log, "OWN=") {
			t.Errorf("task %d: got the log\n%s\nwant it to begin with\n%s\nand without OWN, which is the script's", i,
				log, want)
		}
	}
}

// TestOnlyTheJobOpensItsVolumes: the folder of a local SSD can be written to by its owner only, as in the cloud, unless
// a script of the job opens it (mode 1777) to the container's user.
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
			t.Errorf("%s: the disk has mode %v, %v; want %v", id, info.Mode(), err, c.want)
		}
		w.server.Close()
		if rm := noted(t, filepath.Join(notes, "rm")); len(rm) != 2 {
			t.Errorf("%s: removed %q, want two containers", id, rm)
		}
	}
}

// TestFailingScript: the exit code of a script that fails is the task's, and the runnables after it are not executed.
// If the job's policy retries the code (75), the task runs again. A script that is killed ends with 137. The tool for
// containers is a fake, which notes what it is called for.
func TestFailingScript(t *testing.T) {
	w, notes := containers(t)
	job := w.ends(batchpb.JobStatus_FAILED, "broken-1", "env", 1, first("echo no such disk >&2\nexit 7\n",
		"echo never"))
	texts := taskTexts(w.task(job.Name, 0))
	if !strings.HasSuffix(texts[len(texts)-1],
		"from RUNNING to FAILED on zones/us-central1-a/instances/I with exit code 7.") || len(texts) != 2 {
		t.Errorf("the events are %q, want a failure with exit code 7, once", texts)
	}
	if log := w.log("broken-1", 0, 0); log != "no such disk\n" {
		t.Errorf("the log is %q, want what the script says", log)
	}
	if _, err := os.Stat(filepath.Join(notes, "run")); !os.IsNotExist(err) {
		t.Errorf("a container ran after a script that failed (error %v), want none to", err)
	}
	if _, err := os.Stat(filepath.Join(notes, "rm")); !os.IsNotExist(err) {
		t.Errorf("a container that never was is removed (error %v), want none to", err)
	}

	job = w.create("broken-2", "ok", 1, first(`[ "$BATCH_TASK_RETRY_ATTEMPT" != 0 ] || exit 75`))
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	if codes := exitCodes(w.task(job.Name, 0)); !slices.Equal(codes, []int32{75, 0}) {
		t.Errorf("the exit codes are %v, want 75 and, the second time, 0", codes)
	}
	job = w.create("broken-3", "ok", 1, first("kill -9 $$"))
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	if codes := exitCodes(w.task(job.Name, 0)); !slices.Equal(codes, []int32{137}) {
		t.Errorf("the exit codes are %v, want 137 of a kill", codes)
	}
}

// exitCodes returns the exit codes of the task's attempts that have ended, in order.
func exitCodes(task *batchpb.Task) []int32 {
	var codes []int32
	for _, e := range task.Status.StatusEvents {
		if e.TaskExecution != nil {
			codes = append(codes, e.TaskExecution.ExitCode)
		}
	}
	return codes
}

// TestScriptsAreStoppedWithTheirJob: a script that hangs is ended when its job is cancelled, and when the task's time
// limit is over.
func TestScriptsAreStoppedWithTheirJob(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("hang-1", "env", 1, first("exec sleep 3600"))
	w.waitCount(job.Name, "RUNNING", 1)
	must.Get(w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: job.Name}))(t)
	w.waitState(job.Name, batchpb.JobStatus_CANCELLED)
	if log := w.log("hang-1", 0, 0); log != "" {
		t.Errorf("the cancelled script logged %q; want nothing", log)
	}
	job = w.create("hang-2", "env", 1, func(j *batchpb.Job) {
		first("exec sleep 3600")(j)
		j.TaskGroups[0].TaskSpec.MaxRunDuration = durationpb.New(50 * time.Millisecond)
	})
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	if codes := exitCodes(w.task(job.Name, 0)); !slices.Equal(codes, []int32{50005}) {
		t.Errorf("the script that ran over its time ended with %v; want 50005, Batch's code for that", codes)
	}
}

// TestEndedBetweenRunnables: a preemption that comes after a script has succeeded and before the container has started
// ends the attempt with 50001. If the script has failed, or there is no script and the container has ended, the attempt
// had ended before, and its own exit code counts.
func TestEndedBetweenRunnables(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		exit    string
		scripts int
		code    int32 // reported by a preemption that comes after the process has ended
	}{{"0", 1, 50001}, {"7", 1, 7}, {"0", 0, 0}, {"7", 0, 7}} {
		p := must.Get(w.server.procs.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", "exit " + c.exit}}))(t)
		<-p.Done()
		a := &attempt{job: &job{srv: w.server, plan: plan{scripts: make([]script, c.scripts)}}, process: p}
		w.server.mu.Lock()
		a.endAfter(causePreempted, 0)
		w.server.mu.Unlock()
		if a.startNext() {
			t.Errorf("%+v: another runnable was started, want none", c)
		}
		if code, _ := a.outcome(); code != c.code {
			t.Errorf("%+v: exit code %d, want %d", c, code, c.code)
		}
	}
}

// TestRunnablesRefused: runnables other than scripts before one plain container are refused with their code.
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
			spec(j).Runnables = append(spec(j).Runnables, scriptRunnable("true"))
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
			r.Environment = variables("A B", "")
		}), codes.InvalidArgument, "variable"},
		"secret": {before(func(r *batchpb.Runnable) {
			r.Environment = &batchpb.Environment{SecretVariables: map[string]string{"A": "projects/p/secrets/s"}}
		}), codes.Unimplemented, "secret"},
	} {
		_, err := w.client.CreateJob(w.ctx, w.request("refused-1", "ok", 1, c.change))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.word) {
			t.Errorf("%s: got %v, want %v about %q", name, err, c.code, c.word)
		}
	}
}
