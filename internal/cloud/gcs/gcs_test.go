package gcs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"google.golang.org/api/option"

	"coppice/internal/blob"
	"coppice/internal/blob/blobtest"
	"coppice/internal/cloud"
	"coppice/internal/must"
	"coppice/internal/problem"
	"coppice/localemu/gcsemu"
)

// emulator starts an emulator with one bucket and returns its address.
func emulator(t *testing.T, o gcsemu.Options) string {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := must.Get(gcsemu.Start(l, o))(t)
	t.Cleanup(s.Close)
	must.Do(t, s.CreateBucket("bucket"))
	return s.Addr()
}

// connect is a client of the server at addr, as STORAGE_EMULATOR_HOST would make it, without the process-wide variable.
func connect(t *testing.T, addr string) *Client {
	t.Helper()
	c := must.Get(New(t.Context(), option.WithEndpoint("http://"+addr+"/storage/v1/"),
		option.WithoutAuthentication()))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestBehaviour: the client of Cloud Storage, with the emulator, behaves as every store does.
func TestBehaviour(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return connect(t, emulator(t, gcsemu.Options{Unlimited: true})).Bucket("bucket")
	})
}

var realBucket = flag.String("bucket", "",
	"a bucket of Google Cloud Storage on which to run the behaviour suite; what it writes under coppice-test/ stays "+
		"there")

// TestBehaviourOnRealBucket: a bucket of Google Cloud behaves as every other store.
func TestBehaviourOnRealBucket(t *testing.T) {
	if *realBucket == "" {
		t.Skip("SKIPPED: needs Google Cloud; run: go test ./internal/cloud/gcs -run RealBucket -bucket NAME")
	}
	c := must.Get(New(t.Context()))(t)
	t.Cleanup(func() { c.Close() })
	blobtest.Run(t, func(t *testing.T) blob.Store {
		return must.Get(blob.Sub(c.Bucket(*realBucket), "coppice-test/"+uuid.NewString()))(t)
	})
}

// TestEnvironmentVariable: the client connects to the emulator that STORAGE_EMULATOR_HOST names.
func TestEnvironmentVariable(t *testing.T) {
	t.Setenv("STORAGE_EMULATOR_HOST", emulator(t, gcsemu.Options{}))
	c := must.Get(New(t.Context()))(t)
	defer c.Close()
	b := c.Bucket("bucket")
	if created, err := blob.Create(t.Context(), b, "a/b c", []byte("x")); !created || err != nil {
		t.Fatalf("created a/b c: %t, error %v", created, err)
	}
	if data, _, err := blob.ReadAll(t.Context(), b, "a/b c", 10); err != nil || string(data) != "x" {
		t.Fatalf(`read through the address in the environment: got %q (error %v); want "x"`, data, err)
	}
}

// TestLostAnswers: when a write is carried out and its answer is lost, the client repeats it, and recognises the object
// as its own although the condition no longer holds. A condition that another writer broke still fails.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	// Both writes of lost/swap lose their answers, and so does the write of each other object.
	lose := []gcsemu.Fault{{Match: "lost/small", Times: 1, Status: 503}, {Match: "lost/long", Times: 1, Status: 503},
		{Match: "lost/swap", Times: 2, Status: 503}}
	b := connect(t, emulator(t, gcsemu.Options{Faults: gcsemu.Faults{Answer: lose}})).Bucket("bucket")
	for name, data := range map[string][]byte{"lost/small": []byte("small"), "lost/long": make([]byte, 3*smallPut)} {
		a, err := b.Put(t.Context(), name, blob.Absent, bytes.NewReader(data))
		if err != nil || a.Size != int64(len(data)) {
			t.Errorf("%s: put with a lost answer returned %+v (error %v); want all bytes stored", name, a, err)
		}
	}
	a := must.Get(b.Put(t.Context(), "lost/swap", blob.Absent, strings.NewReader("1")))(t)
	if _, err := b.Put(t.Context(), "lost/swap", a.Generation, strings.NewReader("2")); err != nil {
		t.Errorf("a swap whose answer is lost: %v; want no error", err)
	}
	if _, err := b.Put(t.Context(), "lost/swap", blob.Absent, strings.NewReader("3")); !errors.Is(err,
		blob.ErrPrecondition) {
		t.Errorf("created over somebody else's object: %v; want ErrPrecondition", err)
	}
}

