package batch

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"coppice/internal/cloud"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/localemu/batchemu"
)

// connect is a client of an emulator that polls often, so that tests are quick.
func connect(t *testing.T, addr string) *Client {
	t.Helper()
	c := must.Get(New(t.Context(), Options{Project: "local-project", Location: "us-central1", Endpoint: addr}))(t)
	c.poll = 5 * time.Millisecond
	t.Cleanup(func() { c.Close() })
	return c
}

// emulator runs jobs whose image is the shell.
func emulator(t *testing.T) *Client {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := must.Get(batchemu.Start(l, batchemu.Options{Dir: t.TempDir(), Images: map[string]string{"shell": "/bin/sh"},
		Grace: 5 * time.Second}))(t)
	t.Cleanup(s.Close)
	return connect(t, s.Addr())
}

// shell is a job of n tasks that run a script, all at once, at most four on a machine. None is repeated.
func shell(id, script string, n int) Job {
	j := spotJob()
	j.ID, j.Image, j.Args, j.Tasks, j.Parallelism, j.TasksPerVM = id, "shell", []string{"-c", script}, n, n, min(n, 4)
	j.MaxRetries = 0
	j.Labels["coppice-sweep"] = id
	return j
}

// TestSubmitAndWait: a job that succeeds is waited for, with its tasks counted, its duration and its events in order.
func TestSubmitAndWait(t *testing.T) {
	c := emulator(t)
	name, existed, err := c.Submit(t.Context(), shell("ok-1", "exit 0", 3))
	if err != nil || existed || name != "projects/local-project/locations/us-central1/jobs/ok-1" {
		t.Fatalf("submitting ok-1: %q, existed %v, %v, expected a new job of its full name", name, existed, err)
	}
	s := must.Get(c.Wait(t.Context(), name, time.Minute))(t)
	if s.State != Succeeded || !s.State.Finished() || s.Counts["SUCCEEDED"] != 3 || s.RunDuration <= 0 {
		t.Errorf("the job that was waited for: got %+v; want ok-1 finished, with three tasks that succeeded "+
			"and a duration", s)
	}
	if s.FailureReason() != "" || len(s.Events) != 3 || !strings.Contains(s.Events[2].Text, "RUNNING to SUCCEEDED") {
		t.Errorf("the events of a job that succeeded: got %+v; want three and no reason for failure, the last about "+
			"RUNNING to SUCCEEDED", s.Events)
	}
}

// TestFailedJobSaysWhy: a failed job's reason has its task's exit code.
func TestFailedJobSaysWhy(t *testing.T) {
	c := emulator(t)
	name, _ := must.Get2(c.Submit(t.Context(), shell("bad-1", "exit 3", 1)))(t)
	s, err := c.Wait(t.Context(), name, time.Minute)
	if err != nil || s.State != Failed || !strings.Contains(s.FailureReason(), "with exit code 3") {
		t.Errorf("the job ended as %+v, %v, expected a failure with exit code 3", s, err)
	}
}

// TestSubmitAgain: the same job is found again; one of the same id with another plan is a conflict that names the
// first, and elsewhere it is refused.
func TestSubmitAgain(t *testing.T) {
	c := emulator(t)
	j := shell("twice-1", "exec sleep 600", 1)
	first, _ := must.Get2(c.Submit(t.Context(), j))(t)
	again, existed, err := c.Submit(t.Context(), j)
	if err != nil || again != first || !existed {
		t.Errorf("the same job again: %s, existed %t, %v; want %s, which existed", again, existed, err, first)
	}
	j.Labels = map[string]string{PlanLabel: strings.Repeat("f", 32)}
	if _, _, err = c.Submit(t.Context(), j); !problem.Is(err, problem.Conflict) ||
		!strings.Contains(err.Error(), strings.Repeat("0123456789abcdef", 2)) {
		t.Errorf("another plan: got error %v; want a conflict that names the first plan", err)
	}
	j.Location = "europe-west1"
	if _, _, err = c.Submit(t.Context(), j); !problem.Is(err, problem.Input) ||
		!strings.Contains(err.Error(), "Location") {
		t.Errorf("another region: got error %v; want wrong input that names Location", err)
	}
}

