//go:build unix

package gcsemu

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"coppice/internal/must"
	"coppice/internal/sweep"
)

// TestFaults: a write that is refused twice is not there and passes the third time; one whose answer is lost is there.
// Faults that cannot be are refused.
func TestFaults(t *testing.T) {
	struck := map[string]int{}
	w := start(t, Options{
		Struck: func(class string) { struck[class]++ },
		Faults: Faults{
			Write:  []Fault{{Match: "sweeps/*/trials/0003/*", Times: 2, Status: 500}},
			Answer: []Fault{{Match: "lost/**", Times: 1}},
		},
	})
	o := w.b.Object("sweeps/s/trials/0003/result.json")
	for range 2 {
		if _, err := w.put(o, "x"); code(err) != 500 {
			t.Errorf("a write that is refused: got %v, want status 500", err)
		}
	}
	if _, err := o.Attrs(w.ctx); !errors.Is(err, storage.ErrObjectNotExist) {
		t.Errorf("a refused write: looking for it got %v, want that it is not there", err)
	}
	if _, err := w.put(o, "x"); err != nil {
		t.Errorf("the third time a write that is refused twice: got %v, want none", err)
	}
	if _, err := w.put(w.b.Object("lost/a/b"), "x"); code(err) != 503 {
		t.Errorf("a write whose answer is lost: %v; want status 503", err)
	}
	if data, err := w.read(w.b.Object("lost/a/b")); data != "x" || err != nil {
		t.Errorf("behind a lost answer: %q %v; want x", data, err)
	}
	if struck["write refused"] != 2 || struck["answer lost"] != 1 {
		t.Errorf("struck have %v, expected two refused writes and one lost answer", struck)
	}
	for _, bad := range []Fault{{Match: ""}, {Match: "["}, {Match: "a", Times: -1}, {Match: "a", Status: 200},
		{Match: "a", Delay: -1}, {Match: "a", Delay: 1, Status: 500}} {
		if bad.Check() == nil {
			t.Errorf("the fault %+v passed, want it refused", bad)
		}
	}
}

// TestReadFaults: a fault with times: 1 strikes the first read of an object that matches, by an error, a status of its
// own or a delay of 100 ms. The second read, and other objects, are not struck.
func TestReadFaults(t *testing.T) {
	const text, long = "abcdefghij", 100 * time.Millisecond
	for name, tc := range map[string]struct {
		fault Fault
		want  func(data string, err error, took time.Duration) bool
	}{
		"refused": {Fault{Times: 1}, func(_ string, err error, _ time.Duration) bool { return code(err) == 503 }},
		"status": {Fault{Times: 1, Status: 429},
			func(_ string, err error, _ time.Duration) bool { return code(err) == 429 }},
		"delayed": {Fault{Times: 1, Delay: sweep.Duration(long)},
			func(data string, err error, took time.Duration) bool {
				return data == text && err == nil && took >= long
			}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.fault.Match = "data/*"
			must.Do(t, tc.fault.Check())
			w := start(t, Options{Faults: Faults{Read: []Fault{tc.fault}}})
			o, other := w.b.Object("data/x"), w.b.Object("other")
			for _, o := range []*storage.ObjectHandle{o, other} {
				must.Get(w.put(o, text))(t)
			}
			if data, err := w.read(other); data != text || err != nil {
				t.Errorf("an object that does not match: %q, %v; want it whole", data, err)
			}
			began := time.Now()
			if data, err := w.read(o); !tc.want(data, err, time.Since(began)) {
				t.Errorf("the first read gave %q, %v after %s; want it to be struck", data, err, time.Since(began))
			}
			if data, err := w.read(o); data != text || err != nil {
				t.Errorf("the second read gave %q, %v; want it whole", data, err)
			}
		})
	}
}

// TestTooOften: the fault "always 429" refuses a second write of an object within a second. Another object is not
// refused, and the same write passes once the second is over.
func TestTooOften(t *testing.T) {
	const within = time.Second
	w := start(t, Options{Faults: Faults{Write: []Fault{{Match: "**", Status: 429}}}})
	began := time.Now()
	w.mustPut("hot", "1")
	w.mustPut("other", "1")
	_, err := w.put(w.b.Object("hot"), "2")
	if took := time.Since(began); took < within && code(err) != 429 {
		t.Errorf("a second write after %s ended with %v, expected 429", took, err)
	}
	for code(err) == 429 {
		_, err = w.put(w.b.Object("hot"), "2")
	}
	if took := time.Since(began); err != nil || took < within {
		t.Errorf("it was written after %s, %v; expected %s or more", took, err, within)
	}
}

