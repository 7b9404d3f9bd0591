//go:build unix

package batchemu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"coppice/internal/must"
)

// jobTexts are the texts of a job's events.
func jobTexts(job *batchpb.Job) []string {
	var texts []string
	for _, e := range job.Status.StatusEvents {
		texts = append(texts, e.Description)
	}
	return texts
}

// taskTexts are the texts of a task's events, with I in place of the machines' ids.
func taskTexts(task *batchpb.Task) []string {
	var texts []string
	for _, e := range task.Status.StatusEvents {
		texts = append(texts, regexp.MustCompile(`instances/[0-9]{19}`).ReplaceAllString(e.Description, "instances/I"))
	}
	return texts
}

// TestSuccess: job and tasks go through Batch's states, in Batch's words, and counts and machines are as Batch states
// them.
func TestSuccess(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("nightly-1", "ok", 3, nil)
	if job.Status.State != batchpb.JobStatus_QUEUED || job.Uid == "" || job.Name != parent+"/jobs/nightly-1" {
		t.Errorf("created %v; want it queued, with its name and a UID", job)
	}
	job = w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	want := []string{
		"Job state is set from QUEUED to SCHEDULED for job " + job.Name + ".",
		"Job state is set from SCHEDULED to RUNNING for job " + job.Name + ".",
		"Job state is set from RUNNING to SUCCEEDED for job " + job.Name + ".",
	}
	if d := cmp.Diff(want, jobTexts(job)); d != "" {
		t.Errorf("the job's events (-expected +got):\n%s", d)
	}
	g := job.Status.TaskGroups["group0"]
	if !cmp.Equal(g.Counts, map[string]int64{"SUCCEEDED": 3}) || g.Instances[0].MachineType != "n2-highmem-16" ||
		g.Instances[0].TaskPack != 3 {
		t.Errorf("the group is %v; want three tasks done on one n2-highmem-16", g)
	}
	if job.Status.RunDuration.AsDuration() <= 0 {
		t.Errorf("the job ran for %v, want more than nothing", job.Status.RunDuration)
	}
	want = []string{
		"Task state is updated from PENDING to RUNNING on zones/us-central1-a/instances/I.",
		"Task state is updated from RUNNING to SUCCEEDED on zones/us-central1-a/instances/I.",
	}
	if d := cmp.Diff(want, taskTexts(w.task(job.Name, 2))); d != "" {
		t.Errorf("the events of task 2 (-expected +got):\n%s", d)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "machines", "nightly-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the machines' folder of a finished job: got %v, want that it does not exist", err)
	}
}

// TestEnvironmentIsTheJobsOwn: a task has the job's variables, with its machine's paths, and none of the user's.
func TestEnvironmentIsTheJobsOwn(t *testing.T) {
	t.Setenv("SECRET_OF_THE_USER", "1")
	w := newWorld(t, nil)
	job := w.create("env-1", "env", 1, func(j *batchpb.Job) {
		v := j.TaskGroups[0].TaskSpec.Environment.Variables
		v["PLACES"] = "a=" + testSSD + "/x:" + testSSD + "2:/srv" + testSSD
		j.TaskGroups[0].TaskSpec.Runnables[0].Environment = variables("PARTY", "override")
	})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	vm := filepath.Join(w.dir, "machines", "env-1", "vm-0")
	ssd := filepath.Join(vm, "ssd")
	lines := strings.Split(strings.TrimSpace(w.log("env-1", 0, 0)), "\n")
	// The test binary itself writes this line under go test -cover.
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "warning: GOCOVERDIR") })
	slices.Sort(lines)
	want := []string{
		"run", "--scratch=" + ssd, "cwd " + vm + " <nil>",
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + vm + "/home", "TMPDIR=" + vm + "/tmp",
		"STORAGE_EMULATOR_HOST=127.0.0.1:1",
		"HELPER=env", "SCRATCH=" + ssd, "MEET=" + w.meet, "PARTY=override",
		"PLACES=a=" + ssd + "/x:" + testSSD + "2:/srv" + testSSD,
		"HOSTNAME=env-1-vm-0", "BATCH_TASK_COUNT=1", "BATCH_TASK_INDEX=0", "BATCH_TASK_RETRY_ATTEMPT=0",
	}
	slices.Sort(want)
	if d := cmp.Diff(want, lines); d != "" {
		t.Errorf("the task's arguments and environment (-expected +got):\n%s", d)
	}
}

