//go:build unix

package batchemu

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestFaultsAfterATime: a machine that the faults lose 300 ms after the job began to run ends its task with 50002, and
// the task runs again. Losses of machines or times that cannot be are refused.
func TestFaultsAfterATime(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Faults = Faults{LoseMachine: map[int][]sweep.Duration{0: {sweep.Duration(300 * time.Millisecond)}}}
	})
	job := w.ends(batchpb.JobStatus_SUCCEEDED, "lost-2", "hang-once", 1, nil)
	w.again(job.Name, 50002)
	for _, bad := range []map[int][]sweep.Duration{{-1: {0}}, {0: {-1}}, {0: {0, sweep.Duration(maxRunTime + 1)}}} {
		if CheckLosses(bad) == nil {
			t.Errorf("the losses %+v passed, want them refused", bad)
		}
	}
}

// TestLostMachine: when one of two machines with two tasks each is lost, its tasks end in Batch's words and run again
// on a new machine, whose disk is empty. The tasks of the other machine go on. Tasks hang in their first attempt, after
// they have written to the disk, and end in their second.
func TestLostMachine(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("lost-1", "scratch-then-hang", 4, func(j *batchpb.Job) { j.TaskGroups[0].TaskCountPerNode = 2 })
	for i := range 4 {
		eventually(t, "the task uses its disk",
			func() bool { return exists(filepath.Join(w.meet, fmt.Sprint("wrote-", i))) })
	}
	w.server.LoseMachine(1, 50001, 0)
	w.waitCount(job.Name, "SUCCEEDED", 2)
	for _, i := range []int{2, 3} { // the tasks of vm-1
		events := w.task(job.Name, i).Status.StatusEvents
		want := " due to Spot VM preemption with exit code 50001."
		if len(events) != 4 || !strings.HasSuffix(events[1].Description, want) {
			t.Errorf("task %d: events %v; want the second to end with %q", i, events, want)
		}
		if events[0].Description == events[2].Description {
			t.Errorf("task %d ran twice on the same machine: %q; want a new one", i, events[0].Description)
		}
	}
	// Both second attempts look at the disk before they write to it; the one that comes first finds it empty.
	logs := w.log("lost-1", 2, 1) + w.log("lost-1", 3, 1)
	if !strings.Contains(logs, "disk empty: true") {
		t.Errorf("tasks on the new machine wrote %q, want that its disk was empty", logs)
	}
	if n := len(w.task(job.Name, 0).Status.StatusEvents); n != 1 {
		t.Errorf("a task of the other machine has %d events; want 1", n)
	}
}

