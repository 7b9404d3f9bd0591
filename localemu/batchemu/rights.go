//go:build unix

package batchemu

import (
	"context"
	"fmt"
	"net"
	"strings"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// Rights decide who may do what. They are asked from any goroutine.
type Rights interface {
	// Allow returns nil if the caller of the address has the permission.
	Allow(at net.Addr, kind, name, permission string) error
	// AllowAccount returns nil if the service account has it; an empty one is the project's default account.
	AllowAccount(email, kind, name, permission string) error
}

// needs are the permissions on the project that calls require. There is none for cancelling, which the jobs editor may
// do and which counts as deleting. Source: https://cloud.google.com/iam/docs/roles-permissions/batch
var needs = map[string]string{
	"CreateJob": "batch.jobs.create", "GetJob": "batch.jobs.get", "ListJobs": "batch.jobs.list",
	"CancelJob": "batch.jobs.delete",
	"DeleteJob": "batch.jobs.delete", "GetTask": "batch.tasks.get", "ListTasks": "batch.tasks.list",
}

// authorize refuses calls that the caller has no right to make.
func (s *Server) authorize(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any,
	error) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away {
		return nil, status.Error(codes.Unavailable, "localemu: Batch is starting again")
	}
	if s.opts.Rights == nil {
		return next(ctx, req)
	}
	var at net.Addr
	if p, ok := peer.FromContext(ctx); ok {
		at = p.LocalAddr
	}

	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	permission, ok := needs[method]
	if !ok {
		permission = "batch." + method
	}

	err := s.opts.Rights.Allow(at, "project", "", permission)
	if r, creates := req.(*batchpb.CreateJobRequest); creates && err == nil {
		err = s.opts.Rights.Allow(at, "account", accountOf(r.GetJob()), "iam.serviceAccounts.actAs")
	}
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, err.Error())
	}
	return next(ctx, req)
}

func accountOf(j *batchpb.Job) string { return j.GetAllocationPolicy().GetServiceAccount().GetEmail() }

// account returns the service account that the job's tasks run as.
func (j *job) account() string { return accountOf(j.spec) }

// unfit returns why no task of a job of this account would ever start: the agent on the machine cannot report, or the
// image cannot be pulled. Batch waits a quarter of an hour for the agent; here the answer is immediate.
func (s *Server) unfit(account string) string {
	if s.opts.Rights == nil {
		return ""
	}
	if err := s.opts.Rights.AllowAccount(account, "project", "", "batch.states.report"); err != nil {
		return fmt.Sprintf("Job failed because no VM has agent reporting correctly within the time window: %v", err)
	}
	if err := s.opts.Rights.AllowAccount(account, "repository", "images",
		"artifactregistry.repositories.downloadArtifacts"); err != nil {
		return fmt.Sprintf("Job failed because the container image cannot be pulled: %v", err)
	}
	return ""
}