// TestRetryByExitCode: an exit code that the job says to retry runs the task again, and each attempt has its log.
func TestRetryByExitCode(t *testing.T) {
	w := newWorld(t, nil)
	job := w.ends(batchpb.JobStatus_SUCCEEDED, "retry-1", "transient-once", 2, nil)
	task := w.task(job.Name, 1)
	want := []string{
		"Task state is updated from PENDING to RUNNING on zones/us-central1-a/instances/I.",
		"Task state is updated from RUNNING to FAILED on zones/us-central1-a/instances/I with exit code 75.",
		"Task state is updated from PENDING to RUNNING on zones/us-central1-a/instances/I.",
		"Task state is updated from RUNNING to SUCCEEDED on zones/us-central1-a/instances/I.",
	}
	if d := cmp.Diff(want, taskTexts(task)); d != "" {
		t.Errorf("the task's events (-expected +got):\n%s", d)
	}
	if e := task.Status.StatusEvents[1]; e.TaskExecution.GetExitCode() != 75 ||
		e.TaskState != batchpb.TaskStatus_FAILED {
		t.Errorf("the event is %v, want a failure with exit code 75", e)
	}
	w.log("retry-1", 1, 0) // fails the test if there is no such log
	w.log("retry-1", 1, 1)
}

// TestPermanentFailureFailsTheJob: when a task has failed for good, the others go on; when they have ended, the job has
// failed, and its last event names the task.
func TestPermanentFailureFailsTheJob(t *testing.T) {
	w := newWorld(t, nil)
	job := w.ends(batchpb.JobStatus_FAILED, "fail-1", "fail-first-task", 6,
		func(j *batchpb.Job) { j.TaskGroups[0].Parallelism = 4 })
	if counts := job.Status.TaskGroups["group0"].Counts; !cmp.Equal(counts,
		map[string]int64{"FAILED": 1, "SUCCEEDED": 5}) {
		t.Errorf("the counts are %v, want one failed and five succeeded", counts)
	}
	last := job.Status.StatusEvents[len(job.Status.StatusEvents)-1].Description
	pattern := `^Job state is set from RUNNING to FAILED for job ` + job.Name +
		`\.Job failed due to task failure\. Specifically, task with index 0 failed ` +
		`due to the following task event: "Task state is updated from RUNNING to FAILED on ` +
		`zones/us-central1-a/instances/\d+ with exit code 3\."$`
	if !regexp.MustCompile(pattern).MatchString(last) {
		t.Errorf("the last event is %q, want the task that failed and its exit code 3", last)
	}
}

// TestRetriesRunOut: a task that may be retried twice and always fails has three attempts.
func TestRetriesRunOut(t *testing.T) {
	w := newWorld(t, nil)
	job := w.ends(batchpb.JobStatus_FAILED, "fail-2", "fail", 1,
		func(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.LifecyclePolicies = nil })
	if n := len(w.task(job.Name, 0).Status.StatusEvents); n != 2*3 {
		t.Errorf("%d events, want two for each of three attempts", n)
	}
}

// TestFailTaskPolicy: FAIL_TASK lists the exit codes that are not retried, RETRY_TASK those that are. Without a policy
// every failure is retried.
func TestFailTaskPolicy(t *testing.T) {
	policy := &batchpb.LifecyclePolicy{Action: batchpb.LifecyclePolicy_FAIL_TASK,
		ActionCondition: &batchpb.LifecyclePolicy_ActionCondition{ExitCodes: []int32{3}}}
	if retryable(policy, 3) || !retryable(policy, 4) {
		t.Errorf("FAIL_TASK of code 3: retries 3: %t, 4: %t; want only 4", retryable(policy, 3), retryable(policy, 4))
	}
	policy.Action = batchpb.LifecyclePolicy_RETRY_TASK
	if !retryable(policy, 3) || retryable(policy, 4) || !retryable(nil, 1) {
		t.Errorf("RETRY_TASK of code 3: retries 3: %t, 4: %t, without a policy 1: %t; want 3, and 1",
			retryable(policy, 3), retryable(policy, 4), retryable(nil, 1))
	}
}