// TestCancel: a job can be cancelled, and again when it has ended. It can be deleted, and once more when it is gone;
// then a job of the same id is new. A job that does not exist is ErrNotExist.
func TestCancel(t *testing.T) {
	c := emulator(t)
	name, _ := must.Get2(c.Submit(t.Context(), shell("a-1", "exec sleep 600", 2)))(t)
	for _, when := range []string{"while it runs", "when it has ended"} {
		if s, err := c.Cancel(t.Context(), name); err != nil || s.State != Cancelled {
			t.Errorf("cancelled %s: got %+v, error %v; want it cancelled, and no error", when, s, err)
		}
	}
	c.look = 20 * time.Millisecond
	for range 2 { // the second time there is none
		if err := c.Delete(t.Context(), name); err != nil {
			t.Errorf("deleted: %v; want no error, the second time either", err)
		}
	}
	if _, existed, err := c.Submit(t.Context(), shell("a-1", "true", 2)); err != nil || existed {
		t.Errorf("submitted after it was deleted: existed %v, %v; want a new job", existed, err)
	}
	if s, err := c.Get(t.Context(), c.Name("c-1")); !errors.Is(err, ErrNotExist) {
		t.Errorf("looking at a job that does not exist: %+v, %v, expected ErrNotExist", s, err)
	}
	if s, err := c.Cancel(t.Context(), c.Name("c-1")); !errors.Is(err, ErrNotExist) {
		t.Errorf("cancelling a job that does not exist: %+v, %v, expected ErrNotExist", s, err)
	}
}

// scripted is a Batch service whose answers a test gives. Without get, no job exists.
type scripted struct {
	batchpb.UnimplementedBatchServiceServer
	longrunningpb.UnimplementedOperationsServer
	create func(*batchpb.CreateJobRequest) (*batchpb.Job, error)
	get    func() (*batchpb.Job, error)
	cancel func() error
}

func (s *scripted) CreateJob(_ context.Context, r *batchpb.CreateJobRequest) (*batchpb.Job, error) {
	return s.create(r)
}
func (s *scripted) GetJob(context.Context, *batchpb.GetJobRequest) (*batchpb.Job, error) {
	if s.get == nil {
		return nil, status.Error(codes.NotFound, "no such job")
	}
	return s.get()
}

func (s *scripted) CancelJob(context.Context, *batchpb.CancelJobRequest) (*longrunningpb.Operation, error) {
	return &longrunningpb.Operation{Name: "op"}, s.cancel()
}

// serve starts a server for s, which ends with the test, and returns a client of it.
func serve(t *testing.T, s *scripted) *Client {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	g := grpc.NewServer()
	batchpb.RegisterBatchServiceServer(g, s)
	longrunningpb.RegisterOperationsServer(g, s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Serve(l); err != nil {
			t.Errorf("the scripted service ended with %v, want no error", err)
		}
	}()
	t.Cleanup(func() { g.Stop(); <-done })
	return connect(t, l.Addr().String())
}

// remembering is a Batch service that remembers requests as Google describes it: it answers a repeated request with the
// job of the first time, even if that job was deleted since.
type remembering struct {
	mu       sync.Mutex
	requests map[string]*batchpb.Job
	jobs     map[string]*batchpb.Job
	ids      []string // of all requests
	fail     int      // so many answers are lost, after the work is done
}

// service returns the scripted service that r answers for, with no jobs yet.
func (r *remembering) service() *scripted {
	r.requests, r.jobs = map[string]*batchpb.Job{}, map[string]*batchpb.Job{}
	return &scripted{create: r.create, get: func() (*batchpb.Job, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if j := r.jobs[spotJob().ID]; j != nil {
			return j, nil
		}
		return nil, status.Error(codes.NotFound, "no such job")
	}}
}

// create makes a job as Batch does: the same request once more gives the same job, and another request for a job that
// is there fails. The first r.fail answers are lost after the job was made.
func (r *remembering) create(q *batchpb.CreateJobRequest) (*batchpb.Job, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, q.GetRequestId())
	if j := r.requests[q.GetRequestId()]; j != nil {
		return j, nil
	}
	if r.jobs[q.GetJobId()] != nil {
		return nil, status.Error(codes.AlreadyExists, "exists")
	}
	r.requests[q.GetRequestId()], r.jobs[q.GetJobId()] = q.GetJob(), q.GetJob()
	if r.fail--; r.fail >= 0 {
		return nil, status.Error(codes.Unavailable, "try again")
	}
	return q.GetJob(), nil
}

