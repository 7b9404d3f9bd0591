//go:build unix

package batchemu

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	batch "cloud.google.com/go/batch/apiv1"
	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"coppice/internal/must"
)

const (
	parent  = "projects/local-project/locations/us-central1"
	testSSD = "/mnt/disks/ssd"
)

// TestMain makes the test binary its own task: with HELPER in its environment it is one.
func TestMain(m *testing.M) {
	if mode := os.Getenv("HELPER"); mode != "" {
		os.Exit(helper(mode))
	}
	os.Exit(m.Run())
}

// helper is what a task does in these tests, by its mode; it returns the exit code. A task that hangs does so until it
// is killed.
func helper(mode string) int {
	attempt := os.Getenv("BATCH_TASK_RETRY_ATTEMPT")
	switch mode {
	case "ok":
		return 0
	case "fail":
		return 3
	case "transient-once":
		if attempt == "0" {
			return 75
		}
		return 0
	case "hang-once":
		if attempt != "0" {
			return 0
		}
		hang()
	case "hang":
		hang()
	case "fail-first-task":
		if os.Getenv("BATCH_TASK_INDEX") == "0" {
			return 3
		}
		return 0
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ignoring SIGTERM")
		hang()
	case "told":
		return told()
	case "env":
		fmt.Println(strings.Join(os.Args[1:], "\n"))
		fmt.Println(strings.Join(os.Environ(), "\n"))
		dir, err := os.Getwd()
		fmt.Println("cwd", dir, err)
		return 0
	case "scratch-then-hang":
		return scratchThenHang()
	case "meet":
		return meet()
	}
	fmt.Println("unknown mode", mode)
	return 99
}

// hang waits for a signal to end the process. An empty select would not do: without cgo the runtime sees that as a
// deadlock.
func hang() {
	<-time.After(time.Hour)
}

// told waits, in its first attempt, until it is told to stop by SIGTERM, logs that and ends with 75. Later attempts
// succeed at once. The file "listens" shows the test that it waits.
func told() int {
	if os.Getenv("BATCH_TASK_RETRY_ATTEMPT") != "0" {
		return 0
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	touch(filepath.Join(os.Getenv("MEET"), "listens"))
	<-signals
	fmt.Println("told to go")
	return 75
}

// scratchThenHang logs whether the machine's disk was empty and leaves a file on it. In the first attempt it then
// hangs; the file "wrote-INDEX" shows the test that it has come so far.
func scratchThenHang() int {
	file := filepath.Join(os.Getenv("SCRATCH"), "left")
	_, err := os.Stat(file)
	fmt.Println("disk empty:", os.IsNotExist(err))
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		return 1
	}
	if os.Getenv("BATCH_TASK_RETRY_ATTEMPT") == "0" {
		touch(filepath.Join(os.Getenv("MEET"), "wrote-"+os.Getenv("BATCH_TASK_INDEX")))
		hang()
	}
	return 0
}

// meet succeeds only if as many tasks as PARTY says are running at once.
func meet() int {
	dir := os.Getenv("MEET")
	touch(filepath.Join(dir, "here-"+os.Getenv("BATCH_TASK_INDEX")))
	party, err := strconv.Atoi(os.Getenv("PARTY"))
	if err != nil {
		return 1
	}
	for range time.Tick(2 * time.Millisecond) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return 1
		}
		if len(entries) >= party {
			break
		}
	}
	return 0
}

// touch makes an empty file, by which a task tells the test something.
func touch(path string) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		panic(err)
	}
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// world is a server with a real client.
type world struct {
	t      *testing.T
	ctx    context.Context
	server *Server
	client *batch.Client
	dir    string
	meet   string // a folder that tasks and test share
}

// newWorld starts a server whose images' only program is the test binary (see TestMain), and a client. change may adapt
// the options. Both end with the test.
func newWorld(t *testing.T, change func(*Options)) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	o := Options{Dir: dir, Images: map[string]string{"coppice-task": os.Args[0]},
		TaskEnv: []string{"STORAGE_EMULATOR_HOST=127.0.0.1:1"}}
	if change != nil {
		change(&o)
	}
	s := must.Get(Start(l, o))(t)
	t.Cleanup(s.Close)
	c := must.Get(batch.NewClient(ctx, option.WithEndpoint(s.Addr()), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))))(t)
	t.Cleanup(func() { c.Close() })
	return &world{t: t, ctx: ctx, server: s, client: c, dir: dir, meet: t.TempDir()}
}

