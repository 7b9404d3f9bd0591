package batchemu

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/batch/apiv1/batchpb"
	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/grpc"

	"coppice/localemu/internal/proc"
)

// Options say where the pretend machines' folders are and what runs on them.
type Options struct {
	// Dir is the data folder: machines/JOB/vm-K/ while a job runs.
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
	// TaskEnv is what a task's environment has in addition to its job's variables, as NAME=VALUE: where the other
	// emulators are.
	TaskEnv []string
	// Notify publishes what a job's notifications ask for; with nil, jobs that have notifications are refused. It must
	// neither block nor call back.
	Notify func(Notification)
	// Faults are the failures to inject.
	Faults Faults
	// Struck, if not nil, is called for every fault that strikes, with its class. It must neither block nor call back.
	Struck func(class string)
	// Grace is how long a stopped task may take to end by itself; 0 is 10 s.
	Grace time.Duration
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

	mu        sync.Mutex // guards everything below, and all jobs, tasks and machines
	closed    bool
	jobs      map[string]*job // by name
	creations map[string]*job // the job each request made, by parent and request id
	ops       map[string]*operation
	serial    int // numbers machines and operations
}

// maxMessage bounds a request: Batch itself rejects jobs over 1 MB.
const maxMessage = 4 << 20

// Start starts to serve on the listener, in the background, until Close. It removes what earlier machines left in the
// data folder. After an error the listener is still the caller's.
func Start(l net.Listener, o Options) (*Server, error) {
	if o.LogDir == "" {
		o.LogDir = filepath.Join(o.Dir, "logs")
	}
	if o.Grace == 0 {
		o.Grace = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
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

	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	batchpb.RegisterBatchServiceServer(s.grpc, s)
	longrunningpb.RegisterOperationsServer(s.grpc, s)
	s.served.Go(func() {
		if err := s.grpc.Serve(l); err != nil && err != grpc.ErrServerStopped { //nolint:errorlint // not wrapped
			o.Log.Error("batch emulator ended", "error", err)
		}
	})
	return s, nil
}

// emptyFolder makes a folder anew, removing what was in it, and returns its absolute path without symbolic links: the
// form in which the kernel shows it in /proc.
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
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.closing)
	jobs := slices.Collect(maps.Values(s.jobs))
	s.mu.Unlock()

	s.procs.Close()
	for _, j := range jobs {
		<-j.done
		j.release() // again: a process that outlived its job may have written a new folder where the machine's was
	}
	s.grpc.Stop()
	s.served.Wait()
}