// TestUnavailableIsRetried: the first answer is lost; the job is created once, because the request id is the same.
func TestUnavailableIsRetried(t *testing.T) {
	r := &remembering{fail: 1}
	c := serve(t, r.service())
	if _, existed, err := c.Submit(t.Context(), spotJob()); err != nil || existed {
		t.Fatalf("after a lost answer: existed %v, %v, expected the job to be new", existed, err)
	}
	if len(r.ids) != 2 || r.ids[0] != r.ids[1] || len(r.ids[0]) != 36 {
		t.Errorf("the request ids are %q; want one UUID, twice", r.ids)
	}
}

// TestRequestIDIsMadeOfTheJob: the request id is the same for the same job, plan and count of jobs that are gone, and
// another if one of them differs, also if job and plan together are the same text.
func TestRequestIDIsMadeOfTheJob(t *testing.T) {
	for _, other := range []string{requestID("jobs/b", "plan", 0), requestID("jobs/a", "plan2", 0),
		requestID("jobs/a", "plan", 1), requestID("jobs/ap", "lan", 0)} {
		if id := requestID("jobs/a", "plan", 0); id != requestID("jobs/a", "plan", 0) || id == other {
			t.Errorf("%s and %s; want the same for the same request, and another for each other one", id, other)
		}
	}
}

// TestADeletedJobIsMadeAnew: a job that was deleted is created anew when it is submitted again, although Batch would
// answer the same request with the job that is gone. After five times, the most that are tried, the error says that
// something deletes it.
func TestADeletedJobIsMadeAnew(t *testing.T) {
	r := &remembering{}
	c := serve(t, r.service())
	c.look = 20 * time.Millisecond
	for again := range 3 {
		if _, existed, err := c.Submit(t.Context(), spotJob()); err != nil || existed || len(r.jobs) != 1 {
			t.Fatalf("submission %d: existed %v, %v, %d jobs, expected one job, made anew", again, existed, err,
				len(r.jobs))
		}
		delete(r.jobs, spotJob().ID)
	}

	for range 2 { // the fourth and fifth time
		must.Get2(c.Submit(t.Context(), spotJob()))(t)
		delete(r.jobs, spotJob().ID)
	}
	if _, _, err := c.Submit(t.Context(), spotJob()); err == nil ||
		!strings.Contains(err.Error(), "something deletes it") {
		t.Errorf("submitted a job that is deleted each time: error %v, expected one that says so", err)
	}
}

// TestManyAtOnceMakeOneJob: ten clients that submit the same job at once make a single job, and none gets an error.
func TestManyAtOnceMakeOneJob(t *testing.T) {
	first := emulator(t)
	j := shell("slot-1", "exec sleep 600", 1)
	var all sync.WaitGroup
	for range 10 {
		c := connect(t, first.opts.Endpoint)
		all.Go(func() {
			if _, _, err := c.Submit(t.Context(), j); err != nil {
				t.Errorf("one of ten submissions at once: got error %v, want none", err)
			}
		})
	}
	all.Wait()
	jobs := 0
	for _, err := range first.c.ListJobs(t.Context(), &batchpb.ListJobsRequest{Parent: first.parent}).All() {
		must.Do(t, err)
		jobs++
	}
	if jobs != 1 {
		t.Errorf("%d jobs, want 1", jobs)
	}
}

// TestNoCapacity: events about missing machines or quota are recognised, and no others. Of a message of Compute Engine
// that Batch wraps, only the message and its code are kept.
func TestNoCapacity(t *testing.T) {
	event := func(text string) Status { return Status{State: Failed, Events: []Event{{Text: text}, {Text: "other"}}} }
	for text, want := range map[string]bool{
		"Batch Error: code - CODE_GCE_ZONE_RESOURCE_POOL_EXHAUSTED, description - error count is 1": true,
		"Quota checking process decides to delay scheduling for the job UID due to inadequate quotas [Quota: CPUS, " +
			"limit: 1, usage: 1]": true,
		"CODE_GCE_QUOTA_EXCEEDED": true,
		"The zone 'projects/p/zones/z' does not have enough resources available to fulfill the request": true,
		"Job state is set from RUNNING to FAILED for job x.Job failed due to task failure.":             false,
		"CODE_MACHINE_TYPE_NOT_FOUND": false,
	} {
		if got := event(text).NoCapacity().Text; (got != "") != want {
			t.Errorf("event %q: no capacity is reported as %q; want a reason: %t", text, got, want)
		}
	}
	wrapped := event("VM in Managed Instance Group meets error: Batch Error: code - CODE_GCE_QUOTA_EXCEEDED, " +
		"description - error count is 4, latest message example: Instance 'j-1-group0-0-x7' creation failed: Quota " +
		"'CPUS_ALL_REGIONS' exceeded.  Limit: 12.0 globally.")
	if got, want := wrapped.NoCapacity().Text,
		"Quota 'CPUS_ALL_REGIONS' exceeded.  Limit: 12.0 globally (CODE_GCE_QUOTA_EXCEEDED)"; got != want {
		t.Errorf("no capacity: %q, want %q, without what changes with every attempt", got, want)
	}
}