// request is the request for a good job of n tasks, all running at once and up to four on a machine, which do what
// helper does in the mode. Exit codes 75, 50001 and 50002 are retried, twice at most. change may adapt the job.
func (w *world) request(id, mode string, n int64, change func(*batchpb.Job)) *batchpb.CreateJobRequest {
	run := &batchpb.Runnable_Container{ImageUri: "coppice-task", Commands: []string{"run", "--scratch=" + testSSD}}
	spec := &batchpb.TaskSpec{
		MaxRetryCount: 2,
		LifecyclePolicies: []*batchpb.LifecyclePolicy{{
			Action:          batchpb.LifecyclePolicy_RETRY_TASK,
			ActionCondition: &batchpb.LifecyclePolicy_ActionCondition{ExitCodes: []int32{75, 50001, 50002}},
		}},
		Volumes: []*batchpb.Volume{{Source: &batchpb.Volume_DeviceName{DeviceName: "ssd"}, MountPath: testSSD}},
		Environment: &batchpb.Environment{Variables: map[string]string{
			"HELPER": mode, "SCRATCH": testSSD, "MEET": w.meet, "PARTY": strconv.FormatInt(n, 10),
		}},
		Runnables: []*batchpb.Runnable{{Executable: &batchpb.Runnable_Container_{Container: run}}},
	}
	ssd := &batchpb.AllocationPolicy_Disk{Type: "local-ssd", SizeGb: 750}
	machine := &batchpb.AllocationPolicy_InstancePolicy{
		MachineType: "n2-highmem-16", ProvisioningModel: batchpb.AllocationPolicy_SPOT,
		Disks: []*batchpb.AllocationPolicy_AttachedDisk{{
			Attached: &batchpb.AllocationPolicy_AttachedDisk_NewDisk{NewDisk: ssd}, DeviceName: "ssd",
		}},
	}
	job := &batchpb.Job{
		Labels:     map[string]string{"coppice-sweep": id},
		TaskGroups: []*batchpb.TaskGroup{{TaskCount: n, Parallelism: n, TaskCountPerNode: min(n, 4), TaskSpec: spec}},
		AllocationPolicy: &batchpb.AllocationPolicy{Instances: []*batchpb.AllocationPolicy_InstancePolicyOrTemplate{{
			PolicyTemplate: &batchpb.AllocationPolicy_InstancePolicyOrTemplate_Policy{Policy: machine},
		}}},
	}
	if change != nil {
		change(job)
	}
	return &batchpb.CreateJobRequest{Parent: parent, JobId: id, Job: job}
}

// create makes the job of request and returns it as it is at first.
func (w *world) create(id, mode string, n int64, change func(*batchpb.Job)) *batchpb.Job {
	w.t.Helper()
	return must.Get(w.client.CreateJob(w.ctx, w.request(id, mode, n, change)))(w.t)
}

// ends makes the job of request and returns it when it has ended in the state.
func (w *world) ends(state batchpb.JobStatus_State, id, mode string, n int64, change func(*batchpb.Job)) *batchpb.Job {
	w.t.Helper()
	return w.waitState(w.create(id, mode, n, change).Name, state)
}

// again checks that task 0 of a job had two attempts, of which the first ended with an exit code.
func (w *world) again(job string, code int32) {
	w.t.Helper()
	if events := w.task(job, 0).Status.StatusEvents; len(events) != 4 || events[1].TaskExecution.GetExitCode() != code {
		w.t.Errorf("the events are %v; want exit code %d, and a second attempt", events, code)
	}
}

// variables is an environment of one variable.
func variables(name, value string) *batchpb.Environment {
	return &batchpb.Environment{Variables: map[string]string{name: value}}
}

// locations has a job ask for machines in zones or regions.
func locations(l ...string) func(*batchpb.Job) {
	return func(j *batchpb.Job) {
		j.AllocationPolicy.Location = &batchpb.AllocationPolicy_LocationPolicy{AllowedLocations: l}
	}
}

// waitState waits until the job is in the state and returns it. If it ends in another one, the test fails.
func (w *world) waitState(name string, state batchpb.JobStatus_State) *batchpb.Job {
	w.t.Helper()
	return w.waitFor(name, func(j *batchpb.Job) bool {
		if terminal(j.Status.State) && j.Status.State != state {
			w.t.Errorf("%s ended in %s, expected %s: %v", name, j.Status.State, state, j.Status.StatusEvents)
			return true
		}
		return j.Status.State == state
	})
}

// waitFor returns the job once done returns true for it.
func (w *world) waitFor(name string, done func(*batchpb.Job) bool) (view *batchpb.Job) {
	w.t.Helper()
	eventually(w.t, name+" is as expected", func() bool {
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		j := w.server.jobs[name]
		if j == nil {
			return false
		}
		view = j.jobView()
		return done(view)
	})
	return view
}

// waitCount waits until n tasks are in the state.
func (w *world) waitCount(name, state string, n int64) {
	w.t.Helper()
	w.waitFor(name, func(j *batchpb.Job) bool { return j.Status.TaskGroups["group0"].Counts[state] == n })
}

// task asks the server for a task of a job.
func (w *world) task(job string, index int) *batchpb.Task {
	w.t.Helper()
	return must.Get(w.client.GetTask(w.ctx,
		&batchpb.GetTaskRequest{Name: fmt.Sprintf("%s/taskGroups/group0/tasks/%d", job, index)}))(w.t)
}

// log returns what an attempt (from 0) of a task of the job with the id has written.
func (w *world) log(id string, task, attempt int) string {
	w.t.Helper()
	data := must.Get(os.ReadFile(filepath.Join(w.dir, "logs", id, fmt.Sprintf("task-%d.attempt-%d.log", task,
		attempt))))(w.t)
	return string(data)
}

// eventually waits until ok returns true, which no channel signals; after 30 s the test fails and says what was
// awaited.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited 30 s in vain until %s", what)
		}
	}
}
