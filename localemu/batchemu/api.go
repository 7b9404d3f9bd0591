//go:build unix

package batchemu

import (
	"context"
	"regexp"
	"strconv"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var (
	parentPattern = regexp.MustCompile(`^projects/[a-z0-9:.-]+/locations/[a-z0-9-]+$`)
	jobIDPattern  = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	taskPattern   = regexp.MustCompile(`^(projects/[^/]+/locations/[^/]+/jobs/[^/]+)/taskGroups/group0/tasks/(0|[1-9][0-9]{0,8})$`)
	groupPattern  = regexp.MustCompile(`^(projects/[^/]+/locations/[^/]+/jobs/[^/]+)/taskGroups/group0$`)
)

func notFound(name string) error {
	return status.Errorf(codes.NotFound, "Resource %q was not found", name)
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// CreateJob validates the job as Batch does and starts it. A repeated request id returns the job of the first request.
func (s *Server) CreateJob(_ context.Context, r *batchpb.CreateJobRequest) (*batchpb.Job, error) {
	if !parentPattern.MatchString(r.GetParent()) {
		return nil, invalid("parent %.200q is not projects/PROJECT/locations/LOCATION", r.GetParent())
	}

	id := r.GetJobId()
	if id == "" {
		id = "j-" + uuid.NewString()
	}
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
		return made.view(), nil // even if the job was deleted since
	}
	if err := s.admit(name, id); err != nil {
		return nil, err
	}

	j := newJob(s, id, complete(r.GetJob(), name, id, plan), plan)
	s.jobs[name] = j
	if r.GetRequestId() != "" {
		j.request = r.GetParent() + " " + r.GetRequestId()
		s.creations[j.request] = j
	}
	j.keep()

	view := j.view()
	go j.run()
	return view, nil
}

// admit refuses a job whose name or folder is taken. The lock is held.
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

func checkRequestID(id string) error {
	if id == "" {
		return nil
	}
	if u, err := uuid.Parse(id); err != nil || u == uuid.Nil || len(id) != 36 {
		return invalid("request_id %.80q is not a UUID other than the zero UUID", id)
	}
	return nil
}

// GetJob returns one job.
func (s *Server) GetJob(_ context.Context, r *batchpb.GetJobRequest) (*batchpb.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[r.GetName()]; j != nil {
		return j.view(), nil
	}
	return nil, notFound(r.GetName())
}

// CancelJob stops the job's tasks. Cancelling a finished job changes nothing; cancelling one that is already being
// cancelled or deleted is an error.
func (s *Server) CancelJob(_ context.Context, r *batchpb.CancelJobRequest) (*longrunningpb.Operation, error) {
	return s.operate(r.GetName(), "cancel", func(j *job) error {
		switch {
		case terminal(j.state):
			return nil
		case j.stopping:
			return status.Errorf(codes.FailedPrecondition, "Job %s is in state %s and cannot be cancelled", r.GetName(),
				j.state)
		}
		j.set(batchpb.JobStatus_CANCELLATION_IN_PROGRESS, "")
		j.askToStop()
		return nil
	})
}

// DeleteJob stops the job's tasks and removes the job.
func (s *Server) DeleteJob(_ context.Context, r *batchpb.DeleteJobRequest) (*longrunningpb.Operation, error) {
	return s.operate(r.GetName(), "delete", func(j *job) error {
		if j.deleted {
			return status.Errorf(codes.FailedPrecondition, "Job %s is already being deleted", r.GetName())
		}
		if terminal(j.state) {
			s.forget(r.GetName())
			return nil
		}

		j.deleted = true
		j.set(batchpb.JobStatus_DELETION_IN_PROGRESS, "")
		j.askToStop()
		return nil
	})
}

// forget removes a job. The request that made it is remembered, as Batch does for an hour: repeating it creates no job.
// The lock is held.
func (s *Server) forget(name string) {
	if j := s.jobs[name]; j != nil {
		s.forgetKept(j)
	}
	delete(s.jobs, name)
}

// GetTask returns one task.
func (s *Server) GetTask(_ context.Context, r *batchpb.GetTaskRequest) (*batchpb.Task, error) {
	m := taskPattern.FindStringSubmatch(r.GetName())
	if m == nil {
		return nil, invalid("name %.200q is not .../jobs/JOB/taskGroups/group0/tasks/INDEX", r.GetName())
	}
	index, err := strconv.Atoi(m[2])
	if err != nil {
		return nil, invalid("task index %.20q", m[2])
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[m[1]]
	if j == nil || index >= len(j.tasks) {
		return nil, notFound(r.GetName())
	}
	return j.taskView(j.tasks[index]), nil
}

// zonesOf returns the letters of a region's zones.
var zonesOf = []string{"a", "b", "c", "f"}

// places returns the zones in which the job's machines may be: the allowed ones, or all of the region.
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