// TestTheServicesLimit: without any fault, an object can be written five times at once and then once a second, and a
// write before that is refused in the service's words. Another object is not refused.
func TestTheServicesLimit(t *testing.T) {
	w := start(t, Options{})

	// Write until three writes have been refused; each refused one is repeated until it passes.
	began := time.Now()
	written, refused := 0, 0
	for ; refused < 3; written++ {
		_, err := w.put(w.b.Object("hot"), "1")
		for ; code(err) == 429; _, err = w.put(w.b.Object("hot"), "1") {
			if refused++; !strings.Contains(err.Error(), "exceeded the rate limit for object mutation operations") {
				t.Fatalf("the refusal says %v; expected the service's words", err)
			}
		}
		if took := time.Since(began); err != nil || took > time.Minute {
			t.Fatalf("write %d after %s: %v; expected five at once and then one a second", written, took, err)
		}
	}
	if took := time.Since(began); written < burst || took < time.Duration(written-burst)*time.Second {
		t.Errorf("written %d times in %s; expected at most %d at once and then one a second", written, took, burst)
	}
	w.mustPut("other", "1")
	if err := w.b.Object("other").Delete(w.ctx); err != nil {
		t.Errorf("deleting another object: got error %v, want none", err)
	}
}

// TestAlways: a fault without times strikes every request: here twenty reads.
func TestAlways(t *testing.T) {
	w := start(t, Options{Faults: Faults{Read: []Fault{{Match: "x"}}}})
	w.mustPut("x", "x")
	for range 20 {
		if _, err := w.read(w.b.Object("x")); code(err) != 503 {
			t.Fatalf("a read that is always refused ended with %v, want status 503", err)
		}
	}
}

// TestSettingsOfABucket: settings of a new bucket that localemu would have to ignore are answered with 501, and so are
// calls that it does not imitate. Clients do not retry on 501.
func TestSettingsOfABucket(t *testing.T) {
	w := start(t, Options{Dir: t.TempDir()})
	for settings, want := range map[string]int{
		`{"name": "plain", "location": "EU", "labels": {}, "storageClass": "STANDARD"}`: 200,
		`{"name": "nearline", "storageClass": "NEARLINE"}`:                              501,
		`{"name": "labelled", "labels": {"team": "ads"}}`:                               501,
		`{"name": "versioned", "versioning": {"enabled": true}}`:                        501,
		`{"name": "paid", "billing": {"requesterPays": true}}`:                          501,
		`{"name": `: 400,
	} {
		if status, answer := w.do(http.MethodPost, "/storage/v1/b?project=p", nil, settings); status != want {
			t.Errorf("making the bucket %s was answered with %d, expected %d: %s", settings, status, want, answer)
		}
	}
	w.mustPut("o", "x")
	for _, c := range [][2]string{{http.MethodPatch, "/storage/v1/b/bucket"}, {http.MethodPatch,
		"/storage/v1/b/bucket/o/o"}, {http.MethodPost, "/storage/v1/b/bucket/o/c/compose"}, {http.MethodPost,
		"/storage/v1/b/bucket/o/o/rewriteTo/b/bucket/o/c"}} {
		status, answer := w.do(c[0], c[1], nil, `{}`)
		if status != 501 || !strings.Contains(answer, "localemu does not") {
			t.Errorf("%s %s was answered with %d, expected 501: %s", c[0], c[1], status, answer)
		}
	}
}

// oddNames are names of objects that cannot be paths of files, or not beside each other in one folder.
var oddNames = []string{
	"dir/", "a//b", "/abs", "//", "k", "k/b", "k/b/c", "k/", "../escaped", "a/../../../escaped", "a/..", "a/./b", "./x",
	"...", ".hidden", ".hidden/x",
	"a.metadata", "a/.metadata", "per%2Fcent//x", "plus+/", "plus+//", strings.Repeat("x", 300),
	strings.Repeat("y", 245), strings.Repeat("/", 1024),
	strings.Repeat("日", 341), "tab\there//", "\x7f//",
}

// TestOddNames: objects of all odd names can be written, read, described, listed and deleted, all of them in one
// bucket, also after a restart, and no file lies outside of the server's folder.
func TestOddNames(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: filepath.Join(dir, "gcs")})
	everyName(w, oddNames)

	w.server.Close()
	w = start(t, Options{Dir: filepath.Join(dir, "gcs")})
	for _, name := range oddNames {
		if data, err := w.read(w.b.Object(name)); err != nil || data != "of "+name {
			t.Errorf("after a restart %.40q holds %.40q, %v; expected what was written", name, data, err)
		}
	}
	if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(found) != 1 {
		t.Errorf("outside of the buckets are %q, %v; expected their folder alone", found, err)
	}

	for _, name := range oddNames {
		if err := w.b.Object(name).Delete(w.ctx); err != nil {
			t.Errorf("delete %.40q: got error %v, want none", name, err)
		}
		if _, err := w.b.Object(name).Attrs(w.ctx); !errors.Is(err, storage.ErrObjectNotExist) {
			t.Errorf("after it was deleted, %.40q: got %v, want that it is not there", name, err)
		}
	}
	if left := w.list(nil); len(left) > 0 {
		t.Errorf("after all were deleted: %.80q, expected none", left)
	}
}