// TestNoCapacity: where a fault leaves a zone without machines, a job runs in the next zone that it may use, or with
// machines of another kind. If there is none, it stays scheduled until it is cancelled, or fails at once if the fault
// says so. Its events say that the zone has no machines.
func TestNoCapacity(t *testing.T) {
	spot := true
	w := newWorld(t, func(o *Options) {
		o.Faults = Faults{NoCapacity: []Shortage{{MachineType: "n2-highmem-16", Zone: "us-central1-a", Spot: &spot},
			{MachineType: "n2-highmem-32", Fail: true}, {MachineType: "n2-highmem-8"}}}
	})
	// on has a job ask for machines of a type, with four local SSDs of 375 GB, in zones; without zones, in any.
	on := func(machine string, zones ...string) func(*batchpb.Job) {
		return func(j *batchpb.Job) {
			p := j.AllocationPolicy.Instances[0].GetPolicy()
			p.MachineType, p.Disks[0].GetNewDisk().SizeGb = machine, 4*375
			locations(zones...)(j)
		}
	}

	// Jobs that find machines: in another zone, or because only Spot machines are short.
	elsewhere := w.create("elsewhere", "ok", 1, on("n2-highmem-16", "regions/us-central1"))
	w.waitState(elsewhere.Name, batchpb.JobStatus_SUCCEEDED)
	if e := w.task(elsewhere.Name, 0).Status.StatusEvents[0]; !strings.Contains(e.Description, "zones/us-central1-b/") {
		t.Errorf("the task ran at %q, expected in us-central1-b, which has machines", e.Description)
	}
	standard := w.create("standard", "ok", 1, func(j *batchpb.Job) {
		on("n2-highmem-16", "zones/us-central1-a")(j)
		j.AllocationPolicy.Instances[0].GetPolicy().ProvisioningModel = batchpb.AllocationPolicy_STANDARD
	})
	w.waitState(standard.Name, batchpb.JobStatus_SUCCEEDED)

	// Jobs that find none.
	failed := w.waitState(w.create("failed", "ok", 1, on("n2-highmem-32")).Name, batchpb.JobStatus_FAILED)
	for id, waits := range map[string]func(*batchpb.Job){"a-zone": on("n2-highmem-16", "zones/us-central1-a"),
		"the-region": on("n2-highmem-8")} {
		job := w.create(id, "ok", 1, waits)
		stuck := w.waitFor(job.Name, func(j *batchpb.Job) bool { return len(j.Status.StatusEvents) > 1 })
		if stuck.Status.State != batchpb.JobStatus_SCHEDULED || stuck.Status.RunDuration != nil {
			t.Fatalf("a job without machines is %v, expected it to be scheduled and not to have run", stuck)
		}
		must.Get(w.client.CancelJob(w.ctx, &batchpb.CancelJobRequest{Name: job.Name}))(t)
		gone := w.waitState(job.Name, batchpb.JobStatus_CANCELLED)
		for _, j := range []*batchpb.Job{stuck, gone, failed} {
			if text := fmt.Sprint(j.Status.StatusEvents); !strings.Contains(text,
				"CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED") {
				t.Errorf("the events are %v, expected one that the zone has no machines", text)
			}
		}
		if gone.Status.TaskGroups["group0"].Counts["UNEXECUTED"] != 1 {
			t.Errorf("the cancelled job is %v, expected its task to be UNEXECUTED", gone.Status)
		}
	}
}

// TestQuota: with a quota of 40 vCPUs and machines of 16, a job that needs three machines gets two, and the next job
// gets none. Both have an event that says why.
func TestQuota(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Faults = Faults{CPUs: 40} })
	three := func(j *batchpb.Job) { j.TaskGroups[0].Parallelism, j.TaskGroups[0].TaskCountPerNode = 6, 2 }
	first := w.create("first", "hang", 6, three)
	w.waitCount(first.Name, "RUNNING", 4)
	second := w.create("second", "hang", 6, three)
	for name, want := range map[string]map[string]int64{first.Name: {"RUNNING": 4, "PENDING": 2},
		second.Name: {"PENDING": 6}} {
		job := w.waitFor(name, func(j *batchpb.Job) bool {
			return strings.Contains(fmt.Sprint(j.Status.StatusEvents),
				"Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 40.0 globally.")
		})
		if counts := job.Status.TaskGroups["group0"].Counts; !cmp.Equal(counts, want) {
			t.Errorf("tasks of %s: %v, want %v", name, counts, want)
		}
	}
}

// TestQuotaOfJobsAtOnce: what one job was granted is not granted to another one, also while its machines are still
// being made: of 40 vCPUs the first job gets two machines of 16, and the second one none.
func TestQuotaOfJobsAtOnce(t *testing.T) {
	s := &Server{opts: Options{Faults: Faults{CPUs: 40}}, jobs: map[string]*job{}}
	for id, want := range []int{2, 0} {
		j := &job{srv: s, plan: plan{vms: 3, machineType: "n2-highmem-16"}}
		s.jobs[fmt.Sprint(id)] = j
		if got := j.grantMachines(); got != want {
			t.Errorf("job %d gets %d machines, want %d", id, got, want)
		}
	}
}