// TestMaxRunDuration: a task that runs for longer than it may ends with Batch's exit code for that.
func TestMaxRunDuration(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("slow-1", "hang", 1, func(j *batchpb.Job) {
		j.TaskGroups[0].TaskSpec.MaxRunDuration = durationpb.New(50 * time.Millisecond)
	})
	w.waitState(job.Name, batchpb.JobStatus_FAILED)
	events := w.task(job.Name, 0).Status.StatusEvents
	last := events[len(events)-1]
	if last.TaskExecution.GetExitCode() != 50005 ||
		!strings.HasSuffix(last.Description, " due to task runs over the maximum runtime with exit code 50005.") {
		t.Errorf("the last event is %v, want exit code 50005 for a task that ran too long", last)
	}
}

// TestCancelWhileRunning: cancelling a job stops its running tasks, also those that ignore SIGTERM, and does not start
// those that wait. Cancelling it once more, when it has ended, is done at once and changes nothing.
func TestCancelWhileRunning(t *testing.T) {
	for mode, grace := range map[string]time.Duration{"hang": time.Minute, "stubborn": 30 * time.Millisecond} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.Grace = grace })
			job := w.create("cancel-1", mode, 3,
				func(j *batchpb.Job) { j.TaskGroups[0].Parallelism = 2; j.TaskGroups[0].TaskCountPerNode = 2 })
			w.waitCount(job.Name, "RUNNING", 2)
			if mode == "stubborn" {
				eventually(t, "both tasks ignore SIGTERM", func() bool {
					return strings.Contains(w.log("cancel-1", 0, 0)+w.log("cancel-1", 1, 0),
						"ignoring SIGTERM\nignoring SIGTERM")
				})
			}
			op, err := w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: job.Name})
			must.Do(t, err)
			must.Get(op.Wait(w.ctx))(t)
			job = w.waitState(job.Name, batchpb.JobStatus_CANCELLED)
			if counts := job.Status.TaskGroups["group0"].Counts; !cmp.Equal(counts, map[string]int64{"UNEXECUTED": 3}) {
				t.Errorf("the counts are %v, want three that were not executed", counts)
			}
			want := []string{"QUEUED to SCHEDULED", "SCHEDULED to RUNNING", "RUNNING to CANCELLATION_IN_PROGRESS",
				"CANCELLATION_IN_PROGRESS to CANCELLED"}
			for i, text := range jobTexts(job) {
				if !strings.Contains(text, want[i]) {
					t.Errorf("event %d: %q, want %q in it", i, text, want[i])
				}
			}
			op, err = w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: job.Name})
			if err != nil || !op.Done() {
				t.Errorf("cancelling a finished job: got %v, %v; want an operation that is done", op, err)
			}
		})
	}
}

// TestTwentyTasksOnTwoMachines: a job of 20 tasks, of which 8 run at once and 4 on a machine, gets two machines and
// does run eight at once: each task succeeds only when eight have been started.
func TestTwentyTasksOnTwoMachines(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("twenty-1", "meet", 20, func(j *batchpb.Job) {
		g := j.TaskGroups[0]
		g.Parallelism, g.TaskCountPerNode = 8, 4
		g.TaskSpec.Environment.Variables["PARTY"] = "8" // see meet
	})
	job = w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	perVM := map[string]int{}
	for i := range 20 {
		perVM[w.task(job.Name, i).Status.StatusEvents[0].Description]++
	}
	if len(perVM) != 2 {
		t.Errorf("tasks per machine: %v; want two machines", perVM)
	}
}

// TestParallelismIsALimit: with a parallelism of 3 and two tasks on a machine, three of five tasks run, although the
// two machines have room for four.
func TestParallelismIsALimit(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("limit-1", "hang", 5, func(j *batchpb.Job) {
		j.TaskGroups[0].Parallelism, j.TaskGroups[0].TaskCountPerNode = 3, 2
	})
	w.waitCount(job.Name, "RUNNING", 3)
	got := must.Get(w.client.GetJob(w.ctx, &batchpb.GetJobRequest{Name: job.Name}))(t)
	if counts := got.Status.TaskGroups["group0"].Counts; !cmp.Equal(counts,
		map[string]int64{"RUNNING": 3, "PENDING": 2}) {
		t.Errorf("the counts are %v, want three running and two pending", counts)
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, "machines", "limit-1"))
	if err != nil || len(entries) != 2 {
		t.Errorf("the machines are %v, %v; want two", entries, err)
	}
}