// TestPassingErrorsAreRetried: the client repeats a write that is refused twice with 503, also one without a condition,
// and the caller sees no error.
func TestPassingErrorsAreRetried(t *testing.T) {
	t.Parallel()
	refuse := []gcsemu.Fault{{Match: "**", Times: 2, Status: 503}}
	b := connect(t, emulator(t, gcsemu.Options{Faults: gcsemu.Faults{Write: refuse}})).Bucket("bucket")
	if _, err := b.Put(t.Context(), "x", blob.Any, strings.NewReader("x")); err != nil {
		t.Fatalf("a write that is refused twice: got %v, want no error", err)
	}
}

// calls makes every kind of call to a bucket, and returns their errors.
func calls(t *testing.T, b blob.Store) map[string]error {
	t.Helper()
	_, stat := b.Stat(t.Context(), "x")
	_, _, open := b.Open(t.Context(), "x", blob.Range{})
	_, put := b.Put(t.Context(), "x", blob.Absent, strings.NewReader("x"))
	_, long := b.Put(t.Context(), "x", blob.Absent, bytes.NewReader(make([]byte, 2*smallPut)))
	var list error
	for _, list = range b.List(t.Context(), "") {
	}
	return map[string]error{"stat": stat, "open": open, "put": put, "long put": long, "list": list}
}