// TestNotice: the tasks of a machine that is taken away with notice get SIGTERM and may end by themselves. Batch still
// reports them as preempted (50001), whatever their exit code, here 75.
func TestNotice(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("spot-3", "told", 1, nil)
	eventually(t, "the task listens", func() bool { return exists(filepath.Join(w.meet, "listens")) })
	w.server.LoseMachine(0, 50001, time.Minute)
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	if log := w.log("spot-3", 0, 0); !strings.Contains(log, "told to go") {
		t.Errorf("the preempted attempt wrote %q, want that it was told to go", log)
	}
	w.again(job.Name, 50001)
}

// retrying lets a job's tasks be retried after any exit code.
func retrying(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.LifecyclePolicies = nil }

// TestLossCodes: for each way in which a machine may be lost, its task ends with that way's exit code and gets another
// attempt, which does not hang. The fault is counted once; losing a machine that does not exist changes nothing.
func TestLossCodes(t *testing.T) {
	for _, code := range LossCodes {
		var struck []string // read once the job has ended
		w := newWorld(t, func(o *Options) { o.Struck = func(class string) { struck = append(struck, class) } })
		job := w.ends(batchpb.JobStatus_RUNNING, "spot-3", "hang-once", 1, retrying)
		w.server.LoseMachine(7, code, 0) // the job has no such machine
		w.server.LoseMachine(0, code, 0)
		w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
		w.again(job.Name, int32(code))
		if len(struck) != 1 || !strings.HasSuffix(struck[0], fmt.Sprintf("(%d)", code)) {
			t.Errorf("code %d: struck %q; want that class once", code, struck)
		}
	}
}

// TestATaskIsKilled: KillTask ends a task's process as the kernel does when memory is short, with 137, and the task
// gets another attempt. Killing a task that does not exist changes nothing.
func TestATaskIsKilled(t *testing.T) {
	w := newWorld(t, nil)
	job := w.create("spot-3", "told", 1, retrying)
	eventually(t, "the task listens", func() bool { return exists(filepath.Join(w.meet, "listens")) })
	w.server.KillTask(5) // there is none
	w.server.KillTask(0)
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	w.again(job.Name, 137)
}

// fakeTool stands for podman: it records its arguments and does what the container would, using the test binary.
const fakeTool = `#!/bin/sh
verb=$1
echo "$@" >> "$NOTES/$verb"
[ "$verb" = run ] || exit 0
while [ "$1" != IMAGE ]; do
  [ "$1" = --env ] && export "$2"
  shift
done
shift
exec "$PROGRAM" "$@"
`

// containers is a world in which podman is the fake.
func containers(t *testing.T) (w *world, notes string) {
	t.Helper()
	bin, notes := t.TempDir(), t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(bin, "podman"), []byte(fakeTool), 0o755)) //nolint:gosec // to be run
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return newWorld(t, func(o *Options) {
		o.Containers, o.Images = "podman", map[string]string{"coppice-task": "IMAGE"}
		o.Environ = []string{"PATH=" + os.Getenv("PATH"), "NOTES=" + notes, "PROGRAM=" + os.Args[0]}
	}), notes
}

