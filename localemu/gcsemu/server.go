//go:build unix

package gcsemu

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// Options say where objects are kept and which failures to inject.
type Options struct {
	// Dir keeps the buckets as folders; "" keeps them in memory.
	Dir string
	// Faults are the failures to inject.
	Faults Faults
	// OnWrite, if not nil, is called after every write of an object, before the writer is answered. No lock is held, so
	// it may take time.
	OnWrite func(bucket, object string)
	// Struck, if not nil, is called for every fault that strikes, with its class. It must not block.
	Struck func(class string)
	// Allow is asked before every call, with the address that was called; nil allows everything. See Server.Open.
	Allow func(at net.Addr, kind, name, permission string) error
	// Client, if not nil, names the client that calls at an address ("" if unknown), for faults that strike one client.
	// See Server.Open.
	Client func(at net.Addr) string
	// Log, if not nil, gets what is worth knowing but no client is told.
	Log *slog.Logger
}

// Server is the emulator.
type Server struct {
	fake   *fakestorage.Server
	inner  http.Handler // fake-gcs-server
	http   *http.Server
	addr   string
	dir    string
	log    *slog.Logger
	allow  func(at net.Addr, kind, name, permission string) error
	client func(at net.Addr) string
	served sync.WaitGroup
	faults *faultState

	onWrite func(bucket, object string)

	// mu makes every write one step, and keeps a read's header and contents together.
	mu   sync.RWMutex
	last int64 // the generation given last, in microseconds since 1970, as fake-gcs-server makes them

	metas    *metas
	settings map[string]settings // of buckets
	uploads  uploads
}

// Start serves on the listener until Close.
func Start(l net.Listener, o Options) (*Server, error) {
	addr := l.Addr().String()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}

	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("prepare the folder of the buckets: %w", err)
		}
	}
	if o.Allow == nil {
		o.Allow = func(net.Addr, string, string, string) error { return nil }
	}

	if o.Client == nil {
		o.Client = func(net.Addr) string { return "" }
	}

	described, err := openMetas(o.Dir)
	if err != nil {
		return nil, err
	}
	given, err := openSettings(o.Dir)
	if err != nil {
		return nil, err
	}
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener:  true,
		StorageRoot: o.Dir,
		Scheme:      "http",
		PublicHost:  addr,
		ExternalURL: "http://" + addr,
	})
	if err != nil {
		return nil, fmt.Errorf("start fake-gcs-server: %w", err)
	}

	s := &Server{fake: fake, inner: fake.HTTPHandler(), addr: addr, dir: o.Dir, log: o.Log, metas: described,
		settings: given, allow: o.Allow, client: o.Client, faults: newFaultState(o.Faults), onWrite: o.OnWrite}
	if s.onWrite == nil {
		s.onWrite = func(string, string) {}
	}
	if o.Struck != nil {
		s.faults.struck = o.Struck
	}
	s.uploads.open = map[string]*session{}
	s.http = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	s.Open(l)
	return s, nil
}

// Open serves at another address as well.
func (s *Server) Open(l net.Listener) {
	s.served.Go(func() {
		if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("storage emulator ended", "error", err)
		}
	})
}

// Addr returns host:port; with http:// before it, that is the value for STORAGE_EMULATOR_HOST.
func (s *Server) Addr() string { return s.addr }

// CreateBucket makes the bucket; an existing one is left unchanged.
func (s *Server) CreateBucket(name string) error {
	if !bucketPattern.MatchString(name) {
		return fmt.Errorf("bucket name %.80q: use 3 to 63 of a-z, 0-9, '-', '_' and '.'", name)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasBucket(name) {
		return nil
	}
	s.fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: name})
	if !s.hasBucket(name) { // the call above has no error to return
		return fmt.Errorf("make bucket %s in %s", name, filepath.Join(s.dir, name))
	}
	return nil
}

// Close ends all connections and forgets unfinished uploads. A second Close does nothing.
func (s *Server) Close() {
	s.http.Close()
	s.served.Wait()
	s.uploads.closeAll()
}

// HasBucket reports whether the bucket exists.
func (s *Server) HasBucket(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.hasBucket(name)
}

// hasBucket is HasBucket with the lock held.
func (s *Server) hasBucket(name string) bool {
	_, err := s.fake.Backend().GetBucket(name)
	return err == nil
}

// generation returns the object's present generation, 0 if it does not exist. The lock is held.
func (s *Server) generation(bucket, object string) int64 {
	p := s.place(bucket, object)
	o, err := s.fake.GetObjectStreaming(p.bucket, p.name)
	if err != nil {
		return 0
	}
	o.Close()
	return o.Generation
}

// tick waits until the clock can give a generation that no object has had: fake-gcs-server takes the microsecond. It
// does not wait for a clock that was set back by more than a second. The lock is held.
func (s *Server) tick() {
	for {
		now := time.Now().UnixMicro()
		if now > s.last || s.last-now > time.Second.Microseconds() {
			return
		}
		time.Sleep(time.Microsecond)
	}
}

// ticked remembers the generation just given. The lock is held.
func (s *Server) ticked() { s.last = time.Now().UnixMicro() }