// TestBegan: a job has begun if it runs or has run, and not if it only waited.
func TestBegan(t *testing.T) {
	for _, c := range []struct {
		s    Status
		want bool
	}{{Status{State: Queued}, false}, {Status{State: Scheduled}, false}, {Status{State: Running}, true},
		{Status{State: Failed, RunDuration: time.Second}, true},
		{Status{State: Cancelled, Counts: map[string]int64{"UNEXECUTED": 4}}, false},
		{Status{State: Failed, Counts: map[string]int64{"FAILED": 1}}, true}} {
		if c.s.Began() != c.want {
			t.Errorf("whether the job %+v began: got %t, want %t", c.s, !c.want, c.want)
		}
	}
}

// TestLived: a job lived from its first change to RUNNING to its last change to a final state, by its events.
func TestLived(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 11, 21, 3, minutes, 0, 0, time.UTC) }
	change := func(minutes int, from, to State) Event {
		return Event{Time: at(minutes), Text: "Job state is set from " + string(from) + " to " + string(to) +
			" for job projects/1/locations/l/jobs/j."}
	}
	queued, running := change(1, Queued, Scheduled), change(5, Scheduled, Running)
	task := Event{Time: at(6), Text: "Task state is updated from PENDING to RUNNING on zones/z/instances/1"}
	for name, c := range map[string]struct {
		s        Status
		from, to time.Time
	}{
		"waiting": {Status{State: Scheduled, Created: at(0), Events: []Event{queued}}, time.Time{},
			time.Time{}},
		"running": {Status{State: Running, Created: at(0), Events: []Event{queued, running, task}}, at(5),
			time.Time{}},
		"running without event": {Status{State: Running, Created: at(0), Events: []Event{task}}, at(0), time.Time{}},
		"ended": {Status{State: Failed, RunDuration: time.Minute, Created: at(0),
			Events: []Event{queued, running, task, change(9, Running, Failed)}}, at(5), at(9)},
		"ended without event": {Status{State: Failed, RunDuration: time.Minute, Created: at(0),
			Events: []Event{running}}, at(5), at(6)},
		"never had a machine": {Status{State: Failed, Created: at(0), Events: []Event{change(9, Scheduled, Failed)}},
			time.Time{}, time.Time{}},
	} {
		if from, to := c.s.Lived(); !from.Equal(c.from) || !to.Equal(c.to) {
			t.Errorf("%s: it lived from %s to %s; want from %s to %s", name, from, to, c.from, c.to)
		}
	}
}

// TestExistingJobIsComparedWhenReadable: when Batch says that the job exists already, but for a moment does not find
// it, Submit looks again until it can compare the plans.
func TestExistingJobIsComparedWhenReadable(t *testing.T) {
	var reads atomic.Int32
	c := serve(t, &scripted{
		create: func(*batchpb.CreateJobRequest) (*batchpb.Job, error) {
			return nil, status.Error(codes.AlreadyExists, "exists")
		},
		get: func() (*batchpb.Job, error) {
			if reads.Add(1) <= 2 { // before and just after another client created it
				return nil, status.Error(codes.NotFound, "not yet")
			}
			return &batchpb.Job{Labels: spotJob().Labels}, nil
		},
	})
	if _, existed, err := c.Submit(t.Context(), spotJob()); err != nil || !existed {
		t.Errorf("submitted again: existed %v, %v; want that it existed", existed, err)
	}
}

// TestRefusals: a submission that is refused for a missing permission, login or project is tried once, and the error is
// one of package cloud's.
func TestRefusals(t *testing.T) {
	for code, target := range map[codes.Code]any{
		codes.PermissionDenied: new(*cloud.PermissionError), codes.Unauthenticated: new(*cloud.SetupError),
		codes.NotFound: new(*cloud.SetupError),
	} {
		calls := 0
		c := serve(t, &scripted{create: func(*batchpb.CreateJobRequest) (*batchpb.Job, error) {
			calls++
			return nil, status.Error(code, "no")
		}})
		if _, _, err := c.Submit(t.Context(), spotJob()); !errors.As(err, target) || calls != 1 {
			t.Errorf("refused with %v: %d calls, error %v; want one call, and a %T", code, calls, err, target)
		}
	}
}

