//go:build unix

package gcsemu

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cloud.google.com/go/storage"
	"google.golang.org/api/iterator"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestMetagenerationsOutliveTheServer: a new server on the folder of an earlier one knows its objects' generations and
// metagenerations. With a damaged record it does not start, and names the file.
func TestMetagenerationsOutliveTheServer(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	g := w.mustPut("a", "x")
	w.server.Close()

	a, err := start(t, Options{Dir: dir}).b.Object("a").Attrs(w.ctx)
	if err != nil || a.Generation != g || a.Metageneration != 1 {
		t.Errorf("another server of the folder has %+v, %v; want generation %d, metageneration 1", a, err, g)
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, recordsFolder, "x.json"), []byte("{"), 0o600))
	if _, err := Start(l, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "x.json") {
		t.Errorf("with a damaged record it starts with %v, want an error that names the file", err)
	}
}

// TestListing: listings have the objects and prefixes that the service would give, for prefixes, delimiters and
// offsets. Among the objects are folders as gcloud and the console make them: empty objects whose names end in a slash.
func TestListing(t *testing.T) {
	all := []string{"a", "a/", "a/b", "a/c/d", "a/c/e", "a//x", "b-1", "b/", "z"}
	slices.Sort(all)
	w := start(t, Options{})
	for _, name := range all {
		w.mustPut(name, "")
	}
	for _, c := range []struct {
		q    storage.Query
		want string
	}{
		{storage.Query{}, strings.Join(all, " ")},
		{storage.Query{Prefix: "a/"}, "a/ a//x a/b a/c/d a/c/e"},
		{storage.Query{Delimiter: "/"}, "a b-1 z a/ b/"},
		{storage.Query{Delimiter: "/", IncludeTrailingDelimiter: true}, "a a/ b-1 b/ z a/ b/"},
		{storage.Query{Delimiter: "/", Prefix: "a/"}, "a/ a/b a// a/c/"},
		{storage.Query{Delimiter: "/", Prefix: "b"}, "b-1 b/"},
		{storage.Query{Delimiter: "/", Prefix: "b/"}, "b/"},
		{storage.Query{Delimiter: "/", Prefix: "a/c"}, "a/c/"},
		{storage.Query{Delimiter: "/c", Prefix: "a"}, "a a/ a//x a/b a/c"},
		{storage.Query{Delimiter: "/", Prefix: "none/"}, ""},
		{storage.Query{StartOffset: "a/b", EndOffset: "b/"}, "a/b a/c/d a/c/e b-1"},
		{storage.Query{StartOffset: "a/b", Delimiter: "/"}, "b-1 z a/ b/"},
	} {
		if got := strings.Join(w.list(&c.q), " "); got != c.want {
			w.Errorf("list %+v: %s\nexpected %s", c.q, got, c.want)
		}
	}
}

// TestPages: a listing in pages of 1 to 5 entries gives the same as one without pages. The names are such that pages
// end before, within and after a prefix that is also an object.
func TestPages(t *testing.T) {
	w := start(t, Options{})
	for i := range 7 {
		w.mustPut(fmt.Sprintf("d%d/x", i), "")
		w.mustPut(fmt.Sprintf("d%d/y", i), "")
		w.mustPut(fmt.Sprintf("d%d", i), "")
		w.mustPut(fmt.Sprintf("d%d/", i), "")
	}
	for _, q := range []storage.Query{{}, {Delimiter: "/"}, {Delimiter: "/", IncludeTrailingDelimiter: true},
		{Prefix: "d3/"}} {
		want := slices.Sorted(slices.Values(w.list(&q)))
		for size := 1; size < 6; size++ {
			if got := w.pages(q, size); !slices.Equal(got, want) {
				w.Errorf("list %+v in pages of %d: %q\nexpected %q", q, size, got, want)
			}
		}
	}
}

// pages lists a bucket in pages of a size and returns all entries in order.
func (w *world) pages(q storage.Query, size int) []string {
	w.Helper()
	var got []string
	pager := iterator.NewPager(w.b.Objects(w.ctx, &q), size, "")
	for {
		var page []*storage.ObjectAttrs
		next, err := pager.NextPage(&page)
		if err != nil {
			w.Fatal(err)
		}
		for _, a := range page {
			got = append(got, a.Prefix+a.Name)
		}
		if next == "" {
			return slices.Sorted(slices.Values(got))
		}
	}
}

// TestLayouts: a data folder whose format has another number is refused before anything is written, and the error names
// the build that can read it. A new folder, or one of this format, is accepted and has a file with the number.
func TestLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		format, bucket string // contents of the file, and a file in the folder
		want           string // "" is read
	}{
		"new":    {},
		"hidden": {bucket: ".DS_Store"},
		"this":   {format: `{"format":2,"build":"v1"}`, bucket: "b/x"},
		"newer": {format: `{"format":3,"build":"v9.1"}`, bucket: "b/x",
			want: "format is 3 and this build reads 2: use localemu v9.1"},
		"nameless": {format: `{"format":3}`, bucket: "b/x",
			want: "use localemu of the build that wrote it, which reads it"},
		"empty":   {format: `{}`, bucket: "b/x", want: ".format: the number of its format is missing"},
		"null":    {format: `null`, bucket: "b/x", want: ".format: the number of its format is missing"},
		"damaged": {format: `{"format":`, want: ".format: unexpected end"},
	} {
		dir := filepath.Join(t.TempDir(), "gcs")
		for file, text := range map[string]string{formatFile: c.format, c.bucket: `{"bucket":{"name":"ctr"}}`} {
			if file == "" || text == "" {
				continue
			}
			path := filepath.Join(dir, file)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		}
		before := files(t, dir)
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		s, err := Start(l, Options{Dir: dir, Version: "v2"})
		if c.want != "" {
			must.Say(t, name, err, c.want)
			// Another number is a conflict. A file that cannot be read is not, and is named by the error.
			if after := files(t, dir); after != before ||
				problem.Is(err, problem.Conflict) == strings.HasPrefix(c.want, ".format:") {
				t.Errorf("%s: refused with %v, the files before were %s, after %s", name, err, before, after)
			}
			l.Close()
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v, want none", name, err)
			continue
		}
		s.Close()
		want := `{"format":2,"build":"v2"}` + "\n"
		if c.format != "" {
			want = c.format
		}
		if text, err := os.ReadFile(filepath.Join(dir, formatFile)); err != nil || string(text) != want {
			t.Errorf("%s: the folder says %s (%v), expected %s", name, text, err, want)
		}
	}
}

// files lists the paths of all that is below a folder; a folder that is not there has none.
func files(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("cannot list the emulator's files: %v", err)
	}
	return strings.Join(names, " ")
}

// TestPipes: a named pipe in the place of an object's contents is not an object, and one among the records is an error.
// Neither is read, which would wait for a writer for ever.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	w.mustPut("a", "x")
	w.server.Close()
	must.Do(t, os.Remove(filepath.Join(dir, "bucket", "a")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "bucket", "a"), 0o644))
	w = start(t, Options{Dir: dir})
	if left := w.list(nil); len(left) > 0 {
		t.Errorf("with a pipe for its contents, the objects are %q; want none", left)
	}
	w.server.Close()
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, recordsFolder, "pipe.json"), 0o644))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	if _, err := Start(l, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "a pipe") {
		t.Errorf("started with a pipe among the records: got %v, want an error that names it", err)
	}
}