// TestCloseLeavesNothing: closing the server ends all processes and removes their machines' folders.
func TestCloseLeavesNothing(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("close-1", "hang", 4, nil)
	w.waitCount(job.Name, "RUNNING", 4)
	w.server.mu.Lock()
	var pids []int
	for _, vm := range w.server.jobs[job.Name].vms {
		for _, a := range vm.attempts {
			pids = append(pids, a.process.PID())
		}
	}
	w.server.mu.Unlock()
	w.server.Close()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v; want it gone with the server", pid, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(w.dir, "machines")); err != nil || len(entries) != 0 {
		t.Errorf("folders of machines are left: %v, %v; want none", entries, err)
	}
}

// TestUnstartableProgram: a task whose program is not there fails with Batch's 50000, and its log says why.
func TestUnstartableProgram(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Images["coppice-task"] = filepath.Join(o.Dir, "absent") })
	job := w.ends(batchpb.JobStatus_FAILED, "absent-1", "ok", 1, nil)
	if e := w.task(job.Name, 0).Status.StatusEvents[0]; e.TaskExecution.GetExitCode() != 50000 {
		t.Errorf("the event is %v, want exit code 50000", e)
	}
	if log := w.log("absent-1", 0, 0); !strings.Contains(log, "no such file") {
		t.Errorf("the log is %q, want that there is no such file", log)
	}
}

// TestIdempotence: a request with the request id of an earlier one returns that one's job. Another request for a job of
// the same name is refused, and so is one for the same job id in another project, since folders are named after it.
func TestIdempotence(t *testing.T) {
	w := newWorld(t, nil)
	r := w.request("once-1", "hang", 1, nil)
	r.RequestId = "6f1f0a6e-5a55-4c0e-8a5b-3a9a7c7b0001"
	first := must.Get(w.client.CreateJob(w.ctx, r))(t)
	again, err := w.client.CreateJob(w.ctx, r)
	if err != nil || again.Uid != first.Uid {
		t.Errorf("repeated request: got %v, %v; want the job with the UID %s", again, err, first.Uid)
	}
	if _, err = w.client.CreateJob(w.ctx, w.request("once-1", "hang", 1,
		nil)); status.Code(err) != codes.AlreadyExists {
		t.Errorf("another request for the same job: got %v, want AlreadyExists", err)
	}
	other := w.request("once-1", "hang", 1, nil)
	other.Parent = "projects/other/locations/us-central1"
	if _, err = w.client.CreateJob(w.ctx, other); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("created the same id elsewhere: got %v, want FailedPrecondition", err)
	}
	if _, err = w.client.GetJob(w.ctx, &batchpb.GetJobRequest{Name: parent +
		"/jobs/of-an-earlier-run"}); status.Code(err) != codes.NotFound {
		t.Errorf("asked for an unknown job: got %v, want NotFound", err)
	}
}

// TestListJobs: jobs are listed page by page; filters and orders are not imitated, and say so.
func TestListJobs(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 5 {
		w.waitState(w.create(fmt.Sprintf("list-%d", i), "ok", 1, nil).Name, batchpb.JobStatus_SUCCEEDED)
	}
	hanging := w.create("other-1", "hang", 1, nil)
	w.waitState(hanging.Name, batchpb.JobStatus_RUNNING)
	for parent, want := range map[string]string{parent: "list-0 list-1 list-2 list-3 list-4 other-1",
		"projects/elsewhere/locations/us-central1": ""} {
		it := w.client.ListJobs(w.ctx, &batchpb.ListJobsRequest{Parent: parent, PageSize: 2})
		var got []string
		for {
			j, err := it.Next()
			if errors.Is(err, iterator.Done) {
				break
			}
			if err != nil {
				t.Fatalf("list the jobs of %s: %v", parent, err)
			}
			got = append(got, j.Name[strings.LastIndex(j.Name, "/")+1:])
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("the jobs of %s: got %s, want %s", parent, s, want)
		}
	}
	for _, r := range []*batchpb.ListJobsRequest{{Filter: `labels.a = "b"`}, {OrderBy: "create_time desc"}} {
		r.Parent = parent
		if _, err := w.client.ListJobs(w.ctx, r).Next(); status.Code(err) != codes.Unimplemented {
			t.Errorf("list %v: got %v, want that it is not imitated", r, err)
		}
	}
}
