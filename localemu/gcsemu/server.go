// Package gcsemu is Google Cloud Storage on one machine, over files: the JSON API as Google's own clients for Go and
// Python use it, and the reads of the XML API, which are the Go client's default.
//
//	request -> routes (serve.go) -> scripted faults -> objects.go: preconditions, attributes, generations
//	                                                        -> upload.go: contents that arrive, whole or in chunks
//	                                                        -> disk.go: a file of contents and a record an object
//
// A write is one step: its contents arrive in a file of their own, and are renamed into place once preconditions and
// checksums hold. A reader opens the file at the moment at which it reads the record, so that contents always belong to
// the generation in the header. Generations never repeat.
//
// On disk an object is the file BUCKET/NAME, so that people find it; one whose name cannot be a path ("dir/", "a//b")
// or whose path is taken ("k" beside "k/b") is in the folder .odd. The folder .records has what is known of each.
//
// Not imitated:
//   - What only other clients ask for: writes by the XML API, form uploads, signed URLs, gzip-encoded requests, the
//     batch endpoint, gRPC, copies and compositions of objects, changes of their attributes.
//   - Object versioning, lifecycle rules, soft delete, retention, holds, access lists, IAM,
//     notifications, encryption keys, managed folders, hierarchical buckets, rate limits (429) but an object's.
//   - Settings of buckets other than their name: refused (501), as are softDeleted, filter and matchGlob in listings. A
//     location is accepted and has no effect; an object's class is reported, and has no costs.
//   - Partial responses: whatever fields a client asks for, it gets all.
//   - Names that differ only in their case, where the file system does not distinguish them.
//   - Any program on this machine may do anything. Requests that come from a web page or under another host name
//     are refused.
package gcsemu

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"coppice/localemu/internal/httpjson"
)

// Options say where objects are kept and which failures to inject.
type Options struct {
	// Dir keeps the buckets as folders, written by the build Version.
	Dir, Version string
	// Faults are the failures to inject.
	Faults Faults
	// Unlimited lets an object be written any number of times a second, as the service does not.
	Unlimited bool
	// OnWrite, if not nil, is called after every write of an object, before the writer is answered. No lock is held, so
	// it may take time.
	OnWrite func(bucket, object string)
	// Struck, if not nil, is called for every fault that strikes, with its class. It must not block.
	Struck func(class string)
	// Log, if not nil, gets what is worth knowing but no client is told.
	Log *slog.Logger
}

// Server is the emulator. Its address with http:// before it is the value for STORAGE_EMULATOR_HOST.
type Server struct {
	*httpjson.Listener
	opts                   Options
	writes, answers, reads *faultList

	// mu makes every write one step, and keeps a read's header and contents together.
	mu      sync.RWMutex
	buckets map[string]*bucket
	last    int64 // the generation given last, in microseconds since 1970

	sessions sessions
	newFile  func() (*os.File, error) // for what is being written; a test's disk is full
	refused  atomic.Pointer[refusal]  // the last one; nil for none
}

// Start reads the buckets in Options.Dir and starts to serve on the listener, in the background, until Close. After an
// error the listener is still the caller's.
func Start(l net.Listener, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.OnWrite == nil {
		o.OnWrite = func(string, string) {}
	}

	s := &Server{opts: o, writes: newFaultList("write refused", o.Faults.Write, o.Struck),
		answers: newFaultList("answer lost", o.Faults.Answer, o.Struck),
		reads:   newFaultList("read refused", o.Faults.Read, o.Struck),
		buckets: map[string]*bucket{}, sessions: sessions{open: map[string]*upload{}}}
	s.writes.limited = !o.Unlimited
	s.newFile = s.makeFile
	if err := s.loadRecords(); err != nil {
		return nil, fmt.Errorf("read the buckets in %s: %w", o.Dir, err)
	}
	s.Listener = httpjson.Serve(l, s.serve, o.Log)
	return s, nil
}

// Close ends all connections and forgets unfinished uploads. A second Close does nothing.
func (s *Server) Close() {
	s.Listener.Close()
	s.sessions.closeAll()
}

// CreateBucket makes the bucket; an existing one is left unchanged.
func (s *Server) CreateBucket(name string) error {
	if !bucketNamed(name) {
		return fmt.Errorf("bucket name %.80q: use 3 to 63 of a-z, 0-9, '-', '_' and '.'", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buckets[name] != nil {
		return nil
	}
	if err := s.addBucket(&bucket{Name: name}); err != nil {
		return fmt.Errorf("make bucket %s in %s: %w", name, filepath.Join(s.opts.Dir, name), err)
	}
	return nil
}

// HasBucket reports whether the bucket exists.
func (s *Server) HasBucket(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.buckets[name] != nil
}
