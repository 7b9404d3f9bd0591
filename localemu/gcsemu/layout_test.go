//go:build unix

package gcsemu

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"coppice/internal/must"
	"coppice/internal/problem"
)

// TestLayouts: what another build has written is refused before anything is written, in a sentence that names the build
// that reads it; what this layout's builds wrote before it had a number is read.
func TestLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		format, bucket string // contents of the file, and a file in the folder
		want           string // "" is read
	}{
		"new":      {},
		"hidden":   {bucket: ".DS_Store"},
		"first":    {bucket: "coppice-registry/registry/_models/ctr.json", want: "format is 1 and this build reads 2: use localemu f886c52c47c5"},
		"unmarked": {bucket: ".records/0.json"},
		"this":     {format: `{"format":2,"build":"v1"}`, bucket: "b/x"},
		"newer":    {format: `{"format":3,"build":"v9.1"}`, bucket: "b/x", want: "format is 3 and this build reads 2: use localemu v9.1"},
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
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, expected %q", name, err, c.want)
			}
			if after := files(t, dir); after != before ||
				problem.Is(err, problem.Conflict) == strings.HasPrefix(c.want, ".format:") {
				t.Errorf("%s: refused with %v, the files before were %s, after %s", name, err, before, after)
			}
			l.Close()
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
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

func files(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		names = append(names, path)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// TestPipes: a pipe in the place of a file is an error, or no object, and nothing waits for its writer.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	w := start(t, Options{Dir: dir})
	w.mustPut("a", "x")
	w.server.Close()
	must.Do(t, os.Remove(filepath.Join(dir, "bucket", "a")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "bucket", "a"), 0o644))
	w = start(t, Options{Dir: dir})
	if left := w.list(nil); len(left) > 0 {
		t.Errorf("a pipe is the object %q", left)
	}
	w.server.Close()
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, recordsFolder, "pipe.json"), 0o644))
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	if _, err := Start(l, Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "a pipe") {
		t.Errorf("a pipe among the records: %v", err)
	}
}