// noted returns the lines that the fake tool wrote to a file: its command lines, one for each call of a verb.
func noted(t *testing.T, file string) []string {
	t.Helper()
	data := must.Get(os.ReadFile(file))(t)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// TestContainerIsRunAsInTheCloud: a container gets the job's arguments, environment and mounts, a read-only root, and
// is removed afterwards.
func TestContainerIsRunAsInTheCloud(t *testing.T) {
	w, notes := containers(t)
	w.ends(batchpb.JobStatus_SUCCEEDED, "boxed-1", "env", 1, nil)
	name := fmt.Sprintf("localemu-%d-boxed-1-0-0", os.Getpid())
	ssd := filepath.Join(w.dir, "machines", "boxed-1", "vm-0", "ssd")
	got := noted(t, filepath.Join(notes, "run"))
	want := fmt.Sprintf("run --rm --name %s --pull=never --network=host --read-only --volume %s:%s --env "+
		"STORAGE_EMULATOR_HOST=127.0.0.1:1 "+
		"--env HELPER=env --env MEET=%s --env PARTY=1 --env SCRATCH=%s --env HOSTNAME=boxed-1-vm-0 --env "+
		"BATCH_TASK_COUNT=1 --env BATCH_TASK_INDEX=0 "+
		"--env BATCH_TASK_RETRY_ATTEMPT=0 IMAGE run --scratch=%s", name, ssd, testSSD, w.meet, testSSD, testSSD)
	if len(got) != 1 || got[0] != want {
		t.Errorf("run as\n%s\nwant\n%s", got, want)
	}
	if log := w.log("boxed-1", 0, 0); !strings.Contains(log, "run\n--scratch="+testSSD+"\n") ||
		!strings.Contains(log, "\nSCRATCH="+testSSD+"\n") {
		t.Errorf("inside the container, got %s; want the job's own paths, such as %s", log, testSSD)
	}
	if got := noted(t, filepath.Join(notes, "rm")); !slices.Equal(got, []string{"rm --force " + name}) {
		t.Errorf("removed %q, want the container by its name", got)
	}
}

// TestContainerOfAKilledTaskIsRemoved: after a task was killed, its container is removed by name, since killing the
// tool's own process does not end a container that a daemon runs for it.
func TestContainerOfAKilledTaskIsRemoved(t *testing.T) {
	w, notes := containers(t)
	job := w.create("boxed-2", "stubborn", 1, func(j *batchpb.Job) { j.TaskGroups[0].TaskSpec.MaxRetryCount = 0 })
	w.waitCount(job.Name, "RUNNING", 1)
	w.server.Close()
	name := fmt.Sprintf("localemu-%d-boxed-2-0-0", os.Getpid())
	if got := noted(t, filepath.Join(notes, "rm")); !slices.Equal(got, []string{"rm --force " + name}) {
		t.Errorf("removed %q, want the container by its name", got)
	}
}

// TestUnknownImageIsTheToolsBusiness: with a container tool, a job with an image that localemu does not know is
// accepted (create fails the test if not): the tool will find it or not.
func TestUnknownImageIsTheToolsBusiness(t *testing.T) {
	w, _ := containers(t)
	w.create("boxed-4", "ok", 1, func(j *batchpb.Job) {
		j.TaskGroups[0].TaskSpec.Runnables[0].GetContainer().ImageUri = "registry/of/somebody:1"
	})
}

// TestBuildahCommand: the command for buildah runs container.sh by unshare, with its arguments in the order that the
// script reads. `make images-check` runs it with a real image.
func TestBuildahCommand(t *testing.T) {
	s := &Server{opts: Options{Containers: "buildah", Environ: []string{"PATH=/bin"}, TaskEnv: []string{"A=1"}}}
	j := &job{srv: s, id: "job", plan: plan{program: "IMAGE", args: []string{"run", "--x"}, env: []string{"B=2"},
		tasks: 3}}
	a := &attempt{job: j, task: &task{index: 2}, number: 1,
		vm: &machine{name: "vm-1", replaced: 2, mounts: []mount{{"/mnt/disks/a", "/data/ssd"}}}}
	c := a.contained()
	want := []string{"--mount", "sh", "-c", buildahScript, "sh", fmt.Sprintf("localemu-%d-job-2-1", os.Getpid()),
		"IMAGE", "/data/ssd:/mnt/disks/a", "--", "A=1", "B=2", "HOSTNAME=job-vm-1-2", "BATCH_TASK_COUNT=3",
		"BATCH_TASK_INDEX=2", "BATCH_TASK_RETRY_ATTEMPT=1", "--", "run", "--x"}
	if filepath.Base(c.Path) != "unshare" || !slices.Equal(c.Args, want) ||
		!slices.Equal(c.Env, []string{"PATH=/bin"}) {
		t.Errorf("the command is %s %q with the environment %q, expected unshare %q and PATH alone", c.Path, c.Args,
			c.Env, want)
	}
}

const jobsTopic = "projects/local-project/topics/coppice-jobs"

// notification asks for messages to a topic; m says about what.
func notification(topic string, m *batchpb.JobNotification_Message) *batchpb.JobNotification {
	return &batchpb.JobNotification{PubsubTopic: topic, Message: m}
}

// TestNotifications: each topic gets the changes of state that the job asks for and no others: all of them, only that
// to SUCCEEDED, only that to FAILED (which does not come), and none without a message.
func TestNotifications(t *testing.T) {
	var mu sync.Mutex
	var got []Notification
	w := newWorld(t, func(o *Options) {
		o.Notify = func(n Notification) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, n)
		}
	})
	changed := batchpb.JobNotification_JOB_STATE_CHANGED
	job := w.create("told-1", "ok", 1, func(j *batchpb.Job) {
		j.Notifications = []*batchpb.JobNotification{
			notification(jobsTopic, &batchpb.JobNotification_Message{Type: changed}),
			notification("projects/p/topics/failures", &batchpb.JobNotification_Message{Type: changed,
				NewJobState: batchpb.JobStatus_FAILED}),
			notification("projects/p/topics/ends", &batchpb.JobNotification_Message{Type: changed,
				NewJobState: batchpb.JobStatus_SUCCEEDED}),
			notification("projects/p/topics/nothing", nil),
		}
	})
	w.waitState(job.Name, batchpb.JobStatus_SUCCEEDED)
	mu.Lock()
	defer mu.Unlock()
	var told []string
	for _, n := range got {
		a := n.Attributes
		told = append(told, n.Topic+" "+a["NewJobState"])
		if len(a) != 4 || a["Type"] != "JOB_STATE_CHANGED" || a["JobName"] != job.Name || a["JobUID"] != job.Uid ||
			!strings.Contains(n.Data, "jobUID="+job.Uid) {
			t.Errorf("the notification is %+v, expected the type, the job's name and UID and its new state", n)
		}
	}
	if want := jobsTopic + " SCHEDULED," + jobsTopic + " RUNNING," + jobsTopic +
		" SUCCEEDED,projects/p/topics/ends SUCCEEDED"; strings.Join(told, ",") != want {
		t.Errorf("told %q, want every state in its order, and the end to another topic, too", told)
	}
	if data := got[1].Data; !strings.Contains(data, "previousState=SCHEDULED, currentState=RUNNING, timestamp=2") {
		t.Errorf("the message is %q, want both states and the time", data)
	}
}

// TestNotificationsRefused: notifications that cannot be sent here are refused when the job is created.
func TestNotificationsRefused(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Notify = func(Notification) {} })
	silent := newWorld(t, nil)
	for name, c := range map[string]struct {
		w    *world
		n    *batchpb.JobNotification
		code codes.Code
		word string
	}{
		"no Pub/Sub": {silent, notification(jobsTopic, nil), codes.Unimplemented, "no Pub/Sub"},
		"no topic":   {w, notification("coppice-jobs", nil), codes.InvalidArgument, "topic"},
		"tasks": {w, notification(jobsTopic,
			&batchpb.JobNotification_Message{Type: batchpb.JobNotification_TASK_STATE_CHANGED}),
			codes.Unimplemented, "tasks"},
	} {
		_, err := c.w.client.CreateJob(w.ctx,
			w.request("refused-1", "ok", 1, func(j *batchpb.Job) { j.Notifications = []*batchpb.JobNotification{c.n} }))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.word) {
			t.Errorf("%s: got %v, want %v about %q", name, err, c.code, c.word)
		}
	}
}
