//go:build unix

package batchemu

import (
	"context"
	"fmt"
	"strings"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// operation is a long-running operation on a job: it is done when the job has ended.
type operation struct {
	name    string
	job     *job
	verb    string // cancel or delete
	created time.Time
}

// operate begins an operation on the job, unless begin refuses.
func (s *Server) operate(name, verb string, begin func(*job) error) (*longrunningpb.Operation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[name]
	if j == nil {
		return nil, notFound(name)
	}
	if err := begin(j); err != nil {
		return nil, err
	}

	s.serial++
	parent, _, _ := strings.Cut(name, "/jobs/")
	op := &operation{name: fmt.Sprintf("%s/operations/operation-%d", parent, s.serial), job: j, verb: verb,
		created: time.Now()}
	s.ops[op.name] = op
	return op.view()
}

func (op *operation) view() (*longrunningpb.Operation, error) {
	meta := &batchpb.OperationMetadata{
		CreateTime: timestamppb.New(op.created), Target: op.job.spec.Name, Verb: op.verb, ApiVersion: "v1",
	}

	out := &longrunningpb.Operation{Name: op.name}
	select {
	case <-op.job.done:
		var response proto.Message = &emptypb.Empty{}
		if op.verb == "cancel" {
			response = &batchpb.CancelJobResponse{}
		}
		body, err := anypb.New(response)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "encode response: %v", err)
		}
		out.Done = true
		out.Result = &longrunningpb.Operation_Response{Response: body}
		meta.EndTime = timestamppb.New(op.job.srv.endOf(op))
	default:
	}

	var err error
	if out.Metadata, err = anypb.New(meta); err != nil {
		return nil, status.Errorf(codes.Internal, "encode metadata: %v", err)
	}
	return out, nil
}

// endOf returns when the operation ended: at once if the job had finished before it began.
func (s *Server) endOf(op *operation) time.Time {
	if op.job.finished.After(op.created) {
		return op.job.finished
	}
	return op.created
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
	return op.view()
}