// TestCancelRace: if the job ends just before it is cancelled, so that Batch refuses, Cancel returns its final state
// and no error.
func TestCancelRace(t *testing.T) {
	// As Cancel finds the job before it asks Batch, and then as it waits for its end.
	states := []batchpb.JobStatus_State{batchpb.JobStatus_RUNNING, batchpb.JobStatus_RUNNING,
		batchpb.JobStatus_SUCCEEDED}
	c := serve(t, &scripted{
		get: func() (*batchpb.Job, error) {
			state := states[0]
			states = states[1:]
			return &batchpb.Job{Status: &batchpb.JobStatus{State: state}}, nil
		},
		cancel: func() error { return status.Error(codes.FailedPrecondition, "it has ended") },
	})
	if s, err := c.Cancel(t.Context(), "x"); err != nil || s.State != Succeeded {
		t.Errorf("cancelling a job that has ended: %+v, %v, expected its state, succeeded", s, err)
	}
}

// TestWaitHasALimit: waiting for a job that goes on running ends after the limit, with its state in the error, and when
// the context has ended.
func TestWaitHasALimit(t *testing.T) {
	c := serve(t, &scripted{get: func() (*batchpb.Job, error) {
		return &batchpb.Job{Status: &batchpb.JobStatus{State: batchpb.JobStatus_RUNNING}}, nil
	}})
	if _, err := c.Wait(t.Context(), "x", 50*time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "RUNNING") {
		t.Errorf("a job that never ends: got error %v; want one that says it was still RUNNING", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Wait(ctx, "x", time.Hour); !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
		t.Errorf("waited for a job with an ended context: error %v, expected the context's", err)
	}
}

// TestEventsAreSorted: events are sorted by time, and stay in order within a second.
func TestEventsAreSorted(t *testing.T) {
	at := func(s int64) *timestamppb.Timestamp { return &timestamppb.Timestamp{Seconds: s} }
	got := eventsOf([]*batchpb.StatusEvent{{Description: "2", EventTime: at(2)}, {Description: "1", EventTime: at(1)},
		{Description: "2b", EventTime: at(2)}})
	if len(got) != 3 || got[0].Text+got[1].Text+got[2].Text != "122b" {
		t.Errorf("events out of order: got %+v; want the three sorted by time", got)
	}
}

// TestSetup: options with which Batch cannot be reached, missing credentials and an emulator that is not running are a
// *cloud.SetupError, within five seconds.
func TestSetup(t *testing.T) {
	var setup *cloud.SetupError
	good := Options{Project: "p", Location: "us-central1", Endpoint: "127.0.0.1:1"}
	for _, change := range []func(*Options){
		func(o *Options) { o.Project = "" },
		func(o *Options) { o.Location = "" },
		func(o *Options) { o.Endpoint = "example.com:443" },
		func(o *Options) { o.Endpoint = "10.0.0.1:443" },
		func(o *Options) { o.Endpoint = "127.0.0.1" },
	} {
		o := good
		change(&o)
		if _, err := New(t.Context(), o); !errors.As(err, &setup) {
			t.Errorf("a client of %+v: got error %v; want one of the setup", o, err)
		}
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
	if _, err := New(t.Context(), Options{Project: "p", Location: "us-central1"}); !errors.As(err, &setup) ||
		!strings.Contains(err.Error(), "gcloud auth") {
		t.Errorf("no credentials: got error %v; want one of the setup that names gcloud auth", err)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	good.Endpoint = l.Addr().String()
	l.Close()
	c := connect(t, good.Endpoint)
	began := time.Now()
	if _, _, err := c.Submit(t.Context(), spotJob()); !errors.As(err, &setup) ||
		!strings.Contains(err.Error(), "localemu exec") {
		t.Errorf("submitted with nobody there: %v; want a *cloud.SetupError that names localemu", err)
	}
	if _, err := c.Get(t.Context(), "x"); !errors.As(err, &setup) {
		t.Errorf("asked with nobody there: %v; want a *cloud.SetupError", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to say so, want at most 5 s", took)
	}
}