// everyName writes an object of each name twice, with the contents "of NAME" at last, and fails the test if one cannot
// be read, described and listed.
func everyName(w *world, names []string) {
	w.Helper()
	for _, name := range names {
		w.mustPut(name, "before")
		w.mustPut(name, "of "+name)
		if _, err := w.put(w.b.Object(name).If(storage.Conditions{DoesNotExist: true}),
			"again"); code(err) != http.StatusPreconditionFailed {
			w.Errorf("writing %.40q if it is absent: %v, expected 412", name, err)
		}
	}

	for _, name := range names {
		o := w.b.Object(name)
		if data, err := w.read(o); err != nil || data != "of "+name {
			w.Errorf("%.40q holds %.40q, %v; expected what was written", name, data, err)
		}
		a, err := o.Attrs(w.ctx)
		if err != nil || a.Name != name || a.Bucket != "bucket" || a.Size != int64(len("of "+name)) ||
			!strings.Contains(a.MediaLink, "/b/bucket/o/") {
			w.Errorf("%.40q is described as %+v, %v; expected its own name, size and links", name, a, err)
			continue
		}
	}
	sorted := slices.Sorted(slices.Values(names))
	if got := w.list(nil); !slices.Equal(got, sorted) {
		w.Errorf("listed are\n%.40q\nexpected\n%.40q", got, sorted)
	}
}

// list returns the names of the objects in a listing, and its prefixes.
func (w *world) list(q *storage.Query) []string {
	w.Helper()
	var names []string
	it := w.b.Objects(w.ctx, q)
	for {
		a, err := it.Next()
		if errors.Is(err, iterator.Done) {
			return names
		}
		if err != nil {
			w.Fatalf("list %+v: %v", q, err)
		}
		names = append(names, a.Prefix+a.Name)
	}
}

// TestImpossibleNames: names that the service does not accept for objects and buckets are answered with 400. The
// server itself makes no bucket of such a name either, of which each call would be refused.
func TestImpossibleNames(t *testing.T) {
	w := start(t, Options{})
	for _, name := range []string{"Upper", "a..b", strings.Repeat("b", 64)} {
		if w.server.CreateBucket(name) == nil {
			w.Errorf("made the bucket %.30q, want an error", name)
		}
	}
	for _, name := range []string{".", "..", "a\nb", "a\rb", "a\x00b", strings.Repeat("x", 1025)} {
		if _, err := w.put(w.b.Object(name), "x"); code(err) != http.StatusBadRequest {
			w.Errorf("put %.30q: %v, expected 400", name, err)
		}
		if status, answer := w.do(http.MethodGet, "/storage/v1/b/bucket/o/"+url.QueryEscape(name), nil,
			""); status != http.StatusBadRequest {
			w.Errorf("read %.30q: %d %s, expected 400", name, status, answer)
		}
	}
	for _, path := range []string{"/storage/v1/b/..%2F..%2Fx/o/a", "/storage/v1/b/../o/a",
		"/upload/storage/v1/b/..%2Fx/o?uploadType=media&name=a", "/storage/v1/b/bucket+/o/a"} {
		method := http.MethodGet
		if strings.HasPrefix(path, "/upload") {
			method = http.MethodPost
		}
		if status, _ := w.do(method, path, nil, ""); status != http.StatusBadRequest {
			w.Errorf("%s %s: status %d, expected 400", method, path, status)
		}
	}
}

// TestPathsAreNames: an object whose name can be a path is a file of this path in its bucket's folder, so that people
// find it. A folder whose objects were all deleted gives way to an object of its name.
func TestPathsAreNames(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	names := []string{"a", "sweeps/s-1/trials/0001/result.json", "per%2Fcent+x", "b/.hidden", "with space",
		"x/" + strings.Repeat("n", 200)}
	for _, name := range names {
		w.mustPut(name, "x")
		if _, err := os.Stat(filepath.Join(dir, "bucket", name)); err != nil {
			t.Errorf("%.40q: got error %v, want a file of that path", name, err)
		}
	}
	if odd, err := os.ReadDir(filepath.Join(dir, oddFolder)); err != nil || len(odd) > 0 {
		t.Errorf("kept elsewhere than under their names: %v, %v; expected none", odd, err)
	}

	// A folder without objects is replaced by a file.
	w.mustPut("f/x", "x")
	must.Do(t, w.b.Object("f/x").Delete(w.ctx))
	w.mustPut("f", "x")
	if info, err := os.Stat(filepath.Join(dir, "bucket", "f")); err != nil || info.IsDir() {
		t.Errorf("f, whose folder was empty: got error %v or a folder, want a file", err)
	}
}

// TestABucketOfOddNames: a bucket with an object of an odd name cannot be deleted (409). After the object is deleted it
// can, and no file is left.
func TestABucketOfOddNames(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	w.mustPut("dir/", "")
	if err := w.b.Delete(w.ctx); code(err) != http.StatusConflict {
		t.Errorf("deleting a bucket with dir/ in it: %v, expected 409", err)
	}
	must.Do(t, w.b.Object("dir/").Delete(w.ctx))
	if err := w.b.Delete(w.ctx); err != nil {
		t.Errorf("deleting an empty bucket: got %v, want none", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("files are left after the bucket was deleted: %q, %v", left, err)
	}
}
