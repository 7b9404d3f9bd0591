//go:build unix

package gcsemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"coppice/internal/must"
)

// world is an emulator with a real client.
type world struct {
	*testing.T
	ctx    context.Context
	server *Server
	b      *storage.BucketHandle
}

// start starts an emulator with a bucket and a client that does not retry. Both end with the test.
func start(t *testing.T, o Options) *world {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := must.Get(Start(l, o))(t)
	t.Cleanup(s.Close)
	must.Do(t, s.CreateBucket("bucket"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	c := must.Get(storage.NewClient(ctx, storage.WithJSONReads(),
		option.WithEndpoint("http://"+s.Addr()+"/storage/v1/"),
		option.WithoutAuthentication()))(t)
	t.Cleanup(func() { c.Close() })
	c.SetRetry(storage.WithMaxAttempts(1))
	return &world{t, ctx, s, c.Bucket("bucket")}
}

// put writes an object and returns its generation.
func (w *world) put(o *storage.ObjectHandle, data string) (int64, error) {
	writer := o.NewWriter(w.ctx)
	must.Get(io.WriteString(writer, data))(w)
	if err := writer.Close(); err != nil {
		return 0, err
	}
	return writer.Attrs().Generation, nil
}

// mustPut is put of an object by its name; an error fails the test.
func (w *world) mustPut(name, data string) int64 {
	w.Helper()
	return must.Get(w.put(w.b.Object(name), data))(w)
}

// read returns the contents of an object.
func (w *world) read(o *storage.ObjectHandle) (string, error) {
	r, err := o.NewReader(w.ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

// code is the HTTP status of a client's error: 200 for none, and -1 for an error that has none.
func code(err error) int {
	var api *googleapi.Error
	if errors.As(err, &api) {
		return api.Code
	}
	if err != nil {
		return -1
	}
	return 200
}

// TestPreconditions: every kind of call fails with 412 if it asks for a generation that is no longer the object's, and
// those that write also if they ask for the object to be absent. None of them has changed the object.
func TestPreconditions(t *testing.T) {
	w := start(t, Options{Unlimited: true})
	old := w.mustPut("head", "1")
	now := w.mustPut("head", "2")
	stale := w.b.Object("head").If(storage.Conditions{GenerationMatch: old})
	fresh := w.b.Object("head").If(storage.Conditions{GenerationMatch: now})
	absent := storage.Conditions{DoesNotExist: true}
	attempts := map[string]func(*storage.ObjectHandle) error{
		"read":   func(o *storage.ObjectHandle) error { _, err := w.read(o); return err },
		"range":  func(o *storage.ObjectHandle) error { _, err := o.NewRangeReader(w.ctx, 0, 1); return err },
		"attrs":  func(o *storage.ObjectHandle) error { _, err := o.Attrs(w.ctx); return err },
		"delete": func(o *storage.ObjectHandle) error { return o.Delete(w.ctx) },
		"upload": func(o *storage.ObjectHandle) error { _, err := w.put(o, "3"); return err },
	}
	for name, try := range attempts {
		if err := try(stale); code(err) != http.StatusPreconditionFailed {
			w.Errorf("%s at a stale generation: got %v, want status 412", name, err)
		}
		if err := try(w.b.Object("head").If(absent)); name != "read" && name != "range" && name != "attrs" &&
			code(err) != http.StatusPreconditionFailed {
			w.Errorf("%s if absent: got %v, want status 412", name, err)
		}
	}
	if data, err := w.read(fresh); data != "2" || err != nil {
		w.Errorf("after the stale attempts: read %q, %v; want 2", data, err)
	}
	if err := fresh.Delete(w.ctx); err != nil {
		w.Errorf("delete at the object's generation: got %v, want none", err)
	}
}

// TestGenerationsAreUnique: of 320 writes of the same contents by eight goroutines no two have one generation.
func TestGenerationsAreUnique(t *testing.T) {
	w := start(t, Options{Unlimited: true})
	var mu sync.Mutex
	seen := map[int64]bool{}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 40 {
				g, err := w.put(w.b.Object(fmt.Sprintf("o%d", i%3)), "same")
				mu.Lock()
				if err != nil || seen[g] {
					w.Errorf("generation %d again, or %v", g, err)
				}
				seen[g] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

// do sends a request as it is, without a client library, and returns the status and the body; if the answer has a
// Location, that in place of the body, without the host. A Host in the header replaces the server's.
func (w *world) do(method, path string, header http.Header, body string) (int, string) {
	w.Helper()
	r := must.Get(http.NewRequestWithContext(w.ctx, method, "http://"+w.server.Addr()+path, strings.NewReader(body)))(w)
	for k, v := range header {
		r.Header[k] = v
	}
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	must.Do(w, err)
	defer res.Body.Close()
	data := must.Get(io.ReadAll(res.Body))(w)
	if location := res.Header.Get("Location"); location != "" {
		return res.StatusCode, strings.TrimPrefix(location, "http://"+w.server.Addr())
	}
	return res.StatusCode, string(data)
}

// TestRefusedRequests: requests of web pages are refused with 403, those that are not imitated with 501, and all others
// that are wrong with Cloud Storage's own status.
func TestRefusedRequests(t *testing.T) {
	w := start(t, Options{})
	w.mustPut("a", "x")
	for _, c := range []struct {
		method, path string
		header       http.Header
		want         int
	}{
		{"GET", "/storage/v1/b/bucket/o/a?alt=media", http.Header{"Origin": {"https://example.com"}}, 403},
		{"GET", "/storage/v1/b/bucket/o/a?alt=media", http.Header{"Host": {"evil.example:80"}}, 403},
		{"POST", "/_internal/delete_all", nil, 501},
		{"POST", "/batch/storage/v1", nil, 501},
		{"GET", "/storage/v1/b/bucket?ifMetagenerationMatch=1", nil, 501},
		{"POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=z", http.Header{"Content-Encoding": {"gzip"}},
			501},
		{"POST", "/upload/storage/v1/b/bucket/o?uploadType=odd&name=z", nil, 400},
		{"POST", "/upload/storage/v1/b/absent/o?uploadType=media&name=z", nil, 404},
		{"GET", "/storage/v1/b/bucket/o/a?ifGenerationMatch=x", nil, 400},
		{"PUT", "/upload/storage/v1/b/bucket/o?upload_id=none", nil, 404},
		{"GET", "/storage/v1/b/bucket/o?matchGlob=*", nil, 501},
		{"GET", "/storage/v1/b/bucket/o?maxResults=-1", nil, 400},
		{"GET", "/storage/v1/b/bucket/o?pageToken=%25", nil, 400},
		{"GET", "/storage/v1/b/bucket/o?filter=contexts.a=b", nil, 501},
		{"GET", "/storage/v1/b/bucket/o?softDeleted=true", nil, 501},
		{"GET", "/storage/v1/b/bucket/o/a/acl", nil, 501},
		{"GET", "/storage/v1/b/bucket/iam", nil, 501},
		{"DELETE", "/storage/v1/b/bucket", nil, 409},
		{"GET", "/bucket/a", nil, 200},
		{"GET", "/bucket/a", http.Header{"X-Goog-If-Generation-Match": {"7"}}, 412},
		{"GET", "/storage/v1/b/" + strings.Repeat("b", 300) + "/o", nil, 400},
	} {
		if status, body := w.do(c.method, c.path, c.header, ""); status != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, status, body, c.want)
		}
	}

	// The parts of a bucket's name between dots have 1 to 63 characters.
	for name, want := range map[string]int{strings.Repeat("b", 63): 200, strings.Repeat("b", 64): 400,
		strings.Repeat("b", 300): 400, strings.Repeat("b.", 150) + "b": 400, "": 400, "../x": 400} {
		status, body := w.do("POST", "/storage/v1/b?project=p", nil, `{"name": "`+name+`"}`)
		if status != want || want == 400 && !strings.Contains(body, "Invalid bucket name") {
			t.Errorf("a bucket called %q: %d %s, want %d", name, status, body, want)
		}
	}
}

// TestResumable: a resumable upload takes chunks that are repeated or overlap, stores nothing of one that leaves a gap,
// says how much has arrived, and does not change once it is finished. The test sends the protocol's requests itself, as
// no client sends such ones on demand. 308 asks for more, 200 is the end.
func TestResumable(t *testing.T) {
	w := start(t, Options{})
	begin := "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=r"
	status, at := w.do("POST", begin, http.Header{"X-Upload-Content-Type": {"a/b"}}, `{"metadata":{"k":"v"}}`)
	if status != 200 {
		w.Fatalf("beginning an upload: got %d %s, want 200", status, at)
	}
	send := func(span, body string, want int) {
		w.Helper()
		if status, got := w.do("PUT", at, http.Header{"Content-Range": {span}}, body); status != want {
			w.Errorf("%s: %d %s, want %d", span, status, got, want)
		}
	}
	send("bytes */*", "", 308)
	send("bytes 0-3/*", "0123", 308)
	send("bytes 0-3/*", "0123", 308)    // its answer was lost
	send("bytes 2-5/*", "2345", 308)    // overlaps
	send("bytes 8-9/*", "89", 308)      // leaves a gap: nothing is stored
	send("bytes 6-x/*", "67", 400)      // nonsense
	send("bytes 6-9/8", "6789", 400)    // beyond its own total
	send("bytes 6-9/10", "6789", 200)   // the end
	send("bytes 6-9/10", "6789", 200)   // again
	send("bytes 0-9/10", "XXXXXX", 200) // a finished upload does not change

	data, err := w.read(w.b.Object("r"))
	if err != nil || data != "0123456789" {
		w.Errorf("reading the upload: got %q, %v; want 0123456789", data, err)
	}
	a, err := w.b.Object("r").Attrs(w.ctx)
	if err != nil || a.ContentType != "a/b" || a.Metadata["k"] != "v" {
		w.Errorf("the upload has %+v, %v; want the type a/b and the metadata k=v", a, err)
	}

	// An upload that is abandoned takes no more chunks.
	_, at = w.do("POST", begin, nil, "{}")
	send("bytes 0-3/*", "0123", 308)
	if status, _ := w.do("DELETE", at, nil, ""); status != 499 {
		w.Errorf("abandoning an upload: got %d, want 499", status)
	}
	send("bytes 4-4/5", "4", 404)

	// The checksum is not that of the contents.
	_, at = w.do("POST", begin, nil, `{"crc32c":"AAAAAA=="}`)
	send("bytes 0-3/4", "0123", 400)
}

// TestLongUploadSpills: an object of 11 MB is read back as it was written, in parts of 1 MiB or at once. A reader that
// has begun gets the old contents although the object is written anew meanwhile. No temporary file is left.
func TestLongUploadSpills(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	data := bytes.Repeat([]byte("0123456789abcdef"), 700_000) // 11 MB
	writer := w.b.Object("long").NewWriter(w.ctx)
	writer.ChunkSize = 1 << 20
	must.Get(writer.Write(data))(t)
	must.Do(t, writer.Close())
	if got, err := w.read(w.b.Object("long")); err != nil || got != string(data) {
		t.Errorf("an object written in parts: read %d bytes, %v; want what was written", len(got), err)
	}
	if status, body := w.do("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=media", nil,
		string(data)); status != 200 {
		t.Fatalf("an upload of %d bytes was answered with %d, expected 200: %s", len(data), status, body)
	}
	if got, err := w.read(w.b.Object("media")); err != nil || got != string(data) {
		t.Errorf("an object written at once: read %d bytes, %v; want what was written", len(got), err)
	}
	if _, err := w.put(w.b.Object("long").If(storage.Conditions{DoesNotExist: true}),
		string(data)); code(err) != http.StatusPreconditionFailed {
		t.Errorf("created over what is there: %v; want that the precondition failed", err)
	}
	before := must.Get(w.b.Object("long").NewReader(w.ctx))(t)
	defer before.Close()
	w.mustPut("long", "short") // while it is being read
	if got, err := io.ReadAll(before); err != nil || string(got) != string(data) {
		t.Errorf("a reader of the old contents got %d bytes, %v; want its %d bytes", len(got), err, len(data))
	}
	left, err := filepath.Glob(filepath.Join(dir, newFolder, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %q, %v; want none", left, err)
	}
}

// TestKeptOnDisk: after a restart an object has its contents and its generation, so that a write that asks for this
// generation passes.
func TestKeptOnDisk(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	g := w.mustPut("a/b c", "kept")
	w.server.Close()
	again := start(t, Options{Dir: dir})
	if data, err := again.read(again.b.Object("a/b c").Generation(g)); data != "kept" || err != nil {
		t.Errorf("after a restart the object reads %q, %v; expected kept", data, err)
	}
	if _, err := again.put(again.b.Object("a/b c").If(storage.Conditions{GenerationMatch: g}), "changed"); err != nil {
		t.Errorf("after a restart, writing at the generation of before: got %v, want none", err)
	}
}

// TestMatches: in patterns, * stands for a part of a name or some of one, and ** for any number of parts.
func TestMatches(t *testing.T) {
	for pattern, names := range map[string][2]string{ // that match, that do not
		"a/*":       {"a/b", "a/b/c"},
		"a/**":      {"a/b/c", "b/a"},
		"**/c":      {"a/b/c", "a/b/cc"},
		"a/**/z/*":  {"a/z/1", "a/b/z"},
		"a*/000[3]": {"abc/0003", "abc/0004"},
	} {
		split := func(s string) []string { return strings.Split(s, "/") }
		if !matches(split(pattern), split(names[0])) || matches(split(pattern), split(names[1])) {
			t.Errorf("the pattern %s: expected it to match %s and not %s", pattern, names[0], names[1])
		}
	}
}

// FuzzContentRange: no Content-Range makes the parser crash or return a negative beginning or size.
func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-1/*", "bytes */7", "bytes 5-9/10", ""} {
		f.Add(s, int64(5))
	}
	f.Fuzz(func(t *testing.T, text string, have int64) {
		if have < 0 {
			return
		}
		from, total, err := parseContentRange(text, have)
		if err == nil && (from < 0 || total < -1) {
			t.Fatalf("%q: from %d, total %d; want an error, since neither can be negative", text, from, total)
		}
	})
}

// FuzzRequest sends arbitrary requests: nothing is ever written outside of the buckets, and nothing panics.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/upload/storage/v1/b/bucket/o?uploadType=multipart", "multipart/related; boundary=x",
		"--x\r\n\r\n{\"name\":\"a\"}\r\n--x\r\n\r\nhello\r\n--x--")
	f.Add("PUT", "/storage/v1/b/bucket/o/a", "application/json", "{}")
	f.Add("POST", "/storage/v1/b/bucket/o/a%2Fb/rewriteTo/b/bucket/o/..%2F..%2Fc", "", "")
	f.Add("GET", "/bucket/../../etc/passwd", "", "")
	dir := f.TempDir()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(f)
	s := must.Get(Start(l, Options{Dir: filepath.Join(dir, "gcs")}))(f)
	f.Cleanup(s.Close)
	must.Do(f, s.CreateBucket("bucket"))
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr()+target, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Host = s.Addr()
		r.Header.Set("Content-Type", contentType)
		s.serve(httptest.NewRecorder(), r)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s %s wrote outside of its folder: %v %v", method, target, entries, err)
		}
	})
}
