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

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"coppice/internal/must"
)

// oddNames are names of objects that a folder with files cannot hold as they are, or not together.
var oddNames = []string{
	"dir/", "a//b", "/abs", "//", "k", "k/b", "k/b/c", "k/", "../escaped", "a/../../../escaped", "a/..", "a/./b", "./x",
	"...", ".hidden", ".hidden/x",
	"a.metadata", "a/.metadata", "per%2Fcent//x", "plus+/", "plus+//", strings.Repeat("x", 300),
	strings.Repeat("y", 245), strings.Repeat("/", 1024),
	strings.Repeat("日", 341), "tab\there//", "\x7f//",
}

// TestOddNames: every name that the service accepts works here, beside all others, and still does after a restart.
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
			t.Errorf("delete %.40q: %v", name, err)
		}
		if _, err := w.b.Object(name).Attrs(w.ctx); !errors.Is(err, storage.ErrObjectNotExist) {
			t.Errorf("after it was deleted %.40q is there: %v", name, err)
		}
	}
	if left := w.list(nil); len(left) > 0 {
		t.Errorf("after all were deleted: %.80q, expected none", left)
	}
}

// everyName writes objects of all names, and reads them in every way.
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
		if a, err = o.Update(w.ctx, storage.ObjectAttrsToUpdate{ContentType: "x/y"}); err != nil || a.Name != name ||
			a.ContentType != "x/y" {
			w.Errorf("%.40q with another type is %+v, %v", name, a, err)
		}
		c, err := w.b.Object("copies//" + name[:min(len(name), 900)]).CopierFrom(o).Run(w.ctx)
		if err != nil || c.Name != "copies//"+name[:min(len(name), 900)] || c.ContentType != "x/y" {
			w.Errorf("a copy of %.40q is %+v, %v", name, c, err)
		}
		if err := w.b.Object("copies//" + name[:min(len(name), 900)]).Delete(w.ctx); err != nil {
			w.Errorf("delete the copy of %.40q: %v", name, err)
		}
	}
	sorted := slices.Sorted(slices.Values(names))
	if got := w.list(nil); !slices.Equal(got, sorted) {
		w.Errorf("listed are\n%.40q\nexpected\n%.40q", got, sorted)
	}
}

// list is a listing, with prefixes as they are.
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

// TestImpossibleNames are rejected, as by the service.
func TestImpossibleNames(t *testing.T) {
	w := start(t, Options{})
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

// TestPathsAreNames: a name that can be a file's is one, so that people find it.
func TestPathsAreNames(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	names := []string{"a", "sweeps/s-1/trials/0001/result.json", "per%2Fcent+x", "b/.hidden", "with space",
		"x/" + strings.Repeat("n", 200)}
	for _, name := range names {
		w.mustPut(name, "x")
		if _, err := os.Stat(filepath.Join(dir, "bucket", name)); err != nil {
			t.Errorf("%.40q is not the path of its file: %v", name, err)
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
		t.Errorf("f is not a file where its folder was empty: %v", err)
	}
}

// TestABucketOfOddNames is not empty until its objects are gone, and leaves nothing behind.
func TestABucketOfOddNames(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	w.mustPut("dir/", "")
	if err := w.b.Delete(w.ctx); code(err) != http.StatusConflict {
		t.Errorf("deleting a bucket with dir/ in it: %v, expected 409", err)
	}
	must.Do(t, w.b.Object("dir/").Delete(w.ctx))
	if err := w.b.Delete(w.ctx); err != nil {
		t.Errorf("deleting an empty bucket: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("files are left after the bucket was deleted: %q, %v", left, err)
	}
}
