package batchemu

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var (
	parentPattern = regexp.MustCompile(`^projects/[a-z0-9:.-]+/locations/[a-z0-9-]+$`)
	jobIDPattern  = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	taskPattern   = regexp.MustCompile(`^(projects/[^/]+/locations/[^/]+/jobs/[^/]+)` +
		`/taskGroups/group0/tasks/(0|[1-9][0-9]{0,8})$`)
)

func notFound(name string) error {
	return status.Errorf(codes.NotFound, "Resource %q was not found", name)
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// CreateJob validates the job as Batch does, starts it and returns it without waiting. A request whose id was used
// before, in the same project and location, makes no job and returns that of the first request.
func (s *Server) CreateJob(_ context.Context, r *batchpb.CreateJobRequest) (*batchpb.Job, error) {
	if !parentPattern.MatchString(r.GetParent()) {
		return nil, invalid("parent %.200q is not projects/PROJECT/locations/LOCATION", r.GetParent())
	}

	id := cmp.Or(r.GetJobId(), "j-"+uuid.NewString())
	if !jobIDPattern.MatchString(id) {
		return nil, invalid("job_id %.80q must have 1 to 63 of a-z, 0-9 and '-', begin with a letter and not end "+
			"with '-'", id)
	}
	if err := checkRequestID(r.GetRequestId()); err != nil {
		return nil, err
	}

	plan, err := s.interpret(r.GetParent(), r.GetJob())
	if err != nil {
		return nil, err
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.GetParent() + "/jobs/" + id
	if made, ok := s.creations[r.GetParent()+" "+r.GetRequestId()]; ok && r.GetRequestId() != "" {
		return made.jobView(), nil
	}
	if err := s.admit(name, id); err != nil {
		return nil, err
	}

	j := newJob(s, id, complete(r.GetJob(), name, id, plan), plan)
	s.jobs[name] = j
	if r.GetRequestId() != "" {
		s.creations[r.GetParent()+" "+r.GetRequestId()] = j
	}

	view := j.jobView() // queued; the answer does not depend on how far run has come
	go j.run()
	return view, nil
}

// admit refuses a job while localemu shuts down, or if its name or folder is taken. The lock is held.
func (s *Server) admit(name, id string) error {
	if s.closed {
		return status.Error(codes.Unavailable, "localemu is shutting down")
	}
	if s.jobs[name] != nil {
		return status.Errorf(codes.AlreadyExists, "Resource %q already exists", name)
	}
	for other, j := range s.jobs {
		if j.id == id {
			return status.Errorf(codes.FailedPrecondition, "localemu keeps one folder per job id, and %s has this id",
				other)
		}
	}
	return nil
}

// complete returns the job as Batch stores it: with its names, times and defaults filled in.
func complete(in *batchpb.Job, name, id string, p plan) *batchpb.Job {
	job := proto.CloneOf(in)
	job.Name = name
	job.Uid = id + "-" + uuid.NewString()[:18]
	job.Status = nil
	job.CreateTime = timestamppb.Now()
	job.UpdateTime = job.CreateTime
	g := job.TaskGroups[0]
	g.Name = name + "/taskGroups/group0"
	g.TaskCount = int64(p.tasks)
	g.Parallelism = int64(p.parallelism)
	g.TaskCountPerNode = int64(p.perVM)
	return job
}

// checkRequestID returns an error unless the id is empty, as a request need not have one, or a UUID other than zero.
func checkRequestID(id string) error {
	if id == "" {
		return nil
	}
	if u, err := uuid.Parse(id); err != nil || u == uuid.Nil || len(id) != 36 {
		return invalid("request_id %.80q is not a UUID other than the zero UUID", id)
	}
	return nil
}

// GetJob returns a job as it is now, or NotFound if there is none of the name or it was deleted.
func (s *Server) GetJob(_ context.Context, r *batchpb.GetJobRequest) (*batchpb.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[r.GetName()]; j != nil {
		return j.jobView(), nil
	}
	return nil, notFound(r.GetName())
}

// CancelJob stops the job's tasks. Cancelling a finished job changes nothing; cancelling one that is already being
// cancelled is an error.
func (s *Server) CancelJob(_ context.Context, r *batchpb.CancelJobRequest) (*longrunningpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[r.GetName()]
	switch {
	case j == nil:
		return nil, notFound(r.GetName())
	case terminal(j.state):
	case j.stopping:
		return nil, status.Errorf(codes.FailedPrecondition, "Job %s is in state %s and cannot be cancelled",
			r.GetName(), j.state)
	default:
		j.setState(batchpb.JobStatus_CANCELLATION_IN_PROGRESS, "")
		j.askToStop()
	}

	return s.begun(j, "cancel")
}

// DeleteJob forgets a job that has ended.
func (s *Server) DeleteJob(_ context.Context, r *batchpb.DeleteJobRequest) (*longrunningpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[r.GetName()]
	if j == nil {
		return nil, notFound(r.GetName())
	}
	if !terminal(j.state) {
		return nil, unimitated("deleting a job that has not ended")
	}
	delete(s.jobs, r.GetName())
	return s.begun(j, "delete")
}

// begun registers the operation of cancelling or deleting a job and returns it as the API shows it. The lock is held.
func (s *Server) begun(j *job, verb string) (*longrunningpb.Operation, error) {
	s.serial++
	parent, _, _ := strings.Cut(j.spec.Name, "/jobs/")
	op := &operation{fmt.Sprintf("%s/operations/operation-%d", parent, s.serial), verb, j, time.Now()}
	s.ops[op.name] = op
	return op.operationView()
}

// GetTask returns one task.
func (s *Server) GetTask(_ context.Context, r *batchpb.GetTaskRequest) (*batchpb.Task, error) {
	m := taskPattern.FindStringSubmatch(r.GetName())
	if m == nil {
		return nil, invalid("name %.200q is not .../jobs/JOB/taskGroups/group0/tasks/INDEX", r.GetName())
	}
	index, _ := strconv.Atoi(m[2]) // nine digits at most

	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[m[1]]
	if j == nil || index >= len(j.tasks) {
		return nil, notFound(r.GetName())
	}
	return j.taskView(j.tasks[index]), nil
}

// zonesOf are the letters of a region's zones, as those of us-central1.
var zonesOf = []string{"a", "b", "c", "f"}

// places returns the zones in which the job's machines may be, as "zones/ZONE": the allowed zones, or all of the region
// if none is named. allowed has regions and zones as the API writes them.
func places(location string, allowed []string) []string {
	var zones []string
	for _, a := range allowed {
		if zonePattern.MatchString(a) {
			zones = append(zones, a)
		}
	}
	if len(zones) == 0 {
		for _, letter := range zonesOf {
			zones = append(zones, "zones/"+location+"-"+letter)
		}
	}
	return zones
}

// defaultPage and maxPage bound a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// ListJobs lists the jobs of a project and location by name. A page's token is the last name of the page before it, so
// jobs that are made or deleted between two calls neither repeat nor hide others.
func (s *Server) ListJobs(_ context.Context, r *batchpb.ListJobsRequest) (*batchpb.ListJobsResponse, error) {
	size := int(min(cmp.Or(r.GetPageSize(), defaultPage), maxPage))
	after, err := base64.RawURLEncoding.DecodeString(r.GetPageToken())
	switch {
	case !parentPattern.MatchString(r.GetParent()):
		return nil, invalid("parent %.200q is not projects/PROJECT/locations/LOCATION", r.GetParent())
	case r.GetFilter() != "" || r.GetOrderBy() != "" && r.GetOrderBy() != "name":
		return nil, unimitated("lists with a filter, or in another order than by name")
	case size < 0:
		return nil, invalid("page_size is %d", size)
	case err != nil:
		return nil, invalid("page_token %.80q is none of ours", r.GetPageToken())
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	out := &batchpb.ListJobsResponse{}
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		if !strings.HasPrefix(name, r.GetParent()+"/jobs/") || name <= string(after) {
			continue
		}
		if len(out.Jobs) == size {
			last := out.Jobs[size-1].GetName()
			out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		out.Jobs = append(out.Jobs, s.jobs[name].jobView())
	}
	return out, nil
}

// operation is the cancelling or deleting of a job: it is done when the job has ended.
type operation struct {
	name, verb string
	job        *job
	created    time.Time
}

// operationView returns the operation as the API shows it. It is done once its job has ended, and then has the answer
// of its verb, which is an empty message. The lock is held.
func (op *operation) operationView() (*longrunningpb.Operation, error) {
	meta := &batchpb.OperationMetadata{
		CreateTime: timestamppb.New(op.created), Target: op.job.spec.Name, Verb: op.verb, ApiVersion: "v1",
	}

	out := &longrunningpb.Operation{Name: op.name}
	select {
	case <-op.job.done:
		answer := proto.Message(&batchpb.CancelJobResponse{})
		if op.verb == "delete" {
			answer = &emptypb.Empty{}
		}
		body, err := anypb.New(answer)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "encode response: %v", err)
		}
		out.Done = true
		out.Result = &longrunningpb.Operation_Response{Response: body}

		// With its job, or, if the job had finished before, at the moment it began.
		meta.EndTime = timestamppb.New(op.created)
		if op.job.finished.After(op.created) {
			meta.EndTime = timestamppb.New(op.job.finished)
		}
	default: // the job has not ended, so the operation is not done
	}

	var err error
	if out.Metadata, err = anypb.New(meta); err != nil {
		return nil, status.Errorf(codes.Internal, "encode metadata: %v", err)
	}
	return out, nil
}

// GetOperation returns an operation; clients poll it.
func (s *Server) GetOperation(_ context.Context, r *longrunningpb.GetOperationRequest) (*longrunningpb.Operation,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	op := s.ops[r.GetName()]
	if op == nil {
		return nil, notFound(r.GetName())
	}
	return op.operationView()
}
