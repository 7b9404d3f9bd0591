//go:build unix

package gcsemu

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"cloud.google.com/go/storage"

	"coppice/internal/must"
)

// TestSettingsOfABucket are kept and returned, or rejected instead of silently dropped; a client does not retry on 501.
func TestSettingsOfABucket(t *testing.T) {
	w := start(t, Options{Dir: t.TempDir()})
	for settings, want := range map[string]int{
		`{"name": "plain", "location": "EU", "labels": {}, "storageClass": "STANDARD"}`: 200,
		`{"name": "nearline", "storageClass": "NEARLINE"}`:                              200,
		`{"name": "labelled", "labels": {"team": "ads"}}`:                               200,
		`{"name": "number", "labels": {"team": 1}}`:                                     400,
		`{"name": "versioned", "versioning": {"enabled": true}}`:                        501,
		`{"name": "paid", "billing": {"requesterPays": true}}`:                          501,
		`{"name": `: 400,
	} {
		if status, answer := w.do(http.MethodPost, "/storage/v1/b?project=p", nil, settings); status != want {
			t.Errorf("making the bucket %s was answered with %d, expected %d: %s", settings, status, want, answer)
		}
	}
	if status, answer := w.do(http.MethodPatch, "/storage/v1/b/bucket", nil,
		`{"lifecycle": {"rule": [{}]}}`); status != 501 || !strings.Contains(answer, "lifecycle") {
		t.Errorf("a lifecycle of a bucket that is there was answered with %d, expected 501 and its name: %s", status,
			answer)
	}
}

// TestSettingsAreKept after changes and a restart, and are removed with their bucket.
func TestSettingsAreKept(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	told := func(when, class string, labels map[string]string) {
		t.Helper()
		a, err := w.b.Attrs(w.ctx)
		if err != nil || a.StorageClass != class || !(len(labels) == 0 && len(a.Labels) == 0 ||
			reflect.DeepEqual(a.Labels, labels)) {
			t.Errorf("%s: class %s, labels %v, %v; expected %s and %v", when, a.StorageClass, a.Labels, err, class,
				labels)
		}
	}
	told("at first", "STANDARD", nil)

	var update storage.BucketAttrsToUpdate
	update.SetLabel("team", "ads")
	update.SetLabel("night", "1")
	update.StorageClass = "NEARLINE"
	if _, err := w.b.Update(w.ctx, update); err != nil {
		t.Fatalf("giving labels and a class: %v", err)
	}
	told("after a change", "NEARLINE", map[string]string{"team": "ads", "night": "1"})

	w.server.Close()
	w = start(t, Options{Dir: dir})
	told("after a restart", "NEARLINE", map[string]string{"team": "ads", "night": "1"})
	w.mustPut("o", "x")
	if a, err := w.b.Object("o").Attrs(w.ctx); err != nil || a.StorageClass != "NEARLINE" {
		t.Errorf("an object is of class %s, %v; expected the bucket's, NEARLINE", a.StorageClass, err)
	}

	var back storage.BucketAttrsToUpdate
	back.DeleteLabel("night")
	back.StorageClass = "STANDARD"
	if _, err := w.b.Update(w.ctx, back); err != nil {
		t.Fatalf("taking a label away: %v", err)
	}
	told("without a label", "STANDARD", map[string]string{"team": "ads"})

	must.Do(t, w.b.Object("o").Delete(w.ctx))
	must.Do(t, w.b.Delete(w.ctx))
	must.Do(t, w.b.Create(w.ctx, "p", nil))
	told("made again", "STANDARD", nil)
}

// TestComponents are counted through compositions of compositions, survive a change of the metadata, and do not affect
// other objects.
func TestComponents(t *testing.T) {
	w := start(t, Options{})
	for _, name := range []string{"a", "b", "c"} {
		w.mustPut(name, name)
	}
	compose := func(to string, of ...string) *storage.ObjectAttrs {
		w.Helper()
		var sources []*storage.ObjectHandle
		for _, name := range of {
			sources = append(sources, w.b.Object(name))
		}
		c := w.b.Object(to).ComposerFrom(sources...)
		c.ContentType = "text/plain"
		a, err := c.Run(w.ctx)
		if err != nil {
			w.Fatalf("compose %s of %v: %v", to, of, err)
		}
		return a
	}

	if a := compose("ab", "a", "b"); a.ComponentCount != 2 || len(a.MD5) > 0 || a.ContentType != "text/plain" ||
		a.Size != 2 {
		w.Errorf("a and b make %+v, expected 2 components, text/plain and no MD5", a)
	}
	if a := compose("odd//", "ab", "c", "ab"); a.ComponentCount != 5 || a.Name != "odd//" {
		w.Errorf("ab, c and ab make %+v, expected 5 components", a)
	}
	if a := compose("a", "a", "b"); a.ComponentCount != 2 {
		w.Errorf("a with b behind it is %+v, expected 2 components", a)
	}
	if data, err := w.read(w.b.Object("odd//")); err != nil || data != "abcab" {
		w.Errorf("the composition reads %q, %v; expected abcab", data, err)
	}
	if a, err := w.b.Object("ab").Update(w.ctx,
		storage.ObjectAttrsToUpdate{Metadata: map[string]string{"k": "v"}}); err != nil || a.ComponentCount != 2 ||
		a.Metageneration != 2 {
		w.Errorf("with other metadata: %+v, %v; expected 2 components still", a, err)
	}
	w.mustPut("ab", "new")
	if a, err := w.b.Object("ab").Attrs(w.ctx); err != nil || a.ComponentCount != 0 || len(a.MD5) == 0 {
		w.Errorf("written anew: %+v, %v; expected no components, and an MD5", a, err)
	}
}

// TestCopies take unset attributes from their source, and the class from their bucket.
func TestCopies(t *testing.T) {
	w := start(t, Options{})
	writer := w.b.Object("source").NewWriter(w.ctx)
	writer.ContentType, writer.Metadata, writer.StorageClass = "text/plain", map[string]string{"k": "v"}, "COLDLINE"
	if _, err := writer.Write([]byte("contents")); err != nil {
		w.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		w.Fatal(err)
	}

	plain, err := w.b.Object("plain").CopierFrom(w.b.Object("source")).Run(w.ctx)
	if err != nil || plain.ContentType != "text/plain" || plain.Metadata["k"] != "v" ||
		plain.StorageClass != "STANDARD" {
		w.Errorf("a copy is %+v, %v; expected text/plain, k=v and the bucket's class", plain, err)
	}
	c := w.b.Object("source").CopierFrom(w.b.Object("source"))
	c.StorageClass, c.ContentType = "NEARLINE", "a/b"
	moved, err := c.Run(w.ctx)
	if err != nil || moved.StorageClass != "NEARLINE" || moved.ContentType != "a/b" {
		w.Errorf("a copy of another class onto itself is %+v, %v; expected NEARLINE and a/b", moved, err)
	}
	if data, err := w.read(w.b.Object("source")); err != nil || data != "contents" {
		w.Errorf("it reads %q, %v; expected its contents", data, err)
	}
	if _, err := w.b.Object("other").CopierFrom(w.b.Object("source").Generation(7)).Run(w.ctx); code(err) != http.StatusNotFound {
		w.Errorf("a copy of a generation that is not there: %v, expected 404", err)
	}
}
