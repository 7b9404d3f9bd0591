package batchemu

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"coppice/localemu/internal/proc"
)

// Options say where the pretend machines' folders are and what runs on them.
type Options struct {
	// Dir is the data folder: machines/JOB/vm-K/ while a job runs, machines-report/JOB.json after it.
	Dir string
	// LogDir gets JOB/task-I.attempt-A.log; "" is Dir/logs.
	LogDir string
	// Images maps the names of container images to local programs or, with Containers, to the tool's names of images.
	Images map[string]string
	// Names are by which a local program is called for an image, where one program is several.
	Names map[string]string
	// Containers is the tool that runs tasks as containers of their images, one of ContainerTools; "" runs local
	// programs.
	Containers string
	// Environ is the environment of that tool, which finds its own storage there and passes none of it on.
	Environ []string
	// TaskEnv, if not nil, returns what a service account's task, by its index, has in its environment beside its job's
	// variables, NAME=VALUE: where the other emulators are. It must not call back.
	TaskEnv func(account string, index int) []string
	// Rights are asked before every call, and on behalf of every task; nil allows everything.
	Rights Rights
	// Notify publishes what a job's notifications ask for; with nil, jobs that have notifications are refused. It must
	// neither block nor call back.
	Notify func(Notification)
	// Faults are the failures to inject.
	Faults Faults
	// Struck, if not nil, is called for every fault that strikes, with its class. It must neither block nor call back.
	Struck func(class string)
	// Grace is how long a stopped task may take to end by itself; 0 is 10 s.
	Grace time.Duration
	// Keep makes jobs outlive the server, in Dir/jobs: Resume takes them up.
	Keep bool
	// SampleEvery is how often the machines' memory is measured; 0 is 250 ms.
	SampleEvery time.Duration
	// Log, if not nil, gets what is worth knowing but no client is told.
	Log *slog.Logger
}

// Server is the emulator. Close ends it with everything that runs on it.
type Server struct {
	batchpb.UnimplementedBatchServiceServer
	longrunningpb.UnimplementedOperationsServer

	opts     Options
	machines string // folder of all machines, without symbolic links
	procs    *proc.Set
	grpc     *grpc.Server
	addr     string
	closing  chan struct{}
	served   sync.WaitGroup
	ending   sync.Mutex // held by Close and Restart

	mu        sync.Mutex // guards everything below, and all jobs, tasks and machines
	closed    bool
	away      bool            // for a moment: Restart
	jobs      map[string]*job // by name
	messages  int             // published so far, as passed to Published
	creations map[string]*job // the job each request made, by parent and request id
	ops       map[string]*operation
	serial    int // numbers machines and operations
}

// maxMessage bounds a request: Batch itself rejects jobs over 1 MB.
const maxMessage = 4 << 20

// Start serves on the listener until Close. It removes what earlier machines left in the data folder.
func Start(l net.Listener, o Options) (*Server, error) {
	if o.LogDir == "" {
		o.LogDir = filepath.Join(o.Dir, "logs")
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.SampleEvery == 0 {
		o.SampleEvery = 250 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.TaskEnv == nil {
		o.TaskEnv = func(string, int) []string { return nil }
	}
	if o.Struck == nil {
		o.Struck = func(string) {}
	}

	machines, err := emptyFolder(filepath.Join(o.Dir, "machines"))
	if err != nil {
		return nil, fmt.Errorf("prepare the folder of the pretend machines: %w", err)
	}

	s := &Server{
		opts:      o,
		machines:  machines,
		procs:     proc.NewSet(),
		addr:      l.Addr().String(),
		closing:   make(chan struct{}),
		jobs:      map[string]*job{},
		creations: map[string]*job{},
		ops:       map[string]*operation{},
	}

	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.UnaryInterceptor(s.authorize))
	batchpb.RegisterBatchServiceServer(s.grpc, s)
	longrunningpb.RegisterOperationsServer(s.grpc, s)
	s.Open(l)
	return s, nil
}

// Open serves at another address as well.
func (s *Server) Open(l net.Listener) {
	s.served.Go(func() {
		if err := s.grpc.Serve(l); err != nil {
			s.opts.Log.Error("batch emulator ended", "error", err)
		}
	})
}

// emptyFolder makes the folder, removes what is in it, and returns its path as the kernel shows it in /proc.
func emptyFolder(path string) (string, error) {
	if err := os.RemoveAll(path); err != nil {
		return "", err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// Addr is host:port.
func (s *Server) Addr() string { return s.addr }

// Close kills every task, waits until all jobs have ended and stops serving. A second Close does nothing.
func (s *Server) Close() {
	s.ending.Lock()
	defer s.ending.Unlock()
	if jobs, open := s.halt(false); open {
		for _, j := range jobs {
			j.release() // again: a process that outlived its job may have written a new folder where the machine's was
		}
		s.grpc.Stop()
		s.served.Wait()
	}
}

// halt kills every task and waits until all jobs have ended. It returns the jobs, and false if the server had been
// closed before.
func (s *Server) halt(away bool) (jobs []*job, open bool) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, false
	}

	s.closed, s.away = true, away
	close(s.closing)
	for _, j := range s.jobs {
		jobs = append(jobs, j)
	}
	s.mu.Unlock()

	s.procs.Close()
	for _, j := range jobs {
		<-j.done
	}
	return jobs, true
}

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
	"CancelJob": "batch.jobs.delete", "GetTask": "batch.tasks.get",
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