// TestMissingEnvironment: an emulator that is not running, missing credentials and a missing bucket are each a
// *cloud.SetupError that says what to do. Without an emulator all calls together take five seconds at most.
func TestMissingEnvironment(t *testing.T) {
	var setup *cloud.SetupError
	t.Run("emulator gone", func(t *testing.T) {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		addr := l.Addr().String()
		l.Close()
		began := time.Now()
		for what, err := range calls(t, connect(t, addr).Bucket("bucket")) {
			if !errors.As(err, &setup) || !strings.Contains(err.Error(), "localemu exec") {
				t.Errorf("%s with nobody there: %v; want a *cloud.SetupError that names localemu", what, err)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v to say so, want at most 5 s", took)
		}
	})
	t.Run("no credentials", func(t *testing.T) {
		t.Setenv("STORAGE_EMULATOR_HOST", "")
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent/key.json")
		_, err := New(t.Context())
		if !errors.As(err, &setup) || !strings.Contains(err.Error(), "gcloud auth application-default login") {
			t.Errorf("without credentials: got error %v; want one of the setup that advises `gcloud auth "+
				"application-default login`", err)
		}
	})
	t.Run("no bucket", func(t *testing.T) {
		for what, err := range calls(t, connect(t, emulator(t, gcsemu.Options{})).Bucket("absent")) {
			if !errors.As(err, &setup) || !strings.Contains(err.Error(), "gs://absent") {
				t.Errorf("%s: got error %v; want one of the setup that names gs://absent", what, err)
			}
		}
	})
}

// fake is a bucket of a server whose answers handler writes. It ends with the test.
func fake(t *testing.T, handler http.HandlerFunc) *bucket {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	u := must.Get(url.Parse(s.URL))(t)
	b, ok := connect(t, u.Host).Bucket("bucket").(*bucket)
	if !ok {
		t.Fatal("the store of a bucket is not a *bucket")
	}
	return b
}

// TestRefusals: missing permissions (403) and credentials (401) are errors of their kind from every call.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, target := range map[int]any{403: new(*cloud.PermissionError), 401: new(*cloud.SetupError)} {
		b := fake(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"error":{"code":%d,"message":"no","errors":[{"reason":"x"}]}}`, code)
		})
		for what, err := range calls(t, b) {
			if !errors.As(err, target) {
				t.Errorf("%s answered with %d: got %v; want a %T", what, code, err, target)
			}
		}
	}
}

// TestStandingStill: calls to a server that accepts connections and never answers end with errTooLong or errStalled,
// and so does a read whose data stop coming.
func TestStandingStill(t *testing.T) {
	t.Parallel()
	quit := make(chan struct{})
	b := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("alt") == "media" { // begin, then stop
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
		}
		<-quit
	})
	t.Cleanup(func() { close(quit) }) // before the server closes
	b.limits.call, b.limits.stall = 100*time.Millisecond, 100*time.Millisecond
	_, err := b.Stat(t.Context(), "x")
	if !errors.Is(err, errTooLong) {
		t.Errorf("stat of a service that does not answer: %v; want that it took too long", err)
	}
	_, err = b.Put(t.Context(), "x", blob.Absent, strings.NewReader("x"))
	if !errors.Is(err, errTooLong) {
		t.Errorf("put to a service that does not answer: %v; want that it took too long", err)
	}
	_, err = b.Put(t.Context(), "x", blob.Absent, bytes.NewReader(make([]byte, 2*smallPut)))
	if !errors.Is(err, errStalled) {
		t.Errorf("long put to a service that does not answer: %v; want that it stalled", err)
	}
	for _, e := range b.List(t.Context(), "") {
		err = e
	}
	if !errors.Is(err, errStalled) {
		t.Errorf("list of a service that does not answer: %v; want that it stalled", err)
	}

	// The answer has to begin within the limit, also on a machine that does much else.
	b.limits.stall = 2 * time.Second
	rc, _ := must.Get2(b.Open(t.Context(), "x", blob.Range{}))(t)
	defer rc.Close()
	if _, err = io.ReadAll(rc); !errors.Is(err, errStalled) {
		t.Errorf("read of a service that stops: %v; want that it stalled", err)
	}
}

// TestOpenObjectIsNoStall: the clock of a transfer does not run between Open and the first Read, so a caller may take
// its time. That it runs while Read waits is what TestStandingStill shows.
func TestOpenObjectIsNoStall(t *testing.T) {
	b, ok := connect(t, emulator(t, gcsemu.Options{})).Bucket("bucket").(*bucket)
	if !ok {
		t.Fatal("the store of a bucket is not a *bucket")
	}
	must.Get(b.Put(t.Context(), "x", blob.Absent, strings.NewReader("contents")))(t)
	rc, _ := must.Get2(b.Open(t.Context(), "x", blob.Range{}))(t)
	defer rc.Close()
	if rc.(*objectReader).watch.timer.Stop() { // it is true if the clock was running
		t.Error("the clock runs before the first Read, want it to stand still")
	}
	if data := must.Get(io.ReadAll(rc))(t); string(data) != "contents" {
		t.Errorf("read %q, want contents", data)
	}
}

// TestSlowSourceIsNoStall: an upload whose source pauses for longer than the limit of a stalled transfer is completed.
func TestSlowSourceIsNoStall(t *testing.T) {
	b, ok := connect(t, emulator(t, gcsemu.Options{})).Bucket("bucket").(*bucket)
	if !ok {
		t.Fatal("the store of a bucket is not a *bucket")
	}
	b.limits.stall = time.Second
	slow := &slowReader{left: 2, pause: 1200 * time.Millisecond}
	a, err := b.Put(t.Context(), "slow", blob.Absent, slow)
	if err != nil || a.Size != 2<<20 {
		t.Fatalf("an upload from a slow source: got %+v (error %v); want all 2 MiB stored", a, err)
	}
}

// slowReader yields left MiB, and pauses before the last.
type slowReader struct {
	left  int
	pause time.Duration
	part  int
}

// Read yields whatever p holds, at most up to the end of the current MiB.
func (r *slowReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.part == 0 && r.left == 1 {
		<-time.After(r.pause)
	}
	n := min(len(p), 1<<20-r.part)
	if r.part += n; r.part == 1<<20 {
		r.part, r.left = 0, r.left-1
	}
	return n, nil
}

// TestAlteredOnTheWay: data that a proxy between client and server alters are noticed by their checksums: a download is
// damaged, and an upload fails and leaves no object.
func TestAlteredOnTheWay(t *testing.T) {
	t.Parallel()
	target := must.Get(url.Parse("http://" + emulator(t, gcsemu.Options{})))(t)
	var flip atomic.Bool
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if flip.Load() && r.In.Method == http.MethodPost {
				r.Out.Body = &flipper{ReadCloser: r.In.Body}
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if flip.Load() && r.Request.URL.Query().Get("alt") == "media" {
				r.Body = &flipper{ReadCloser: r.Body}
			}
			return nil
		},
	}
	b := fake(t, proxy.ServeHTTP)
	text := strings.Repeat("FLIPME ", 20)
	must.Get(b.Put(t.Context(), "good", blob.Absent, strings.NewReader(text)))(t)
	flip.Store(true)
	if data, _, err := blob.ReadAll(t.Context(), b, "good", 1<<20); !problem.Is(err, problem.Damaged) {
		t.Errorf("an object that is altered on every download: %q, error %v; want it to be damaged", data, err)
	}
	if _, err := b.Put(t.Context(), "bad", blob.Absent, strings.NewReader(text)); err == nil {
		t.Error("an altered upload was taken, want an error")
	}
	if _, err := b.Stat(t.Context(), "bad"); !errors.Is(err, blob.ErrNotExist) {
		t.Errorf("an altered upload was kept, want it absent: %v", err)
	}
}

// flipper flips a bit of FLIPME wherever it reads that.
type flipper struct{ io.ReadCloser }

func (f *flipper) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	if i := bytes.Index(p[:n], []byte("FLIPME")); i >= 0 {
		p[i] ^= 1
	}
	return n, err
}

// TestBrokenConnection: a read whose connection breaks after every MiB is resumed where it broke, and gives the whole
// object of 5 MiB.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	target := must.Get(url.Parse("http://" + emulator(t, gcsemu.Options{})))(t)
	proxy := &httputil.ReverseProxy{
		ErrorLog: log.New(io.Discard, "", 0), // it would tell of every cut
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("alt") == "media" {
				r.Body = &cut{ReadCloser: r.Body, left: 1 << 20}
			}
			return nil
		},
	}
	b := fake(t, proxy.ServeHTTP)
	data := bytes.Repeat([]byte("0123456789abcdef"), 5<<16)
	must.Get(b.Put(t.Context(), "long", blob.Absent, bytes.NewReader(data)))(t)
	got, _, err := blob.ReadAll(t.Context(), b, "long", 1<<30)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("read %d of %d bytes, %v; want all", len(got), len(data), err)
	}
}

// cut fails after so many bytes.
type cut struct {
	io.ReadCloser
	left int
}

// Read reads at most the bytes that are left, and fails when none are.
func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errors.New("cut")
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// TestForeignNamesAreLeftOut: objects whose names are not valid for blob.ValidName are not listed.
func TestForeignNamesAreLeftOut(t *testing.T) {
	t.Parallel()
	c := connect(t, emulator(t, gcsemu.Options{}))
	for _, name := range []string{"a/", "a//b", "a/b"} {
		w := c.c.Bucket("bucket").Object(name).NewWriter(t.Context())
		must.Do(t, w.Close())
	}
	var names []string
	for a, err := range c.Bucket("bucket").List(t.Context(), "") {
		must.Do(t, err)
		names = append(names, a.Name)
	}
	if len(names) != 1 || names[0] != "a/b" {
		t.Errorf("listed %q, want a/b alone", names)
	}
}

// TestNoRoom: status 413, by which the local cloud says that its disk is full, is a SetupError that says to free space.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	refuse := []gcsemu.Fault{{Match: "**", Times: 1, Status: http.StatusRequestEntityTooLarge}}
	b := connect(t, emulator(t, gcsemu.Options{Faults: gcsemu.Faults{Write: refuse}})).Bucket("bucket")
	_, err := b.Put(t.Context(), "x", blob.Any, strings.NewReader("x"))
	if setup := new(cloud.SetupError); !errors.As(err, &setup) || !strings.Contains(err.Error(), "free space") {
		t.Errorf("put where there is no room: got %v; want a SetupError that says to free space", err)
	}
}

// TestFoldersNeedNoCredentials: Open without a project looks for no credentials, and a bucket whose name is a path can
// be used. With a project it fails without credentials.
func TestFoldersNeedNoCredentials(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
	if _, err := Open(t.Context(), "p"); err == nil {
		t.Error("opened a project with a file of credentials that does not exist: no error, want one")
	}
	c := must.Get(Open(t.Context(), ""))(t)
	defer c.Close()
	if created, err := blob.Create(t.Context(), c.Bucket(t.TempDir()), "a", []byte("x")); !created || err != nil {
		t.Errorf("create in a folder, without credentials: created %t (error %v); want it created", created, err)
	}
}
