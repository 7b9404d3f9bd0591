//go:build unix

package gcsemu

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/storage"

	"coppice/internal/must"
)

// TestMetadataKeepTheGeneration: changing them only increments the metageneration; a write makes a new object, whose
// metageneration begins at 1.
func TestMetadataKeepTheGeneration(t *testing.T) {
	w := start(t, Options{Unlimited: true})
	g := w.mustPut("a", "contents")
	w.mustPut("b", "x")
	o := w.b.Object("a")
	for i, update := range []storage.ObjectAttrsToUpdate{{Metadata: map[string]string{"k": "v"}},
		{ContentType: "text/plain"}} {
		a, err := o.If(storage.Conditions{MetagenerationMatch: int64(i + 1)}).Update(w.ctx, update)
		if err != nil || a.Generation != g || a.Metageneration != int64(i+2) {
			w.Fatalf("change %d of generation %d answered %+v, %v; want the same generation, and metageneration %d",
				i+1, g, a, err, i+2)
		}
	}
	a, err := o.Attrs(w.ctx)
	if err != nil || a.Generation != g || a.Metageneration != 3 || a.Metadata["k"] != "v" ||
		a.ContentType != "text/plain" {
		w.Errorf("after two changes of generation %d: %+v, %v; want it with metageneration 3, k=v and text/plain",
			g, a, err)
	}
	if text, err := w.read(o.Generation(g)); err != nil || text != "contents" {
		w.Errorf("generation %d reads %q, %v; want contents", g, text, err)
	}

	listed, err := w.b.Objects(w.ctx, nil).Next()
	if err != nil || listed.Generation != g || listed.Metageneration != 3 {
		w.Errorf("listed as %+v, %v; want generation %d and metageneration 3", listed, err, g)
	}
	if _, err := o.If(storage.Conditions{MetagenerationMatch: 1}).Update(w.ctx,
		storage.ObjectAttrsToUpdate{ContentType: "a/b"}); code(err) != http.StatusPreconditionFailed {
		w.Errorf("a change on the condition of the first metageneration: %v, want 412", err)
	}
	if status, body := w.do(http.MethodPatch, "/storage/v1/b/bucket/o/a", nil,
		`{"metadata": {"k": null, "l": "w"}}`); status != http.StatusOK || strings.Contains(body, `"k"`) ||
		!strings.Contains(body, `"l":"w"`) {
		w.Errorf("k removed and l added: %d %s, expected 200 and only l", status, body)
	}
	if next := w.mustPut("a", "more"); next <= g {
		w.Errorf("a write after the changes has generation %d, want one above %d", next, g)
	}
	if a, err := o.Attrs(w.ctx); err != nil || a.Metageneration != 1 {
		w.Errorf("after a write: %+v, %v; want metageneration 1", a, err)
	}
}

// TestMetagenerationsOutliveTheServer of a folder.
func TestMetagenerationsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	g := w.mustPut("a", "x")
	must.Get(w.b.Object("a").Update(w.ctx, storage.ObjectAttrsToUpdate{ContentType: "a/b"}))(t)
	w.server.Close()

	a, err := start(t, Options{Dir: dir}).b.Object("a").Attrs(w.ctx)
	if err != nil || a.Generation != g || a.Metageneration != 2 || a.ContentType != "a/b" {
		t.Errorf("another server of the folder has %+v, %v; want generation %d, metageneration 2 and a/b", a, err, g)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, recordsFolder, "x.json"), []byte("{"), 0o600))
	if _, err := Start(l, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("with a damaged record it starts with %v, want an error that names the file", err)
	}
}

// TestFields: an answer has the requested fields, for every kind of request.
func TestFields(t *testing.T) {
	w := start(t, Options{})
	w.mustPut("dir/a", "one")
	w.mustPut("dir/b", "three")
	must.Get(w.b.Object("dir/a").Update(w.ctx,
		storage.ObjectAttrsToUpdate{Metadata: map[string]string{"k": "v", "l": "w"}}))(t)
	const list, one = "/storage/v1/b/bucket/o?fields=", "/storage/v1/b/bucket/o/dir%2Fa?fields="
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", list + "items(name,size),nextPageToken", "",
			`{"items":[{"name":"dir/a","size":"3"},{"name":"dir/b","size":"5"}]}`},
		{"GET", list + "items/name,kind", "", `{"items":[{"name":"dir/a"},{"name":"dir/b"}],"kind":"storage#objects"}`},
		{"GET", list + "items/name,items(size)", "",
			`{"items":[{"name":"dir/a","size":"3"},{"name":"dir/b","size":"5"}]}`},
		{"GET", list + "items(name,metadata/k)", "",
			`{"items":[{"metadata":{"k":"v"},"name":"dir/a"},{"name":"dir/b"}]}`},
		{"GET", list + "prefixes,nextPageToken&delimiter=/", "", `{"prefixes":["dir/"]}`},
		{"GET", one + "name,metadata,metageneration", "",
			`{"metadata":{"k":"v","l":"w"},"metageneration":"2","name":"dir/a"}`},
		{"GET", one + "absent", "", `{}`},
		{"PATCH", one + "metageneration", `{"contentType":"a/b"}`, `{"metageneration":"3"}`},
		{"POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=c&fields=name,size", "four",
			`{"name":"c","size":"4"}`},
		{"POST", "/storage/v1/b/bucket/o/c/rewriteTo/b/bucket/o/d?fields=done,resource(name)", "",
			`{"done":true,"resource":{"name":"d"}}`},
		{"GET", "/storage/v1/b?project=p&fields=items/name", "", `{"items":[{"name":"bucket"}]}`},
	} {
		if status, got := w.do(c.method, c.path, nil, c.body); status != http.StatusOK ||
			strings.TrimSpace(got) != c.want {
			t.Errorf("%s %s: %d %s, want %s", c.method, c.path, status, got, c.want)
		}
	}

	status, at := w.do("POST", "/upload/storage/v1/b/bucket/o?uploadType=resumable&name=e&fields=size", nil, "{}")
	if status != http.StatusOK {
		t.Fatalf("beginning an upload: %d %s", status, at)
	}
	if status, got := w.do("PUT", at, http.Header{"Content-Range": {"bytes 0-1/2"}}, "ab"); status != http.StatusOK ||
		strings.TrimSpace(got) != `{"size":"2"}` {
		t.Errorf("the end of an upload: %d %s, want only its size", status, got)
	}

	for _, wrong := range []string{",", "items(", "items(name", "items)", "items/", "items(name))", "a//b",
		strings.Repeat("a(", 100)} {
		if status, got := w.do("GET", list+wrong, nil, ""); status != http.StatusBadRequest ||
			!strings.Contains(got, "invalid field selection") {
			t.Errorf("fields=%.20s: %d %.200s, want 400", wrong, status, got)
		}
	}
}
